//! `yaml.parse(text)`.
//!
//! Upstream counterpart: SDK `libs/yaml` over `sigs.k8s.io/yaml`: the first document, by way of JSON, so that all numbers
//! are doubles.

use super::{Receiver, declare_receiver, native};
use crate::{
    context::Context,
    decl::{Library, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::value::{Builder, Document, Value};

static YAML: Receiver = Receiver("yaml.Yaml");

pub(super) fn declare(library: &mut Library) {
    declare_receiver(library, "yaml", &YAML);
    library.add(
        "parse",
        [member("parse_string_dyn", &[Type::opaque(YAML.0), Type::String], Type::Dyn).binary(parse)],
    );
}

fn parse<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, text] = args else { return NO_SUCH_OVERLOAD };
    let text = match native::string(context, *text) {
        Ok(text) => text,
        Err(error) => return error,
    };
    match Document::from_yaml(text) {
        Ok(document) => {
            let mut builder = Builder::new();
            add(&mut builder, document.root());
            Val::from(context.document(builder.finish()))
        }
        Err(error) => context.error(format_args!("{error}")),
    }
}

/// A copy in which all numbers are doubles.
fn add(builder: &mut Builder, value: Value<'_>) {
    match value {
        Value::Int(i) => builder.double(i as f64),
        Value::Uint(u) => builder.double(u as f64),
        Value::List(list) => {
            builder.begin_list();
            list.iter().for_each(|item| add(builder, item));
            builder.end();
        }
        Value::Map(map) => {
            builder.begin_map();
            for (key, item) in map.iter() {
                builder.key(key.text());
                add(builder, item);
            }
            builder.end();
        }
        scalar => builder.value(scalar),
    }
}
