//! Evaluates an expression on a value.
//!
//! Upstream counterpart: go-jmespath's `interpreter.go`. Each node follows it in treating a missing key as `null` or
//! passing the error on.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use super::{
    Context, Error,
    ast::{Comparator, Node},
    functions,
    item::{self, Item},
};
use kyvtest_go_compat::value::Data;

/// The work limit of an evaluation: nodes, elements, and text in units of 16 bytes.
const WORK_LIMIT: u64 = 20_000_000;
/// The size limit of a result: values, and text in units of 16 bytes.
const SIZE_LIMIT: usize = 4_000_000;

const TOO_MUCH_WORK: Error = Error::Limit("the evaluation takes too much work");
const TOO_LARGE: Error = Error::Limit("the value is too large or nests too deeply");

pub(super) type ItemResult<'e> = Result<Item<'e>, Error>;

pub(super) struct Interpreter<'c> {
    pub(super) context: &'c Context<'c>,
    work: Cell<u64>,
}

/// Evaluates an expression.
pub(super) fn search(node: &Node, value: &Data, context: &Context<'_>) -> Result<Data, Error> {
    let interpreter = Interpreter {
        context,
        work: Cell::new(WORK_LIMIT),
    };
    let result = interpreter.execute(node, &Item::Data(value.clone()))?.into_data();
    result.size(SIZE_LIMIT).ok_or(TOO_LARGE)?;
    Ok(result)
}

/// Treats a missing key as null.
fn or_null(result: ItemResult<'_>) -> ItemResult<'_> {
    match result {
        Err(Error::NotFound(_)) => Ok(Item::NULL),
        result => result,
    }
}

/// Treats an error as null, unless it is about the evaluation as such.
fn any_or_null(result: ItemResult<'_>) -> ItemResult<'_> {
    match result {
        Err(Error::NotFound(_) | Error::Function(_)) => Ok(Item::NULL),
        result => result,
    }
}

impl Interpreter<'_> {
    /// Charges a number of steps.
    pub(super) fn charge(&self, steps: usize) -> Result<(), Error> {
        let left = self.work.get().checked_sub(steps as u64).ok_or(TOO_MUCH_WORK)?;
        self.work.set(left);
        Ok(())
    }

    /// Charges for reading or writing text of a length in bytes.
    pub(super) fn charge_text(&self, length: usize) -> Result<(), Error> {
        self.charge(1 + length / 16)
    }

    /// Charges for a traversal of a whole value; fails if it is too large.
    pub(super) fn check_size(&self, data: &Data) -> Result<(), Error> {
        let size = data.size(SIZE_LIMIT).ok_or(TOO_LARGE)?;
        self.charge(size)
    }

    pub(super) fn equal(&self, a: &Item<'_>, b: &Item<'_>) -> Result<bool, Error> {
        let mut work = self.work.get();
        let result = item::equal(a, b, &mut work);
        self.work.set(work);
        result
    }

    pub(super) fn execute<'e>(&self, node: &'e Node, value: &Item<'e>) -> ItemResult<'e> {
        self.charge(1)?;
        match node {
            Node::Empty => Err(Error::Function("Unknown AST node: ASTEmpty".to_owned())),
            Node::Comparator(comparator, sides) => {
                let left = or_null(self.execute(&sides.0, value))?;
                let right = or_null(self.execute(&sides.1, value))?;
                self.compare(*comparator, &left, &right)
            }
            Node::Current | Node::Identity => Ok(value.clone()),
            Node::Expref(node) => Ok(Item::Expref(node)),
            Node::Function(None, _) => Err(Error::Function("invalid node value type".to_owned())),
            Node::Function(Some(name), args) => {
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    values.push(or_null(self.execute(arg, value))?);
                }
                functions::call(self, name, values)
            }
            Node::Field(name) => match value {
                Item::Data(Data::Map(entries)) => match entries.get(name) {
                    Some(found) => Ok(Item::Data(found.clone())),
                    None => Err(Error::NotFound(name.to_string())),
                },
                _ => Ok(Item::NULL),
            },
            Node::FilterProjection(parts) => {
                let left = any_or_null(self.execute(&parts.0, value))?;
                let Some(elements) = left.elements() else {
                    return Ok(Item::NULL);
                };
                let mut collected = Vec::new();
                for element in elements.iter() {
                    let element = Item::Data(element.clone());
                    if !or_null(self.execute(&parts.2, &element))?.is_false() {
                        self.collect(&mut collected, &parts.1, &element)?;
                    }
                }
                Ok(Item::Data(collected.into_iter().collect()))
            }
            Node::Flatten(node) => {
                let left = any_or_null(self.execute(node, value))?;
                let Some(elements) = left.elements() else {
                    return Ok(Item::NULL);
                };
                let mut flat = Vec::with_capacity(elements.len());
                for element in elements.iter() {
                    match element {
                        Data::List(inner) => {
                            self.charge(inner.len())?;
                            flat.extend(inner.iter().cloned());
                        }
                        other => flat.push(other.clone()),
                    }
                }
                self.charge(elements.len())?;
                Ok(Item::Data(flat.into_iter().collect()))
            }
            Node::Index(index) => {
                let Some(elements) = value.elements() else {
                    return Ok(Item::NULL);
                };
                let found = if *index < 0 {
                    usize::try_from(index.unsigned_abs())
                        .ok()
                        .and_then(|back| elements.len().checked_sub(back))
                } else {
                    usize::try_from(*index).ok()
                };
                let found = found.and_then(|at| elements.get(at));
                Ok(Item::Data(found.cloned().unwrap_or_default()))
            }
            Node::Literal(data) => Ok(Item::Data(data.clone())),
            Node::MultiSelectHash(_) | Node::MultiSelectList(_) if value.is_null() => Ok(Item::NULL),
            Node::MultiSelectHash(entries) => {
                let mut collected = BTreeMap::new();
                for (key, node) in entries {
                    let member = or_null(self.execute(node, value))?;
                    collected.insert(key.clone(), member.into_data());
                }
                Ok(Item::Data(Data::Map(Arc::new(collected))))
            }
            Node::MultiSelectList(nodes) => {
                let mut collected = Vec::with_capacity(nodes.len());
                for node in nodes {
                    collected.push(or_null(self.execute(node, value))?.into_data());
                }
                Ok(Item::Data(collected.into_iter().collect()))
            }
            Node::Or(sides) => {
                let left = or_null(self.execute(&sides.0, value))?;
                if !left.is_false() {
                    return Ok(left);
                }
                or_null(self.execute(&sides.1, value))
            }
            Node::And(sides) => {
                let left = or_null(self.execute(&sides.0, value))?;
                if left.is_false() {
                    return Ok(left);
                }
                self.execute(&sides.1, value)
            }
            Node::Not(node) => {
                let matched = or_null(self.execute(node, value))?;
                Ok(Item::Data(Data::Bool(matched.is_false())))
            }
            Node::Pipe(sides) => {
                let left = or_null(self.execute(&sides.0, value))?;
                or_null(self.execute(&sides.1, &left))
            }
            Node::Projection(sides) => {
                let left = or_null(self.execute(&sides.0, value))?;
                let Some(elements) = left.elements() else {
                    return Ok(Item::NULL);
                };
                let mut collected = Vec::new();
                for element in elements.iter() {
                    self.collect(&mut collected, &sides.1, &Item::Data(element.clone()))?;
                }
                Ok(Item::Data(collected.into_iter().collect()))
            }
            Node::Subexpression(sides) | Node::IndexExpression(sides) => {
                let left = self.execute(&sides.0, value)?;
                self.execute(&sides.1, &left)
            }
            Node::Slice(parts) => {
                let Some(elements) = value.elements() else {
                    return Ok(Item::NULL);
                };
                self.charge(elements.len())?;
                Ok(Item::Data(slice(elements, parts)?))
            }
            Node::ValueProjection(sides) => {
                let left = any_or_null(self.execute(&sides.0, value))?;
                let Item::Data(Data::Map(entries)) = left else {
                    return Ok(Item::NULL);
                };
                let mut collected = Vec::new();
                // Upstream evaluates once per entry on null before it evaluates the values.
                for _ in 0..entries.len() {
                    self.collect(&mut collected, &sides.1, &Item::NULL)?;
                }
                for element in entries.values() {
                    self.collect(&mut collected, &sides.1, &Item::Data(element.clone()))?;
                }
                Ok(Item::Data(collected.into_iter().collect()))
            }
        }
    }

    /// Adds the projection of an element, unless it is null.
    fn collect<'e>(&self, collected: &mut Vec<Data>, node: &'e Node, element: &Item<'e>) -> Result<(), Error> {
        let made = or_null(self.execute(node, element))?;
        if !made.is_null() {
            collected.push(made.into_data());
        }
        Ok(())
    }

    fn compare<'e>(&self, comparator: Comparator, left: &Item<'e>, right: &Item<'e>) -> ItemResult<'e> {
        match comparator {
            Comparator::Equal => return Ok(Item::Data(Data::Bool(self.equal(left, right)?))),
            Comparator::NotEqual => return Ok(Item::Data(Data::Bool(!self.equal(left, right)?))),
            _ => {}
        }
        let (Item::Data(Data::Double(left)), Item::Data(Data::Double(right))) = (left, right) else {
            return Ok(Item::NULL);
        };
        Ok(Item::Data(Data::Bool(match comparator {
            Comparator::Less => left < right,
            Comparator::LessOrEqual => left <= right,
            Comparator::Greater => left > right,
            _ => left >= right,
        })))
    }
}

/// `[start:stop:step]` as Python has it.
fn slice(elements: &[Data], parts: &[Option<i64>; 3]) -> Result<Data, Error> {
    let length = elements.len() as i64;
    let [start, stop, step] = *parts;
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::Function("Invalid slice, step cannot be 0".to_owned()));
    }
    let backwards = step < 0;
    let cap = |at: i64| {
        if at < 0 {
            let at = at.wrapping_add(length);
            if at < 0 { if backwards { -1 } else { 0 } } else { at }
        } else if at >= length {
            if backwards { length - 1 } else { length }
        } else {
            at
        }
    };
    let start = start.map_or(if backwards { length - 1 } else { 0 }, cap);
    let stop = stop.map_or(if backwards { -1 } else { length }, cap);
    let mut taken = Vec::new();
    let mut at = start;
    while if backwards { at > stop } else { at < stop } {
        match usize::try_from(at).ok().and_then(|at| elements.get(at)) {
            Some(element) => taken.push(element.clone()),
            None => break,
        }
        at = at.saturating_add(step);
    }
    Ok(taken.into_iter().collect())
}
