//! The six operations.
//!
//! Upstream counterpart: `ApplyIndentWithOptions` (V5) and `ApplyIndent` (V4) with the functions that they call.

use kyvtest_go_compat::text::number;

use super::{
    Error, Fields, OperationValue,
    lazy::{Container, Failure, NodeId, Store},
    raw::Raw,
};

/// Applies operations to a JSON text and returns the resulting text.
pub(super) fn apply(operations: &[Fields], text: &str, mut store: Store) -> Result<String, Error> {
    let root = store
        .document(Raw::new(text))
        .map_err(|kind| Error::Apply(not_an_object(kind)))?;
    let mut patcher = Patcher { store, root };
    for operation in operations {
        patcher.operation(operation)?;
    }
    patcher.store.write(patcher.root).map_err(Failure::into_error)
}

fn not_an_object(kind: &str) -> String {
    format!("json: cannot unmarshal {kind} into Go value of type map[string]*jsonpatch.lazyNode")
}

struct Patcher {
    store: Store,
    root: Container,
}

/// The target of a path: the container and the last key.
type Target = Option<(Container, String)>;

fn unescape(part: &str) -> String {
    if !part.contains('~') {
        return part.to_owned();
    }
    let mut out = String::new();
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (c, length) = match rest.as_bytes().get(at + 1) {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        out.push(c);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

impl Patcher {
    fn operation(&mut self, fields: &Fields) -> Result<(), Error> {
        let kind = fields.kind();
        match kind.as_str() {
            "add" => self.add(fields),
            "remove" => self.remove(fields),
            "replace" => self.replace(fields),
            "move" => self.move_value(fields),
            "test" => self.test(fields),
            "copy" => self.copy(fields),
            _ => Err(Error::Apply(format!("Unexpected kind: {kind}"))),
        }
    }

    fn find(&mut self, path: &str) -> Result<Target, Error> {
        let Some((_, parts)) = path.split_once('/') else {
            let is_root = path.is_empty() && !self.store.is_v4();
            return Ok(is_root.then(|| (self.root, String::new())));
        };
        let (parents, key) = parts
            .rsplit_once('/')
            .map_or((None, parts), |(parents, key)| (Some(parents), key));
        let mut container = self.root;
        for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
            let next = match self.store.get(container, &unescape(part)) {
                Ok(Some(next)) => next,
                Ok(None) | Err(Failure::Missing(_) | Failure::Other(_)) => return Ok(None),
                Err(failure) => return Err(failure.into_error()),
            };
            container = match self.store.open(next) {
                Ok(container) => container,
                Err(Failure::Panic(text)) => return Err(Error::Panic(text)),
                Err(_) => return Ok(None),
            };
        }
        Ok(Some((container, unescape(key))))
    }

    /// The value of an operation as a new node; `None` if absent. V5 creates a node for a null.
    fn value(&mut self, fields: &Fields) -> Option<NodeId> {
        let raw = match &fields.value {
            OperationValue::Missing => return None,
            OperationValue::Nil if self.store.is_v4() => None,
            OperationValue::Nil => Some(Raw::new("null")),
            OperationValue::Text(raw) => Some(raw.clone()),
        };
        Some(self.store.node(raw))
    }

    fn add(&mut self, fields: &Fields) -> Result<(), Error> {
        let path = fields.path();
        let path = path.map_err(|_| Error::Apply("add operation failed to decode path: missing value".to_owned()))?;
        if path.is_empty() && !self.store.is_v4() {
            let raw = match &fields.value {
                OperationValue::Text(raw) => raw.clone(),
                OperationValue::Missing | OperationValue::Nil => Raw::new("null"),
            };
            let document = self.store.document(raw);
            self.root = document.map_err(|kind| Error::Apply(not_an_object(kind)))?;
            return Ok(());
        }
        if self.store.options.ensure_path_exists_on_add && !self.store.is_v4() {
            self.ensure(&path)?;
        }
        let Some((container, key)) = self.find(&path)? else {
            let text = format!("add operation does not apply: doc is missing path: \"{path}\": missing value");
            return Err(Error::Apply(text));
        };
        let value = self.value(fields);
        let added = self.store.add(container, &key, value);
        added.map_err(|failure| failure.within(&format!("error in add for path: '{path}'")))
    }

    /// Creates missing parents of a path.
    fn ensure(&mut self, path: &str) -> Result<(), Error> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let mut container = self.root;
        for pair in parts.windows(2) {
            let (part, next) = (pair[0], pair[1]);
            let existing = match self.store.get(container, &unescape(part)) {
                Ok(existing) => existing,
                Err(Failure::Panic(text)) => return Err(Error::Panic(text)),
                Err(_) => None,
            };
            container = match existing {
                Some(existing) => self.store.open(existing).map_err(Failure::into_error)?,
                None => self.create(container, part, next)?,
            };
        }
        Ok(())
    }

    /// Adds an array if the next part of the path is an index or `-`, else an object. Upstream ignores errors of the
    /// insertion and does not decode the key.
    fn create(&mut self, container: Container, part: &str, next: &str) -> Result<Container, Error> {
        if let (Ok(index), Some(length)) = (number::atoi(part), self.store.length(container)) {
            self.pad(container, length as i64, index)?;
        }
        let index = match number::atoi(next) {
            Ok(index) => index,
            Err(_) if next == "-" => 0,
            Err(_) => {
                let node = self.store.node(Some(Raw::new("{}")));
                self.insert(container, part, node)?;
                return self.store.open(node).map_err(Failure::into_error);
            }
        };
        if index < 0 && !self.store.options.negative_indices {
            let text = format!("Unable to ensure path for invalid index: {index}: invalid index referenced");
            return Err(Error::Apply(text));
        }
        if index < -1 {
            let text =
                format!("Unable to ensure path for negative index other than -1: {index}: invalid index referenced");
            return Err(Error::Apply(text));
        }
        let node = self.store.node(Some(Raw::new("[]")));
        self.insert(container, part, node)?;
        let list = self.store.open(node).map_err(Failure::into_error)?;
        self.pad(list, 0, index)?;
        Ok(list)
    }

    /// Appends nulls up to an index.
    fn pad(&mut self, list: Container, from: i64, to: i64) -> Result<(), Error> {
        /// The maximum number of elements: upstream would run out of memory.
        const LIMIT: i64 = 1_000_000;
        if to - from > LIMIT {
            return Err(Error::Panic(format!("a list of {to} elements")));
        }
        for index in from..to {
            let null = self.store.node(Some(Raw::new("null")));
            self.insert(list, &index.to_string(), null)?;
        }
        Ok(())
    }

    fn insert(&mut self, container: Container, key: &str, node: NodeId) -> Result<(), Error> {
        match self.store.add(container, key, Some(node)) {
            Err(Failure::Panic(text)) => Err(Error::Panic(text)),
            _ => Ok(()),
        }
    }

    fn remove(&mut self, fields: &Fields) -> Result<(), Error> {
        let path = fields.path();
        let path =
            path.map_err(|_| Error::Apply("remove operation failed to decode path: missing value".to_owned()))?;
        let Some((container, key)) = self.find(&path)? else {
            if self.store.options.allow_missing_path_on_remove && !self.store.is_v4() {
                return Ok(());
            }
            let text = format!("remove operation does not apply: doc is missing path: \"{path}\": missing value");
            return Err(Error::Apply(text));
        };
        let removed = self.store.remove(container, &key);
        removed.map_err(|failure| failure.within(&format!("error in remove for path: '{path}'")))
    }

    fn replace(&mut self, fields: &Fields) -> Result<(), Error> {
        let path = fields.path();
        let path = path.map_err(|error| Error::Apply(format!("replace operation failed to decode path: {error}")))?;
        if path.is_empty() {
            let value = self.value(fields);
            let value = value.ok_or_else(|| Error::Panic("replace of the document without a value".to_owned()))?;
            let Some(container) = self.store.try_open(value) else {
                let text = "replace operation value must be object or array: %!w(<nil>)";
                return Err(Error::Apply(text.to_owned()));
            };
            self.store.apply_options(container);
            self.root = container;
            return Ok(());
        }
        let missing = |what: &str| {
            let text = format!("replace operation does not apply: doc is missing {what}: {path}: missing value");
            Error::Apply(text)
        };
        let (container, key) = self.find(&path)?.ok_or_else(|| missing("path"))?;
        match self.store.get(container, &key) {
            Ok(_) => {}
            Err(Failure::Panic(text)) => return Err(Error::Panic(text)),
            Err(_) => return Err(missing("key")),
        }
        let value = self.value(fields);
        let set = self.store.set(container, &key, value);
        set.map_err(|failure| failure.within(&format!("error in remove for path: '{path}'")))
    }

    fn move_value(&mut self, fields: &Fields) -> Result<(), Error> {
        let from = fields.from();
        let from = from.map_err(|error| Error::Apply(format!("move operation failed to decode from: {error}")))?;
        if from.is_empty() && !self.store.is_v4() {
            let text = "unable to move entire document to another path: invalid state detected";
            return Err(Error::Apply(text.to_owned()));
        }
        let missing = |what: &str, path: &str| {
            let text = format!("move operation does not apply: doc is missing {what} path: {path}: missing value");
            Error::Apply(text)
        };
        let (container, key) = self.find(&from)?.ok_or_else(|| missing("from", &from))?;
        let in_source = |failure: Failure| failure.within(&format!("error in move for path: '{key}'"));
        let value = self.store.get(container, &key).map_err(in_source)?;
        self.store.remove(container, &key).map_err(in_source)?;
        let path = fields.path();
        let path = path.map_err(|error| Error::Apply(format!("move operation failed to decode path: {error}")))?;
        let (container, key) = self.find(&path)?.ok_or_else(|| missing("destination", &path))?;
        let added = self.store.add(container, &key, value);
        added.map_err(|failure| failure.within(&format!("error in move for path: '{path}'")))
    }

    fn copy(&mut self, fields: &Fields) -> Result<(), Error> {
        let from = fields.from();
        let from = from.map_err(|error| Error::Apply(format!("copy operation failed to decode from: {error}")))?;
        let Some((container, key)) = self.find(&from)? else {
            let quote = if self.store.is_v4() { "" } else { "\"" };
            let text =
                format!("copy operation does not apply: doc is missing from path: {quote}{from}{quote}: missing value");
            return Err(Error::Apply(text));
        };
        let value = self.store.get(container, &key);
        let value = value.map_err(|failure| failure.within(&format!("error in copy for from: '{from}'")))?;
        let path = fields.path();
        let path = path.map_err(|_| Error::Apply("copy operation failed to decode path: missing value".to_owned()))?;
        let Some((container, key)) = self.find(&path)? else {
            let text = format!("copy operation does not apply: doc is missing destination path: {path}: missing value");
            return Err(Error::Apply(text));
        };
        let copied = match value {
            Some(value) => Some(
                self.store
                    .copy(value)
                    .map_err(|failure| failure.within("error while performing deep copy"))?,
            ),
            None => None,
        };
        let added = self.store.add(container, &key, copied);
        added.map_err(|failure| failure.within("error while adding value during copy"))
    }

    fn test(&mut self, fields: &Fields) -> Result<(), Error> {
        let path = fields.path();
        let path = path.map_err(|error| Error::Apply(format!("test operation failed to decode path: {error}")))?;
        let expected = self.value(fields);
        if path.is_empty() {
            let is_equal = self.store.equal_container(self.root, expected);
            return verdict(is_equal.map_err(Failure::into_error)?, &path);
        }
        let Some((container, key)) = self.find(&path)? else {
            let text = format!("test operation does not apply: is missing path: {path}: missing value");
            return Err(Error::Apply(text));
        };
        let actual = match self.store.get(container, &key) {
            Ok(actual) => actual,
            Err(Failure::Missing(_)) => None,
            Err(failure) => return Err(failure.within(&format!("error in test for path: '{path}'"))),
        };
        let is_null = match expected.and_then(|expected| self.store.raw(expected)) {
            None => true,
            // V4 treats an undecoded null as a value.
            Some(raw) => !self.store.is_v4() && raw.is_null(),
        };
        let is_equal = match actual {
            None => is_null,
            Some(_) if expected.is_none() || is_null && !self.store.is_v4() => false,
            Some(actual) => self.store.equal(actual, expected).map_err(Failure::into_error)?,
        };
        verdict(is_equal, &path)
    }
}

fn verdict(is_equal: bool, path: &str) -> Result<(), Error> {
    if is_equal {
        return Ok(());
    }
    Err(Error::Test(path.to_owned()))
}
