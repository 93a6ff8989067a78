//! MutatingPolicies for pod controllers.
//!
//! Upstream counterpart: `pkg/cel/policies/mpol/autogen` (Kyverno 1.19). Only match conditions and apply configurations are
//! rewritten; variables, JSON patches and annotations stay as they are.

use std::{fmt::Write as _, sync::LazyLock};

use super::validating::{Config, Target, for_controllers, match_constraints, regenerate};
use kyvtest_go_compat::{
    regex::Regex,
    yaml::{Edited, Entries, Graft, Items, Node, NodeId},
};
use kyvtest_model::policy::{MatchConstraints, MutatingPolicy, MutatingPolicySpec};

/// What was generated from a MutatingPolicy.
#[derive(Debug, Clone)]
pub struct MutatingVariant {
    /// Which of the two.
    pub config: Config,
    /// The controllers, sorted by group, version and resource.
    pub targets: Vec<Target>,
    /// The policy: everything as in the original but the spec.
    pub policy: MutatingPolicy,
}

/// The policies that are generated from a policy: that for CronJobs, then that for the others. Upstream's order is random.
pub fn mutating_variants(policy: &MutatingPolicy) -> Vec<MutatingVariant> {
    let constraints = policy.spec.match_constraints.as_ref();
    if !constraints.is_some_and(MatchConstraints::is_pods_only) {
        return Vec::new();
    }
    for_controllers(policy.spec.autogen.pod_controllers.as_deref(), |config, targets| {
        let spec = spec(&policy.spec, config, &targets)?;
        Some(MutatingVariant {
            config,
            targets,
            policy: MutatingPolicy { spec, ..policy.clone() },
        })
    })
}

fn spec(spec: &MutatingPolicySpec, config: Config, targets: &[Target]) -> Option<MutatingPolicySpec> {
    let keep = |_: &mut Edited| {};
    regenerate(&spec.source, &keep, |graft, field, value| {
        Some(match field {
            "matchConstraints" => match_constraints(graft, value, targets),
            "matchConditions" => conditions(graft, value, config),
            "mutations" => mutations(graft, value, config),
            _ => graft.copy(value),
        })
    })
}

/// A list of maps, each with one field rewritten.
fn rewrite_items<'t>(
    graft: &mut Graft<'t>,
    node: Node<'t>,
    field: &str,
    rewrite: &mut dyn FnMut(&mut Graft<'t>, Node<'t>) -> NodeId,
) -> NodeId {
    let mut items = Vec::new();
    for item in node.as_seq().into_iter().flat_map(Items::iter) {
        items.push(rewrite_field(graft, item, field, rewrite));
    }
    graft.list(node.span(), &items)
}

fn rewrite_field<'t>(
    graft: &mut Graft<'t>,
    node: Node<'t>,
    field: &str,
    rewrite: &mut dyn FnMut(&mut Graft<'t>, Node<'t>) -> NodeId,
) -> NodeId {
    let mut made = Vec::new();
    for entry in node.as_map().into_iter().flat_map(Entries::iter) {
        let value = if entry.key == field {
            rewrite(graft, entry.value)
        } else {
            graft.copy(entry.value)
        };
        made.push((entry.key, entry.key_span, value));
    }
    graft.map(node.span(), &made)
}

fn expression<'t>(graft: &mut Graft<'t>, node: Node<'t>, config: Config) -> NodeId {
    match node.as_str() {
        Some(text) => graft.string(node.span(), &convert(text, config)),
        None => graft.copy(node),
    }
}

fn conditions<'t>(graft: &mut Graft<'t>, node: Node<'t>, config: Config) -> NodeId {
    rewrite_items(graft, node, "expression", &mut |graft, node| {
        expression(graft, node, config)
    })
}

fn mutations<'t>(graft: &mut Graft<'t>, node: Node<'t>, config: Config) -> NodeId {
    rewrite_items(graft, node, "applyConfiguration", &mut |graft, node| {
        rewrite_field(graft, node, "expression", &mut |graft, node| {
            expression(graft, node, config)
        })
    })
}

/// `object`, `oldObject` or `Object`, followed by a field.
static FIELDS: LazyLock<[Option<Regex>; 3]> = LazyLock::new(|| {
    ["spec", r"metadata\.labels", r"metadata\.annotations"]
        .map(|field| Regex::new(&format!(r"\b(object|oldObject|Object)\.{field}")).ok())
});

/// An expression about a Pod as one about a controller. Braces in strings are counted as well.
fn convert(text: &str, config: Config) -> String {
    let template = config.template_path();
    let mut text = text.to_owned();
    for (pattern, field) in FIELDS.iter().zip(["spec", "metadata.labels", "metadata.annotations"]) {
        if let Some(pattern) = pattern {
            text = replace(pattern, &text, &format!("{template}.{field}"), field);
        }
    }
    wrap(&text, config).unwrap_or(text)
}

/// Puts a path in place of a field after each match.
fn replace(pattern: &Regex, text: &str, path: &str, field: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for span in pattern.find_all(text, None) {
        let end = span.end;
        out.push_str(&text[from..end - field.len()]);
        out.push_str(path);
        from = end;
    }
    out.push_str(&text[from..]);
    out
}

/// The content of the outer `Object{…}`, at the place of the pod template; `None` if the text starts otherwise.
fn wrap(text: &str, config: Config) -> Option<String> {
    let rest = text.trim().strip_prefix("Object")?;
    let content = rest.trim_start_matches([' ', '\t', '\r', '\n']).strip_prefix('{')?;
    let mut open = 1;
    let end = content.char_indices().find_map(|(at, c)| {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        (open == 0).then_some(at)
    });
    let end = end.filter(|end| *end > 0)?;
    let (inner, rest) = (&content[..end], &content[end + 1..]);
    let mut opening = String::from("Object{");
    let mut path = String::from("Object");
    for key in config.template_path().split('.') {
        path.push('.');
        path.push_str(key);
        // Writing into memory cannot fail.
        let _ = write!(opening, "{key}: {path}{{");
    }
    let closing = "}".repeat(config.template_path().split('.').count() + 1);
    Some(format!("{opening}{inner}{closing}{rest}"))
}
