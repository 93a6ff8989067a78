//! Validation of values: all errors of an object at once.
//!
//! Upstream counterpart: `pkg/apis/*/validation` of Kubernetes 1.36, `ValidateObjectMeta` of apimachinery.
//!
//! Checks of single fields are data (`data/checks.tsv`); checks that involve several fields are code, one function per
//! type. A check `>` in the data descends into a struct, so that only what upstream validates is validated.
//!
//! Known deviations: `docs/normalise.md` lists the missing checks.

use std::fmt::Write as _;

use kyvtest_go_compat::value::Key;

use crate::{
    Cause, Cluster, Reason, Refused, Request,
    custom::{self, Custom},
    node::Node,
    step::{Decoded, Known},
    table::{Served, Shape, TABLE, TypeId},
};

mod admission;
mod batch;
mod check;
mod core;
mod crd;
mod format;
mod hpa;
mod meta;
mod misc;
mod network;
mod pod;
mod pod_parts;
mod pod_resources;
mod pod_scheduling;
mod pod_security;
mod schema;
mod service;
mod storage;
mod subresource;
mod update;
mod volume;
mod workload;

pub(crate) use check::{Check, parse_check};
pub(crate) use service::service_addresses;

/// Whether a text is a label, like the name of a namespace.
pub(crate) fn is_label(text: &str) -> bool {
    format::label(text).is_empty()
}

/// Whether a text is a subdomain, like most names.
pub(crate) fn is_subdomain(text: &str) -> bool {
    format::subdomain(text).is_empty()
}

/// One step of a path.
#[derive(Clone, Copy)]
enum Step<'p> {
    Field(&'p str),
    Index(usize),
    Key(&'p str),
}

/// Where a value is in its object; rendered only for errors.
#[derive(Clone, Copy)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

impl<'p> Path<'p> {
    pub(crate) fn root(name: &'p str) -> Self {
        Self {
            parent: None,
            step: Step::Field(name),
        }
    }

    pub(crate) fn field(&'p self, name: &'p str) -> Path<'p> {
        Path {
            parent: Some(self),
            step: Step::Field(name),
        }
    }

    pub(crate) fn index(&'p self, index: usize) -> Path<'p> {
        Path {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    pub(crate) fn key(&'p self, key: &'p str) -> Path<'p> {
        Path {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    fn render(&self) -> String {
        let mut out = self.parent.map_or_else(String::new, Path::render);
        match self.step {
            Step::Field("") => {}
            Step::Field(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
            Step::Key(key) => {
                let _ = write!(out, "[{key}]");
            }
        }
        out
    }
}

/// Code that checks a struct.
pub(crate) type TypeCheck = fn(&mut Checker<'_>, &Node<'_>, &Path<'_>);

/// Collects errors.
pub(crate) struct Checker<'c> {
    errors: Vec<Cause>,
    /// Whether the object is a Pod; its templates are validated more leniently.
    is_pod: bool,
    /// Names of the current pod's volumes; whether each can be a block device.
    volumes: Vec<(String, bool)>,
    /// Names of the current pod's resource claims.
    claims: Vec<String>,
    kind: &'c str,
    create: bool,
}

impl Checker<'_> {
    fn empty() -> Self {
        Self {
            errors: Vec::new(),
            is_pod: false,
            volumes: Vec::new(),
            claims: Vec::new(),
            kind: "",
            create: true,
        }
    }

    fn fail(&mut self, path: &Path<'_>, reason: Reason, detail: impl Into<String>) {
        self.errors.push(Cause {
            field: path.render(),
            reason,
            detail: detail.into(),
        });
    }

    fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.fail(path, Reason::Required, detail);
    }

    fn invalid(&mut self, path: &Path<'_>, value: &str, detail: &str) {
        self.fail(path, Reason::Invalid, format!("\"{value}\": {detail}"));
    }

    fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.fail(path, Reason::Forbidden, detail);
    }

    fn duplicate(&mut self, path: &Path<'_>, value: &str) {
        self.fail(path, Reason::Duplicate, format!("\"{value}\""));
    }

    fn not_found(&mut self, path: &Path<'_>, value: &str) {
        self.fail(path, Reason::NotFound, format!("\"{value}\""));
    }

    fn unsupported(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        let mut supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        supported.sort();
        let detail = format!("\"{value}\": supported values: {}", supported.join(", "));
        self.fail(path, Reason::NotSupported, detail);
    }

    /// Reports each problem as an invalid value.
    fn problems(&mut self, path: &Path<'_>, value: &str, problems: &[String]) {
        for problem in problems {
            self.invalid(path, value, problem);
        }
    }

    /// Checks a struct of the table.
    fn walk(&mut self, id: TypeId, node: &Node<'_>, path: &Path<'_>) {
        let found = TABLE.get(id);
        if !found.has_checks {
            return;
        }
        if let Some(check) = found.check {
            check(self, node, path);
        }
        for (name, value) in node.entries() {
            let Some(field) = found.own_field(name) else {
                continue;
            };
            if matches!(value, Node::Null) {
                continue;
            }
            for check in &field.checks {
                check.run(self, field, Some(value), &path.field(field.name));
            }
        }
        for &position in &found.checked_if_missing {
            let field = &found.fields[position as usize];
            if !node.has(field.name) {
                for check in &field.checks {
                    check.run(self, field, None, &path.field(field.name));
                }
            }
        }
    }

    /// Checks a value of any shape by the types of the structs in it.
    fn descend(&mut self, shape: &Shape, node: &Node<'_>, path: &Path<'_>) {
        match shape {
            Shape::Struct(id) => self.walk(*id, node, path),
            Shape::List(item) => {
                for (index, node) in node.items().iter().enumerate() {
                    self.descend(item, node, &path.index(index));
                }
            }
            Shape::Map(item) => {
                for (key, node) in node.entries() {
                    self.descend(item, node, &path.key(key));
                }
            }
            _ => {}
        }
    }

    /// Checks a field by its type, as if it had another name.
    fn field_as(&mut self, type_name: &str, node: &Node<'_>, field: &str, path: &Path<'_>) {
        let Some(value) = node.get(field) else { return };
        let Some(id) = TABLE.id(type_name) else { return };
        if let Some(field) = TABLE.get(id).field(Key::new(field)) {
            self.descend(&field.shape, value, path);
        }
    }

    /// Checks a struct by the name of its type.
    fn object(&mut self, type_name: &str, node: &Node<'_>, path: &Path<'_>) {
        if let Some(id) = TABLE.id(type_name) {
            self.walk(id, node, path);
        }
    }
}

/// The code of a type, if it has any.
pub(crate) fn type_check(name: &str) -> Option<TypeCheck> {
    pod::check(name)
        .or_else(|| volume::check(name))
        .or_else(|| storage::check(name))
        .or_else(|| workload::check(name))
        .or_else(|| batch::check(name))
        .or_else(|| service::check(name))
        .or_else(|| network::check(name))
        .or_else(|| core::check(name))
        .or_else(|| admission::check(name))
        .or_else(|| crd::check(name))
        .or_else(|| hpa::check(name))
        .or_else(|| misc::check(name))
}

/// Validates an object; `old` is the stored object of an UPDATE.
pub(crate) fn run(
    decoded: &Decoded<'_>,
    old: Option<&Decoded<'_>>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<(), Refused> {
    let served = match decoded.known {
        Known::BuiltIn(served) => served,
        Known::Custom(custom) => return custom_object(custom, decoded, old, cluster),
        Known::Unknown => return Ok(()),
    };
    let mut checker = Checker {
        errors: Vec::new(),
        is_pod: served.kind == "Pod",
        volumes: Vec::new(),
        claims: Vec::new(),
        kind: served.kind,
        create: old.is_none(),
    };
    let root = Path::root("");
    if !request.subresource.is_empty() {
        subresource::check(&mut checker, served, &decoded.node, old.map(|old| &old.node), request);
        return rejected(served, &decoded.node, checker.errors);
    }
    let metadata_last = meta::is_validated_last(served.kind) && old.is_none();
    if !metadata_last {
        meta::object(&mut checker, served, &decoded.node, &root);
    }
    if old.is_some() {
        repeat_metadata_errors(&mut checker.errors, [4, 2], served.kind);
    }
    if old.is_none() || update::revalidates(served.kind) {
        let metadata_errors = checker.errors.len();
        checker.walk(served.type_id, &decoded.node, &root);
        if old.is_some() {
            repeat_spec_errors(&mut checker.errors, metadata_errors, served.kind);
        }
    }
    if metadata_last && checker.errors.is_empty() {
        meta::object(&mut checker, served, &decoded.node, &root);
    }
    if let Some(old) = old {
        update::run(&mut checker, served, &decoded.node, &old.node);
    }
    if let Some(check) = cluster.expressions
        && matches!(served.kind, "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy")
    {
        checker.errors.extend(check(decoded.object().root()));
    }
    rejected(served, &decoded.node, checker.errors)
}

/// The rejection of an object with errors.
fn rejected(served: Served, node: &Node<'_>, errors: Vec<Cause>) -> Result<(), Refused> {
    if errors.is_empty() {
        return Ok(());
    }
    let group = served.api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = if group.is_empty() {
        served.kind.to_owned()
    } else {
        format!("{}.{group}", served.kind)
    };
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    Err(Refused::invalid(&kind, name, errors))
}

/// Validates a custom resource: metadata, then its schema.
fn custom_object(
    custom: Custom<'_>,
    decoded: &Decoded<'_>,
    old: Option<&Decoded<'_>>,
    cluster: &Cluster,
) -> Result<(), Refused> {
    let mut checker = Checker::empty();
    meta::custom_object(&mut checker, custom.namespaced, &decoded.node);
    if old.is_some() {
        repeat_metadata_errors(&mut checker.errors, [4, 2], custom.kind);
    }
    if let Some(schema) = custom.schema {
        let old = old.map(|old| &old.node);
        checker
            .errors
            .extend(custom::check::object(schema, &decoded.node, old, cluster.rules));
    }
    if checker.errors.is_empty() {
        return Ok(());
    }
    let group = custom.api_version.split_once('/').map_or("", |(group, _)| group);
    let name = decoded.node.at(&["metadata", "name"]).map_or("", Node::as_str);
    Err(Refused::invalid(
        &format!("{}.{group}", custom.kind),
        name,
        checker.errors,
    ))
}

/// Upstream checks the specs of some kinds twice in an UPDATE. The selector that a job should have is checked once; the
/// service of a stateful set cannot change.
fn repeat_spec_errors(errors: &mut Vec<Cause>, from: usize, kind: &str) {
    if kind == "StatefulSet" {
        errors.retain(|cause| cause.field != "spec.serviceName" || cause.reason == Reason::Required);
    }
    if !matches!(kind, "Job" | "PersistentVolume") {
        return;
    }
    let generated = |cause: &Cause| {
        cause.field.starts_with("spec.template.metadata.labels[") || cause.detail.contains("not auto-generated")
    };
    let again: Vec<Cause> = errors[from..]
        .iter()
        .filter(|cause| cause.field.starts_with("spec") && !generated(cause))
        .cloned()
        .collect();
    errors.extend(again);
}

/// Upstream checks the metadata of an UPDATE several times and reports each error as often: the first number is for the
/// parts that updates check once more.
fn repeat_metadata_errors(errors: &mut Vec<Cause>, [of_update, others]: [usize; 2], kind: &str) {
    let once = std::mem::take(errors);
    for cause in once {
        let by_update = ["metadata.labels", "metadata.annotations", "metadata.ownerReferences"]
            .iter()
            .any(|field| cause.field.starts_with(field));
        let times = match (by_update, kind) {
            (true, "Service" | "Node") => of_update - 1,
            (true, _) => of_update,
            (false, _) => others,
        };
        errors.extend(std::iter::repeat_n(cause, times));
    }
}
