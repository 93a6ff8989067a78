//! The JSON document that variables are looked up in; context entries are added to it when a query first names them.
//!
//! Upstream counterpart: `pkg/engine/context/{context,evaluate,deferred,utils}.go`. The document is never changed in place:
//! a checkpoint costs a counter. Deviation: the names of entries are taken as text, not as regular expressions.

mod entry;
mod loader;
mod root;
mod suite_sources;

use std::{collections::BTreeMap, sync::Arc};

use thiserror::Error;

pub use entry::{Entry, Source};
use loader::{Load, Loader};
use root::Root;
pub use root::{Part, Start};
pub use suite_sources::{Api, ApiPath, Given, SuiteSources, global_value};

use super::images::images;
use kyvtest_cel::{
    host::{Host, NoHost},
    observe::Observer,
};
use kyvtest_go_compat::value::Data;
use kyvtest_jmespath::{self as jmespath, Expression};

/// How much data context entries may add, in bytes of JSON.
const SIZE_LIMIT: usize = 2 * 1024 * 1024;
/// How many levels of entries may load each other.
const LOAD_DEPTH: usize = 32;

/// Why a query failed; its display is upstream's message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// The query is empty.
    #[error("invalid query (nil)")]
    Empty,
    /// The query is not valid JMESPath.
    #[error("incorrect query {query}: {error}")]
    Compile {
        query: String,
        /// What is wrong with it.
        error: jmespath::Error,
    },
    /// The query fails on the document.
    #[error("JMESPath query failed: {0}")]
    Search(jmespath::Error),
    /// An entry that the query needs could not be loaded.
    #[error("{0}")]
    Load(String),
}

/// The sources of context entries. If a method returns `None`, there is no source: the entry is not loaded, and
/// variables that need it have no value.
pub trait Outside {
    /// Values that the suite gives for the rule; they are added each time that entries are loaded.
    fn rule_values(&self) -> &[(String, Data)] {
        &[]
    }

    /// Whether the suite mocks API calls. If so, calls are made at once instead of on first use.
    fn has_api_calls(&self) -> bool {
        false
    }

    /// The suite's mock response to an API call: status and body.
    fn api_call(&self, _method: &str, _url: &str) -> Option<(u16, Data)> {
        None
    }

    /// The cluster's response to a call of its own API.
    fn cluster_call(&self, _method: &str, _path: &str) -> Option<Result<Data, String>> {
        None
    }

    /// A ConfigMap.
    fn config_map(&self, _namespace: &str, _name: &str) -> Option<Result<Data, String>> {
        None
    }

    /// An entry of the global context; the projection is empty where none is named.
    fn global_entry(&self, _name: &str, _projection: &str) -> Option<Result<Data, String>> {
        None
    }

    /// What a registry knows about an image.
    fn image(&self, _reference: &str) -> Option<Result<Data, String>> {
        None
    }

    /// The namespace of the policy; empty for a cluster-wide one.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "other sources return a name of their own"
    )]
    fn policy_namespace(&self) -> &str {
        ""
    }

    /// The clock and the random numbers.
    fn host(&self) -> &dyn Host {
        &NoHost
    }
}

/// A world without sources.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOutside;

impl Outside for NoOutside {}

/// The context of one policy and request.
pub struct Context<'o> {
    outside: &'o dyn Outside,
    root: Root<'o>,
    checkpoints: Vec<Root<'o>>,
    operation: String,
    loaders: Vec<Loader>,
    /// The loaders that a running loader may call: those of its level that were added before it.
    limit: Option<(usize, usize)>,
    loading: usize,
    size: usize,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("root", self.root.get())
            .finish_non_exhaustive()
    }
}

impl<'o> Context<'o> {
    /// An empty context.
    pub fn new(outside: &'o dyn Outside) -> Self {
        Self::from_data(Data::Map(Arc::default()), outside)
    }

    /// A context that starts with a document.
    pub fn from_data(root: Data, outside: &'o dyn Outside) -> Self {
        Self::on(Root::of(root), outside)
    }

    /// A context that starts with a document, made when something looks at it.
    pub(crate) fn starting_with(start: &'o dyn Start, outside: &'o dyn Outside) -> Self {
        Self::on(Root::starting_with(start), outside)
    }

    fn on(root: Root<'o>, outside: &'o dyn Outside) -> Self {
        Self {
            outside,
            root,
            checkpoints: Vec::new(),
            operation: String::new(),
            loaders: Vec::new(),
            limit: None,
            loading: 0,
            size: 0,
        }
    }

    /// Replaces the sources of context entries, for the next rule of a policy.
    pub(crate) fn set_outside(&mut self, outside: &'o dyn Outside) {
        self.outside = outside;
    }

    /// The observer, if any.
    pub(crate) fn observer(&self) -> Option<&'o Observer> {
        self.outside.host().observer()
    }

    /// The document as it is, without what has not been loaded.
    pub fn data(&self) -> &Data {
        self.root.get()
    }

    /// Evaluates a JMESPath expression after loading the entries that it names.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn query(&mut self, query: &str) -> Result<Data, QueryError> {
        self.load_matching(query).map_err(QueryError::Load)?;
        let query = query.trim();
        if query.is_empty() {
            return Err(QueryError::Empty);
        }
        let expression = Expression::parse(query).map_err(|error| QueryError::Compile {
            query: query.to_owned(),
            error,
        })?;
        self.search(&expression, self.root.get()).map_err(QueryError::Search)
    }

    /// Evaluates an expression on any value, with the clock of this context.
    fn search(&self, expression: &Expression, value: &Data) -> Result<Data, jmespath::Error> {
        let host = self.outside.host();
        let random = || host.random().unwrap_or_default();
        let context = jmespath::Context {
            now: host.now(),
            random: Some(&random),
        };
        expression.search(value, &context)
    }

    /// The operation of the request: the one that was set, or the one in the document.
    pub fn operation(&self) -> &str {
        if !self.operation.is_empty() {
            return &self.operation;
        }
        let request = self
            .root
            .get()
            .get("request")
            .and_then(|request| request.get("operation"));
        request.and_then(Data::as_str).unwrap_or_default()
    }

    /// Merges a value at a path of keys.
    fn merge_at(&mut self, path: &[&str], value: Data, overwrite: bool) {
        self.root.merge_at(path, value, overwrite);
    }

    /// Adds a value under a key with dots, as a values file has it: parts in quotes may have dots themselves.
    ///
    /// # Errors
    /// Where the key is not well formed.
    pub fn add_variable(&mut self, key: &str, value: &Data) -> Result<(), String> {
        let fields = entry::fields(key)?;
        let path: Vec<&str> = fields.iter().map(String::as_str).collect();
        self.merge_at(&path, value.with_doubles(), false);
        Ok(())
    }

    /// Merges a map into the document.
    pub fn add_map(&mut self, value: &Data) {
        self.merge_at(&[], value.clone(), false);
    }

    /// Sets `request.object`.
    pub(crate) fn add_resource(&mut self, resource: impl Into<Part>) {
        self.root.replace_at(&["request", "object"], resource.into());
    }

    /// Sets `request.oldObject`.
    pub(crate) fn add_old_resource(&mut self, resource: impl Into<Part>) {
        self.root.replace_at(&["request", "oldObject"], resource.into());
    }

    /// Sets `target`.
    pub(crate) fn set_target_resource(&mut self, resource: impl Into<Part>) {
        self.root.replace_at(&["target"], resource.into());
    }

    /// Sets `request.operation`.
    pub(crate) fn add_operation(&mut self, operation: &str) {
        self.merge_at(&["request", "operation"], Data::from(operation), false);
        operation.clone_into(&mut self.operation);
    }

    /// Sets `request.namespace`.
    pub(crate) fn add_namespace(&mut self, namespace: &str) {
        self.merge_at(&["request", "namespace"], Data::from(namespace), false);
    }

    /// Merges what is known of the user under `request`: `roles`, `clusterRoles`, `userInfo`.
    pub(crate) fn add_user_info(&mut self, info: Data) {
        self.merge_at(&["request"], info, false);
    }

    /// Sets `serviceAccountName` and `serviceAccountNamespace` from a user's name.
    pub(crate) fn add_service_account(&mut self, username: &str) {
        // Upstream cuts off as many bytes as the prefix has without comparing them.
        let account = username.get("system:serviceaccount:".len()..).unwrap_or_default();
        let mut parts = account.split(':');
        let (namespace, name) = match (parts.next(), parts.next()) {
            (Some(namespace), Some(name)) => (namespace, name),
            _ => ("", ""),
        };
        self.merge_at(&["serviceAccountName"], Data::from(name), false);
        self.merge_at(&["serviceAccountNamespace"], Data::from(namespace), false);
    }

    /// Sets the element of a loop, by `element` and `elementIndex` and with the number of the loop behind them.
    pub fn add_element(&mut self, element: &Data, index: usize, nesting: usize) {
        // The index is an integer, which JMESPath does not treat as a number.
        let index = Data::Int(index as i64);
        let entries = [
            (Arc::from("element"), element.clone()),
            (Arc::from(format!("element{nesting}")), element.clone()),
            (Arc::from("elementIndex"), index.clone()),
            (Arc::from(format!("elementIndex{nesting}")), index),
        ];
        self.merge_at(&[], Data::from_iter(entries), true);
    }

    /// Makes `images` known: those of a resource, on first use.
    pub fn add_images(&mut self, resource: Data) {
        self.add_loader("images", Load::Images(resource));
    }

    /// Adds data of a context entry.
    fn add_entry(&mut self, name: &str, value: &Data) -> Result<(), String> {
        let json = value.to_go_json()?;
        let size = self.size + json.len();
        if size > SIZE_LIMIT {
            return Err(format!(
                "context size limit exceeded: {size} bytes exceeds limit of {SIZE_LIMIT} bytes"
            ));
        }
        self.size = size;
        self.merge_at(&[name], value.with_doubles(), false);
        Ok(())
    }

    /// The same, in place of what the entry had.
    fn replace_entry(&mut self, name: &str, value: &Data) -> Result<(), String> {
        let json = value.to_go_json()?;
        if self.size + json.len() <= SIZE_LIMIT {
            self.merge_at(&[name], Data::Null, false);
        }
        self.add_entry(name, value)
    }

    /// Keeps the state, to come back to it.
    pub fn checkpoint(&mut self) {
        self.checkpoints.push(self.root.clone());
    }

    /// Goes back to the last checkpoint and forgets it.
    pub fn restore(&mut self) {
        if let Some(root) = self.checkpoints.pop() {
            self.root = root;
            self.reset_loaders(true);
        }
    }

    /// Goes back to the last checkpoint and keeps it.
    pub fn reset(&mut self) {
        if let Some(root) = self.checkpoints.last() {
            self.root = root.clone();
            self.reset_loaders(false);
        }
    }

    fn load(&mut self, name: &str, load: &Load) -> Result<Option<Data>, String> {
        if self.loading >= LOAD_DEPTH {
            return Err(format!("context entries load each other too deeply: {name}"));
        }
        self.loading += 1;
        let loaded = match load {
            Load::Images(resource) => images(resource).map(|images| {
                if !images.is_null() {
                    self.merge_at(&["images"], images, false);
                }
                None
            }),
            Load::Entry(source, before) => self.load_source(name, source, before.as_ref()).map(Some),
        };
        self.loading -= 1;
        loaded
    }
}

/// Merges entries into a map; with `overwrite`, maps replace maps.
fn merge(from: &BTreeMap<Arc<str>, Data>, into: &mut Data, overwrite: bool) {
    if into.as_map().is_none() {
        *into = Data::Map(Arc::default());
    }
    let Data::Map(entries) = into else { return };
    let entries = Arc::make_mut(entries);
    for (key, value) in from {
        match (value, entries.get_mut(key)) {
            (Data::Map(inner), Some(existing @ Data::Map(_))) if !overwrite => merge(inner, existing, overwrite),
            _ => {
                entries.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The segments of an API path; a slash inside a variable does not count.
pub fn path_segments(path: &str) -> Vec<String> {
    let mut segments = vec![String::new()];
    let mut depth = 0usize;
    for c in path.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '/' if depth == 0 => {
                segments.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = segments.last_mut() {
            last.push(c);
        }
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}
