//! The sidecar `kyvtest.yaml`: settings of a suite for kyvtest that `kyverno test` ignores.
//!
//! The file is next to the suite, so that the suite itself keeps Kyverno's format. Our format is described in
//! `docs/sidecar.md`. Annotations of the suite are an alternative ([`super::annotations`]).

use super::test::{Expected, OPERATIONS, Test};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span, nearest},
    yaml::{Items, Node},
};
use kyvtest_kyverno::image_mocks::ImageMock;
use kyvtest_model::{
    kube::Operation,
    policy::{
        Spanned, Subtree, Text,
        decode::{Decoder, Fields},
    },
    verdict::{DivergenceClass, Effect},
};

pub const SIDECAR: &str = "kyvtest.yaml";

pub(crate) const API_VERSION: &str = "kyvtest.dev/v1";
pub(crate) const KIND: &str = "Sidecar";

/// One document of a sidecar.
#[derive(Debug, Clone)]
pub struct Sidecar {
    /// The suite's name; `None` for a test file with one document.
    pub suite: Option<Text>,
    /// Files of old states of resources.
    pub old_resources: Vec<Text>,
    /// Expectations for rows of the suite.
    pub rows: Vec<RowExpectation>,
    /// Additional rows.
    pub cases: Vec<Case>,
    /// Mocks of registries.
    pub images: Vec<ImageMock>,
    /// The attestors in the mocks.
    pub attestors: Vec<Text>,
    pub span: Span,
}

/// Expectations for rows of the suite.
#[derive(Debug, Clone)]
pub struct RowExpectation {
    pub selector: RowSelector,
    pub expectation: Expectation,
    pub span: Span,
}

/// Selects rows: all given fields must match.
#[derive(Debug, Clone, Default)]
pub struct RowSelector {
    /// The row's index.
    pub row: Option<Spanned<usize>>,
    pub policy: Option<Text>,
    pub rule: Option<Text>,
    /// One of the row's resources; the expectation then only applies to it.
    pub resource: Option<Text>,
    pub operation: Option<Spanned<Operation>>,
}

/// An additional row of the sidecar: Kyverno never sees it.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: Option<Text>,
    /// The policy, as in a row.
    pub policy: Text,
    pub rule: Option<Text>,
    /// The resources, as in a row.
    pub resources: Vec<Text>,
    pub operation: Option<Spanned<Operation>>,
    pub result: Option<Spanned<Expected>>,
    pub expectation: Expectation,
    pub span: Span,
}

/// Expectations besides a result.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// The object before the request.
    pub old_object: Option<OldObject>,
    /// The effect on a user of the cluster.
    pub effect: Option<Spanned<Effect>>,
    /// The message to a user of the cluster.
    pub message: Option<ExpectedMessage>,
    /// Whether the policy matches the resource.
    pub matches: Option<Spanned<bool>>,
    /// An accepted divergence.
    pub divergence: Option<ExpectedDivergence>,
}

/// The object before the request.
#[derive(Debug, Clone)]
pub enum OldObject {
    /// Written inline.
    Inline(Subtree),
    /// In a file with one object.
    File(Text),
}

#[derive(Debug, Clone)]
pub enum ExpectedMessage {
    /// Exactly this.
    Exact(Text),
    /// A substring of the message.
    Contains(Text),
}

/// An accepted divergence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDivergence {
    pub class: Spanned<DivergenceClass>,
    /// The code of its cause, such as a hazard.
    pub code: Option<Text>,
    /// The reason for accepting it.
    pub reason: Text,
    /// The last day of acceptance, such as `2027-03-31`; unlimited if absent.
    pub expires: Option<Text>,
}

/// Whether a string is a date for [`ExpectedDivergence::expires`].
pub fn is_day(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// The fields of an expectation.
const EXPECTATIONS: [&str; 7] = [
    "oldObject",
    "oldObjectFile",
    "effect",
    "message",
    "messageContains",
    "matches",
    "divergence",
];

pub(crate) const EFFECTS: [(&str, Effect); 4] = [
    ("admit", Effect::Admit),
    ("deny", Effect::Deny),
    ("warn", Effect::Warn),
    ("audit", Effect::Audit),
];

pub(crate) const CLASSES: [(&str, DivergenceClass); 8] = [
    (DivergenceClass::Weaker.as_str(), DivergenceClass::Weaker),
    (DivergenceClass::Stricter.as_str(), DivergenceClass::Stricter),
    (DivergenceClass::Action.as_str(), DivergenceClass::Action),
    (DivergenceClass::Changed.as_str(), DivergenceClass::Changed),
    (DivergenceClass::Error.as_str(), DivergenceClass::Error),
    (DivergenceClass::Scope.as_str(), DivergenceClass::Scope),
    (DivergenceClass::Message.as_str(), DivergenceClass::Message),
    (
        DivergenceClass::NotConvertible.as_str(),
        DivergenceClass::NotConvertible,
    ),
];

impl Sidecar {
    pub(crate) fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        for (name, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if let Some(found) = fields.required_string(name)
                && found.value != wanted
            {
                let message = format!("`{name}` is `{}`, expected `{wanted}`", found.value);
                fields
                    .decoder()
                    .error(Diagnostic::at(Code::WrongKind, found.span, message));
            }
        }
        let sidecar = Self {
            suite: fields.string("suite"),
            old_resources: fields.strings("oldResources"),
            rows: fields.list("rows", RowExpectation::decode),
            cases: fields.list("cases", Case::decode),
            images: fields.list("images", ImageMock::decode),
            attestors: attestors(fields.decoder(), node),
            span,
        };
        fields.finish();
        Some(sidecar)
    }
}

/// The attestors in image mocks.
fn attestors<'t>(decoder: &Decoder<'t>, sidecar: Node<'t>) -> Vec<Text> {
    let items = |node: Node<'t>, key: &str| {
        let list = node.get(key).and_then(Node::as_seq);
        list.into_iter().flat_map(Items::iter)
    };
    let images = items(sidecar, "images");
    let signed = images.flat_map(|image| std::iter::once(image).chain(items(image, "attestations")));
    let names = signed.flat_map(|signed| items(signed, "signatures"));
    let names = names.filter_map(|signature| signature.get("attestor"));
    names
        .filter_map(|name| Some(Spanned::new(name.as_str()?.to_owned(), decoder.span(name))))
        .collect()
}

impl RowExpectation {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let selector = RowSelector {
            row: fields.optional("row", |decoder, node| {
                let row = decoder.int(node)?;
                match usize::try_from(row.value) {
                    Ok(number) => Some(Spanned::new(number, row.span)),
                    Err(_) => {
                        decoder.bad_value(row.span, "rows are numbered from 0");
                        None
                    }
                }
            }),
            policy: fields.string("policy"),
            rule: fields.string("rule"),
            resource: fields.string("resource"),
            operation: fields.word("operation", &OPERATIONS),
        };
        let expectation = Expectation::decode(&mut fields);
        let silent = !fields.has_any(&EXPECTATIONS);
        fields.finish();
        if silent {
            let start = Span::point(span.file, span.start);
            decoder.error(
                Diagnostic::at(Code::MissingField, start, "this entry has no expectations")
                    .with_help("add `effect`, `message`, `messageContains`, `matches`, `divergence` or `oldObject`"),
            );
        }
        Some(Self {
            selector,
            expectation,
            span,
        })
    }
}

impl Case {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let name = fields.string("name");
        let policy = fields.required_string("policy");
        let rule = fields.string("rule");
        let resources = fields.required("resources", Decoder::strings);
        let operation = fields.word("operation", &OPERATIONS);
        let result = fields.word("result", &Expected::WORDS);
        let expectation = Expectation::decode(&mut fields);
        let silent = !fields.has_any(&EXPECTATIONS) && !fields.has_any(&["result"]);
        fields.finish();
        if silent {
            let start = Span::point(span.file, span.start);
            decoder.error(
                Diagnostic::at(Code::MissingField, start, "this case has no expectations")
                    .with_help("add `result`, `effect`, `message`, `messageContains`, `matches` or `divergence`"),
            );
        }
        if let (Some(result), Some(matches)) = (&result, &expectation.matches)
            && !matches.value
            && result.value != Expected::Skip
        {
            let message = format!(
                "a resource that does not match cannot have the result `{}`",
                result.value.as_str()
            );
            decoder.error(
                Diagnostic::at(Code::Contradiction, result.span, message)
                    .with_label(matches.span, "no match is expected here"),
            );
        }
        Some(Self {
            name,
            policy: policy?,
            rule,
            resources: resources?,
            operation,
            result,
            expectation,
            span,
        })
    }
}

impl Expectation {
    fn decode(fields: &mut Fields<'_, '_>) -> Self {
        let inline = fields.optional("oldObject", Decoder::map_part);
        let file = fields.string("oldObjectFile");
        if let (Some(inline), Some(file)) = (&inline, &file) {
            let message = "`oldObject` and `oldObjectFile` are mutually exclusive";
            fields.decoder().error(
                Diagnostic::at(Code::Contradiction, file.span, message)
                    .with_label(inline.span(), "the object is also given here"),
            );
        }
        let exact = fields.string("message");
        let part = fields.string("messageContains");
        if let (Some(exact), Some(part)) = (&exact, &part) {
            let message = "`message` and `messageContains` are mutually exclusive";
            fields.decoder().error(
                Diagnostic::at(Code::Contradiction, part.span, message)
                    .with_label(exact.span, "the whole message is expected here"),
            );
        }
        let expectation = Self {
            old_object: inline.map(OldObject::Inline).or(file.map(OldObject::File)),
            effect: fields.word("effect", &EFFECTS),
            message: exact
                .map(ExpectedMessage::Exact)
                .or(part.map(ExpectedMessage::Contains)),
            matches: fields.bool("matches"),
            divergence: fields.optional("divergence", ExpectedDivergence::decode),
        };
        if let (Some(matches), Some(effect)) = (&expectation.matches, &expectation.effect)
            && !matches.value
            && effect.value != Effect::Admit
        {
            fields.decoder().error(
                Diagnostic::at(
                    Code::Contradiction,
                    effect.span,
                    "a resource that does not match is always admitted",
                )
                .with_label(matches.span, "no match is expected here"),
            );
        }
        expectation
    }
}

impl ExpectedDivergence {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let class = fields.optional("class", |decoder, node| decoder.word(node, &CLASSES));
        if class.is_none() && node.get("class").is_none() {
            fields.missing("class");
        }
        let code = fields.string("code");
        let reason = fields.string("reason").filter(|reason| !reason.trim().is_empty());
        let expires = fields.string("expires");
        if let Some(day) = expires.as_ref().filter(|day| !is_day(&day.value)) {
            let message = format!("invalid date `{}`", day.value);
            let diagnostic = Diagnostic::at(Code::BadValue, day.span, message);
            fields
                .decoder()
                .error(diagnostic.with_help("write dates as `2027-03-31`"));
        }
        fields.finish();
        if reason.is_none() {
            let message = "an expected divergence needs a reason";
            decoder.error(
                Diagnostic::at(Code::MissingReason, Span::point(span.file, span.start), message)
                    .with_help("add `reason:` with a sentence that a reviewer can verify"),
            );
        }
        Some(Self {
            class: class?,
            code,
            reason: reason?,
            expires,
        })
    }
}

impl RowSelector {
    /// The selected rows of a suite.
    pub fn rows<'s>(&'s self, test: &'s Test) -> impl Iterator<Item = usize> + 's {
        let rows = test.results.iter().enumerate();
        rows.filter(|(number, row)| {
            let same = |wanted: &Option<Text>, found: Option<&str>| {
                wanted
                    .as_ref()
                    .is_none_or(|wanted| Some(wanted.value.as_str()) == found)
            };
            let resource = self.resource.as_ref().is_none_or(|wanted| {
                let listed = row.resources.iter().flatten();
                listed.clone().any(|listed| listed.value == wanted.value) || row.resources.is_none()
            });
            self.row.is_none_or(|wanted| wanted.value == *number)
                && same(&self.policy, Some(&row.policy.value))
                && same(&self.rule, row.rule.as_ref().map(|rule| rule.value.as_str()))
                && resource
                && self
                    .operation
                    .is_none_or(|wanted| Some(wanted.value) == row.operation.map(|found| found.value))
        })
        .map(|(number, _)| number)
    }

    /// Explains why no row matches: the first field that excludes all remaining rows, with the rows' values.
    pub(crate) fn why_none(&self, test: &Test, span: Span) -> Diagnostic {
        let rows = test.results.len();
        if let Some(row) = self.row
            && row.value >= rows
        {
            let message = format!(
                "row {} does not exist: the suite has {rows}, numbered from 0",
                row.value
            );
            return Diagnostic::at(Code::UnknownRow, row.span, message);
        }
        let mut partial = Self {
            row: self.row,
            ..Self::default()
        };
        let texts = |name: &str, text: &Text, known: Vec<&str>| {
            let message = format!("no row has the {name} `{}`", text.value);
            let diagnostic = Diagnostic::at(Code::UnknownRow, text.span, message);
            match nearest(&text.value, known.iter().copied()).as_slice() {
                [near, ..] => diagnostic.with_help(format!("did you mean `{near}`?")),
                [] => diagnostic,
            }
        };
        let of = |partial: &Self| -> Vec<usize> { partial.rows(test).collect() };
        let mut left = of(&partial);
        if let Some(policy) = &self.policy {
            partial.policy.clone_from(&self.policy);
            if of(&partial).is_empty() {
                let known = left.iter().map(|row| test.results[*row].policy.value.as_str());
                return texts("policy", policy, known.collect());
            }
            left = of(&partial);
        }
        if let Some(rule) = &self.rule {
            partial.rule.clone_from(&self.rule);
            if of(&partial).is_empty() {
                let known = left.iter().filter_map(|row| test.results[*row].rule.as_ref());
                return texts("rule", rule, known.map(|rule| rule.value.as_str()).collect());
            }
            left = of(&partial);
        }
        if let Some(resource) = &self.resource {
            partial.resource.clone_from(&self.resource);
            if of(&partial).is_empty() {
                let known = left.iter().filter_map(|row| test.results[*row].resources.as_ref());
                return texts(
                    "resource",
                    resource,
                    known.flatten().map(|name| name.value.as_str()).collect(),
                );
            }
        }
        let span = self.operation.map_or(span, |operation| operation.span);
        Diagnostic::at(Code::UnknownRow, span, "no row matches this entry")
    }
}
