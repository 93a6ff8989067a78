//! A request of a class with unknown objects, user and namespace: what the expressions of each engine see of it, and what
//! matching asks.
//!
//! Upstream counterpart: `kyvtest_kyverno::input` and `kyvtest_apiserver`'s, which say what each engine is shown.

use std::{rc::Rc, sync::Arc};

use kyvtest_model::kube::{self as kube, Facts, NAME_LABEL, Operation, Pairs, Pattern, RequestClass, Resource, Text};
use rustc_hash::FxHashMap;

use super::{
    formula::{Arena, Atom, Formula, Place, Shared},
    shape::{Inner, Kind, Shape},
    text::Predicate,
    value::{Sym, Value},
};
use crate::{language::Base, server::Data, symbolic::Variables};

/// Who looks at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Viewer {
    /// The API server's native policies.
    Native,
    /// The API server's conditions on webhooks.
    Webhook,
    /// A ValidatingPolicy.
    Validating,
    /// `validate.cel` of a classic rule.
    Classic,
}

/// A request of a class.
#[derive(Debug, Clone)]
pub(super) struct Request<'c> {
    pub(super) cell: RequestClass<'c>,
    /// The version in which the policies see the objects.
    pub(super) seen: &'c Resource,
    pub(super) object: Option<Place>,
    pub(super) old_object: Option<Place>,
    pub(super) namespace_object: Option<Place>,
    pub(super) user: Place,
    dry_run: Place,
    options: Place,
    /// Whether the request is one of the past, which created the old object.
    pub(super) past: bool,
    /// The name of the object, if it has one.
    pub(super) name: Option<Place>,
    pub(super) namespace: Option<Place>,
    /// What holds of every request of the class.
    pub(super) assumptions: Vec<Formula>,
}

fn is_core_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.object_kind.kind == "Namespace"
}

impl<'c> Request<'c> {
    pub(super) fn new(arena: &mut Arena, cell: RequestClass<'c>, seen: &'c Resource, data: Data) -> Self {
        let kind = &seen.object_kind;
        let api_version = kind.api_version();
        let mut assumptions = Vec::new();
        let has_new = cell.operation != Operation::Delete;
        let has_old = matches!(cell.operation, Operation::Update | Operation::Delete);
        let object = |arena: &mut Arena, name: &str, assumptions: &mut Vec<Formula>| {
            let shape = match data {
                Data::Normalised => Shape::object(&api_version, &kind.kind),
                Data::Raw => Shape::raw(),
            };
            let root = arena.root(name, shape);
            for (key, text) in [("apiVersion", api_version.as_str()), ("kind", kind.kind.as_str())] {
                if let Some(place) = arena.field(root, key) {
                    assumptions.push(arena.present(place));
                    assumptions.push(arena.is_kind(place, Kind::Text));
                    assumptions.push(arena.text(place, Predicate::Is(Arc::from(text))));
                }
            }
            root
        };
        let new = has_new.then(|| object(arena, "object", &mut assumptions));
        let old = has_old.then(|| object(arena, "oldObject", &mut assumptions));
        let groups = Shape {
            nonzero: true,
            ..Shape::of(
                Kind::List,
                Inner::List(Box::new(Shape::of(Kind::Text, Inner::Text(Vec::new())))),
            )
        };
        let user = Inner::Record(Arc::from([
            ("username", Shape::text(Base::NonEmpty), false),
            ("uid", Shape::text(Base::NonEmpty), true),
            // Every user is in `system:authenticated` or `system:unauthenticated` at least.
            ("groups", groups, false),
            ("extra", Shape::of(Kind::Map, Inner::Unknown), true),
        ]));
        let user = arena.root("request.userInfo", Shape::of(Kind::Map, user));
        let mut request = Self {
            cell,
            seen,
            object: new,
            old_object: old,
            namespace_object: None,
            user,
            dry_run: arena.root("request.dryRun", Shape::of(Kind::Bool, Inner::Unknown)),
            options: arena.root("request.options", Shape::any()),
            past: false,
            name: None,
            namespace: None,
            assumptions,
        };
        request.metadata(arena);
        if cell.namespaced {
            request.in_namespace(arena);
        }
        request
    }

    /// Names and namespaces: those of both objects are the same.
    fn metadata(&mut self, arena: &mut Arena) {
        if self.cell.operation == Operation::Connect {
            return;
        }
        for root in [self.object, self.old_object].into_iter().flatten() {
            let Some(metadata) = arena.field(root, "metadata") else {
                continue;
            };
            let present = arena.present(metadata);
            let is_map = arena.is_kind(metadata, Kind::Map);
            self.assumptions.extend([present, is_map]);
            if let Some(name) = arena.field(metadata, "name") {
                let (present, is_text) = (arena.present(name), arena.is_kind(name, Kind::Text));
                let filled = arena.text(name, Predicate::Length(1));
                // What names of the kind may be (`symbolic`).
                let own = Variables::new(&self.cell).text(Text::Name);
                let own = arena.text(name, Predicate::In(own));
                self.assumptions.extend([present, is_text, filled, own]);
                match self.name {
                    None => self.name = Some(name),
                    Some(other) => {
                        let same = arena.same(name, other);
                        self.assumptions.push(same);
                    }
                }
            }
            if let Some(namespace) = arena.field(metadata, "namespace") {
                let present = arena.present(namespace);
                if !self.cell.namespaced {
                    let absent = arena.not(present);
                    self.assumptions.push(absent);
                    continue;
                }
                let is_text = arena.is_kind(namespace, Kind::Text);
                self.assumptions.extend([present, is_text]);
                match self.namespace {
                    None => self.namespace = Some(namespace),
                    Some(other) => {
                        let same = arena.same(namespace, other);
                        self.assumptions.push(same);
                    }
                }
            }
            // A Namespace has its name as a label (`SetDefaults_Namespace`).
            if is_core_namespace(self.cell.resource)
                && let Some(labels) = arena.field(metadata, "labels")
                && let Some(label) = arena.field(labels, NAME_LABEL)
                && let Some(name) = self.name
            {
                let (present, there, same) = (arena.present(labels), arena.present(label), arena.same(label, name));
                self.assumptions.extend([present, there, same]);
            }
        }
        // An update of ephemeral containers changes nothing else (`dropNonEphemeralContainerUpdates`).
        if self.cell.resource.subresource == "ephemeralcontainers"
            && let (Some(new), Some(old)) = (self.object, self.old_object)
        {
            for (name, keys) in [
                ("metadata", Shared::Only(&["labels", "annotations"])),
                ("spec", Shared::AllBut("ephemeralContainers")),
            ] {
                if let (Some(new), Some(old)) = (arena.field(new, name), arena.field(old, name)) {
                    arena.share(old, new, keys);
                    let (first, second) = (arena.present(new), arena.present(old));
                    let not = arena.not(second);
                    let both = arena.choose(first, second, not);
                    self.assumptions.push(both);
                }
            }
        }
    }

    fn in_namespace(&mut self, arena: &mut Arena) {
        let root = arena.root("namespaceObject", Shape::object("v1", "Namespace"));
        self.namespace_object = Some(root);
        for key in ["apiVersion", "kind"] {
            if let Some(place) = arena.field(root, key) {
                let present = arena.present(place);
                self.assumptions.push(arena.not(present));
            }
        }
        let Some(metadata) = arena.field(root, "metadata") else {
            return;
        };
        if let (Some(name), Some(own)) = (arena.field(metadata, "name"), self.namespace) {
            self.assumptions.push(arena.present(name));
            let same = arena.same(name, own);
            self.assumptions.push(same);
        }
        if let Some(labels) = arena.field(metadata, "labels")
            && let Some(label) = arena.field(labels, NAME_LABEL)
            && let Some(own) = self.namespace
        {
            let (present, there, same) = (arena.present(labels), arena.present(label), arena.same(label, own));
            self.assumptions.extend([present, there, same]);
        }
    }

    /// The request that would have created the old object, by a user of whom nothing is known.
    pub(super) fn creation<'d>(&self, arena: &mut Arena, cell: RequestClass<'d>) -> Request<'d> {
        let shape = arena.shape(self.user).clone();
        Request {
            cell,
            seen: cell.resource,
            object: self.old_object,
            old_object: None,
            namespace_object: self.namespace_object,
            user: arena.root("another user", shape),
            dry_run: self.dry_run,
            options: self.options,
            past: true,
            name: self.name,
            namespace: self.namespace,
            assumptions: Vec::new(),
        }
    }

    /// The values of the variables that all expressions have.
    pub(super) fn roots(&self, viewer: Viewer, matched: &Resource) -> FxHashMap<&'static str, Value> {
        let absent = || match viewer {
            Viewer::Validating => Value::of(Sym::Map(Rc::from([]))),
            Viewer::Native | Viewer::Webhook | Viewer::Classic => Value::of(Sym::Null),
        };
        let document = |place: Option<Place>| place.map_or_else(absent, |place| Value::of(Sym::At(place)));
        let namespace = match viewer {
            Viewer::Webhook => Value::of(Sym::Null),
            _ => self
                .namespace_object
                .map_or(Value::of(Sym::Null), |place| Value::of(Sym::At(place))),
        };
        let mut roots = FxHashMap::default();
        roots.insert("object", document(self.object));
        roots.insert("oldObject", document(self.old_object));
        roots.insert("namespaceObject", namespace);
        roots.insert("request", self.described(viewer, matched));
        for name in [
            "resource",
            "http",
            "globalContext",
            "image",
            "images",
            "exceptions",
            "user",
        ] {
            // Unknown functions of these are unknown values.
            roots.insert(name, Value::of(Sym::Constant(Arc::from(name))));
        }
        let authorizer = format!("authorizer of {}", matches!(viewer, Viewer::Classic));
        roots.insert("authorizer", Value::of(Sym::Constant(Arc::from(authorizer.as_str()))));
        let resource = format!("{authorizer} of the resource");
        roots.insert(
            "authorizer.requestResource",
            Value::of(Sym::Constant(Arc::from(resource.as_str()))),
        );
        roots
    }

    /// `request` as a viewer sees it.
    fn described(&self, viewer: Viewer, matched: &Resource) -> Value {
        let cell = &self.cell;
        let own = cell.resource;
        let text = |text: &str| Value::text(text);
        let map = |entries: Vec<(&str, Value)>| {
            let entries: Vec<(Arc<str>, Value)> = entries
                .into_iter()
                .map(|(key, value)| (Arc::from(key), value))
                .collect();
            Value::of(Sym::Map(Rc::from(entries)))
        };
        let kind_of = |group: &str, version: &str, kind: &str| {
            map(vec![
                ("group", text(group)),
                ("version", text(version)),
                ("kind", text(kind)),
            ])
        };
        let resource_of = |resource: &Resource| {
            map(vec![
                ("group", text(&resource.group)),
                ("version", text(&resource.version)),
                ("resource", text(&resource.plural)),
            ])
        };
        let object_kind = |resource: &Resource| {
            let kind = &resource.object_kind;
            kind_of(&kind.group, &kind.version, &kind.kind)
        };
        let kind = match viewer {
            Viewer::Classic => {
                let gvk = matched.gvk();
                kind_of(&gvk.group, &gvk.version, &gvk.kind)
            }
            _ => object_kind(matched),
        };
        let mut entries = vec![
            ("uid", text("")),
            ("kind", kind.clone()),
            ("resource", resource_of(matched)),
        ];
        let requested = if viewer == Viewer::Classic { matched } else { own };
        let requested_kind = if viewer == Viewer::Classic {
            kind
        } else {
            object_kind(requested)
        };
        let subresource = if viewer == Viewer::Classic {
            ""
        } else {
            own.subresource.as_str()
        };
        if !subresource.is_empty() {
            entries.push(("subResource", text(subresource)));
            entries.push(("requestSubResource", text(subresource)));
        }
        entries.push(("requestKind", requested_kind));
        entries.push(("requestResource", resource_of(requested)));
        if let Some(name) = self.name
            && (!cell.collection || viewer == Viewer::Classic)
        {
            entries.push(("name", Value::of(Sym::At(name))));
        }
        match self.namespace {
            Some(namespace) => entries.push(("namespace", Value::of(Sym::At(namespace)))),
            // A Namespace is in itself, except for classic rules.
            None if is_core_namespace(own) && viewer != Viewer::Classic => {
                if let Some(name) = self.name {
                    entries.push(("namespace", Value::of(Sym::At(name))));
                }
            }
            None => {}
        }
        entries.push(("operation", text(cell.operation.as_str())));
        entries.push(("userInfo", Value::of(Sym::At(self.user))));
        let objects = |place: Option<Place>| match (viewer, place) {
            (Viewer::Validating, Some(place)) => Value::of(Sym::At(place)),
            _ => Value::of(Sym::Null),
        };
        entries.push(("object", objects(self.object)));
        entries.push(("oldObject", objects(self.old_object)));
        let (dry_run, options) = match viewer {
            Viewer::Classic => (Value::bool(false), Value::of(Sym::Null)),
            _ => (Value::of(Sym::At(self.dry_run)), Value::of(Sym::At(self.options))),
        };
        entries.push(("dryRun", dry_run));
        entries.push(("options", options));
        map(entries)
    }

    /// A question of matching as a formula.
    pub(super) fn question(&self, arena: &mut Arena, atom: kube::Atom<'_>) -> Formula {
        let user = arena.generic(self.user);
        let free = |arena: &mut Arena| arena.literal(Atom::Free(Arc::from(format!("{atom:?} of {user}"))));
        let on_namespace = is_core_namespace(self.cell.resource);
        match atom {
            kube::Atom::Text(text, pattern) => {
                let place = match text {
                    Text::Name | Text::BareName => self.name,
                    Text::RequestName if self.cell.collection => return Formula::of(pattern.matches("")),
                    Text::RequestName => self.name,
                    Text::Namespace => match self.namespace {
                        None => return Formula::of(pattern.matches("")),
                        namespace => namespace,
                    },
                    Text::Username => arena.field(self.user, "username"),
                    Text::GenerateName => None,
                };
                match place {
                    Some(place) => tested(arena, place, pattern),
                    None => free(arena),
                }
            }
            kube::Atom::Has(pairs, key) => match self.pairs(arena, pairs, on_namespace) {
                Pairing::Empty => Formula::FALSE,
                Pairing::Unknown => free(arena),
                Pairing::At(map) => {
                    let present = arena.present(map);
                    match arena.field(map, key) {
                        Some(field) => {
                            let there = arena.present(field);
                            arena.and([present, there])
                        }
                        None => Formula::FALSE,
                    }
                }
            },
            kube::Atom::Value(pairs, key, pattern) => match self.pairs(arena, pairs, on_namespace) {
                Pairing::Empty => Formula::FALSE,
                Pairing::Unknown => free(arena),
                Pairing::At(map) => match arena.field(map, key) {
                    Some(field) => tested(arena, field, pattern),
                    None => Formula::FALSE,
                },
            },
            kube::Atom::AnyPair(pairs, key, value) => match self.pairs(arena, pairs, on_namespace) {
                Pairing::Empty => Formula::FALSE,
                Pairing::Unknown => free(arena),
                Pairing::At(map) => {
                    let present = arena.present(map);
                    let Some(entry) = arena.bound(map, 0) else {
                        return free(arena);
                    };
                    let (Some(own_key), Some(own_value)) = (arena.entry_key(entry), arena.entry_value(entry)) else {
                        return free(arena);
                    };
                    let (first, second) = (tested(arena, own_key, key), tested(arena, own_value, value));
                    let both = arena.and([first, second]);
                    let some = arena.at_least(map, entry, both, 1);
                    arena.and([present, some])
                }
            },
            kube::Atom::AnyGroup(pattern) => {
                let Some(groups) = arena.field(self.user, "groups") else {
                    return free(arena);
                };
                let Some(group) = arena.bound(groups, 0) else {
                    return free(arena);
                };
                let present = arena.present(groups);
                let fits = tested(arena, group, pattern);
                let some = arena.at_least(groups, group, fits, 1);
                arena.and([present, some])
            }
            kube::Atom::GroupsAre(_) | kube::Atom::Role(_) | kube::Atom::ClusterRole(_) => free(arena),
        }
    }

    fn pairs(&self, arena: &mut Arena, pairs: Pairs, on_namespace: bool) -> Pairing {
        let (root, key) = match pairs {
            Pairs::NewLabels => (self.object, "labels"),
            Pairs::OldLabels => (self.old_object, "labels"),
            Pairs::NewAnnotations => (self.object, "annotations"),
            Pairs::OldAnnotations => (self.old_object, "annotations"),
            Pairs::NamespaceLabels if on_namespace => return Pairing::Unknown,
            Pairs::NamespaceLabels => (self.namespace_object, "labels"),
        };
        let Some(root) = root else {
            return Pairing::Empty;
        };
        if self.cell.operation == Operation::Connect {
            return Pairing::Empty;
        }
        let Some(metadata) = arena.field(root, "metadata") else {
            return Pairing::Unknown;
        };
        match arena.field(metadata, key) {
            Some(map) if arena.shape(map).kinds.is_single() => Pairing::At(map),
            _ => Pairing::Unknown,
        }
    }
}

enum Pairing {
    Empty,
    At(Place),
    Unknown,
}

fn tested(arena: &mut Arena, place: Place, pattern: Pattern<'_>) -> Formula {
    let predicate = match pattern {
        Pattern::Exact(text) => Predicate::Is(Arc::from(text)),
        Pattern::Glob(glob) => Predicate::Glob(Arc::from(glob)),
        Pattern::Prefix(text) => Predicate::StartsWith(Arc::from(text)),
    };
    arena.text(place, predicate)
}

/// Answers of matching's questions on one path.
pub(super) struct Script<'a, 'c, 'p> {
    arena: &'a mut Arena,
    request: &'a Request<'c>,
    answers: Vec<bool>,
    at: usize,
    known: Vec<(kube::Atom<'p>, bool)>,
    literals: Vec<Formula>,
}

impl<'p> Facts<'p> for Script<'_, '_, 'p> {
    fn ask(&mut self, atom: kube::Atom<'p>) -> bool {
        if let Some((_, answer)) = self.known.iter().find(|(known, _)| *known == atom) {
            return *answer;
        }
        let formula = self.request.question(self.arena, atom);
        let answer = if formula == Formula::TRUE || formula == Formula::FALSE {
            formula == Formula::TRUE
        } else {
            let answer = self.answers.get(self.at).copied().unwrap_or(true);
            if self.at == self.answers.len() {
                self.answers.push(true);
            }
            self.at += 1;
            let literal = if answer { formula } else { self.arena.not(formula) };
            self.literals.push(literal);
            answer
        };
        self.known.push((atom, answer));
        answer
    }
}

/// How many paths matching may have.
const PATHS: usize = 2_000;

/// Runs matching under all answers; each path with its condition. `None` if there are too many.
pub(super) fn paths<'p, T>(
    arena: &mut Arena,
    request: &Request<'_>,
    mut run: impl FnMut(&mut Script<'_, '_, 'p>) -> T,
) -> Option<Vec<(Formula, T)>> {
    let mut answers: Vec<bool> = Vec::new();
    let mut all = Vec::new();
    loop {
        let mut script = Script {
            arena,
            request,
            answers: std::mem::take(&mut answers),
            at: 0,
            known: Vec::new(),
            literals: Vec::new(),
        };
        let outcome = run(&mut script);
        let Script {
            answers: given,
            at,
            literals,
            ..
        } = script;
        let condition = arena.and(literals);
        all.push((condition, outcome));
        if all.len() > PATHS {
            return None;
        }
        answers = given;
        answers.truncate(at);
        while answers.last() == Some(&false) {
            answers.pop();
        }
        match answers.last_mut() {
            Some(last) => *last = false,
            None => return Some(all),
        }
    }
}
