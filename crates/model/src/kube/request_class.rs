//! The finite part of a request: what a proof enumerates instead of asking.

use super::{Operation, Resource};

/// Which of the two objects of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The object as it shall be.
    New,
    /// The object as it is.
    Old,
}

/// A resource and what is done to it.
#[derive(Debug, Clone, Copy)]
pub struct RequestClass<'u> {
    /// The resource, or subresource.
    pub resource: &'u Resource,
    pub operation: Operation,
    /// Whether this is one of the deletions of a collection delete, which have no request name.
    pub collection: bool,
    /// Whether the request has a namespace and is not about a Namespace.
    pub namespaced: bool,
    /// The object that Kyverno looks at: the new one, else the old one, else none.
    pub subject: Option<Side>,
    /// Whether nothing at all is known of the user, as in a test without a user info file.
    pub anonymous: bool,
}

impl<'u> RequestClass<'u> {
    /// The cell of requests as an API server sends them: with a user, and with the object that belongs to the operation.
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
