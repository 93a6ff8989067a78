//! Locations of a suite's parts, and stable identifiers of cases.

use rustc_hash::FxHashMap;

use super::{Case, Key, SuiteRun};
use crate::suite::Suite;
use kyvtest_go_compat::diagnostic::Span;

/// The locations of a suite's policies, rules and resources.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    /// Policies by name.
    policies: Vec<(String, Span)>,
    /// Rules by policy and name.
    rules: Vec<(String, String, Span)>,
    /// Of several with the same key, the first.
    resources: FxHashMap<Key, Span>,
}

impl SourceMap {
    /// `keys` are those of the suite's resources if they are known, in its order.
    pub(super) fn of(suite: &Suite, keys: &[Key]) -> Self {
        let mut places = Self::default();
        let loaded = &suite.policies;
        for policy in loaded.classic() {
            let name = &policy.metadata.name;
            places.policies.push((name.value.clone(), name.span));
            let rules = policy.spec.rules.iter().map(|rule| &rule.name);
            places
                .rules
                .extend(rules.map(|rule| (name.value.clone(), rule.value.clone(), rule.span)));
        }
        let others = loaded.policies.iter().filter(|policy| policy.as_classic().is_none());
        let names = others.map(|policy| &policy.metadata().name);
        places
            .policies
            .extend(names.map(|name| (name.value.clone(), name.span)));
        places.resources.reserve(suite.resources.len());
        for (number, resource) in suite.resources.iter().enumerate() {
            let key = keys.get(number).cloned();
            let span = resource.origin.span;
            let start = Span::point(span.file, span.start);
            places
                .resources
                .entry(key.unwrap_or_else(|| Key::of(resource)))
                .or_insert(start);
        }
        places
    }

    /// The location of a case's rule, or of its policy.
    pub fn policy(&self, case: &Case) -> Option<Span> {
        let wanted = case.rule.as_deref().map(written);
        let rule = self
            .rules
            .iter()
            .find(|(policy, rule, _)| *policy == case.policy && Some(rule.as_str()) == wanted);
        let policy = || self.policies.iter().find(|(policy, _)| *policy == case.policy);
        rule.map(|(.., span)| *span).or_else(|| policy().map(|(_, span)| *span))
    }

    pub fn resource(&self, case: &Case) -> Option<Span> {
        self.resources.get(&case.resource).copied()
    }
}

/// The rule's name without autogen's prefix.
pub(super) fn written(rule: &str) -> &str {
    rule.strip_prefix("autogen-cronjob-")
        .or_else(|| rule.strip_prefix("autogen-"))
        .unwrap_or(rule)
}

/// A stable identifier of a case, independent of row and line numbers: sixteen hexadecimal digits. Two rows with the
/// same check and expectation have the same identifier.
pub fn id(run: &SuiteRun, case: &Case) -> String {
    let key = &case.resource;
    let parts = [
        run.path.as_str(),
        case.name.as_deref().unwrap_or_default(),
        &case.policy,
        case.rule.as_deref().unwrap_or_default(),
        &key.api_version,
        &key.kind,
        &key.namespace,
        &key.name,
        case.operation.as_str(),
        case.expected,
    ];
    format!("{:016x}", fingerprint(&parts))
}

/// A hash of strings that is the same on every machine and in every version: FNV-1a with 64 bits, each string
/// terminated by a byte that cannot occur in it.
pub fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
