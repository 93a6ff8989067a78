//! Located YAML trees to documents, and documents to YAML text.
//!
//! Numbers are converted like Kubernetes' JSON decoder does: `1.0` is the integer 1.

use super::{Builder, Document, Value};
use crate::yaml::{self, Kind, Node, Number, emit::Emitter};

impl Document {
    /// Parses the first document of a YAML text.
    ///
    /// # Errors
    /// If the text is not YAML, with the message of `sigs.k8s.io/yaml`.
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
            Kind::Int(_) | Kind::Uint(_) | Kind::Float(_) => match node.number() {
                Some(Number::Int(i)) => self.int(i),
                Some(Number::Float(d)) => self.double(d),
                None => self.null(),
            },
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

impl Value<'_> {
    /// YAML text that `kubectl` reads back as the same value, entries in document order.
    pub fn to_yaml(self) -> String {
        let mut emitter = Emitter::new();
        self.emit(&mut emitter);
        emitter.finish()
    }

    /// Writes the value to an emitter, for files with several documents.
    pub fn emit(self, emitter: &mut Emitter) {
        match self {
            Value::Null => emitter.null(),
            Value::Bool(b) => emitter.bool(b),
            Value::Int(i) => emitter.int(i),
            Value::Uint(u) => emitter.uint(u),
            Value::Double(d) => emitter.float(d),
            Value::String(text) => emitter.str(text),
            Value::List(list) => {
                emitter.begin_seq();
                for item in list.iter() {
                    item.emit(emitter);
                }
                emitter.end();
            }
            Value::Map(map) => {
                emitter.begin_map();
                for (key, item) in map.iter() {
                    emitter.key(key.text());
                    item.emit(emitter);
                }
                emitter.end();
            }
        }
    }
}
