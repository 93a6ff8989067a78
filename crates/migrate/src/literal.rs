//! Values of patches as CEL literals.
//!
//! Kubernetes wants the values of a list or map literal to have one type (cel-go's homogeneous aggregate literals); values of
//! different types are marked as `dyn`.

use kyvtest_go_compat::value::Data;

use crate::{
    Expr, Refusal, RefusalCode,
    names::Names,
    query::{self, Value},
};

/// The value of a scalar, whose variables are translated.
///
/// # Errors
/// A variable without a translation.
pub(crate) fn scalar(data: &Data, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let value = match data {
        Data::String(text) => query::read_text(text, names)?,
        data => Value::literal(data)?,
    };
    value.read()?;
    Ok(value)
}

/// A tree as a literal.
///
/// # Errors
/// A variable without a translation, or a value that may be null.
pub(crate) fn json(data: &Data, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    Ok(typed(data, names)?.0)
}

/// A literal and the name of its type.
fn typed(data: &Data, names: &mut Names<'_>) -> Result<(Expr, String), Refusal> {
    match data {
        Data::List(items) => {
            let items = items.iter().map(|item| typed(item, names));
            let items = items.collect::<Result<Vec<_>, _>>()?;
            let (items, ty) = unified(items);
            Ok((Expr::list(items), format!("list({ty})")))
        }
        Data::Map(entries) => {
            let mut keys = Vec::new();
            let mut values = Vec::new();
            for (key, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
                keys.push(self::key(key, names)?);
                values.push(typed(value, names)?);
            }
            let (values, ty) = unified(values);
            let entries = keys.iter().zip(values).map(|(key, value)| format!("{key}: {value}"));
            let entries: Vec<String> = entries.collect();
            let text = format!("{{{}}}", entries.join(", "));
            Ok((Expr::primary(text), format!("map({ty})")))
        }
        data => {
            let value = scalar(data, names)?;
            if value.literal.is_none() && !value.is_always_present() && !value.fails_if_read() {
                let reason = format!("`{}` may be null, which a merge takes for a deletion", value.plain());
                return Err(Refusal::new(RefusalCode::Variable, reason));
            }
            let ty = match &value.literal {
                Some(Data::String(_)) => "string",
                Some(Data::Int(_)) => "int",
                Some(Data::Bool(_)) => "bool",
                Some(Data::Double(number)) if number.trunc().to_bits() == number.to_bits() => "int",
                // What an expression yields is known to the checker alone.
                _ => value.plain().as_str(),
            };
            Ok((value.plain().clone(), ty.to_owned()))
        }
    }
}

/// A key, whose variables are translated.
///
/// # Errors
/// A variable without a translation.
pub(crate) fn key(key: &str, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    if key.starts_with("$patch") || key.starts_with("$retainKeys") {
        let reason = format!("`{key}` directs the merge; write a JSON patch by hand");
        return Err(Refusal::new(RefusalCode::Pattern, reason));
    }
    if !key.contains("{{") {
        return Ok(Expr::string(key));
    }
    let value = query::read_text(key, names)?;
    value.read()?;
    query::text_of(&value)
}

/// Values of one type: where they differ, `dyn`.
fn unified(values: Vec<(Expr, String)>) -> (Vec<Expr>, String) {
    let Some(first) = values.first().map(|(_, ty)| ty.clone()) else {
        return (Vec::new(), "dyn".to_owned());
    };
    let same = values.iter().all(|(_, ty)| *ty == first);
    if same || values.len() == 1 {
        return (values.into_iter().map(|(expr, _)| expr).collect(), first);
    }
    let marked = values.into_iter().map(|(expr, _)| Expr::function("dyn", [expr]));
    (marked.collect(), "dyn".to_owned())
}
