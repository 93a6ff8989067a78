//! Schema checks of the sections that only classic rules have: `context`, `foreach`, `podSecurity`, conditions.
//!
//! Upstream counterpart: the schemas of `kyverno.io/v1` and `v2beta1` (1.19). Each section is checked and kept as
//! written.

use super::{
    decode::{Decoder, Fields},
    located::Subtree,
    parts::conditions_of,
};
use kyvtest_go_compat::{
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

/// The sources of a context entry; it has exactly one of these.
const SOURCES: [&str; 5] = ["configMap", "apiCall", "imageRegistry", "variable", "globalReference"];

/// `context`: the sources of variables.
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
    fields.optional("imageRegistryCredentials", registry_credentials);
    done(fields)
}

/// The access to a registry.
pub(super) fn registry_credentials<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<()> {
    let mut fields = decoder.fields(node)?;
    fields.bool("allowInsecureRegistry");
    fields.list("providers", |decoder, node| decoder.word(node, &PROVIDERS));
    fields.strings("secrets");
    done(fields)
}

/// `validate.foreach`.
pub(super) fn foreach<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    decoder.list(node, |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.string("list");
        fields.bool("elementScope");
        fields.optional("context", context);
        fields.optional("preconditions", foreach_conditions);
        fields.optional("deny", deny);
        fields.optional("foreach", nested_foreach);
        fields.ignore(&["pattern", "anyPattern"]);
        done(fields)
    })?;
    decoder.subtree(node)
}

/// `preconditions` of an entry of `foreach`: the schema permits other fields next to `any` and `all`.
pub(super) fn foreach_conditions<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    conditions_of(decoder, node, true, true)
}

/// `deny` of the older schema.
pub(super) fn deny<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    let mut fields = decoder.fields(node)?;
    fields.optional("conditions", old_conditions);
    fields.finish();
    decoder.subtree(node)
}

/// Conditions of the older schema, which accepts anything: if they are neither a list of conditions nor `any` and
/// `all`, upstream's loader fails later.
pub(super) fn old_conditions<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    if !is_conditions(node) {
        let message = format!(
            "`{}` is neither a list of conditions nor `any` and `all`",
            decoder.path()
        );
        let diagnostic = Diagnostic::at(Code::WrongType, decoder.span(node), message);
        decoder.unreadable(diagnostic);
    }
    decoder.subtree(node)
}

fn is_conditions(node: Node<'_>) -> bool {
    is_list_of(node, is_condition) || is_any_all(node)
}

fn is_any_all(node: Node<'_>) -> bool {
    let fits = |name: &&str| node.get(name).is_none_or(|list| is_list_of(list, is_condition));
    node.is_null() || (node.as_map().is_some() && ["any", "all"].iter().all(fits))
}

fn is_condition(node: Node<'_>) -> bool {
    node.is_null() || (node.as_map().is_some() && has_texts(node, &["operator", "message"]))
}

/// Whether Go decodes a value as a list.
fn is_list_of(node: Node<'_>, item: impl Fn(Node<'_>) -> bool) -> bool {
    match node.kind() {
        Kind::Seq(items) => items.iter().all(item),
        Kind::Null => true,
        _ => false,
    }
}

/// Whether Go decodes fields as strings.
fn has_texts(node: Node<'_>, names: &[&str]) -> bool {
    let text = |value: Node<'_>| value.is_null() || value.as_str().is_some();
    names.iter().all(|name| node.get(name).is_none_or(text))
}

/// `foreach` in an entry of `foreach`: the schema accepts anything, and upstream's loader fails later on values that Go
/// cannot decode.
pub(super) fn nested_foreach<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<()> {
    if !is_list_of(node, |entry| is_foreach(entry, 0)) {
        let message = format!("`{}` is not a list of entries", decoder.path());
        let diagnostic = Diagnostic::at(Code::WrongType, decoder.span(node), message);
        decoder.unreadable(diagnostic);
    }
    Some(())
}

fn is_foreach(node: Node<'_>, depth: usize) -> bool {
    let fits = |name: &str, check: &dyn Fn(Node<'_>) -> bool| node.get(name).is_none_or(check);
    let is_map = |node: Node<'_>| node.is_null() || node.as_map().is_some();
    is_map(node)
        && has_texts(node, &["list", "order", "patchesJson6902"])
        && fits("elementScope", &|scope| scope.is_null() || scope.as_bool().is_some())
        && fits("context", &|context| {
            is_list_of(context, |entry| is_map(entry) && has_texts(entry, &["name"]))
        })
        && fits("preconditions", &is_any_all)
        && fits("deny", &|deny| {
            is_map(deny) && deny.get("conditions").is_none_or(is_conditions)
        })
        && fits("foreach", &|nested| {
            depth >= 64 || is_list_of(nested, |entry| is_foreach(entry, depth + 1))
        })
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

/// Ends a section whose value is not needed.
pub(super) fn done(fields: Fields<'_, '_>) -> Option<()> {
    fields.finish();
    Some(())
}
