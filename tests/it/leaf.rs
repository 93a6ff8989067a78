//! Properties of the modules `regex` and `text`: no input makes them panic, and they read back what they print.

use std::cmp::Ordering;

use kyvtest::{
    regex::{self, ErrorCode, Regex},
    text::{
        duration,
        float::{self, Layout},
        number,
        quantity::{Format, Quantity},
        quote, wildcard,
    },
};
use proptest::prelude::*;

/// The slow definition of a wildcard match.
fn matches_by_definition(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        (['*', rest @ ..], _) => {
            matches_by_definition(rest, text) || !text.is_empty() && matches_by_definition(pattern, &text[1..])
        }
        (['?', rest @ ..], [_, tail @ ..]) => matches_by_definition(rest, tail),
        ([p, rest @ ..], [t, tail @ ..]) if p == t => matches_by_definition(rest, tail),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_pattern_on_any_text(pattern in r"[ab.*+?|()\[\]{},\\^$:<>=!PUims\-0-9dDwWsSbBpQExzLé日\n]{0,24}", text in "[abé日 \n]{0,12}") {
        regex::exercise(&pattern, &text);
    }

    #[test]
    fn any_unicode_is_a_pattern_or_an_error(pattern in "\\PC{0,20}", text in "\\PC{0,20}") {
        regex::exercise(&pattern, &text);
    }

    #[test]
    fn a_quoted_text_matches_itself_only(text in "\\PC{0,20}", other in "\\PC{0,20}") {
        let regex = Regex::new(&format!("^{}$", regex::quote_meta(&text))).expect("a quoted text is a pattern");
        prop_assert!(regex.is_match(&text));
        prop_assert_eq!(regex.is_match(&other), text == other);
    }

    #[test]
    fn matches_and_gaps_make_up_the_text(pattern in "[ab]{1,2}[*+?]?|[ab]*", text in "[abc]{0,12}") {
        let regex = Regex::new(&pattern).expect("the pattern is valid");
        prop_assert_eq!(regex.replace_all(&text, "$0"), text.as_str());
        let all = regex.find_all(&text, None);
        prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
        prop_assert_eq!(&regex.find_all(&text, Some(1))[..], &all[..all.len().min(1)]);
    }

    #[test]
    fn wildcard_is_its_definition(pattern in "[ab*?é]{0,8}", text in "[abé]{0,8}") {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        prop_assert_eq!(
            wildcard::matches(&pattern, &text),
            matches_by_definition(&chars(&pattern), &chars(&text))
        );
    }

    #[test]
    fn any_text_is_a_quantity_or_an_error(text in "[-+]?[0-9.]{0,30}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,11}", n in any::<i64>()) {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = (quantity.value(), quantity.milli_value(), quantity.approximate(), quantity.as_i64());
            let one = Quantity::new(n, Format::DecimalSi);
            let _ = quantity.add(&one).sub(&quantity).mul(&one).canonical();
            let _ = quantity.div(&one).map(|q| q.to_string());
            let _ = quantity.mul_int(n).0.to_string();
            prop_assert_eq!(quantity.cmp(&quantity), Ordering::Equal);
            prop_assert_eq!(quantity.cmp(&one), one.cmp(&quantity).reverse());
        }
    }

    // A fraction of a binary unit may be canonical without a unit, and then reads back as a decimal.
    #[test]
    fn a_canonical_quantity_reads_back(text in "-?[1-9][0-9]{0,14}((\\.[0-9]{1,3})?(n|u|m|k|M|G|T|e3|e6|)|Ki|Mi|Gi)") {
        let quantity = Quantity::parse(&text).expect("the text is a quantity");
        let again = Quantity::parse(&quantity.canonical()).expect("the canonical form is a quantity");
        prop_assert_eq!(again.canonical(), quantity.canonical());
        prop_assert_eq!(again, quantity);
    }

    #[test]
    fn durations_read_back(nanoseconds in any::<i64>(), text in "\\PC{0,12}") {
        prop_assert_eq!(duration::parse(&duration::format(nanoseconds)), Ok(nanoseconds));
        let _ = duration::parse(&text);
    }

    #[test]
    fn floats_read_back(value in any::<f64>(), text in "\\PC{0,12}") {
        for layout in [Layout::Exponent, Layout::UpperExponent, Layout::Fixed, Layout::General] {
            let printed = float::format(value, layout, None);
            prop_assert_eq!(number::parse_float(&printed).map(f64::to_bits), Ok(value.to_bits()));
        }
        let _ = (number::parse_float(&text), number::parse_int(&text, 0, 64), quote::quote(&text));
    }

    #[test]
    fn integers_read_back(value in any::<i64>()) {
        prop_assert_eq!(number::atoi(&value.to_string()), Ok(value));
        prop_assert_eq!(number::parse_int(&format!("{value:+}"), 0, 64), Ok(value));
    }
}

/// Expensive patterns end in a result or in an error.
#[test]
fn expensive_patterns_are_bounded() {
    let code = |pattern: &str| Regex::new(pattern).err().map(|error| error.code());
    let nest = |open: &str, close: &str, n: usize| format!("{}a{}", open.repeat(n), close.repeat(n));
    assert_eq!(code(&nest("(", ")", 999)), None);
    assert_eq!(code(&nest("(", ")", 1000)), Some(ErrorCode::NestingDepth));
    assert_eq!(code(&nest("(?:", ")*", 999)), None);
    assert_eq!(code(&nest("(?:", ")*", 1000)), Some(ErrorCode::NestingDepth));
    assert_eq!(code(&"(".repeat(100_000)), Some(ErrorCode::MissingParen));
    assert_eq!(
        code(&format!("(?:{}){{1000}}", "(xx?)".repeat(1000))),
        Some(ErrorCode::Large)
    );
    assert_eq!(
        code(&format!("(?:{}){{1000}}", "x".repeat(5000))),
        Some(ErrorCode::Large)
    );
    assert_eq!(code(&r"[\pL\d]".repeat(3000)), Some(ErrorCode::Large));
    assert_eq!(code(&"()".repeat(20_000)), Some(ErrorCode::Large));
    let slow = Regex::new(&format!("^{}{}$", "a?".repeat(200), "a".repeat(200))).expect("the pattern is valid");
    assert!(slow.is_match(&"a".repeat(200)));
    assert!(!slow.is_match(&"a".repeat(199)));
    assert!(!wildcard::matches(&"*a".repeat(200), &"a".repeat(199)));
}

/// A compiled pattern can be shared between threads.
#[test]
fn regex_is_shared() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let regex = Regex::new("a+").expect("the pattern is valid");
    shared(&regex);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(regex.is_match("baa")));
        }
    });
}

/// Huge exponents are handled at once.
#[test]
fn huge_exponents_are_handled() {
    let parse = |text: &str| Quantity::parse(text).expect("the text is a quantity");
    let (huge, one) = (parse("1e2000000000"), parse("1"));
    assert_eq!(huge.to_string(), "100e1999999998");
    assert!(huge > one);
    assert_eq!(huge.add(&one), huge);
    assert_eq!(one.sub(&huge).sign(), -1);
    assert_eq!(parse("1e-2000000000").to_string(), "1e-9");
    assert!(Quantity::parse(&format!("1{}", "0".repeat(50_000))).is_err());
}
