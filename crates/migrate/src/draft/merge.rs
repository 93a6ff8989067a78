//! One policy for Pods and their controllers: texts that differ only in where the Pod is become texts about variables.

use kyvtest_prove::repair::RuleScope;
use serde_json::Value as Json;

use super::Draft;

/// The objects that texts speak about, the names of their variables, and where they are.
const ROOTS: [(&str, &str); 3] = [("object", "pod"), ("variables.target", "pod"), ("oldObject", "oldPod")];

/// The fields of a Pod that texts read, and the ends of the names of their variables.
const FIELDS: [(&str, &str); 2] = [("spec", "Spec"), ("metadata", "Metadata")];

/// Where a field of the Pod is in the objects that a draft is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    above: &'static str,
    /// Whether the field may be missing.
    optional: bool,
}

impl Place {
    /// Where a draft reads a field of the Pod.
    fn of(draft: &Draft, field: &str) -> Self {
        let all = all_text(draft);
        // Pod security takes annotations of the template of Jobs for those of the Pod.
        let possible: &[&'static str] = match draft.suffix {
            "" => &[""],
            "cronjobs" if field == "metadata" => &[".spec.jobTemplate.spec.template", ".spec.jobTemplate"],
            "cronjobs" => &[".spec.jobTemplate.spec.template"],
            _ => &[".spec.template"],
        };
        let reads = |above: &str, dot: &str| {
            let mut roots = ROOTS.iter();
            roots.any(|(root, _)| all.contains(&format!("{root}{above}{dot}{field}")))
        };
        let found = possible.iter().find(|above| reads(above, ".") || reads(above, ".?"));
        let above = found.unwrap_or(&possible[0]);
        Self {
            above,
            optional: reads(above, ".?"),
        }
    }

    /// Whether the field is not simply below the template.
    fn is_odd(self) -> bool {
        self.optional || self.above == ".spec.jobTemplate"
    }

    fn select(self, root: &str, field: &str) -> String {
        let above = self.above;
        if self.optional {
            format!("{root}{above}.?{field}.orValue({{}})")
        } else {
            format!("{root}{above}.{field}")
        }
    }
}

/// Where the drafts read the fields of the Pod, with their suffixes.
type Places = Vec<(&'static str, [Place; 2])>;

fn all_text(draft: &Draft) -> String {
    let mut all = String::new();
    each_text(&mut draft.clone(), |text| {
        all.push_str(text);
        all.push('\n');
    });
    all
}

/// Puts drafts of one rule together, if that is possible. Metadata that may be missing, or that are not those of the template, stay
/// apart if `plain`.
pub(super) fn merged(drafts: Vec<Draft>, plain: bool) -> Vec<Draft> {
    let ([first, ..], true) = (drafts.as_slice(), drafts.len() > 1) else {
        return drafts;
    };
    if !first.suffix.is_empty() {
        return drafts;
    }
    let abstracts: Vec<Draft> = drafts.iter().map(abstracted).collect();
    let same = abstracts.iter().all(|other| {
        other.conditions == abstracts[0].conditions
            && other.variables == abstracts[0].variables
            && expressions(other) == expressions(&abstracts[0])
            && other.annotations == abstracts[0].annotations
    });
    let Some(scopes) = merged_scopes(&drafts).filter(|_| same) else {
        return drafts;
    };
    let suffixes: Vec<&str> = drafts.iter().map(|draft| draft.suffix).collect();
    let places = drafts
        .iter()
        .map(|draft| (draft.suffix, FIELDS.map(|(field, _)| Place::of(draft, field))));
    let places: Places = places.collect();
    if plain
        && places
            .iter()
            .any(|(_, of_fields)| of_fields.iter().any(|place| place.is_odd()))
    {
        return drafts;
    }
    let mut draft = abstracts.into_iter().next().unwrap_or_else(|| drafts[0].clone());
    draft.scopes = scopes;
    draft.variants.clone_from(&suffixes);
    // Conditions cannot read variables.
    let in_conditions = draft.conditions.iter().any(|(_, text)| text.contains(MARKS));
    if in_conditions {
        return drafts;
    }
    concrete(&mut draft, &places);
    // Messages are those of the written rule.
    for (own, written) in draft.validations.iter_mut().zip(&drafts[0].validations) {
        own.message.clone_from(&written.message);
    }
    vec![draft]
}

fn expressions(draft: &Draft) -> Vec<(&str, Option<&str>)> {
    let all = draft.validations.iter();
    all.map(|own| (own.expression.as_str(), own.message_expression.as_deref()))
        .collect()
}

/// Private-use characters in place of the objects.
const MARKS: [char; 3] = ['\u{e000}', '\u{e001}', '\u{e002}'];

/// A draft whose texts do not say where the Pod is.
fn abstracted(draft: &Draft) -> Draft {
    let mut draft = draft.clone();
    let places = FIELDS.map(|(field, _)| (field, Place::of(&draft, field)));
    let rewrite = |text: &mut String| {
        for ((root, _), mark) in ROOTS.iter().zip(MARKS) {
            for (field, place) in places {
                let above = place.above;
                let to = format!("{mark}.{field}");
                // What is behind an optional field is optional as well.
                *text = text.replace(&format!("{root}{above}.?{field}.?"), &format!("{to}.?"));
                *text = replaced(text, &format!("{root}{above}.{field}"), &to);
            }
        }
    };
    each_text(&mut draft, rewrite);
    draft
}

fn each_text(draft: &mut Draft, mut rewrite: impl FnMut(&mut String)) {
    for (_, text) in draft
        .conditions
        .iter_mut()
        .chain(&mut draft.variables)
        .chain(&mut draft.annotations)
    {
        rewrite(text);
    }
    for validation in &mut draft.validations {
        rewrite(&mut validation.expression);
        if let Some(text) = &mut validation.message_expression {
            rewrite(text);
        }
    }
}

/// Replaces a selection that begins an expression of its own.
fn replaced(text: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let before = rest[..at].chars().next_back().or(out.chars().next_back());
        let after = rest[at + from.len()..].chars().next();
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let alone = !before.is_some_and(|c| word(c) || c == '.') && !after.is_some_and(word);
        out.push_str(&rest[..at]);
        out.push_str(if alone { to } else { from });
        rest = &rest[at + from.len()..];
    }
    out.push_str(rest);
    out
}

/// Names the Pod with variables.
fn concrete(draft: &mut Draft, places: &Places) {
    let mut needed: Vec<(String, String)> = Vec::new();
    let all = all_text(draft);
    for ((root, name), mark) in ROOTS.iter().zip(MARKS) {
        for (number, (field, word)) in FIELDS.into_iter().enumerate() {
            let marked = format!("{mark}.{field}");
            if all.contains(&marked) {
                needed.push((format!("{name}{word}"), selection(root, number, places)));
                let read = format!("variables.{name}{word}");
                each_text(draft, |text| *text = text.replace(&marked, &read));
            }
        }
    }
    // What selects the object of the request comes before what reads it.
    let at = draft
        .variables
        .iter()
        .position(|(name, _)| name == "target")
        .map_or(0, |at| at + 1);
    draft.variables.splice(at..at, needed);
}

/// A field of the Pod, wherever it is; `number` is that of the field.
fn selection(root: &str, number: usize, places: &Places) -> String {
    let (field, _) = FIELDS[number];
    let at = |wanted: &str| {
        let found = places.iter().find(|(suffix, _)| *suffix == wanted);
        found.map(|(_, of_fields)| of_fields[number].select(root, field))
    };
    let pod = at("").unwrap_or_default();
    match (at("controllers"), at("cronjobs")) {
        (Some(controllers), Some(cronjobs)) => {
            format!("{root}.kind == 'Pod' ? {pod} :\n{root}.kind == 'CronJob' ? {cronjobs} :\n{controllers}")
        }
        (Some(other), None) | (None, Some(other)) => format!("{root}.kind == 'Pod' ? {pod} : {other}"),
        (None, None) => pod,
    }
}

/// Scopes that differ in their kinds only, with all kinds.
fn merged_scopes(drafts: &[Draft]) -> Option<Vec<RuleScope>> {
    let mut scopes = drafts.first()?.scopes.clone();
    for draft in &drafts[1..] {
        if draft.scopes.len() != scopes.len() {
            return None;
        }
        for (own, other) in scopes.iter_mut().zip(&draft.scopes) {
            let rest = |scope: &RuleScope| {
                let mut constraints = scope.constraints.clone();
                constraints["resourceRules"] = Json::Null;
                constraints
            };
            let same = own.condition == other.condition && own.denies == other.denies && rest(own) == rest(other);
            if !same || own.others || other.others {
                return None;
            }
            own.kinds.extend(other.kinds.iter().cloned());
            let more = other.constraints["resourceRules"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if let Some(list) = own.constraints["resourceRules"].as_array_mut() {
                list.extend(more);
            }
        }
    }
    Some(scopes)
}
