//! Explanations of differences between policies, human-readable and as JSON.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use kyvtest_go_compat::{diagnostic::Sources, value::Document};
use kyvtest_line_diff::unified;
use kyvtest_model::verdict::{DivergenceClass, Effect};
use kyvtest_prove::body::explain::{Decision, DifferingClass, Explanation, Suggestion, Varied};

/// The maximum number of request classes named in a line.
const NAMED: usize = 8;

/// The maximum number of listed fields.
const FIELDS: usize = 8;

const SIDES: [&str; 2] = ["A", "B"];

/// `A denies `hostPort: 0`, B admits it`.
pub(super) fn headline(found: &Explanation) -> String {
    let [a, b] = found.counterexample.verdicts();
    let (a, b) = (verb(a.effect), verb(b.effect));
    let what = match found.fields.first() {
        Some(Varied {
            path,
            value: Some(value),
            ..
        }) => {
            format!("`{}: {}`", path.name(), short(value))
        }
        Some(Varied { path, value: None, .. }) => format!("an object without `{path}`"),
        None => "the request".to_owned(),
    };
    format!("A {a} {what}, B {b} it")
}

const fn verb(effect: Effect) -> &'static str {
    match effect {
        Effect::Deny => "denies",
        Effect::Admit => "admits",
        Effect::Audit => "audits",
        Effect::Warn => "warns about",
    }
}

fn short(value: &Json) -> String {
    const LONG: usize = 60;
    let text = match value {
        Json::String(text)
            if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-./_:*".contains(c)) =>
        {
            text.clone()
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(LONG) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// `file:line:column`, if the side was read from a file.
fn place(decision: &Decision, sources: Option<&Sources>) -> Option<(String, usize, usize)> {
    let sources = sources?;
    let span = decision.span;
    let position = sources.position(span.file, span.start)?;
    Some((sources.name(span.file)?.to_owned(), position.line, position.column))
}

/// Describes classes of requests: `CREATE, UPDATE of pods`.
fn classes(found: &[DifferingClass]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>, Vec<&str>)> = Vec::new();
    for own in found {
        let class = own.class.map_or("not decided", |class| class.as_str());
        let operations: Vec<&str> = found
            .iter()
            .filter(|other| other.resource == own.resource && other.class == own.class)
            .map(|other| other.operation.as_str())
            .collect();
        match groups
            .iter_mut()
            .find(|group| group.0 == class && group.1 == operations)
        {
            Some(group) if group.2.contains(&own.resource.as_str()) => {}
            Some(group) => group.2.push(&own.resource),
            None => groups.push((class.to_owned(), operations, vec![&own.resource])),
        }
    }
    let text = |(class, operations, resources): &(String, Vec<&str>, Vec<&str>)| {
        let shown = resources.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match resources.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{class}: {} of {shown}{more}", operations.join(", "))
    };
    groups.iter().map(text).collect()
}

fn listed(values: &[Option<Json>]) -> String {
    let text = |value: &Option<Json>| {
        value
            .as_ref()
            .map_or("absent".to_owned(), |value| format!("`{}`", short(value)))
    };
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Describes one field of the region.
fn field(field: &Varied) -> String {
    let object = if field.object == "object" {
        String::new()
    } else {
        format!("{} ", field.object)
    };
    let own = field
        .value
        .as_ref()
        .map_or("absent".to_owned(), |value| format!("`{}`", short(value)));
    let mut text = format!("{object}{}: differs if {own}", field.path);
    if !field.differs.is_empty() {
        let _ = write!(text, ", {}", listed(&field.differs));
    }
    let _ = write!(text, "; not if {}", listed(&field.agrees));
    text
}

/// The edit as a unified diff of the file, or of the object if there is no file.
fn diff(found: &Explanation, suggestion: &Suggestion, sources: Option<&Sources>) -> String {
    let number = suggestion.edit.object;
    let yaml = |objects: &[Json]| {
        let object = objects.get(number).unwrap_or(&Json::Null);
        Document::from(object).root().to_yaml()
    };
    let file = sources.and_then(|sources| Some((sources.name(suggestion.file)?, sources.text(suggestion.file)?)));
    let (name, before, after) = match (file, &suggestion.text) {
        (Some((name, before)), Some(after)) => (name.to_owned(), before.to_string(), after.clone()),
        _ => (format!("b[{number}]"), yaml(&found.objects), yaml(&suggestion.objects)),
    };
    unified(&before, &after, [&name; 2], 2)
}

/// The explanation as text, indented by two columns.
pub(super) fn human(found: &Explanation, sources: [Option<&Sources>; 2]) -> String {
    let mut text = format!("  {}: {}\n", found.counterexample.class(), headline(found));
    let verdicts = found.counterexample.verdicts();
    let sides = SIDES.iter().zip(sources);
    for (((side, sources), decision), verdict) in sides.zip(&found.decided).zip(verdicts) {
        let Some(decision) = decision else {
            continue;
        };
        let at = match place(decision, sources) {
            Some((file, line, _)) => format!("{file}:{line}"),
            None => format!("{} `{}`, {}", decision.kind, decision.name, decision.path),
        };
        let remark = if decision.remark.is_empty() {
            String::new()
        } else {
            format!(" ({})", decision.remark)
        };
        let verb = verb(verdict.effect).trim_end_matches(" about");
        let _ = writeln!(text, "  {side} {verb}: {at}{remark}\n    {}", decision.text);
    }
    let _ = writeln!(text, "  region:");
    for line in classes(&found.classes) {
        let _ = writeln!(text, "    {line}");
    }
    for varied in found.fields.iter().take(FIELDS) {
        let _ = writeln!(text, "    {}", field(varied));
    }
    text
}

/// The suggested edit as text; empty if there is none.
pub(super) fn suggested(found: &Explanation, [_, sources]: [Option<&Sources>; 2]) -> String {
    let Some(suggestion) = &found.suggestion else {
        return String::new();
    };
    let mut text = format!("  suggested edit of B (PROVEN): {}\n", suggestion.edit.text);
    for line in diff(found, suggestion, sources).lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

pub(super) fn json(found: &Explanation, sources: [Option<&Sources>; 2]) -> Json {
    let decided = |number: usize| {
        let verdict = &found.counterexample.verdicts()[number];
        found.decided[number].as_ref().map(|decision| {
            let at = place(decision, sources[number]);
            json!({
                "effect": verdict.effect.as_str(),
                "status": verdict.status.as_str(),
                "message": verdict.message,
                "kind": decision.kind,
                "name": decision.name,
                "path": decision.path.to_string(),
                "file": at.as_ref().map(|(file, ..)| file),
                "line": at.as_ref().map(|(_, line, _)| line),
                "column": at.as_ref().map(|(.., column)| column),
                "text": decision.text,
                "remark": (!decision.remark.is_empty()).then_some(&decision.remark),
            })
        })
    };
    let fields = found.fields.iter().map(|field| {
        json!({
            "object": field.object,
            "path": field.path.to_string(),
            "value": field.value,
            "differs": field.differs,
            "agrees": field.agrees,
        })
    });
    let classes = found.classes.iter().map(|own| {
        json!({
            "operation": own.operation,
            "resource": own.resource,
            "class": own.class.map(DivergenceClass::as_str),
        })
    });
    json!({
        "text": headline(found),
        "a": decided(0),
        "b": decided(1),
        "region": {"classes": classes.collect::<Vec<_>>(), "fields": fields.collect::<Vec<_>>()},
        "suggestion": found.suggestion.as_ref().map(|suggestion| json!({
            "label": "PROVEN",
            "text": suggestion.edit.text,
            "object": suggestion.edit.object,
            "path": suggestion.edit.path.to_string(),
            "objects": suggestion.objects,
            "diff": diff(found, suggestion, sources[1]),
        })),
    })
}
