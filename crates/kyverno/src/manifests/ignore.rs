//! The fields that do not count when an object is compared with its manifest.
//!
//! Upstream counterpart: `ObjectFieldBindingList` of `k8s-manifest-sigstore`, its default configuration and Kyverno's
//! (`pkg/engine/resources/default-config.yaml`, 1.19).

use std::cell::OnceCell;

use kyvtest_go_compat::{regex::Regex, value::Data};
use kyvtest_model::kube::parse_api_version;

/// Fields by the objects that they are ignored in.
#[derive(Debug, Clone)]
pub(super) struct IgnoreFields {
    bindings: Vec<Binding>,
}

#[derive(Debug, Clone)]
struct Binding {
    /// Group, version, kind, name and namespace, each a pattern; none at all means every object.
    objects: Vec<[String; 5]>,
    fields: Vec<String>,
}

/// What both projects ignore by default, by kind. Patterns are found anywhere in a key.
const DEFAULTS: [(&str, &[&str]); 9] = [
    (
        "*",
        &[
            "metadata.managedFields.*",
            "metadata.resourceVersion",
            "metadata.selfLink",
            "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
            "metadata.annotations.namespace",
            "metadata.creationTimestamp",
            "metadata.generation",
            "metadata.uid",
            "metadata.finalizers",
            "metadata.labels.app.kubernetes.io/instance",
            "status",
            "metadata.namespace",
            "spec.containers.*.imagePullPolicy",
            "spec.containers.*.terminationMessagePath",
            "spec.containers.*.terminationMessagePolicy",
            "spec.dnsPolicy",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.terminationGracePeriodSeconds",
            "metadata.annotations.control-plane.alpha.kubernetes.io/leader",
            "metadata.annotations.deprecated.daemonset.template.generation",
            "metadata.annotations.deployment.kubernetes.io/revision",
        ],
    ),
    ("ServiceAccount", &["secrets.*.name", "imagePullSecrets.*.name"]),
    (
        "Pod",
        &[
            "spec.volumes.*.name",
            "spec.volumes.*.projected.*",
            "spec.volumes.*.configMap.defaultMode",
            "spec.containers.*.volumeMounts.*",
            "spec.tolerations.*",
            "spec.enableServiceLinks",
            "spec.preemptionPolicy",
            "spec.priority",
            "spec.serviceAccount",
        ],
    ),
    (
        "Deployment",
        &[
            "spec.progressDeadlineSeconds",
            "spec.revisionHistoryLimit",
            "spec.strategy.*",
            "spec.template.metadata.creationTimestamp",
            "spec.containers.*.ports.*.protocol",
            "spec.containers.*.resources",
            "spec.securityContext",
        ],
    ),
    (
        "CustomResourceDefinition",
        &["spec.conversion.strategy", "spec.names.listKind"],
    ),
    (
        "Service",
        &[
            "spec.ports.*.nodePort",
            "spec.clusterIP",
            "spec.clusterIPs.0",
            "spec.sessionAffinity",
            "spec.type",
            "spec.ipFamilies.*",
            "spec.ipFamilyPolicy",
            "spec.internalTrafficPolicy",
        ],
    ),
    ("ClusterPolicy", POLICY),
    ("Policy", POLICY),
    ("Route", &["spec.host"]),
];

const POLICY: &[&str] = &[
    "metadata.annotations.pod-policies.kyverno.io/autogen-controllers",
    "spec.failurePolicy",
    "spec.background",
    "spec.validationFailureAction",
];

impl IgnoreFields {
    /// The default fields, those of a rule, and the annotations that carry the signature.
    pub(super) fn new(written: Option<&Data>, domain: &str) -> Self {
        let text = |entry: &Data, key: &str| entry.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
        let mut bindings = Vec::new();
        for (kind, fields) in DEFAULTS {
            let group = if kind == "Route" { "route.openshift.io" } else { "" };
            bindings.push(Binding {
                objects: vec![[group, "", kind, "", ""].map(str::to_owned)],
                fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            });
        }
        for entry in written.and_then(Data::as_list).unwrap_or_default() {
            let objects = entry.get("objects").and_then(Data::as_list).unwrap_or_default();
            let fields = entry.get("fields").and_then(Data::as_list).unwrap_or_default();
            bindings.push(Binding {
                objects: objects
                    .iter()
                    .map(|object| ["group", "version", "kind", "name", "namespace"].map(|key| text(object, key)))
                    .collect(),
                fields: fields
                    .iter()
                    .filter_map(|field| field.as_str().map(str::to_owned))
                    .collect(),
            });
        }
        let names = ["message", "signature", "certificate", "bundle", "resourceBundleRef"];
        bindings.push(Binding {
            objects: Vec::new(),
            fields: names
                .iter()
                .map(|name| format!("metadata.annotations.{domain}/{name}*"))
                .collect(),
        });
        Self { bindings }
    }

    /// The patterns of the keys that do not count in an object.
    pub(super) fn patterns(&self, object: &Data) -> Vec<Pattern<'_>> {
        let text = |path: &[&str]| object.at(path).and_then(Data::as_str).unwrap_or_default();
        let (group, version) = parse_api_version(text(&["apiVersion"]));
        let place = [
            group,
            version,
            text(&["kind"]),
            text(&["metadata", "name"]),
            text(&["metadata", "namespace"]),
        ];
        let means = |patterns: &[String; 5]| patterns.iter().zip(place).all(|(pattern, text)| fits(pattern, text));
        let bindings = self.bindings.iter();
        let bindings = bindings.filter(|binding| binding.objects.is_empty() || binding.objects.iter().any(means));
        bindings
            .flat_map(|binding| &binding.fields)
            .map(|field| Pattern::new(field))
            .collect()
    }
}

/// A pattern of keys: a field and everything below it.
///
/// Upstream takes the text for a regular expression, with stars for anything, and finds it anywhere in a key.
pub(super) struct Pattern<'f> {
    field: &'f str,
    /// Whether its only special characters are points and stars: such a pattern needs no regular expression.
    is_plain: bool,
    regex: OnceCell<Option<Regex>>,
}

impl<'f> Pattern<'f> {
    fn new(field: &'f str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".*/-_".contains(&byte);
        Self {
            field,
            is_plain: field.bytes().all(plain),
            regex: OnceCell::new(),
        }
    }

    pub(super) fn matches(&self, key: &str) -> bool {
        // A point is one character, and neither a point nor a star matches the end of a line.
        if self.is_plain && key.is_ascii() && !key.contains('\n') {
            return finds(self.field, key.as_bytes());
        }
        let regex = self
            .regex
            .get_or_init(|| Regex::new(&format!("{}*", self.field).replace('*', ".*")).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(key))
    }
}

/// Whether the parts of a pattern between its stars are in a key, in this order.
fn finds(pattern: &str, key: &[u8]) -> bool {
    let mut rest = key;
    pattern.split('*').filter(|part| !part.is_empty()).all(|part| {
        let is_part = |window: &[u8]| {
            window
                .iter()
                .zip(part.bytes())
                .all(|(own, byte)| byte == b'.' || *own == byte)
        };
        let start = rest.windows(part.len()).position(is_part);
        if let Some(start) = start {
            rest = &rest[start + part.len()..];
        }
        start.is_some()
    })
}

/// Whether a pattern of an object's part fits: empty and `*` fit anything, a final star means a beginning.
fn fits(pattern: &str, text: &str) -> bool {
    let pattern = pattern.trim();
    match pattern {
        "" | "*" => true,
        "-" if text.is_empty() => true,
        pattern if pattern.ends_with('*') => text.starts_with(pattern.trim_end_matches('*')),
        pattern if pattern == text => true,
        pattern => pattern.contains(',') && pattern.split(',').any(|part| fits(part, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pattern without a regular expression matches what its regular expression does.
    #[test]
    fn plain_patterns_match_as_their_regular_expressions_do() {
        let fields = [
            "status",
            "spec.ports.*.nodePort",
            "a.*",
            "*",
            "spec.clusterIPs.0",
            "x**y",
            "metadata.uid*",
        ];
        let keys = [
            "status.phase",
            "spec.ports.0.nodePort",
            "a",
            "a.b",
            "specXports.1.nodePort",
            "xy",
            "x.y.z",
            "metadata.uids",
            "",
        ];
        for field in fields {
            let pattern = Pattern::new(field);
            assert!(pattern.is_plain);
            let regex = Regex::new(&format!("{field}*").replace('*', ".*"));
            for key in keys {
                let expected = regex.as_ref().is_ok_and(|regex| regex.is_match(key));
                assert_eq!(pattern.matches(key), expected, "{field} on {key}");
            }
        }
    }
}
