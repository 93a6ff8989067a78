//! `match` and `exclude` blocks of classic rules and of v2 PolicyExceptions.
//!
//! Upstream counterpart: `api/kyverno/v1/{match_resources,resource_description,user_info}_types.go`. Kind selectors are
//! parsed and patterns composed here, once. `roles`, `clusterRoles` and `subjects` that are present but empty are
//! distinguished from absent ones: to Kyverno the former make a filter non-empty.

use std::sync::Arc;

use super::{
    decode::{Decoder, Fields, Style},
    from_value::from_value,
    kind_selector::KindSelector,
    located::{Spanned, Text},
    selector::decode_selector,
};
use crate::kube::{LabelSelector, Operation};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, FileId, Span},
    value::Value,
    yaml::{Node, Tree},
};

/// A `match` or `exclude` block.
#[derive(Debug, Clone)]
pub struct MatchResources {
    /// One of these must match.
    pub any: Vec<ResourceFilter>,
    /// All of these must match.
    pub all: Vec<ResourceFilter>,
    /// The older form: one filter in the block itself, used only if `any` and `all` are empty.
    pub inline: ResourceFilter,
    pub span: Span,
}

/// One filter: all of its parts must match.
#[derive(Debug, Clone)]
pub struct ResourceFilter {
    pub resources: ResourceDescription,
    pub user: UserFilter,
    pub span: Span,
}

/// The part of a filter about the resource. One entry of each list must match.
#[derive(Debug, Clone, Default)]
pub struct ResourceDescription {
    pub kinds: Vec<Spanned<KindSelector>>,
    /// A pattern of the name.
    pub name: Option<Text>,
    /// Patterns of the name.
    pub names: Vec<Text>,
    /// Patterns of the namespace.
    pub namespaces: Vec<Text>,
    /// Patterns of annotations, each of which must match one entry; an empty map is distinguished from none.
    pub annotations: Option<Vec<(Text, Text)>>,
    /// Labels of the object.
    pub selector: Option<Spanned<LabelSelector>>,
    pub namespace_selector: Option<Spanned<LabelSelector>>,
    /// Operations, as written.
    pub operations: Vec<Text>,
}

/// The part of a filter about the user.
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
    /// The API group of the subject's kind; not used.
    pub api_group: String,
    pub span: Span,
    /// The pattern of the request's user; `None` for a kind that users do not have.
    pub pattern: Option<SubjectPattern>,
}

/// A pattern for the user of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectPattern {
    /// A pattern of the user's name.
    User(String),
    /// A pattern of one of the user's groups.
    Group(String),
}

impl ResourceDescription {
    /// Whether it has no constraints.
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

/// An operation. An unknown one is kept: it matches nothing.
fn operation<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Text> {
    let text = decoder.string(node)?;
    if text.parse::<Operation>().is_err() {
        let words = Operation::ALL.map(|operation| (operation.as_str(), ()));
        decoder.word(node, &words);
    }
    Some(text)
}

impl UserFilter {
    /// Whether it has no user fields, not even empty lists.
    pub fn is_absent(&self) -> bool {
        self.roles.is_none() && self.cluster_roles.is_none() && self.subjects.is_none()
    }

    /// Whether it does not constrain the user.
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
    /// Whether the block has no constraints.
    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.all.is_empty() && self.inline.resources.is_empty() && self.inline.user.is_absent()
    }

    /// The filters that apply: those of `any`, else those of `all`, else the block's own.
    pub fn filters(&self) -> &[ResourceFilter] {
        if !self.any.is_empty() {
            &self.any
        } else if !self.all.is_empty() {
            &self.all
        } else {
            std::slice::from_ref(&self.inline)
        }
    }

    /// Every filter with its path in the block: those of `any`, those of `all`, the block's own.
    pub(super) fn located_filters(&self) -> impl Iterator<Item = (String, &ResourceFilter)> {
        let located = |list: &'static str, filters| {
            let filters: std::slice::Iter<'_, ResourceFilter> = filters;
            filters
                .enumerate()
                .map(move |(j, filter)| (format!(".{list}[{j}]"), filter))
        };
        located("any", self.any.iter())
            .chain(located("all", self.all.iter()))
            .chain([(String::new(), &self.inline)])
    }

    /// Every kind selector of the block: its own, those of `all`, those of `any`.
    pub fn kinds(&self) -> impl Iterator<Item = &Spanned<KindSelector>> {
        std::iter::once(&self.inline)
            .chain(&self.all)
            .chain(&self.any)
            .flat_map(|filter| &filter.resources.kinds)
    }

    /// Decodes a block of a v1 policy; the decoder collects errors.
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let inline = ResourceFilter::decode_fields(&mut fields);
        let block = Self::decode_lists(&mut fields, inline);
        fields.finish();
        Some(block)
    }

    /// Decodes a block of a v2beta1 policy or of a PolicyException, which has only `any` and `all`.
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

    /// Decodes a standalone block, with all its errors.
    pub fn from_node(tree: &Arc<Tree>, node: Node<'_>, file: FileId) -> (Option<Self>, Vec<Diagnostic>) {
        let mut decoder = Decoder::new(tree, file, Style::Schema);
        let block = Self::decode(&mut decoder, tree.node(node.id()));
        (block, decoder.finish().diagnostics)
    }

    /// Decodes a block from a value. Spans of diagnostics refer to the value's JSON text.
    pub fn from_value(value: Value<'_>) -> (Option<Self>, Vec<Diagnostic>) {
        from_value(value, |decoder, node, _| Self::decode(decoder, node))
    }
}
