//! Writes the tree of a Go type as JSON: which empty fields are left out, and what the others look like.
//!
//! Upstream counterpart: Go's `encoding/json` on the versioned types; for stored objects after a round trip through the
//! storage encoding (protobuf), which does not tell an empty list from none.

use kyvtest_go_compat::value::{Builder, Document, Key};

use crate::{
    node::Node,
    table::{Field, Omit, Shape, TABLE, TypeId},
};

/// Which of the two forms of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// What validating admission sees.
    Seen,
    /// What the API server returns and stores.
    Stored,
}

/// Writes a struct as a document.
pub(crate) fn document(id: TypeId, node: &Node<'_>, form: Form) -> Document {
    let mut out = Builder::new();
    object(id, node, form, &mut out);
    out.finish()
}

/// Whether both forms of a struct are the same.
pub(crate) fn forms_agree(id: TypeId, node: &Node<'_>) -> bool {
    let found = TABLE.get(id);
    node.entries().iter().all(|(name, value)| {
        let Some(field) = found.field(Key::new(name)) else { return true };
        agrees(&field.shape, value) && !(field.omit == Omit::Never && matches!(value, Node::List(items) if items.is_empty()))
    })
}

fn agrees(shape: &Shape, node: &Node<'_>) -> bool {
    match (shape, node) {
        (Shape::Struct(id), Node::Map(_)) => forms_agree(*id, node),
        (Shape::List(item), Node::List(items)) => items.iter().all(|node| agrees(item, node)),
        (Shape::Map(item), Node::Map(entries)) => entries.iter().all(|(_, node)| agrees(item, node)),
        (Shape::Bytes, Node::Null) => false,
        _ => true,
    }
}

/// Writes a struct as part of a document.
pub(crate) fn part(id: TypeId, node: &Node<'_>, form: Form, out: &mut Builder) {
    object(id, node, form, out);
}

fn object(id: TypeId, node: &Node<'_>, form: Form, out: &mut Builder) {
    let found = TABLE.get(id);
    out.begin_map();
    for (name, value) in node.entries() {
        let Some(field) = found.field(Key::new(name)) else { continue };
        if is_written(field, value) {
            out.key(field.name);
            let empty = field.omit == Omit::Never && value.is_empty();
            match value {
                Node::List(_) if empty && form == Form::Stored => out.null(),
                Node::Null => write_zero(field, out),
                _ => write(&field.shape, value, form, out),
            }
        }
    }
    for &position in &found.always {
        let field = &found.fields[position as usize];
        if !node.entries().iter().any(|(name, value)| name == field.name && is_written(field, value)) {
            out.key(field.name);
            write_zero(field, out);
        }
    }
    out.end();
}

fn is_written(field: &Field, value: &Node<'_>) -> bool {
    match (value, field.omit) {
        (Node::Null, _) => false,
        (_, Omit::Never) => true,
        _ if field.pointer => true,
        (value, _) => match field.shape {
            Shape::Struct(_) | Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime | Shape::Raw => true,
            _ => !value.is_empty(),
        },
    }
}

fn write(shape: &Shape, node: &Node<'_>, form: Form, out: &mut Builder) {
    match (shape, node) {
        (Shape::Struct(id) | Shape::PropsOrBool(id) | Shape::PropsOrArray(id) | Shape::PropsOrStrings(id), Node::Map(_)) => {
            object(*id, node, form, out);
        }
        (Shape::PropsOrArray(id), Node::List(items)) => {
            out.begin_list();
            items.iter().for_each(|item| object(*id, item, form, out));
            out.end();
        }
        (Shape::List(item), Node::List(items)) => {
            out.begin_list();
            items.iter().for_each(|node| write(item, node, form, out));
            out.end();
        }
        (Shape::Map(item), Node::Map(entries)) => {
            out.begin_map();
            for (key, value) in entries {
                out.key(key);
                write(item, value, form, out);
            }
            out.end();
        }
        (Shape::Bytes, Node::Null) if form == Form::Stored => out.string(""),
        _ => node.write(out),
    }
}

fn write_zero(field: &Field, out: &mut Builder) {
    if field.pointer {
        return out.null();
    }
    match field.shape {
        Shape::Text => out.string(""),
        Shape::Bool => out.bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString => out.int(0),
        Shape::Quantity => out.string("0"),
        Shape::Struct(id) => object(id, &Node::EMPTY, Form::Seen, out),
        _ => out.null(),
    }
}
