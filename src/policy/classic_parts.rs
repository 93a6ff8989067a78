//! The parts that only classic rules have, as far as their schemas go: `context`, `foreach`, `podSecurity`, conditions.
//!
//! Counterpart: the schemas of `kyverno.io/v1` and `v2beta1` (1.19). Each part is checked and kept as it is written.

use super::{
    decode::{Decoder, Fields},
    located::Subtree,
    parts::conditions_with,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    yaml::{Kind, Node},
};

const PROVIDERS: [(&str, ()); 5] = [
    ("default", ()),
    ("amazon", ()),
    ("azure", ()),
    ("google", ()),
    ("github", ()),
];

/// Where a context entry may come from; it has exactly one of these.
const SOURCES: [&str; 5] = ["configMap", "apiCall", "imageRegistry", "variable", "globalReference"];

/// `context`: values that variables come from.
pub(super) fn context<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    decoder.list(node, |decoder, node| {
        let sources = SOURCES
            .iter()
            .filter(|source| node.get(source).is_some_and(|part| !part.is_null()));
        let count = sources.count();
        let mut fields = decoder.fields(node)?;
        fields.required("name", Decoder::string);
        fields.optional("configMap", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            fields.required("name", Decoder::string);
            fields.string("namespace");
            done(fields)
        });
        fields.optional("apiCall", api_call);
        fields.optional("imageRegistry", image_registry);
        fields.optional("variable", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            fields.string("jmesPath");
            fields.ignore(&["value", "default"]);
            done(fields)
        });
        fields.optional("globalReference", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            fields.required("name", Decoder::string);
            fields.string("jmesPath");
            done(fields)
        });
        fields.finish();
        if count != 1 {
            let message = format!(
                "`{}` must have exactly one of `{}`",
                decoder.path(),
                SOURCES.join("`, `")
            );
            decoder.bad_value(decoder.span(node), message);
        }
        Some(())
    })?;
    decoder.subtree(node)
}

fn api_call<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<()> {
    let pair = |decoder: &mut Decoder<'t>, node: Node<'t>| {
        let mut fields = decoder.fields(node)?;
        fields.required("key", Decoder::string);
        fields.required("value", Decoder::subtree);
        done(fields)
    };
    let header = |decoder: &mut Decoder<'t>, node: Node<'t>| {
        let mut fields = decoder.fields(node)?;
        fields.required("key", Decoder::string);
        fields.required("value", Decoder::string);
        done(fields)
    };
    let mut fields = decoder.fields(node)?;
    fields.string("urlPath");
    fields.word("method", &[("GET", ()), ("POST", ())]);
    fields.list("data", pair);
    fields.optional("service", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.required("url", Decoder::string);
        fields.list("headers", header);
        fields.string("caBundle");
        done(fields)
    });
    fields.string("jmesPath");
    fields.ignore(&["default"]);
    done(fields)
}

fn image_registry<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<()> {
    let mut fields = decoder.fields(node)?;
    fields.required("reference", Decoder::string);
    fields.string("jmesPath");
    fields.optional("imageRegistryCredentials", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.bool("allowInsecureRegistry");
        fields.list("providers", |decoder, node| decoder.word(node, &PROVIDERS));
        fields.strings("secrets");
        done(fields)
    });
    done(fields)
}

/// `validate.foreach`: what is nested in an entry is not checked, as upstream.
pub(super) fn foreach<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    decoder.list(node, |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.string("list");
        fields.bool("elementScope");
        fields.optional("context", context);
        fields.optional("preconditions", |decoder, node| conditions_with(decoder, node, true));
        fields.optional("deny", deny);
        fields.ignore(&["pattern", "anyPattern", "foreach"]);
        done(fields)
    })?;
    decoder.subtree(node)
}

/// `deny` of the older schema.
pub(super) fn deny<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    let mut fields = decoder.fields(node)?;
    fields.optional("conditions", old_conditions);
    fields.finish();
    decoder.subtree(node)
}

/// Conditions of the older schema, which takes anything: what is neither a list of conditions nor `any` and `all` ends
/// upstream's loader later.
pub(super) fn old_conditions<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    let list = |node: Node<'_>| match node.kind() {
        Kind::Seq(items) => items.iter().all(is_condition),
        Kind::Null => true,
        _ => false,
    };
    let fits = match node.kind() {
        Kind::Map(_) => ["any", "all"].iter().all(|name| node.get(name).is_none_or(list)),
        _ => list(node),
    };
    if !fits {
        let message = format!(
            "`{}` is neither a list of conditions nor `any` and `all`",
            decoder.path()
        );
        let diagnostic = Diagnostic::at(Code::WrongType, decoder.span(node), message);
        decoder.unreadable(diagnostic);
    }
    decoder.subtree(node)
}

fn is_condition(node: Node<'_>) -> bool {
    let text = |name: &str| {
        node.get(name)
            .is_none_or(|value| value.is_null() || value.as_str().is_some())
    };
    node.is_null() || (node.as_map().is_some() && text("operator") && text("message"))
}

/// `validate.podSecurity`.
pub(super) fn pod_security<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    let mut fields = decoder.fields(node)?;
    fields.word("level", &LEVELS);
    fields.word("version", &VERSIONS);
    fields.list("exclude", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.required("controlName", |decoder, node| decoder.word(node, &CONTROLS));
        fields.strings("images");
        fields.string("restrictedField");
        fields.strings("values");
        done(fields)
    });
    fields.finish();
    decoder.subtree(node)
}

const LEVELS: [(&str, ()); 3] = [("privileged", ()), ("baseline", ()), ("restricted", ())];

const VERSIONS: [(&str, ()); 15] = [
    ("v1.19", ()),
    ("v1.20", ()),
    ("v1.21", ()),
    ("v1.22", ()),
    ("v1.23", ()),
    ("v1.24", ()),
    ("v1.25", ()),
    ("v1.26", ()),
    ("v1.27", ()),
    ("v1.28", ()),
    ("v1.29", ()),
    ("v1.30", ()),
    ("v1.31", ()),
    ("v1.32", ()),
    ("latest", ()),
];

const CONTROLS: [(&str, ()); 15] = [
    ("HostProcess", ()),
    ("Host Namespaces", ()),
    ("Privileged Containers", ()),
    ("Capabilities", ()),
    ("HostPath Volumes", ()),
    ("Host Ports", ()),
    ("AppArmor", ()),
    ("SELinux", ()),
    ("/proc Mount Type", ()),
    ("Seccomp", ()),
    ("Sysctls", ()),
    ("Volume Types", ()),
    ("Privilege Escalation", ()),
    ("Running as Non-root", ()),
    ("Running as Non-root user", ()),
];

fn done(fields: Fields<'_, '_>) -> Option<()> {
    fields.finish();
    Some(())
}
