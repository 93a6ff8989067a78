//! Generates random text that matches a pattern.
//!
//! Upstream counterpart: `github.com/zach-klippenstein/goregen`. An open repetition repeats up to 4,096 times, anchors
//! are empty, and a dot is one of 2³¹ numbers, most of which are not characters. Its patterns are POSIX's: no groups
//! with options, no classes like `\d`; a repetition may be repeated.
//!
//! Deviation: of repeated repetitions only the first counts.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::{ErrorCode, Regex};

/// The maximum count of an open repetition.
const OPEN_REPETITION: u64 = 4096;
/// The maximum length of the text, in bytes.
const LIMIT: usize = 1 << 20;
/// Classes of more characters than this count as a dot.
const DOT: u64 = 0x10_0000;

/// Translates a pattern of goregen's dialect and compiles it with `build`.
pub fn compile(pattern: &str, build: impl FnOnce(&str) -> Result<Regex, String>) -> Result<Regex, String> {
    build(&plain(pattern)?)
}

/// Generates text that matches a pattern; the same seed gives the same text.
pub fn text(regex: &Regex, seed: u64) -> Result<String, String> {
    let mut generator = Generator {
        state: seed,
        out: String::new(),
    };
    match generator.add(regex.hir()) {
        Some(()) => Ok(generator.out),
        None => Err(format!("random text is longer than {LIMIT} bytes")),
    }
}

/// Translates the pattern into the dialect of our parser; an error if it uses syntax that only Perl's has.
fn plain(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut in_class = false;
    let mut after_repetition = false;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        let mut repetition = false;
        match c {
            '\\' => {
                let escaped = rest[1..].chars().next();
                if escaped.is_some_and(|e| e.is_ascii_alphabetic() && !"xafnrtv".contains(e) || !e.is_ascii()) {
                    // An error in the pattern before the escape takes precedence. The cut itself leaves groups and
                    // classes open, which is not an error of the pattern.
                    if let Err(error) = Regex::new(&out)
                        && !matches!(error.code(), ErrorCode::MissingBracket | ErrorCode::MissingParen)
                    {
                        return Err(error.to_string());
                    }
                    let end = 1 + escaped.map_or(0, char::len_utf8);
                    return Err(format!(
                        "error parsing regexp: invalid escape sequence: `{}`",
                        &rest[..end]
                    ));
                }
                length += escaped.map_or(0, char::len_utf8);
            }
            '[' if !in_class => {
                in_class = true;
                // A bracket right at the start is a member.
                for start in ["[^]", "[]", "[^"] {
                    if rest.starts_with(start) {
                        length = start.len();
                        break;
                    }
                }
            }
            '[' if rest.starts_with("[:") => length = rest.find(":]").map_or(1, |end| end + 2),
            ']' if in_class => in_class = false,
            '(' if !in_class && rest[1..].starts_with('?') => {
                return Err("error parsing regexp: missing argument to repetition operator: `?`".to_owned());
            }
            '*' | '+' | '?' if !in_class => repetition = true,
            '{' if !in_class => {
                if let Some(end) = counted(rest) {
                    repetition = true;
                    length = end;
                }
            }
            _ => {}
        }
        if !(repetition && after_repetition) {
            out.push_str(&rest[..length]);
        }
        after_repetition = repetition;
        rest = &rest[length..];
    }
    Ok(out)
}

/// The length of `{n}`, `{n,}` or `{n,m}` at the start of a string.
fn counted(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let (least, most) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (!least.is_empty() && digits(least) && digits(most)).then_some(end + 1)
}

struct Generator {
    state: u64,
    out: String,
}

impl Generator {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, count: u64) -> u64 {
        self.next() % count.max(1)
    }

    /// Appends matching text; `None` if it becomes too long.
    fn add(&mut self, hir: &Hir) -> Option<()> {
        if self.out.len() > LIMIT {
            return None;
        }
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.out.push_str(&String::from_utf8_lossy(&literal.0)),
            HirKind::Class(class) => self.add_member(class),
            HirKind::Repetition(repetition) => {
                let least = u64::from(repetition.min);
                let most = repetition
                    .max
                    .map_or(least.saturating_sub(1) + OPEN_REPETITION, u64::from);
                for _ in 0..least + self.below(most.saturating_sub(least) + 1) {
                    self.add(&repetition.sub)?;
                }
            }
            HirKind::Capture(capture) => self.add(&capture.sub)?,
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.add(part))?,
            HirKind::Alternation(branches) => {
                let chosen = self.below(branches.len() as u64) as usize;
                self.add(&branches[chosen])?;
            }
        }
        Some(())
    }

    fn add_member(&mut self, class: &Class) {
        match class {
            Class::Unicode(class) => self.add_one_of(class.ranges().iter().map(|r| (r.start().into(), r.end().into()))),
            Class::Bytes(class) => self.add_one_of(class.ranges().iter().map(|r| (r.start().into(), r.end().into()))),
        }
    }

    fn add_one_of(&mut self, ranges: impl Iterator<Item = (u32, u32)> + Clone) {
        let size: u64 = ranges.clone().map(|(first, last)| u64::from(last - first) + 1).sum();
        let character = if size > DOT {
            self.below(1 << 31) as u32
        } else {
            let mut place = self.below(size) as u32;
            let mut found = u32::MAX;
            for (first, last) in ranges {
                if place <= last - first {
                    found = first + place;
                    break;
                }
                place -= last - first + 1;
            }
            found
        };
        self.out
            .push(char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
}
