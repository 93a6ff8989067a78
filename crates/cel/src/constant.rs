//! Constants of a program: values that it owns, and their conversion to evaluation values.

use super::{ast::Literal, context::Context, eval::same_go_key, program::Constant, val::Val};
use kyvtest_go_compat::value::{Builder, Value};

pub(super) fn literal_constant(literal: &Literal) -> Constant {
    match literal {
        Literal::Null => Constant::Plain(Val::Null),
        Literal::Bool(b) => Constant::Plain(Val::Bool(*b)),
        Literal::Int(i) => Constant::Plain(Val::Int(*i)),
        Literal::Uint(u) => Constant::Plain(Val::Uint(*u)),
        Literal::Double(d) => Constant::Plain(Val::Double(*d)),
        Literal::String(text) => Constant::Text((**text).into()),
        Literal::Bytes(bytes) => Constant::Bytes((**bytes).into()),
    }
}

impl Constant {
    /// Converts the constant to an evaluation value.
    #[inline]
    pub fn value<'a>(&'a self, context: &Context<'a>) -> Val<'a> {
        match self {
            Constant::Plain(value) => *value,
            Constant::Text(text) => Val::String(text),
            Constant::Bytes(bytes) => Val::Bytes(bytes),
            Constant::Type(name) => Val::Type(name),
            Constant::Document(document) => document.root().into(),
            Constant::List(_) | Constant::Map(_) => self.made(context),
        }
    }

    /// The constants that have to be rebuilt for each evaluation.
    #[cold]
    fn made<'a>(&'a self, context: &Context<'a>) -> Val<'a> {
        match self {
            Constant::List(items) => {
                let items: Vec<Val<'a>> = items.iter().map(|item| item.value(context)).collect();
                context.list(&items)
            }
            Constant::Map(entries) => {
                let entries: Vec<(Val<'a>, Val<'a>)> = entries
                    .iter()
                    .map(|(key, value)| (key.value(context), value.value(context)))
                    .collect();
                context.map(&entries)
            }
            Constant::Plain(_) | Constant::Text(_) | Constant::Bytes(_) | Constant::Type(_) | Constant::Document(_) => {
                self.value(context)
            }
        }
    }

    /// Stores a value; `None` for opaque values.
    pub(crate) fn from_value(value: Val<'_>) -> Option<Self> {
        Some(match value {
            Val::Null => Constant::Plain(Val::Null),
            Val::Bool(b) => Constant::Plain(Val::Bool(b)),
            Val::Int(i) => Constant::Plain(Val::Int(i)),
            Val::Uint(u) => Constant::Plain(Val::Uint(u)),
            Val::Double(d) => Constant::Plain(Val::Double(d)),
            Val::Duration(d) => Constant::Plain(Val::Duration(d)),
            Val::Timestamp(t) => Constant::Plain(Val::Timestamp(t)),
            Val::String(text) => Constant::Text(text.into()),
            Val::Bytes(bytes) => Constant::Bytes(bytes.into()),
            Val::Type(name) => Constant::Type(name.into()),
            Val::DocumentList(list) => Constant::document(Value::List(list), list.is_literal()),
            Val::DocumentMap(map) => Constant::document(Value::Map(map), map.is_literal()),
            Val::List(items) => Constant::list(
                items
                    .iter()
                    .map(|item| Constant::from_value(*item))
                    .collect::<Option<_>>()?,
            ),
            Val::Map(entries) => Constant::map(
                entries
                    .iter()
                    .map(|(key, value)| Some((Constant::from_value(*key)?, Constant::from_value(*value)?)))
                    .collect::<Option<_>>()?,
            ),
            Val::Optional(_) | Val::Opaque(_) | Val::Object(_) | Val::Variables | Val::Error(_) => return None,
        })
    }

    /// Copies a list or map; a folded literal stays marked as one.
    fn document(value: Value<'_>, is_literal: bool) -> Self {
        let document = value.to_document();
        Constant::Document(if is_literal { document.into_literal() } else { document })
    }

    pub(super) fn list(items: Vec<Constant>) -> Self {
        if !items.iter().all(Constant::is_json) {
            return Constant::List(items.into());
        }
        let mut builder = Builder::new();
        builder.begin_list();
        for item in &items {
            item.add_to(&mut builder);
        }
        builder.end();
        Constant::Document(builder.finish().into_literal())
    }

    pub(super) fn map(entries: Vec<(Constant, Constant)>) -> Self {
        if entries
            .iter()
            .all(|(key, value)| matches!(key, Constant::Text(_)) && value.is_json())
        {
            let mut builder = Builder::new();
            builder.begin_map();
            for (key, value) in &entries {
                if let Constant::Text(key) = key {
                    builder.key(key);
                    value.add_to(&mut builder);
                }
            }
            builder.end();
            return Constant::Document(builder.finish().into_literal());
        }
        let mut kept: Vec<(Constant, Constant)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match kept.iter_mut().find(|(known, _)| known.is_same_key(&key)) {
                Some(known) => known.1 = value,
                None => kept.push((key, value)),
            }
        }
        Constant::Map(kept.into())
    }

    /// Whether both are the same key of a Go map: same type and value.
    fn is_same_key(&self, other: &Constant) -> bool {
        match (self, other) {
            (Constant::Text(a), Constant::Text(b)) => a == b,
            (Constant::Plain(a), Constant::Plain(b)) => same_go_key(a, b),
            _ => false,
        }
    }

    fn is_json(&self) -> bool {
        matches!(
            self,
            Constant::Plain(Val::Null | Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_))
                | Constant::Text(_)
                | Constant::Document(_)
        )
    }

    fn add_to(&self, builder: &mut Builder) {
        match self {
            Constant::Plain(Val::Bool(b)) => builder.bool(*b),
            Constant::Plain(Val::Int(i)) => builder.int(*i),
            Constant::Plain(Val::Uint(u)) => builder.uint(*u),
            Constant::Plain(Val::Double(d)) => builder.double(*d),
            Constant::Text(text) => builder.string(text),
            Constant::Document(document) => builder.value(document.root()),
            // INVARIANT: only called if `is_json` holds, so the rest is null.
            _ => builder.null(),
        }
    }

    pub(super) fn go_type(&self) -> &'static str {
        match self {
            Constant::Plain(value) => value.go_type(),
            Constant::Text(_) => "types.String",
            Constant::Bytes(_) => "types.Bytes",
            Constant::Type(_) => "*types.Type",
            Constant::Document(document) => Val::from(document.root()).go_type(),
            Constant::List(_) => "*types.baseList",
            Constant::Map(_) => "*types.baseMap",
        }
    }
}
