//! The stack of observed values that cel-go's cost tracker searches, for the evaluations whose cost depends on it.
//!
//! Upstream counterpart: cel-go `interpreter/runtimecost.go` `refValStack`. Searches use a table of positions per id,
//! so that a long comprehension stays linear.

use rustc_hash::FxHashMap;

use super::{
    program::{Attribute, NodeId, Root},
    val::Val,
};

/// The id of an entry that is never looked up.
const UNNAMED: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct CostStack<'a> {
    entries: Vec<(u32, Val<'a>)>,
    positions: FxHashMap<u32, Vec<u32>>,
}

impl<'a> CostStack<'a> {
    pub(super) fn push(&mut self, id: NodeId, value: Val<'a>) {
        self.push_id(id.0, value);
    }

    fn push_id(&mut self, id: u32, value: Val<'a>) {
        if id != UNNAMED {
            self.positions.entry(id).or_default().push(self.entries.len() as u32);
        }
        self.entries.push((id, value));
    }

    /// Records a step of an attribute: the last one under the attribute's own id.
    pub(super) fn push_qualifier(&mut self, attribute: u32, last: bool, computed: bool, value: Val<'a>) {
        if last && computed {
            self.drop_id(attribute);
        }
        self.push_id(if last { attribute } else { UNNAMED }, value);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes everything from a position on.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.entries.len() > len {
            if let Some((id, _)) = self.entries.pop()
                && let Some(positions) = self.positions.get_mut(&id)
            {
                positions.pop();
            }
        }
    }

    fn drop_id(&mut self, id: u32) -> Option<Val<'a>> {
        let position = *self.positions.get(&id)?.last()? as usize;
        let value = self.entries[position].1;
        self.truncate(position);
        Some(value)
    }

    /// Removes the newest entry of a node and everything above it; nothing if there is none.
    pub(super) fn drop_to(&mut self, id: NodeId) {
        self.drop_id(id.0);
    }

    pub(super) fn drop_attribute(&mut self, attribute: &Attribute) {
        self.drop_id(attribute.id);
    }

    pub(super) fn drop_conditional(&mut self, branches: &(NodeId, Attribute, Attribute)) {
        let (condition, truthy, falsy) = branches;
        self.drop_id(identity(falsy));
        self.drop_id(identity(truthy));
        self.drop_id(condition.0);
    }

    /// Finds the values of a call's arguments, last one first, removing each with everything above it; `None` as soon
    /// as one is missing.
    pub(super) fn drop_args(&mut self, args: &[NodeId]) -> Option<Vec<Val<'a>>> {
        let mut values = vec![Val::Null; args.len()];
        for (i, arg) in args.iter().enumerate().rev() {
            values[i] = self.drop_id(arg.0)?;
        }
        Some(values)
    }
}

/// The id under which an attribute's value is found.
fn identity(attribute: &Attribute) -> u32 {
    match &attribute.root {
        Root::Value(node) if attribute.qualifiers.is_empty() => node.0,
        Root::Conditional(_) | Root::Value(_) | Root::Slot(_) | Root::LazySlot(..) | Root::Variable(_) => attribute.id,
    }
}
