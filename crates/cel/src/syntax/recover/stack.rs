//! Stacks of return states, shared and merged.
//!
//! Upstream counterpart: antlr4-go `prediction_context.go`, including its treatment of the empty stack in a merge and of
//! a stack that was merged down to a single branch, which does not equal the same stack that never was merged.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::atn::StateId;

/// The number of a stack; equal stacks have equal numbers.
pub(super) type StackId = u32;

/// The stack with nothing on it.
pub(super) const EMPTY: StackId = 0;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stack {
    Empty,
    One((StackId, StateId)),
    /// Several branches by ascending return state.
    Many(Box<[(StackId, StateId)]>),
}

/// All stacks of one parse.
pub(super) struct Stacks {
    nodes: Vec<Stack>,
    ids: FxHashMap<Stack, StackId>,
    merged: FxHashMap<(StackId, StackId, bool), StackId>,
}

impl Stacks {
    pub(super) fn new() -> Self {
        let mut stacks = Self {
            nodes: Vec::new(),
            ids: FxHashMap::default(),
            merged: FxHashMap::default(),
        };
        stacks.intern(Stack::Empty);
        stacks
    }

    fn intern(&mut self, stack: Stack) -> StackId {
        if let Some(id) = self.ids.get(&stack) {
            return *id;
        }
        let id = self.nodes.len() as StackId;
        self.nodes.push(stack.clone());
        self.ids.insert(stack, id);
        id
    }

    pub(super) fn push(&mut self, stack: StackId, return_state: StateId) -> StackId {
        self.intern(Stack::One((stack, return_state)))
    }

    /// The branches: what is below, and where it returns to.
    pub(super) fn branches(&self, stack: StackId) -> &[(StackId, StateId)] {
        match &self.nodes[stack as usize] {
            Stack::Empty => &[],
            Stack::One(branch) => std::slice::from_ref(branch),
            Stack::Many(branches) => branches,
        }
    }

    pub(super) fn merge(&mut self, a: StackId, b: StackId, root_is_wildcard: bool) -> StackId {
        if a == b {
            return a;
        }
        if root_is_wildcard && (a == EMPTY || b == EMPTY) {
            return EMPTY;
        }
        let key = (a.min(b), a.max(b), root_is_wildcard);
        if let Some(id) = self.merged.get(&key) {
            return *id;
        }
        let merged = match (&self.nodes[a as usize], &self.nodes[b as usize]) {
            (&Stack::One((below_a, to_a)), &Stack::One((below_b, to_b))) => {
                if to_a == to_b {
                    let below = self.merge(below_a, below_b, root_is_wildcard);
                    self.push(below, to_a)
                } else {
                    let mut branches = [(below_a, to_a), (below_b, to_b)];
                    branches.sort_by_key(|branch| branch.1);
                    self.intern(Stack::Many(Box::new(branches)))
                }
            }
            _ => self.merge_branches(a, b, root_is_wildcard),
        };
        self.merged.insert(key, merged);
        merged
    }

    fn merge_branches(&mut self, a: StackId, b: StackId, root_is_wildcard: bool) -> StackId {
        let left = self.branches(a).to_vec();
        let right = self.branches(b).to_vec();
        let total = left.len() + right.len();
        let mut branches = Vec::with_capacity(total);
        let (mut i, mut j) = (0, 0);
        while let (Some(&(below_a, to_a)), Some(&(below_b, to_b))) = (left.get(i), right.get(j)) {
            match to_a.cmp(&to_b) {
                Ordering::Equal => {
                    branches.push((self.merge(below_a, below_b, root_is_wildcard), to_a));
                    i += 1;
                    j += 1;
                }
                Ordering::Less => {
                    branches.push((below_a, to_a));
                    i += 1;
                }
                Ordering::Greater => {
                    branches.push((below_b, to_b));
                    j += 1;
                }
            }
        }
        branches.extend_from_slice(&left[i..]);
        branches.extend_from_slice(&right[j..]);
        if let [(below, to)] = branches[..]
            && total > 1
        {
            return self.push(below, to);
        }
        self.intern(Stack::Many(branches.into()))
    }
}
