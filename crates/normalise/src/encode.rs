//! Writes the tree of a Go type as JSON: omits empty fields, and formats the others.
//!
//! Upstream counterpart: Go's `encoding/json` on the versioned types; for stored objects after a round trip through the
//! storage encoding (protobuf), which does not distinguish an empty list from none.

use kyvtest_go_compat::value::{Builder, Document};

use crate::{
    node::{Name, Node, is_name},
    table::{Field, Omit, Shape, TABLE, Type, TypeId},
};

/// The form of an object to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object of validating admission.
    Seen,
    /// The object that the API server returns and stores.
    Stored,
}

/// A struct as a document, and whether both forms are the same.
pub(crate) fn document(id: TypeId, node: &Node<'_>, form: Form) -> (Document, bool) {
    let mut writer = Writer {
        out: Builder::with_room(node.count() + 8),
        form,
        same: true,
    };
    writer.object(id, node);
    (writer.out.finish(), writer.same)
}

/// Writes a struct as part of a document.
pub(crate) fn part(id: TypeId, node: &Node<'_>, form: Form, out: &mut Builder) {
    let mut writer = Writer {
        out: std::mem::take(out),
        form,
        same: true,
    };
    writer.object(id, node);
    *out = writer.out;
}

struct Writer {
    out: Builder,
    form: Form,
    /// Whether everything written so far is the same in the other form.
    same: bool,
}

impl Writer {
    fn object(&mut self, id: TypeId, node: &Node<'_>) {
        let found = TABLE.get(id);
        self.out.begin_map();
        let mut always = found.always.len();
        for (name, value) in node.entries() {
            let Some(field) = found.own_field(name) else {
                continue;
            };
            if !is_written(field, value) {
                continue;
            }
            self.out.hashed_key(field.key());
            always -= usize::from(field.always_written());
            match value {
                Node::List(items) if field.omit == Omit::Never && items.is_empty() => {
                    self.same = false;
                    match self.form {
                        Form::Stored => self.out.null(),
                        Form::Seen => self.write(&field.shape, value),
                    }
                }
                _ => self.write(&field.shape, value),
            }
        }
        if always > 0 {
            self.missing(found, node);
        }
        self.out.end();
    }

    /// Writes fields that are never omitted, even without a value.
    fn missing(&mut self, found: &Type, node: &Node<'_>) {
        for &position in &found.always {
            let field = &found.fields[position as usize];
            let written = |(name, value): &(Name<'_>, Node<'_>)| is_name(name, field.name) && is_written(field, value);
            if !node.entries().iter().any(written) {
                self.out.hashed_key(field.key());
                self.zero(field);
            }
        }
    }

    fn write(&mut self, shape: &Shape, node: &Node<'_>) {
        match (shape, node) {
            (
                Shape::Struct(id) | Shape::PropsOrBool(id) | Shape::PropsOrArray(id) | Shape::PropsOrStrings(id),
                Node::Map(_),
            ) => self.object(*id, node),
            (Shape::PropsOrArray(id), Node::List(items)) => {
                self.out.begin_list();
                for item in items {
                    self.object(*id, item);
                }
                self.out.end();
            }
            (Shape::List(item), Node::List(items)) => {
                self.out.begin_list();
                for node in items {
                    self.write(item, node);
                }
                self.out.end();
            }
            (Shape::Map(item), Node::Map(entries)) => {
                self.out.begin_map();
                for (key, value) in entries {
                    self.out.key(key);
                    self.write(item, value);
                }
                self.out.end();
            }
            (Shape::Bytes, Node::Null) => {
                self.same = false;
                match self.form {
                    Form::Stored => self.out.string(""),
                    Form::Seen => self.out.null(),
                }
            }
            _ => node.write(&mut self.out),
        }
    }

    fn zero(&mut self, field: &Field) {
        if field.pointer {
            return self.out.null();
        }
        match field.shape {
            Shape::Text => self.out.string(""),
            Shape::Bool => self.out.bool(false),
            Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString => self.out.int(0),
            Shape::Quantity => self.out.string("0"),
            Shape::Struct(id) => self.object(id, &Node::EMPTY),
            _ => self.out.null(),
        }
    }
}

fn is_written(field: &Field, value: &Node<'_>) -> bool {
    match (value, field.omit) {
        (Node::Null, _) => false,
        (_, Omit::Never) => true,
        _ if field.pointer => true,
        (value, _) => match field.shape {
            Shape::Struct(_) | Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime | Shape::Raw => {
                true
            }
            _ => !value.is_empty(),
        },
    }
}
