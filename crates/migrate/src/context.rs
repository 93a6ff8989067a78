//! Context entries, translated to variables of the new policy.
//!
//! Upstream counterpart: `pkg/engine/context/loaders` (Kyverno 1.19) and the libraries `resource`, `globalContext`, `image` and
//! `http` of `pkg/cel/libs`. Both load an entry when it is first read; an entry that cannot be loaded is an error of the rule.

mod call;

use kyvtest_go_compat::{
    diagnostic::FileId,
    value::{Data, Document},
    yaml::Node,
};
use kyvtest_model::policy::{Subtree, place};

use crate::{
    Expr, Refusal, RefusalCode,
    names::{Lookup, Names},
    query::{self, Type, Value},
};

/// Binds the entries of a context and adds the variables that they need. An entry without a translation is refused where it is
/// read.
pub(crate) fn context(entries: &Subtree, names: &mut Names<'_>) {
    bind(entries.node(), entries.file(), names);
}

/// The same for a part of a tree: the context of `foreach`.
pub(crate) fn bind(entries: Node<'_>, file: FileId, names: &mut Names<'_>) {
    for entry in entries
        .as_seq()
        .into_iter()
        .flat_map(kyvtest_go_compat::yaml::Items::iter)
    {
        let name = entry.get("name").and_then(Node::as_str).unwrap_or_default();
        let at = place(file, entry.span());
        match source(entry, names) {
            Ok(value) => {
                let value = named(name, value, names);
                names.scope.bind_value(name, value);
            }
            Err(refusal) => names.scope.bind_refused(name, refusal.at(at)),
        }
    }
}

fn refused<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::Context, reason))
}

/// The value under a name of its own, unless it is constant or depends on a loop.
fn named(name: &str, value: Value, names: &mut Names<'_>) -> Value {
    let value = loaded(value);
    if value.literal.is_some() || names.scope.is_in_loop() || value.plain().as_str().starts_with("variables.") {
        return value;
    }
    let read = names.variables.define(name, value.plain().clone());
    value.with_plain(read)
}

/// An entry that has no value is an error when it is read.
fn loaded(value: Value) -> Value {
    let loads = Some(value.present()).filter(|_| !value.fails && !value.is_always_present());
    let fails = value.fails || !value.is_always_present();
    let mut value = value.assumed().failing_if(fails);
    value.loads = loads.map(Box::new);
    value
}

fn part(node: Node<'_>, name: &str) -> Data {
    node.get(name)
        .map_or(Data::Null, |part| Data::from(Document::from(part).root()))
}

fn source(entry: Node<'_>, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let given = |name: &str| entry.get(name).filter(|part| !part.is_null());
    if let Some(config_map) = given("configMap") {
        return self::config_map(config_map, names);
    }
    if let Some(call) = given("apiCall") {
        return call::api_call(call, names);
    }
    if let Some(reference) = given("globalReference") {
        return global_reference(reference, names);
    }
    if let Some(registry) = given("imageRegistry") {
        let reference = registry.get("reference").and_then(Node::as_str).unwrap_or_default();
        let reference = query::text_of(&query::read_text(reference, names)?)?;
        let image = Expr::primary("image").call("GetMetadata", [reference]);
        let value = Value::new(image, Type::ImageData).failing_if(true);
        return projected(registry, value, names);
    }
    match given("variable") {
        Some(variable) => self::variable(variable, names),
        None => refused("a context entry without a source"),
    }
}

/// Applies the `jmesPath` of an entry to what was loaded.
fn projected(node: Node<'_>, value: Value, names: &mut Names<'_>) -> Result<Value, Refusal> {
    match node
        .get("jmesPath")
        .and_then(Node::as_str)
        .filter(|path| !path.is_empty())
    {
        Some(path) => query::query_on(path, &value, names),
        None => Ok(value),
    }
}

fn variable(node: Node<'_>, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let path = node
        .get("jmesPath")
        .and_then(Node::as_str)
        .filter(|path| !path.is_empty());
    let value = part(node, "value");
    let default = part(node, "default");
    let made = match (value, path) {
        (Data::Null, None) => Value::literal(&Data::Null)?,
        (Data::Null, Some(path)) if path.trim_start().starts_with("{{") => {
            return refused("a JMESPath expression that is itself a variable is known only at run time");
        }
        (Data::Null, Some(path)) => context_query(path, names)?,
        (value, None) => query::data(&value.with_doubles(), names)?,
        (value, Some(path)) => {
            let value = query::data(&value.with_doubles(), names)?;
            query::query_on(path, &value, names)?
        }
    };
    if default.is_null() {
        if made.ty == Type::Null {
            return refused("the entry is always null, which is an error in Kyverno");
        }
        return Ok(made);
    }
    if made.fails {
        return refused("the default of the entry also replaces errors, which CEL cannot catch");
    }
    let default = query::data(&default.with_doubles(), names)?;
    if made.is_always_present() {
        return Ok(made);
    }
    if std::mem::discriminant(&made.ty) != std::mem::discriminant(&default.ty) && made.ty != Type::Any {
        return refused("the default of the entry is of another type than its value");
    }
    Ok(Value::new(made.or_else(default.plain()), default.ty))
}

/// Translates a path into the context. Kyverno puts the old object in place of `request.object` on DELETE only between braces.
fn context_query(path: &str, names: &mut Names<'_>) -> Result<Value, Refusal> {
    match names.scope.new_object() {
        Some(object) if path.contains("request.object") => {
            names.scope.bind_value("request.object", object);
            let value = query::query(path, names);
            names.scope.unbind_value();
            value
        }
        _ => query::query(path, names),
    }
}

fn config_map(node: Node<'_>, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let text = |name: &str, names: &mut Names<'_>| {
        let text = node.get(name).and_then(Node::as_str).unwrap_or_default();
        query::text_of(&query::read_text(text, names)?)
    };
    let name = text("name", names)?;
    let mut namespace = text("namespace", names)?;
    if namespace.as_str() == "''" {
        namespace = Expr::string("default");
    }
    names.variables.look_up(Lookup {
        api_version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
        verb: "get",
    });
    let args = [Expr::string("v1"), Expr::string("configmaps"), namespace, name];
    let get = Expr::primary("resource").call("Get", args);
    let kinds = [("v1".to_owned(), "ConfigMap".to_owned())];
    Ok(Value::new(get, Type::of_kinds(&kinds, query::Seen::Stored)).failing_if(true))
}

fn global_reference(node: Node<'_>, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let name = node.get("name").and_then(Node::as_str).unwrap_or_default();
    if name.contains("{{") {
        return refused("the name of a global context entry is a variable");
    }
    let mut parts = name.split('.');
    let entry = parts.next().unwrap_or_default();
    let projection = parts.next().unwrap_or_default();
    let args = [Expr::string(entry), Expr::string(projection)];
    let get = Expr::primary("globalContext").call("Get", args);
    let value = Value::new(get, Type::Any).failing_if(true);
    projected(node, value, names)
}
