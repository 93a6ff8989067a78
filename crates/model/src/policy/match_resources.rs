//! `match` and `exclude` blocks of classic rules and of v2 PolicyExceptions.
//!
//! Upstream counterpart: `api/kyverno/v1/{match_resources,resource_description,user_info}_types.go`. Kind selectors are
//! parsed and patterns composed here, once. `roles`, `clusterRoles` and `subjects` that are present but empty are kept
//! apart from absent ones: to Kyverno the former make a filter non-empty.

use std::sync::Arc;

use super::{
    decode::{Decoder, Fields, Style},
    kind_selector::KindSelector,
    located::{Spanned, Text},
    selector::decode_selector,
};
use crate::kube::{LabelSelector, Operation};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, FileId, Sources, Span},
    value::Value,
    yaml::{self, Node, Tree},
};

/// A `match` or `exclude` block.
#[derive(Debug, Clone)]
pub struct MatchResources {
    /// One of these must match.
    pub any: Vec<ResourceFilter>,
    /// All of these must match.
    pub all: Vec<ResourceFilter>,
    /// The older form: one filter in the block itself, read only where `any` and `all` are empty.
    pub inline: ResourceFilter,
    /// Where the block stands.
    pub span: Span,
}

/// One filter: all of its parts must match.
#[derive(Debug, Clone)]
pub struct ResourceFilter {
    /// What the request is about.
    pub resources: ResourceDescription,
    /// Who sends it.
    pub user: UserFilter,
    /// Where the filter stands.
    pub span: Span,
}

/// The part of a filter that is about the resource. Of each list one entry must match.
#[derive(Debug, Clone, Default)]
pub struct ResourceDescription {
    pub kinds: Vec<Spanned<KindSelector>>,
    /// A pattern of the name.
    pub name: Option<Text>,
    /// Patterns of the name.
    pub names: Vec<Text>,
    /// Patterns of the namespace.
    pub namespaces: Vec<Text>,
    /// Patterns of annotations, each of which one entry must match; an empty map is kept apart from none.
    pub annotations: Option<Vec<(Text, Text)>>,
    /// Labels of the object.
    pub selector: Option<Spanned<LabelSelector>>,
    pub namespace_selector: Option<Spanned<LabelSelector>>,
    /// Operations, as written.
    pub operations: Vec<Text>,
}

/// The part of a filter that is about the user.
#[derive(Debug, Clone, Default)]
pub struct UserFilter {
    /// Roles, `namespace:name`.
    pub roles: Option<Vec<Text>>,
    pub cluster_roles: Option<Vec<Text>>,
    /// Users, groups, service accounts.
    pub subjects: Option<Vec<Subject>>,
}

/// A user, group or service account.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The subject's kind.
    pub kind: String,
    /// The name, a pattern.
    pub name: String,
    /// The namespace of a service account, a pattern.
    pub namespace: String,
    /// The API group of the subject's kind; never read.
    pub api_group: String,
    /// Where the subject stands.
    pub span: Span,
    /// What the request's user must look like; `None` for a kind that no user has.
    pub pattern: Option<SubjectPattern>,
}

/// What a subject says about the user of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectPattern {
    /// A pattern of the user's name.
    User(String),
    /// A pattern of one of the user's groups.
    Group(String),
}

impl ResourceDescription {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
            && self.name.is_none()
            && self.names.is_empty()
            && self.namespaces.is_empty()
            && self.annotations.as_ref().is_none_or(Vec::is_empty)
            && self.selector.is_none()
            && self.namespace_selector.is_none()
            && self.operations.is_empty()
    }

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let (name, names) = (fields.string("name"), fields.optional("names", Decoder::strings));
        let description = Self {
            kinds: fields
                .strings("kinds")
                .into_iter()
                .map(|text| Spanned::new(KindSelector::parse(&text), text.span))
                .collect(),
            name: name.filter(|name| !name.is_empty()),
            names: names.unwrap_or_default(),
            namespaces: fields.strings("namespaces"),
            annotations: fields.optional("annotations", Decoder::string_map),
            selector: fields.optional("selector", decode_selector),
            namespace_selector: fields.optional("namespaceSelector", decode_selector),
            operations: fields.list("operations", operation),
        };
        fields.exclusive("name", "names");
        fields.finish();
        Some(description)
    }
}

/// An operation's word. An unknown one is kept: it matches nothing.
fn operation<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Text> {
    let text = decoder.string(node)?;
    if text.parse::<Operation>().is_err() {
        let words = Operation::ALL.map(|operation| (operation.as_str(), ()));
        decoder.word(node, &words);
    }
    Some(text)
}

impl UserFilter {
    /// Whether nothing is said about the user, not even with empty lists.
    pub fn is_absent(&self) -> bool {
        self.roles.is_none() && self.cluster_roles.is_none() && self.subjects.is_none()
    }

    /// Whether nothing is asked of the user.
    pub fn is_empty(&self) -> bool {
        let empty = |list: &Option<Vec<Text>>| list.as_ref().is_none_or(Vec::is_empty);
        empty(&self.roles) && empty(&self.cluster_roles) && self.subjects.as_ref().is_none_or(Vec::is_empty)
    }

    fn decode(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            roles: fields.optional("roles", Decoder::strings),
            cluster_roles: fields.optional("clusterRoles", Decoder::strings),
            subjects: fields.optional("subjects", |decoder, node| decoder.list(node, Subject::decode)),
        }
    }
}

impl Subject {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let span = fields.span();
        let text = |text: Option<Text>| text.map(|text| text.value).unwrap_or_default();
        let kind = text(fields.required_string("kind"));
        let name = text(fields.required_string("name"));
        let namespace = text(fields.string("namespace"));
        let api_group = text(fields.string("apiGroup"));
        fields.finish();
        let pattern = match kind.as_str() {
            "User" => Some(SubjectPattern::User(name.clone())),
            "Group" => Some(SubjectPattern::Group(name.clone())),
            "ServiceAccount" => Some(SubjectPattern::User(format!(
                "system:serviceaccount:{namespace}:{name}"
            ))),
            _ => None,
        };
        Some(Self {
            kind,
            name,
            namespace,
            api_group,
            span,
            pattern,
        })
    }
}

impl ResourceFilter {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let filter = Self::decode_fields(&mut fields);
        fields.finish();
        Some(filter)
    }

    fn decode_fields(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            resources: fields
                .optional("resources", ResourceDescription::decode)
                .unwrap_or_default(),
            user: UserFilter::decode(fields),
            span: fields.span(),
        }
    }
}

impl MatchResources {
    /// Whether the block says nothing.
    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.all.is_empty() && self.inline.resources.is_empty() && self.inline.user.is_absent()
    }

    /// The filters that count: those of `any`, else those of `all`, else the block's own.
    pub fn filters(&self) -> &[ResourceFilter] {
        if !self.any.is_empty() {
            &self.any
        } else if !self.all.is_empty() {
            &self.all
        } else {
            std::slice::from_ref(&self.inline)
        }
    }

    /// Every kind selector of the block: its own, those of `all`, those of `any`.
    pub fn kinds(&self) -> impl Iterator<Item = &Spanned<KindSelector>> {
        std::iter::once(&self.inline)
            .chain(&self.all)
            .chain(&self.any)
            .flat_map(|filter| &filter.resources.kinds)
    }

    /// Reads a block of a v1 policy; mistakes are the decoder's to keep.
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let inline = ResourceFilter::decode_fields(&mut fields);
        let block = Self::decode_lists(&mut fields, inline);
        fields.finish();
        Some(block)
    }

    /// Reads a block of a v2beta1 policy or of a PolicyException, which has `any` and `all` only.
    pub fn decode_any_all<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let inline = ResourceFilter {
            resources: ResourceDescription::default(),
            user: UserFilter::default(),
            span: fields.span(),
        };
        let block = Self::decode_lists(&mut fields, inline);
        fields.finish();
        Some(block)
    }

    fn decode_lists(fields: &mut Fields<'_, '_>, inline: ResourceFilter) -> Self {
        let any = fields.optional("any", |decoder, node| decoder.list(node, ResourceFilter::decode));
        let all = fields.optional("all", |decoder, node| decoder.list(node, ResourceFilter::decode));
        fields.exclusive("any", "all");
        Self {
            any: any.unwrap_or_default(),
            all: all.unwrap_or_default(),
            inline,
            span: fields.span(),
        }
    }

    /// Reads a block that stands alone, with everything that is wrong with it.
    pub fn from_node(tree: &Arc<Tree>, node: Node<'_>, file: FileId) -> (Option<Self>, Vec<Diagnostic>) {
        let mut decoder = Decoder::new(tree, file, Style::Schema);
        let block = Self::decode(&mut decoder, tree.node(node.id()));
        (block, decoder.finish().diagnostics)
    }

    /// Reads a block from a value. Places of diagnostics refer to the value's JSON text.
    pub fn from_value(value: Value<'_>) -> (Option<Self>, Vec<Diagnostic>) {
        let text = value.to_json();
        let mut sources = Sources::new();
        let file = sources.add("value", text.as_str());
        match yaml::read_first(&text, yaml::Mode::Lax, &yaml::Limits::default()) {
            Ok(tree) => {
                let tree = Arc::new(tree);
                Self::from_node(&tree, tree.root(), file)
            }
            Err(error) => (None, vec![Diagnostic::from_yaml(file, &error)]),
        }
    }
}
