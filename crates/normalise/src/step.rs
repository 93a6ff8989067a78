//! The steps between the request body and validating admission.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go` and
//! `k8s.io/apiserver/pkg/registry/{rest,generic/registry}`, version 0.36.

use kyvtest_go_compat::value::{Builder, Document, Key, Value};

use crate::{
    Cluster, Operation, Refused, Request, Stage, Text,
    change::{self, Change, Source},
    custom::{self, Custom},
    decode::{self as typed, Decoder},
    defaults,
    encode::{self, Form},
    input::{Input, Json},
    node::Node,
    plugins as plugin, strategy,
    table::{Served, TABLE},
    validate,
};

/// A version and kind, as of the request's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind<'k> {
    /// `v1`, `apps/v1`, …
    pub api_version: &'k str,
    pub name: &'k str,
}

/// An object before decoding.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    Value(Value<'a>),
    /// JSON text whose duplicate keys and number spellings count.
    Text(&'a Text),
}

impl<'a> From<Value<'a>> for Raw<'a> {
    fn from(value: Value<'a>) -> Self {
        Raw::Value(value)
    }
}

impl<'a> From<&'a Document> for Raw<'a> {
    fn from(document: &'a Document) -> Self {
        Raw::Value(document.root())
    }
}

/// What the API server knows about the object's kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known<'a> {
    /// A built-in kind.
    BuiltIn(Served),
    /// A custom kind whose definition is known.
    Custom(Custom<'a>),
    /// Any other kind; it passes unchanged.
    Unknown,
}

/// An object in the form of its type, with the defaults of its version.
#[derive(Clone, Debug)]
pub struct Decoded<'a> {
    pub(crate) known: Known<'a>,
    pub(crate) node: Node<'a>,
    /// Warnings to the client, and lookups that failed.
    pub warnings: Vec<String>,
}

impl Decoded<'_> {
    /// The object as JSON: what a mutating policy sees.
    pub fn object(&self) -> Document {
        self.document(Form::Seen)
    }

    pub(crate) fn document(&self, form: Form) -> Document {
        match self.known {
            Known::BuiltIn(served) => encode::document(served.type_id, &self.node, form).0,
            Known::Custom(_) => {
                // Metadata has a Go type, the rest has none.
                let mut out = Builder::new();
                out.begin_map();
                for (key, value) in self.node.entries() {
                    out.key(key);
                    if key == "metadata" {
                        encode::part(custom::metadata_type(), value, form, &mut out);
                    } else {
                        value.write(&mut out);
                    }
                }
                out.end();
                out.finish()
            }
            Known::Unknown => {
                let mut out = Builder::new();
                self.node.write(&mut out);
                out.finish()
            }
        }
    }
}

/// An object as validating admission sees it.
#[derive(Debug)]
pub struct Normalised {
    pub object: Document,
    /// The object as the API server returns and stores it, if it differs from `object`.
    pub stored: Option<Document>,
    /// In the order in which they were made.
    pub changes: Vec<Change>,
    /// Warnings to the client, and lookups that failed.
    pub warnings: Vec<String>,
}

/// Whether the table has the kind.
pub fn is_known(kind: Kind<'_>) -> bool {
    TABLE.kind(kind.api_version, kind.name).is_some()
}

/// The version of a built-in kind named without one; `v1` before groups, stable before others.
pub fn kind_named(name: &str) -> Option<&'static str> {
    let kinds = TABLE.kinds();
    let named = kinds
        .iter()
        .filter(|served| served.kind == name)
        .map(|served| served.api_version);
    named.min_by_key(|version| (version.contains('/'), version.len()))
}

/// How a list or map of a built-in kind is merged: `map:<keys>`, `set`, `atomic` or `granular`; `None` if that is not known.
/// `path` names fields only, such as `["spec", "containers"]`.
pub fn list_type(kind: Kind<'_>, path: &[&str]) -> Option<&'static str> {
    let mut id = TABLE.kind(kind.api_version, kind.name)?.type_id;
    let (last, way) = path.split_last()?;
    for name in way {
        id = TABLE.get(id).field(Key::new(name))?.shape.struct_below()?;
    }
    let found = TABLE.get(id).field(Key::new(last))?.list_type;
    (!found.is_empty()).then_some(found)
}

/// Decodes an object into its type and applies the defaults of its version.
///
/// Can be called again on the result of each mutation. Kinds without a table pass unchanged, with a warning.
pub fn decode<'a>(kind: Kind<'a>, raw: Raw<'a>, cluster: &'a Cluster) -> Result<Decoded<'a>, Refused> {
    let mut decoded = decode_only(kind, raw, cluster)?;
    if let Known::BuiltIn(served) = decoded.known {
        defaults::apply(served.type_id, &mut decoded.node);
    }
    Ok(decoded)
}

/// Decodes an object that policies may have changed. Metadata of custom resources is not typed between policies; fields
/// that do not fit are dropped, as the store does.
pub fn decode_changed<'a>(kind: Kind<'a>, raw: Value<'a>, cluster: &'a Cluster) -> Result<Decoded<'a>, Refused> {
    if TABLE.kind(kind.api_version, kind.name).is_none()
        && let Some(known) = custom::find(&cluster.definitions, kind)
    {
        return Ok(Decoded {
            known: Known::Custom(known),
            node: custom::decode_stored(known, raw),
            warnings: Vec::new(),
        });
    }
    decode(kind, Raw::Value(raw), cluster)
}

fn decode_only<'a>(kind: Kind<'a>, raw: Raw<'a>, cluster: &'a Cluster) -> Result<Decoded<'a>, Refused> {
    match raw {
        Raw::Value(value) => decode_input(kind, value, cluster),
        Raw::Text(text) => decode_input::<&Json>(kind, text.root(), cluster),
    }
}

fn decode_input<'a, I: Input<'a>>(kind: Kind<'a>, input: I, cluster: &'a Cluster) -> Result<Decoded<'a>, Refused> {
    let refuse = |message: String| {
        let version = kind.api_version.rsplit('/').next().unwrap_or_default();
        let name = kind.name;
        let message = format!("{name} in version \"{version}\" cannot be handled as a {name}: {message}");
        Refused::new(Stage::Decode, message)
    };
    let (api_version, name) = typed::type_meta(input).map_err(refuse)?;
    if !(api_version.is_empty() || api_version == kind.api_version) || !(name.is_empty() || name == kind.name) {
        return Err(refuse(format!(
            "no kind \"{name}\" is registered for version \"{api_version}\""
        )));
    }
    let Some(served) = TABLE.kind(kind.api_version, kind.name) else {
        if let Some(custom) = custom::find(&cluster.definitions, kind) {
            return Ok(Decoded {
                known: Known::Custom(custom),
                node: custom::decode(custom, input).map_err(refuse)?,
                warnings: Vec::new(),
            });
        }
        return Ok(Decoded {
            known: Known::Unknown,
            node: typed::raw(input),
            warnings: vec![format!("{} {}: no schema, left unchanged", kind.api_version, kind.name)],
        });
    };
    let mut node = Decoder::default().object(served.type_id, input, None).map_err(refuse)?;
    node.set("apiVersion", served.api_version);
    node.set("kind", served.kind);
    Ok(Decoded {
        known: Known::BuiltIn(served),
        node,
        warnings: Vec::new(),
    })
}

/// Checks name and namespace against the request and runs the mutating admission plugins.
pub fn plugins(decoded: &mut Decoded<'_>, request: Request<'_>, cluster: &Cluster) -> Result<(), Refused> {
    locate(decoded, request, cluster)?;
    wipe(decoded, request);
    plugin::run(decoded, request, cluster, &mut |_, _| {})
}

/// Removes metadata that only the server may set on a new object.
fn wipe(decoded: &mut Decoded<'_>, request: Request<'_>) {
    if request.operation == Operation::Create && !matches!(decoded.known, Known::Unknown) {
        strategy::wipe_system_metadata(&mut decoded.node, request.subresource);
    }
}

/// Puts the object into the namespace of the request, and checks name and namespace against it.
pub fn locate(decoded: &mut Decoded<'_>, request: Request<'_>, cluster: &Cluster) -> Result<(), Refused> {
    let namespaced = match decoded.known {
        Known::BuiltIn(served) => served.namespaced,
        Known::Custom(custom) => custom.namespaced,
        Known::Unknown => return Ok(()),
    };
    let metadata = decoded.node.child("metadata");
    let own = metadata.str("namespace").to_owned();
    unique_owners(metadata);
    if request.operation == Operation::Update && !request.name.is_empty() {
        let name = metadata.str("name");
        if name.is_empty() {
            let message = format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                request.name
            );
            return Err(Refused::new(Stage::Request, message));
        }
        if name != request.name {
            let message = format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                request.name
            );
            return Err(Refused::new(Stage::Request, message));
        }
    }
    if !namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let namespace = match (request.namespace, own.as_str()) {
        ("", "") => "default",
        ("", own) => own,
        (of_request, "") => of_request,
        (of_request, own) if of_request == own => own,
        _ => {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refused::new(Stage::Request, message));
        }
    };
    if own.is_empty() {
        metadata.set("namespace", namespace.to_owned());
    }
    let missing = match &cluster.namespaces {
        Some(known) => !known.iter().any(|known| known == namespace),
        // An object with an invalid name cannot exist.
        None => !validate::is_label(namespace),
    };
    if missing && cluster.has(crate::Plugin::NamespaceLifecycle) && request.operation == Operation::Create {
        return Err(Refused::new(
            Stage::NotFound,
            format!("namespaces \"{namespace}\" not found"),
        ));
    }
    Ok(())
}

/// Checks that an object that names an identity has that of the stored object, as the API server does before any policy.
pub fn same_identity(decoded: &Decoded<'_>, old: &Decoded<'_>) -> Result<(), Refused> {
    let resource = match decoded.known {
        Known::BuiltIn(served) => served.resource,
        Known::Custom(custom) => custom.resource,
        Known::Unknown => return Ok(()),
    };
    strategy::identity(resource, &decoded.node, &old.node)
}

/// Drops repeated owner references.
fn unique_owners(metadata: &mut Node<'_>) {
    if let Some(Node::List(owners)) = metadata.get_mut("ownerReferences") {
        let mut kept: Vec<Node<'_>> = Vec::with_capacity(owners.len());
        for owner in owners.drain(..) {
            if !kept.iter().any(|known| known.same(&owner)) {
                kept.push(owner);
            }
        }
        *owners = kept;
    }
}

/// Applies the strategy of the kind and validates the object.
///
/// `old` is the stored object of an UPDATE, decoded.
pub fn finish(
    mut decoded: Decoded<'_>,
    old: Option<&Decoded<'_>>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<Normalised, Refused> {
    strategy::prepare(&mut decoded, old, request, cluster)?;
    validate::run(&decoded, old, request, cluster)?;
    plugin::validate(&decoded, request, cluster)?;
    Ok(normalised(decoded, Vec::new()))
}

fn normalised(mut decoded: Decoded<'_>, changes: Vec<Change>) -> Normalised {
    let warnings = std::mem::take(&mut decoded.warnings);
    let (object, stored) = match decoded.known {
        Known::BuiltIn(served) => both_forms(served, decoded.node),
        _ => (decoded.object(), None),
    };
    Normalised {
        object,
        stored,
        changes,
        warnings,
    }
}

/// The object that admission sees, and the stored one if it differs: empty lists become nil, defaults apply once more.
fn both_forms(served: Served, mut node: Node<'_>) -> (Document, Option<Document>) {
    let (object, same) = encode::document(served.type_id, &node, Form::Seen);
    let again = matches!(served.kind, "Job" | "PersistentVolumeClaim" | "Node");
    if same && !again {
        return (object, None);
    }
    defaults::apply(served.type_id, &mut node);
    let (stored, _) = encode::document(served.type_id, &node, Form::Stored);
    let stored = (stored != object).then_some(stored);
    (object, stored)
}

/// Decodes a stored object and completes it as if it had been created: the old object of an UPDATE, the object of a
/// DELETE. Nothing is validated.
pub fn stored_object<'a>(
    kind: Kind<'a>,
    raw: Raw<'a>,
    request: Request<'_>,
    cluster: &'a Cluster,
) -> Result<Decoded<'a>, Refused> {
    let mut decoded = decode(kind, raw, cluster)?;
    let creation = Request {
        operation: Operation::Create,
        ..request
    };
    locate(&mut decoded, creation, cluster)?;
    // A plugin that rejects the object today did not when it was stored.
    let _ = plugin::run(&mut decoded, creation, cluster, &mut |_, _| {});
    strategy::complete_stored(&mut decoded, cluster);
    Ok(decoded)
}

/// Normalises an object that is sent with a request.
///
/// `old` is the stored object of an UPDATE; without it, an UPDATE creates the object or is rejected. `explain` records
/// the changes with their sources, which takes several times as long.
pub fn normalise<'a>(
    kind: Kind<'a>,
    raw: Raw<'a>,
    old: Option<Raw<'a>>,
    request: Request<'_>,
    cluster: &'a Cluster,
    explain: bool,
) -> Result<Normalised, Refused> {
    let mut recorder = Recorder::new(explain, raw);
    let mut decoded = decode_only(kind, raw, cluster)?;
    recorder.step(&decoded, Source::Decode);
    if let Known::BuiltIn(served) = decoded.known {
        defaults::apply(served.type_id, &mut decoded.node);
        recorder.step(&decoded, Source::Default);
    }
    locate(&mut decoded, request, cluster)?;
    recorder.step(&decoded, Source::Strategy);
    let (request, old) = existing(kind, &decoded, old, request, cluster)?;
    if let Some(old) = &old {
        same_identity(&decoded, old)?;
    }
    wipe(&mut decoded, request);
    plugin::run(&mut decoded, request, cluster, &mut |decoded, plugin| {
        recorder.step(decoded, Source::Plugin(plugin));
    })?;
    strategy::prepare(&mut decoded, old.as_ref(), request, cluster)?;
    recorder.step(&decoded, Source::Strategy);
    validate::run(&decoded, old.as_ref(), request, cluster)?;
    plugin::validate(&decoded, request, cluster)?;
    Ok(normalised(decoded, recorder.changes))
}

/// The stored object of an UPDATE. An UPDATE of an object that does not exist becomes a CREATE if the kind allows it.
fn existing<'a, 'r>(
    kind: Kind<'a>,
    decoded: &Decoded<'_>,
    old: Option<Raw<'a>>,
    request: Request<'r>,
    cluster: &'a Cluster,
) -> Result<(Request<'r>, Option<Decoded<'a>>), Refused> {
    if request.operation == Operation::Create {
        return Ok((request, None));
    }
    if let Some(old) = old {
        return Ok((request, Some(stored_object(kind, old, request, cluster)?)));
    }
    let resource = match decoded.known {
        Known::BuiltIn(served) if !strategy::CREATED_BY_PUT.contains(&served.kind) => served.resource,
        Known::Custom(custom) => custom.resource,
        _ => {
            let request = Request {
                operation: Operation::Create,
                ..request
            };
            return Ok((request, None));
        }
    };
    let name = decoded.node.at(&["metadata", "name"]).map_or("", Node::as_str);
    Err(Refused::new(
        Stage::NotFound,
        format!("{resource} \"{name}\" not found"),
    ))
}

/// Compares the object before and after each step.
struct Recorder {
    /// `None` if changes are not recorded.
    last: Option<Document>,
    changes: Vec<Change>,
}

impl Recorder {
    fn new(explain: bool, raw: Raw<'_>) -> Self {
        let last = explain.then(|| match raw {
            Raw::Value(value) => value.to_document(),
            Raw::Text(text) => {
                let mut out = Builder::new();
                typed::raw(text.root()).write(&mut out);
                out.finish()
            }
        });
        Self {
            last,
            changes: Vec::new(),
        }
    }

    fn step(&mut self, decoded: &Decoded<'_>, source: Source) {
        if let Some(last) = &mut self.last {
            let now = decoded.object();
            change::record(last, &now, source, &mut self.changes);
            *last = now;
        }
    }
}
