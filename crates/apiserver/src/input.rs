//! A request as the API server's matchers and expressions see it.
//!
//! Upstream counterpart: the attributes of `k8s.io/apiserver/pkg/admission`, and `plugin/cel/condition.go`.

use std::{borrow::Cow, cell::OnceCell};

use kyvtest_cel::host::Attributes;
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::kube::{
    Concrete, Description, Discovery, Namespace, Operation, Request, Resource, World, convert, decoded_numbers,
    describe, namespace_object, with_name_label,
};

/// A request with what is known around it.
#[derive(Debug)]
pub(super) struct Input<'r> {
    pub(super) request: Cow<'r, Request>,
    pub(super) world: &'r World,
    pub(super) discovery: &'r Discovery,
    namespace: Option<Namespace>,
    own: OnceCell<Documents>,
}

/// The values of the variables of expressions.
#[derive(Debug)]
pub(super) struct Documents {
    pub(super) object: Document,
    pub(super) old_object: Document,
    pub(super) namespace: Document,
    /// `request`, and that of conditions where it is another one.
    requests: OnceCell<(Document, Option<Document>)>,
}

impl Documents {
    /// `request` of a request that is matched as a resource, and `request` of conditions.
    pub(super) fn requests(&self, input: &Input<'_>, matched: &Resource) -> (Value<'_>, Value<'_>) {
        let (request, condition) = self.requests.get_or_init(|| input.requests(matched));
        (request.root(), condition.as_ref().unwrap_or(request).root())
    }
}

impl<'r> Input<'r> {
    pub(super) fn new(request: &'r Request, world: &'r World, discovery: &'r Discovery) -> Self {
        let request = nameless(labelled(request));
        let namespace = namespace(&request, world);
        Self {
            request,
            world,
            discovery,
            namespace,
            own: OnceCell::new(),
        }
    }

    /// The facts that matching reads.
    pub(super) fn facts(&self) -> Concrete<'_> {
        Concrete::new(&self.request, self.namespace.as_ref())
    }

    /// The attributes that `authorizer.requestResource` checks: the request as it was sent.
    pub(super) fn attributes(&self) -> Attributes {
        self.request.attributes(&self.request.resource)
    }

    /// What expressions see of a request that is matched under its own name.
    pub(super) fn own(&self) -> &Documents {
        self.own.get_or_init(|| self.documents(&self.request.resource))
    }

    /// What expressions see of a request that is matched as a resource.
    pub(super) fn documents(&self, matched: &Resource) -> Documents {
        let request = &*self.request;
        let own = &*request.resource;
        let (object, old_object) = if matched == own {
            let kind = &own.object_kind;
            (
                decoded_numbers(&request.object, kind).into_owned(),
                decoded_numbers(&request.old_object, kind).into_owned(),
            )
        } else {
            (
                convert(request.object.root(), own, matched),
                convert(request.old_object.root(), own, matched),
            )
        };
        Documents {
            object,
            old_object,
            namespace: self.namespace_object(),
            requests: OnceCell::new(),
        }
    }

    fn requests(&self, matched: &Resource) -> (Document, Option<Document>) {
        let request = &*self.request;
        let own = &*request.resource;
        let described = Description {
            kind: &matched.object_kind,
            resource: Some(matched.gvr()),
            requested: Some(own),
            subresource: &own.subresource,
            name: &request.name,
            namespace: &request.namespace,
            operation: request.operation,
            user: &request.user,
            objects: [Value::Null; 2],
            dry_run: request.dry_run,
            options: request.options.root(),
        };
        // Conditions see the matched kind with the resource of the request.
        let resource = Some(own.gvr());
        let condition = (described.resource != resource).then(|| {
            describe(&Description {
                resource,
                ..described.clone()
            })
        });
        (describe(&described), condition)
    }

    /// `namespaceObject`: null for what is in no namespace, and for Namespaces themselves.
    fn namespace_object(&self) -> Document {
        match &self.namespace {
            Some(stored) if !is_core_namespace(&self.request.resource) => namespace_object(stored.object.root()),
            _ => Document::null(),
        }
    }
}

fn is_core_namespace(resource: &Resource) -> bool {
    let kind = &resource.object_kind;
    kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace"
}

/// The request with the label that the server puts on a Namespace before policies see it.
fn labelled(request: &Request) -> Cow<'_, Request> {
    if !is_core_namespace(&request.resource) {
        return Cow::Borrowed(request);
    }
    let (object, old_object) = (
        with_name_label(request.object.root()),
        with_name_label(request.old_object.root()),
    );
    Cow::Owned(Request {
        object,
        old_object,
        ..request.clone()
    })
}

/// The items of a collection delete have no name in their requests.
fn nameless(mut request: Cow<'_, Request>) -> Cow<'_, Request> {
    if request.collection && !request.name.is_empty() {
        request.to_mut().name.clear();
    }
    request
}

/// The stored namespace of a request. One that is not described exists: a Namespace as it is stored, any other with
/// nothing but its name.
fn namespace(request: &Request, world: &World) -> Option<Namespace> {
    let name = request.namespace.as_str();
    if name.is_empty() {
        return None;
    }
    if let Some(stored) = world.namespace(name) {
        return Some(stored.labelled());
    }
    let old = &request.old_object;
    if is_core_namespace(&request.resource) && request.operation != Operation::Create && !old.root().is_null() {
        return Some(Namespace { object: old.clone() });
    }
    Some(world.minimal_namespace(name))
}
