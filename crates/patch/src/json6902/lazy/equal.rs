//! Equality of values, for `test`.

use super::{Container, Doc, Failure, NodeId, Outcome, Store};
use crate::json6902::raw;

impl Store {
    /// Whether two nodes are equal, as far as upstream gets: numbers by text, a null in an array is a panic.
    pub(in crate::json6902) fn equal(&mut self, left: NodeId, right: Option<NodeId>) -> Outcome<bool> {
        match self.try_open(left) {
            Some(left) => self.equal_container(left, right),
            None => {
                let right = right.ok_or_else(Failure::nil_pointer)?;
                if self.nodes[right.0].part.is_some() {
                    return Ok(false);
                }
                let (left, right) = (self.compact(left), self.compact(right));
                if !self.is_v4() && left.starts_with('"') && right.starts_with('"') {
                    return Ok(raw::string(&left) == raw::string(&right));
                }
                Ok(left == right)
            }
        }
    }

    fn compact(&self, id: NodeId) -> String {
        let mut out = String::new();
        if let Some(raw) = self.raw(id) {
            raw::compact(&mut out, raw.as_str(), false);
        }
        out
    }

    pub(in crate::json6902) fn equal_container(&mut self, left: Container, right: Option<NodeId>) -> Outcome<bool> {
        let right = right.ok_or_else(Failure::nil_pointer)?;
        let part = self.nodes[right.0].part;
        match left {
            Container::Doc(left) => match part.or_else(|| self.try_doc(right)) {
                Some(Container::Doc(right)) => self.equal_docs(left, right),
                _ => Ok(false),
            },
            Container::List(left) => {
                let part = part.filter(|part| matches!(part, Container::List(_)));
                match part.or_else(|| self.try_list(right)) {
                    Some(Container::List(right)) => self.equal_lists(left, right),
                    _ => Ok(false),
                }
            }
        }
    }

    fn equal_docs(&mut self, left: usize, right: usize) -> Outcome<bool> {
        let members = |doc: &Doc| doc.members.clone().unwrap_or_default();
        let (left, right) = (members(&self.docs[left]), members(&self.docs[right]));
        if left.len() != right.len() {
            return Ok(false);
        }
        for (key, value) in left {
            let Some((_, other)) = right.iter().find(|(name, _)| *name == key) else {
                return Ok(false);
            };
            let is_equal = match (value, other) {
                (None, None) => true,
                (Some(value), Some(other)) => self.equal(value, Some(*other))?,
                _ => false,
            };
            if !is_equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equal_lists(&mut self, left: usize, right: usize) -> Outcome<bool> {
        let (left, right) = (self.list(left)?.items.clone(), self.list(right)?.items.clone());
        if left.len() != right.len() {
            return Ok(false);
        }
        for (item, other) in left.into_iter().zip(right) {
            let item = item.ok_or_else(Failure::nil_pointer)?;
            if !self.equal(item, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
