//! The table of functions, their signatures, and the check of calls.
//!
//! Upstream counterpart: go-jmespath's `functions.go` (`CallFunction`, `resolveArgs`, `typeCheck`) and the table of
//! Kyverno's `pkg/engine/jmespath/functions.go`. An unknown function is an error when it is called, not before.

mod arithmetic;
mod collections;
mod encoding;
mod standard;
mod strings;
mod time;
mod x509;

use std::sync::Arc;

use super::{
    Error,
    interpreter::{Interpreter, ItemResult},
    item::Item,
};
use kyvtest_go_compat::value::Data;

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Number,
    String,
    Array,
    Object,
    ArrayNumber,
    ArrayString,
    Expref,
    Any,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
            Self::ArrayNumber => "array[number]",
            Self::ArrayString => "array[string]",
            Self::Expref => "expref",
            Self::Any => "any",
        }
    }

    fn accepts(self, item: &Item<'_>) -> bool {
        match (self, item) {
            (Self::Any, _)
            | (Self::Number, Item::Data(Data::Double(_)))
            | (Self::String, Item::Data(Data::String(_)))
            | (Self::Object, Item::Data(Data::Map(_)))
            | (Self::Array, Item::Data(Data::List(_)) | Item::Objects(_))
            | (Self::Expref, Item::Expref(_)) => true,
            (Self::ArrayNumber, Item::Data(Data::List(items))) => {
                items.iter().all(|item| matches!(item, Data::Double(_)))
            }
            (Self::ArrayString, Item::Data(Data::List(items))) => {
                items.iter().all(|item| matches!(item, Data::String(_)))
            }
            _ => false,
        }
    }
}

type Handler = for<'c, 'e> fn(&Call<'c, 'e>) -> ItemResult<'e>;

/// The number of arguments of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arity {
    /// As many as it has types.
    Exact,
    /// One or more, whose types are not checked.
    Variadic,
    /// Any number; they are ignored.
    Ignored,
}

struct Function {
    name: &'static str,
    arity: Arity,
    args: &'static [&'static [Type]],
    handler: Handler,
}

/// A call whose arguments have been checked.
pub(super) struct Call<'c, 'e> {
    interpreter: &'c Interpreter<'c>,
    args: Vec<Item<'e>>,
}

/// The error of a function.
fn refused<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Function(text.into()))
}

/// The error of a function, with Kyverno's prefix.
fn failed<T>(function: &str, text: impl std::fmt::Display) -> Result<T, Error> {
    Err(Error::Function(format!("JMESPath function '{function}': {text}")))
}

fn panic<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Panic(text.into()))
}

/// Go's message for a failed conversion.
fn conversion<T>(item: &Item<'_>, wanted: &str) -> Result<T, Error> {
    panic(format!(
        "interface conversion: interface {{}} is {}, not {wanted}",
        item.go_type()
    ))
}

fn data(data: impl Into<Data>) -> ItemResult<'static> {
    Ok(Item::Data(data.into()))
}

impl<'e> Call<'_, 'e> {
    fn arg(&self, index: usize) -> &Item<'e> {
        self.args.get(index).unwrap_or(&Item::NULL)
    }

    /// The string of an argument that was checked to be one; charges for it.
    fn text(&self, index: usize) -> Result<&str, Error> {
        match self.arg(index) {
            Item::Data(Data::String(text)) => {
                self.interpreter.charge_text(text.len())?;
                Ok(text)
            }
            other => conversion(other, "string"),
        }
    }

    /// The number of an argument that was checked to be one.
    fn number(&self, index: usize) -> Result<f64, Error> {
        match self.arg(index) {
            Item::Data(Data::Double(number)) => Ok(*number),
            other => conversion(other, "float64"),
        }
    }

    /// The list of an argument that was checked to be some kind of list; for the list of `items()` upstream panics.
    fn list(&self, index: usize) -> Result<&Arc<Vec<Data>>, Error> {
        match self.arg(index) {
            Item::Data(Data::List(items)) => {
                self.interpreter.charge(items.len())?;
                Ok(items)
            }
            other => conversion(other, "[]interface {}"),
        }
    }

    /// Returns a string result; charges for it.
    fn returns(&self, text: impl Into<Data>) -> ItemResult<'e> {
        let text = text.into();
        if let Data::String(text) = &text {
            self.interpreter.charge_text(text.len())?;
        }
        Ok(Item::Data(text))
    }
}

pub(super) fn call<'e>(interpreter: &Interpreter<'_>, name: &str, args: Vec<Item<'e>>) -> ItemResult<'e> {
    let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
        return refused(format!("unknown function: {name}"));
    };
    match function.arity {
        Arity::Ignored => {}
        Arity::Variadic if args.is_empty() => return refused("Invalid arity."),
        Arity::Variadic => {}
        Arity::Exact if args.len() != function.args.len() => return refused("incorrect number of args"),
        Arity::Exact => {
            for (types, arg) in function.args.iter().zip(&args) {
                check(interpreter, types, arg)?;
            }
        }
    }
    (function.handler)(&Call { interpreter, args })
}

fn check(interpreter: &Interpreter<'_>, types: &[Type], arg: &Item<'_>) -> Result<(), Error> {
    if let Some(elements) = arg.elements() {
        interpreter.charge(elements.len())?;
    }
    if types.iter().any(|wanted| wanted.accepts(arg)) {
        return Ok(());
    }
    if let Item::Data(data) = arg {
        interpreter.check_size(data)?;
    }
    let names: Vec<String> = types.iter().map(|wanted| format!("\"{}\"", wanted.name())).collect();
    refused(format!(
        "Invalid type for: {}, expected: []jmespath.JpType{{{}}}",
        arg.to_go(),
        names.join(", ")
    ))
}

const fn exact(name: &'static str, args: &'static [&'static [Type]], handler: Handler) -> Function {
    Function {
        name,
        arity: Arity::Exact,
        args,
        handler,
    }
}

const ANY: &[Type] = &[Type::Any];
const ARRAY: &[Type] = &[Type::Array];
const ARRAY_OR_STRING: &[Type] = &[Type::Array, Type::String];
const EXPREF: &[Type] = &[Type::Expref];
const NUMBER: &[Type] = &[Type::Number];
const OBJECT: &[Type] = &[Type::Object];
const OBJECT_OR_ARRAY: &[Type] = &[Type::Object, Type::Array];
const STRING: &[Type] = &[Type::String];
const STRING_OR_NUMBER: &[Type] = &[Type::String, Type::Number];
const NUMBERS: &[Type] = &[Type::ArrayNumber];
const STRINGS: &[Type] = &[Type::ArrayString];
const NUMBERS_OR_STRINGS: &[Type] = &[Type::ArrayNumber, Type::ArrayString];
const STRINGS_OR_NUMBERS: &[Type] = &[Type::ArrayString, Type::ArrayNumber];

static FUNCTIONS: [Function; 76] = [
    // The standard ones; `sum` is Kyverno's.
    exact("abs", &[NUMBER], standard::abs),
    exact("avg", &[NUMBERS], standard::avg),
    exact("ceil", &[NUMBER], standard::ceil),
    exact("contains", &[ARRAY_OR_STRING, ANY], standard::contains),
    exact("ends_with", &[STRING, STRING], standard::ends_with),
    exact("floor", &[NUMBER], standard::floor),
    exact("join", &[STRING, STRINGS], standard::join),
    exact("keys", &[OBJECT], standard::keys),
    exact(
        "length",
        &[&[Type::String, Type::Array, Type::Object]],
        standard::length,
    ),
    exact("map", &[EXPREF, ARRAY], standard::map),
    exact("max", &[NUMBERS_OR_STRINGS], standard::max),
    exact("max_by", &[ARRAY, EXPREF], standard::max_by),
    Function {
        name: "merge",
        arity: Arity::Variadic,
        args: &[],
        handler: standard::merge,
    },
    exact("min", &[NUMBERS_OR_STRINGS], standard::min),
    exact("min_by", &[ARRAY, EXPREF], standard::min_by),
    Function {
        name: "not_null",
        arity: Arity::Variadic,
        args: &[],
        handler: standard::not_null,
    },
    exact("reverse", &[ARRAY_OR_STRING], standard::reverse),
    exact("sort", &[STRINGS_OR_NUMBERS], standard::sort),
    exact("sort_by", &[ARRAY, EXPREF], standard::sort_by),
    exact("starts_with", &[STRING, STRING], standard::starts_with),
    exact("sum", &[ARRAY], arithmetic::sum),
    exact("to_array", &[ANY], standard::to_array),
    exact("to_number", &[ANY], standard::to_number),
    exact("to_string", &[ANY], standard::to_string),
    exact("type", &[ANY], standard::type_of),
    exact("values", &[OBJECT], standard::values),
    // Kyverno's.
    exact("add", &[ANY, ANY], arithmetic::add),
    exact("base64_decode", &[STRING], encoding::base64_decode),
    exact("base64_encode", &[STRING], encoding::base64_encode),
    exact("compare", &[STRING, STRING], strings::compare),
    exact("divide", &[ANY, ANY], arithmetic::divide),
    exact("equal_fold", &[STRING, STRING], strings::equal_fold),
    exact("image_normalize", &[STRING], encoding::image_normalize),
    exact("is_external_url", &[STRING], encoding::is_external_url),
    exact("items", &[OBJECT_OR_ARRAY, STRING, STRING], collections::items),
    exact("label_match", &[OBJECT, OBJECT], collections::label_match),
    exact("lookup", &[OBJECT_OR_ARRAY, STRING_OR_NUMBER], collections::lookup),
    exact("md5", &[STRING], encoding::md5),
    exact("modulo", &[ANY, ANY], arithmetic::modulo),
    exact("multiply", &[ANY, ANY], arithmetic::multiply),
    exact("object_from_lists", &[ARRAY, ARRAY], collections::object_from_lists),
    exact("parse_json", &[STRING], encoding::parse_json),
    exact("parse_yaml", &[STRING], encoding::parse_yaml),
    exact("path_canonicalize", &[STRING], strings::path_canonicalize),
    exact("pattern_match", &[STRING, STRING_OR_NUMBER], strings::pattern_match),
    exact("random", &[STRING], encoding::random),
    exact("regex_match", &[STRING, STRING_OR_NUMBER], strings::regex_match),
    exact(
        "regex_replace_all",
        &[STRING, STRING_OR_NUMBER, STRING_OR_NUMBER],
        strings::regex_replace_all,
    ),
    exact(
        "regex_replace_all_literal",
        &[STRING, STRING_OR_NUMBER, STRING_OR_NUMBER],
        strings::regex_replace_all_literal,
    ),
    exact("replace", &[STRING, STRING, STRING, NUMBER], strings::replace),
    exact("replace_all", &[STRING, STRING, STRING], strings::replace_all),
    exact("round", &[NUMBER, NUMBER], arithmetic::round),
    exact("semver_compare", &[STRING, STRING], strings::semver_compare),
    exact("sha1", &[STRING], encoding::sha1),
    exact("sha256", &[STRING], encoding::sha256),
    exact("split", &[STRING, STRING], strings::split),
    exact("subtract", &[ANY, ANY], arithmetic::subtract),
    exact("time_add", &[STRING, STRING], time::add),
    exact("time_after", &[STRING, STRING], time::after),
    exact("time_before", &[STRING, STRING], time::before),
    exact("time_between", &[STRING, STRING, STRING], time::between),
    exact("time_diff", &[STRING, STRING], time::diff),
    Function {
        name: "time_now",
        arity: Arity::Ignored,
        args: &[],
        handler: time::now,
    },
    Function {
        name: "time_now_utc",
        arity: Arity::Ignored,
        args: &[],
        handler: time::now,
    },
    exact("time_parse", &[STRING, STRING], time::parse),
    exact("time_since", &[STRING, STRING, STRING], time::since),
    exact("time_to_cron", &[STRING], time::to_cron),
    exact("time_truncate", &[STRING, STRING], time::truncate),
    exact("time_utc", &[STRING], time::utc),
    exact("to_boolean", &[STRING], strings::to_boolean),
    exact("to_lower", &[STRING], strings::to_lower),
    exact("to_upper", &[STRING], strings::to_upper),
    exact("trim", &[STRING, STRING], strings::trim),
    exact("trim_prefix", &[STRING, STRING], strings::trim_prefix),
    exact("truncate", &[STRING, NUMBER], strings::truncate),
    exact("x509_decode", &[STRING], x509::x509_decode),
];
