//! The finite part of a request, which a proof enumerates.

use super::{Operation, Resource};

/// One of the two objects of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The new object.
    New,
    /// The old object.
    Old,
}

/// A resource and an operation on it.
#[derive(Debug, Clone, Copy)]
pub struct RequestClass<'u> {
    /// The resource, or subresource.
    pub resource: &'u Resource,
    pub operation: Operation,
    /// Whether this is one of the deletions of a collection delete, which have no request name.
    pub collection: bool,
    /// Whether the request has a namespace and is not about a Namespace.
    pub namespaced: bool,
    /// The object that Kyverno evaluates: the new one, else the old one, else `None`.
    pub subject: Option<Side>,
    /// Whether nothing is known of the user, as in a test without a user info file.
    pub anonymous: bool,
}

impl<'u> RequestClass<'u> {
    /// The class of requests as an API server sends them: with a user, and with the object of the operation.
    pub fn new(resource: &'u Resource, operation: Operation, collection: bool) -> Self {
        Self {
            resource,
            operation,
            collection,
            namespaced: resource.namespaced,
            subject: Some(if operation == Operation::Delete {
                Side::Old
            } else {
                Side::New
            }),
            anonymous: false,
        }
    }

    /// Whether the request is about a core Namespace itself.
    pub fn is_core_namespace(&self) -> bool {
        let resource = self.resource;
        resource.group.is_empty() && resource.version == "v1" && resource.plural == "namespaces"
    }
}
