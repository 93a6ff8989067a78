//! CEL: the conformance tests of cel-spec that need no protobuf messages.

use kyvtest::cel::{
    check::{Checked, check, unchecked},
    context::{Context, Scratch},
    decl::{Library, Overload, global},
    env::Env,
    eval::{Activation, evaluate},
    host::NoHost,
    plan::plan,
    print::go_display,
    profile::Profile,
    syntax::{self, Macros, ParseOptions},
    types::Type,
    val::Val,
};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::{
    support::{self, Gate, fixture, jsonl, shared},
    textproto::{self, Message},
};

#[derive(Debug, Deserialize)]
struct Row {
    file: String,
    section: String,
    name: String,
    expr: String,
    container: String,
    disable_macros: bool,
    disable_check: bool,
    check_only: bool,
    bindings: serde_json::Map<String, Json>,
    expect: Expectation,
    proto: bool,
    type_env: Vec<Declaration>,
}

#[derive(Debug, Deserialize)]
struct Expectation {
    k: Kind,
    #[serde(default)]
    v: Json,
    #[serde(default)]
    t: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Value,
    Error,
    Typed,
}

#[derive(Debug, Deserialize)]
struct Declaration {
    name: String,
    kind: String,
    #[serde(rename = "type")]
    text: String,
}

fn profile() -> &'static Profile {
    Profile::named("cel-spec").expect("the profile of the conformance tests")
}

const TEST_ALL_TYPES: &str = "cel.expr.conformance.proto3.TestAllTypes";
const NESTED_MESSAGE: &str = "cel.expr.conformance.proto3.TestAllTypes.NestedMessage";

/// The fields of the test message that rows without messages select from when they are checked.
fn declare_test_message(env: &mut Env) {
    let fields = [
        ("single_int64", Type::Int),
        ("single_int64_wrapper", Type::wrapper(Type::Int)),
        ("single_string_wrapper", Type::wrapper(Type::String)),
        ("repeated_nested_message", Type::list(Type::structure(NESTED_MESSAGE))),
    ];
    env.declare_struct(TEST_ALL_TYPES, fields.map(|(name, t)| (name.into(), t)));
    env.declare_struct(NESTED_MESSAGE, [("bb".into(), Type::Int)]);
}

fn primitive(name: &str) -> Type {
    match name {
        "BOOL" => Type::Bool,
        "BYTES" => Type::Bytes,
        "DOUBLE" => Type::Double,
        "INT64" => Type::Int,
        "STRING" => Type::String,
        "UINT64" => Type::Uint,
        other => panic!("primitive type {other}"),
    }
}

fn message_type(name: &str) -> Type {
    match name {
        "google.protobuf.BoolValue" => Type::wrapper(Type::Bool),
        "google.protobuf.BytesValue" => Type::wrapper(Type::Bytes),
        "google.protobuf.DoubleValue" | "google.protobuf.FloatValue" => Type::wrapper(Type::Double),
        "google.protobuf.Int32Value" | "google.protobuf.Int64Value" => Type::wrapper(Type::Int),
        "google.protobuf.StringValue" => Type::wrapper(Type::String),
        "google.protobuf.UInt32Value" | "google.protobuf.UInt64Value" => Type::wrapper(Type::Uint),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.ListValue" => Type::list(Type::Dyn),
        "google.protobuf.Struct" => Type::map(Type::String, Type::Dyn),
        "google.protobuf.Value" => Type::Dyn,
        other => Type::structure(other),
    }
}

/// A `cel.expr.Type` in text format.
fn type_of(message: &Message) -> Type {
    let inner = |message: &Message, field: &str| type_of(message.message(field));
    match message.only() {
        "primitive" => primitive(message.text("primitive")),
        "wrapper" => Type::wrapper(primitive(message.text("wrapper"))),
        "null" => Type::Null,
        "dyn" => Type::Dyn,
        "message_type" => message_type(message.text("message_type")),
        "list_type" => Type::list(inner(message.message("list_type"), "elem_type")),
        "map_type" => {
            let map = message.message("map_type");
            Type::map(inner(map, "key_type"), inner(map, "value_type"))
        }
        "type_param" => match message.text("type_param") {
            "T" => Type::Param(0),
            "U" => Type::Param(1),
            "V" => Type::Param(2),
            other => panic!("type parameter {other}"),
        },
        "abstract_type" => {
            let opaque = message.message("abstract_type");
            Type::Opaque(
                opaque.text("name").into(),
                opaque.messages("parameter_types").map(type_of).collect(),
            )
        }
        other => panic!("type {other}"),
    }
}

/// Declarations live as long as the process does, as a profile's do.
fn keep(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn overload(message: &Message) -> Overload {
    let parameters: Vec<Type> = message.messages("params").map(type_of).collect();
    let result = type_of(message.message("result_type"));
    global(keep(message.text("overload_id")), &parameters, result)
}

fn environment(row: &Row) -> Env {
    let mut env = Env::new(profile()).with_container(&row.container);
    declare_test_message(&mut env);
    let mut functions = Library::default();
    for declaration in &row.type_env {
        let declared = textproto::parse(&declaration.text);
        if declaration.kind == "function" {
            let overloads = declared.message("function").messages("overloads").map(overload);
            functions.add(keep(&declaration.name), overloads);
        } else {
            env.declare(&declaration.name, type_of(declared.message("ident").message("type")));
        }
    }
    for name in row.bindings.keys() {
        if env.variables().iter().all(|variable| *variable.name != **name) {
            env.declare(name, Type::Dyn);
        }
    }
    env.with_functions(functions)
}

fn decode_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("base64 digit {other}"),
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    let bits = |chunk: &[u8]| {
        let all = chunk.iter().fold(0u32, |all, digit| all << 6 | u32::from(*digit)) << (6 * (4 - chunk.len()));
        all.to_be_bytes()[1..chunk.len()].to_vec()
    };
    digits.chunks(4).flat_map(bits).collect()
}

/// The value of a row in the notation of the reference data.
fn value<'a>(context: &Context<'a>, json: &Json) -> Val<'a> {
    let text = || json[1].as_str().expect("text");
    let items = || json[1].as_array().expect("items");
    match json[0].as_str().expect("a type") {
        "null" => Val::Null,
        "bool" => Val::Bool(json[1].as_bool().expect("a boolean")),
        "int" => Val::Int(text().parse().expect("an integer")),
        "uint" => Val::Uint(text().parse().expect("an unsigned integer")),
        "double" => Val::Double(text().parse().expect("a number")),
        "string" => context.string(text()),
        "bytes" => context.bytes(&decode_base64(text())),
        "type" => Val::Type(context.text(text())),
        "duration" => Val::Duration(text().parse().expect("nanoseconds")),
        "list" => {
            let items: Vec<Val<'a>> = items().iter().map(|item| value(context, item)).collect();
            context.list(&items)
        }
        "map" => {
            let entry = |entry: &Json| (value(context, &entry[0]), value(context, &entry[1]));
            let entries: Vec<_> = items().iter().map(entry).collect();
            context.map(&entries)
        }
        other => panic!("value of type {other}"),
    }
}

/// Equality that distinguishes `1`, `1u` and `1.0`.
fn same(a: Val<'_>, b: Val<'_>) -> bool {
    match (a, b) {
        (Val::Double(a), Val::Double(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
        (a, b) if a.is_list() && b.is_list() => {
            a.len() == b.len() && a.list_iter().zip(b.list_iter()).all(|(a, b)| same(a, b))
        }
        (a, b) if a.is_map() && b.is_map() => {
            let has = |(key, value)| b.map_iter().any(|(k, v)| same(key, k) && same(value, v));
            a.len() == b.len() && a.map_iter().all(has)
        }
        (a, b) => a.type_name() == b.type_name() && a.equals(&b) == Some(true),
    }
}

fn analyse(row: &Row, env: &Env) -> Result<Checked, String> {
    let mut options: ParseOptions = profile().syntax;
    if row.disable_macros {
        options.macros = Macros::NONE;
    }
    let ast = syntax::parse(&row.expr, &options).map_err(|issues| issues.to_string())?;
    if row.disable_check {
        return Ok(unchecked(ast, env));
    }
    check(ast, &row.expr, env).map_err(|issues| issues.to_string())
}

/// Evaluates a row and compares; the outer error is that of the expression.
fn evaluated(row: &Row, env: &Env, checked: &Checked) -> Result<Result<(), String>, String> {
    let program = plan(checked, env).map_err(|error| error.to_string())?;
    let scratch = Scratch::new();
    let context = Context::new(&scratch, profile(), &NoHost);
    let values: Vec<Option<Val<'_>>> = env
        .variables()
        .iter()
        .map(|variable| row.bindings.get(&*variable.name).map(|json| value(&context, json)))
        .collect();
    let activation = Activation {
        values: &values,
        variables: None,
    };
    match evaluate(&program, &scratch, activation, &NoHost, None).value {
        Val::Error(error) => Err(error.to_owned()),
        _ if row.expect.k == Kind::Error => Ok(Err("a value".to_owned())),
        got => {
            let want = value(&context, &row.expect.v);
            Ok(if same(got, want) {
                Ok(())
            } else {
                Err(format!("want {want:?}, got {got:?}"))
            })
        }
    }
}

fn judge(row: &Row) -> Result<(), String> {
    let env = environment(row);
    let outcome = analyse(row, &env).and_then(|checked| {
        if row.expect.k == Kind::Typed {
            let (want, got) = (type_of(&textproto::parse(&row.expect.t)), checked.result_type());
            if want != *got {
                return Ok(Err(format!("want type {want}, got {got}")));
            }
        }
        if row.check_only {
            return Ok(Ok(()));
        }
        evaluated(row, &env, &checked)
    });
    let verdict = match outcome {
        Ok(compared) => compared,
        Err(_) if row.expect.k == Kind::Error => Ok(()),
        Err(error) => Err(format!("error: {error}")),
    };
    verdict.map_err(|difference| format!("{}\n    {difference}", row.expr))
}

/// Rows with their names; a name that occurs again in its section gets a number.
fn named(rows: Vec<Row>) -> Vec<(String, Row)> {
    let mut seen = std::collections::HashMap::new();
    rows.into_iter()
        .map(|row| {
            let name = format!("{}/{}/{}", row.file, row.section, row.name);
            let count = seen.entry(name.clone()).and_modify(|count| *count += 1).or_insert(1);
            let id = if *count == 1 { name } else { format!("{name}#{count}") };
            (id, row)
        })
        .collect()
}

#[test]
fn cel_spec() {
    let Some(path) = shared("golden/cel/conformance.jsonl") else {
        return;
    };
    let mut rows: Vec<Row> = jsonl(&path);
    rows.retain(|row| !row.proto);
    Gate::new("cel-conformance", 1783).run(&named(rows), |(id, _)| id.clone(), |(_, row)| judge(row));
}

/// An expression with `i`, an int, and `w`, an int that may be null, and cel-go's answer.
#[derive(Debug, Deserialize)]
struct Probe {
    expr: String,
    #[serde(default)]
    unchecked: bool,
    #[serde(rename = "type")]
    declared: Option<String>,
    answer: String,
}

/// The static type, and the phase and text of an error, or the run-time type and the value if it is a scalar.
fn probe(probe: &Probe) -> (Option<String>, String) {
    let mut env = Env::new(profile());
    env.declare("i", Type::Int);
    env.declare("w", Type::wrapper(Type::Int));
    let checked = match syntax::parse(&probe.expr, &profile().syntax) {
        Ok(ast) if probe.unchecked => Ok(unchecked(ast, &env)),
        Ok(ast) => check(ast, &probe.expr, &env),
        Err(issues) => Err(issues),
    };
    let checked = match checked {
        Ok(checked) => checked,
        Err(issues) => return (None, format!("C {}", issues.first_line())),
    };
    let program = match plan(&checked, &env) {
        Ok(program) => program,
        Err(error) => return (None, format!("P {error}")),
    };
    let declared = (!probe.unchecked).then(|| checked.result_type().declared_name());
    let scratch = Scratch::new();
    let activation = Activation {
        values: &[Some(Val::Int(1)), Some(Val::Int(2))],
        variables: None,
    };
    let answer = match evaluate(&program, &scratch, activation, &NoHost, None).value {
        Val::Error(error) => format!("E {error}"),
        value @ (Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_) | Val::Type(_)) => {
            format!("V {} {}", value.type_name(), go_display(value))
        }
        value => format!("V {}", value.type_name()),
    };
    (declared, answer)
}

#[test]
fn unchecked_and_wrapped() {
    let rows: Vec<Probe> = jsonl(&fixture("cel/cel-spec-answers.jsonl"));
    Gate::new("cel-spec-own", 100).run(
        &rows,
        |row| format!("{}{}", if row.unchecked { "unchecked " } else { "" }, row.expr),
        |row| {
            let got = probe(row);
            let want = (row.declared.clone(), row.answer.clone());
            support::same(&got, &want)
        },
    );
}
