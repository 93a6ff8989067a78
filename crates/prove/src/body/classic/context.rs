//! Context entries: variables, ConfigMaps, API calls, the global context and image registries.
//!
//! Upstream counterpart: `pkg/engine/context/{deferred.go,loaders}`, by way of `kyvtest_kyverno::classic::context`: an entry is
//! loaded when a query names it, sees only the entries before it, and is an error of the query if it cannot be loaded.
//!
//! What a lookup finds is unknown, but the same for everyone who makes the same lookup: an object, or an error.
//!
//! Known limits: variables inside of texts and in JMESPath expressions of entries, POST, headers, label selectors, policies with
//! a namespace.

use std::rc::Rc;
use std::sync::Arc;

use kyvtest_kyverno::classic::context::path_segments;
use serde_json::Value as Json;

use super::query::{Context, Queried, Written, null_if_missing, query, query_on, whole_numbers};
use crate::{
    body::{
        cel::{json_value, lookup},
        formula::{Arena, Formula},
        shape::{Inner, Kind},
        text::Predicate,
        value::{Part, Result, Sym, Value, unsupported},
    },
    language::Base,
};

/// Context entries that a query may name.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries(Rc<[Entry]>);

#[derive(Debug, Clone)]
pub(super) struct Entry {
    name: Rc<str>,
    source: Rc<Json>,
    /// The element of the loop that the entry belongs to.
    element: Option<Value>,
    /// How many entries are before it.
    before: usize,
}

impl Entries {
    /// The entries with those of a further context, which belongs to the element of a loop.
    pub(super) fn with(&self, context: &Json, element: Option<&Value>) -> Result<Self> {
        let mut all = self.0.to_vec();
        for source in context.as_array().into_iter().flatten() {
            let name = source["name"].as_str().unwrap_or_default();
            let plain = name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
            if !plain || matches!(name, "" | "request" | "element" | "images") {
                return unsupported(format!("a context entry with the name `{name}`"));
            }
            if all.iter().any(|entry| &*entry.name == name) {
                return unsupported(format!("two context entries with the name `{name}`"));
            }
            let before = all.len();
            all.push(Entry {
                name: Rc::from(name),
                source: Rc::new(source.clone()),
                element: element.cloned(),
                before,
            });
        }
        Ok(Self(Rc::from(all)))
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| &*entry.name == name)
    }

    /// When an entry that a query names cannot be loaded.
    pub(super) fn failures(&self, arena: &mut Arena, context: &Context<'_, '_>, query: &str) -> Result<Formula> {
        let mut failed = Vec::new();
        for entry in self.0.iter().filter(|entry| is_named(query, &entry.name)) {
            failed.push(entry.load(arena, context)?.failed);
        }
        Ok(arena.or(failed))
    }
}

/// Whether a query has a name as a word of its own that does not follow a dot, a letter or a digit: what upstream loads.
fn is_named(query: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let ends_in_word = name.ends_with(is_word);
    query.match_indices(name).any(|(at, _)| {
        let before = query[..at].chars().next_back();
        let after = query[at + name.len()..].chars().next();
        before.is_none_or(|c| c != '.' && !c.is_ascii_alphanumeric()) && after.is_some_and(is_word) != ends_in_word
    })
}

impl Entry {
    /// The value of the entry, and when it cannot be loaded.
    pub(super) fn load(&self, arena: &mut Arena, context: &Context<'_, '_>) -> Result<Queried> {
        let entries: Vec<Self> = context.entries.0.iter().take(self.before).cloned().collect();
        let own = Context {
            request: context.request,
            element: self.element.clone(),
            bound: context.bound.clone(),
            entries: Entries(Rc::from(entries)),
        };
        let part = |name: &str| Some(&self.source[name]).filter(|part| !part.is_null());
        if let Some(config_map) = part("configMap") {
            return config_map_of(arena, &own, config_map);
        }
        if let Some(call) = part("apiCall") {
            return api_call(arena, &own, call);
        }
        if let Some(reference) = part("globalReference") {
            let name = constant(&reference["name"])?;
            let mut parts = name.split('.');
            let args = [
                Sym::Constant(Arc::from("globalContext")),
                Sym::Text(Arc::from(parts.next().unwrap_or_default())),
                Sym::Text(Arc::from(parts.next().unwrap_or_default())),
            ];
            let found = lookup(arena, "Get", &args)?;
            let found = looked_up(arena, found);
            let found = not_null(arena, found)?;
            return projected(arena, &own, reference, found);
        }
        if let Some(registry) = part("imageRegistry") {
            let reference = text_of(arena, &own, &registry["reference"])?;
            let found = then(arena, reference, |arena, sym| {
                let found = lookup(arena, "GetMetadata", &[Sym::Constant(Arc::from("image")), sym.clone()])?;
                Ok(looked_up(arena, found))
            })?;
            return projected(arena, &own, registry, found);
        }
        match part("variable") {
            Some(entry) => variable(arena, &own, entry),
            None => unsupported("a context entry without a source"),
        }
    }
}

/// A lookup that fails is an error of the query.
fn looked_up(arena: &mut Arena, value: Value) -> Queried {
    let mut found = Vec::new();
    let mut failed = Vec::new();
    for (guard, sym) in value.0 {
        if sym == Sym::Error {
            failed.push(guard);
        } else {
            found.push((guard, sym));
        }
    }
    Queried {
        value: Value(found),
        failed: arena.or(failed),
    }
}

/// Goes on from each case of a value.
fn then(
    arena: &mut Arena,
    left: Queried,
    mut apply: impl FnMut(&mut Arena, &Sym) -> Result<Queried>,
) -> Result<Queried> {
    let mut cases = Vec::new();
    let mut failed = vec![left.failed];
    for (guard, sym) in left.value.0 {
        let found = apply(arena, &sym)?;
        failed.push(arena.and([guard, found.failed]));
        for (own, sym) in found.value.0 {
            cases.push((arena.and([guard, own]), sym));
        }
    }
    Ok(Queried {
        value: arena.value(cases),
        failed: arena.or(failed),
    })
}

/// Applies the `jmesPath` of an entry to what was found; a missing key is an error.
fn projected(arena: &mut Arena, context: &Context<'_, '_>, entry: &Json, found: Queried) -> Result<Queried> {
    let path = constant(&entry["jmesPath"])?;
    if path.is_empty() {
        return Ok(found);
    }
    then(arena, found, |arena, sym| {
        let made = query_on(arena, context, path, &Value::of(sym.clone()))?;
        let value = looked_up(arena, made.value);
        Ok(Queried {
            failed: arena.or([made.failed, value.failed]),
            value: value.value,
        })
    })
}

/// A text without variables.
fn constant(json: &Json) -> Result<&str> {
    let text = json.as_str().unwrap_or_default();
    if text.contains("{{") || text.contains("$(") {
        return unsupported("a variable in a context entry");
    }
    Ok(text)
}

/// The query of a text that is one variable and nothing else.
pub(super) fn only_variable(text: &str) -> Option<&str> {
    text.strip_prefix("{{")
        .and_then(|text| text.strip_suffix("}}"))
        .filter(|inside| !inside.contains("{{") && !inside.trim_start().starts_with(['-', '@']))
}

/// A value with variables: in it a missing key is an error, as everything that cannot be evaluated.
pub(super) fn value_of(arena: &mut Arena, context: &Context<'_, '_>, json: &Json) -> Result<Queried> {
    match json {
        Json::String(text) if text.contains("{{") || text.contains("$(") => {
            let Some(inside) = only_variable(text) else {
                return unsupported("a text with variables");
            };
            let found = query(arena, context, inside, Written::Variable)?;
            let value = looked_up(arena, found.value);
            Ok(Queried {
                failed: arena.or([found.failed, value.failed]),
                value: value.value,
            })
        }
        Json::Array(items) => {
            let mut parts = Vec::new();
            let mut failed = Vec::new();
            for item in items {
                let found = value_of(arena, context, item)?;
                failed.push(found.failed);
                parts.push(Part::One(Formula::TRUE, found.value));
            }
            let failed = arena.or(failed);
            let fine = arena.not(failed);
            Ok(Queried {
                value: arena.value([(fine, Sym::List(Rc::from(parts)))]),
                failed,
            })
        }
        Json::Object(entries) => {
            if entries.keys().any(|key| key.contains("{{") || key.contains("$(")) {
                return unsupported("a variable in a key");
            }
            let mut made = Vec::new();
            let mut failed = Vec::new();
            for (key, value) in entries {
                let found = value_of(arena, context, value)?;
                failed.push(found.failed);
                made.push((Arc::from(key.as_str()), found.value));
            }
            let failed = arena.or(failed);
            let fine = arena.not(failed);
            Ok(Queried {
                value: arena.value([(fine, Sym::Map(Rc::from(made)))]),
                failed,
            })
        }
        json => Ok(Queried::of(json_value(&whole_numbers(json))?)),
    }
}

/// A value that must be a text.
fn text_of(arena: &mut Arena, context: &Context<'_, '_>, json: &Json) -> Result<Queried> {
    let found = value_of(arena, context, json)?;
    for (_, sym) in &found.value.0 {
        let fits = match sym {
            Sym::Text(_) => true,
            Sym::At(place) => {
                let kinds = arena.shape(*place).kinds;
                kinds.is_single() && kinds.has(Kind::Text)
            }
            _ => false,
        };
        if !fits {
            return unsupported("a name of unknown type in a context entry");
        }
    }
    Ok(found)
}

fn config_map_of(arena: &mut Arena, context: &Context<'_, '_>, entry: &Json) -> Result<Queried> {
    let name = text_of(arena, context, &entry["name"])?;
    let namespace = if constant(&entry["namespace"]).is_ok_and(str::is_empty) {
        Queried::of(Value::text("default"))
    } else {
        text_of(arena, context, &entry["namespace"])?
    };
    // An empty namespace that a variable has is another one.
    for (_, sym) in &namespace.value.0 {
        if let Sym::At(place) = sym
            && !is_name(arena.shape(*place).inner.clone())
        {
            return unsupported("the namespace of a ConfigMap that may be empty");
        }
    }
    let found = get(arena, ("v1", "configmaps"), namespace, &name)?;
    // Of the object only these two are shown.
    then(arena, found, |arena, sym| {
        let Sym::At(place) = sym else {
            return unsupported("a ConfigMap");
        };
        let mut entries = Vec::new();
        for key in ["data", "metadata"] {
            let Some(field) = arena.field(*place, key) else {
                return unsupported("a ConfigMap");
            };
            let present = arena.present(field);
            let absent = arena.not(present);
            let value = arena.value([(present, Sym::At(field)), (absent, Sym::Null)]);
            entries.push((Arc::from(key), value));
        }
        Ok(Queried::of(Value::of(Sym::Map(Rc::from(entries)))))
    })
}

/// Looks an object up by its name.
fn get(arena: &mut Arena, (version, resource): (&str, &str), namespace: Queried, name: &Queried) -> Result<Queried> {
    let failed = arena.or([namespace.failed, name.failed]);
    let names = Queried {
        value: name.value.clone(),
        failed: Formula::FALSE,
    };
    let namespace = Queried {
        failed: Formula::FALSE,
        ..namespace
    };
    let found = then(arena, namespace, |arena, namespace| {
        then(arena, names.clone(), |arena, name| {
            let args = [
                Sym::Constant(Arc::from("resource")),
                Sym::Text(Arc::from(version)),
                Sym::Text(Arc::from(resource)),
                namespace.clone(),
                name.clone(),
            ];
            let found = lookup(arena, "Get", &args)?;
            let found = looked_up(arena, found);
            // An object that is not there is an error.
            not_null(arena, found)
        })
    })?;
    Ok(Queried {
        failed: arena.or([failed, found.failed]),
        ..found
    })
}

/// Whether every text of a shape is one segment of a path, and not empty.
fn is_name(inner: Inner) -> bool {
    let Inner::Text(predicates) = inner else { return false };
    let name = |predicate: &Predicate| {
        matches!(
            predicate,
            Predicate::In(Base::DnsLabel | Base::Segment | Base::Subdomain)
        )
    };
    predicates.iter().any(name)
}

fn api_call(arena: &mut Arena, context: &Context<'_, '_>, call: &Json) -> Result<Queried> {
    if !call["default"].is_null() || !matches!(call["method"].as_str(), None | Some("" | "GET")) {
        return unsupported("an API call with a default, or of another method");
    }
    if !call["service"].is_null() {
        let service = &call["service"];
        if !service["headers"].is_null() || !service["caBundle"].is_null() || !call["data"].is_null() {
            return unsupported("a call of a service with headers or data");
        }
        let url = text_of(arena, context, &service["url"])?;
        let found = then(arena, url, |arena, sym| {
            let found = lookup(arena, "Get", &[Sym::Constant(Arc::from("http")), sym.clone()])?;
            Ok(looked_up(arena, found))
        })?;
        return projected(arena, context, call, found);
    }
    let path = call["urlPath"].as_str().unwrap_or_default();
    if path.contains('?') || path.contains('%') {
        return unsupported("an API call with parameters");
    }
    let found = of_path(arena, context, path)?;
    projected(arena, context, call, found)
}

/// What the API server answers to a path.
fn of_path(arena: &mut Arena, context: &Context<'_, '_>, path: &str) -> Result<Queried> {
    let segments = path_segments(path);
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return unsupported("an API call of another path"),
    };
    let (namespace, resource, name) = match rest {
        ["namespaces", namespace, resource] => (*namespace, *resource, None),
        ["namespaces", namespace, resource, name] => (*namespace, *resource, Some(*name)),
        [resource] => ("", *resource, None),
        [resource, name] => ("", *resource, Some(*name)),
        _ => return unsupported("an API call of a subresource"),
    };
    let constant = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '/')
    };
    if !constant(&version) || !constant(resource) {
        return unsupported("an API call with a variable in the name of the resource");
    }
    let namespace = segment(arena, context, namespace)?;
    match name {
        Some(name) => {
            let name = segment(arena, context, name)?;
            get(arena, (&version, resource), namespace, &name)
        }
        None => then(arena, namespace, |arena, namespace| {
            let args = [
                Sym::Constant(Arc::from("resource")),
                Sym::Text(Arc::from(version.as_str())),
                Sym::Text(Arc::from(resource)),
                namespace.clone(),
            ];
            let found = lookup(arena, "List", &args)?;
            Ok(looked_up(arena, found))
        }),
    }
}

/// One part of a path: a variable must be a name, so that it stays one part.
fn segment(arena: &mut Arena, context: &Context<'_, '_>, text: &str) -> Result<Queried> {
    let found = text_of(arena, context, &Json::String(text.to_owned()))?;
    for (_, sym) in &found.value.0 {
        if let Sym::At(place) = sym
            && !is_name(arena.shape(*place).inner.clone())
        {
            return unsupported("an API call with a variable that may be no name");
        }
    }
    Ok(found)
}

fn variable(arena: &mut Arena, context: &Context<'_, '_>, entry: &Json) -> Result<Queried> {
    let path = constant(&entry["jmesPath"])?;
    let default = if entry["default"].is_null() {
        None
    } else {
        let default = value_of(arena, context, &entry["default"])?;
        if default.failed != Formula::FALSE || default.value.0.iter().any(|(_, sym)| *sym == Sym::Null) {
            return unsupported("a default of a context entry that may have no value");
        }
        Some(default.value)
    };
    let value = Some(&entry["value"]).filter(|value| !value.is_null());
    let (made, failed) = match (value, path) {
        (None, "") => (Value::of(Sym::Null), Formula::FALSE),
        (None, path) => {
            let made = query(arena, context, path, Written::Alone)?;
            let value = looked_up(arena, made.value);
            (value.value, arena.or([made.failed, value.failed]))
        }
        (Some(value), path) => {
            let made = value_of(arena, context, value)?;
            if path.is_empty() {
                return not_null(arena, made);
            }
            // An error in the value itself is one of the entry, whatever the default.
            let made_failed = made.failed;
            let made = Queried {
                failed: Formula::FALSE,
                ..made
            };
            let found = then(arena, made, |arena, sym| {
                let found = query_on(arena, context, path, &Value::of(sym.clone()))?;
                let value = looked_up(arena, found.value);
                Ok(Queried {
                    failed: arena.or([found.failed, value.failed]),
                    value: value.value,
                })
            })?;
            if default.is_some() {
                return unsupported("a context entry with a value, a query and a default");
            }
            let failed = arena.or([made_failed, found.failed]);
            (found.value, failed)
        }
    };
    let Some(default) = default else {
        return not_null(arena, Queried { value: made, failed });
    };
    // What is null or an error gives way to the default.
    let made = null_if_missing(arena, &made);
    let mut cases = Vec::new();
    let mut open = vec![failed];
    for (guard, sym) in made.0 {
        let is_null = match &sym {
            Sym::Null => Formula::TRUE,
            Sym::At(place) => arena.is_kind(*place, Kind::Null),
            _ => Formula::FALSE,
        };
        let not = arena.not(is_null);
        open.push(arena.and([guard, is_null]));
        cases.push((arena.and([guard, not]), sym));
    }
    let open = arena.or(open);
    for (guard, sym) in default.0 {
        cases.push((arena.and([open, guard]), sym));
    }
    Ok(Queried::of(arena.value(cases)))
}

/// A variable that is null cannot be loaded.
fn not_null(arena: &mut Arena, found: Queried) -> Result<Queried> {
    then(arena, found, |arena, sym| {
        let is_null = match sym {
            Sym::Null => Formula::TRUE,
            Sym::At(place) => arena.is_kind(*place, Kind::Null),
            _ => Formula::FALSE,
        };
        let not = arena.not(is_null);
        Ok(Queried {
            value: arena.value([(not, sym.clone())]),
            failed: is_null,
        })
    })
}
