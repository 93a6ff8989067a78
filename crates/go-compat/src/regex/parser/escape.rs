//! Escapes and bracketed classes.

use regex_syntax::hir::{ClassUnicodeRange, Look};

use super::{COMPACT, Parser};
use crate::regex::{
    class::{self, Set},
    error::{Error, ErrorCode},
};

impl Parser<'_> {
    /// Reads an escape outside a class.
    pub(super) fn escape(&mut self) -> Result<(), Error> {
        let start = self.rest;
        match start.as_bytes().get(1).copied() {
            Some(b'A') => {
                self.advance(2);
                self.look(Look::Start)
            }
            Some(b'z') => {
                self.advance(2);
                self.look(Look::End)
            }
            Some(b'b') => {
                self.advance(2);
                self.look(Look::WordAscii)
            }
            Some(b'B') => {
                self.advance(2);
                self.look(Look::WordAsciiNegate)
            }
            Some(b'C') => {
                self.advance(2);
                Err(self.error(ErrorCode::InvalidEscape, start))
            }
            Some(b'Q') => {
                let quoted = start.get(2..).unwrap_or("");
                let (literal, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                for c in literal.chars() {
                    self.literal(c)?;
                }
                self.rest = rest;
                Ok(())
            }
            _ => match self.group_escape()? {
                Some(set) => self.class(set),
                None => match self.char_escape()? {
                    Ok(c) => self.literal(c),
                    // A surrogate cannot occur in a `str`, but Go accepts it in a pattern.
                    Err(_) => self.class(Set::empty()),
                },
            },
        }
    }

    /// Reads `\pN`, `\p{Name}`, `\d` and similar groups, if one is next.
    fn group_escape(&mut self) -> Result<Option<Set>, Error> {
        let start = self.rest;
        let &[b'\\', letter, ..] = start.as_bytes() else {
            return Ok(None);
        };
        if !matches!(letter, b'p' | b'P') {
            let set = class::perl(letter, self.flags.fold_case);
            if set.is_some() {
                self.advance(2);
            }
            return Ok(set);
        }
        let name = match start.get(2..).and_then(|rest| rest.chars().next()) {
            Some('{') => {
                let Some(end) = start.find('}') else {
                    return Err(Error::new(ErrorCode::InvalidCharRange, start));
                };
                self.advance(end + 1);
                start.get(3..end).unwrap_or("")
            }
            next => {
                let width = next.map_or(0, char::len_utf8);
                self.advance(2 + width);
                start.get(2..2 + width).unwrap_or("")
            }
        };
        let (caret, name) = name.strip_prefix('^').map_or((false, name), |rest| (true, rest));
        let key = (name, self.flags.fold_case, caret != (letter == b'P'));
        if let Some((_, set)) = self.named.iter().find(|(known, _)| *known == key) {
            return Ok(Some(set.clone()));
        }
        let Some(mut set) = class::unicode(name, self.flags.fold_case) else {
            return Err(self.error(ErrorCode::InvalidCharRange, start));
        };
        if key.2 {
            set.negate();
        }
        self.named.push((key, set.clone()));
        Ok(Some(set))
    }

    /// Reads an escaped character; the inner error is a surrogate, which is not a `char`.
    fn char_escape(&mut self) -> Result<Result<char, u32>, Error> {
        let start = self.rest;
        self.advance(1);
        let Some(c) = self.next() else {
            return Err(Error::new(ErrorCode::TrailingBackslash, ""));
        };
        let value = match c {
            '1'..='7' if !self.rest.starts_with(|c: char| matches!(c, '0'..='7')) => None,
            '0'..='7' => {
                let mut value = c as u32 - '0' as u32;
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    self.advance(1);
                    value = value * 8 + digit;
                }
                Some(value)
            }
            'x' => self.hex(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
            _ => None,
        };
        match value {
            Some(value) => Ok(char::from_u32(value).ok_or(value)),
            None => Err(self.error(ErrorCode::InvalidEscape, start)),
        }
    }

    /// Reads the digits after `\x`: two, or any number in braces.
    fn hex(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            // Go reads the second character before it checks the first.
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut value = 0;
        let mut digits = 0;
        loop {
            match self.next()? {
                '}' if digits > 0 => return Some(value),
                c => {
                    value = value * 16 + c.to_digit(16)?;
                    digits += 1;
                    if value > char::MAX as u32 {
                        return None;
                    }
                }
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.advance(c.len_utf8());
        Some(c)
    }

    /// Reads a class in brackets.
    pub(super) fn bracket_class(&mut self) -> Result<(), Error> {
        let whole = self.rest;
        self.advance(1);
        let negated = self.rest.starts_with('^');
        if negated {
            self.advance(1);
        }
        // Groups are already folded; single characters and ranges are folded together at the end.
        let mut groups: Vec<ClassUnicodeRange> = Vec::new();
        let mut plain: Vec<ClassUnicodeRange> = Vec::new();
        // A repeated group adds nothing.
        let mut seen: Vec<&str> = Vec::new();
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            let start = self.rest;
            let group = match self.posix_group()? {
                None => self.group_escape()?,
                group => group,
            };
            if let Some(set) = group {
                let name = &start[..start.len() - self.rest.len()];
                if seen.contains(&name) {
                    continue;
                }
                seen.push(name);
                groups.extend(set.ranges());
                if groups.len() > COMPACT {
                    groups = Set::new(groups).ranges().to_vec();
                }
                continue;
            }
            let lo = self.class_char(whole)?;
            let mut hi = lo;
            if self.rest.len() >= 2 && self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.advance(1);
                hi = self.class_char(whole)?;
                if hi < lo {
                    return Err(self.error(ErrorCode::InvalidCharRange, start));
                }
            }
            plain.extend(class::range(lo, hi).ranges());
        }
        self.advance(1);
        let mut set = Set::new(plain);
        if self.flags.fold_case {
            set = class::fold(&set);
        }
        set.union(&Set::new(groups));
        if negated {
            set.negate();
        }
        self.class(set)
    }

    /// Reads `[:name:]`, if one is next.
    fn posix_group(&mut self) -> Result<Option<Set>, Error> {
        let start = self.rest;
        let Some((name, after)) = start.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
            return Ok(None);
        };
        self.rest = after;
        match class::posix(name, self.flags.fold_case) {
            Some(set) => Ok(Some(set)),
            None => Err(self.error(ErrorCode::InvalidCharRange, start)),
        }
    }

    fn class_char(&mut self, whole: &str) -> Result<u32, Error> {
        if self.rest.starts_with('\\') {
            return Ok(self.char_escape()?.map_or_else(|surrogate| surrogate, u32::from));
        }
        match self.next() {
            Some(c) => Ok(c.into()),
            None => Err(Error::new(ErrorCode::MissingBracket, whole)),
        }
    }
}
