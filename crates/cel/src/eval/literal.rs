//! Making lists, maps and messages.

use super::{Machine, same_go_key};
use crate::{ast::Name, cost, mutation, program::*, val::Val, wrapper};

impl<'a> Machine<'a> {
    #[inline(never)]
    pub(super) fn eval_list(&mut self, id: NodeId, elements: &'a [NodeId], optional: &[bool]) -> Val<'a> {
        let mut items = bumpalo::collections::Vec::with_capacity_in(elements.len(), self.context.bump());
        let mut failed = None;
        for (i, &element) in elements.iter().enumerate() {
            let mut value = self.eval(element);
            if !value.is_error() && optional[i] {
                match value {
                    Val::Optional(None) => continue,
                    Val::Optional(Some(inner)) => value = *inner,
                    other => {
                        value = self.context.error(format_args!(
                            "cannot initialize optional list element from non-optional value {}",
                            self.context.display(other)
                        ));
                    }
                }
            }
            if value.is_error() {
                failed = Some(value);
                if i + 1 < elements.len() {
                    self.stop_early();
                }
                break;
            }
            items.push(value);
        }
        let value = failed.unwrap_or_else(|| Val::List(items.into_bump_slice()));
        self.charge_literal(id, elements, cost::LIST, value);
        value
    }

    fn charge_literal(&mut self, id: NodeId, parts: &[NodeId], price: u64, value: Val<'a>) {
        if let Some(trace) = &mut self.trace {
            let _ = trace.drop_args(parts);
        }
        self.charge(price);
        self.observe_value(id, value);
    }

    #[inline(never)]
    pub(super) fn eval_map(&mut self, id: NodeId, entries: &'a [(NodeId, NodeId, bool)]) -> Val<'a> {
        let mut made: bumpalo::collections::Vec<'a, (Val<'a>, Val<'a>)> =
            bumpalo::collections::Vec::with_capacity_in(entries.len(), self.context.bump());
        let mut failed = None;
        for (i, &(key, value, optional)) in entries.iter().enumerate() {
            let key = self.eval(key);
            if key.is_error() {
                failed = Some(key);
                self.stop_early();
                break;
            }
            let mut value = self.eval(value);
            if !value.is_error() && optional {
                match value {
                    Val::Optional(None) => {
                        made.retain(|(known, _)| !same_go_key(known, &key));
                        continue;
                    }
                    Val::Optional(Some(inner)) => value = *inner,
                    other => {
                        value = self.context.error(format_args!(
                            "cannot initialize optional entry '{}' from non-optional value {}",
                            self.context.display(key),
                            self.context.display(other)
                        ));
                    }
                }
            }
            if value.is_error() {
                failed = Some(value);
                if i + 1 < entries.len() {
                    self.stop_early();
                }
                break;
            }
            match made.iter_mut().find(|(known, _)| same_go_key(known, &key)) {
                Some(known) => known.1 = value,
                None => made.push((key, value)),
            }
        }
        let value = failed.unwrap_or_else(|| Val::Map(made.into_bump_slice()));
        let parts: Vec<NodeId> = match self.trace {
            Some(_) => entries.iter().flat_map(|&(key, value, _)| [key, value]).collect(),
            None => Vec::new(),
        };
        self.charge_literal(id, &parts, cost::MAP, value);
        value
    }

    #[inline(never)]
    pub(super) fn eval_struct(&mut self, id: NodeId, name: &str, fields: &'a [(Name, NodeId, bool)]) -> Val<'a> {
        let mut failed = None;
        let mut values = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            let value = self.eval(*value);
            match value {
                Val::Error(_) => {
                    failed = Some(value);
                    break;
                }
                Val::Optional(inner) if *optional => values.extend(inner.map(|inner| (&**field, *inner))),
                value => values.push((&**field, value)),
            }
        }
        let structures = self.context.profile.library().structures();
        let make = structures.iter().find(|s| s.name == name).and_then(|s| s.make);
        let value = failed.unwrap_or_else(|| match make {
            Some(make) => make(&self.context, &values),
            None if mutation::is_mutation_type(name) => mutation::make(&self.context, name, &values),
            None => wrapper::make(&self.context, name, values.last().copied()),
        });
        let parts: Vec<NodeId> = fields.iter().map(|(_, value, _)| *value).collect();
        self.charge_literal(id, &parts, cost::STRUCT, value);
        value
    }
}
