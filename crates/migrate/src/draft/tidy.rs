//! Names for what would be written several times or over several lines: lists of constants, and lists that may be null.
//!
//! No upstream counterpart. Texts are rewritten after translation, so that a name is given only where it is needed; the policy is
//! compared as it is written.

use super::Draft;
use crate::{layout::outside_texts, words};

/// How long a list of constants may be where it is used once.
const WIDTH: usize = 80;

/// How many constants a list has that is named if it is used twice.
const ITEMS: usize = 3;

/// Names lists of constants, and lists that may be null.
pub(super) fn tidy(draft: &mut Draft, literal: bool) {
    name_nullable_lists(draft, literal);
    name_constants(draft);
}

/// The texts that may read variables: checks, messages, then the variables themselves.
fn texts(draft: &mut Draft) -> Vec<&mut String> {
    let mut texts: Vec<&mut String> = Vec::new();
    for validation in &mut draft.validations {
        texts.push(&mut validation.expression);
        texts.extend(&mut validation.message_expression);
    }
    texts.extend(draft.variables.iter_mut().map(|(_, text)| text));
    texts
}

fn replace_all(draft: &mut Draft, from: &str, to: &str) {
    for text in texts(draft) {
        *text = text.replace(from, to);
    }
}

fn free_name(draft: &Draft, name: &str) -> String {
    let is_free = |name: &String| draft.variables.iter().all(|(taken, _)| taken != name);
    let numbered = (2..).map(|number| format!("{name}{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(is_free).unwrap_or_default()
}

/// `has(a) && a != null ? a : []` gets the name of the field. A guard in front of a check that no element of an empty list
/// fulfils says nothing more, unless `literal`.
fn name_nullable_lists(draft: &mut Draft, literal: bool) {
    while let Some(path) = texts(draft).into_iter().find_map(|text| nullable_list(text)) {
        let field = path.rsplit('.').next().unwrap_or(&path);
        let name = free_name(draft, field);
        let list = format!("has({path}) && {path} != null ? {path} : []");
        let read = format!("variables.{name}");
        replace_all(draft, &format!("({list})"), &read);
        if !literal {
            let guard = format!("has({path}) && {path} != null && ");
            for text in texts(draft).into_iter().filter(|text| text.contains(&read)) {
                *text = text.replace(&guard, "");
            }
        }
        let reads = |(_, text): &(String, String)| text.contains(&read);
        let at = draft.variables.iter().position(reads).unwrap_or(draft.variables.len());
        draft.variables.insert(at, (name, list));
    }
}

/// The path of a list that may be null, outside of loops.
fn nullable_list(text: &str) -> Option<String> {
    text.match_indices("(has(").find_map(|(at, open)| {
        let rest = &text[at + open.len()..];
        let path = &rest[..rest.find(')')?];
        let root = path.split('.').next()?;
        let is_global = matches!(root, "object" | "oldObject" | "variables") && !path.contains('?');
        let behind = format!("{path}) && {path} != null ? {path} : [])");
        (is_global && rest.starts_with(&behind)).then(|| path.to_owned())
    })
}

/// A list of constants in a text: where it is, and how many items it has.
struct Constants<'t> {
    at: usize,
    text: &'t str,
    items: usize,
}

fn name_constants(draft: &mut Draft) {
    let mut names: Vec<(String, String)> = Vec::new();
    let own: Vec<String> = texts(draft).into_iter().map(|text| text.clone()).collect();
    let all: Vec<(&String, Constants<'_>)> = own
        .iter()
        .flat_map(|text| constants(text).into_iter().map(move |list| (text, list)))
        .collect();
    for (text, list) in &all {
        let used = all.iter().filter(|(_, other)| other.text == list.text).count();
        let is_long = list.text.chars().count() > WIDTH;
        if list.items < ITEMS || used < 2 && !is_long || names.iter().any(|(_, known)| *known == list.text) {
            continue;
        }
        // A variable that is nothing but the list has a name.
        if draft.variables.iter().any(|(_, text)| text == list.text) {
            continue;
        }
        let mut taken = draft.clone();
        taken.variables.extend(names.iter().cloned());
        names.push((free_name(&taken, &name_of(text, list)), list.text.to_owned()));
    }
    for (name, list) in &names {
        replace_all(draft, list, &format!("variables.{name}"));
    }
    draft.variables.splice(0..0, names);
}

/// The lists of constants in an expression.
fn constants(text: &str) -> Vec<Constants<'_>> {
    let outside: Vec<(usize, char, usize)> = outside_texts(text).collect();
    let opens = outside.iter().filter(|(_, c, _)| *c == '[');
    opens
        .filter_map(|(at, _, depth)| {
            let before = text[..*at].chars().next_back();
            let is_index = before.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ')' | ']'));
            let close = outside
                .iter()
                .find(|(other, c, inner)| other > at && *c == ']' && *inner == depth + 1)?
                .0;
            let is_plain = outside
                .iter()
                .filter(|(other, ..)| other > at && *other < close)
                .all(|(_, c, _)| matches!(c, ',' | ' '));
            let commas = outside
                .iter()
                .filter(|(other, c, _)| other > at && *other < close && *c == ',');
            (!is_index && is_plain && close > at + 1).then(|| Constants {
                at: *at,
                text: &text[*at..=close],
                items: commas.count() + 1,
            })
        })
        .collect()
}

/// A name from the field that a list is compared with, and from what the comparison decides.
fn name_of(text: &str, list: &Constants<'_>) -> String {
    let before = &text[..list.at];
    let field = before.strip_suffix(" in ").and_then(last_field);
    // Innermost last: whether each open group is negated, and whether it is a loop that one element ends.
    let mut groups: Vec<(bool, bool)> = Vec::new();
    for (at, c, _) in outside_texts(before) {
        match c {
            '(' => groups.push((before[..at].ends_with('!'), before[..at].ends_with(".exists"))),
            ')' => drop(groups.pop()),
            _ => {}
        }
    }
    let negated = groups.iter().filter(|(negated, _)| *negated).count() % 2 == 1;
    let exists = groups.iter().any(|(_, exists)| *exists);
    let follows = text[list.at + list.text.len()..].contains("||");
    let word = match (negated, exists) {
        (false, false) => "allowed",
        (true, _) if !follows => "denied",
        _ => "listed",
    };
    let Some(field) = field else { return word.to_owned() };
    let plural = words::plural(&field);
    let (first, rest) = plural.split_at(1);
    format!("{word}{}{rest}", first.to_ascii_uppercase())
}

/// The last field of a path, without the default of an optional one: of a name or a type that of what has it.
fn last_field(text: &str) -> Option<String> {
    let text = match text.rfind(".orValue(") {
        Some(at) if text.ends_with(')') => &text[..at],
        _ => text,
    };
    let mut fields = text.rsplit(['.', '?', ' ', '(', '!']).filter(|field| !field.is_empty());
    let is_field = |field: &&str| {
        field.starts_with(|c: char| c.is_ascii_lowercase()) && field.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let field = fields.next().filter(is_field)?;
    let owner = fields.next().filter(is_field);
    Some(match (field, owner) {
        ("name", Some(owner)) if owner != "metadata" => owner.to_owned(),
        ("type", Some(owner)) if owner != "spec" => {
            let stem = owner.strip_suffix("Options").unwrap_or(owner);
            format!("{stem}Type")
        }
        _ => field.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{constants, name_of};

    fn name(text: &str) -> Option<String> {
        let lists = constants(text);
        lists.first().map(|list| name_of(text, list))
    }

    #[test]
    fn lists_are_named_after_the_field_and_the_decision() {
        for (text, expected) in [
            ("object.spec.?type.orValue('') in ['a', 'b']", Some("allowedTypes")),
            ("x.all(sysctl, sysctl.name in ['a'])", Some("allowedSysctls")),
            (
                "x.?seLinuxOptions.?type.orValue('') in ['a']",
                Some("allowedSeLinuxTypes"),
            ),
            ("!(object.apiVersion in ['a', 'b'])", Some("deniedApiVersions")),
            ("!(object.kind in ['a', 'b']) || object.x", Some("listedKinds")),
            ("x.all(capability, capability in ['a'])", Some("allowedCapabilities")),
            ("['get', 'list'].all(verb, verb != object.a)", Some("allowed")),
            ("object.list['a'] + object.list[0]", None),
            ("[object.a, 'b'].size()", None),
        ] {
            assert_eq!(name(text).as_deref(), expected, "{text}");
        }
    }
}
