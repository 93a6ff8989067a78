//! Objects, maps and texts that mutations make: typed objects, maps with optional entries, and paths with positions in them.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/mutation` on cel-go, by way of `kyvtest_cel::{eval, mutation}`.

use std::{rc::Rc, sync::Arc};

use kyvtest_cel::{
    mutation,
    program::{Fold, FoldKind, NodeId},
};

use super::{Reader, renamed};
use crate::body::{
    changed::{Changed, Entry, Piece, joined},
    formula::Formula,
    value::{Part, Result, Sym, Value, unsupported},
};

/// Whether a value is one that only mutations make: functions and operators are not modelled for it unless they are named here.
pub(super) fn is_made(sym: &Sym) -> bool {
    matches!(sym, Sym::Changed(_) | Sym::Position(..) | Sym::Pointer(_))
}

/// The sum of two texts of which one has positions in it.
pub(super) fn added(a: &Sym, b: &Sym) -> Result<Value> {
    let pieces = |sym: &Sym| -> Option<Vec<Piece>> {
        match sym {
            Sym::Text(text) => Some(vec![Piece::Text(Arc::clone(text))]),
            Sym::Pointer(pieces) => Some(pieces.to_vec()),
            _ => None,
        }
    };
    match (pieces(a), pieces(b)) {
        (Some(a), Some(b)) => Ok(Value::of(Sym::Pointer(joined(a.into_iter().chain(b))))),
        _ => unsupported("a sum of made values"),
    }
}

/// A function of a made value.
pub(super) fn of_made(name: &str, args: &[Sym]) -> Result<Value> {
    match (name, args) {
        ("string", [Sym::Position(bound, _)]) => Ok(Value::of(Sym::Pointer(Rc::from([Piece::Position(*bound)])))),
        ("string", [Sym::Pointer(pieces)]) => Ok(Value::of(Sym::Pointer(Rc::clone(pieces)))),
        ("dyn", [sym]) => Ok(Value::of(sym.clone())),
        ("optional.of", [sym]) => Ok(Value::of(Sym::Optional(Some(Rc::new(Value::of(sym.clone())))))),
        ("__orValueCompat__", [Sym::Optional(None), other]) => Ok(Value::of(other.clone())),
        ("__orValueCompat__", [Sym::Optional(Some(inner)), _]) => Ok((**inner).clone()),
        ("__orValueCompat__", [sym, _]) => Ok(Value::of(sym.clone())),
        _ => unsupported(format!("`{name}` of a made value")),
    }
}

impl<'a> Reader<'a, '_> {
    /// A typed object.
    pub(super) fn object(&mut self, name: &str, fields: &'a [(Arc<str>, NodeId, bool)]) -> Result<Value> {
        if !mutation::is_object_type(name) && name != mutation::JSON_PATCH {
            return unsupported("a message literal");
        }
        let mut made = Changed {
            type_name: Some(Arc::from(name)),
            ..Changed::default()
        };
        let mut errors = Vec::new();
        for (key, value, optional) in fields {
            let entry = self.made_entry(*value, *optional, &mut errors)?;
            made.set(key, entry);
        }
        Ok(self.unless(&errors, made))
    }

    /// A map of which some entries may be absent.
    pub(super) fn optional_entries(&mut self, entries: &[(NodeId, NodeId, bool)]) -> Result<Value> {
        let mut made = Changed::default();
        let mut errors = Vec::new();
        for (key, value, optional) in entries {
            let key = self.read(*key)?;
            let Some(Sym::Text(key)) = key.single() else {
                return unsupported("a map literal with computed keys");
            };
            if made.get(key).is_some() {
                return unsupported("a map literal with a key twice");
            }
            let key = Arc::clone(key);
            let entry = self.made_entry(*value, *optional, &mut errors)?;
            made.set(&key, entry);
        }
        Ok(self.unless(&errors, made))
    }

    fn unless(&mut self, errors: &[Formula], made: Changed) -> Value {
        let error = self.arena.or(errors.iter().copied());
        let fine = self.arena.not(error);
        let cases = [(fine, Sym::Changed(Rc::new(made))), (error, Sym::Error)];
        self.arena.value(cases)
    }

    fn made_entry(&mut self, value: NodeId, optional: bool, errors: &mut Vec<Formula>) -> Result<Entry> {
        let value = self.read(value)?;
        let mut present = Vec::new();
        let mut kept = Vec::new();
        for (guard, sym) in value.0 {
            match sym {
                Sym::Error => errors.push(guard),
                Sym::Optional(None) if optional => {}
                Sym::Optional(Some(inner)) if optional => {
                    present.push(guard);
                    for (own, sym) in &inner.0 {
                        let own = self.arena.and([guard, *own]);
                        match sym {
                            Sym::Error => errors.push(own),
                            sym => kept.push((own, sym.clone())),
                        }
                    }
                }
                _ if optional => errors.push(guard),
                sym => {
                    present.push(guard);
                    kept.push((guard, sym));
                }
            }
        }
        Ok(Entry {
            present: self.arena.or(present),
            value: self.arena.value(kept),
        })
    }

    /// `transformList` over all elements of one list: the first variable is the position.
    pub(super) fn with_positions(&mut self, fold: &'a Fold, parts: &[Part]) -> Result<Value> {
        let [part] = parts else {
            return unsupported("a comprehension with positions of a list");
        };
        let is_map = matches!(fold.kind, FoldKind::Map { .. });
        let part = renamed(self.arena, part, &self.bound.clone())?;
        match &part {
            Part::Each {
                outer,
                bound,
                keep: Formula::TRUE,
                value,
                ..
            } if outer.is_empty() && is_map => {
                let position = Value::of(Sym::Position(*bound, Rc::new(value.clone())));
                self.run(fold, &[part.with(Formula::TRUE, position)])
            }
            _ => unsupported("a comprehension with positions of a list"),
        }
    }
}
