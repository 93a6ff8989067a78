//! Decodes located trees to types: a cursor that collects errors, each with path and location.
//!
//! Two styles. [`Style::Schema`] is how the API server and Kyverno's loader (kubectl-validate) read an object: exact
//! names, exact types, null is absent, unknown fields are distinguished from other errors. [`Style::Struct`] is how
//! sigs.k8s.io/yaml decodes a file into a Go struct: names match case-insensitively, null is absent, scalars become
//! strings if the field is a string.

mod schema;

pub use schema::{SchemaProblem, SchemaProblemKind};

use std::{borrow::Cow, fmt::Write as _, sync::Arc};

use super::located::{Expression, Spanned, Subtree, Text, place};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span, nearest},
    value::Document,
    yaml::{Entry, Kind, Node, Number, Tree},
};

/// The decoding rules of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// An object with an OpenAPI schema.
    Schema,
    /// A file that is decoded into a Go struct.
    Struct,
}

/// The state of decoding one document.
#[derive(Debug)]
pub struct Decoder<'t> {
    tree: &'t Arc<Tree>,
    file: FileId,
    style: Style,
    /// Whether other scalars become strings if a Go struct expects one.
    coerce: bool,
    path: Vec<Step<'t>>,
    diagnostics: Vec<Diagnostic>,
    unknown: bool,
    unknown_paths: Vec<String>,
    schema_problems: Vec<SchemaProblem>,
    invalid: bool,
    metadata: bool,
    unreadable: bool,
    refused: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step<'t> {
    Key(&'t str),
    Item(usize),
}

/// The findings of decoding a document.
#[derive(Debug)]
pub struct Findings {
    /// In source order.
    pub diagnostics: Vec<Diagnostic>,
    /// There is a field that the schema does not have.
    pub unknown: bool,
    /// The paths of unknown fields, sorted.
    pub(crate) unknown_paths: Vec<String>,
    /// Schema violations, with the API server's messages.
    pub(crate) schema_problems: Vec<SchemaProblem>,
    /// Another error makes the document unusable.
    pub invalid: bool,
    /// Metadata has the wrong type, which is found before anything else.
    pub metadata: bool,
    /// The schema accepts the document, but it cannot be decoded.
    pub(crate) unreadable: bool,
    /// The document can be decoded, but Kyverno rejects it later.
    pub refused: bool,
}

impl Findings {
    /// Whether the document is unusable.
    pub(crate) fn wrong(&self) -> bool {
        self.unknown || self.invalid || self.unreadable
    }

    /// Whether the first error aborts the loading of all files: upstream reads the metadata, then looks for unknown
    /// fields, then validates against the schema, then decodes into its own types.
    pub(crate) fn fatal(&self) -> bool {
        !self.metadata && (self.unknown || (self.unreadable && !self.invalid))
    }
}

impl<'t> Decoder<'t> {
    pub fn new(tree: &'t Arc<Tree>, file: FileId, style: Style) -> Self {
        Self {
            tree,
            file,
            style,
            coerce: style == Style::Struct,
            path: Vec::new(),
            diagnostics: Vec::new(),
            unknown: false,
            unknown_paths: Vec::new(),
            schema_problems: Vec::new(),
            invalid: false,
            metadata: false,
            unreadable: false,
            refused: false,
        }
    }

    pub fn finish(self) -> Findings {
        let mut diagnostics = self.diagnostics;
        diagnostics.sort_by_key(|diagnostic| diagnostic.primary);
        let mut unknown_paths = self.unknown_paths;
        unknown_paths.sort();
        Findings {
            diagnostics,
            unknown: self.unknown,
            unknown_paths,
            schema_problems: self.schema_problems,
            invalid: self.invalid,
            metadata: self.metadata,
            unreadable: self.unreadable,
            refused: self.refused,
        }
    }

    pub fn span(&self, node: Node<'_>) -> Span {
        place(self.file, node.span())
    }

    pub fn key_span(&self, entry: &Entry<'_>) -> Span {
        place(self.file, entry.key_span)
    }

    /// The path of the current field: `spec.rules[0].name`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Step::Item(place) => {
                    let _ = write!(path, "[{place}]");
                }
            }
        }
        path
    }

    /// Reports an error that makes the document unusable.
    pub fn error(&mut self, diagnostic: Diagnostic) {
        self.invalid = true;
        self.diagnostics.push(diagnostic);
    }

    /// Reports an error that the schema does not find and that aborts the loading of all files.
    pub(crate) fn unreadable(&mut self, diagnostic: Diagnostic) {
        self.unreadable = true;
        self.diagnostics.push(diagnostic);
    }

    /// Reports an error that can be decoded and that Kyverno rejects later.
    pub fn refuse(&mut self, diagnostic: Diagnostic) {
        self.refused = true;
        self.diagnostics.push(diagnostic);
    }

    /// Reports a finding that Kyverno ignores.
    pub fn remark(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports a value of the wrong type.
    fn wrong_type(&mut self, node: Node<'_>, wanted: &str) {
        if matches!(self.path.first(), Some(Step::Key("metadata"))) {
            self.metadata = true;
        }
        // The schema has no fields below a scalar or a list: upstream reports those as unknown, except in the conditions of
        // `foreach`, where it permits anything next to `any` and `all`.
        let permits_all = matches!(self.path.last(), Some(Step::Key("preconditions")));
        if self.style == Style::Schema && !permits_all && has_fields(node) {
            self.unknown = true;
            let path = self.path();
            unknown_fields(node, &path, &mut self.unknown_paths);
        }
        let path = self.path();
        let found = name_of(node);
        self.note_wrong_type(node, wanted);
        let message = if path.is_empty() {
            format!("expected {wanted}, found {found}")
        } else {
            format!("`{path}` must be {wanted}, not {found}")
        };
        self.error(Diagnostic::at(Code::WrongType, self.span(node), message));
    }

    /// Reports a value of the right type that cannot be used.
    pub fn bad_value(&mut self, span: Span, message: impl Into<String>) {
        self.error(Diagnostic::at(Code::BadValue, span, message));
    }

    /// The fields of a map.
    pub fn fields<'d>(&'d mut self, node: Node<'t>) -> Option<Fields<'t, 'd>> {
        match node.kind() {
            Kind::Map(entries) => Some(Fields {
                entries: entries.iter().collect(),
                used: vec![false; entries.len()],
                known: Vec::with_capacity(16),
                owner: self.span(node),
                inline: false,
                decoder: self,
            }),
            _ => {
                self.wrong_type(node, "a map");
                None
            }
        }
    }

    pub fn string(&mut self, node: Node<'t>) -> Option<Text> {
        let text = match node.kind() {
            Kind::Str(text) => Some(text.to_owned()),
            _ if self.coerce => node.string_field().map(Cow::into_owned),
            _ => None,
        };
        if text.is_none() {
            self.wrong_type(node, "a string");
        }
        Some(Spanned::new(text?, self.span(node)))
    }

    /// A boolean.
    pub fn bool(&mut self, node: Node<'t>) -> Option<Spanned<bool>> {
        match node.as_bool() {
            Some(value) => Some(Spanned::new(value, self.span(node))),
            None => {
                self.wrong_type(node, "`true` or `false`");
                None
            }
        }
    }

    /// An integer.
    pub fn int(&mut self, node: Node<'t>) -> Option<Spanned<i64>> {
        match node.number() {
            Some(Number::Int(value)) => Some(Spanned::new(value, self.span(node))),
            Some(Number::Float(_)) | None => {
                self.wrong_type(node, "an integer");
                None
            }
        }
    }

    /// One of several keywords.
    pub fn word<T: Copy>(&mut self, node: Node<'t>, words: &[(&'static str, T)]) -> Option<Spanned<T>> {
        let text = self.string(node)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(Spanned::new(*value, text.span));
        }
        let path = self.path();
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.note_unsupported(&text.value, &all);
        let message = format!("`{path}` is `{}`, which is none of its values", text.value);
        let near = nearest(&text.value, words.iter().map(|(word, _)| *word));
        let mut diagnostic =
            Diagnostic::at(Code::BadValue, text.span, message).with_help(format!("write {}", choice(&all)));
        let initial = text.value.chars().next();
        let alike = near.iter().find(|word| word.chars().next() == initial);
        if let Some(word) = alike.or(near.first()) {
            diagnostic = diagnostic.with_label(text.span, format!("did you mean `{word}`?"));
        }
        self.error(diagnostic);
        None
    }

    /// A list, each item decoded; items that cannot be decoded are left out.
    pub fn list<T>(
        &mut self,
        node: Node<'t>,
        mut item: impl FnMut(&mut Self, Node<'t>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Some(items) = node.as_seq() else {
            self.wrong_type(node, "a list");
            return None;
        };
        let mut list = Vec::with_capacity(items.len());
        for (at, node) in items.iter().enumerate() {
            self.path.push(Step::Item(at));
            list.extend(item(self, node));
            self.path.pop();
        }
        Some(list)
    }

    /// A list of strings; in a Go struct null is the empty string.
    pub fn strings(&mut self, node: Node<'t>) -> Option<Vec<Text>> {
        self.list(node, |decoder, node| {
            if node.is_null() && decoder.style == Style::Struct {
                return Some(Spanned::new(String::new(), decoder.span(node)));
            }
            decoder.string(node)
        })
    }

    /// A map of strings to anything, in source order.
    pub fn map<T>(
        &mut self,
        node: Node<'t>,
        mut value: impl FnMut(&mut Self, Node<'t>) -> Option<T>,
    ) -> Option<Vec<(Text, T)>> {
        let Some(entries) = node.as_map() else {
            self.wrong_type(node, "a map");
            return None;
        };
        let mut map = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            self.path.push(Step::Key(entry.key));
            let key = Spanned::new(entry.key.to_owned(), self.key_span(&entry));
            map.extend(value(self, entry.value).map(|value| (key, value)));
            self.path.pop();
        }
        Some(map)
    }

    /// A map of strings to strings; null is the empty string, as Go decodes it.
    pub fn string_map(&mut self, node: Node<'t>) -> Option<Vec<(Text, Text)>> {
        self.map(node, |decoder, node| {
            if node.is_null() {
                return Some(Spanned::new(String::new(), decoder.span(node)));
            }
            decoder.string(node)
        })
    }

    /// A CEL expression.
    pub fn expression(&mut self, node: Node<'t>) -> Option<Expression> {
        let text = self.string(node)?;
        Some(Expression::new(text.value, Subtree::new(self.tree, node, self.file)))
    }

    /// A part that is kept unchanged.
    pub(crate) fn subtree(&mut self, node: Node<'t>) -> Option<Subtree> {
        Some(Subtree::new(self.tree, node, self.file))
    }

    /// A map that is kept unchanged.
    pub fn map_part(&mut self, node: Node<'t>) -> Option<Subtree> {
        if node.as_map().is_none() {
            self.wrong_type(node, "a map");
            return None;
        }
        self.subtree(node)
    }

    /// A part as a value.
    pub fn value(&mut self, node: Node<'t>) -> Option<Spanned<Document>> {
        Some(Spanned::new(Document::from(node), self.span(node)))
    }

    /// A map as a value.
    pub fn object(&mut self, node: Node<'t>) -> Option<Spanned<Document>> {
        if node.as_map().is_none() {
            self.wrong_type(node, "a map");
            return None;
        }
        self.value(node)
    }
}

/// Formats keywords as a choice: `a`, `b` or `c`, each in backticks.
pub fn choice(words: &[&str]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let before = match (at, words.len() - at) {
            (0, _) => "",
            (_, 1) => " or ",
            _ => ", ",
        };
        let _ = write!(text, "{before}`{word}`");
    }
    text
}

/// The type of a node, in a user's words.
pub fn name_of(node: Node<'_>) -> &'static str {
    match node.kind() {
        Kind::Null => "null",
        Kind::Bool(_) => "a boolean",
        Kind::Int(_) | Kind::Uint(_) | Kind::Float(_) => "a number",
        Kind::Str(_) => "a string",
        Kind::Seq(_) => "a list",
        Kind::Map(_) => "a map",
    }
}

/// The fields of one map: each is read by name, and [`Fields::finish`] reports the others.
#[derive(Debug)]
pub struct Fields<'t, 'd> {
    entries: Vec<Entry<'t>>,
    used: Vec<bool>,
    known: Vec<&'static str>,
    owner: Span,
    inline: bool,
    decoder: &'d mut Decoder<'t>,
}

impl<'t> Fields<'t, '_> {
    /// Sets whether the fields read from here on belong to an embedded Go struct: scalars do not become strings there,
    /// nor anywhere below.
    ///
    /// sigs.k8s.io/yaml: `convertToJSONableObject` uses the outermost struct field as the target (1.6).
    pub fn inline(&mut self, inline: bool) {
        self.inline = inline;
    }

    /// The decoder, for errors that concern several fields.
    pub fn decoder(&mut self) -> &mut Decoder<'t> {
        self.decoder
    }

    /// Whether one of the fields is present, with any value.
    pub fn has_any(&self, names: &[&str]) -> bool {
        self.entries.iter().any(|entry| names.contains(&entry.key))
    }

    pub fn span(&self) -> Span {
        self.owner
    }

    fn find(&mut self, name: &'static str) -> Option<Entry<'t>> {
        self.known.push(name);
        if self.decoder.style == Style::Schema {
            let place = self.entries.iter().position(|entry| entry.key == name)?;
            self.used[place] = true;
            return Some(self.entries[place]);
        }
        // The path to the struct leads through JSON with sorted keys: of several spellings the greatest counts.
        let mut found: Option<Entry<'t>> = None;
        for (entry, used) in self.entries.iter().zip(&mut self.used) {
            if fold_equal(entry.key, name) {
                *used = true;
                if found.is_none_or(|other| other.key < entry.key) {
                    found = Some(*entry);
                }
            }
        }
        found
    }

    /// The field's key and value as written, including null; marks the field as known.
    pub fn entry(&mut self, name: &'static str) -> Option<Entry<'t>> {
        self.find(name)
    }

    /// An optional field; null counts as absent, as both styles prune it.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        decode: impl FnOnce(&mut Decoder<'t>, Node<'t>) -> Option<T>,
    ) -> Option<T> {
        let entry = self.find(name).filter(|entry| !entry.value.is_null())?;
        let coerce = self.decoder.coerce;
        self.decoder.coerce &= !self.inline;
        self.decoder.path.push(Step::Key(name));
        let value = decode(self.decoder, entry.value);
        self.decoder.path.pop();
        self.decoder.coerce = coerce;
        value
    }

    pub fn required<T>(
        &mut self,
        name: &'static str,
        decode: impl FnOnce(&mut Decoder<'t>, Node<'t>) -> Option<T>,
    ) -> Option<T> {
        let there = self
            .entries
            .iter()
            .any(|entry| entry.key == name && !entry.value.is_null());
        if !there && self.decoder.style == Style::Schema {
            self.find(name);
            self.missing(name);
            return None;
        }
        self.optional(name, decode)
    }

    /// Reports a field as missing.
    pub fn missing(&mut self, name: &'static str) {
        self.decoder.path.push(Step::Key(name));
        let path = self.decoder.path();
        self.decoder.path.pop();
        let required = format!("{path}: Required value");
        self.decoder.add_schema_problem(SchemaProblemKind::Structure, required);
        let start = Span::new(self.owner.file, self.owner.start, self.owner.start);
        let span = self.entries.first().map_or(start, |entry| self.decoder.key_span(entry));
        self.decoder.error(Diagnostic::at(
            Code::MissingField,
            span,
            format!("`{path}` is required and missing"),
        ));
    }

    pub fn string(&mut self, name: &'static str) -> Option<Text> {
        self.optional(name, Decoder::string)
    }

    pub fn required_string(&mut self, name: &'static str) -> Option<Text> {
        self.required(name, Decoder::string)
    }

    /// A list of strings; empty if it is absent.
    pub fn strings(&mut self, name: &'static str) -> Vec<Text> {
        self.optional(name, Decoder::strings).unwrap_or_default()
    }

    /// A boolean.
    pub fn bool(&mut self, name: &'static str) -> Option<Spanned<bool>> {
        self.optional(name, Decoder::bool)
    }

    /// An integer.
    pub fn int(&mut self, name: &'static str) -> Option<Spanned<i64>> {
        self.optional(name, Decoder::int)
    }

    /// One of several keywords.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&'static str, T)]) -> Option<Spanned<T>> {
        self.optional(name, |decoder, node| decoder.word(node, words))
    }

    /// A list of maps; empty if it is absent.
    pub fn list<T>(&mut self, name: &'static str, item: impl FnMut(&mut Decoder<'t>, Node<'t>) -> Option<T>) -> Vec<T> {
        self.optional(name, |decoder, node| decoder.list(node, item))
            .unwrap_or_default()
    }

    /// A part that is kept unchanged.
    pub(crate) fn subtree(&mut self, name: &'static str) -> Option<Subtree> {
        self.optional(name, Decoder::subtree)
    }

    /// Two fields of which a schema allows one.
    pub(crate) fn exclusive(&mut self, first: &'static str, second: &'static str) {
        let there = |name: &str| {
            let mut entries = self.entries.iter();
            entries.find(|entry| entry.key == name && !entry.value.is_null())
        };
        let Some((first_entry, second_entry)) = there(first).zip(there(second)) else {
            return;
        };
        let label = self.decoder.key_span(first_entry);
        let span = self.decoder.key_span(second_entry);
        let path = self.decoder.path();
        let owner = if path.is_empty() {
            "this block".to_owned()
        } else {
            format!("`{path}`")
        };
        let message = format!("{owner} has both `{first}` and `{second}`, of which it may have one");
        self.decoder.note_forbidden(&path);
        self.decoder
            .error(Diagnostic::at(Code::BadValue, span, message).with_label(label, "the other one is here"));
    }

    /// Known fields that are not decoded.
    pub fn ignore(&mut self, names: &[&'static str]) {
        for name in names {
            self.find(name);
        }
    }

    /// A field of an older version: it is rejected with a hint on what to write instead.
    pub fn removed(&mut self, name: &'static str, instead: &str) {
        let Some(entry) = self.entries.iter().position(|entry| entry.key == name) else {
            return;
        };
        self.used[entry] = true;
        let entry = self.entries[entry];
        self.decoder.path.push(Step::Key(name));
        let message = format!("`{}` does not exist any more", self.decoder.path());
        self.decoder.path.pop();
        let span = self.decoder.key_span(&entry);
        self.decoder.unknown = true;
        self.decoder
            .remark(Diagnostic::at(Code::RemovedField, span, message).with_help(instead));
    }

    /// Reports the fields that were not read.
    pub fn finish(self) {
        for (entry, _) in self.entries.iter().zip(&self.used).filter(|(_, used)| !**used) {
            let key = entry.key;
            let owner = self.decoder.path();
            let message = if owner.is_empty() {
                format!("unknown field `{key}`")
            } else {
                format!("unknown field `{key}` in `{owner}`")
            };
            let span = self.decoder.key_span(entry);
            let mut diagnostic = Diagnostic::at(Code::UnknownField, span, message);
            match nearest(key, self.known.iter().copied()).as_slice() {
                [] => {}
                [near, ..] => diagnostic = diagnostic.with_help(format!("did you mean `{near}`?")),
            }
            self.decoder.unknown = true;
            let dot = if owner.is_empty() { "" } else { "." };
            self.decoder.unknown_paths.push(format!("{owner}{dot}{key}"));
            self.decoder.diagnostics.push(diagnostic);
        }
    }
}

/// Go's `EqualFold` for field names, which are ASCII; the two other letters that fold to ASCII are the long s and the
/// Kelvin sign.
fn fold_equal(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}

/// Whether a value has fields, in itself or in the items of a list.
fn has_fields(node: Node<'_>) -> bool {
    match node.kind() {
        Kind::Map(map) => !map.is_empty(),
        Kind::Seq(items) => items.iter().any(has_fields),
        _ => false,
    }
}

/// Collects the paths of the fields below a value that should have none.
fn unknown_fields(node: Node<'_>, path: &str, paths: &mut Vec<String>) {
    match node.kind() {
        Kind::Map(map) => paths.extend(map.iter().map(|entry| format!("{path}.{}", entry.key))),
        Kind::Seq(items) => {
            for (i, item) in items.iter().enumerate() {
                unknown_fields(item, &format!("{path}[{i}]"), paths);
            }
        }
        _ => {}
    }
}
