//! Functions and operators against results of cel-go: `fixtures/cel/library-<profile>.jsonl`, one call per line, values
//! in the notation of [`print`](crate::print).

use serde_json::Value as Json;

use crate::{
    context::{Context, Scratch},
    decl::Function,
    host::NoHost,
    ops,
    print::notation,
    profile::Profile,
    time::Timestamp,
    val::Val,
};
use kyvtest_go_compat::text::{duration, number};

#[test]
fn kubernetes() {
    check("k8s-1.36");
}

#[test]
fn cel_spec() {
    check("cel-spec");
}

fn check(name: &str) {
    let path = format!("{}/../../fixtures/cel/library-{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let rows = std::fs::read_to_string(path).expect("the fixture");
    let profile = Profile::named(name).expect("a profile");
    let mut scratch = Scratch::new();
    let (mut total, mut wrong) = (0, Vec::new());
    for line in rows.lines() {
        scratch.reset();
        let context = Context::new(&scratch, profile, &NoHost);
        let row: Json = serde_json::from_str(line).expect("JSON");
        let function = row["f"].as_str().expect("a function");
        let texts = row["args"].as_array().expect("arguments");
        let args: Vec<Val<'_>> = texts
            .iter()
            .map(|text| parse(&context, text.as_str().expect("text")))
            .collect();
        let result = notation(call(&context, function, &args));
        let expected = row["out"].as_str().expect("text");
        total += 1;
        if result != expected {
            wrong.push(format!(
                "{function}({args:?})\n  expected {expected}\n  returned {result}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {total} rows differ\n{}",
        wrong.len(),
        wrong[..wrong.len().min(150)].join("\n")
    );
}

/// Calls a function as the evaluator does if types are only known at run time.
fn call<'a>(context: &Context<'a>, name: &str, args: &[Val<'a>]) -> Val<'a> {
    match (name, args) {
        ("_+_", [a, b]) => ops::add(context, *a, *b),
        ("_-_", [a, b]) => ops::subtract(context, *a, *b),
        ("_*_", [a, b]) => ops::multiply(context, *a, *b),
        ("_/_", [a, b]) => ops::divide(context, *a, *b),
        ("_%_", [a, b]) => ops::modulo(context, *a, *b),
        ("_<_", [a, b]) => ops::less(context, *a, *b),
        ("_<=_", [a, b]) => ops::less_equals(context, *a, *b),
        ("_>_", [a, b]) => ops::greater(context, *a, *b),
        ("_>=_", [a, b]) => ops::greater_equals(context, *a, *b),
        ("_==_", [a, b]) => a.equals(b).map_or(Val::Error("no such overload"), Val::Bool),
        ("@in", [a, b]) => ops::contains(context, *a, *b),
        ("-_", [a]) => ops::negate(context, *a),
        _ => call_function(context, name, args),
    }
}

fn call_function<'a>(context: &Context<'a>, name: &str, args: &[Val<'a>]) -> Val<'a> {
    let function: &Function = context.profile.library().function(name).expect("a function");
    if let Some(singleton) = &function.singleton {
        return match singleton.operand {
            Some(operand) if !args[0].has_trait(operand) => ops::missing_trait(context, args[0], name),
            _ => (singleton.implementation)(context, args),
        };
    }
    let overload = function.overloads.iter().find(|overload| {
        overload.implementation.is_some()
            && if function.no_type_guards {
                overload.parameters.len() == args.len()
            } else {
                overload.accepts(args)
            }
    });
    match overload.and_then(|overload| overload.implementation) {
        Some((_, implementation)) => implementation(context, args),
        None => context.no_such_overload(name, args),
    }
}

/// Parses a value in that notation.
fn parse<'a>(context: &Context<'a>, text: &str) -> Val<'a> {
    let mut rest = text;
    let value = parse_value(context, &mut rest);
    assert!(rest.is_empty(), "left over: {rest}");
    value
}

fn parse_value<'a>(context: &Context<'a>, rest: &mut &str) -> Val<'a> {
    if rest.starts_with('"') {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let text = stream.next().expect("text").expect("text");
        *rest = &rest[stream.byte_offset()..];
        return context.string(&text);
    }
    if let Some(tail) = rest.strip_prefix('[') {
        *rest = tail;
        let mut items = Vec::new();
        while !rest.starts_with(']') {
            items.push(parse_value(context, rest));
            *rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        *rest = &rest[1..];
        return context.list(&items);
    }
    if let Some(tail) = rest.strip_prefix('{') {
        *rest = tail;
        let mut entries = Vec::new();
        while !rest.starts_with('}') {
            let key = parse_value(context, rest);
            *rest = rest.strip_prefix(':').expect("a colon");
            entries.push((key, parse_value(context, rest)));
            *rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        *rest = &rest[1..];
        return context.map(&entries);
    }
    if let Some(tail) = rest.strip_prefix("opt(") {
        *rest = tail;
        let inner = parse_value(context, rest);
        *rest = rest.strip_prefix(')').expect("a parenthesis");
        return context.some(inner);
    }
    let timestamp = rest.starts_with("ts ");
    let end = rest
        .find(|c: char| matches!(c, ',' | ']' | '}' | ')') || c == ':' && !timestamp)
        .unwrap_or(rest.len());
    let (word, tail) = rest.split_at(end);
    *rest = tail;
    match word {
        "true" => return Val::Bool(true),
        "false" => return Val::Bool(false),
        "null" => return Val::Null,
        "none" => return Val::NONE,
        _ => {}
    }
    if let Some(text) = word.strip_prefix("dur ") {
        return Val::Duration(duration::parse(text).expect("a duration"));
    }
    if let Some(text) = word.strip_prefix("ts ") {
        return Val::Timestamp(Timestamp::parse(text).expect("a time"));
    }
    if let Some(text) = word.strip_prefix("type ") {
        return Val::Type(context.text(text));
    }
    let number = &word[1..];
    match word.as_bytes()[0] {
        b'i' => Val::Int(number.parse().expect("a number")),
        b'u' => Val::Uint(number.parse().expect("a number")),
        b'd' => Val::Double(number::parse_float(number).expect("a number")),
        b'b' => {
            let digit = |i: usize| u8::from_str_radix(&number[2 * i..2 * i + 2], 16).expect("hex");
            let bytes: Vec<u8> = (0..number.len() / 2).map(digit).collect();
            context.bytes(&bytes)
        }
        _ => panic!("unknown notation: {word}"),
    }
}
