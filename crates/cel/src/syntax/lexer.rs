//! Splits an expression into tokens.
//!
//! Upstream counterpart: the lexer that ANTLR generates from cel-go `parser/gen/CEL.g4`. It takes the longest match; if
//! two rules match the same text the earlier one wins (`in`, `true`, `false`, `null` before identifiers). If nothing
//! matches, the error covers everything up to and including the character at which the last rule gave up.

/// A kind of token. The numbers are those of cel-go's grammar, in whose order error messages list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Tok {
    Eof = 0,
    Equals = 1,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    LParen,
    RParen,
    Dot,
    Comma,
    Minus,
    Exclam,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Whitespace,
    Comment,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscIdent,
}

/// The scan result at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// A token and its end.
    Token(Tok, usize),
    /// No token: the start of the character that no rule accepts (the end of the text if it ran out).
    Error(usize),
}

/// Scans the token that starts at `pos`, which lies on a character boundary.
pub(super) fn scan(text: &[u8], pos: usize) -> Scan {
    let Some(&first) = text.get(pos) else {
        return Scan::Token(Tok::Eof, pos);
    };
    let next = text.get(pos + 1).copied();
    let one = |tok| Scan::Token(tok, pos + 1);
    let two = |tok| Scan::Token(tok, pos + 2);
    match first {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => word(text, pos),
        b' ' | b'\t' | b'\r' | b'\n' | 0x0c => {
            let end = end_of(text, pos, |b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0x0c));
            Scan::Token(Tok::Whitespace, end)
        }
        b'.' if next.is_some_and(|b| b.is_ascii_digit()) => Scan::Token(Tok::Float, fraction(text, pos)),
        b'.' => one(Tok::Dot),
        b'(' => one(Tok::LParen),
        b')' => one(Tok::RParen),
        b'[' => one(Tok::LBracket),
        b']' => one(Tok::RBracket),
        b'{' => one(Tok::LBrace),
        b'}' => one(Tok::RBrace),
        b',' => one(Tok::Comma),
        b'\'' | b'"' => match quoted(text, pos, false) {
            Ok(end) => Scan::Token(Tok::String, end),
            Err(at) => Scan::Error(at),
        },
        b'0'..=b'9' => number(text, pos),
        b'=' if next == Some(b'=') => two(Tok::Equals),
        b'!' if next == Some(b'=') => two(Tok::NotEquals),
        b'!' => one(Tok::Exclam),
        b'<' if next == Some(b'=') => two(Tok::LessEquals),
        b'<' => one(Tok::Less),
        b'>' if next == Some(b'=') => two(Tok::GreaterEquals),
        b'>' => one(Tok::Greater),
        b'&' if next == Some(b'&') => two(Tok::And),
        b'|' if next == Some(b'|') => two(Tok::Or),
        b'=' | b'&' | b'|' => Scan::Error(pos + 1),
        b'-' => one(Tok::Minus),
        b'?' => one(Tok::Question),
        b':' => one(Tok::Colon),
        b'+' => one(Tok::Plus),
        b'*' => one(Tok::Star),
        b'/' if next == Some(b'/') => Scan::Token(Tok::Comment, end_of(text, pos, |b| b != b'\n')),
        b'/' => one(Tok::Slash),
        b'%' => one(Tok::Percent),
        b'`' => {
            let end = end_of(text, pos + 1, |b| {
                b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/' | b' ')
            });
            if end > pos + 1 && text.get(end) == Some(&b'`') {
                Scan::Token(Tok::EscIdent, end + 1)
            } else {
                Scan::Error(end)
            }
        }
        _ => Scan::Error(pos),
    }
}

fn end_of(text: &[u8], from: usize, accept: impl Fn(u8) -> bool) -> usize {
    text[from..]
        .iter()
        .position(|b| !accept(*b))
        .map_or(text.len(), |n| from + n)
}

fn word(text: &[u8], pos: usize) -> Scan {
    let end = end_of(text, pos, |b| b.is_ascii_alphanumeric() || b == b'_');
    let word = &text[pos..end];
    if let Some(b'\'' | b'"') = text.get(end) {
        // A prefix of letters makes the quote that follows a raw string or bytes; if that is not terminated, the prefix
        // is a name and the quote starts anew.
        let literal = match word {
            b"r" | b"R" => Some((Tok::String, true)),
            b"b" | b"B" => Some((Tok::Bytes, false)),
            b"br" | b"bR" | b"Br" | b"BR" => Some((Tok::Bytes, true)),
            _ => None,
        };
        if let Some((tok, raw)) = literal
            && let Ok(end) = quoted(text, end, raw)
        {
            return Scan::Token(tok, end);
        }
    }
    let tok = match word {
        b"in" => Tok::In,
        b"true" => Tok::True,
        b"false" => Tok::False,
        b"null" => Tok::Null,
        _ => Tok::Ident,
    };
    Scan::Token(tok, end)
}

/// The end of the quoted text that starts at `pos`; the error is the position of the offending character.
fn quoted(text: &[u8], pos: usize, raw: bool) -> Result<usize, usize> {
    let quote = text[pos];
    if text.get(pos + 1) == Some(&quote) {
        // An empty string, unless a third quote starts a terminated long one.
        let long = (text.get(pos + 2) == Some(&quote))
            .then(|| long_quoted(text, pos + 3, quote, raw))
            .flatten();
        return Ok(long.unwrap_or(pos + 2));
    }
    let mut at = pos + 1;
    loop {
        match text.get(at) {
            None | Some(b'\n' | b'\r') => return Err(at),
            Some(b) if *b == quote => return Ok(at + 1),
            Some(b'\\') if !raw => at = escape(text, at)?,
            Some(_) => at += 1,
        }
    }
}

fn long_quoted(text: &[u8], from: usize, quote: u8, raw: bool) -> Option<usize> {
    let mut at = from;
    loop {
        match text.get(at)? {
            b if *b == quote && text.get(at + 1) == Some(&quote) && text.get(at + 2) == Some(&quote) => {
                return Some(at + 3);
            }
            b'\\' if !raw => at = escape(text, at).ok()?,
            _ => at += 1,
        }
    }
}

/// The end of the escape sequence at `at`, or the position of the first character that does not belong to one.
fn escape(text: &[u8], at: usize) -> Result<usize, usize> {
    let run = |from: usize, count: usize, accept: fn(u8) -> bool| {
        let bad = (from..from + count).find(|i| !text.get(*i).copied().is_some_and(accept));
        bad.map_or(Ok(from + count), Err)
    };
    let hex = |b: u8| b.is_ascii_hexdigit();
    let at = at + 1;
    match text.get(at) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(at + 1),
        Some(b'x' | b'X') => run(at + 1, 2, hex),
        Some(b'u') => run(at + 1, 4, hex),
        Some(b'U') => run(at + 1, 8, hex),
        Some(b'0'..=b'3') => run(at + 1, 2, |b| matches!(b, b'0'..=b'7')),
        _ => Err(at),
    }
}

fn number(text: &[u8], pos: usize) -> Scan {
    if text[pos] == b'0' && text.get(pos + 1) == Some(&b'x') {
        let end = end_of(text, pos + 2, |b| b.is_ascii_hexdigit());
        if end > pos + 2 {
            return unsigned(text, end);
        }
    }
    let end = end_of(text, pos, |b| b.is_ascii_digit());
    let float = fraction(text, end);
    if float > end {
        Scan::Token(Tok::Float, float)
    } else {
        unsigned(text, end)
    }
}

fn unsigned(text: &[u8], end: usize) -> Scan {
    match text.get(end) {
        Some(b'u' | b'U') => Scan::Token(Tok::Uint, end + 1),
        _ => Scan::Token(Tok::Int, end),
    }
}

/// The end of the fraction and exponent at `pos`; `pos` itself if there is neither.
fn fraction(text: &[u8], pos: usize) -> usize {
    let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = pos;
    if text.get(end) == Some(&b'.') && digit(end + 1) {
        end = end_of(text, end + 1, |b| b.is_ascii_digit());
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        if digit(end + 1 + sign) {
            end = end_of(text, end + 1 + sign, |b| b.is_ascii_digit());
        }
    }
    end
}
