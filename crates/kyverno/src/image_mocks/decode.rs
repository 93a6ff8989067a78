//! Image mocks as files write them; `docs/sidecar.md` describes the form.

use super::{AttestationMock, Identity, ImageMock, Signer};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    value::Data,
    yaml::Node,
};
use kyvtest_model::policy::{
    Text,
    decode::{Decoder, Fields},
};

/// The fields that name a signer.
const IDENTITIES: [&str; 6] = ["attestor", "key", "kms", "secret", "certificate", "subject"];

impl ImageMock {
    /// Reads a mock.
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let image = fields.required_string("image");
        let digest = fields.string("digest");
        let signatures = fields.optional("signatures", |decoder, node| decoder.list(node, Signer::decode));
        let attestations = fields.optional("attestations", |decoder, node| {
            decoder.list(node, AttestationMock::decode)
        });
        let states = fields.has_any(&["digest", "signatures", "attestations"]);
        fields.finish();
        if let Some(digest) = digest.as_ref().filter(|digest| !is_digest(digest)) {
            let message = format!("invalid digest `{}`", digest.value);
            let help = "write `sha256:` and 64 hexadecimal digits in lower case";
            decoder.error(Diagnostic::at(Code::BadValue, digest.span, message).with_help(help));
            return None;
        }
        if let Some(image) = image.as_ref().filter(|image| image.trim().is_empty()) {
            decoder.error(Diagnostic::at(Code::BadValue, image.span, "`image` is empty"));
            return None;
        }
        if !states {
            let start = Span::point(span.file, span.start);
            decoder.error(
                Diagnostic::at(Code::MissingField, start, "this mock states nothing about the image")
                    .with_help("add `digest`, `signatures` or `attestations`"),
            );
        }
        Some(Self {
            image: image?.value,
            digest: digest.map(|digest| digest.value),
            signatures,
            attestations,
        })
    }
}

fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl AttestationMock {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let kind = fields.required_string("type");
        let predicate = fields.required("predicate", Decoder::map_part);
        let signatures = fields.optional("signatures", |decoder, node| decoder.list(node, Signer::decode));
        fields.finish();
        Some(Self {
            kind: kind?.value,
            predicate: Data::from(predicate?.document().root()),
            signatures,
        })
    }
}

impl Signer {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let texts = IDENTITIES.map(|name| fields.string(name).map(|text| (name, text)));
        let issuer = fields.string("issuer");
        let extensions = fields.optional("extensions", Decoder::string_map);
        let annotations = fields.optional("annotations", Decoder::string_map);
        let extras = [
            ("issuer", issuer.as_ref().map(|text| text.span)),
            ("extensions", extensions.as_ref().and(Some(span))),
        ];
        let given: Vec<(&str, Text)> = texts.into_iter().flatten().collect();
        let identity = identity(&mut fields, span, given, extras);
        fields.finish();
        let pairs = |list: Option<Vec<(Text, Text)>>| -> Vec<(String, String)> {
            let list = list.into_iter().flatten();
            list.map(|(key, value)| (key.value, value.value)).collect()
        };
        let identity = match identity? {
            Identity::Keyless { subject, .. } => Identity::Keyless {
                subject,
                issuer: issuer.map(|text| text.value).unwrap_or_default(),
                extensions: pairs(extensions),
            },
            other => other,
        };
        Some(Self {
            identity,
            annotations: pairs(annotations),
        })
    }
}

/// The identity that is given; the issuer and the extensions of a keyless one are filled in by the caller.
fn identity(
    fields: &mut Fields<'_, '_>,
    span: Span,
    given: Vec<(&str, Text)>,
    extras: [(&str, Option<Span>); 2],
) -> Option<Identity> {
    let start = Span::point(span.file, span.start);
    let mut given = given.into_iter();
    let Some((name, text)) = given.next() else {
        let message = "this signature does not state who made it";
        let help = "add `attestor`, `key`, `kms`, `secret`, `certificate`, or `subject` and `issuer`";
        fields
            .decoder()
            .error(Diagnostic::at(Code::MissingField, start, message).with_help(help));
        return None;
    };
    if let Some((other, second)) = given.next() {
        let message = format!("`{name}` and `{other}` are mutually exclusive");
        fields.decoder().error(
            Diagnostic::at(Code::Contradiction, second.span, message)
                .with_label(text.span, "the signature is already stated to be of this identity"),
        );
        return None;
    }
    if name == "subject" {
        if extras[0].1.is_none() {
            let message = "a subject needs the issuer that vouches for it";
            let help = "add `issuer`, such as `https://token.actions.githubusercontent.com`";
            fields
                .decoder()
                .error(Diagnostic::at(Code::MissingField, text.span, message).with_help(help));
            return None;
        }
        return Some(Identity::Keyless {
            subject: text.value,
            issuer: String::new(),
            extensions: Vec::new(),
        });
    }
    if let Some((extra, Some(place))) = extras.into_iter().find(|(_, place)| place.is_some()) {
        let message = format!("`{extra}` belongs to a `subject`, not to a `{name}`");
        fields
            .decoder()
            .error(Diagnostic::at(Code::Contradiction, place, message));
        return None;
    }
    let is_secret = text
        .split_once('/')
        .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    if name == "secret" && !is_secret {
        let message = format!("invalid Secret `{}`", text.value);
        fields
            .decoder()
            .error(Diagnostic::at(Code::BadValue, text.span, message).with_help("write `namespace/name`"));
        return None;
    }
    Some(match name {
        "attestor" => Identity::Attestor(text.value),
        "key" => Identity::Key(text.value),
        "kms" => Identity::Kms(text.value),
        "secret" => Identity::Secret(text.value),
        _ => Identity::Certificate(text.value),
    })
}
