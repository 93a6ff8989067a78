//! YAML text to documents.
//!
//! Upstream counterpart: `sigs.k8s.io/yaml`, whose way is by JSON: numbers are those of [`decode_number`](super::decode_number).

use super::{Builder, Document};
use crate::yaml::{self, Kind, Node};

impl Document {
    /// Reads the first document of a YAML text.
    ///
    /// # Errors
    /// Where the text is not YAML, in the words of the Go library.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let tree = yaml::read_first(text, yaml::Mode::Lax, &yaml::Limits::default())
            .map_err(|error| format!("error converting YAML to JSON: {}", error.go_text()))?;
        Ok(Self::from(tree.root()))
    }
}

impl From<Node<'_>> for Document {
    fn from(node: Node<'_>) -> Self {
        let mut builder = Builder::new();
        builder.yaml(node);
        builder.finish()
    }
}

impl Builder {
    /// Adds a copy of a YAML node.
    pub fn yaml(&mut self, node: Node<'_>) {
        match node.kind() {
            Kind::Null => self.null(),
            Kind::Bool(b) => self.bool(b),
            Kind::Int(i) => self.int(i),
            // JSON has no other integers.
            Kind::Uint(u) => self.double(u as f64),
            Kind::Float(f) => self.value(super::decode_number(f)),
            Kind::Str(text) => self.string(text),
            Kind::Seq(items) => {
                self.begin_list();
                for item in items.iter() {
                    self.yaml(item);
                }
                self.end();
            }
            Kind::Map(entries) => {
                self.begin_map();
                for entry in entries.iter() {
                    self.key(entry.key);
                    self.yaml(entry.value);
                }
                self.end();
            }
        }
    }
}
