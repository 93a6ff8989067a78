//! Mocks of a suite: HTTP calls and entries of the global context.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/apis/v1alpha1/test.go` (1.19), `ValidateAPICallResponses` and
//! `ValidateGlobalContextEntries`, whose errors end the run there.

use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    value::{Builder, Data, Document},
    yaml::Node,
};
use kyvtest_model::policy::{Spanned, Text, decode::Decoder};

/// The response to an HTTP call.
#[derive(Debug, Clone)]
pub struct ApiCallResponse {
    /// The URL: absolute, or a path of the API server.
    pub url: Text,
    /// `None` matches both.
    pub method: Option<Method>,
    pub status_code: u16,
    /// A map.
    pub body: Spanned<Document>,
    pub span: Span,
}

/// The method of an HTTP call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`
    Post,
}

/// An entry of the global context.
#[derive(Debug, Clone)]
pub struct GlobalContextEntry {
    pub name: Text,
    pub source: GlobalContextSource,
    /// A JMESPath expression on the data.
    pub field_path: Option<Text>,
    /// Named parts of the data.
    pub projections: Vec<(Text, Text)>,
    pub span: Span,
}

impl GlobalContextEntry {
    /// The data before its path and its projections.
    pub(crate) fn data(&self) -> Data {
        match &self.source {
            GlobalContextSource::Data(data) => Data::from(data.value.root()),
            GlobalContextSource::Resources(objects) => {
                objects.iter().map(|object| Data::from(object.value.root())).collect()
            }
            GlobalContextSource::Files(_) => Data::Null,
        }
    }
}

/// The data source of an entry of the global context.
#[derive(Debug, Clone)]
pub enum GlobalContextSource {
    /// A map.
    Data(Spanned<Document>),
    /// A list of objects.
    Resources(Vec<Spanned<Document>>),
    /// Files of objects; once the suite is loaded, the objects are in [`GlobalContextSource::Resources`].
    Files(Vec<Text>),
}

/// An error that makes Kyverno end the run, although the file can be decoded.
fn refuse(decoder: &mut Decoder<'_>, span: Span, message: String) {
    decoder.refuse(Diagnostic::at(Code::BadValue, span, message));
}

impl ApiCallResponse {
    /// The response as CEL's libraries see it.
    pub(crate) fn answer(&self) -> Document {
        let mut builder = Builder::new();
        builder.begin_map();
        builder.key("body");
        builder.value(self.body.value.root());
        builder.key("statusCode");
        builder.int(i64::from(self.status_code));
        builder.end();
        builder.finish()
    }

    /// The lookup key: method and URL, or the URL alone.
    pub fn key(&self) -> String {
        match self.method {
            Some(Method::Get) => format!("GET:{}", self.url.value),
            Some(Method::Post) => format!("POST:{}", self.url.value),
            None => self.url.value.clone(),
        }
    }

    /// Decodes an entry. One that Kyverno rejects is reported and left out.
    pub(crate) fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let path = decoder.path();
        let mut fields = decoder.fields(node)?;
        let url = fields.string("url").filter(|url| !url.trim().is_empty());
        let url_path = fields.string("urlPath").filter(|path| !path.trim().is_empty());
        let method = fields.string("method");
        let (mut status, mut body) = (None, None);
        fields.optional("response", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            status = fields.int("statusCode");
            body = fields.optional("body", Decoder::value);
            fields.finish();
            Some(())
        });
        fields.finish();
        let url = match (url, url_path) {
            (Some(url), None) => {
                let rest = url.trim().split_once("://").map(|(scheme, rest)| {
                    let scheme = scheme.to_ascii_lowercase();
                    (scheme == "http" || scheme == "https", rest)
                });
                if !rest.is_some_and(|(scheme, rest)| scheme && !rest.is_empty() && !rest.starts_with(['/', '?', '#']))
                {
                    let message = format!("`{}` is not an absolute `http` or `https` URL", url.value);
                    refuse(decoder, url.span, message);
                    return None;
                }
                url
            }
            (None, Some(path)) => {
                if !path.trim().starts_with('/') {
                    let message = format!("the `urlPath` `{}` does not start with `/`", path.value);
                    refuse(decoder, path.span, message);
                    return None;
                }
                path
            }
            (Some(_), Some(path)) => {
                refuse(
                    decoder,
                    path.span,
                    "`url` and `urlPath` are mutually exclusive".to_owned(),
                );
                return None;
            }
            (None, None) => {
                let start = Span::point(span.file, span.start);
                refuse(decoder, start, format!("`{path}` has neither `url` nor `urlPath`"));
                return None;
            }
        };
        let method = match method
            .as_ref()
            .map(|method| method.trim().to_ascii_uppercase())
            .as_deref()
        {
            None | Some("") => None,
            Some("GET") => Some(Method::Get),
            Some("POST") => Some(Method::Post),
            Some(other) => {
                let place = method.as_ref().map_or(span, |method| method.span);
                refuse(decoder, place, format!("invalid method `{other}`: use `GET` or `POST`"));
                return None;
            }
        };
        let Some(body) = body else {
            let start = Span::point(span.file, span.start);
            refuse(decoder, start, format!("`{path}` has no `response.body`"));
            return None;
        };
        if body.root().as_map().is_none() {
            refuse(decoder, body.span, format!("`{path}.response.body` must be a map"));
            return None;
        }
        let status_code = match status {
            None => 200,
            Some(status) if status.value == 0 => 200,
            Some(status) if (100..=599).contains(&status.value) => status.value as u16,
            Some(status) => {
                let message = format!("the status code `{}` is not between 100 and 599", status.value);
                refuse(decoder, status.span, message);
                return None;
            }
        };
        Some(Self {
            url: Spanned::new(url.trim().to_owned(), url.span),
            method,
            status_code,
            body,
            span,
        })
    }
}

impl GlobalContextEntry {
    /// Decodes an entry. One that Kyverno rejects is reported and left out.
    pub(crate) fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let start = Span::point(span.file, span.start);
        let path = decoder.path();
        let mut fields = decoder.fields(node)?;
        let name = fields.string("name").filter(|name| !name.trim().is_empty());
        let data = fields.optional("data", Decoder::value);
        let resources = fields.optional("resources", |decoder, node| decoder.list(node, Decoder::value));
        let files = fields.optional("resourceFiles", Decoder::strings);
        let field_path = fields.string("fieldPath").filter(|path| !path.is_empty());
        let mut complete = true;
        let projections = fields.list("projections", |decoder, node| {
            let span = decoder.span(node);
            let mut fields = decoder.fields(node)?;
            let name = fields.string("name").filter(|name| !name.trim().is_empty());
            let path = fields.string("path").filter(|path| !path.trim().is_empty());
            fields.finish();
            if name.is_none() || path.is_none() {
                complete = false;
                refuse(decoder, span, "a projection needs a `name` and a `path`".to_owned());
            }
            Some((name?, path?))
        });
        fields.finish();
        let Some(name) = name else {
            refuse(decoder, start, format!("`{path}` has no `name`"));
            return None;
        };
        let source = match (data, resources, files) {
            (Some(data), None, None) => {
                if data.root().as_map().is_none() {
                    refuse(decoder, data.span, format!("`{path}.data` must be a map"));
                    return None;
                }
                GlobalContextSource::Data(data)
            }
            (None, Some(resources), None) => {
                if let Some(bad) = resources.iter().find(|resource| resource.root().as_map().is_none()) {
                    refuse(decoder, bad.span, format!("each of `{path}.resources` must be a map"));
                    return None;
                }
                GlobalContextSource::Resources(resources)
            }
            (None, None, Some(files)) => {
                for file in &files {
                    let cleaned = super::files::clean(file.trim());
                    if file.trim().is_empty()
                        || cleaned.starts_with('/')
                        || cleaned == ".."
                        || cleaned.starts_with("../")
                    {
                        let message = format!("`{}` is not a path below the suite's directory", file.value);
                        refuse(decoder, file.span, message);
                        return None;
                    }
                }
                GlobalContextSource::Files(files)
            }
            (None, None, None) => {
                let message = format!("`{path}` has none of `data`, `resources` and `resourceFiles`");
                refuse(decoder, start, message);
                return None;
            }
            _ => {
                let message = format!("`{path}` has more than one of `data`, `resources` and `resourceFiles`");
                refuse(decoder, start, message);
                return None;
            }
        };
        complete.then_some(Self {
            name: Spanned::new(name.trim().to_owned(), name.span),
            source,
            field_path,
            projections,
            span,
        })
    }
}
