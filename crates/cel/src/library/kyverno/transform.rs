//! `listObjToMap(keys, values, keyField, valueField)`: a map from one list of objects to another of equal length.
//!
//! Upstream counterpart: SDK `libs/transform`. A Go panic of upstream is an `internal error: …`, as in cel-go.

use super::native;
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    for (name, id) in [
        ("listObjToMap", "list_of_object_to_map_non_prefixed"),
        ("transform.listObjToMap", "list_of_object_to_map_prefixed"),
    ] {
        let list = || Type::list(Type::Dyn);
        library.add(
            name,
            [global(
                id,
                &[list(), list(), Type::String, Type::String],
                Type::map(Type::Dyn, Type::Dyn),
            )
            .variadic(list_to_map)],
        );
    }
}

fn list_to_map<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [keys, values, Val::String(key_field), Val::String(value_field)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    for list in [keys, values] {
        if let Err(error) = native::convertible(context, *list, 0) {
            return error;
        }
    }
    if keys.len() != values.len() {
        return context.error(format_args!(
            "listObjToMap must take lists of equal length. list1: {}, list2: {}",
            keys.len(),
            values.len()
        ));
    }
    let mut entries: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(keys.len());
    let mut places = rustc_hash::FxHashMap::<&str, usize>::default();
    for (key_object, value_object) in keys.list_iter().zip(values.list_iter()) {
        let key = match field(context, key_object, key_field) {
            Ok(Some(Val::String(key))) => key,
            Ok(_) => {
                return Val::Error("the passed key name cannot be handled as a string in the key object list");
            }
            Err(error) => return error.text,
        };
        let value = match field(context, value_object, value_field) {
            Ok(value) => value.unwrap_or(Val::Null),
            Err(NotAnObject { panics: true, text }) => return text,
            Err(_) => {
                return Val::Error("object cannot be handled as a map string to any in the value object list");
            }
        };
        if let Some(&place) = places.get(key) {
            entries[place].1 = value;
        } else {
            places.insert(key, entries.len());
            entries.push((Val::String(key), value));
        }
    }
    context.map(&entries)
}

/// A list element that is not an object.
struct NotAnObject<'a> {
    /// Upstream's Go code panics.
    panics: bool,
    text: Val<'a>,
}

fn field<'a>(context: &Context<'a>, object: Val<'a>, name: &str) -> Result<Option<Val<'a>>, NotAnObject<'a>> {
    if let Val::Optional(Some(inner)) = object {
        return field(context, *inner, name);
    }
    if !object.is_map() {
        let text = match go_type(object) {
            Some(found) => context.error(format_args!(
                "internal error: interface conversion: interface {{}} is {found}, not map[interface {{}}]interface {{}}"
            )),
            None => native::mismatch(context, object, "interface {}"),
        };
        return Err(NotAnObject { panics: true, text });
    }
    if let Val::Map(entries) = object
        && let Some((key, _)) = entries.iter().find(|(key, _)| !matches!(key, Val::String(_)))
    {
        let found = go_type(*key).unwrap_or_default();
        let text = context.error(format_args!("failed to convert key to a string, {found}"));
        return Err(NotAnObject { panics: false, text });
    }
    Ok(object.map_get(&Val::String(name)))
}

/// The Go type that a value converts to if any type is accepted.
fn go_type(value: Val<'_>) -> Option<&'static str> {
    Some(match value {
        Val::Null => "structpb.NullValue",
        Val::Bool(_) => "bool",
        Val::Int(_) => "int64",
        Val::Uint(_) => "uint64",
        Val::Double(_) => "float64",
        Val::String(_) => "string",
        Val::Bytes(_) => "[]uint8",
        Val::Duration(_) => "time.Duration",
        Val::Timestamp(_) => "time.Time",
        Val::List(_) | Val::DocumentList(_) => "[]interface {}",
        Val::Opaque(opaque) => match opaque.type_name() {
            "kyverno.image" if opaque.display().contains('@') => "name.Digest",
            "kyverno.image" => "name.Tag",
            "kubernetes.Quantity" => "*resource.Quantity",
            "kubernetes.URL" => "*url.URL",
            "net.IP" => "netip.Addr",
            "net.CIDR" => "netip.Prefix",
            "kubernetes.Semver" => "semver.Version",
            _ => return None,
        },
        _ => return None,
    })
}
