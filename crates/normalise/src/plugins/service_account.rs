//! The ServiceAccount plugin: account name, image pull secrets, token volume and mounts.
//!
//! Upstream counterpart: `plugin/pkg/admission/serviceaccount/admission.go`.
//!
//! Known deviation: the random part of the volume's name is `xxxxx`.

use kyvtest_go_compat::value::{List, Value};

use crate::{Cluster, Refused, Stage, node::Node, step::Decoded};

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";

pub(super) fn admit(decoded: &mut Decoded<'_>, cluster: &Cluster) -> Result<(), Refused> {
    let node = &mut decoded.node;
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str).to_owned();
    let forbidden =
        |message: String| Refused::new(Stage::Admission, format!("pods \"{name}\" is forbidden: {message}"));
    let namespace = node.at(&["metadata", "namespace"]).map_or("", Node::as_str).to_owned();
    if node
        .at(&["metadata", "annotations", "kubernetes.io/config.mirror"])
        .is_some()
    {
        return mirror_pod(node).map_err(forbidden);
    }
    let Some(spec) = node.get_mut("spec") else {
        return Ok(());
    };
    if spec.str("serviceAccountName").is_empty() {
        spec.set("serviceAccountName", "default");
        spec.set("serviceAccount", "default");
    }
    let account_name = spec.str("serviceAccountName").to_owned();
    let account = find(cluster, &namespace, &account_name);
    if account.is_none() && cluster.complete && account_name != "default" {
        return Err(forbidden(format!(
            "error looking up service account {namespace}/{account_name}: serviceaccount \"{account_name}\" not found"
        )));
    }
    let of_account = account.and_then(|account| account.get("automountServiceAccountToken")?.as_bool());
    let mounts = match spec.get("automountServiceAccountToken") {
        Some(own) => *own == Node::Bool(true),
        None => of_account.unwrap_or(true),
    };
    if mounts {
        mount_token(spec);
    }
    if let (true, Some(account)) = (spec.list("imagePullSecrets").is_empty(), account) {
        let secrets = items(account, "imagePullSecrets");
        let names: Vec<Node<'_>> = secrets.map(|secret| Node::of(secret).to_owned()).collect();
        if !names.is_empty() {
            spec.set("imagePullSecrets", Node::List(names));
        }
    }
    match account.filter(|account| enforces(*account)) {
        Some(account) => limit_secrets(spec, account, &account_name).map_err(forbidden),
        None => Ok(()),
    }
}

fn find<'c>(cluster: &'c Cluster, namespace: &str, name: &str) -> Option<Value<'c>> {
    cluster.named("ServiceAccount", namespace, name).or_else(|| {
        cluster
            .named("ServiceAccount", "", name)
            .filter(|found| found.at(&["metadata", "namespace"]).is_none())
    })
}

fn items<'v>(value: Value<'v>, field: &str) -> impl Iterator<Item = Value<'v>> {
    value
        .get(field)
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(List::iter)
}

fn enforces(account: Value<'_>) -> bool {
    let mark = account.at(&["metadata", "annotations", "kubernetes.io/enforce-mountable-secrets"]);
    let mark = mark.and_then(Value::as_str).unwrap_or("");
    matches!(mark, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// A mirror pod is not changed and may not refer to accounts or secrets.
fn mirror_pod(node: &Node<'_>) -> Result<(), String> {
    let Some(spec) = node.get("spec") else { return Ok(()) };
    if !spec.str("serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    let volumes = spec.list("volumes");
    let in_containers = containers(spec).any(|(_, container)| {
        container
            .list("env")
            .iter()
            .any(|env| env.at(&["valueFrom", "secretKeyRef"]).is_some())
            || container.list("envFrom").iter().any(|source| source.has("secretRef"))
    });
    if in_containers || !spec.list("imagePullSecrets").is_empty() || volumes.iter().any(|volume| volume.has("secret")) {
        return Err("a mirror pod may not reference secrets".to_owned());
    }
    let token = volumes
        .iter()
        .filter_map(|volume| volume.get("projected"))
        .any(|projected| {
            projected
                .list("sources")
                .iter()
                .any(|source| source.has("serviceAccountToken"))
        });
    if token {
        return Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned());
    }
    Ok(())
}

fn containers<'n, 'a>(spec: &'n Node<'a>) -> impl Iterator<Item = (&'static str, &'n Node<'a>)> {
    let init = spec
        .list("initContainers")
        .iter()
        .map(|container| ("init container", container));
    init.chain(spec.list("containers").iter().map(|container| ("container", container)))
}

fn mount_token(spec: &mut Node<'_>) {
    let existing = spec.list("volumes").iter().map(|volume| volume.str("name"));
    let existing = existing
        .filter(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned)
        .next();
    let name = existing.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}xxxxx"));
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        for container in spec.list_mut(field) {
            if container
                .list("volumeMounts")
                .iter()
                .any(|mount| mount.str("mountPath") == MOUNT_PATH)
            {
                continue;
            }
            let mut mount = Node::EMPTY;
            mount.set("name", name.clone());
            mount.set("readOnly", true);
            mount.set("mountPath", MOUNT_PATH);
            container.child_list("volumeMounts").push(mount);
            mounted = true;
        }
    }
    if existing.is_none() && mounted {
        let mut volume = Node::EMPTY;
        volume.set("name", name);
        volume.set("projected", token_source());
        spec.child_list("volumes").push(volume);
    }
}

/// A map of constants.
fn map<const N: usize>(entries: [(&'static str, Node<'static>); N]) -> Node<'static> {
    Node::Map(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn token_source() -> Node<'static> {
    let token = map([("expirationSeconds", Node::Int(3607)), ("path", Node::text("token"))]);
    let key = map([("key", Node::text("ca.crt")), ("path", Node::text("ca.crt"))]);
    let certificate = map([
        ("name", Node::text("kube-root-ca.crt")),
        ("items", Node::List(vec![key])),
    ]);
    let field = map([
        ("apiVersion", Node::text("v1")),
        ("fieldPath", Node::text("metadata.namespace")),
    ]);
    let file = map([("path", Node::text("namespace")), ("fieldRef", field)]);
    let sources = vec![
        map([("serviceAccountToken", token)]),
        map([("configMap", certificate)]),
        map([("downwardAPI", map([("items", Node::List(vec![file]))]))]),
    ];
    map([("sources", Node::List(sources)), ("defaultMode", Node::Int(420))])
}

/// Rejects secrets that the account does not list.
fn limit_secrets(spec: &Node<'_>, account: Value<'_>, account_name: &str) -> Result<(), String> {
    let listed = |field: &str, name: &str| {
        items(account, field).any(|secret| secret.get("name").and_then(Value::as_str) == Some(name))
    };
    let end = format!("is not allowed because service account {account_name} does not reference that secret");
    for volume in spec.list("volumes") {
        if let Some(secret) = volume
            .get("secret")
            .filter(|secret| !listed("secrets", secret.str("secretName")))
        {
            return Err(format!(
                "volume with secret.secretName=\"{}\" {end}",
                secret.str("secretName")
            ));
        }
    }
    for (what, container) in containers(spec) {
        let name = container.str("name");
        for env in container.list("env") {
            if let Some(secret) = env.at(&["valueFrom", "secretKeyRef"]).map(|secret| secret.str("name"))
                && !listed("secrets", secret)
            {
                let env = env.str("name");
                return Err(format!(
                    "{what} {name} with envVar {env} referencing secret.secretName=\"{secret}\" {end}"
                ));
            }
        }
        for source in container.list("envFrom") {
            if let Some(secret) = source.get("secretRef").map(|secret| secret.str("name"))
                && !listed("secrets", secret)
            {
                return Err(format!(
                    "{what} {name} with envFrom referencing secret.secretName=\"{secret}\" {end}"
                ));
            }
        }
    }
    for secret in spec.list("imagePullSecrets") {
        let name = secret.str("name");
        if !listed("imagePullSecrets", name) {
            return Err(format!(
                "imagePullSecret \"{name}\" is not allowed because service account {account_name} does not reference \
                 that imagePullSecret"
            ));
        }
    }
    Ok(())
}
