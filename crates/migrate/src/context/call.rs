//! API calls: paths of the API server become `resource.Get` and `resource.List`, services become `http.Get` and `http.Post`.

use kyvtest_go_compat::yaml::Node;
use kyvtest_kyverno::classic::context::path_segments;

use super::{part, projected, refused};
use crate::{
    Expr, Refusal,
    names::{Lookup, Names},
    query::{self, Type, Value},
};

pub(super) fn api_call(node: Node<'_>, names: &mut Names<'_>) -> Result<Value, Refusal> {
    if !part(node, "default").is_null() {
        return refused("the default of an API call replaces its errors, which CEL cannot catch");
    }
    let text = |name: &str| node.get(name).and_then(Node::as_str).filter(|text| !text.is_empty());
    let post = text("method") == Some("POST");
    if let Some(service) = node.get("service").filter(|service| !service.is_null()) {
        let called = self::service(node, service, post, names)?;
        return projected(node, called, names);
    }
    if post {
        return refused("POST to the API server; use `resource.Post` by hand");
    }
    let called = path(text("urlPath").unwrap_or_default(), names)?;
    projected(node, called, names)
}

/// A call of a service.
fn service(node: Node<'_>, service: Node<'_>, post: bool, names: &mut Names<'_>) -> Result<Value, Refusal> {
    if service
        .get("caBundle")
        .and_then(Node::as_str)
        .is_some_and(|bundle| !bundle.is_empty())
    {
        return refused("a service with its own CA; use `http.Client(caBundle)` by hand");
    }
    let url = service.get("url").and_then(Node::as_str).unwrap_or_default();
    let url = query::text_of(&query::read_text(url, names)?)?;
    let entries = |list: Option<Node<'_>>, names: &mut Names<'_>| -> Result<Vec<String>, Refusal> {
        let mut texts = Vec::new();
        for entry in list
            .and_then(Node::as_seq)
            .into_iter()
            .flat_map(kyvtest_go_compat::yaml::Items::iter)
        {
            let key = entry.get("key").and_then(Node::as_str).unwrap_or_default();
            let value = query::data(&part(entry, "value"), names)?;
            value.read()?;
            texts.push(format!("{}: dyn({})", Expr::string(key), value.plain()));
        }
        Ok(texts)
    };
    let mut args = vec![url];
    if post {
        let body = entries(node.get("data"), names)?;
        args.push(Expr::primary(format!("{{{}}}", body.join(", "))));
    }
    let mut headers = Vec::new();
    for header in service
        .get("headers")
        .and_then(Node::as_seq)
        .into_iter()
        .flat_map(kyvtest_go_compat::yaml::Items::iter)
    {
        let key = header.get("key").and_then(Node::as_str).unwrap_or_default();
        let value = header.get("value").and_then(Node::as_str).unwrap_or_default();
        let value = query::text_of(&query::read_text(value, names)?)?;
        headers.push(format!("{}: {value}", Expr::string(key)));
    }
    if !headers.is_empty() {
        args.push(Expr::primary(format!("{{{}}}", headers.join(", "))));
    }
    let method = if post { "Post" } else { "Get" };
    let called = Expr::function("dyn", [Expr::primary("http").call(method, args)]);
    Ok(Value::new(called, Type::Any).failing_if(true))
}

/// A path of the API server.
fn path(path: &str, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let (path, labels) = match split_query(path) {
        (path, None) => (path, None),
        (path, Some(query)) => (path, Some(selector(query, names)?)),
    };
    let segments = path_segments(path);
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (api_version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return refused(format!("`{path}` is not a path of resources")),
    };
    let (namespace, resource, name) = match rest {
        ["namespaces", namespace, resource] => (*namespace, *resource, None),
        ["namespaces", namespace, resource, name] => (*namespace, *resource, Some(*name)),
        [resource] => ("", *resource, None),
        [resource, name] => ("", *resource, Some(*name)),
        _ => return refused(format!("`{path}` is a path of a subresource")),
    };
    if api_version.contains("{{") || resource.contains("{{") {
        return refused(format!("`{path}` has a variable in the name of the resource"));
    }
    let mut text = |text: &str| query::text_of(&query::read_text(text, names)?);
    let mut args = vec![
        Expr::string(&api_version),
        Expr::string(&resource.to_lowercase()),
        text(namespace)?,
    ];
    let (method, verb, ty) = match name {
        Some(name) => {
            args.push(text(name)?);
            ("Get", "get", Type::Resource)
        }
        None => ("List", "list", Type::ResourceList),
    };
    match labels {
        Some(labels) if name.is_none() => args.push(labels),
        Some(_) => return refused("a label selector on a single object"),
        None => {}
    }
    let resource = resource.to_lowercase();
    names.variables.look_up(Lookup {
        api_version,
        resource,
        verb,
    });
    let mut called = Expr::primary("resource").call(method, args);
    if name.is_none() {
        // The checker knows nothing of the members of a list.
        called = Expr::function("dyn", [called]);
    }
    Ok(Value::new(called, ty).failing_if(true))
}

/// The path and its query; a question mark inside a variable does not count.
fn split_query(path: &str) -> (&str, Option<&str>) {
    match parts(path, '?').as_slice() {
        [] | [_] => (path, None),
        [path_alone, ..] => (path_alone, path.get(path_alone.len() + 1..)),
    }
}

/// The parts of a text between separators that are not inside of variables.
fn parts(text: &str, separator: char) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if c == separator && depth == 0 => {
                found.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

/// `labelSelector=a%3Db` as a map of labels.
fn selector(query: &str, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    let decoded = query
        .replace("%3D", "=")
        .replace("%3d", "=")
        .replace("%2C", ",")
        .replace("%2F", "/");
    let Some(selector) = decoded.strip_prefix("labelSelector=") else {
        return refused(format!(
            "the query `{query}` of an API call; `resource.List` takes equal labels only"
        ));
    };
    let mut entries = Vec::new();
    for label in parts(selector, ',') {
        let sides: Vec<&str> = parts(label, '=').into_iter().filter(|side| !side.is_empty()).collect();
        let ([key, value], false) = (
            sides.as_slice(),
            selector.contains(['%', '&', '!']) || label.contains(" in "),
        ) else {
            return refused(format!(
                "the label selector `{selector}`; `resource.List` takes equal labels only"
            ));
        };
        if key.contains(['{', '(']) {
            return refused(format!("the label selector `{selector}` has a variable in a key"));
        }
        let value = query::text_of(&query::read_text(value, names)?)?;
        entries.push(format!("{}: {value}", Expr::string(key)));
    }
    Ok(Expr::primary(format!("{{{}}}", entries.join(", "))))
}
