//! Variables of classic rules: JMESPath over the request, the element of a loop and the context.
//!
//! Upstream counterpart: Kyverno's fork of go-jmespath, by way of `kyvtest_jmespath`, node by node: a missing key is an error,
//! which counts as null in most places; a field of anything but a map is null.
//!
//! Known limits: negative indexes, `a.*` of structures, steps of slices, and most functions.

mod compare;
mod function;
mod list;

use std::{rc::Rc, sync::Arc};

use kyvtest_go_compat::value::Data;
use kyvtest_jmespath::{Expression, ast::Node};
use kyvtest_model::kube::Operation;

use super::context::Entries;
use crate::body::{
    cel::json_value,
    formula::{Arena, Formula, Place},
    request::Request,
    shape::Kind,
    text::Predicate,
    value::{Part, Result, Sym, Value, unsupported},
};

/// What variables are about.
#[derive(Clone)]
pub(super) struct Context<'r, 'c> {
    pub(super) request: &'r Request<'c>,
    pub(super) element: Option<Value>,
    /// The elements that loops around are about.
    pub(super) bound: Vec<Place>,
    /// The entries of the contexts of the rule and of the loops around.
    pub(super) entries: Entries,
}

/// Where a query is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// In a variable: when an object is deleted, it is read in place of the new one.
    Variable,
    /// By itself: the list of a loop, or the expression of a context entry.
    Alone,
}

impl Context<'_, '_> {
    /// What a pattern is about; nothing if the object is deleted.
    pub(super) fn target(&self) -> Option<Value> {
        match &self.element {
            Some(element) => Some(element.clone()),
            None => self.request.object.map(|place| Value::of(Sym::At(place))),
        }
    }

    pub(super) fn with_element(&self, value: Value, part: &Part) -> Self {
        let mut bound = self.bound.clone();
        bound.extend(part.bounds());
        Self {
            request: self.request,
            element: Some(value),
            bound,
            entries: self.entries.clone(),
        }
    }

    /// The elements of a list, under a name that no loop around uses.
    pub(super) fn elements(&self, arena: &mut Arena, list: Place) -> Result<Vec<Part>> {
        let bound = fresh(arena, list, &self.bound)?;
        Ok(arena.elements_of(list, bound))
    }
}

/// A name for the element of a list that is not in use.
fn fresh(arena: &mut Arena, list: Place, used: &[Place]) -> Result<Place> {
    let mut names = (0..16).filter_map(|number| arena.bound(list, number));
    match names.find(|bound| !used.contains(bound)) {
        Some(bound) => Ok(bound),
        None => unsupported("a loop over a structure"),
    }
}

/// A value, in which a missing key is an error, and when the query as a whole is an error.
#[derive(Debug, Clone)]
pub(super) struct Queried {
    pub(super) value: Value,
    pub(super) failed: Formula,
}

impl Queried {
    pub(super) fn of(value: Value) -> Self {
        Self {
            value,
            failed: Formula::FALSE,
        }
    }

    /// A missing key counts as null.
    fn or_null(self, arena: &mut Arena) -> Self {
        Self {
            value: null_if_missing(arena, &self.value),
            failed: self.failed,
        }
    }

    /// A missing key and an error of a function count as null.
    fn any_or_null(self, arena: &mut Arena) -> Value {
        let value = null_if_missing(arena, &self.value);
        let cases: Vec<(Formula, Sym)> = value.0.into_iter().chain([(self.failed, Sym::Null)]).collect();
        arena.value(cases)
    }
}

/// Evaluates a query.
pub(super) fn query(arena: &mut Arena, context: &Context<'_, '_>, text: &str, written: Written) -> Result<Queried> {
    evaluate(arena, context, text, (None, written))
}

/// Evaluates a query on a value.
pub(super) fn query_on(arena: &mut Arena, context: &Context<'_, '_>, text: &str, value: &Value) -> Result<Queried> {
    evaluate(arena, context, text, (Some(value), Written::Alone))
}

fn evaluate(
    arena: &mut Arena,
    context: &Context<'_, '_>,
    text: &str,
    (on, written): (Option<&Value>, Written),
) -> Result<Queried> {
    let Ok(expression) = Expression::parse(text.trim()) else {
        return unsupported("a query that cannot be read");
    };
    let mut reader = Reader {
        context,
        written,
        bound: context.bound.clone(),
    };
    let found = reader.execute(arena, expression.tree(), on)?;
    if found.value.0.len() > CASES {
        return unsupported("a query with too many cases");
    }
    if on.is_some() {
        return Ok(found);
    }
    // Entries that the text names are loaded first, whatever the query needs.
    let unloaded = context.entries.failures(arena, context, text)?;
    let loaded = arena.not(unloaded);
    let cases: Vec<(Formula, Sym)> = found.value.0.into_iter().collect();
    let mut kept = Vec::new();
    for (guard, sym) in cases {
        kept.push((arena.and([loaded, guard]), sym));
    }
    Ok(Queried {
        value: arena.value(kept),
        failed: arena.or([unloaded, found.failed]),
    })
}

/// How many cases the value of a query may have.
const CASES: usize = 48;

/// Walks the tree of a query.
struct Reader<'x, 'r, 'c> {
    context: &'x Context<'r, 'c>,
    written: Written,
    /// The elements that loops and projections around are about.
    bound: Vec<Place>,
}

impl Reader<'_, '_, '_> {
    /// The value of a node for a value, or for the document as a whole.
    fn execute(&mut self, arena: &mut Arena, node: &Node, at: Option<&Value>) -> Result<Queried> {
        match node {
            Node::Literal(data) => Ok(Queried::of(json_value(&whole_numbers(&json_of(data)))?)),
            Node::Current | Node::Identity => match at {
                Some(value) => Ok(Queried::of(value.clone())),
                None => unsupported("the context as a whole"),
            },
            Node::Field(name) => match at {
                Some(value) => Ok(Queried::of(field(arena, value, name)?)),
                None => self.root(arena, name),
            },
            Node::Subexpression(sides) | Node::IndexExpression(sides) => {
                if let (Node::Field(first), Node::Field(second), None) = (&sides.0, &sides.1, at)
                    && &**first == "request"
                {
                    return self.of_request(second);
                }
                let left = self.execute(arena, &sides.0, at)?;
                if let Node::Field(name) = &sides.1 {
                    return Ok(Queried {
                        value: field(arena, &left.value, name)?,
                        failed: left.failed,
                    });
                }
                self.then(arena, &left, |reader, arena, sym| {
                    reader.execute(arena, &sides.1, Some(&Value::of(sym.clone())))
                })
            }
            Node::Pipe(sides) => {
                let left = self.execute(arena, &sides.0, at)?.or_null(arena);
                let piped = self.then(arena, &left, |reader, arena, sym| {
                    reader.execute(arena, &sides.1, Some(&Value::of(sym.clone())))
                })?;
                Ok(piped.or_null(arena))
            }
            Node::Or(sides) => {
                let (left, right) = (self.execute(arena, &sides.0, at)?, self.execute(arena, &sides.1, at)?);
                either(arena, &left, &right)
            }
            Node::And(sides) => {
                let left = self.execute(arena, &sides.0, at)?.or_null(arena);
                self.then(arena, &left, |reader, arena, sym| {
                    let falsy = is_false(arena, sym)?;
                    let truthy = arena.not(falsy);
                    let right = reader.execute(arena, &sides.1, at)?;
                    let mut cases = vec![(falsy, sym.clone())];
                    for (guard, sym) in right.value.0 {
                        cases.push((arena.and([truthy, guard]), sym));
                    }
                    Ok(Queried {
                        value: arena.value(cases),
                        failed: arena.and([truthy, right.failed]),
                    })
                })
            }
            Node::Not(inner) => {
                let inner = self.execute(arena, inner, at)?.or_null(arena);
                self.then(arena, &inner, |_, arena, sym| {
                    let falsy = is_false(arena, sym)?;
                    Ok(Queried::of(Value::of(Sym::Bool(falsy))))
                })
            }
            Node::Comparator(comparator, sides) => self.compared(arena, *comparator, sides, at),
            Node::MultiSelectList(nodes) => {
                let Some(at) = at else {
                    return self.selected(arena, nodes, None);
                };
                self.then(arena, &Queried::of(at.clone()), |reader, arena, sym| match sym {
                    Sym::Null => Ok(Queried::of(Value::of(Sym::Null))),
                    sym => reader.selected(arena, nodes, Some(&Value::of(sym.clone()))),
                })
            }
            Node::Function(Some(name), args) => self.function(arena, name, args, at),
            Node::Projection(..)
            | Node::FilterProjection(..)
            | Node::Flatten(..)
            | Node::Index(..)
            | Node::Slice(..)
            | Node::ValueProjection(_) => self.of_list(arena, node, at),
            Node::MultiSelectHash(entries) => {
                let Some(at) = at else {
                    return self.made(arena, entries, None);
                };
                self.then(arena, &Queried::of(at.clone()), |reader, arena, sym| match sym {
                    Sym::Null => Ok(Queried::of(Value::of(Sym::Null))),
                    sym => reader.made(arena, entries, Some(&Value::of(sym.clone()))),
                })
            }
            Node::Empty | Node::Expref(_) | Node::Function(None, _) => unsupported("a query"),
        }
    }

    /// Goes on from each case of a value; missing keys stay missing.
    fn then(
        &mut self,
        arena: &mut Arena,
        left: &Queried,
        mut apply: impl FnMut(&mut Self, &mut Arena, &Sym) -> Result<Queried>,
    ) -> Result<Queried> {
        let mut cases = Vec::new();
        let mut failed = vec![left.failed];
        for (guard, sym) in &left.value.0 {
            if *sym == Sym::Error {
                cases.push((*guard, Sym::Error));
                continue;
            }
            let found = apply(self, arena, sym)?;
            failed.push(arena.and([*guard, found.failed]));
            for (own, sym) in found.value.0 {
                cases.push((arena.and([*guard, own]), sym));
            }
        }
        let value = arena.value(cases);
        if value.0.len() > CASES {
            return unsupported("a query with too many cases");
        }
        Ok(Queried {
            value,
            failed: arena.or(failed),
        })
    }

    fn selected(&mut self, arena: &mut Arena, nodes: &[Node], at: Option<&Value>) -> Result<Queried> {
        let mut parts = Vec::new();
        let mut failed = Vec::new();
        for node in nodes {
            let found = self.execute(arena, node, at)?.or_null(arena);
            failed.push(found.failed);
            parts.push(Part::One(Formula::TRUE, found.value));
        }
        Ok(Queried {
            value: Value::of(Sym::List(Rc::from(parts))),
            failed: arena.or(failed),
        })
    }

    /// `{a: b}`.
    fn made(&mut self, arena: &mut Arena, entries: &[(Arc<str>, Node)], at: Option<&Value>) -> Result<Queried> {
        let mut made: Vec<(Arc<str>, Value)> = Vec::new();
        let mut failed = Vec::new();
        for (key, node) in entries {
            let found = self.execute(arena, node, at)?.or_null(arena);
            failed.push(found.failed);
            // The last of several entries with one key counts.
            made.retain(|(own, _)| own != key);
            made.push((Arc::clone(key), found.value));
        }
        Ok(Queried {
            value: Value::of(Sym::Map(Rc::from(made))),
            failed: arena.or(failed),
        })
    }

    /// What a name at the beginning of a query means.
    fn root(&mut self, arena: &mut Arena, name: &str) -> Result<Queried> {
        if let Some(entry) = self.context.entries.find(name) {
            return entry.load(arena, self.context);
        }
        match name {
            "element" => match &self.context.element {
                Some(element) => Ok(Queried::of(element.clone())),
                None => unsupported("`element` outside of a loop"),
            },
            "request" => unsupported("`request` as a whole"),
            _ => unsupported(format!("the variable `{name}`")),
        }
    }

    fn of_request(&self, name: &str) -> Result<Queried> {
        let request = self.context.request;
        let object = |place: Option<Place>| match place {
            Some(place) => Ok(Queried::of(Value::of(Sym::At(place)))),
            None if request.past || request.cell.operation == Operation::Connect => {
                unsupported("an object that the request does not have")
            }
            None => Ok(Queried::of(Value::of(Sym::Null))),
        };
        let deletes = request.cell.operation == Operation::Delete && self.written == Written::Variable;
        match name {
            "object" if deletes => object(request.old_object),
            "object" => object(request.object),
            "oldObject" => object(request.old_object),
            "operation" => Ok(Queried::of(Value::text(request.cell.operation.as_str()))),
            "userInfo" => Ok(Queried::of(Value::of(Sym::At(request.user)))),
            "namespace" => Ok(Queried::of(match request.namespace {
                Some(namespace) => Value::of(Sym::At(namespace)),
                None if request.cell.namespaced => return unsupported("`request.namespace`"),
                None => Value::error(),
            })),
            "name" => match request.name {
                Some(name) => Ok(Queried::of(Value::of(Sym::At(name)))),
                None => unsupported("`request.name`"),
            },
            _ => unsupported(format!("`request.{name}`")),
        }
    }
}

/// Numbers of queries are floating-point numbers: a whole one counts as an integer.
pub(super) fn whole_numbers(json: &serde_json::Value) -> serde_json::Value {
    match json {
        serde_json::Value::Number(number) => match number.as_f64() {
            Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => serde_json::json!(value as i64),
            _ => json.clone(),
        },
        serde_json::Value::Array(items) => items.iter().map(whole_numbers).collect(),
        serde_json::Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.clone(), whole_numbers(value)));
            serde_json::Value::Object(entries.collect())
        }
        json => json.clone(),
    }
}

fn json_of(data: &Data) -> serde_json::Value {
    match data {
        Data::Null => serde_json::Value::Null,
        Data::Bool(truth) => serde_json::json!(truth),
        Data::Int(number) => serde_json::json!(number),
        Data::Uint(number) => serde_json::json!(number),
        Data::Double(number) => serde_json::json!(number),
        Data::String(text) => serde_json::json!(&**text),
        Data::List(items) => items.iter().map(json_of).collect(),
        Data::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.to_string(), json_of(value)));
            serde_json::Value::Object(entries.collect())
        }
    }
}

/// A missing key counts as null.
pub(super) fn null_if_missing(arena: &mut Arena, value: &Value) -> Value {
    let cases: Vec<(Formula, Sym)> = value
        .0
        .iter()
        .map(|(guard, sym)| match sym {
            Sym::Error => (*guard, Sym::Null),
            sym => (*guard, sym.clone()),
        })
        .collect();
    arena.value(cases)
}

/// A field: missing keys of maps are errors, and anything but a map has null for every field.
fn field(arena: &mut Arena, value: &Value, key: &str) -> Result<Value> {
    arena.each(value, |arena, sym| match sym {
        Sym::Error => Ok(Value::error()),
        // The API server leaves these out of lists; CEL's function puts them in.
        Sym::At(place) if matches!(key, "kind" | "apiVersion") && arena.generic(*place).starts_with("<List ") => {
            unsupported("the kind of an object in a list")
        }
        Sym::At(place) => {
            let is_map = arena.is_kind(*place, Kind::Map);
            let other = arena.not(is_map);
            let mut cases = vec![(other, Sym::Null)];
            match arena.field(*place, key) {
                Some(found) => {
                    let present = arena.present(found);
                    let absent = arena.not(present);
                    cases.push((arena.and([is_map, present]), Sym::At(found)));
                    cases.push((arena.and([is_map, absent]), Sym::Error));
                }
                None => cases.push((is_map, Sym::Error)),
            }
            Ok(arena.value(cases))
        }
        Sym::Map(entries) => Ok(match entries.iter().find(|(own, _)| &**own == key) {
            Some((_, value)) => value.clone(),
            None => Value::error(),
        }),
        _ => Ok(Value::of(Sym::Null)),
    })
}

/// `a || b`: what counts as false gives way.
fn either(arena: &mut Arena, a: &Queried, b: &Queried) -> Result<Queried> {
    let first = null_if_missing(arena, &a.value);
    let second = null_if_missing(arena, &b.value);
    let mut cases = Vec::new();
    let mut gives_way = Vec::new();
    for (guard, sym) in first.0 {
        let falsy = is_false(arena, &sym)?;
        let truthy = arena.not(falsy);
        gives_way.push(arena.and([guard, falsy]));
        cases.push((arena.and([guard, truthy]), sym));
    }
    let gives_way = arena.or(gives_way);
    for (guard, sym) in second.0 {
        cases.push((arena.and([gives_way, guard]), sym));
    }
    let later = arena.and([gives_way, b.failed]);
    Ok(Queried {
        value: arena.value(cases),
        failed: arena.or([a.failed, later]),
    })
}

/// Whether JMESPath takes a value for false: null, false, and what is empty.
fn is_false(arena: &mut Arena, sym: &Sym) -> Result<Formula> {
    Ok(match sym {
        Sym::Null => Formula::TRUE,
        Sym::Bool(truth) => arena.not(*truth),
        Sym::Text(text) => Formula::of(text.is_empty()),
        Sym::Words(place, words) => arena.text(*place, words.before(Predicate::Is(Arc::from("")))?),
        Sym::Map(entries) => Formula::of(entries.is_empty()),
        Sym::List(parts) => {
            let all: Vec<(&Part, Formula)> = parts.iter().map(|part| (part, Formula::TRUE)).collect();
            let some = arena.count(&all, 1);
            arena.not(some)
        }
        Sym::At(place) => {
            let place = *place;
            let mut ways = vec![arena.is_kind(place, Kind::Null)];
            let is_bool = arena.is_kind(place, Kind::Bool);
            if is_bool != Formula::FALSE {
                let truth = arena.is_true(place);
                let not = arena.not(truth);
                ways.push(arena.and([is_bool, not]));
            }
            let is_text = arena.is_kind(place, Kind::Text);
            if is_text != Formula::FALSE {
                let empty = arena.text(place, Predicate::Is(Arc::from("")));
                ways.push(arena.and([is_text, empty]));
            }
            for kind in [Kind::List, Kind::Map] {
                let is_kind = arena.is_kind(place, kind);
                if is_kind != Formula::FALSE {
                    if let Some(keys) = function::structure_keys(arena, place) {
                        let some = arena.or(keys.iter().map(Part::keep));
                        ways.push(arena.not(some));
                        continue;
                    }
                    let Some(bound) = arena.bound(place, 0) else {
                        return unsupported("an alternative to a structure");
                    };
                    let some = arena.at_least(place, bound, Formula::TRUE, 1);
                    let none = arena.not(some);
                    ways.push(arena.and([is_kind, none]));
                }
            }
            arena.or(ways)
        }
        _ => Formula::FALSE,
    })
}
