//! Values, user info and the simulated cluster: the companion files of a suite.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/apis/v1alpha1/{values_spec,user_info,context,clusterresource}.go`
//! (1.19).

use super::test::header;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    value::{Builder, Document},
    yaml::Node,
};
use kyvtest_model::policy::{
    Metadata, Spanned, Text,
    decode::{Decoder, Fields},
};

/// A value with a name.
pub type Named = (Text, Spanned<Document>);

/// A `Values` file or the inline `values`.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// Variables of every policy and resource.
    pub global_values: Vec<Named>,
    /// Variables by policy.
    pub policies: Vec<PolicyValues>,
    pub namespace_selectors: Vec<NamespaceLabels>,
    /// Whole namespaces; they take precedence over the labels.
    pub namespaces: Vec<NamespaceObject>,
    /// Kinds that are subresources of others.
    pub subresources: Vec<Subresource>,
}

/// Variables of one policy.
#[derive(Debug, Clone)]
pub struct PolicyValues {
    /// The policy's name, without namespace.
    pub name: Text,
    /// By resource name.
    pub resources: Vec<ResourceValues>,
    /// By rule name.
    pub rules: Vec<RuleValues>,
}

/// Variables for one resource.
#[derive(Debug, Clone)]
pub struct ResourceValues {
    pub name: Text,
    pub values: Vec<Named>,
}

/// Variables for one rule.
#[derive(Debug, Clone)]
pub struct RuleValues {
    pub name: Text,
    pub values: Vec<Named>,
    /// Variables of the rule's foreach, one per element; Kyverno uses the first.
    pub foreach_values: Vec<(Text, Vec<Spanned<Document>>)>,
}

#[derive(Debug, Clone)]
pub struct NamespaceLabels {
    pub name: Text,
    pub labels: Vec<(Text, Text)>,
}

/// A whole namespace.
#[derive(Debug, Clone)]
pub struct NamespaceObject {
    pub metadata: Metadata,
    pub object: Document,
}

/// A kind that is a subresource of another.
#[derive(Debug, Clone)]
pub struct Subresource {
    pub subresource: ApiResource,
    pub parent: ApiResource,
}

/// An entry of the API's discovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiResource {
    /// The plural name, with `/` before a subresource.
    pub name: String,
    /// The API group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub namespaced: bool,
}

impl Values {
    /// Decodes a `Values` file. The second value is whether its header has the dropped schema.
    pub(crate) fn decode_file<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<(Self, bool)> {
        let mut fields = decoder.fields(node)?;
        let deprecated = header(&mut fields, "a values file", "Values");
        Metadata::decode(&mut fields);
        fields.inline(true);
        let values = Self::decode(&mut fields);
        fields.finish();
        Some((values, deprecated))
    }

    pub(crate) fn decode(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            global_values: fields.optional("globalValues", named).unwrap_or_default(),
            policies: fields.list("policies", PolicyValues::decode),
            namespace_selectors: fields.list("namespaceSelector", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                let name = name(&mut fields);
                let labels = fields.optional("labels", Decoder::string_map).unwrap_or_default();
                fields.finish();
                Some(NamespaceLabels { name, labels })
            }),
            namespaces: fields.list("namespaces", NamespaceObject::decode),
            subresources: fields.list("subresources", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                let subresource = fields.optional("subresource", ApiResource::decode);
                let parent = fields.optional("parentResource", ApiResource::decode);
                fields.finish();
                let (subresource, parent) = (subresource.unwrap_or_default(), parent.unwrap_or_default());
                if !subresource.name.contains('/') {
                    let message = "write the name of a subresource as `plural/subresource`";
                    let span = decoder.span(node);
                    decoder.remark(Diagnostic::at(Code::BadValue, span, message));
                }
                Some(Subresource { subresource, parent })
            }),
        }
    }

    /// The operation in `globalValues`; empty if absent.
    pub fn global_operation(&self) -> Option<(&str, Span)> {
        let found = self
            .global_values
            .iter()
            .find(|(name, _)| name.value == "request.operation");
        found.and_then(|(_, value)| Some((value.root().as_str()?, value.span)))
    }
}

/// The field `name`; empty if missing.
fn name(fields: &mut Fields<'_, '_>) -> Text {
    let owner = fields.span();
    fields
        .string("name")
        .unwrap_or_else(|| Spanned::new(String::new(), Span::point(owner.file, owner.start)))
}

/// A map of names to any values.
fn named<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Vec<Named>> {
    decoder.map(node, Decoder::value)
}

impl PolicyValues {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let values = Self {
            name: name(&mut fields),
            resources: fields.list("resources", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                let name = name(&mut fields);
                let values = fields.optional("values", named).unwrap_or_default();
                fields.finish();
                Some(ResourceValues { name, values })
            }),
            rules: fields.list("rules", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                let name = name(&mut fields);
                let values = fields.optional("values", named).unwrap_or_default();
                let each = |decoder: &mut Decoder<'t>, node: Node<'t>| {
                    if node.is_null() {
                        return Some(Vec::new());
                    }
                    decoder.list(node, Decoder::value)
                };
                let foreach = fields.optional("foreachValues", |decoder, node| decoder.map(node, each));
                fields.finish();
                Some(RuleValues {
                    name,
                    values,
                    foreach_values: foreach.unwrap_or_default(),
                })
            }),
        };
        fields.finish();
        Some(values)
    }
}

impl NamespaceObject {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let metadata = decode_head(&mut fields);
        fields.ignore(&["spec", "status"]);
        fields.finish();
        let mut builder = Builder::new();
        builder.begin_map();
        builder.key("apiVersion");
        builder.string("v1");
        builder.key("kind");
        builder.string("Namespace");
        builder.key("metadata");
        builder.begin_map();
        builder.key("name");
        builder.string(&metadata.name);
        for (key, pairs) in [("labels", &metadata.labels), ("annotations", &metadata.annotations)] {
            if !pairs.is_empty() {
                builder.key(key);
                builder.begin_map();
                for (key, value) in pairs {
                    builder.key(key);
                    builder.string(value);
                }
                builder.end();
            }
        }
        let written = node.get("metadata").and_then(Node::as_map);
        for entry in written.into_iter().flat_map(kyvtest_go_compat::yaml::Entries::iter) {
            if !matches!(entry.key, "name" | "labels" | "annotations") && !entry.value.is_null() {
                builder.key(entry.key);
                builder.yaml(entry.value);
            }
        }
        builder.end();
        for key in ["spec", "status"] {
            builder.key(key);
            match node.get(key) {
                Some(part) if part.as_map().is_some() => builder.yaml(part),
                _ => {
                    builder.begin_map();
                    builder.end();
                }
            }
        }
        builder.end();
        Some(Self {
            metadata,
            object: builder.finish(),
        })
    }
}

impl ApiResource {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let mut text = |name| fields.string(name).map(|text| text.value).unwrap_or_default();
        let (name, group, version, kind) = (text("name"), text("group"), text("version"), text("kind"));
        text("singularName");
        text("storageVersionHash");
        let namespaced = fields.bool("namespaced").is_some_and(|value| value.value);
        for name in ["verbs", "shortNames", "categories"] {
            fields.strings(name);
        }
        fields.finish();
        Some(Self {
            name,
            group,
            version,
            kind,
            namespaced,
        })
    }
}

/// The user of the requests, and its roles.
#[derive(Debug, Clone)]
pub struct UserInfo {
    /// As `namespace:name`; `None` if absent.
    pub roles: Option<Vec<Text>>,
    /// `None` if absent.
    pub cluster_roles: Option<Vec<Text>>,
    /// Empty if absent.
    pub username: String,
    /// Empty if absent.
    pub uid: String,
    /// `None` if absent.
    pub groups: Option<Vec<Text>>,
    /// Further attributes of the user.
    pub extra: Vec<(Text, Vec<Text>)>,
    pub span: Span,
}

impl UserInfo {
    /// Decodes a `UserInfo` file. The second value is whether its header has the dropped schema.
    pub(crate) fn decode_file<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<(Self, bool)> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let deprecated = header(&mut fields, "a user info file", "UserInfo");
        Metadata::decode(&mut fields);
        fields.inline(true);
        let roles = fields.optional("roles", Decoder::strings);
        let cluster_roles = fields.optional("clusterRoles", Decoder::strings);
        let mut info = Self {
            roles,
            cluster_roles,
            username: String::new(),
            uid: String::new(),
            groups: None,
            extra: Vec::new(),
            span,
        };
        fields.optional("userInfo", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            info.username = fields.string("username").map(|text| text.value).unwrap_or_default();
            info.uid = fields.string("uid").map(|text| text.value).unwrap_or_default();
            info.groups = fields.optional("groups", Decoder::strings);
            let extra = fields.optional("extra", |decoder, node| decoder.map(node, Decoder::strings));
            info.extra = extra.unwrap_or_default();
            fields.finish();
            Some(())
        });
        fields.bool("synchronize");
        fields.finish();
        Some((info, deprecated))
    }
}

/// Objects and images for lookups of CEL expressions.
#[derive(Debug, Clone, Default)]
pub struct Context {
    pub resources: Vec<Spanned<Document>>,
    /// Images by reference, each as `image.GetMetadata` returns it.
    pub images: Vec<(Text, Spanned<Document>)>,
}

impl Context {
    pub(crate) fn decode_file<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        spec_of_file(decoder, node, |decoder, node| {
            let mut fields = decoder.fields(node)?;
            let resources = fields.list("resources", object);
            let images = fields.list("images", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                let image = fields.string("image");
                for name in ["resolvedImage", "registry", "repository", "tag", "digest"] {
                    fields.string(name);
                }
                fields.ignore(&["imageIndex", "manifest", "config"]);
                fields.finish();
                Some((image?, decoder.value(node)?))
            });
            fields.finish();
            Some(Self { resources, images })
        })
    }
}

/// A `ClusterResource` file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterResource {
    pub(crate) crds: Vec<Text>,
    pub(crate) resources: Vec<Spanned<Document>>,
}

impl ClusterResource {
    pub(crate) fn decode_file<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        spec_of_file(decoder, node, |decoder, node| {
            let mut fields = decoder.fields(node)?;
            let crds = fields.strings("crds");
            let resources = fields.list("resources", object);
            fields.finish();
            Some(Self { crds, resources })
        })
    }
}

/// Decodes the spec of a file that is written like an API object; the default if it has none.
fn spec_of_file<'t, T: Default>(
    decoder: &mut Decoder<'t>,
    node: Node<'t>,
    decode: impl FnOnce(&mut Decoder<'t>, Node<'t>) -> Option<T>,
) -> Option<T> {
    let mut fields = decoder.fields(node)?;
    decode_head(&mut fields);
    let spec = fields.optional("spec", decode);
    fields.finish();
    Some(spec.unwrap_or_default())
}

/// Decodes what every API object has besides its spec.
fn decode_head(fields: &mut Fields<'_, '_>) -> Metadata {
    fields.inline(true);
    fields.string("apiVersion");
    fields.string("kind");
    fields.inline(false);
    Metadata::decode(fields)
}

/// An API object; it must have a kind.
fn object<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Spanned<Document>> {
    let object = decoder.object(node)?;
    if node.get("kind").and_then(Node::as_str).is_none_or(str::is_empty) {
        let message = format!("`{}` has no `kind`", decoder.path());
        decoder.error(Diagnostic::at(Code::MissingField, object.span, message));
        return None;
    }
    Some(object)
}
