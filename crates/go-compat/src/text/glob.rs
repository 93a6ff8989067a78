//! Globs without separators: `*` and `**` match anything, slashes included.
//!
//! Upstream counterpart: `github.com/gobwas/glob`, compiled without separators.
//!
//! Known deviation: only the error for an unfinished pattern has upstream's message.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Char(char),
    /// `?`
    Single,
    /// `*`, `**`
    Any,
    /// `[abc]`, `[a-c]`, `[!abc]`
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `{a,b}`
    Alternatives(Vec<Vec<Part>>),
}

const UNFINISHED: &str = "unexpected end of input";
/// The maximum nesting of alternatives.
const DEPTH: usize = 32;

impl Glob {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If the pattern is malformed.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let mut chars: Vec<char> = pattern.chars().rev().collect();
        let parts = parse(&mut chars, 0)?;
        Ok(Self(parts))
    }

    /// Reports whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let mut at = vec![false; text.len() + 1];
        at[0] = true;
        advance(&self.0, &text, at).last() == Some(&true)
    }
}

/// Parses up to the end, or up to the end of an alternative if `depth` is not 0. `rest` is reversed.
fn parse(rest: &mut Vec<char>, depth: usize) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some(c) = rest.last().copied() {
        if depth > 0 && (c == ',' || c == '}') {
            return Ok(parts);
        }
        rest.pop();
        parts.push(match c {
            '*' => Part::Any,
            '?' => Part::Single,
            '\\' => Part::Char(rest.pop().ok_or(UNFINISHED)?),
            '[' => class(rest)?,
            '{' => alternatives(rest, depth)?,
            c => Part::Char(c),
        });
    }
    if depth > 0 {
        return Err(UNFINISHED.to_owned());
    }
    Ok(parts)
}

fn alternatives(rest: &mut Vec<char>, depth: usize) -> Result<Part, String> {
    if depth >= DEPTH {
        return Err("alternatives are nested too deeply".to_owned());
    }
    let mut all = Vec::new();
    loop {
        all.push(parse(rest, depth + 1)?);
        match rest.pop() {
            Some(',') => {}
            Some(_) => return Ok(Part::Alternatives(all)),
            None => return Err(UNFINISHED.to_owned()),
        }
    }
}

fn class(rest: &mut Vec<char>) -> Result<Part, String> {
    let negated = rest.last() == Some(&'!');
    if negated {
        rest.pop();
    }
    let mut ranges = Vec::new();
    loop {
        let from = match rest.pop().ok_or(UNFINISHED)? {
            ']' if !ranges.is_empty() => return Ok(Part::Class { negated, ranges }),
            '\\' => rest.pop().ok_or(UNFINISHED)?,
            c => c,
        };
        let is_range = rest.last() == Some(&'-') && rest.len() > 1 && rest.get(rest.len() - 2) != Some(&']');
        let to = if is_range {
            rest.pop();
            rest.pop().ok_or(UNFINISHED)?
        } else {
            from
        };
        ranges.push((from, to));
    }
}

/// The text positions reachable from the given ones by matching the parts.
fn advance(parts: &[Part], text: &[char], mut at: Vec<bool>) -> Vec<bool> {
    for part in parts {
        at = step(part, text, &at);
    }
    at
}

fn step(part: &Part, text: &[char], at: &[bool]) -> Vec<bool> {
    let one = |fits: &dyn Fn(char) -> bool| {
        let mut next = vec![false; at.len()];
        for (i, c) in text.iter().enumerate() {
            next[i + 1] = at[i] && fits(*c);
        }
        next
    };
    match part {
        Part::Char(wanted) => one(&|c| c == *wanted),
        Part::Single => one(&|_| true),
        Part::Class { negated, ranges } => {
            one(&|c| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated)
        }
        Part::Any => {
            let first = at.iter().position(|here| *here).unwrap_or(at.len());
            (0..at.len()).map(|i| i >= first).collect()
        }
        Part::Alternatives(all) => {
            let mut next = vec![false; at.len()];
            for parts in all {
                for (here, reached) in next.iter_mut().zip(advance(parts, text, at.to_vec())) {
                    *here |= reached;
                }
            }
            next
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn stars_cross_slashes() {
        let matches = |pattern: &str, text: &str| Glob::new(pattern).map(|glob| glob.matches(text));
        assert_eq!(matches("reg/*", "reg/a/b:1"), Ok(true));
        assert_eq!(matches("reg/{app,d?}:*", "reg/db:1"), Ok(true));
        assert_eq!(matches("reg/[a-c]pp", "reg/dpp"), Ok(false));
        assert_eq!(matches("reg/[!a-c]pp", "reg/dpp"), Ok(true));
        assert_eq!(matches("\\*", "*"), Ok(true));
        assert_eq!(matches("[", "x"), Err("unexpected end of input".to_owned()));
        assert_eq!(matches("{a", "a"), Err("unexpected end of input".to_owned()));
    }
}
