//! Which part of a policy decided about a witness.
//!
//! What objects is taken from the engines' own traces: the validation, condition or block. Inside a pattern or a list of
//! conditions, the innermost part is looked for without which the side decides differently. A side that admits has no such
//! part: there it is the part that names the fields on which the difference depends.

use kyvtest_go_compat::{
    diagnostic::Span,
    yaml::{Items, Node},
};
use kyvtest_model::{
    policy::{Loaded, Policy, PolicyId, Subtree},
    verdict::{Effect, Part, Status},
};
use serde_json::Value as Json;

use super::{
    super::{Match, Side},
    edit::Objects,
    path::{FieldPath, below},
    vary::words,
};
use crate::witness::Scenario;

/// What decided about a request on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The position of the object among those of its side.
    pub object: usize,
    /// The kind of the policy or binding.
    pub kind: String,
    pub name: String,
    /// The part that decided.
    pub path: FieldPath,
    /// Where it is; a span of the file from which the side was read.
    pub span: Span,
    /// The part as it is written, shortened to one line.
    pub text: String,
    /// Why this part, if the engines did not name it.
    pub remark: String,
}

/// The policies and bindings of a side with the place of everything in them.
pub(super) fn sources(loaded: &Loaded) -> Vec<(String, String, Subtree)> {
    let policies = loaded.policies.iter().filter_map(|policy| {
        let own = match policy {
            Policy::Classic(policy) => policy.spec.source.clone(),
            Policy::Validating(policy) => policy.spec.source.clone(),
            _ => policy.as_native()?.source.clone(),
        };
        Some((policy.kind().to_owned(), policy.name().to_owned(), own))
    });
    let bindings = loaded.bindings.iter().map(|binding| {
        let kind = "ValidatingAdmissionPolicyBinding".to_owned();
        (kind, binding.metadata.name.value.clone(), binding.source.clone())
    });
    policies.chain(bindings).collect()
}

/// The whole object of which a part was kept.
pub(super) fn whole<'t>(part: &'t Subtree, kind: &str, name: &str) -> Option<Node<'t>> {
    let root = part.node().tree().root();
    let is_own = |node: &Node<'_>| {
        let named = |node: Node<'_>| node.get("name").and_then(Node::as_str) == Some(name);
        node.get("kind").and_then(Node::as_str) == Some(kind) && node.get("metadata").is_some_and(named)
    };
    let mut items = root
        .get("items")
        .and_then(Node::as_seq)
        .into_iter()
        .flat_map(Items::iter);
    Some(root).filter(is_own).or_else(|| items.find(|node| is_own(node)))
}

/// A part of an object, before its place is known.
struct Found {
    object: usize,
    path: FieldPath,
    remark: String,
}

impl Match<'_> {
    /// What decided on a side. `fields` are the paths of the fields that matter, the most important first.
    pub(super) fn blame(
        &self,
        side: &Side,
        scenario: &Scenario,
        fields: &[&FieldPath],
        effect: Effect,
    ) -> Option<Decision> {
        let objects = Objects::of(side)?;
        let found = self.found(side, &objects, scenario, fields, effect)?;
        let (kind, name, source) = sources(side.loaded()).into_iter().nth(found.object)?;
        let root = whole(&source, &kind, &name)?;
        let node = found.path.nearest(root);
        let (start, text) = line(node, &found.path, fields);
        Some(Decision {
            object: found.object,
            span: Span::point(source.file(), start),
            kind,
            name,
            path: found.path,
            text,
            remark: found.remark,
        })
    }

    fn found(
        &self,
        side: &Side,
        objects: &Objects,
        scenario: &Scenario,
        fields: &[&FieldPath],
        effect: Effect,
    ) -> Option<Found> {
        let (review, answer) = side.review(scenario, self.discovery, &self.mocks);
        if let Some(review) = &review {
            let mut answers = review.responses.iter();
            if let Some(answered) = answers.find(|own| own.response.effect == effect && effect.objects()) {
                let object = objects.policy(&answered.id)?;
                let part = answered.response.trace.part;
                return Some(self.part(objects, scenario, object, &answered.response.rule, part));
            }
            if effect == Effect::Deny
                && let Some((id, part)) = review
                    .silent
                    .iter()
                    .find(|(_, part)| matches!(part, Part::WebhookCondition(_)))
            {
                return Some(self.part(objects, scenario, objects.policy(id)?, "", *part));
            }
        }
        if let Some(answer) = &answer
            && let Some(own) = answer
                .verdicts
                .iter()
                .find(|own| own.verdict.effect == effect && effect.objects())
        {
            let object = objects.named("ValidatingAdmissionPolicy", &own.policy)?;
            return Some(self.part(objects, scenario, object, "", own.verdict.trace.part));
        }
        // The side admits: a part that keeps it from evaluating, or the part that is about the fields.
        let answers = review.iter().flat_map(|review| &review.responses);
        let mut skipped: Option<(usize, String, Part)> = answers
            .filter(|own| matches!(own.response.status, Status::Skip))
            .find_map(|own| {
                Some((
                    objects.policy(&own.id)?,
                    own.response.rule.clone(),
                    own.response.trace.part,
                ))
            });
        let evaluated = review
            .iter()
            .any(|review| review.responses.iter().any(|own| own.response.status == Status::Pass))
            || answer
                .iter()
                .any(|answer| answer.verdicts.iter().any(|own| own.verdict.status == Status::Pass));
        if skipped.is_none() && !evaluated {
            let silent = review.iter().flat_map(|review| &review.silent).next();
            let silent = silent.and_then(|(id, part)| Some((objects.policy(id)?, String::new(), *part)));
            let native = answer.iter().flat_map(|answer| &answer.verdicts).next();
            let native = native.and_then(|own| {
                let object = objects.named("ValidatingAdmissionPolicy", &own.policy)?;
                Some((object, String::new(), own.verdict.trace.part))
            });
            skipped = silent.or(native).or(Some((0, String::new(), Part::Match)));
        }
        match skipped {
            Some((object, rule, part)) if !evaluated => Some(self.part(objects, scenario, object, &rule, part)),
            _ => Some(about(objects, fields)),
        }
    }

    /// The path of a part that the engines name.
    fn part(&self, objects: &Objects, scenario: &Scenario, object: usize, rule: &str, part: Part) -> Found {
        let json = objects.json(object);
        let spec = FieldPath::fields(&["spec"]);
        let is_classic = spec.field("rules").get(json).is_some();
        let own = rule_path(json, rule).unwrap_or_else(|| spec.clone());
        let mut remark = String::new();
        let path = match part {
            Part::WebhookCondition(number) if is_classic => {
                let conditions = spec.field("webhookConfiguration").field("matchConditions");
                conditions.item(number).field("expression")
            }
            Part::WebhookCondition(number) => spec.field("matchConditions").item(number).field("expression"),
            Part::Match | Part::Namespace => {
                let request = &scenario.request;
                let (operation, resource) = (request.operation.as_str(), request.resource.name());
                remark = format!("does not match {operation} of {resource}");
                if is_classic {
                    own.field("match")
                } else {
                    spec.field("matchConstraints")
                }
            }
            Part::Exclude if is_classic => own.field("exclude"),
            Part::Precondition(number) if is_classic && own.field("celPreconditions").get(json).is_some() => {
                own.field("celPreconditions").item(number).field("expression")
            }
            Part::Precondition(_) if is_classic => {
                self.innermost(objects, scenario, object, &own.field("preconditions"))
            }
            Part::Precondition(number) => spec.field("matchConditions").item(number).field("expression"),
            Part::Validation(number) if !is_classic => spec.field("validations").item(number).field("expression"),
            Part::AuditAnnotation(number) if !is_classic => spec.field("auditAnnotations").item(number),
            Part::Validation(number) if own.field("validate").field("cel").get(json).is_some() => {
                let cel = own.field("validate").field("cel");
                cel.field("expressions").item(number).field("expression")
            }
            Part::Validation(_) | Part::All if is_classic => {
                let validate = own.field("validate");
                let blocks = ["pattern", "anyPattern", "deny", "foreach", "podSecurity", "cel"];
                let block = blocks
                    .iter()
                    .map(|name| validate.field(name))
                    .find(|path| path.get(json).is_some());
                self.innermost(objects, scenario, object, &block.unwrap_or(validate))
            }
            Part::Exception | Part::ExceptionCondition => {
                "an exception applies".clone_into(&mut remark);
                own
            }
            Part::Binding | Part::Params => {
                "no binding selects the request".clone_into(&mut remark);
                own
            }
            _ => own,
        };
        Found { object, path, remark }
    }

    /// The innermost part of a block without which the side decides differently; the block if there is none.
    fn innermost(&self, objects: &Objects, scenario: &Scenario, object: usize, block: &FieldPath) -> FieldPath {
        let Some(before) = objects.decide(self, scenario) else {
            return block.clone();
        };
        let mut best = block.clone();
        for path in below(objects.json(object), block).into_iter().take(120) {
            if path.depth() <= best.depth() {
                continue;
            }
            let mut json = objects.json(object).clone();
            if path.remove(&mut json)
                && let Some(after) = objects.with(object, json).decide(self, scenario)
                && after != before
            {
                best = path;
            }
        }
        best
    }
}

/// The path of a rule, by the name under which it was written.
fn rule_path(json: &Json, rule: &str) -> Option<FieldPath> {
    let rules = FieldPath::fields(&["spec", "rules"]);
    let list = rules.get(json)?.as_array()?;
    let written = rule
        .strip_prefix("autogen-cronjob-")
        .or_else(|| rule.strip_prefix("autogen-"));
    let named = |name: &str| list.iter().position(|own| own["name"] == name);
    let number = named(rule).or_else(|| named(written?)).unwrap_or_default();
    Some(rules.item(number))
}

/// The scalar that names most of the fields, or says that none does.
fn about(objects: &Objects, fields: &[&FieldPath]) -> Found {
    let spec = FieldPath::fields(&["spec"]);
    let wanted: Vec<&str> = fields.first().map(|path| words(path)).unwrap_or_default();
    let mut best: Option<(usize, usize, FieldPath)> = None;
    for object in 0..objects.len() {
        let json = objects.json(object);
        for path in below(json, &spec) {
            let text = match path.get(json) {
                Some(Json::String(text)) => text.clone(),
                Some(Json::Number(_) | Json::Bool(_)) => String::new(),
                _ => continue,
            };
            let place = path.to_string();
            let parts = [
                ".validate.",
                ".validations[",
                ".variables[",
                "expression",
                "reconditions",
            ];
            let others = [
                "message",
                "messageExpression",
                "failureAction",
                "name",
                "operator",
                "allowExistingViolations",
            ];
            if !parts.iter().any(|part| place.contains(part)) || others.contains(&path.name()) {
                continue;
            }
            let names = |word: &str| has_word(&text, word) || has_word(&place, word);
            let weights = wanted.iter().enumerate();
            let weight: usize = weights
                .filter(|(_, word)| names(word))
                .map(|(at, _)| 1 << at.min(20))
                .sum();
            let is_expression = usize::from(path.name() == "expression");
            let score = 2 * weight + is_expression;
            if best.as_ref().is_none_or(|(other, ..)| score > *other) {
                best = Some((score, object, path));
            }
        }
    }
    let (_, object, path) = best.unwrap_or((0, 0, spec));
    let is_read = |word: &str| (0..objects.len()).any(|number| has_word(&objects.json(number).to_string(), word));
    let unread = wanted.iter().find(|word| !is_read(word));
    let remark = unread.map_or(String::new(), |word| format!("no line reads `{word}`"));
    Found { object, path, remark }
}

/// Whether a text has a word, not as part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The line of the node at a path that is about the fields: its offset in the source, and its text.
fn line(node: Node<'_>, path: &FieldPath, fields: &[&FieldPath]) -> (u32, String) {
    let Some(text) = node.as_str().filter(|text| text.contains(' ') || text.len() > 40) else {
        return short_line(node, path);
    };
    let wanted = fields.first().map(|path| words(path)).unwrap_or_default();
    let mut best = (0, 0, text.lines().next().unwrap_or_default());
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let score = wanted.iter().enumerate().filter(|(_, word)| has_word(line, word));
        let score: usize = score.map(|(at, _)| 1 << at.min(20)).sum();
        if score > best.0 {
            best = (score, start, line);
        }
        start += line.len();
    }
    let (_, at, line) = best;
    let blanks = line.len() - line.trim_start().len();
    (node.segments().source_offset(at + blanks), shortened(line))
}

/// The line of a short value or a block, with its key.
fn short_line(node: Node<'_>, path: &FieldPath) -> (u32, String) {
    let source = node.tree().source();
    let span = node.span();
    if !source.trim_end().contains('\n') {
        let value = source.get(span.start as usize..span.end as usize).unwrap_or_default();
        return (span.start, shortened(&format!("{}: {value}", path.name())));
    }
    let before = source.get(..span.start as usize).unwrap_or_default();
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let line = source
        .get(begin..)
        .and_then(|text| text.lines().next())
        .unwrap_or_default();
    let above = before
        .get(..begin.saturating_sub(1))
        .and_then(|text| text.lines().next_back());
    // A block begins on the line below its key.
    let is_block = node.as_map().is_some() || node.as_seq().is_some();
    match above.filter(|above| is_block && above.trim_end().ends_with(':')) {
        Some(above) => {
            let start = begin - 1 - above.trim_start().len();
            (u32::try_from(start).unwrap_or(span.start), shortened(above))
        }
        None => (span.start, shortened(line)),
    }
}

/// The beginning of a text, on one line.
fn shortened(text: &str) -> String {
    const LONG: usize = 100;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONG) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Whether an identity is that of an object.
pub(super) fn is_of(id: &PolicyId, json: &Json) -> bool {
    json["kind"] == id.kind
        && json["metadata"]["name"] == id.name.as_str()
        && json["metadata"]["namespace"].as_str().unwrap_or_default() == id.namespace
}

/// The line that says what a violation means to a policy, if one does.
pub(super) fn action(side: &Side, of: &Decision) -> Option<Decision> {
    let all = sources(side.loaded());
    let rule: Vec<FieldPath> = {
        let mut path = of.path.clone();
        let mut parents = Vec::new();
        while let Some((parent, _)) = path.split() {
            parents.push(parent.field("failureAction"));
            path = parent;
        }
        parents
    };
    let spec = FieldPath::fields(&["spec"]);
    let places = rule
        .into_iter()
        .chain([spec.field("validationFailureAction"), spec.field("validationActions")]);
    let places: Vec<FieldPath> = places.collect();
    let objects = all.iter().enumerate().filter(|(number, (kind, _, source))| {
        let binds = || {
            let document = source.document();
            let policy = document.root().at(&["spec", "policyName"]);
            policy.and_then(kyvtest_go_compat::value::Value::as_str) == Some(of.name.as_str())
        };
        *number == of.object || kind == "ValidatingAdmissionPolicyBinding" && binds()
    });
    for (number, (kind, name, source)) in objects {
        let root = whole(source, kind, name)?;
        let json = kyvtest_go_compat::value::Document::from(root).root().to_serde();
        if let Some(path) = places.iter().find(|path| path.get(&json).is_some()) {
            let (start, text) = line(path.nearest(root), path, &[]);
            return Some(Decision {
                object: number,
                kind: kind.clone(),
                name: name.clone(),
                path: path.clone(),
                span: Span::point(source.file(), start),
                text,
                remark: String::new(),
            });
        }
    }
    None
}
