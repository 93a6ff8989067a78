//! Payloads of policies on other input than admission requests.

use std::sync::Arc;

use super::{Loader, extension, is_yaml};
use crate::suite::{Payload, Test, Upstream, files::resolve};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    value::{Builder, Document, Value},
    yaml::Mode,
};
use kyvtest_kyverno::authorization::Request;
use kyvtest_model::policy::{Text, place};

/// The kind of a payload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Http,
    Envoy,
}

impl Loader<'_> {
    pub(super) fn payloads(&mut self, test: &Test) {
        for at in &test.json_payloads {
            let payload = self.payload(at, Kind::Json);
            self.suite.json_payloads.extend(payload);
        }
        for at in &test.http_payloads {
            let payload = self.payload(at, Kind::Http);
            self.suite.http_payloads.extend(payload);
        }
        for at in &test.envoy_payloads {
            let payload = self.payload(at, Kind::Envoy);
            self.suite.envoy_payloads.extend(payload);
        }
    }

    /// A payload: one object. That of a JSON policy may also be YAML, by the file's extension; the others are JSON.
    fn payload(&mut self, at: &Text, kind: Kind) -> Option<Payload> {
        let path = resolve(&self.directory, &at.value);
        let payload = self.read_payload(at, &path, kind);
        if payload.is_none() {
            self.stop(Upstream::Aborts);
        }
        payload
    }

    fn read_payload(&mut self, at: &Text, path: &str, kind: Kind) -> Option<Payload> {
        let bytes = self.bytes(at.span, path, &at.value)?;
        let any = kind == Kind::Json;
        let json = extension(path) == "json" || !any;
        if any && !json && !is_yaml(path) {
            let message = format!("the payload `{}` is neither `.json` nor `.yaml` nor `.yml`", at.value);
            self.say(Diagnostic::at(Code::WrongKind, at.span, message));
            return None;
        }
        let (stream, file) = self.stream(&bytes, path, Mode::Lax);
        if json && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(stream.source()) {
            let message = format!("this is not JSON: {error}");
            let offset = offset(stream.source(), error.line(), error.column());
            self.say(Diagnostic::at(Code::JsonSyntax, Span::point(file, offset), message));
            return None;
        }
        if let Some(error) = stream.first_error() {
            let diagnostic = Diagnostic::from_yaml(file, error);
            self.say(diagnostic);
            return None;
        }
        let source = stream.source().to_owned();
        let mut documents = stream.into_documents().into_iter();
        let tree = documents.next().and_then(|document| document.into_tree().ok());
        let is_object = |root: Value<'_>| root.as_map().is_some() || kind == Kind::Http && root.is_null();
        let Some(tree) = tree.filter(|tree| is_object(Document::from(tree.root()).root())) else {
            let message = format!("the payload `{}` must be one object", at.value);
            self.say(Diagnostic::at(Code::WrongType, Span::point(file, 0), message));
            return None;
        };
        if let Some(second) = documents.next() {
            let message = format!("the payload `{}` must be a single object, not several", at.value);
            let span = place(file, second.span());
            self.say(Diagnostic::at(Code::WrongType, Span::point(file, span.start), message));
            return None;
        }
        let mut document = Document::from(tree.root());
        let request = match kind {
            Kind::Json => None,
            Kind::Http => Some(Request::http(&source)),
            Kind::Envoy => Some(Request::envoy(document.root())),
        };
        let request = match request.transpose() {
            Ok(request) => request.map(Arc::new),
            Err(error) => {
                let message = format!("the payload `{}` is not valid: {error}", at.value);
                self.say(Diagnostic::at(Code::WrongType, Span::point(file, 0), message));
                return None;
            }
        };
        if json {
            let mut builder = Builder::new();
            doubles(&mut builder, document.root());
            document = builder.finish();
        }
        Some(Payload {
            path: at.clone(),
            full_path: path.to_owned(),
            document: Arc::new(document),
            request,
        })
    }
}

/// The byte at a line and column, both counted in bytes from 1.
fn offset(text: &str, line: usize, column: usize) -> u32 {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    (start + column.saturating_sub(1)).min(text.len()) as u32
}

/// Copies a value with every number as a double, as Go's own JSON decoder delivers them.
fn doubles(builder: &mut Builder, value: Value<'_>) {
    match value {
        Value::Int(int) => builder.double(int as f64),
        Value::Uint(uint) => builder.double(uint as f64),
        Value::List(list) => {
            builder.begin_list();
            for item in list.iter() {
                doubles(builder, item);
            }
            builder.end();
        }
        Value::Map(map) => {
            builder.begin_map();
            for (key, item) in map.iter() {
                builder.key(key.text());
                doubles(builder, item);
            }
            builder.end();
        }
        other => builder.value(other),
    }
}
