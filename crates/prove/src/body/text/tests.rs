//! Predicates on texts agree with trying all short texts.

use super::*;

fn all_texts<const N: usize>(letters: [char; N]) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..4 {
        let until = all.len();
        for i in from..until {
            for c in letters {
                let next = format!("{}{c}", all[i]);
                all.push(next);
            }
        }
        from = until;
    }
    all
}

#[test]
fn anchors_within_texts_agree_with_trying_everything() {
    let patterns = [r"\ba\b", r"\ba\B|\B-", r"-\b", "(?m)^a$", "(?m)a$", r"^\B", r"\b$", "a"];
    let mut predicates: Vec<Predicate> = patterns.map(|text| Predicate::Matches(Arc::from(text))).to_vec();
    predicates.push(Predicate::Length(3));
    agree(&predicates, &all_texts(['a', '_', '-', '\n']));
}

/// Every pair of predicates with every pair of signs agrees with trying all short texts.
#[test]
fn the_product_agrees_with_trying_everything() {
    let text = |text: &str| Arc::<str>::from(text);
    let mut predicates = vec![
        Predicate::Is(text("ab")),
        Predicate::StartsWith(text("a")),
        Predicate::EndsWith(text("b-")),
        Predicate::Contains(text("-")),
        Predicate::Matches(text("^(a|b)*abb$")),
        Predicate::Matches(text("^b*a(a|ba|bba)*bb$")),
        Predicate::Matches(text("a$|^b")),
        Predicate::Matches(text("[^a]-")),
        Predicate::Matches(text("^$")),
        Predicate::Glob(text("a*b?")),
        Predicate::Glob(text("?*")),
        Predicate::PatternOf(text("ab")),
        Predicate::Length(2),
        Predicate::In(Base::DnsLabel),
        Predicate::Between(text("a"), Box::new(Predicate::Is(text("aba"))), text("a")),
    ];
    let cased = Predicate::StartsWith(text("ab"));
    predicates.push(Predicate::Lower(Box::new(cased.clone())));
    predicates.push(Predicate::Upper(Box::new(Predicate::Is(text("AB-")))));
    predicates.push(Predicate::Replaced('-', text(""), Box::new(Predicate::Is(text("ab")))));
    predicates.push(Predicate::Replaced(
        'a',
        text("b*"),
        Box::new(Predicate::StartsWith(text("b*b"))),
    ));
    predicates.push(Predicate::Slice(1, Some(3), Box::new(Predicate::Is(text("b-")))));
    predicates.push(Predicate::Slice(2, None, Box::new(Predicate::Matches(text("^a?$")))));
    predicates.push(Predicate::Piece('-', 1, Box::new(Predicate::Matches(text("^ab?$")))));
    predicates.push(Predicate::Piece('-', 0, Box::new(Predicate::Lower(Box::new(cased)))));
    agree(&predicates, &all_texts(['a', 'b', 'A', '-', '*']));
}

fn agree(predicates: &[Predicate], texts: &[String]) {
    let mut decided = Texts::default();
    for first in predicates {
        for second in predicates {
            for signs in [(true, true), (true, false), (false, true), (false, false)] {
                let query = vec![(first.clone(), signs.0), (second.clone(), signs.1)];
                let others = ["", "a", "ab", "abb", "b-"].map(|other| (Predicate::Is(Arc::from(other)), false));
                let without = (first == second).then(|| [query.clone(), others.to_vec()].concat());
                for query in without.into_iter().chain([query]) {
                    let brute = texts.iter().find(|text| fits(&query, text));
                    match decided.find(query.clone()) {
                        SearchResult::Yes(found) => assert!(fits(&query, &found), "{found:?} for {query:?}"),
                        SearchResult::No => assert_eq!(brute, None, "{query:?}"),
                        SearchResult::Incomplete => panic!("gave up on {query:?}"),
                    }
                }
            }
        }
    }
}

#[test]
fn trimmed_texts_agree_with_trying_everything() {
    let text = |text: &str| Arc::<str>::from(text);
    let trimmed = |inner: Predicate| Predicate::Trimmed(Box::new(inner));
    let predicates = [
        trimmed(Predicate::Is(text("a"))),
        trimmed(Predicate::Is(text("a \u{a0}b"))),
        trimmed(Predicate::EndsWith(text("b"))),
        trimmed(Predicate::Length(2)),
        Predicate::Matches(text(" $")),
    ];
    agree(&predicates, &all_texts(['a', 'b', ' ', '\u{a0}']));
}
