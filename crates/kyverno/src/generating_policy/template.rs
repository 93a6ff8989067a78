//! Objects written as YAML, with placeholders in their scalars.
//!
//! Upstream counterpart: `pkg/cel/policies/gpol/template` (1.19), texts included; those about invalid YAML are upstream's only
//! for unfinished flow collections.

mod scan;

use std::sync::Arc;

use crate::cel_policy::evaluate::Run;
use kyvtest_cel::{
    compile::analyse, context::Context, env::Env, library::kyverno::to_json, plan::plan, program::Program, val::Val,
};
use kyvtest_go_compat::{
    text::quote::quote,
    value::Data,
    yaml::{self, Entries, Entry, Items, Kind, LineIndex, Node, Position},
};
use scan::{Segment, has_escape, has_placeholder, scan};

/// A template that is ready for rendering.
#[derive(Debug)]
pub(super) struct Template {
    documents: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Literal(Data),
    Map(Vec<(String, Part)>),
    List(Vec<Part>),
    /// A scalar that is one placeholder: any value takes its place.
    Splice(Placeholder),
    /// A scalar with placeholders in it.
    Text(Vec<Piece>),
}

#[derive(Debug)]
enum Piece {
    Literal(String),
    Placeholder(Placeholder),
}

#[derive(Debug)]
struct Placeholder {
    expression: String,
    program: Program,
}

impl Template {
    /// Compiles the YAML documents of a template.
    ///
    /// # Errors
    /// The first problem, in upstream's words.
    pub(super) fn compile(text: &str, interpolate: bool, env: &Env) -> Result<Self, String> {
        let stream = yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default());
        let lines = stream.lines().clone();
        let mut documents = Vec::new();
        for document in stream.into_documents() {
            let tree = document
                .into_tree()
                .map_err(|error| format!("failed to parse YAML: {}", yaml_error(&error, &lines)))?;
            let root = tree.root();
            if root.is_null() {
                continue;
            }
            let compiler = Compiler {
                env,
                interpolate,
                lines: &lines,
            };
            let part = compiler.part(root)?;
            let is_map = match &part {
                Part::Map(_) | Part::Splice(_) => true,
                Part::Literal(value) => value.as_map().is_some(),
                Part::List(_) | Part::Text(_) => false,
            };
            if !is_map {
                let line = compiler.line(root);
                return Err(format!("line {line}: document must be a mapping describing a resource"));
            }
            documents.push(part);
        }
        if documents.is_empty() {
            return Err("template must contain at least one YAML document".to_owned());
        }
        Ok(Self { documents })
    }

    /// Renders the objects.
    ///
    /// # Errors
    /// The first problem, in upstream's words.
    pub(super) fn render<'a>(&'a self, run: &Run<'a>, context: &Context<'a>) -> Result<Vec<Data>, String> {
        let documents = self.documents.iter().enumerate();
        documents
            .map(|(i, document)| {
                let number = i + 1;
                let object = document
                    .render(run, context)
                    .map_err(|error| format!("document {number}: {error}"))?;
                if object.as_map().is_some() {
                    return Ok(object);
                }
                let kind = object.go_type();
                Err(format!(
                    "document {number}: expected a mapping describing a resource, got {kind}"
                ))
            })
            .collect()
    }
}

/// The reader's text, with the line that upstream's has.
fn yaml_error(error: &yaml::Error, lines: &LineIndex) -> String {
    // Upstream counts the lines of parser errors from zero.
    let Position { line, .. } = lines.position(error.span().start);
    let line = line.saturating_sub(1).max(1);
    match error.to_string().as_str() {
        "expected `,` or `]`" => format!("yaml: line {line}: did not find expected ',' or ']'"),
        "expected `,` or `}`" => format!("yaml: line {line}: did not find expected ',' or '}}'"),
        text => format!("yaml: line {line}: {text}"),
    }
}

/// A key as it is written: the reader turns words of YAML 1.1 into truth values.
fn written_key(node: Node<'_>, entry: &Entry<'_>) -> String {
    let source = node.tree().source();
    let span = entry.key_span;
    let written = source.get(span.start as usize..span.end as usize).unwrap_or_default();
    if matches!(entry.key, "true" | "false") && !written.starts_with(['"', '\'']) {
        return written.to_owned();
    }
    entry.key.to_owned()
}

struct Compiler<'c> {
    env: &'c Env,
    interpolate: bool,
    lines: &'c LineIndex,
}

impl Compiler<'_> {
    fn line(&self, node: Node<'_>) -> u32 {
        self.lines.position(node.span().start).line
    }

    fn part(&self, node: Node<'_>) -> Result<Part, String> {
        if !self.interpolate || !has_placeholders(node) {
            return Ok(Part::Literal(literal(node)));
        }
        match node.kind() {
            Kind::Map(entries) => self.map(node, entries),
            Kind::Seq(items) => {
                let parts: Result<Vec<Part>, String> = items.iter().map(|item| self.part(item)).collect();
                Ok(Part::List(parts?))
            }
            _ => self.scalar(node),
        }
    }

    fn map(&self, node: Node<'_>, entries: Entries<'_>) -> Result<Part, String> {
        let span = node.span();
        let mut parts = Vec::new();
        for entry in entries.iter() {
            let line = self.lines.position(entry.key_span.start).line;
            // An entry that is written elsewhere comes from a merge.
            if entry.key_span.start < span.start || entry.key_span.start >= span.end {
                let own = &self.lines.text()[span.start as usize..span.end as usize];
                let at = own.find("<<").map_or(span.start, |at| span.start + at as u32);
                let line = self.lines.position(at).line;
                let text = "YAML merge keys are not supported in subtrees containing placeholders";
                return Err(format!("line {line}: {text}"));
            }
            if has_placeholder(entry.key) {
                return Err(format!(
                    "line {line}: placeholders are not supported in mapping keys; use a whole-value placeholder on the \
                     parent field instead (e.g. `labels: (( variables.labels ))`)"
                ));
            }
            parts.push((written_key(node, &entry), self.part(entry.value)?));
        }
        Ok(Part::Map(parts))
    }

    fn scalar(&self, node: Node<'_>) -> Result<Part, String> {
        let line = self.line(node);
        let text = node.raw_text().unwrap_or_default();
        let segments = scan(text).map_err(|error| format!("line {line}: {error}"))?;
        if let [Segment::Expression(expression)] = segments.as_slice() {
            return Ok(Part::Splice(self.placeholder(line, expression)?));
        }
        let mut pieces = Vec::new();
        for segment in segments {
            pieces.push(match segment {
                Segment::Literal(text) => Piece::Literal(text),
                Segment::Expression(expression) => Piece::Placeholder(self.placeholder(line, &expression)?),
            });
        }
        let literal: Option<String> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => Some(text.as_str()),
                Piece::Placeholder(_) => None,
            })
            .collect();
        Ok(match literal {
            Some(text) => Part::Literal(text.into()),
            None => Part::Text(pieces),
        })
    }

    fn placeholder(&self, line: u32, expression: &str) -> Result<Placeholder, String> {
        let quoted = quote(expression);
        let checked = analyse(expression, self.env)
            .map_err(|error| format!("line {line}: invalid placeholder expression {quoted}: {error}"))?;
        let program = plan(&checked, self.env)
            .map_err(|error| format!("line {line}: failed to build placeholder program {quoted}: {error}"))?;
        Ok(Placeholder {
            expression: expression.to_owned(),
            program,
        })
    }
}

impl Part {
    fn render<'a>(&'a self, run: &Run<'a>, context: &Context<'a>) -> Result<Data, String> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Map(entries) => entries
                .iter()
                .map(|(key, part)| match part.render(run, context) {
                    Ok(value) => Ok((Arc::from(key.as_str()), value)),
                    Err(error) => Err(format!("field {}: {error}", quote(key))),
                })
                .collect(),
            Self::List(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(i, part)| part.render(run, context).map_err(|error| format!("item {i}: {error}")))
                    .collect()
            }
            Self::Splice(placeholder) => placeholder.value(run, context),
            Self::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Literal(literal) => text.push_str(literal),
                        Piece::Placeholder(placeholder) => text.push_str(&placeholder.text(run, context)?),
                    }
                }
                Ok(text.into())
            }
        }
    }
}

impl Placeholder {
    fn value<'a>(&'a self, run: &Run<'a>, context: &Context<'a>) -> Result<Data, String> {
        let quoted = quote(&self.expression);
        let value = run.value(&self.program);
        if let Val::Error(error) = value {
            return Err(format!("failed to evaluate placeholder {quoted}: {error}"));
        }
        native(value, context).map_err(|error| format!("failed to convert placeholder {quoted} result: {error}"))
    }

    fn text<'a>(&'a self, run: &Run<'a>, context: &Context<'a>) -> Result<String, String> {
        let value = self.value(run, context)?;
        match value {
            Data::Null | Data::List(_) | Data::Map(_) => Err(format!(
                "placeholder {} embedded in a string must evaluate to a scalar, got {}; use a whole-value placeholder for \
                 structured results",
                quote(&self.expression),
                value.go_type()
            )),
            scalar => Ok(scalar.to_go()),
        }
    }
}

/// The value as Go has it: integers stay integers, other types go through protobuf's JSON.
fn native<'a>(value: Val<'a>, context: &Context<'a>) -> Result<Data, String> {
    Ok(match value {
        Val::Null => Data::Null,
        Val::String(text) => text.into(),
        Val::Bool(value) => value.into(),
        Val::Int(value) => value.into(),
        Val::Uint(value) => match i64::try_from(value) {
            Ok(value) => value.into(),
            Err(_) => return Err(format!("uint value {value} overflows the supported integer range")),
        },
        Val::Double(value) => value.into(),
        other => Data::from(to_json(context, other)?.root()),
    })
}

/// Whether a scalar below has a placeholder, or an escaped one.
fn has_placeholders(node: Node<'_>) -> bool {
    match node.kind() {
        Kind::Map(entries) => entries
            .iter()
            .any(|entry| has_placeholder(entry.key) || has_escape(entry.key) || has_placeholders(entry.value)),
        Kind::Seq(items) => items.iter().any(has_placeholders),
        _ => node
            .raw_text()
            .is_some_and(|text| has_placeholder(text) || has_escape(text)),
    }
}

/// The value of a node as the newer YAML library of the template engine resolves it: the YAML 1.1 words for booleans
/// are strings, and `0o17` is a number.
fn literal(node: Node<'_>) -> Data {
    match node.kind() {
        Kind::Map(entries) => {
            let entries = entries.iter();
            entries
                .map(|entry| (Arc::from(written_key(node, &entry)), literal(entry.value)))
                .collect()
        }
        Kind::Seq(items) => Items::iter(items).map(literal).collect(),
        Kind::Null => Data::Null,
        Kind::Bool(value) => match node.raw_text() {
            Some(text) if !is_boolean(text) => text.into(),
            _ => value.into(),
        },
        Kind::Int(value) => value.into(),
        Kind::Uint(value) => Data::Uint(value),
        Kind::Float(value) => value.into(),
        Kind::Str(text) => octal(node, text).map_or_else(|| text.into(), Data::from),
    }
}

fn is_boolean(text: &str) -> bool {
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
}

/// The number of a plain scalar such as `0o17`.
fn octal(node: Node<'_>, text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0o")?;
    let is_plain = !node.tree().source()[node.span().start as usize..].starts_with(['"', '\'', '|', '>']);
    is_plain.then(|| i64::from_str_radix(digits, 8).ok()).flatten()
}
