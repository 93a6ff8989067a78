//! The scanner's part for directives, anchors and tags.

use super::{
    chars::{break_len, byte, is_blank, is_break_or_end, is_gap, is_name, is_uri},
    error::{Message, Result},
    scan::Scanner,
    token::{Mark, TagParts, TokenKind},
};

impl Scanner<'_> {
    pub(super) fn scan_directive(&mut self) -> Result<()> {
        let start = self.mark();
        self.at += 1;
        let name = self.names();
        if name.is_empty() {
            return Err(self.error(
                Message::new(
                    "`%` starts a directive, which needs a name",
                    "could not find expected directive name",
                ),
                None,
            ));
        }
        if !is_gap(self.source, self.at) {
            return Err(self.error(
                Message::new(
                    "a directive's name has letters only",
                    "found unexpected non-alphabetical character",
                ),
                None,
            ));
        }
        let kind = match name.as_str() {
            "YAML" => self.version()?,
            "TAG" => self.tag_directive()?,
            _ => return Err(self.error(format!("unknown directive `%{name}`"), None)),
        };
        let end = self.mark();
        self.blanks();
        if byte(self.source, self.at) == b'#' {
            self.skip_comment();
        }
        if !is_break_or_end(self.source, self.at) {
            return Err(self.error(
                Message::new(
                    "only a comment may follow a directive on its line",
                    "did not find expected comment or line break",
                ),
                None,
            ));
        }
        let len = break_len(self.source, self.at);
        if len > 0 {
            self.skip_break(len);
        }
        self.push_span(kind, start, end);
        Ok(())
    }

    fn version(&mut self) -> Result<TokenKind> {
        self.blanks();
        let major = self.version_number()?;
        if byte(self.source, self.at) != b'.' {
            return Err(self.error("a version needs a `.`", None));
        }
        self.at += 1;
        let minor = self.version_number()?;
        Ok(TokenKind::Version { major, minor })
    }

    fn version_number(&mut self) -> Result<u8> {
        let start = self.at;
        while byte(self.source, self.at).is_ascii_digit() {
            if self.at - start == 2 {
                return Err(self.error("a version number has two digits at most", None));
            }
            self.at += 1;
        }
        match self.text[start..self.at].parse() {
            Ok(number) => Ok(number),
            Err(_) => Err(self.error("expected a version number", None)),
        }
    }

    fn tag_directive(&mut self) -> Result<TokenKind> {
        self.blanks();
        let handle = self.tag_handle(true)?;
        if !is_blank(byte(self.source, self.at)) {
            return Err(self.error("expected a space after the tag handle", None));
        }
        self.blanks();
        let rest = self.tag_uri("")?;
        if !is_gap(self.source, self.at) {
            return Err(self.error("expected the end of the line after the tag prefix", None));
        }
        Ok(TokenKind::TagDirective(Box::new(TagParts { handle, rest })))
    }

    pub(super) fn anchor(&mut self, kind: TokenKind) -> Result<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.mark();
        self.at += 1;
        let name = self.at;
        while is_name(byte(self.source, self.at)) {
            self.at += 1;
        }
        let ends = is_gap(self.source, self.at) || b"?:,]}%@`".contains(&byte(self.source, self.at));
        if self.at == name || !ends {
            let what = if kind == TokenKind::Alias {
                "an alias"
            } else {
                "an anchor"
            };
            let text = format!("the name of {what} has letters, digits, `-` and `_`");
            let message = Message::new(text, "did not find expected alphabetic or numeric character");
            return Err(self.error(message, None));
        }
        self.push(kind, start);
        Ok(())
    }

    pub(super) fn tag(&mut self) -> Result<()> {
        let start = self.mark();
        let parts = if byte(self.source, self.at + 1) == b'<' {
            self.at += 2;
            let rest = self.tag_uri("")?;
            if byte(self.source, self.at) != b'>' {
                return Err(self.error(
                    Message::new("this tag needs a `>`", "did not find the expected '>'"),
                    None,
                ));
            }
            self.at += 1;
            TagParts {
                handle: String::new(),
                rest,
            }
        } else {
            let handle = self.tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let rest = self.tag_uri("")?;
                TagParts { handle, rest }
            } else {
                let rest = self.tag_uri(&handle)?;
                let (handle, rest) = if rest.is_empty() {
                    ("", "!".to_owned())
                } else {
                    ("!", rest)
                };
                TagParts {
                    handle: handle.to_owned(),
                    rest,
                }
            }
        };
        if !is_gap(self.source, self.at) {
            return Err(self.error(
                Message::new(
                    "a space must follow the tag",
                    "did not find expected whitespace or line break",
                ),
                Some((start, "the tag starts here")),
            ));
        }
        self.push(TokenKind::Tag(Box::new(parts)), start);
        Ok(())
    }

    fn tag_handle(&mut self, directive: bool) -> Result<String> {
        if byte(self.source, self.at) != b'!' {
            return Err(self.error("a tag handle starts with `!`", None));
        }
        let start = self.at;
        self.at += 1;
        self.names();
        if byte(self.source, self.at) == b'!' {
            self.at += 1;
        } else if directive && self.at - start > 1 {
            return Err(self.error("a tag handle ends with `!`", None));
        }
        Ok(self.text[start..self.at].to_owned())
    }

    /// The rest of a tag; `head` was read as a possible handle, without its first character.
    fn tag_uri(&mut self, head: &str) -> Result<String> {
        let mut uri = head.get(1..).unwrap_or_default().as_bytes().to_vec();
        let mut found = !head.is_empty();
        while is_uri(byte(self.source, self.at)) {
            if byte(self.source, self.at) == b'%' {
                self.uri_escape(&mut uri)?;
            } else {
                uri.push(self.source[self.at]);
                self.at += 1;
            }
            found = true;
        }
        if !found {
            return Err(self.error("expected a tag", None));
        }
        Ok(String::from_utf8_lossy(&uri).into_owned())
    }

    /// One character written as percent escapes.
    fn uri_escape(&mut self, uri: &mut Vec<u8>) -> Result<()> {
        let mut left = 0;
        let mut first = true;
        while first || left > 0 {
            let digit = |n: usize| char::from(byte(self.source, self.at + n)).to_digit(16);
            let octet = match (byte(self.source, self.at), digit(1), digit(2)) {
                (b'%', Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err(self.error("`%` in a tag needs two hexadecimal digits", None)),
            };
            if first {
                left = match octet {
                    0x00..=0x7F => 1,
                    0xC0..=0xDF => 2,
                    0xE0..=0xEF => 3,
                    0xF0..=0xF7 => 4,
                    _ => return Err(self.error("this escape is not valid UTF-8", None)),
                };
            } else if octet & 0xC0 != 0x80 {
                return Err(self.error("this escape is not valid UTF-8", None));
            }
            first = false;
            uri.push(octet);
            self.at += 3;
            left -= 1;
        }
        Ok(())
    }

    fn blanks(&mut self) {
        while is_blank(byte(self.source, self.at)) {
            self.at += 1;
        }
    }

    fn names(&mut self) -> String {
        let start = self.at;
        while is_name(byte(self.source, self.at)) {
            self.at += 1;
        }
        self.text[start..self.at].to_owned()
    }

    pub(super) fn push_span(&mut self, kind: TokenKind, start: Mark, end: Mark) {
        self.push(kind, start);
        self.set_last_end(end);
    }
}
