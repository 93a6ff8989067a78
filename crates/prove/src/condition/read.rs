//! Reads conditions of the fragment from their syntax trees.

use super::{Node, Object, Term, Wanted};
use kyvtest_cel::ast::{Ast, Comprehension, Expr, ExprId, Literal};

/// How deep conditions may nest.
const DEPTH: usize = 60;

fn string(ast: &Ast, id: ExprId) -> Option<String> {
    match ast.expr(id) {
        Expr::Literal(Literal::String(text)) => Some(text.to_string()),
        _ => None,
    }
}

fn strings(ast: &Ast, id: ExprId) -> Option<Vec<String>> {
    match ast.expr(id) {
        Expr::List { elements, optional } if optional.is_empty() => {
            elements.iter().map(|element| string(ast, *element)).collect()
        }
        _ => None,
    }
}

fn is_null(ast: &Ast, id: ExprId) -> bool {
    matches!(ast.expr(id), Expr::Literal(Literal::Null))
}

fn object(ast: &Ast, id: ExprId) -> Option<Object> {
    match ast.expr(id) {
        Expr::Ident(name) => match &**name {
            "object" => Some(Object::New),
            "oldObject" => Some(Object::Old),
            "namespaceObject" => Some(Object::Namespace),
            _ => None,
        },
        Expr::Call { function, args, .. } if &**function == "_?_:_" => {
            let [condition, yes, no] = args.as_slice() else {
                return None;
            };
            let Expr::Call { function, args, .. } = ast.expr(*condition) else {
                return None;
            };
            let [left, right] = args.as_slice() else { return None };
            let of_new = object(ast, *left) == Some(Object::New) && is_null(ast, *right);
            let sides = (object(ast, *yes), object(ast, *no));
            let fits = match &**function {
                "_!=_" => sides == (Some(Object::New), Some(Object::Old)),
                "_==_" => sides == (Some(Object::Old), Some(Object::New)),
                _ => false,
            };
            (of_new && fits).then_some(Object::Subject)
        }
        _ => None,
    }
}

/// A field of a chain of fields; optional ones count like others if `optional` is set.
fn field(ast: &Ast, id: ExprId) -> Option<(ExprId, &str, bool)> {
    match ast.expr(id) {
        Expr::Select {
            operand,
            field,
            test_only: false,
        } => Some((*operand, field, false)),
        Expr::Call { function, args, .. } if matches!(&**function, "_?._" | "_[_]" | "_[?_]") => {
            let [operand, key] = args.as_slice() else { return None };
            match ast.expr(*key) {
                Expr::Literal(Literal::String(text)) => Some((*operand, text, &**function != "_[_]")),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `….metadata.labels` or `….metadata.annotations`, and whether it is optional.
fn map(ast: &Ast, id: ExprId) -> Option<(Object, bool, bool)> {
    let (metadata, name, optional) = field(ast, id)?;
    let annotations = match name {
        "labels" => false,
        "annotations" => true,
        _ => return None,
    };
    let (of, name, optional_metadata) = field(ast, metadata)?;
    if name != "metadata" || optional_metadata {
        return None;
    }
    Some((object(ast, of)?, annotations, optional))
}

fn path(ast: &Ast, id: ExprId) -> Option<Vec<&str>> {
    match ast.expr(id) {
        Expr::Ident(name) => Some(vec![name]),
        _ => {
            let (operand, name, optional) = field(ast, id)?;
            let mut path = if optional { return None } else { path(ast, operand)? };
            path.push(name);
            Some(path)
        }
    }
}

fn term(ast: &Ast, id: ExprId) -> Option<Term> {
    if let Some(path) = path(ast, id) {
        match path.as_slice() {
            ["request", "name"] => return Some(Term::RequestName),
            ["request", "namespace"] => return Some(Term::Namespace),
            ["request", "operation"] => return Some(Term::Operation),
            ["request", "kind", "kind"] => return Some(Term::Kind),
            ["request", "resource", "resource"] => return Some(Term::Resource),
            ["request", "resource", "group"] => return Some(Term::Group),
            ["request", "subResource"] => return Some(Term::Subresource),
            ["request", "userInfo", "username"] => return Some(Term::Username),
            _ => {}
        }
    }
    if let Expr::Call {
        function,
        target: Some(target),
        args,
    } = ast.expr(id)
        && &**function == "orValue"
        && let [default] = args.as_slice()
    {
        let (of, key, optional) = field(ast, *target)?;
        let (object, annotations, optional_map) = map(ast, of)?;
        let default = string(ast, *default)?;
        return (optional || optional_map).then(|| Term::Entry(object, annotations, key.to_owned(), Some(default)));
    }
    let (of, name, optional) = field(ast, id)?;
    if optional {
        return None;
    }
    if let Some((object, annotations, false)) = map(ast, of) {
        return Some(Term::Entry(object, annotations, name.to_owned(), None));
    }
    if let Some(object) = object(ast, of).filter(|object| *object != Object::Namespace) {
        return match name {
            "apiVersion" => Some(Term::ApiVersion(object)),
            "kind" => Some(Term::ObjectKind(object)),
            _ => None,
        };
    }
    let (owner, metadata, false) = field(ast, of)? else {
        return None;
    };
    match (metadata, name) {
        ("metadata", "name") => Some(Term::Name(object(ast, owner)?)),
        ("metadata", "namespace") => Some(Term::OwnNamespace(object(ast, owner)?)),
        _ => None,
    }
}

fn is_groups(ast: &Ast, id: ExprId) -> bool {
    path(ast, id).is_some_and(|path| path == ["request", "userInfo", "groups"])
}

/// Whether a text may have several lines: a dot of a regular expression is not the end of one, a wildcard is.
fn has_lines(term: &Term) -> bool {
    matches!(term, Term::Username | Term::Entry(_, true, ..))
}

/// An anchored regular expression that is a wildcard pattern.
fn glob(regex: &str, lines: bool) -> Option<Wanted> {
    let (all, regex) = match regex.strip_prefix("(?s)") {
        Some(rest) => (true, rest),
        None => (false, regex),
    };
    let inner = regex.strip_prefix('^')?.strip_suffix('$')?;
    let mut text = String::new();
    let mut wild = false;
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c if c.is_ascii_punctuation() && !matches!(c, '*' | '?') => text.push(c),
                _ => return None,
            },
            '.' => {
                wild = true;
                if chars.next_if_eq(&'*').is_some() {
                    text.push('*');
                } else {
                    text.push('?');
                }
            }
            c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '/' | '@') => {
                // A quantifier after a character is beyond wildcards.
                if chars.peek().is_some_and(|next| matches!(next, '*' | '+' | '?' | '{')) {
                    return None;
                }
                text.push(c);
            }
            _ => return None,
        }
    }
    match (wild, all || !lines) {
        (false, _) => Some(Wanted::Exact(text)),
        (true, true) => Some(Wanted::Glob(text)),
        (true, false) => None,
    }
}

fn wildcard_free(text: &str) -> bool {
    !text.contains(['*', '?'])
}

fn method(function: &str, text: String, lines: bool) -> Option<Wanted> {
    match function {
        "startsWith" => Some(Wanted::Prefix(text)),
        "endsWith" if wildcard_free(&text) => Some(Wanted::Glob(format!("*{text}"))),
        "contains" if wildcard_free(&text) => Some(Wanted::Glob(format!("*{text}*"))),
        "matches" => glob(&text, lines),
        _ => None,
    }
}

pub(super) fn node(ast: &Ast, id: ExprId, depth: usize) -> Option<Node> {
    if depth > DEPTH {
        return None;
    }
    let inner = |id: ExprId| node(ast, id, depth + 1).map(Box::new);
    match ast.expr(id) {
        Expr::Literal(Literal::Bool(holds)) => Some(Node::Known(*holds)),
        Expr::Select {
            operand,
            field: name,
            test_only: true,
        } => {
            if path(ast, *operand).is_some_and(|path| path == ["request"]) {
                return match &**name {
                    "namespace" => Some(Node::HasNamespace),
                    "subResource" => Some(Node::HasSubresource),
                    _ => None,
                };
            }
            if let Some((object, annotations, false)) = map(ast, *operand) {
                return Some(Node::HasKey(object, annotations, name.to_string()));
            }
            let (owner, metadata, false) = field(ast, *operand)? else {
                return None;
            };
            let annotations = match &**name {
                "labels" => false,
                "annotations" => true,
                _ => return None,
            };
            (metadata == "metadata").then_some(Node::HasMap(object(ast, owner)?, annotations))
        }
        Expr::Call { function, target, args } => match (&**function, target, args.as_slice()) {
            ("!_", None, [a]) => Some(Node::Not(inner(*a)?)),
            ("_&&_", None, [a, b]) => Some(Node::And(inner(*a)?, inner(*b)?)),
            ("_||_", None, [a, b]) => Some(Node::Or(inner(*a)?, inner(*b)?)),
            ("_?_:_", None, [a, b, c]) => Some(Node::If(inner(*a)?, inner(*b)?, inner(*c)?)),
            ("_==_", None, [a, b]) => equal(ast, *a, *b),
            ("_!=_", None, [a, b]) => equal(ast, *a, *b).map(|node| Node::Not(Box::new(node))),
            ("@in", None, [a, b]) => {
                if let Some(key) = string(ast, *a) {
                    if is_groups(ast, *b) {
                        return Some(Node::InGroup(Wanted::Exact(key)));
                    }
                    let (object, annotations, false) = map(ast, *b)? else {
                        return None;
                    };
                    return Some(Node::HasKey(object, annotations, key));
                }
                let wanted = strings(ast, *b)?.into_iter().map(Wanted::Exact).collect();
                Some(Node::Fits(term(ast, *a)?, wanted))
            }
            ("hasValue", Some(target), []) => {
                let (of, key, optional) = field(ast, *target)?;
                let (object, annotations, optional_map) = map(ast, of)?;
                (optional || optional_map).then(|| Node::HasEntry(object, annotations, key.to_owned()))
            }
            (name, Some(target), [text]) => {
                let term = term(ast, *target)?;
                let wanted = method(name, string(ast, *text)?, has_lines(&term))?;
                Some(Node::Fits(term, vec![wanted]))
            }
            _ => None,
        },
        Expr::Comprehension(fold) => exists(ast, fold),
        Expr::Literal(_)
        | Expr::Ident(_)
        | Expr::Select { .. }
        | Expr::List { .. }
        | Expr::Map(_)
        | Expr::Struct { .. } => None,
    }
}

/// `groups.exists(…)`, and `….metadata.?labels.orValue({}).exists(…)`.
fn exists(ast: &Ast, fold: &Comprehension) -> Option<Node> {
    let is = |id: ExprId, wanted: &str| matches!(ast.expr(id), Expr::Ident(name) if &**name == wanted);
    let starts = matches!(ast.expr(fold.accu_init), Expr::Literal(Literal::Bool(false)));
    let Expr::Call { function, args, .. } = ast.expr(fold.loop_step) else {
        return None;
    };
    let [before, body] = args.as_slice() else { return None };
    let ends = is(fold.result, &fold.accu_var);
    if fold.iter_var2.is_some() || !starts || !ends || &**function != "_||_" || !is(*before, &fold.accu_var) {
        return None;
    }
    let element = |id: ExprId| is(id, &fold.iter_var);
    if is_groups(ast, fold.iter_range) {
        return fits(ast, *body, true, element).map(Node::InGroup);
    }
    let Expr::Call {
        function,
        target: Some(target),
        args,
    } = ast.expr(fold.iter_range)
    else {
        return None;
    };
    let [default] = args.as_slice() else { return None };
    let empty = matches!(ast.expr(*default), Expr::Map(entries) if entries.is_empty());
    if &**function != "orValue" || !empty {
        return None;
    }
    let (object, annotations, true) = map(ast, *target)? else {
        return None;
    };
    let value = |id: ExprId| match ast.expr(id) {
        Expr::Call { function, args, .. } if &**function == "_[_]" => match args.as_slice() {
            [of, key] => map(ast, *of) == Some((object, annotations, false)) && element(*key),
            _ => false,
        },
        _ => false,
    };
    let (key, own) = match ast.expr(*body) {
        Expr::Call { function, args, .. } if &**function == "_&&_" => match args.as_slice() {
            [key, own] => (*key, Some(*own)),
            _ => return None,
        },
        _ => (*body, None),
    };
    let key = fits(ast, key, false, element)?;
    let own = match own {
        Some(own) => fits(ast, own, annotations, value)?,
        None => Wanted::Glob("*".to_owned()),
    };
    Some(Node::AnyEntry(object, annotations, key, own))
}

/// A predicate on one text.
fn fits(ast: &Ast, id: ExprId, lines: bool, subject: impl Fn(ExprId) -> bool) -> Option<Wanted> {
    match ast.expr(id) {
        Expr::Literal(Literal::Bool(true)) => Some(Wanted::Glob("*".to_owned())),
        Expr::Call { function, target, args } => match (&**function, target, args.as_slice()) {
            ("_==_", None, [a, b]) if subject(*a) => string(ast, *b).map(Wanted::Exact),
            (name, Some(target), [text]) if subject(*target) => method(name, string(ast, *text)?, lines),
            _ => None,
        },
        _ => None,
    }
}

fn equal(ast: &Ast, a: ExprId, b: ExprId) -> Option<Node> {
    if is_null(ast, b) {
        let object = object(ast, a).filter(|object| *object != Object::Namespace);
        return object.map(Node::IsNull);
    }
    if is_groups(ast, a) {
        return strings(ast, b).map(Node::GroupsAre);
    }
    let (of, text) = match (string(ast, a), string(ast, b)) {
        (None, Some(text)) => (a, text),
        (Some(text), None) => (b, text),
        _ => return None,
    };
    Some(Node::Fits(term(ast, of)?, vec![Wanted::Exact(text)]))
}

#[cfg(test)]
mod tests {
    use crate::condition::{Condition, Reader};

    #[test]
    fn the_fragment() {
        let subject = "(object != null ? object : oldObject)";
        for (text, is_read) in [
            ("{s}.metadata.?labels[?'a'].hasValue()", true),
            ("{s}.metadata.labels['a'].hasValue()", false),
            ("has(request.subResource) && request.subResource == 'status'", true),
            ("has(request.dryRun)", false),
            ("request.resource.group == 'apps'", true),
            ("request.userInfo.groups.exists(g, g.startsWith('dev-'))", true),
            ("request.userInfo.groups.exists(g, g.matches('(?s)^a.b.*$'))", true),
            // A dot does not match a line end, a wildcard does.
            ("request.userInfo.groups.exists(g, g.matches('^a.b.*$'))", false),
            ("request.userInfo.username.matches('^a.*$')", false),
            ("request.userInfo.username.matches('^a$')", true),
            ("{s}.metadata.name.matches('^a.*$')", true),
            ("request.userInfo.groups.all(g, g.startsWith('dev-'))", false),
            ("request.userInfo.groups.exists_one(g, g.startsWith('dev-'))", false),
            (
                "request.userInfo.groups.exists(g, request.userInfo.username.startsWith('a'))",
                false,
            ),
            ("{s}.metadata.?labels.orValue({}).exists(k, k.startsWith('a'))", true),
            (
                "{s}.metadata.?labels.orValue({'a': 'b'}).exists(k, k.startsWith('a'))",
                false,
            ),
            (
                "{s}.metadata.?labels.orValue({}).exists(k, k.startsWith('a') && {s}.metadata.labels[k] == 'x')",
                true,
            ),
            (
                "{s}.metadata.?labels.orValue({}).exists(k, k.startsWith('a') && {s}.metadata.annotations[k] == 'x')",
                false,
            ),
        ] {
            let text = text.replace("{s}", subject);
            assert_eq!(Condition::read(&text, Reader::Native).is_some(), is_read, "{text}");
        }
    }
}
