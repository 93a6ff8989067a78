//! Variables of classic rules: paths into the request with alternatives, and a few functions.
//!
//! Upstream counterpart: Kyverno's fork of go-jmespath, by way of `kyvtest_jmespath`: a missing key is an error, which counts
//! as null before `||` and inside of lists; a field of what is no map is null.

use std::{rc::Rc, sync::Arc};

use crate::body::{
    cel::json_value,
    formula::{Arena, Formula, Place},
    request::Request,
    shape::Kind,
    text::Predicate,
    value::{Part, Result, Sym, Value, unsupported},
};
use kyvtest_model::kube::Operation;

/// What variables are about.
#[derive(Clone)]
pub(super) struct Context<'r, 'c> {
    pub(super) request: &'r Request<'c>,
    pub(super) element: Option<Value>,
    /// The elements that loops around are about.
    pub(super) bound: Vec<Place>,
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
        if let Part::Each { bound: own, .. } = part {
            bound.push(*own);
        }
        Self {
            request: self.request,
            element: Some(value),
            bound,
        }
    }

    /// The elements of a list, under a name that no loop around uses.
    pub(super) fn elements(&self, arena: &mut Arena, list: Place) -> Result<Vec<Part>> {
        for number in 0..8 {
            match arena.bound(list, number) {
                Some(bound) if !self.bound.contains(&bound) => {
                    return Ok(vec![Part::Each {
                        list,
                        bound,
                        keep: Formula::TRUE,
                        value: Value::of(Sym::At(bound)),
                    }]);
                }
                Some(_) => {}
                None => break,
            }
        }
        unsupported("a loop over a structure")
    }
}

/// A value, in which a missing key is an error, and when the query as a whole is an error.
pub(super) struct Queried {
    pub(super) value: Value,
    pub(super) failed: Formula,
}

impl Queried {
    fn of(value: Value) -> Self {
        Self {
            value,
            failed: Formula::FALSE,
        }
    }
}

/// Evaluates a query.
pub(super) fn query(arena: &mut Arena, context: &Context<'_, '_>, text: &str) -> Result<Queried> {
    let mut parser = Parser {
        text: text.trim(),
        context,
    };
    let value = parser.alternatives(arena)?;
    if !parser.text.is_empty() {
        return unsupported(format!("the query `{text}`"));
    }
    Ok(value)
}

struct Parser<'t, 'x, 'r, 'c> {
    text: &'t str,
    context: &'x Context<'r, 'c>,
}

impl Parser<'_, '_, '_, '_> {
    fn eat(&mut self, token: &str) -> bool {
        self.text = self.text.trim_start();
        match self.text.strip_prefix(token) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    /// `a || b || …`
    fn alternatives(&mut self, arena: &mut Arena) -> Result<Queried> {
        let mut found = self.single(arena)?;
        while self.eat("||") {
            let other = self.single(arena)?;
            found = either(arena, &found, &other)?;
        }
        self.text = self.text.trim_start();
        Ok(found)
    }

    fn single(&mut self, arena: &mut Arena) -> Result<Queried> {
        self.text = self.text.trim_start();
        if let Some(rest) = self.text.strip_prefix('\'') {
            let Some((raw, after)) = rest.split_once('\'') else {
                return unsupported("a query");
            };
            if raw.contains('\\') {
                return unsupported("an escape in a query");
            }
            self.text = after;
            return Ok(Queried::of(Value::text(raw)));
        }
        if let Some(rest) = self.text.strip_prefix('`') {
            let Some((literal, after)) = rest.split_once('`') else {
                return unsupported("a query");
            };
            self.text = after;
            let Ok(json) = serde_json::from_str(literal) else {
                return unsupported("a literal in a query");
            };
            return Ok(Queried::of(json_value(&json)?));
        }
        let Some(name) = self.identifier() else {
            return unsupported("a query");
        };
        if self.eat("(") {
            return self.function(arena, &name);
        }
        let root = self.root(&name)?;
        self.path(arena, root)
    }

    fn identifier(&mut self) -> Option<Arc<str>> {
        self.text = self.text.trim_start();
        if let Some(rest) = self.text.strip_prefix('"') {
            let (name, after) = rest.split_once('"')?;
            if name.contains('\\') {
                return None;
            }
            self.text = after;
            return Some(Arc::from(name));
        }
        let end = self
            .text
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.text.len());
        let name = self.text.get(..end).filter(|name| !name.is_empty())?;
        self.text = self.text.get(end..).unwrap_or_default();
        Some(Arc::from(name))
    }

    fn root(&mut self, name: &str) -> Result<Value> {
        let request = self.context.request;
        match name {
            "element" => match &self.context.element {
                Some(element) => Ok(element.clone()),
                None => unsupported("`element` outside of a loop"),
            },
            "request" => {
                if !self.eat(".") {
                    return unsupported("`request` as a whole");
                }
                let Some(part) = self.identifier() else {
                    return unsupported("a query");
                };
                let object = |place: Option<Place>| match place {
                    Some(place) => Ok(Value::of(Sym::At(place))),
                    None => unsupported("an object that the request does not have"),
                };
                match &*part {
                    // What is deleted is read in place of the new object.
                    "object" if request.cell.operation == Operation::Delete => object(request.old_object),
                    "object" => object(request.object),
                    "oldObject" => object(request.old_object),
                    "operation" => Ok(Value::text(request.cell.operation.as_str())),
                    "userInfo" => Ok(Value::of(Sym::At(request.user))),
                    _ => unsupported(format!("`request.{part}`")),
                }
            }
            _ => unsupported(format!("the variable `{name}`")),
        }
    }

    fn path(&mut self, arena: &mut Arena, root: Value) -> Result<Queried> {
        let mut value = root;
        loop {
            if self.text.starts_with("||") {
                return Ok(Queried::of(value));
            }
            if self.eat("[]") {
                value = self.flattened(arena, &value)?;
                self.text = self.text.trim_start();
                if self.text.starts_with('.') || self.text.starts_with('[') {
                    return unsupported("a projection");
                }
                return Ok(Queried::of(value));
            }
            if self.text.starts_with('[') {
                let Some((inside, rest)) = self.text.get(1..).and_then(|text| text.split_once(']')) else {
                    return unsupported("a query");
                };
                if let Some(count) = inside
                    .trim()
                    .strip_prefix(':')
                    .and_then(|count| count.parse::<u32>().ok())
                    && count <= 4
                    && !rest.trim_start().starts_with(['.', '['])
                {
                    self.text = rest;
                    return Ok(Queried::of(first_of(arena, &value, count)?));
                }
                let Ok(position) = inside.trim().parse::<u32>() else {
                    return unsupported("a slice or filter");
                };
                self.text = rest;
                value = position_of(arena, &value, position)?;
                continue;
            }
            if self.text.starts_with(".[") {
                self.text = self.text.get(2..).unwrap_or_default();
                value = self.selected(arena, &value)?;
                continue;
            }
            if self.text.starts_with('.') {
                self.text = self.text.get(1..).unwrap_or_default();
                let Some(key) = self.identifier() else {
                    return unsupported("a projection");
                };
                value = field(arena, &value, &key)?;
                continue;
            }
            return Ok(Queried::of(value));
        }
    }

    /// `.[a, b]`: what is missing is null.
    fn selected(&mut self, arena: &mut Arena, value: &Value) -> Result<Value> {
        let mut keys = Vec::new();
        loop {
            let Some(key) = self.identifier() else {
                return unsupported("a selection of more than fields");
            };
            keys.push(key);
            if self.eat("]") {
                break;
            }
            if !self.eat(",") {
                return unsupported("a selection of more than fields");
            }
        }
        arena.each(value, |arena, sym| match sym {
            Sym::Null => Ok(Value::of(Sym::Null)),
            Sym::Error => Ok(Value::error()),
            sym => {
                let mut parts = Vec::new();
                for key in &keys {
                    let found = field(arena, &Value::of(sym.clone()), key)?;
                    parts.push(Part::One(Formula::TRUE, null_if_missing(arena, &found)));
                }
                Ok(Value::of(Sym::List(Rc::from(parts))))
            }
        })
    }

    /// `x[]`: lists inside are joined, and nulls are left out.
    fn flattened(&mut self, arena: &mut Arena, value: &Value) -> Result<Value> {
        let context = self.context;
        let value = null_if_missing(arena, value);
        arena.each(&value, |arena, sym| {
            let parts = match sym {
                Sym::List(parts) => parts.to_vec(),
                Sym::At(place) => {
                    let kinds = arena.shape(*place).kinds;
                    if !kinds.has(Kind::List) {
                        return Ok(Value::of(Sym::Null));
                    }
                    if !kinds.is_single() {
                        return unsupported("a list of unknown type");
                    }
                    context.elements(arena, *place)?
                }
                Sym::Null => return Ok(Value::of(Sym::Null)),
                _ => return unsupported("a projection of a computed value"),
            };
            let mut flat = Vec::new();
            for part in parts {
                match part {
                    Part::One(keep, value) => {
                        for (guard, sym) in value.0 {
                            let guard = arena.and([keep, guard]);
                            match sym {
                                Sym::Null => {}
                                Sym::At(place) if arena.shape(place).kinds.has(Kind::List) => {
                                    if !arena.shape(place).kinds.is_single() {
                                        return unsupported("a list of unknown type");
                                    }
                                    for inner in context.elements(arena, place)? {
                                        if let Part::Each { list, bound, value, .. } = inner {
                                            flat.push(Part::Each {
                                                list,
                                                bound,
                                                keep: guard,
                                                value,
                                            });
                                        }
                                    }
                                }
                                sym => flat.push(Part::One(guard, Value::of(sym))),
                            }
                        }
                    }
                    Part::Each { bound, .. } if may_be_list(arena, bound) => {
                        return unsupported("a list of lists");
                    }
                    part @ Part::Each { .. } => flat.push(part),
                }
            }
            Ok(Value::of(Sym::List(Rc::from(flat))))
        })
    }

    fn function(&mut self, arena: &mut Arena, name: &str) -> Result<Queried> {
        let mut args = Vec::new();
        if !self.eat(")") {
            loop {
                let arg = self.alternatives(arena)?;
                if arg.failed != Formula::FALSE {
                    return unsupported("a function of a function");
                }
                args.push(null_if_missing(arena, &arg.value));
                if self.eat(")") {
                    break;
                }
                if !self.eat(",") {
                    return unsupported("a query");
                }
            }
        }
        let mut failed = Vec::new();
        let mut cases = Vec::new();
        let [first, rest @ ..] = args.as_slice() else {
            return unsupported(format!("the function `{name}`"));
        };
        for (guard, sym) in &first.0 {
            match call(arena, self.context, name, sym, rest)? {
                Some(value) => {
                    for (own, sym) in value.0 {
                        cases.push((arena.and([*guard, own]), sym));
                    }
                }
                None => failed.push(*guard),
            }
        }
        Ok(Queried {
            value: arena.value(cases),
            failed: arena.or(failed),
        })
    }
}

/// A function; `None` if its argument is of the wrong type, which is an error of the query.
fn call(arena: &mut Arena, context: &Context<'_, '_>, name: &str, sym: &Sym, rest: &[Value]) -> Result<Option<Value>> {
    let kinds = |arena: &Arena, place: Place| arena.shape(place).kinds;
    match (name, sym) {
        ("length", Sym::List(parts)) => Ok(Some(Value::of(Sym::Size(Rc::clone(parts))))),
        ("length", Sym::At(place)) if kinds(arena, *place).is_single() && kinds(arena, *place).has(Kind::List) => {
            let parts = context.elements(arena, *place)?;
            Ok(Some(Value::of(Sym::Size(Rc::from(parts)))))
        }
        ("length", Sym::At(place)) if kinds(arena, *place).is_single() && kinds(arena, *place).has(Kind::Text) => {
            Ok(Some(Value::of(Sym::Length(*place))))
        }
        ("length" | "to_lower" | "to_upper" | "starts_with", Sym::Null) => Ok(None),
        ("to_lower", Sym::Text(text)) => Ok(Some(Value::text(&text.to_lowercase()))),
        ("starts_with", Sym::At(place)) if kinds(arena, *place).is_single() && kinds(arena, *place).has(Kind::Text) => {
            match rest {
                [only] => match only.single() {
                    Some(Sym::Text(prefix)) => {
                        let holds = arena.text(*place, Predicate::StartsWith(Arc::clone(prefix)));
                        Ok(Some(Value::of(Sym::Bool(holds))))
                    }
                    _ => unsupported("`starts_with`"),
                },
                _ => unsupported("`starts_with`"),
            }
        }
        _ => unsupported(format!("the function `{name}`")),
    }
}

fn may_be_list(arena: &Arena, place: Place) -> bool {
    arena.shape(place).kinds.has(Kind::List)
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

/// A field: missing keys of maps are errors, and what is no map has null for every field.
fn field(arena: &mut Arena, value: &Value, key: &str) -> Result<Value> {
    arena.each(value, |arena, sym| match sym {
        Sym::Error => Ok(Value::error()),
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

/// `x[n]`: null where there is no such element.
fn position_of(arena: &mut Arena, value: &Value, position: u32) -> Result<Value> {
    arena.each(value, |arena, sym| match sym {
        Sym::Error => Ok(Value::error()),
        Sym::At(place) => {
            let place = *place;
            let is_list = arena.is_kind(place, Kind::List);
            if is_list == Formula::FALSE {
                return Ok(Value::of(Sym::Null));
            }
            let Some(bound) = arena.bound(place, 0) else {
                return unsupported("an index into a structure");
            };
            let long = arena.at_least(place, bound, Formula::TRUE, position + 1);
            let item = arena.item(place, position);
            let there = arena.and([is_list, long]);
            let absent = arena.not(there);
            Ok(arena.value([(there, Sym::At(item)), (absent, Sym::Null)]))
        }
        Sym::List(_) => unsupported("an index into a computed list"),
        _ => Ok(Value::of(Sym::Null)),
    })
}

/// `x[:n]`: the first elements; null if there is no list.
fn first_of(arena: &mut Arena, value: &Value, count: u32) -> Result<Value> {
    let value = null_if_missing(arena, value);
    arena.each(&value, |arena, sym| match sym {
        Sym::At(place) if arena.shape(*place).kinds.is_single() && arena.shape(*place).kinds.has(Kind::List) => {
            let Some(bound) = arena.bound(*place, 0) else {
                return unsupported("a slice of a structure");
            };
            let mut parts = Vec::new();
            for position in 0..count {
                let there = arena.at_least(*place, bound, Formula::TRUE, position + 1);
                let item = arena.item(*place, position);
                parts.push(Part::One(there, Value::of(Sym::At(item))));
            }
            Ok(Value::of(Sym::List(Rc::from(parts))))
        }
        Sym::Null => Ok(Value::of(Sym::Null)),
        _ => unsupported("a slice"),
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
