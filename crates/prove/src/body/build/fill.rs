//! What an API server requires besides what formulas read: witnesses should be requests that a cluster admits.

use serde_json::{Value as Json, json};

use crate::objects::least;
use kyvtest_model::kube;

/// The least object of a kind that an API server accepts, without metadata.
pub(in crate::body) fn ordinary(resource: &kube::Resource) -> Json {
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    match (resource.group.as_str(), resource.object_kind.kind.as_str()) {
        ("", "PersistentVolumeClaim") => {
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        }
        ("", "PersistentVolume") => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"},
        }}),
        ("autoscaling", "HorizontalPodAutoscaler") => json!({"spec": {
            "minReplicas": 1, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "sample"},
        }}),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => json!({
            "roleRef": reference,
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        }),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => json!({"rules": [rule]}),
        ("networking.k8s.io", "Ingress") => json!({"spec": {
            "defaultBackend": {"service": {"name": "sample", "port": {"number": 80}}},
        }}),
        ("networking.k8s.io", "NetworkPolicy") => json!({"spec": {"podSelector": {}}}),
        ("policy", "PodDisruptionBudget") => {
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "sample"}}}})
        }
        ("storage.k8s.io", "StorageClass") => json!({"provisioner": "example.com/disks"}),
        ("scheduling.k8s.io", "PriorityClass") => json!({"value": 1}),
        _ => least(resource),
    }
}

/// Fills in what the API server requires of elements, so that a witness is one that a cluster admits.
pub(super) fn fill(value: &mut Json, key: &str) {
    match value {
        Json::Object(map) => {
            for (key, value) in map.iter_mut() {
                fill(value, key);
            }
            if matches!(key, "tcpSocket" | "httpGet") {
                map.entry("port".to_owned()).or_insert(json!(80));
            }
            if key == "hostPath" {
                map.entry("path".to_owned()).or_insert(json!("/data"));
            }
            if matches!(key, "secretKeyRef" | "configMapKeyRef") {
                map.entry("name".to_owned()).or_insert(json!("sample"));
                map.entry("key".to_owned()).or_insert(json!("sample"));
            }
        }
        Json::Array(items) => {
            let of_service = items.iter().any(|item| item.get("port").is_some());
            let several = items.len() > 1;
            for (position, item) in items.iter_mut().enumerate() {
                fill(item, key);
                let Json::Object(map) = item else { continue };
                let is_bare = map.keys().all(|own| own == "name");
                let has_key = map.contains_key("key");
                let is_service_port = map.contains_key("port") || map.contains_key("targetPort");
                let mut set = |name: &str, value: Json| {
                    map.entry(name.to_owned()).or_insert(value);
                };
                match key {
                    "containers" | "initContainers" | "ephemeralContainers" => {
                        let prefix = key.get(..1).unwrap_or("c");
                        set("name", json!(format!("{prefix}{position}")));
                        set("image", json!("nginx"));
                    }
                    "volumes" if is_bare => {
                        map.entry("name".to_owned()).or_insert(json!(format!("v{position}")));
                        // Without a source the server would make it an empty directory.
                        map.insert("downwardAPI".to_owned(), json!({}));
                    }
                    "tolerations" if !has_key => set("operator", json!("Exists")),
                    "volumes" | "env" => set("name", json!(format!("v{position}"))),
                    "subjects" => {
                        set("kind", json!("User"));
                        set("name", json!("jane"));
                        if map.get("kind").and_then(Json::as_str) == Some("ServiceAccount") {
                            map.entry("namespace".to_owned()).or_insert(json!("apps"));
                        } else {
                            map.entry("apiGroup".to_owned())
                                .or_insert(json!("rbac.authorization.k8s.io"));
                        }
                    }
                    "volumeMounts" => {
                        set("name", json!("v0"));
                        set("mountPath", json!(format!("/m{position}")));
                    }
                    "ports" if of_service => {
                        set("port", json!(8000 + position));
                        if several {
                            set("name", json!(format!("p{position}")));
                        }
                    }
                    "ports" if !is_service_port => set("containerPort", json!(8000 + position)),
                    "rules" if map.contains_key("verbs") || map.contains_key("resources") => {
                        map.entry("verbs".to_owned()).or_insert(json!(["get"]));
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
