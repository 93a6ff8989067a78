//! Documents of which some parts are made by expressions and patches: how they are changed, and when two of them differ.
//!
//! A changed document is a value like any other: maps with entries over those of the document in the request
//! ([`super::changed`]), lists in parts. What patches do with it follows the concrete patchers of `kyvtest_patch`, whose
//! modules name the upstream counterparts; what is not modelled is refused, never guessed.

mod difference;
mod json_patch;
mod strategic;
mod structured;

pub(super) use self::{
    difference::difference,
    json_patch::{Operation, Step as PathStep, apply as apply_operations, operations, pointer},
    strategic::{Element, Patch, merge as merge_strategic},
    structured::{Atomics, apply as apply_configuration, unique},
};

use super::{
    changed::Entry,
    formula::{Arena, Formula, Place},
    value::{Sym, Value},
};

/// An object after a change, and when the change is an error.
#[derive(Debug, Clone)]
pub(super) struct Patched {
    pub(super) object: Value,
    pub(super) error: Formula,
}

/// Collects the conditions under which a change is an error.
struct Errors(Vec<Formula>);

impl Errors {
    fn add(&mut self, arena: &mut Arena, parts: impl IntoIterator<Item = Formula>) {
        let error = arena.and(parts);
        if error != Formula::FALSE {
            self.0.push(error);
        }
    }

    /// Adds the errors of the elements of a list.
    fn add_each(&mut self, arena: &mut Arena, (list, bound): (Place, Place), guard: Formula, of_elements: Self) {
        let any = arena.or(of_elements.0);
        let some = arena.at_least(list, bound, any, 1);
        self.add(arena, [guard, some]);
    }
}

/// Applies a function to each case of an entry, with the case's number and condition; absence stays.
fn each_case<E>(
    arena: &mut Arena,
    entry: &Entry,
    guard: Formula,
    mut apply: impl FnMut(&mut Arena, usize, &Sym, Formula) -> Result<Entry, E>,
) -> Result<Entry, E> {
    let mut present = Vec::new();
    let mut cases = Vec::new();
    for (at, (own, sym)) in entry.value.0.iter().enumerate() {
        let here = arena.and([entry.present, *own]);
        if here == Formula::FALSE {
            continue;
        }
        let within = arena.and([guard, here]);
        let made = apply(arena, at, sym, within)?;
        let there = arena.and([here, made.present]);
        present.push(there);
        for (inner, sym) in made.value.0 {
            cases.push((arena.and([there, inner]), sym));
        }
    }
    Ok(Entry {
        present: arena.or(present),
        value: arena.value(cases),
    })
}
