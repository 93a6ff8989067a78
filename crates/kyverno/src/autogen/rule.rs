//! One rule of a ClusterPolicy or Policy, made into rules for pod controllers.

use super::{
    is_generated, message,
    rewrite::{self, Template},
};
use kyvtest_go_compat::yaml::{Edited, Entries, Graft, Items, Node, NodeId, Span};
use kyvtest_model::policy::{
    MatchResources, ResourceFilter, Rule,
    autogen::{CONTROLLERS, is_about_pods, is_pod},
};

/// Whether the pods of a controller are described by `spec.template`.
fn is_plain(kind: &str) -> bool {
    kind != "CronJob" && CONTROLLERS.contains(&kind)
}

/// What is generated from a rule for a list of controllers: at most one rule for all that have a pod template and one for
/// CronJobs.
pub(super) fn generate(rule: &Rule, controllers: &str, v2beta1: bool) -> Vec<Rule> {
    let mut generated = Vec::new();
    if is_generated(&rule.name.value) || !is_about_pods(rule) {
        return generated;
    }
    let listed: Vec<&str> = controllers.split(',').collect();
    let mut others: Vec<&str> = listed.iter().copied().filter(|kind| *kind != "CronJob").collect();
    others.sort_unstable();
    if others.iter().any(|kind| !kind.is_empty()) || others.len() > 1 {
        generated.extend(build(rule, Template::Pod, &plain_kinds(others), v2beta1));
    }
    // Upstream looks for the word anywhere in the list.
    if controllers.contains("CronJob") || controllers.contains("all") {
        generated.extend(build(rule, Template::CronJob, &["CronJob"], v2beta1));
    }
    generated
}

/// The known controllers of a list; the list itself if it has none.
fn plain_kinds(listed: Vec<&str>) -> Vec<&str> {
    if listed == ["all"] {
        return CONTROLLERS.into_iter().filter(|kind| is_plain(kind)).collect();
    }
    let known: Vec<&str> = listed.iter().copied().filter(|kind| is_plain(kind)).collect();
    if known.is_empty() { listed } else { known }
}

fn items<'t>(node: Node<'t>, key: &str) -> impl Iterator<Item = Node<'t>> {
    let items = node.get(key).and_then(Node::as_seq);
    items.into_iter().flat_map(Items::iter)
}

/// A field that is there and not null.
fn field<'t>(node: Node<'t>, key: &str) -> Option<Node<'t>> {
    node.get(key).filter(|value| !value.is_null())
}

/// `apps/v1/Deployment` for `Deployment`; what is unknown stays.
fn qualified(kind: &str) -> String {
    let group = match kind {
        "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet" => "apps/v1/",
        "Job" | "CronJob" => "batch/v1/",
        "ReplicationController" | "Pod" => "v1/",
        _ => "",
    };
    format!("{group}{kind}")
}

/// The name of a generated rule, of at most 63 bytes. A character that is cut in two becomes what Go's JSON makes of its
/// bytes.
fn generated_name(template: Template, name: &str) -> String {
    let prefix = match template {
        Template::Pod => "autogen",
        Template::CronJob => "autogen-cronjob",
    };
    let mut name = format!("{prefix}-{name}");
    if name.len() > 63 {
        let whole = (0..=63).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(whole);
        name.extend(std::iter::repeat_n('\u{fffd}', 63 - whole));
    }
    name
}

fn build(rule: &Rule, template: Template, kinds: &[&str], v2beta1: bool) -> Option<Rule> {
    let is_cel = keeps_cel(rule);
    let edit = |text: &mut Edited| {
        if is_cel {
            rewrite::cel(template, text);
        } else {
            rewrite::variables(template, text);
        }
    };
    let source = rule.source.node();
    let mut builder = Builder {
        graft: Graft::new(source.tree(), &edit),
        template,
        kinds,
    };
    let root = builder.rule(rule, source)?;
    Rule::read(builder.graft.finish(root), rule.source.file(), v2beta1)
}

/// Whether the generated rule is one in CEL: other ways to validate go first, and what is generated from them has nothing
/// else.
fn keeps_cel(rule: &Rule) -> bool {
    let Some(validate) = rule.validate.as_ref().filter(|validate| validate.cel.is_some()) else {
        return false;
    };
    let mutates = rule.mutate.as_ref().is_some_and(|mutate| {
        let node = mutate.node();
        field(node, "patchStrategicMerge").is_some() || items(node, "foreach").next().is_some()
    });
    let others = [
        &validate.pattern,
        &validate.deny,
        &validate.pod_security,
        &validate.any_pattern,
    ];
    let loops = validate.foreach.as_ref().and_then(|foreach| foreach.node().as_seq());
    mutates || !(others.into_iter().any(Option::is_some) || loops.is_some_and(|loops| !loops.is_empty()))
}

/// The parts of a generated rule.
struct Builder<'t> {
    graft: Graft<'t>,
    template: Template,
    kinds: &'t [&'t str],
}

/// The entries of a map in the making.
type Made<'t> = Vec<(&'t str, Span, NodeId)>;

impl<'t> Builder<'t> {
    fn rule(&mut self, rule: &Rule, source: Node<'t>) -> Option<NodeId> {
        let body = self.body(source)?;
        let mut made: Made<'t> = Vec::new();
        for entry in source.as_map()?.iter().filter(|entry| !entry.value.is_null()) {
            let value = match entry.key {
                "name" => self
                    .graft
                    .string(entry.value.span(), &generated_name(self.template, &rule.name.value)),
                "match" => self.block(entry.value, &rule.matches, false),
                "exclude" => match &rule.exclude {
                    Some(exclude) => self.block(entry.value, exclude, true),
                    None => continue,
                },
                "imageExtractors" | "generate" => continue,
                "preconditions" => self.conditions(entry.value),
                key if key == body.0 => body.1,
                _ => self.graft.copy(entry.value),
            };
            made.push((entry.key, entry.key_span, value));
        }
        Some(self.graft.map(source.span(), &made))
    }

    /// Takes over the fields of a map, some of them replaced or added.
    fn with(&mut self, node: Node<'t>, replaced: &[(&'static str, NodeId)]) -> NodeId {
        let mut made: Made<'t> = Vec::new();
        for entry in node.as_map().into_iter().flat_map(Entries::iter) {
            let new = replaced.iter().find(|(key, _)| *key == entry.key);
            let value = new.map_or_else(|| self.graft.copy(entry.value), |(_, value)| *value);
            made.push((entry.key, entry.key_span, value));
        }
        for (key, value) in replaced.iter().filter(|(key, _)| node.get(key).is_none()) {
            made.push((key, node.span(), *value));
        }
        self.graft.map(node.span(), &made)
    }

    /// A match or exclude block with the kinds of the controllers.
    fn block(&mut self, node: Node<'t>, block: &MatchResources, exclude: bool) -> NodeId {
        if !block.any.is_empty() {
            let any = self.filters(node, "any", &block.any);
            return self.with(node, &[("any", any)]);
        }
        if !block.all.is_empty() {
            let all = self.filters(node, "all", &block.all);
            return self.with(node, &[("all", all)]);
        }
        if exclude && block.inline.resources.kinds.is_empty() {
            return self.graft.copy(node);
        }
        self.filter(node)
    }

    fn filters(&mut self, node: Node<'t>, key: &str, filters: &[ResourceFilter]) -> NodeId {
        let mut made = Vec::with_capacity(filters.len());
        for (item, filter) in items(node, key).zip(filters) {
            let pods = filter.resources.kinds.iter().any(|kind| is_pod(&kind.text));
            made.push(if pods || self.template == Template::CronJob {
                self.filter(item)
            } else {
                self.graft.copy(item)
            });
        }
        let span = node.get(key).map_or(node.span(), Node::span);
        self.graft.list(span, &made)
    }

    /// A filter with the kinds of the controllers.
    fn filter(&mut self, node: Node<'t>) -> NodeId {
        let resources = field(node, "resources");
        let written = resources.and_then(|resources| field(resources, "kinds"));
        let span = written.or(resources).unwrap_or(node).span();
        let kinds: Vec<NodeId> = self
            .kinds
            .iter()
            .map(|kind| self.graft.string(span, &qualified(kind)))
            .collect();
        let kinds = self.graft.list(span, &kinds);
        let resources = match resources {
            Some(resources) => self.with(resources, &[("kinds", kinds)]),
            None => self.graft.map(span, &[("kinds", span, kinds)]),
        };
        self.with(node, &[("resources", resources)])
    }

    /// Rewrites the action of the rule; returns its section and the new tree. `None` if the rule cannot be converted.
    fn body(&mut self, rule: Node<'t>) -> Option<(&'static str, NodeId)> {
        if let Some(mutate) = field(rule, "mutate")
            && let Some(mutate) = self.mutate(mutate)
        {
            return Some(("mutate", mutate));
        }
        if let Some(validate) = field(rule, "validate")
            && let Some(validate) = self.validate(validate)
        {
            return Some(("validate", validate));
        }
        let images = field(rule, "verifyImages")?;
        Some(("verifyImages", self.graft.copy(images)))
    }

    fn mutate(&mut self, node: Node<'t>) -> Option<NodeId> {
        const PATCH: &str = "patchStrategicMerge";
        if let Some(patch) = field(node, PATCH) {
            let wrapped = self.wrap(patch);
            return Some(self.graft.map(node.span(), &[(PATCH, patch.span(), wrapped)]));
        }
        let foreach = field(node, "foreach")?;
        let mut made = Vec::new();
        for item in items(node, "foreach") {
            let mut entries: Made<'t> = self.kept(item, &["list", "context", "preconditions"]);
            let wrapped = match field(item, PATCH) {
                Some(patch) => self.wrap(patch),
                None => {
                    let nothing = self.graft.null(item.span());
                    self.wrap_made(item.span(), nothing)
                }
            };
            entries.push((PATCH, item.span(), wrapped));
            made.push(self.graft.map(item.span(), &entries));
        }
        if made.is_empty() {
            return None;
        }
        let made = self.graft.list(foreach.span(), &made);
        Some(self.graft.map(node.span(), &[("foreach", foreach.span(), made)]))
    }

    fn validate(&mut self, node: Node<'t>) -> Option<NodeId> {
        let mut made: Made<'t> = self.kept(
            node,
            &["failureAction", "failureActionOverrides", "allowExistingViolations"],
        );
        let (pivot, key, value, body) = if let Some(pattern) = field(node, "pattern") {
            ("pattern", "pattern", pattern, self.wrap(pattern))
        } else if let Some(deny) = field(node, "deny") {
            ("deny", "deny", deny, self.deny(deny))
        } else if let Some(standard) = field(node, "podSecurity") {
            let kept = self.kept(standard, &["level", "version", "exclude"]);
            let body = self.graft.map(standard.span(), &kept);
            ("podSecurity", "podSecurity", standard, body)
        } else if let Some(patterns) = field(node, "anyPattern") {
            let wrapped: Vec<NodeId> = items(node, "anyPattern").map(|pattern| self.wrap(pattern)).collect();
            // Without any pattern upstream's list is nil, and nothing is left to make a rule for CronJobs from.
            if wrapped.is_empty() && self.template == Template::CronJob {
                return None;
            }
            if wrapped.is_empty() {
                made.extend(self.shifted(node, "anyPattern"));
                return Some(self.graft.map(node.span(), &made));
            }
            let body = self.graft.list(patterns.span(), &wrapped);
            ("anyPattern", "anyPattern", patterns, body)
        } else if let Some(foreach) = field(node, "foreach").filter(|_| items(node, "foreach").next().is_some()) {
            let mut made = Vec::new();
            for item in items(node, "foreach") {
                let conditions = field(item, "preconditions").map(|node| ("preconditions", self.conditions(node)));
                let deny = field(item, "deny").map(|node| ("deny", self.deny(node)));
                let replaced: Vec<(&'static str, NodeId)> = conditions.into_iter().chain(deny).collect();
                made.push(self.with(item, &replaced));
            }
            ("pattern", "foreach", foreach, self.graft.list(foreach.span(), &made))
        } else {
            field(node, "cel")?;
            return Some(self.graft.copy(node));
        };
        made.extend(self.shifted(node, pivot));
        made.push((key, value.span(), body));
        Some(self.graft.map(node.span(), &made))
    }

    fn deny(&mut self, node: Node<'t>) -> NodeId {
        let conditions = field(node, "conditions").map(|node| ("conditions", self.conditions(node)));
        self.with(node, conditions.as_slice())
    }

    /// Conditions in either form, reduced to the fields of a condition.
    fn conditions(&mut self, node: Node<'t>) -> NodeId {
        if node.as_seq().is_some() {
            return self.condition_list(node);
        }
        let mut made: Made<'t> = Vec::new();
        for entry in node.as_map().into_iter().flat_map(Entries::iter) {
            // Go leaves empty lists out.
            if ["any", "all"].contains(&entry.key) && entry.value.as_seq().is_some_and(|items| !items.is_empty()) {
                let list = self.condition_list(entry.value);
                made.push((entry.key, entry.key_span, list));
            }
        }
        self.graft.map(node.span(), &made)
    }

    fn condition_list(&mut self, node: Node<'t>) -> NodeId {
        let mut made = Vec::new();
        for item in node.as_seq().into_iter().flat_map(Items::iter) {
            let kept = self.kept(item, &["key", "operator", "value", "message"]);
            made.push(self.graft.map(item.span(), &kept));
        }
        self.graft.list(node.span(), &made)
    }

    /// Fields that are taken over.
    fn kept(&mut self, node: Node<'t>, keys: &[&str]) -> Made<'t> {
        let entries = node.as_map().into_iter().flat_map(Entries::iter);
        entries
            .filter(|entry| keys.contains(&entry.key) && !entry.value.is_null())
            .map(|entry| (entry.key, entry.key_span, self.graft.copy(entry.value)))
            .collect()
    }

    /// A pattern of a Pod as a pattern of the controller.
    fn wrap(&mut self, node: Node<'t>) -> NodeId {
        let inner = self.graft.copy(node);
        self.wrap_made(node.span(), inner)
    }

    fn wrap_made(&mut self, span: Span, inner: NodeId) -> NodeId {
        let path = self.template.path().iter().rev();
        path.fold(inner, |inner, key| self.graft.map(span, &[(key, span, inner)]))
    }

    /// The message of a validation, if it has one.
    fn shifted(&mut self, node: Node<'t>, pivot: &str) -> Option<(&'t str, Span, NodeId)> {
        let text = field(node, "message")?;
        Some(("message", text.span(), self.message(text, pivot)))
    }

    /// A message whose references follow the pattern. A rule for CronJobs is made from that for other controllers, so that
    /// its references are shifted twice.
    fn message(&mut self, node: Node<'t>, pivot: &str) -> NodeId {
        let text = node.as_str().unwrap_or_default();
        let mut shifted = message::shift(text, "spec/template", pivot);
        if self.template == Template::CronJob {
            shifted = message::shift(&shifted, "spec/jobTemplate/spec/template", pivot);
        }
        if shifted == text {
            self.graft.copy(node)
        } else {
            self.graft.string(node.span(), &shifted)
        }
    }
}
