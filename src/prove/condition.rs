//! Match conditions as questions: the fragment of CEL that reads nothing but what matching reads.
//!
//! `&&`, `||`, `!`, `?:`, comparisons of metadata, of the user and of the request's own fields with constants, `in`,
//! `startsWith`, `endsWith`, `contains`, and `matches` of anchored expressions that are wildcards. Whatever is beyond it is
//! not read at all, and the proof says so. Errors are values: an absent field decides as it does in CEL.

use crate::{
    cel::{
        ast::{Ast, Expr, ExprId, Literal},
        profile::Profile,
        syntax::parse,
    },
    kube::{Atom, Cell, Facts, Operation, Pairs, Pattern, Text},
};

/// What a condition comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tri {
    /// It does not hold.
    False,
    /// It cannot be evaluated.
    Error,
    /// It holds.
    True,
}

/// Whose expression it is: they see different requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A classic rule of Kyverno's.
    Classic,
    /// A ValidatingPolicy.
    Validating,
    /// A native policy.
    Native,
}

/// A condition that can be asked.
#[derive(Debug, Clone)]
pub struct Condition {
    reader: Reader,
    node: Node,
}

/// Which object an expression names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    New,
    Old,
    /// `object != null ? object : oldObject`
    Subject,
    /// `namespaceObject`, which only a ValidatingPolicy's conditions are given.
    Namespace,
}

#[derive(Debug, Clone)]
enum Node {
    Known(bool),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    IsNull(Object),
    Fits(Term, Vec<Wanted>),
    HasNamespace,
    HasMap(Object, bool),
    HasKey(Object, bool, String),
    InGroup(Wanted),
    GroupsAre(Vec<String>),
}

/// A text of the request.
#[derive(Debug, Clone)]
enum Term {
    Name(Object),
    /// `….metadata.namespace`
    OwnNamespace(Object),
    RequestName,
    Namespace,
    Username,
    Operation,
    Kind,
    Resource,
    /// A label or annotation (`true`), and what stands for an absent one.
    Entry(Object, bool, String, Option<String>),
}

#[derive(Debug, Clone)]
enum Wanted {
    Exact(String),
    Glob(String),
    Prefix(String),
}

impl Wanted {
    fn pattern(&self) -> Pattern<'_> {
        match self {
            Self::Exact(text) => Pattern::Exact(text),
            Self::Glob(text) => Pattern::Glob(text),
            Self::Prefix(text) => Pattern::Prefix(text),
        }
    }
}

/// How deep conditions may nest.
const DEPTH: usize = 60;

impl Condition {
    /// Reads a condition; `None` if it is beyond the fragment.
    pub fn read(text: &str, reader: Reader) -> Option<Self> {
        let ast = parse(text, &Profile::kubernetes().syntax).ok()?;
        let node = node(&ast, ast.root(), 0)?;
        Some(Self { reader, node })
    }

    /// What the condition comes to.
    pub fn ask<'p>(&'p self, cell: &Cell<'_>, facts: &mut impl Facts<'p>) -> Tri {
        Asking {
            reader: self.reader,
            cell,
            facts,
        }
        .ask(&self.node)
    }
}

struct Asking<'c, 'u, F> {
    reader: Reader,
    cell: &'c Cell<'u>,
    facts: &'c mut F,
}

impl From<bool> for Tri {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl<F> Asking<'_, '_, F> {
    /// The labels or annotations of an object; `None` if there is no such object, or none with metadata.
    fn pairs(&self, object: Object, annotations: bool) -> Option<Pairs> {
        let is_old = match (object, self.cell.operation) {
            (Object::Namespace, operation) => {
                let stored = self.cell.namespaced || self.cell.is_core_namespace() && operation != Operation::Create;
                let given = self.reader == Reader::Validating && !annotations && stored;
                return given.then_some(Pairs::NamespaceLabels);
            }
            (_, Operation::Connect) => return None,
            (Object::New, Operation::Delete) | (Object::Old, Operation::Create) => return None,
            (Object::Old, _) => true,
            (Object::Subject, operation) => operation == Operation::Delete,
            (Object::New, _) => false,
        };
        Some(match (is_old, annotations) {
            (false, false) => Pairs::NewLabels,
            (true, false) => Pairs::OldLabels,
            (false, true) => Pairs::NewAnnotations,
            (true, true) => Pairs::OldAnnotations,
        })
    }

    fn ask<'p>(&mut self, node: &'p Node) -> Tri
    where
        F: Facts<'p>,
    {
        match node {
            Node::Known(holds) => (*holds).into(),
            Node::Not(inner) => match self.ask(inner) {
                Tri::False => Tri::True,
                Tri::Error => Tri::Error,
                Tri::True => Tri::False,
            },
            Node::And(a, b) => match self.ask(a) {
                Tri::False => Tri::False,
                Tri::True => self.ask(b),
                Tri::Error if self.ask(b) == Tri::False => Tri::False,
                Tri::Error => Tri::Error,
            },
            Node::Or(a, b) => match self.ask(a) {
                Tri::True => Tri::True,
                Tri::False => self.ask(b),
                Tri::Error if self.ask(b) == Tri::True => Tri::True,
                Tri::Error => Tri::Error,
            },
            Node::If(condition, yes, no) => match self.ask(condition) {
                Tri::True => self.ask(yes),
                Tri::False => self.ask(no),
                Tri::Error => Tri::Error,
            },
            Node::IsNull(object) => {
                // To a ValidatingPolicy an absent object is an empty map.
                let absent = match object {
                    Object::New => self.cell.operation == Operation::Delete,
                    Object::Old => matches!(self.cell.operation, Operation::Create | Operation::Connect),
                    Object::Subject | Object::Namespace => false,
                };
                (absent && self.reader != Reader::Validating).into()
            }
            Node::Fits(term, wanted) => self.fits(term, wanted),
            Node::HasNamespace => self.namespace().is_some().into(),
            Node::HasMap(object, annotations) => match self.pairs(*object, *annotations) {
                None => Tri::Error,
                Some(pairs) => self.has_any(pairs).into(),
            },
            Node::HasKey(object, annotations, key) => match self.pairs(*object, *annotations) {
                Some(pairs) if self.has_any(pairs) => self.facts.ask(Atom::Has(pairs, key)).into(),
                _ => Tri::Error,
            },
            Node::InGroup(wanted) => self.facts.ask(Atom::AnyGroup(wanted.pattern())).into(),
            Node::GroupsAre(groups) => self.facts.ask(Atom::GroupsAre(groups)).into(),
        }
    }

    /// Whether a map has an entry: an empty one is left out of the object.
    fn has_any<'p>(&mut self, pairs: Pairs) -> bool
    where
        F: Facts<'p>,
    {
        let all = Pattern::Glob("*");
        self.facts.ask(Atom::AnyPair(pairs, all, all))
    }

    /// The text that `request.namespace` is, if it is there.
    fn namespace(&self) -> Option<Text> {
        if self.cell.is_core_namespace() {
            (self.reader != Reader::Classic).then_some(Text::BareName)
        } else {
            self.cell.namespaced.then_some(Text::Namespace)
        }
    }

    fn fits<'p>(&mut self, term: &'p Term, wanted: &'p [Wanted]) -> Tri
    where
        F: Facts<'p>,
    {
        let known = |text: &str| Tri::from(wanted.iter().any(|wanted| wanted.pattern().matches(text)));
        let text = match term {
            Term::Operation => return known(self.cell.operation.as_str()),
            Term::Kind if self.reader == Reader::Classic => return known(&self.cell.resource.kind),
            Term::Kind => return known(&self.cell.resource.object_kind.kind),
            Term::Resource => return known(&self.cell.resource.plural),
            Term::Username => Text::Username,
            Term::Namespace => match self.namespace() {
                Some(text) => text,
                None => return Tri::Error,
            },
            Term::Name(object) => match self.pairs(*object, false) {
                Some(Pairs::NamespaceLabels) if self.cell.namespaced => Text::Namespace,
                Some(_) => Text::BareName,
                None => return Tri::Error,
            },
            Term::OwnNamespace(object) => match self.pairs(*object, false) {
                Some(pairs) if pairs != Pairs::NamespaceLabels && self.cell.namespaced => Text::Namespace,
                _ => return Tri::Error,
            },
            Term::RequestName if self.reader == Reader::Classic => Text::BareName,
            Term::RequestName if self.cell.collection => return Tri::Error,
            Term::RequestName => Text::RequestName,
            Term::Entry(object, annotations, key, default) => {
                let Some(pairs) = self.pairs(*object, *annotations) else {
                    return Tri::Error;
                };
                if !self.facts.ask(Atom::Has(pairs, key)) {
                    return default.as_deref().map_or(Tri::Error, known);
                }
                let mut wanted = wanted.iter();
                return wanted
                    .any(|wanted| self.facts.ask(Atom::Value(pairs, key, wanted.pattern())))
                    .into();
            }
        };
        let mut wanted = wanted.iter();
        wanted
            .any(|wanted| self.facts.ask(Atom::Text(text, wanted.pattern())))
            .into()
    }
}

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

/// A field of a chain of fields; optional ones count like others where `optional` is asked for.
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

/// An anchored regular expression that is a wildcard pattern.
fn glob(regex: &str) -> Option<Wanted> {
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
    Some(if wild { Wanted::Glob(text) } else { Wanted::Exact(text) })
}

fn wildcard_free(text: &str) -> bool {
    !text.contains(['*', '?'])
}

fn method(function: &str, text: String) -> Option<Wanted> {
    match function {
        "startsWith" => Some(Wanted::Prefix(text)),
        "endsWith" if wildcard_free(&text) => Some(Wanted::Glob(format!("*{text}"))),
        "contains" if wildcard_free(&text) => Some(Wanted::Glob(format!("*{text}*"))),
        "matches" => glob(&text),
        _ => None,
    }
}

fn node(ast: &Ast, id: ExprId, depth: usize) -> Option<Node> {
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
            if &**name == "namespace" && path(ast, *operand).is_some_and(|path| path == ["request"]) {
                return Some(Node::HasNamespace);
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
            (name, Some(target), [text]) => {
                let wanted = method(name, string(ast, *text)?)?;
                Some(Node::Fits(term(ast, *target)?, vec![wanted]))
            }
            _ => None,
        },
        Expr::Literal(_)
        | Expr::Ident(_)
        | Expr::Select { .. }
        | Expr::List { .. }
        | Expr::Map(_)
        | Expr::Struct { .. }
        | Expr::Comprehension(_) => None,
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
