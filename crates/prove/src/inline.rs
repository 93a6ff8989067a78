//! `variables.x` in match conditions: replaced by what the variable says.
//!
//! Kyverno's conditions have the variables of their rule, those of native policies do not. A variable is evaluated where it
//! is used, so an expression with its variables written out is the same expression, errors included.

use kyvtest_cel::{
    ast::{Expr, ExprId},
    profile::Profile,
    syntax::parse,
};

/// How long an expression may become.
const LONGEST: usize = 64 * 1024;

/// The expression with its variables written out. What cannot be written out stays.
pub fn inline(text: &str, variables: &[(String, String)]) -> String {
    if variables.is_empty() || !text.contains("variables") {
        return text.to_owned();
    }
    // A variable may use those before it.
    let mut known: Vec<(&str, String)> = Vec::new();
    for (name, own) in variables {
        let own = replaced(own.trim(), &known);
        known.push((name, own));
    }
    replaced(text, &known)
}

fn replaced(text: &str, variables: &[(&str, String)]) -> String {
    let Ok(ast) = parse(text, &Profile::kubernetes().syntax) else {
        return text.to_owned();
    };
    let mut starts: Vec<u32> = Vec::new();
    for id in (0..ast.len() as u32).map(ExprId) {
        if matches!(ast.expr(id), Expr::Ident(name) if &**name == "variables") {
            starts.push(ast.offset(id));
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let chars: Vec<char> = text.chars().collect();
    let mut result = String::new();
    let mut done = 0;
    for start in starts {
        let start = start as usize;
        let Some((end, name)) = selected(&chars, start) else {
            continue;
        };
        let Some((_, own)) = variables.iter().rev().find(|(other, _)| *other == name) else {
            continue;
        };
        result.extend(chars.get(done..start).into_iter().flatten());
        result.push('(');
        result.push_str(own);
        result.push(')');
        done = end;
        if result.len() > LONGEST {
            return text.to_owned();
        }
    }
    result.extend(chars.get(done..).into_iter().flatten());
    result
}

/// The end of `variables.name` at a place, and the name.
fn selected(chars: &[char], start: usize) -> Option<(usize, String)> {
    let mut at = start;
    for expected in "variables".chars() {
        if *chars.get(at)? != expected {
            return None;
        }
        at += 1;
    }
    let skip = |mut at: usize| {
        while chars.get(at).is_some_and(|c| c.is_whitespace()) {
            at += 1;
        }
        at
    };
    at = skip(at);
    if *chars.get(at)? != '.' {
        return None;
    }
    at = skip(at + 1);
    let from = at;
    while chars.get(at).is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_') {
        at += 1;
    }
    let name: String = chars.get(from..at)?.iter().collect();
    (!name.is_empty()).then_some((at, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_written_out() {
        let variables = [
            ("a".to_owned(), "object.x".to_owned()),
            ("b".to_owned(), "variables.a + 1".to_owned()),
        ];
        for (text, expected) in [
            ("variables.b > 2", "((object.x) + 1) > 2"),
            ("'variables.a' == variables . a", "'variables.a' == (object.x)"),
            ("variables.c", "variables.c"),
            ("object.y", "object.y"),
        ] {
            assert_eq!(inline(text, &variables), expected);
        }
    }
}
