//! Records accepted divergences in the sidecar.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Acceptance, Change, Edit, Update, left, written};
use crate::{
    run::Case,
    suite::{SIDECAR, Suite},
};
use kyvtest_go_compat::{
    diagnostic::Span,
    text::path::join,
    yaml::{self, Edits, Limits, Mode, Node, emit::quote},
};

/// An entry for the sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// `None` for a case of the sidecar.
    row: Option<usize>,
    /// The resource, if the row has several.
    resource: Option<String>,
    /// The location of the case in the sidecar.
    place: Option<Span>,
    class: String,
    code: Option<String>,
    reason: String,
    expires: Option<String>,
}

/// Records the accepted divergences of a row, and reports the others.
pub(super) fn accept(
    suite: &Suite,
    place: Option<Span>,
    group: &[&Case],
    acceptance: &Acceptance,
    update: &mut Update,
) {
    let mut additions: Vec<Addition> = Vec::new();
    let mut refused = false;
    for case in group.iter().filter(|case| case.diverges()) {
        let Some(found) = &case.divergence else { continue };
        if !acceptance.has(found.class, found.code.as_ref()) {
            refused = true;
            let class = found.class.as_str();
            let message = format!("divergence `{class}` is not accepted: {}", found.cause);
            let name = found.code.as_deref().unwrap_or(class);
            let help = format!("`--accept-divergence {name} --reason TEXT` records it in the sidecar");
            let diagnostic = left(place, message).with_help(help);
            if !update.left.contains(&diagnostic) {
                update.left.push(diagnostic);
            }
            continue;
        }
        let addition = Addition {
            row: case.row,
            resource: case.row.and_then(|_| written(suite, case)),
            place: place.filter(|_| case.row.is_none()),
            class: found.class.as_str().to_owned(),
            code: found.code.clone(),
            reason: acceptance.reason.clone(),
            expires: acceptance.expires.clone(),
        };
        if !additions.contains(&addition) {
            additions.push(addition);
        }
    }
    let whole = !refused && group.iter().all(|case| case.diverges());
    let same = |one: &Addition, other: &Addition| (&one.class, &one.code) == (&other.class, &other.code);
    if let Some(first) = additions.first().cloned()
        && whole
        && additions.iter().all(|other| same(&first, other))
    {
        additions = vec![Addition {
            resource: None,
            ..first
        }];
    }
    for addition in additions {
        if !whole && addition.row.is_some() && addition.resource.is_none() {
            let message = "the resource of this divergence cannot be named in a sidecar".to_owned();
            update.left.push(left(place, message));
            continue;
        }
        let about = match (addition.row, &addition.resource) {
            (Some(row), Some(resource)) => format!("row {row}, {resource}"),
            (Some(row), None) => format!("row {row}"),
            (None, _) => "a case of the sidecar".to_owned(),
        };
        update.changes.push(Change {
            text: format!("{}: {about}: accept the divergence `{}`", suite.path, addition.class),
            edit: Edit::Accept(addition),
        });
    }
}

impl Addition {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("class", quote(&self.class))];
        fields.extend(self.code.iter().map(|code| ("code", quote(code))));
        fields.push(("reason", quote(&self.reason)));
        fields.extend(self.expires.iter().map(|day| ("expires", quote(day))));
        fields
    }

    fn flow_divergence(&self) -> String {
        let fields: Vec<String> = self
            .fields()
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        format!("divergence: {{{}}}", fields.join(", "))
    }

    fn selector(&self) -> Vec<String> {
        let row = self.row.map(|row| format!("row: {row}"));
        let resource = self.resource.as_ref().map(|name| format!("resource: {}", quote(name)));
        row.into_iter().chain(resource).collect()
    }

    /// An item of a list in braces.
    fn flow(&self) -> String {
        format!("{{{}, {}}}", self.selector().join(", "), self.flow_divergence())
    }

    /// An item of a block list with its dash in a column.
    fn block(&self, column: usize) -> String {
        let indent = " ".repeat(column);
        let mut text = String::new();
        for (number, line) in self.selector().iter().enumerate() {
            let dash = if number == 0 { "- " } else { "  " };
            let _ = writeln!(text, "{indent}{dash}{line}");
        }
        let _ = writeln!(text, "{indent}  divergence:");
        for (key, value) in self.fields() {
            let _ = writeln!(text, "{indent}    {key}: {value}");
        }
        text
    }
}

type Files = BTreeMap<String, (String, Vec<(yaml::Span, String)>)>;

/// Adds the entries to the sidecar next to the suites.
pub(super) fn write(additions: &[(&Suite, &Addition)], documents: usize, files: &mut Files) {
    let Some((first, _)) = additions.first() else { return };
    let directory = first.path.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let path = join(directory, SIDECAR);
    let sources = &first.sources;
    let mut names = sources.files();
    let known = names.find(|file| sources.name(*file) == Some(path.as_str()));
    let text = known.and_then(|file| sources.text(file)).map(ToString::to_string);
    let (before, edits) = files
        .entry(path)
        .or_insert_with(|| (text.unwrap_or_default(), Vec::new()));
    let before = before.clone();
    let stream = yaml::read(before.as_bytes(), Mode::Lax, &Limits::default());
    let mut suites: Vec<&Suite> = Vec::new();
    for (suite, _) in additions {
        if suites.iter().all(|other| other.document != suite.document) {
            suites.push(suite);
        }
    }
    for suite in suites {
        let own: Vec<&Addition> = additions
            .iter()
            .filter(|(of, _)| of.document == suite.document)
            .map(|(_, addition)| *addition)
            .collect();
        for addition in &own {
            if let Some(place) = addition.place {
                edits.push(in_case(&before, addition, place));
            }
        }
        let rows: Vec<&Addition> = own.into_iter().filter(|addition| addition.row.is_some()).collect();
        if rows.is_empty() {
            continue;
        }
        let mut roots = stream
            .documents()
            .iter()
            .filter_map(|document| Some(document.tree().ok()?.root()));
        let root = roots.find(|root| {
            let of = root
                .get("suite")
                .and_then(|entry| Some(entry.string_field()?.into_owned()));
            of.map_or(documents == 1, |name| name == suite.name())
        });
        edits.push(match root {
            Some(root) => in_document(&before, root, &rows),
            None => (
                yaml::Span::at(before.len() as u32),
                document(&before, suite, documents, &rows),
            ),
        });
    }
}

/// Adds a key to an existing case.
fn in_case(text: &str, addition: &Addition, place: Span) -> (yaml::Span, String) {
    let flow = text
        .get(place.start as usize..)
        .is_some_and(|rest| rest.starts_with('{'));
    if flow {
        return (
            yaml::Span::at(place.start + 1),
            format!("{}, ", addition.flow_divergence()),
        );
    }
    let indent = Edits::new(text).indent(place.start);
    (
        yaml::Span::at(place.start),
        format!("{}\n{indent}", addition.flow_divergence()),
    )
}

/// The change that adds entries to an existing document.
fn in_document(text: &str, root: Node<'_>, rows: &[&Addition]) -> (yaml::Span, String) {
    let edits = Edits::new(text);
    let blocks = |column: usize| -> String { rows.iter().map(|addition| addition.block(column)).collect() };
    let list = root.get("rows");
    let items = list.and_then(|list| Some((list, list.as_seq()?)));
    if let Some((list, items)) = items {
        if edits.is_flow(list) {
            let flows: Vec<String> = rows.iter().map(|addition| addition.flow()).collect();
            let comma = if items.iter().next().is_some() { ", " } else { "" };
            let end = list.span().end.saturating_sub(1);
            return (yaml::Span::at(end), format!("{comma}{}", flows.join(", ")));
        }
        if let (Some(first), Some(last)) = (items.iter().next(), items.iter().last()) {
            let start = first.span().start as usize;
            let line = text
                .get(..start)
                .and_then(|before| before.rfind('\n'))
                .map_or(0, |end| end + 1);
            let column = text.get(line..start).and_then(|line| line.find('-')).unwrap_or(2);
            let (at, newline) = after_line(text, last.span().end as usize);
            return (yaml::Span::at(at), format!("{newline}{}", blocks(column)));
        }
    }
    let kind = root.get("kind").map_or(root.span().start, |kind| kind.span().end);
    let (at, newline) = after_line(text, kind as usize);
    (yaml::Span::at(at), format!("{newline}rows:\n{}", blocks(2)))
}

/// The start of the next line, and the text needed to begin it.
fn after_line(text: &str, end: usize) -> (u32, &'static str) {
    let begun = text.get(..end).is_some_and(|before| before.ends_with('\n'));
    if begun {
        return (end as u32, "");
    }
    match text.get(end..).and_then(|rest| rest.find('\n')) {
        Some(at) => ((end + at + 1) as u32, ""),
        None => (text.len() as u32, "\n"),
    }
}

/// A new document for a suite.
fn document(before: &str, suite: &Suite, documents: usize, rows: &[&Addition]) -> String {
    let mut text = String::new();
    if !before.is_empty() {
        text.push_str(if before.ends_with('\n') { "---\n" } else { "\n---\n" });
    }
    text.push_str("apiVersion: kyvtest.dev/v1\nkind: Sidecar\n");
    if documents > 1 {
        let _ = writeln!(text, "suite: {}", quote(suite.name()));
    }
    text.push_str("rows:\n");
    for addition in rows {
        text.push_str(&addition.block(2));
    }
    text
}
