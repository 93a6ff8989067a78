//! The types that mutating policies construct: `Object` with every type below it, and `JSONPatch`.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/mutation` (Kubernetes 1.36).
//!
//! Known deviation: upstream walks the fields of an object in any order, so several mismatches come in any order; here in
//! that of the expression.

use super::{
    context::Context,
    val::{Object, Val},
};

/// The type of the operations of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";
/// The type of an object in an apply configuration.
pub const OBJECT: &str = "Object";

/// Whether a name is `Object` or below it.
pub fn is_object_type(name: &str) -> bool {
    name.strip_prefix(OBJECT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether values of a type are made by [`make`].
pub(super) fn is_mutation_type(name: &str) -> bool {
    name == JSON_PATCH || is_object_type(name)
}

/// Makes a value of `Object`, of a type below it, or of `JSONPatch`.
pub(super) fn make<'a>(context: &Context<'a>, name: &str, fields: &[(&'a str, Val<'a>)]) -> Val<'a> {
    if name == JSON_PATCH {
        for (field, value) in fields {
            if matches!(*field, "op" | "path" | "from") && !matches!(value, Val::String(_)) {
                let found = native_type(value);
                return context.error(format_args!("unexpected type {found} for JSONPatchType '{field}' field"));
            }
        }
    }
    let bump = context.bump();
    Val::Object(bump.alloc(Object {
        type_name: context.text(name),
        fields: bump.alloc_slice_copy(fields),
    }))
}

/// The Go type of a value, as `%T` prints it.
fn native_type(value: &Val<'_>) -> &'static str {
    match value {
        Val::Null => "structpb.NullValue",
        Val::Bool(_) => "bool",
        Val::Int(_) => "int64",
        Val::Uint(_) => "uint64",
        Val::Double(_) => "float64",
        Val::Bytes(_) => "[]uint8",
        Val::Duration(_) => "time.Duration",
        Val::Timestamp(_) => "time.Time",
        Val::List(_) => "[]ref.Val",
        Val::DocumentList(_) => "[]interface {}",
        Val::Map(_) => "map[ref.Val]ref.Val",
        Val::DocumentMap(_) | Val::Object(_) => "map[string]interface {}",
        _ => "string",
    }
}

/// Returns where the type of an object differs from the path of fields to it, each as upstream words it.
pub fn type_mismatches(object: &Object<'_>) -> Vec<String> {
    let mut found = Vec::new();
    mismatches(Val::Object(object), object.type_name, &mut found);
    found
}

fn mismatches(value: Val<'_>, path: &str, found: &mut Vec<String>) {
    match value {
        Val::Object(object) => {
            let name = object.type_name;
            if name != path {
                found.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
                ));
            }
            for (field, value) in object.fields {
                mismatches(*value, &format!("{path}.{field}"), found);
            }
        }
        Val::List(items) => items.iter().for_each(|item| mismatches(*item, path, found)),
        Val::Map(entries) => entries.iter().for_each(|(_, value)| mismatches(*value, path, found)),
        _ => {}
    }
}
