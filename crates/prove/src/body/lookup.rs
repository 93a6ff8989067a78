//! What expressions look up outside of the request. No upstream counterpart.

use std::{rc::Rc, sync::Arc};

use super::{
    formula::{Formula, Place},
    value::Sym,
};

/// Something outside of the request that expressions look up.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    /// What is found.
    pub(super) place: Place,
    /// When the lookup succeeds.
    pub(super) fine: Formula,
    pub(super) source: Source,
}

/// Where something is looked up.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// An object of the cluster.
    Object {
        api_version: Arc<str>,
        kind: Arc<str>,
        namespace: Sym,
        name: Sym,
    },
    /// The objects of a namespace, under `items`.
    List {
        api_version: Arc<str>,
        kind: Arc<str>,
        namespace: Sym,
    },
    /// The objects of a namespace that a selector selects, with labels that it selects.
    Selected {
        api_version: Arc<str>,
        kind: Arc<str>,
        namespace: Sym,
        labels: Rc<serde_json::Value>,
    },
    /// An entry of the global context, or a projection of it.
    Global { name: Arc<str>, projection: Arc<str> },
    /// A call of a service.
    Service { url: Sym },
}
