//! Sides from objects: policies, bindings and exceptions are loaded, all others belong to the cluster of the side.

use serde_json::Value as Json;

use kyvtest_go_compat::{
    diagnostic::{Severity, Sources},
    value::Document,
    yaml,
};
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Purpose},
};

use super::{Side, side::Setting};

impl Side {
    /// Reads a side from objects.
    ///
    /// # Errors
    /// What cannot be read, or why Kyverno or the API server rejects a policy.
    pub fn from_objects(objects: &[Json], discovery: &Discovery) -> Result<Self, String> {
        Self::from_objects_with(objects, discovery, &Setting::default())
    }

    /// Reads a side from objects, with more or less of Kyverno.
    ///
    /// # Errors
    /// What cannot be read, or why Kyverno or the API server rejects a policy.
    pub(crate) fn from_objects_with(
        objects: &[Json],
        discovery: &Discovery,
        setting: &Setting,
    ) -> Result<Self, String> {
        let (loaded, others) = load(objects)?;
        Self::with_setting(loaded, others, discovery, setting)
    }
}

/// Reads policies, bindings and exceptions from objects; all others are returned as they are.
///
/// # Errors
/// What cannot be read.
pub fn load(objects: &[Json]) -> Result<(Loaded, Vec<Document>), String> {
    let mut loaded = Loaded::default();
    let mut others = Vec::new();
    for object in objects {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let purpose = match (group, text("kind")) {
            ("kyverno.io" | "policies.kyverno.io", "PolicyException") => Purpose::Exceptions,
            ("kyverno.io" | "policies.kyverno.io", _)
            | (
                "admissionregistration.k8s.io",
                "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding",
            ) => Purpose::Policies,
            _ => {
                others.push(Document::from(object));
                continue;
            }
        };
        let json = object.to_string();
        let file = Sources::new().add("object.json", json.as_str());
        let stream = yaml::read(json.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
        policy::load(stream, file, purpose, &mut loaded);
    }
    let errors = loaded.diagnostics.iter();
    if let Some(problem) = errors.clone().find(|problem| problem.severity == Severity::Error) {
        return Err(problem.message.clone());
    }
    Ok((loaded, others))
}
