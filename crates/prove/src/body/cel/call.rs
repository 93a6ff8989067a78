//! Library functions: texts, sizes, quantities, optional values and sets; all others are unknown functions of their arguments.

use std::{rc::Rc, sync::Arc};

use kyvtest_cel::{
    program::{Call, Dispatch, RegexFunction},
    types::Type,
};
use kyvtest_go_compat::text::quantity::Quantity;

use super::{Reader, compare::boolean, moment};
use crate::body::{
    formula::{Amount, Formula, Step},
    shape::{Inner, Kind, Shape},
    split,
    text::Predicate,
    value::{Conversion, Edit, Measure, Part, Result, Sized, Sym, Truth, Value, unsupported},
};

impl<'a> Reader<'a, '_> {
    pub(super) fn call(&mut self, call: &'a Call) -> Result<Value> {
        if call.non_strict {
            return unsupported(format!("`{}`", call.function.name));
        }
        let args = call
            .args
            .iter()
            .map(|arg| self.read(*arg))
            .collect::<Result<Vec<_>>>()?;
        self.call_each(call, &args, &mut Vec::new())
    }

    /// Calls with each combination of the arguments' cases.
    fn call_each(&mut self, call: &'a Call, args: &[Value], chosen: &mut Vec<Sym>) -> Result<Value> {
        let Some((first, rest)) = args.split_first() else {
            if chosen.contains(&Sym::Error) {
                return Ok(Value::error());
            }
            let syms = chosen.clone();
            return self.invoke(call, &syms);
        };
        self.each(first, |reader, sym| {
            chosen.push(sym.clone());
            let value = reader.call_each(call, rest, chosen);
            chosen.pop();
            value
        })
    }

    fn invoke(&mut self, call: &'a Call, args: &[Sym]) -> Result<Value> {
        if let Dispatch::Regex(kind, regex) = &call.dispatch {
            let Some(text) = args.first() else {
                return Ok(Value::error());
            };
            if *kind != RegexFunction::Matches {
                let name = format!("{kind:?} {:?}", regex.as_str());
                return self.unknown(&name, args, Shape::any());
            }
            let predicate = Predicate::Matches(Arc::from(regex.as_str()));
            return self.tested(text, predicate, "matches");
        }
        if args.iter().any(super::made::is_made) {
            return super::made::of_made(call.function.name, args);
        }
        if let Some(value) = self.regex_of_wildcards(call.function.name, args)? {
            return Ok(value);
        }
        match (call.function.name, args) {
            // Another value each time.
            (name, _) if name.starts_with("random") => unsupported("random values"),
            ("startsWith", [text, Sym::Text(part)]) => {
                self.tested(text, Predicate::StartsWith(Arc::clone(part)), "startsWith")
            }
            ("endsWith", [text, Sym::Text(part)]) => {
                self.tested(text, Predicate::EndsWith(Arc::clone(part)), "endsWith")
            }
            ("contains", [text, Sym::Text(part)]) => {
                self.tested(text, Predicate::Contains(Arc::clone(part)), "contains")
            }
            ("startsWith" | "endsWith" | "contains", [a, b]) => self.text_relation(call.function.name, a, b),
            ("size", [sym]) => self.size(sym),
            ("flatten", [sym]) => self.flattened(sym),
            ("type", [sym]) => self.type_of(sym),
            ("Get" | "get" | "List" | "list" | "GetMetadata" | "getMetadata", [Sym::Constant(own), ..])
                if matches!(&**own, "resource" | "http" | "globalContext" | "image") =>
            {
                let name = match call.function.name {
                    "Get" | "get" => "Get",
                    "List" | "list" => "List",
                    _ => "GetMetadata",
                };
                super::lookup(self.arena, name, args)
            }
            ("split", [Sym::At(place), Sym::Text(separator)]) if separator.chars().count() == 1 => {
                split::pieces_of(self.arena, *place, separator)
            }
            ("duration", _) => self.moment("duration", args, true),
            ("timestamp", _) => self.moment("timestamp", args, false),
            ("getHours" | "getMinutes" | "getSeconds" | "getFullYear", [Sym::Moment(moment)]) => {
                match moment::steps(call.function.name, *moment) {
                    Some(steps) => Ok(Value::of(steps)),
                    None => self.unknown(call.function.name, args, integer()),
                }
            }
            ("int", [Sym::At(_)]) => {
                let value = self.unknown("int", args, integer())?;
                self.note_conversion(args, &value, Conversion::Integer);
                Ok(value)
            }
            ("replace", [sym, Sym::Text(old), Sym::Text(new)]) if single(old).is_some() => {
                let old = single(old).unwrap_or_default();
                self.edited(sym, Edit::Replaced(old, Arc::clone(new)))
            }
            ("join", [Sym::At(list), rest @ ..]) if self.arena.split_of(*list).is_some() => self.joined(*list, rest),
            ("format", [Sym::Text(format), Sym::List(values)]) => self.formatted(format, values, args),
            ("matches", [text, Sym::Words(place, words)]) => self.matched(text, *place, words, args),
            ("substring", [sym, Sym::Int(from)]) => self.substring(sym, *from, None),
            ("substring", [sym, Sym::Int(from), Sym::Int(to)]) => self.substring(sym, *from, Some(*to)),
            ("charAt", [sym, Sym::Int(position)]) => self.character(sym, *position),
            ("indexOf" | "lastIndexOf", [sym, Sym::Text(needle)]) if self.is_text_alone(sym) => {
                self.position_of(sym, needle, call.function.name == "lastIndexOf")
            }
            ("trim", [sym]) => self.edited(sym, Edit::Trimmed),
            ("lowerAscii", [sym]) => self.edited(sym, Edit::Lower),
            ("upperAscii", [sym]) => self.edited(sym, Edit::Upper),
            ("dyn", [sym]) => Ok(Value::of(sym.clone())),
            ("int", [Sym::Text(text)]) if text.len() < 18 && is_integer(text) => match text.parse() {
                Ok(number) => Ok(Value::of(Sym::Int(number))),
                Err(_) => Ok(Value::error()),
            },
            ("int", [Sym::Int(number)]) => Ok(Value::of(Sym::Int(*number))),
            ("string", [Sym::Text(text)]) => Ok(Value::text(text)),
            ("jsonpatch.escapeKey", [Sym::Text(text)]) => Ok(Value::text(&text.replace('~', "~0").replace('/', "~1"))),
            // Kyverno's `orValue` takes values that are not optional as well.
            ("__orValueCompat__", [Sym::Optional(None), other]) => Ok(Value::of(other.clone())),
            ("__orValueCompat__", [Sym::Optional(Some(inner)), _]) => Ok((**inner).clone()),
            ("__orValueCompat__", [sym, _]) => Ok(Value::of(sym.clone())),
            ("optional.of", [sym]) => Ok(Value::of(Sym::Optional(Some(Rc::new(Value::of(sym.clone())))))),
            ("optional.none", []) => Ok(Value::of(Sym::Optional(None))),
            ("hasValue", [Sym::Optional(inner)]) => Ok(Value::bool(inner.is_some())),
            ("value", [Sym::Optional(Some(inner))]) => Ok((**inner).clone()),
            ("value", [Sym::Optional(None)]) => Ok(Value::error()),
            ("quantity", [sym]) => self.quantity(sym),
            ("isQuantity", [sym]) => self.tested(sym, Predicate::Quantity, "isQuantity"),
            ("isLessThan", [Sym::Quantity(a), Sym::Quantity(b)]) => {
                let truth = self.quantity_order(a, b, true)?;
                Ok(Value::of(Sym::Bool(truth)))
            }
            ("isGreaterThan", [Sym::Quantity(a), Sym::Quantity(b)]) => {
                let truth = self.quantity_order(b, a, true)?;
                Ok(Value::of(Sym::Bool(truth)))
            }
            ("compareTo", [Sym::Quantity(a), Sym::Quantity(b)]) => {
                let (less, more) = (self.quantity_order(a, b, true)?, self.quantity_order(b, a, true)?);
                let differ = self.arena.or([less, more]);
                let same = self.arena.not(differ);
                Ok(self
                    .arena
                    .value([(less, Sym::Int(-1)), (more, Sym::Int(1)), (same, Sym::Int(0))]))
            }
            ("add" | "sub", [Sym::Quantity(a), Sym::Quantity(b)]) => match sum(a, b, call.function.name == "sub") {
                Some(sum) => Ok(Value::of(Sym::Quantity(sum))),
                None => self.unknown(call.function.name, args, Shape::any()),
            },
            // A text can be read exactly if reading it does not fail.
            ("isSemver" | "isImage" | "isURL" | "isIP" | "isCIDR", [Sym::At(place)]) => {
                let name = match call.function.name {
                    "isSemver" => "semver",
                    "isImage" => "image",
                    "isURL" => "url",
                    "isIP" => "ip",
                    _ => "cidr",
                };
                let is_text = self.arena.is_kind(*place, Kind::Text);
                let value = self.unknown(name, args, Shape::any())?;
                let fine = value.0.iter().find(|(_, sym)| matches!(sym, Sym::At(_)));
                let fine = fine.map_or(Formula::FALSE, |(fine, _)| *fine);
                let not = self.arena.not(fine);
                let (yes, no) = (self.arena.and([is_text, fine]), self.arena.and([is_text, not]));
                Ok(Truth { yes, no }.value(self.arena))
            }
            // The order of versions is one comparison, however it is written.
            ("isLessThan" | "isGreaterThan" | "compareTo", [a, b]) => {
                let shape = Shape::of(Kind::Int, Inner::Int(-1, 1));
                let value = self.unknown("compareTo", &[a.clone(), b.clone()], shape)?;
                let wanted = match call.function.name {
                    "isLessThan" => -1,
                    "isGreaterThan" => 1,
                    _ => return Ok(value),
                };
                self.each(&value, |reader, sym| match sym {
                    Sym::At(place) => Ok(Value::of(Sym::Bool(reader.integer_is(*place, wanted)?))),
                    sym => Ok(Value::of(sym.clone())),
                })
            }
            // A text is read as an address first.
            ("containsIP", [net, Sym::At(place)]) if !matches!(self.arena.step(*place), Step::Term(_)) => {
                let address = self.unknown("ip", &args[1..], Shape::any())?;
                self.each(&address, |reader, sym| match sym {
                    Sym::At(_) => reader.unknown("containsIP", &[net.clone(), sym.clone()], boolean()),
                    sym => Ok(Value::of(sym.clone())),
                })
            }
            ("sets.contains", [a, b]) => self.sets(a, b, Self::includes),
            ("sets.equivalent", [a, b]) => self.sets(a, b, |reader, a, b| {
                let (first, second) = (reader.includes(a, b)?, reader.includes(b, a)?);
                Ok(reader.arena.and([first, second]))
            }),
            ("sets.intersects", [a, b]) => self.sets(a, b, Self::meets),
            (name, args) => {
                if let Dispatch::Overload(i, _) = &call.dispatch {
                    match &call.function.overloads[*i as usize].result {
                        Type::Duration => return self.moment(name, args, true),
                        Type::Timestamp => return self.moment(name, args, false),
                        _ => {}
                    }
                }
                let shape = match &call.dispatch {
                    Dispatch::Overload(i, _) => result_shape(&call.function.overloads[*i as usize].result),
                    _ => Shape::any(),
                };
                self.unknown(name, args, shape)
            }
        }
    }

    /// The type of a value of a document, or of a constant.
    fn type_of(&mut self, sym: &Sym) -> Result<Value> {
        let named = |name: &str| Sym::Constant(Arc::from(format!("{TYPE}{name}")));
        let name = match sym {
            Sym::Null => "null_type",
            Sym::Bool(_) => "bool",
            Sym::Int(_) | Sym::Size(_) | Sym::Length(_) | Sym::Offset(_) => "int",
            Sym::Text(_) | Sym::Words(..) => "string",
            Sym::List(_) => "list",
            Sym::Map(_) => "map",
            Sym::At(place) => {
                let names = ["null_type", "bool", "int", "double", "string", "list", "map"];
                let mut cases = Vec::new();
                for (kind, name) in Kind::ALL.into_iter().zip(names) {
                    cases.push((self.arena.is_kind(*place, kind), named(name)));
                }
                return Ok(self.arena.value(cases));
            }
            sym => return self.unknown("type", std::slice::from_ref(sym), Shape::any()),
        };
        Ok(Value::of(named(name)))
    }

    /// `flatten` of a list; anything but a list is an error.
    fn flattened(&mut self, sym: &Sym) -> Result<Value> {
        let Some((is_list, parts)) = self.parts(sym)? else {
            return Ok(Value::error());
        };
        if self.surroundings.is_ordered && !parts.iter().all(keeps_order) {
            return unsupported("a flattened list whose order counts");
        }
        let used = self.bound.clone();
        let flat = self.arena.flatten(&parts, |arena, list| {
            let mut names = (0..16).filter_map(|number| arena.bound(list, number));
            match names.find(|bound| !used.contains(bound)) {
                Some(bound) => Ok(bound),
                None => unsupported("comprehensions are nested too deeply"),
            }
        })?;
        let other = self.arena.not(is_list);
        Ok(self
            .arena
            .value([(is_list, Sym::List(Rc::from(flat))), (other, Sym::Error)]))
    }

    fn size(&mut self, sym: &Sym) -> Result<Value> {
        match sym {
            Sym::Text(text) => Ok(Value::of(Sym::Int(
                i64::try_from(text.chars().count()).unwrap_or(i64::MAX),
            ))),
            Sym::List(parts) => Ok(Value::of(Sym::Size(Rc::clone(parts)))),
            Sym::Map(entries) => Ok(Value::of(Sym::Int(i64::try_from(entries.len()).unwrap_or(i64::MAX)))),
            Sym::Words(place, words) => match words.measure(*place) {
                Some(measure) => Ok(Value::of(Sym::Length(measure))),
                None => self.unknown("size", std::slice::from_ref(sym), integer()),
            },
            Sym::At(place) => {
                let place = *place;
                if let Some((text, separator)) = self.arena.split_of(place) {
                    return split::count(self.arena, place, text, &separator);
                }
                let mut cases = Vec::new();
                let is_text = self.arena.is_kind(place, Kind::Text);
                cases.push((is_text, Sym::Length(Measure::of(place))));
                let is_list = self.arena.is_kind(place, Kind::List);
                let is_map = self.arena.is_kind(place, Kind::Map);
                let sized = self.arena.or([is_list, is_map]);
                if sized != Formula::FALSE {
                    match self.arena.bound(place, 0) {
                        Some(bound) => {
                            let part = Part::each(place, bound);
                            cases.push((sized, Sym::Size(Rc::from([part]))));
                        }
                        None => {
                            let value = self.unknown("size", std::slice::from_ref(sym), integer())?;
                            for (guard, sym) in value.0 {
                                cases.push((self.arena.and([sized, guard]), sym));
                            }
                        }
                    }
                }
                let known = self.arena.or([is_text, sized]);
                cases.push((self.arena.not(known), Sym::Error));
                Ok(self.arena.value(cases))
            }
            Sym::Constant(_) | Sym::Variables => unsupported("the size of a library's value"),
            _ => Ok(Value::error()),
        }
    }

    fn quantity(&mut self, sym: &Sym) -> Result<Value> {
        match sym {
            Sym::Text(text) => Ok(match Quantity::parse(text) {
                Ok(quantity) => Value::of(Sym::Quantity(Sized::constant(quantity))),
                Err(_) => Value::error(),
            }),
            Sym::At(place) => {
                let is_text = self.arena.is_kind(*place, Kind::Text);
                let valid = if self.arena.shape(*place).inner == Inner::Quantity {
                    Formula::TRUE
                } else {
                    self.arena.text(*place, Predicate::Quantity)
                };
                let fine = self.arena.and([is_text, valid]);
                let error = self.arena.not(fine);
                Ok(self
                    .arena
                    .value([(fine, Sym::Quantity(Sized::At(*place))), (error, Sym::Error)]))
            }
            Sym::Words(..) | Sym::Constant(_) | Sym::Variables => unsupported("`quantity` of a computed text"),
            _ => Ok(Value::error()),
        }
    }

    /// A relation of two lists as sets; anything but a list is an error.
    fn sets(
        &mut self,
        a: &Sym,
        b: &Sym,
        relation: impl FnOnce(&mut Self, &[Part], &[Part]) -> Result<Formula>,
    ) -> Result<Value> {
        let (Some((first, left)), Some((second, right))) = (self.parts(a)?, self.parts(b)?) else {
            return Ok(Value::error());
        };
        let lists = self.arena.and([first, second]);
        let holds = relation(self, &left, &right)?;
        let not = self.arena.not(holds);
        let (yes, no) = (self.arena.and([lists, holds]), self.arena.and([lists, not]));
        Ok(Truth { yes, no }.value(self.arena))
    }

    /// Whether every element of the second list is in the first.
    fn includes(&mut self, a: &[Part], b: &[Part]) -> Result<Formula> {
        let outsiders = self.over_parts(b, |reader, value| {
            let hit = reader.any_of(value, a)?;
            Ok(reader.arena.not(hit))
        })?;
        Ok(self.arena.not(outsiders))
    }

    fn meets(&mut self, a: &[Part], b: &[Part]) -> Result<Formula> {
        self.over_parts(b, |reader, value| reader.any_of(value, a))
    }

    /// Whether some element of a list has a property.
    fn over_parts(
        &mut self,
        parts: &[Part],
        mut property: impl FnMut(&mut Self, &Value) -> Result<Formula>,
    ) -> Result<Formula> {
        let mut hits = Vec::new();
        for part in parts {
            let bounds = part.bounds();
            if bounds.iter().any(|bound| self.bound.contains(bound)) {
                return unsupported("a set of a list within a comprehension over it");
            }
            let before = self.bound.len();
            self.bound.extend(bounds);
            let hit = property(self, part.value());
            self.bound.truncate(before);
            hits.push((part, hit?));
        }
        Ok(self.arena.count(&hits, 1))
    }

    fn any_of(&mut self, value: &Value, parts: &[Part]) -> Result<Formula> {
        let mut hits = Vec::new();
        for (guard, sym) in &value.0 {
            let hit = self.any_equal(sym, parts)?;
            hits.push(self.arena.and([*guard, hit]));
        }
        Ok(self.arena.or(hits))
    }
}

/// The sum or the difference of two quantities; `None` if it is not modelled.
fn sum(a: &Sized, b: &Sized, minus: bool) -> Option<Sized> {
    Some(match (a, b) {
        (Sized::Constant(a), Sized::Constant(b)) => Sized::constant(if minus { a.0.sub(&b.0) } else { a.0.add(&b.0) }),
        (Sized::Constant(a), Sized::At(place)) => Sized::Sum(a.clone(), *place, minus),
        (Sized::At(place), Sized::Constant(b)) => {
            let zero = Quantity::parse("0").ok()?;
            Sized::Sum(Amount(if minus { zero.sub(&b.0) } else { b.0.clone() }), *place, false)
        }
        _ => return None,
    })
}

/// The beginning of the names of types.
pub(super) const TYPE: &str = "type ";

/// The only character of a text.
pub(super) fn single(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// Whether a text is written as a plain integer.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn integer() -> Shape {
    Shape::of(Kind::Int, Inner::Int(i64::MIN, i64::MAX))
}

pub(super) fn text_shape() -> Shape {
    Shape::of(Kind::Text, Inner::Text(Vec::new()))
}

fn result_shape(result: &Type) -> Shape {
    match result {
        Type::Bool => boolean(),
        Type::Int => integer(),
        Type::String => Shape::of(Kind::Text, Inner::Text(Vec::new())),
        Type::List(item) => Shape::of(Kind::List, Inner::List(Box::new(result_shape(item)))),
        _ => Shape::any(),
    }
}

/// Whether the elements of what a part makes stay in order when they are joined: single lists do, and the order of operations
/// that belong to different elements does not count.
fn keeps_order(part: &Part) -> bool {
    part.value().0.iter().all(|(_, sym)| match sym {
        Sym::List(inner) => {
            let is_operation = |sym: &Sym| match sym {
                Sym::Changed(changed) => changed.type_name.as_deref() == Some("JSONPatch"),
                _ => false,
            };
            let mut inner = inner.iter();
            matches!(part, Part::One(..)) || inner.all(|part| part.value().0.iter().all(|(_, sym)| is_operation(sym)))
        }
        _ => matches!(part, Part::One(..)),
    })
}
