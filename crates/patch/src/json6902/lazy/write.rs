//! Values as JSON text.

use super::{Container, Doc, Failure, NodeId, Outcome, Store};
use crate::json6902::raw::{self, Raw};
use kyvtest_go_compat::value::go_json;

impl Store {
    /// A copy of a value as text.
    pub(in crate::json6902) fn copy(&mut self, id: NodeId) -> Outcome<NodeId> {
        let mut out = String::new();
        self.write_node(&mut out, Some(id), self.options.escape_html)?;
        Ok(self.node(Some(Raw::new(&out))))
    }

    pub(in crate::json6902) fn write(&self, container: Container) -> Outcome<String> {
        let mut out = String::new();
        self.write_container(&mut out, container, self.options.escape_html)?;
        Ok(out)
    }

    fn write_node(&self, out: &mut String, id: Option<NodeId>, escape: bool) -> Outcome<()> {
        let Some(node) = id.map(|id| &self.nodes[id.0]) else {
            out.push_str("null");
            return Ok(());
        };
        match (node.part, &node.raw) {
            (Some(part), _) => self.write_container(out, part, escape)?,
            (None, Some(raw)) => raw::compact(out, raw.as_str(), escape),
            (None, None) => out.push_str("null"),
        }
        Ok(())
    }

    fn write_container(&self, out: &mut String, container: Container, escape: bool) -> Outcome<()> {
        match container {
            Container::Doc(doc) => self.write_doc(out, &self.docs[doc]),
            Container::List(list) => {
                let list = &self.lists[list];
                if list.is_nil {
                    out.push_str("null");
                    return Ok(());
                }
                out.push('[');
                for (i, item) in list.items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    self.write_node(out, *item, escape)?;
                }
                out.push(']');
                Ok(())
            }
        }
    }

    fn write_doc(&self, out: &mut String, doc: &Doc) -> Outcome<()> {
        let Some(members) = &doc.members else {
            if self.is_v4() {
                out.push_str("null");
                return Ok(());
            }
            let text = "json: error calling MarshalJSON for type *jsonpatch.partialDoc: invalid value, expected object";
            return Err(Failure::Other(text.to_owned()));
        };
        let mut order: Vec<_> = members.iter().collect();
        if self.is_v4() {
            order.sort_by(|left, right| left.0.cmp(&right.0));
        }
        out.push('{');
        for (i, (key, value)) in order.into_iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            go_json::write_escaped(out, key, doc.escape, self.is_v4());
            out.push(':');
            self.write_node(out, *value, doc.escape)?;
        }
        out.push('}');
        Ok(())
    }
}
