//! The parser of the crate `cel` takes and refuses the same expressions.
//!
//! Its known limits are left out: it nests 96 deep, not 250, and has neither the macros with two variables nor
//! `cel.bind`, whose arguments it therefore does not look at; nor does it know `proto.getExt` and the escaped names.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kyvtest_cel::syntax::{self, Macros, ParseOptions};
use proptest::{collection::vec, prelude::*, test_runner::RngSeed};

/// A fixed seed, so that a run can be repeated.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Our options that are nearest to the crate's.
fn options() -> ParseOptions {
    ParseOptions {
        recursion_limit: 96,
        ..ParseOptions::cel_go_0_29(Macros {
            two_variable: false,
            sort_by: false,
            exists_one_camel: true,
            ..Macros::KUBERNETES
        })
    }
}

fn ours(text: &str) -> bool {
    syntax::parse(text, &options()).is_ok()
}

fn theirs(text: &str) -> bool {
    let env = cel::Env::stdlib().with_optional_support(true);
    catch_unwind(AssertUnwindSafe(|| env.compile(text).is_ok())).unwrap_or(false)
}

/// Why the two need not agree.
fn excluded(text: &str) -> Option<&'static str> {
    match () {
        () if text.len() > 200 || text.matches(['(', '[', '{', '?', '!', '-', '.']).count() >= 40 => {
            Some("the limits of depth count other rules")
        }
        () if text.contains("cel.") || text.contains("proto.") || text.contains("math.") => {
            Some("macros of extensions")
        }
        () if text.contains('`') => Some("escaped names"),
        () if text.contains("__result__") => Some("the name of the accumulator, which ours hides"),
        () => None,
    }
}

fn expressions() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/cel/parse.jsonl");
    let text = std::fs::read_to_string(path).expect("the fixture is there");
    text.lines()
        .filter_map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(row["expr"].as_str()?.to_owned())
        })
        .collect()
}

#[test]
fn the_fixture_is_judged_alike() {
    let all = expressions();
    let compared: Vec<&String> = all.iter().filter(|text| excluded(text).is_none()).collect();
    let differ: Vec<&&String> = compared.iter().filter(|text| ours(text) != theirs(text)).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    assert!(compared.len() * 10 > all.len() * 7, "most of the fixture is left out");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..config() })]

    #[test]
    fn mutations_are_judged_alike(which in any::<prop::sample::Index>(), edits in vec((any::<prop::sample::Index>(), 0..WORDS.len(), any::<bool>()), 1..4)) {
        let all = expressions();
        let mut text: Vec<char> = which.get(&all).chars().take(200).collect();
        for (at, word, replace) in edits {
            let at = at.index(text.len() + 1);
            let end = if replace { (at + 1).min(text.len()) } else { at };
            text.splice(at..end, WORDS[word].chars());
        }
        let text: String = text.into_iter().collect();
        prop_assume!(excluded(&text).is_none());
        prop_assert!(ours(&text) == theirs(&text), "ours {}: {:?}", ours(&text), text);
    }
}

const WORDS: [&str; 34] = [
    "", " ", "(", ")", "[", "]", "{", "}", ".", "?", ":", ",", "'", "\"", "\\", "+", "-", "!", "&&", "||", "==", "in",
    "1", "0x", "1u", "1.5", "a", "has(", ".all(x, ", ".?", "[?", "null", "é", "b'",
];
