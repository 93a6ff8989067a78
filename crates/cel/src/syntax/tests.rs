//! The fast parser and the recovering one agree, and neither ever panics.

use proptest::prelude::*;
use serde::Deserialize;

use super::{Macros, ParseOptions, parse, parser, print_with_offsets, recover};

#[derive(Deserialize)]
struct Row {
    expr: String,
}

fn expressions() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/cel/parse.jsonl");
    let text = std::fs::read_to_string(path).expect("the fixture is there");
    text.lines()
        .map(|line| serde_json::from_str::<Row>(line).expect("a row").expr)
        .filter(|expr| expr.len() < 400)
        .collect()
}

fn options() -> ParseOptions {
    ParseOptions::cel_go_0_29(Macros {
        bind: true,
        math: true,
        protos: true,
        exists_one_camel: true,
        ..Macros::KUBERNETES
    })
}

/// The recovering parser reads the text that the fast parser accepts as the same tree; text that only the former
/// accepts is merely unusual.
fn agree(text: &str, options: &ParseOptions) {
    let recovered = recover::parse(text, options);
    if let Some(fast) = parser::parse(text, options) {
        let recovered = recovered.unwrap_or_else(|issues| panic!("{text:?} was accepted: {issues}"));
        assert_eq!(print_with_offsets(&fast), print_with_offsets(&recovered), "{text:?}");
    } else if let Err(issues) = recovered {
        assert!(!issues.list().is_empty() && !issues.to_string().is_empty());
    }
}

/// A change to an expression: the kind, the position (as a fraction), and the new text.
#[derive(Debug, Clone)]
enum Change {
    Delete(prop::sample::Index),
    Insert(prop::sample::Index, &'static str),
    Double(prop::sample::Index),
    Cut(prop::sample::Index),
}

const PIECES: &[&str] = &[
    "(", ")", "[", "]", "{", "}", ".", ",", "-", "!", "?", ":", "+", "*", "==", "&&", "||", " in ", "true", "1", "2.5",
    "3u", "'s'", "b'x'", "x", "`a-b`", "&", "@", "'", "\"", "\\", "`", " ", "\n", "é", "//", "'''", "var", "has(",
    ".all(x,", ".?", "[?",
];

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        at().prop_map(Change::Delete),
        (at(), prop::sample::select(PIECES)).prop_map(|(at, piece)| Change::Insert(at, piece)),
        at().prop_map(Change::Double),
        at().prop_map(Change::Cut),
    ]
}

fn apply(text: &str, changes: &[Change]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for change in changes {
        match change {
            Change::Insert(at, piece) => {
                let at = at.index(chars.len() + 1);
                chars.splice(at..at, piece.chars());
            }
            _ if chars.is_empty() => {}
            Change::Delete(at) => {
                chars.remove(at.index(chars.len()));
            }
            Change::Double(at) => {
                let at = at.index(chars.len());
                chars.insert(at, chars[at]);
            }
            Change::Cut(at) => chars.truncate(at.index(chars.len())),
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,60}|[a-z0-9 .,()\\[\\]{}?:!&|'\"`\\\\\n-]{0,60}") {
        agree(&text, &options());
    }

    #[test]
    fn pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        agree(&pieces.concat(), &options());
    }

    #[test]
    fn changed_expressions(
        text in prop::sample::select(expressions()),
        changes in prop::collection::vec(change(), 1..5),
    ) {
        let text = apply(&text, &changes);
        agree(&text, &options());
        agree(&text, &ParseOptions { optional_syntax: false, ..ParseOptions::cel_go_0_26(Macros::NONE) });
    }
}

#[test]
fn unchanged_expressions() {
    for text in expressions() {
        agree(&text, &options());
    }
}

#[test]
fn deep_nesting_ends_in_an_error() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{1:", "}"),
        ("f(", ")"),
        ("a ? b : ", ""),
        ("!(", ")"),
        ("-", ""),
    ] {
        let text = format!("{}a{}", open.repeat(30_000), close.repeat(30_000));
        let parsed = parse(&text, &options());
        assert_eq!(parsed.is_ok(), open == "-", "{open}");
    }
    let bomb = format!("a{}", ".optMap(x, x)".repeat(200));
    let issues = parse(&bomb, &options()).expect_err("grows without bound");
    assert!(
        issues.to_string().contains("expression count exceeds limit"),
        "{issues}"
    );
}

#[test]
fn a_variadic_chain_is_one_call() {
    let options = ParseOptions {
        variadic_logic: true,
        ..options()
    };
    let ast = parse("a && b && c || d", &options).expect("valid");
    assert_eq!(
        super::print(&ast),
        "(call _||_ (call _&&_ (id a) (id b) (id c)) (id d))"
    );
}
