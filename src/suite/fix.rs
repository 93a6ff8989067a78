//! Migrates test files of older releases to the schema of Kyverno 1.19.
//!
//! Upstream counterpart: `kyverno fix test`, which knows only the current schema and rewrites the whole file. Here a
//! fix changes only what is necessary and preserves comments and layout.
//!
//! Fields without a replacement (`checks`) stay and are reported.

use std::io;

use super::{
    Files, Test, UserInfo, Values,
    files::{parent, resolve},
    load::unreadable,
};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, Sources, Span},
    yaml::{self, Edits, Entries, Entry, Limits, Mode, Node, Stream},
};
use kyvtest_model::policy::{
    Text,
    decode::{Decoder, Style},
};

/// The API version of all files of a suite.
const API_VERSION: &str = "cli.kyverno.io/v1alpha1";

/// A file and its fixed text.
#[derive(Debug)]
pub struct Fixed {
    pub path: String,
    pub before: String,
    /// The text for Kyverno 1.19.
    pub after: String,
    /// In source order.
    pub changes: Vec<Change>,
    /// The remaining problems of the text.
    pub remaining: Vec<Diagnostic>,
    /// The source of the remaining problems.
    pub sources: Sources,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The line in the old text, counted from 1.
    pub line: u32,
    /// A description.
    pub text: String,
}

/// Fixes a test file and the values and user info files that it names.
///
/// # Errors
/// If the test file cannot be read.
pub fn fix(files: &dyn Files, path: &str) -> Result<Vec<Fixed>, Box<(Diagnostic, Sources)>> {
    let mut sources = Sources::new();
    let file = sources.add(path, "");
    let refuse = |error: &io::Error, sources| Box::new((unreadable(Span::point(file, 0), path, error), sources));
    let bytes = match files.read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Err(refuse(&error, sources)),
    };
    let mut companions = Vec::new();
    let mut fixed = vec![fix_text(path, bytes, "Test", &mut companions)];
    let directory = parent(path);
    for (companion, kind) in companions {
        let companion = resolve(&directory, &companion);
        if fixed.iter().any(|done| done.path == companion) {
            continue;
        }
        // A missing file is reported when the suite is run.
        if let Ok(bytes) = files.read(&companion) {
            fixed.push(fix_text(&companion, bytes, kind, &mut Vec::new()));
        }
    }
    Ok(fixed)
}

fn fix_text(path: &str, bytes: Vec<u8>, kind: &'static str, companions: &mut Vec<(String, &'static str)>) -> Fixed {
    let before = String::from_utf8_lossy(&bytes).into_owned();
    let stream = yaml::read(bytes, Mode::Lax, &Limits::default());
    let text = std::sync::Arc::clone(stream.source());
    let mut fixer = Fixer {
        edits: Edits::new(&text),
        stream: &stream,
        changes: Vec::new(),
    };
    for document in stream.documents() {
        if let Ok(tree) = document.tree()
            && tree.root().as_map().is_some()
        {
            fixer.header(tree.root(), kind);
            if kind == "Test" {
                fixer.test(tree.root());
            }
        }
    }
    let mut changes = std::mem::take(&mut fixer.changes);
    changes.sort_by_key(|change| change.line);
    let after = if fixer.edits.is_empty() {
        before.clone()
    } else {
        fixer.edits.finish()
    };
    let mut sources = Sources::new();
    let remaining = check(path, &after, kind, &mut sources, companions);
    Fixed {
        path: path.to_owned(),
        before,
        after,
        changes,
        remaining,
        sources,
    }
}

/// Finds Kyverno's errors in a text, and the other files that it names.
fn check(
    path: &str,
    text: &str,
    kind: &str,
    sources: &mut Sources,
    companions: &mut Vec<(String, &'static str)>,
) -> Vec<Diagnostic> {
    let file = sources.add(path, text);
    let stream = yaml::read(text.as_bytes(), Mode::Strict, &Limits::default());
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    diagnostics.extend(stream.error().map(|error| Diagnostic::from_yaml(file, error)));
    for document in stream.into_documents() {
        let tree = match document.into_tree() {
            Ok(tree) => std::sync::Arc::new(tree),
            Err(error) => {
                diagnostics.push(Diagnostic::from_yaml(file, &error));
                continue;
            }
        };
        let mut decoder = Decoder::new(&tree, file, Style::Struct);
        match kind {
            "Test" => {
                if let Some(decoded) = Test::decode(&mut decoder, tree.root()) {
                    let mut add = |text: Option<Text>, kind| companions.extend(text.map(|text| (text.value, kind)));
                    add(decoded.test.variables, "Values");
                    add(decoded.test.userinfo, "UserInfo");
                }
            }
            "Values" => drop(Values::decode_file(&mut decoder, tree.root())),
            _ => drop(UserInfo::decode_file(&mut decoder, tree.root())),
        }
        diagnostics.extend(decoder.finish().diagnostics);
    }
    diagnostics
}

struct Fixer<'t> {
    edits: Edits<'t>,
    stream: &'t Stream,
    changes: Vec<Change>,
}

impl Fixer<'_> {
    fn note(&mut self, at: yaml::Span, text: impl Into<String>) {
        self.changes.push(Change {
            line: self.stream.lines().position(at.start).line,
            text: text.into(),
        });
    }

    fn rename(&mut self, entry: Entry<'_>, to: &str) {
        self.note(entry.key_span, format!("renamed `{}` to `{to}`", entry.key));
        self.edits.replace(entry.key_span, to);
    }

    fn remove(&mut self, map: Node<'_>, entry: Entry<'_>, why: &str) {
        self.note(entry.key_span, format!("removed `{}`: {why}", entry.key));
        self.edits.remove(map, entry);
    }

    /// `apiVersion` and `kind`, which older files do not have.
    fn header(&mut self, root: Node<'_>, kind: &str) {
        let Some(entries) = root.as_map() else { return };
        let flow = self.edits.is_flow(root);
        let mut missing = String::new();
        for (key, value) in [("apiVersion", API_VERSION), ("kind", kind)] {
            match entries.get(key) {
                Some(entry) if entry.value.string_field().is_some_and(|text| !text.is_empty()) => {}
                Some(entry) => {
                    self.note(entry.key_span, format!("`{key}` is `{value}`"));
                    self.edits.replace(Edits::entry_span(entry), format!("{key}: {value}"));
                }
                None => {
                    self.note(root.span(), format!("added `{key}: {value}`"));
                    for part in [key, ": ", value, if flow { ", " } else { "\n" }] {
                        missing.push_str(part);
                    }
                }
            }
        }
        if !missing.is_empty() {
            self.edits.insert(root.span().start + u32::from(flow), missing);
        }
    }

    fn test(&mut self, root: Node<'_>) {
        let Some(entries) = root.as_map() else { return };
        self.name(root, entries);
        if let Some(payload) = entries.get("jsonPayload") {
            match (entries.get("jsonPayloads"), payload.value.string_field()) {
                (None, Some(path)) if !path.is_empty() => {
                    self.note(
                        payload.key_span,
                        "renamed `jsonPayload` to `jsonPayloads`, which is a list",
                    );
                    let items = [path.into_owned()];
                    self.edits.replace_by_list(root, payload, "jsonPayloads", &items);
                }
                _ => self.remove(root, payload, "nothing reads it"),
            }
        }
        let rows = entries.get("results").and_then(|results| results.value.as_seq());
        for row in rows.into_iter().flat_map(yaml::Items::iter) {
            self.row(row);
        }
    }

    /// The name, which is now in the metadata.
    fn name(&mut self, root: Node<'_>, entries: Entries<'_>) {
        let Some(name) = entries.get("name") else { return };
        let text = name.value.string_field().unwrap_or_default().into_owned();
        let metadata = entries.get("metadata").map(|metadata| metadata.value);
        let inner = metadata.and_then(Node::as_map);
        if text.is_empty() {
            self.remove(root, name, "it is empty");
        } else if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
            if inner.get("name").is_none()
                && let (Some(first), Some(metadata)) = (inner.at(0), metadata)
            {
                let separator = if self.edits.is_flow(metadata) {
                    ", ".to_owned()
                } else {
                    format!("\n{}", self.edits.indent(first.key_span.start))
                };
                let written = yaml::emit::quote(&text);
                self.edits
                    .insert(first.key_span.start, format!("name: {written}{separator}"));
            }
            self.remove(root, name, "the name is in `metadata`");
        } else if let Some(metadata) = entries.get("metadata") {
            let written = yaml::emit::quote(&text);
            self.edits
                .replace(Edits::entry_span(metadata), format!("metadata: {{name: {written}}}"));
            self.remove(root, name, "the name is in `metadata`");
        } else {
            self.note(name.key_span, "`name` is in `metadata`");
            let written = yaml::emit::quote(&text);
            let replacement = if self.edits.is_flow(root) {
                format!("metadata: {{name: {written}}}")
            } else {
                format!("metadata:\n  name: {written}")
            };
            self.edits.replace(Edits::entry_span(name), replacement);
        }
    }

    fn row(&mut self, row: Node<'_>) {
        let Some(entries) = row.as_map() else { return };
        for (old, new) in [("status", "result"), ("patchedResource", "patchedResources")] {
            match (entries.get(old), entries.get(new)) {
                (Some(entry), None) => self.rename(entry, new),
                (Some(entry), Some(_)) => self.remove(row, entry, &format!("`{new}` has the same meaning")),
                (None, _) => {}
            }
        }
        self.resources(row, entries);
    }

    /// `resource` and `namespace` become one list of `resources`.
    fn resources(&mut self, row: Node<'_>, entries: Entries<'_>) {
        let text = |entry: Option<Entry<'_>>| entry.and_then(|entry| Some(entry.value.string_field()?.into_owned()));
        let (resource, namespace) = (entries.get("resource"), entries.get("namespace"));
        if resource.is_none() && namespace.is_none() {
            return;
        }
        let resources = entries.get("resources");
        let mut names: Vec<String> = Vec::new();
        if let Some(list) = resources.and_then(|resources| resources.value.as_seq()) {
            let texts = list.iter().map(Node::string_field);
            let Some(texts) = texts.map(|text| Some(text?.into_owned())).collect::<Option<Vec<_>>>() else {
                return;
            };
            names.extend(texts);
        }
        names.extend(text(resource).filter(|name| !name.is_empty()));
        if names.is_empty() {
            return;
        }
        if let Some(namespace) = text(namespace).filter(|namespace| !namespace.is_empty()) {
            for name in &mut names {
                if !name.contains('/') {
                    *name = format!("{namespace}/{name}");
                }
            }
        }
        let mut involved: Vec<Entry<'_>> = [resource, namespace, resources].into_iter().flatten().collect();
        involved.sort_by_key(|entry| entry.key_span.start);
        let written: Vec<String> = involved.iter().map(|entry| format!("`{}`", entry.key)).collect();
        let mut involved = involved.into_iter();
        if let Some(first) = involved.next() {
            let what = format!("{} become `resources: [{}]`", written.join(" and "), names.join(", "));
            self.note(
                first.key_span,
                what.replacen("become", if written.len() == 1 { "becomes" } else { "become" }, 1),
            );
            self.edits.replace_by_list(row, first, "resources", &names);
        }
        for entry in involved {
            self.edits.remove(row, entry);
        }
    }
}
