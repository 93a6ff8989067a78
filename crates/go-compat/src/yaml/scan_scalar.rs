//! The scanner's part for scalars: finds their ends.

use super::{
    chars::{break_len, byte, is_blank, is_break_or_end, is_document_marker, is_gap},
    error::{Message, Result},
    scalar::{Append, Chomp, Shape, Style, Text, decode, escaped},
    scan::Scanner,
    token::{Mark, TokenKind},
};

/// Bytes that cannot end a plain scalar, neither in block nor in flow context.
const ORDINARY: [bool; 256] = {
    let mut table = [true; 256];
    let stops = b":,?[]{} \t\n\r\xC2\xE2\0";
    let mut n = 0;
    while n < stops.len() {
        table[stops[n] as usize] = false;
        n += 1;
    }
    table
};

impl Scanner<'_> {
    pub(super) fn plain_scalar(&mut self) -> Result<()> {
        let start = self.mark();
        let indent = self.indent + 1;
        let mut end = start;
        let mut after_break = false;
        let mut lines = false;
        loop {
            if self.column() == 0 && is_document_marker(self.source, self.at) || byte(self.source, self.at) == b'#' {
                break;
            }
            let run = self.at;
            self.plain_run();
            if self.at > run {
                lines |= after_break;
                after_break = false;
                end = self.mark();
            }
            if !(is_blank(byte(self.source, self.at)) || break_len(self.source, self.at) > 0) {
                break;
            }
            loop {
                let here = byte(self.source, self.at);
                if is_blank(here) {
                    if after_break && here == b'\t' && (self.column() as isize) < indent {
                        return Err(self.error(
                            Message::new(
                                "a tab cannot indent the continuation of a value",
                                "found a tab character that violates indentation",
                            ),
                            Some((start, "the value starts here")),
                        ));
                    }
                    self.at += 1;
                    continue;
                }
                let len = break_len(self.source, self.at);
                if len == 0 {
                    break;
                }
                self.skip_break(len);
                after_break = true;
            }
            if self.flow_level == 0 && (self.column() as isize) < indent {
                break;
            }
        }
        if after_break {
            self.key_allowed = true;
        }
        let text = if lines {
            self.decoded(Style::Plain, start.at, end.at)
        } else {
            Text::Source {
                start: start.at,
                end: end.at,
            }
        };
        self.push_scalar(text, true, start, end);
        Ok(())
    }

    /// Skips characters up to a gap or an indicator that ends a plain scalar.
    fn plain_run(&mut self) {
        loop {
            while ORDINARY[byte(self.source, self.at) as usize] {
                self.at += 1;
            }
            let ends = match byte(self.source, self.at) {
                b':' => is_gap(self.source, self.at + 1),
                b',' | b'?' | b'[' | b']' | b'{' | b'}' => self.flow_level > 0,
                _ => is_gap(self.source, self.at),
            };
            if ends {
                return;
            }
            self.at += 1;
        }
    }

    pub(super) fn quoted_scalar(&mut self, quote: u8) -> Result<()> {
        let start = self.mark();
        let context = Some((start, "the quote opens here"));
        self.at += 1;
        let mut verbatim = true;
        loop {
            if self.column() == 0 && is_document_marker(self.source, self.at) {
                return Err(self.error(
                    Message::new(
                        "a document marker inside a quoted value",
                        "found unexpected document indicator",
                    ),
                    context,
                ));
            }
            let here = byte(self.source, self.at);
            if self.at >= self.source.len() {
                return Err(self.error(
                    Message::new("this quoted value never ends", "found unexpected end of stream"),
                    context,
                ));
            }
            if here == quote {
                if quote == b'"' || byte(self.source, self.at + 1) != b'\'' {
                    break;
                }
                verbatim = false;
                self.at += 2;
                continue;
            }
            let len = break_len(self.source, self.at);
            if len > 0 {
                verbatim = false;
                self.skip_break(len);
                continue;
            }
            if here == b'\\' && quote == b'"' {
                verbatim = false;
                self.escape(start)?;
                continue;
            }
            self.at += 1;
        }
        let (from, to) = (start.at + 1, self.at as u32);
        self.at += 1;
        let end = self.mark();
        let text = if verbatim {
            Text::Source { start: from, end: to }
        } else {
            let style = if quote == b'"' { Style::Double } else { Style::Single };
            self.decoded(style, from, to)
        };
        self.push_scalar(text, false, start, end);
        Ok(())
    }

    fn escape(&mut self, start: Mark) -> Result<()> {
        let len = break_len(self.source, self.at + 1);
        if len > 0 {
            self.at += 1;
            self.skip_break(len);
            return Ok(());
        }
        if let Some((_, len)) = escaped(self.source, self.at) {
            self.at += len;
            return Ok(());
        }
        let context = Some((start, "the quote opens here"));
        let digits = match byte(self.source, self.at + 1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => {
                let next = self.text[self.at + 1..].chars().next().unwrap_or('\n');
                let message = if next == '\n' {
                    Message::from("a `\\` at the end")
                } else {
                    Message::new(format!("unknown escape `\\{next}`"), "found unknown escape character")
                };
                return Err(self.error(message, context));
            }
        };
        let hex = (0..digits).all(|n| byte(self.source, self.at + 2 + n).is_ascii_hexdigit());
        let message = if hex {
            Message::from(format!(
                "`{}` is not a character",
                &self.text[self.at..self.at + 2 + digits]
            ))
        } else {
            Message::new(
                format!("this escape needs {digits} hexadecimal digits"),
                "did not find expected hexdecimal number",
            )
        };
        Err(self.error(message, context))
    }

    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<()> {
        let start = self.mark();
        let context = Some((start, "the block starts here"));
        self.at += 1;
        let mut chomp = Chomp::Clip;
        let mut increment = 0;
        let mut chomped = false;
        // The two indicators come in either order, each at most once.
        for _ in 0..2 {
            match byte(self.source, self.at) {
                sign @ (b'+' | b'-') if !chomped => {
                    chomped = true;
                    chomp = if sign == b'+' { Chomp::Keep } else { Chomp::Strip };
                    self.at += 1;
                }
                b'0' if increment == 0 => {
                    return Err(self.error(
                        Message::new(
                            "the indentation of a block must be 1 to 9",
                            "found an indentation indicator equal to 0",
                        ),
                        context,
                    ));
                }
                digit @ b'1'..=b'9' if increment == 0 => {
                    increment = usize::from(digit - b'0');
                    self.at += 1;
                }
                _ => {}
            }
        }
        while is_blank(byte(self.source, self.at)) {
            self.at += 1;
        }
        if byte(self.source, self.at) == b'#' {
            self.skip_comment();
        }
        if !is_break_or_end(self.source, self.at) {
            return Err(self.error(
                Message::new(
                    "only a comment may follow the start of a block on its line",
                    "did not find expected comment or line break",
                ),
                context,
            ));
        }
        let header = self.mark();
        let len = break_len(self.source, self.at);
        if len > 0 {
            self.skip_break(len);
        }
        let content = self.at;
        let mut indent = match increment {
            0 => 0,
            more => self.indent.max(0) as usize + more,
        };
        self.block_indentation(&mut indent, start)?;
        let mut end = header;
        while self.column() == indent && self.at < self.source.len() {
            while !is_break_or_end(self.source, self.at) {
                self.at += 1;
            }
            end = self.mark();
            let len = break_len(self.source, self.at);
            if len > 0 {
                self.skip_break(len);
            }
            self.block_indentation(&mut indent, start)?;
        }
        let style = Style::Block {
            literal,
            indent: indent as u32,
            chomp,
        };
        let text = self.decoded(style, content as u32, self.at as u32);
        self.push_scalar(text, false, start, end);
        Ok(())
    }

    /// Skips empty lines and the indentation of the next line; determines the indentation if it is not given (0).
    fn block_indentation(&mut self, indent: &mut usize, start: Mark) -> Result<()> {
        let mut widest = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && byte(self.source, self.at) == b' ' {
                self.at += 1;
            }
            widest = widest.max(self.column());
            if (*indent == 0 || self.column() < *indent) && byte(self.source, self.at) == b'\t' {
                return Err(self.error(
                    Message::new(
                        "a tab cannot indent a block",
                        "found a tab character where an indentation space is expected",
                    ),
                    Some((start, "the block starts here")),
                ));
            }
            let len = break_len(self.source, self.at);
            if len == 0 {
                break;
            }
            self.skip_break(len);
        }
        if *indent == 0 {
            *indent = widest.max((self.indent + 1).max(1) as usize);
        }
        Ok(())
    }

    fn decoded(&mut self, style: Style, start: u32, end: u32) -> Text {
        let shape = Shape { style, start, end };
        let from = self.decoded.len() as u32;
        decode(
            self.source,
            &shape,
            &mut Append {
                source: self.text,
                out: &mut self.decoded,
            },
        );
        self.shapes.push(shape);
        Text::Decoded {
            start: from,
            end: self.decoded.len() as u32,
            shape: self.shapes.len() as u32 - 1,
        }
    }

    fn push_scalar(&mut self, text: Text, plain: bool, start: Mark, end: Mark) {
        self.push_span(TokenKind::Scalar { text, plain }, start, end);
    }
}
