//! One-step edits of everything but expressions: actions, operations, kinds, anchors and scalars of patterns, operators of
//! conditions, missing container lists.

use serde_json::{Value as Json, json};

use super::{
    cel::{self, Hints},
    edit::{Change, Edit, Objects},
    path::{FieldPath, below},
};

/// All one-step edits of a side.
pub(super) fn edits(objects: &Objects, hints: &Hints) -> Vec<Edit> {
    let mut all = Vec::new();
    for object in 0..objects.len() {
        let json = objects.json(object);
        let mut own = Vec::new();
        actions(json, &mut own);
        for path in below(json, &FieldPath::fields(&["spec"])) {
            at(json, &path, hints, &mut own);
        }
        all.extend(own.into_iter().map(|(path, change, text)| Edit {
            object,
            path,
            change,
            text,
        }));
    }
    all
}

type Step = (FieldPath, Change, String);

/// What a violation and an error mean.
fn actions(json: &Json, all: &mut Vec<Step>) {
    let spec = FieldPath::fields(&["spec"]);
    let mut set = |path: FieldPath, value: Json| {
        if path.get(json) != Some(&value) && path.split().is_some_and(|(parent, _)| parent.get(json).is_some()) {
            let text = format!("`{}: {value}`", path.name()).replace('"', "");
            all.push((path, Change::Set(value), text));
        }
    };
    match json["kind"].as_str().unwrap_or_default() {
        "ClusterPolicy" | "Policy" => {
            let rules = json["spec"]["rules"].as_array().map_or(0, Vec::len);
            for action in ["Enforce", "Audit"] {
                for rule in 0..rules {
                    let validate = spec.field("rules").item(rule).field("validate");
                    set(validate.field("failureAction"), json!(action));
                }
                set(spec.field("validationFailureAction"), json!(action));
            }
            for policy in ["Fail", "Ignore"] {
                set(spec.field("failurePolicy"), json!(policy));
            }
        }
        kind => {
            let has_actions = kind != "ValidatingAdmissionPolicy";
            for actions in [
                json!(["Deny"]),
                json!(["Audit"]),
                json!(["Warn"]),
                json!(["Deny", "Audit"]),
            ] {
                if has_actions {
                    set(spec.field("validationActions"), actions);
                }
            }
            for policy in ["Fail", "Ignore"] {
                if kind != "ValidatingAdmissionPolicyBinding" {
                    set(spec.field("failurePolicy"), json!(policy));
                }
            }
        }
    }
}

/// The operators of conditions that are mistaken for each other.
const CONDITIONS: [(&str, &[&str]); 14] = [
    ("Equals", &["NotEquals"]),
    ("NotEquals", &["Equals"]),
    ("AnyIn", &["AllIn", "AnyNotIn"]),
    ("AllIn", &["AnyIn", "AllNotIn"]),
    ("AnyNotIn", &["AllNotIn", "AnyIn"]),
    ("AllNotIn", &["AnyNotIn", "AllIn"]),
    ("GreaterThan", &["GreaterThanOrEquals"]),
    ("GreaterThanOrEquals", &["GreaterThan"]),
    ("LessThan", &["LessThanOrEquals"]),
    ("LessThanOrEquals", &["LessThan"]),
    ("In", &["NotIn"]),
    ("NotIn", &["In"]),
    ("Exists", &["DoesNotExist"]),
    ("DoesNotExist", &["Exists"]),
];

fn at(json: &Json, path: &FieldPath, hints: &Hints, all: &mut Vec<Step>) {
    let place = path.to_string();
    let Some(value) = path.get(json) else {
        return;
    };
    let in_pattern = place.contains(".pattern") || place.contains(".anyPattern");
    let name = path.name();
    match value {
        Json::String(text) if matches!(name, "expression" | "valueExpression") => {
            let changed = cel::candidates(text, hints).into_iter();
            all.extend(changed.map(|(text, what)| (path.clone(), Change::Set(json!(text)), what)));
        }
        Json::String(text) if in_pattern => scalars(text, path, hints, all),
        Json::String(text) if name == "operator" => {
            let others = CONDITIONS.iter().find(|(own, _)| own == text);
            for other in others.into_iter().flat_map(|(_, others)| *others) {
                all.push((
                    path.clone(),
                    Change::Set(json!(other)),
                    format!("`{other}` for `{text}`"),
                ));
            }
        }
        Json::Number(number) if in_pattern => {
            for other in hints.numbers.iter().take(12) {
                all.push((
                    path.clone(),
                    Change::Set(json!(other)),
                    format!("`{other}` for `{number}`"),
                ));
            }
        }
        Json::Array(list) if list.iter().all(Json::is_string) => texts(list, path, hints, all),
        Json::Array(list) if list.len() > 1 => {
            for number in 0..list.len() {
                let item = path.item(number);
                all.push((item.clone(), Change::Remove, format!("without `{item}`")));
            }
        }
        _ => {}
    }
    if in_pattern {
        anchors(json, path, all);
    }
    if matches!(
        name,
        "exclude" | "namespaceSelector" | "objectSelector" | "preconditions" | "celPreconditions"
    ) {
        all.push((path.clone(), Change::Remove, format!("without `{name}`")));
    }
}

/// Lists of names: operations, kinds, resources, namespaces.
fn texts(list: &[Json], path: &FieldPath, hints: &Hints, all: &mut Vec<Step>) {
    let add = |added: &str, all: &mut Vec<Step>| {
        if !list.iter().any(|own| own == added) {
            let mut longer = list.to_vec();
            longer.push(json!(added));
            all.push((
                path.clone(),
                Change::Set(Json::Array(longer)),
                format!("also `{added}`"),
            ));
        }
    };
    match path.name() {
        "operations" => {
            for added in ["CREATE", "UPDATE", "DELETE"] {
                add(added, all);
            }
        }
        "resources" => {
            let hints = hints.texts.iter().take(12).map(String::as_str);
            for added in ["pods/ephemeralcontainers", "pods"].into_iter().chain(hints) {
                add(added, all);
            }
        }
        "validationActions" => {}
        _ => {
            for added in hints.texts.iter().take(12) {
                add(added, all);
            }
        }
    }
    if list.len() > 1 {
        for (number, own) in list.iter().enumerate() {
            let mut shorter = list.to_vec();
            shorter.remove(number);
            let text = format!("without `{}`", own.as_str().unwrap_or_default());
            all.push((path.clone(), Change::Set(Json::Array(shorter)), text));
        }
    }
}

/// Scalars of patterns.
fn scalars(text: &str, path: &FieldPath, hints: &Hints, all: &mut Vec<Step>) {
    let mut set = |new: String| {
        if new != text {
            let what = format!("`{new}` for `{text}`");
            all.push((path.clone(), Change::Set(json!(new)), what));
        }
    };
    for (own, other) in [(">=", ">"), ("<=", "<")] {
        if let Some(rest) = text.strip_prefix(own) {
            set(format!("{other}{rest}"));
        } else if let Some(rest) = text.strip_prefix(other) {
            set(format!("{own}{rest}"));
        }
    }
    match text.strip_prefix('!') {
        Some(rest) => set(rest.to_owned()),
        None => set(format!("!{text}")),
    }
    for other in [text.trim_end_matches('*'), text.trim_start_matches('*')] {
        set(other.to_owned());
    }
    for other in ["?*", "*"] {
        set(other.to_owned());
        set(format!("{text}{other}"));
    }
    for hint in hints.texts.iter().take(16) {
        set(hint.clone());
        set(format!("{text} | {hint}"));
    }
    if text.contains('|') {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        for skipped in 0..parts.len() {
            let rest = parts.iter().enumerate().filter(|(at, _)| *at != skipped);
            set(rest.map(|(_, part)| *part).collect::<Vec<_>>().join(" | "));
        }
    }
}

/// Anchors, and lists of containers that are missing.
fn anchors(json: &Json, path: &FieldPath, all: &mut Vec<Step>) {
    let Some((parent, super::path::Key::Field(key))) = path.split() else {
        return;
    };
    let bare = match key.split_once('(') {
        Some((_, rest)) => rest.trim_end_matches(')'),
        None => key.as_str(),
    };
    for other in [
        bare.to_owned(),
        format!("=({bare})"),
        format!("({bare})"),
        format!("X({bare})"),
        format!("^({bare})"),
    ] {
        if other != *key {
            let what = format!("`{other}` for `{key}`");
            all.push((path.clone(), Change::Rename(other), what));
        }
    }
    if bare == "containers"
        && let Some(value) = path.get(json)
    {
        for name in ["initContainers", "ephemeralContainers"] {
            let has = parent.get(json).and_then(Json::as_object);
            let has = has.is_some_and(|map| map.keys().any(|own| own.contains(name)));
            if !has {
                let added = parent.field(&format!("=({name})"));
                all.push((added, Change::Set(value.clone()), format!("also check `{name}`")));
            }
        }
    }
    all.push((path.clone(), Change::Remove, format!("without `{key}`")));
}
