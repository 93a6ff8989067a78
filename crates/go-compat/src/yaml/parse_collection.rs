//! The parser's part for collections: one step at a time, so that nesting does not need recursion.

use super::{
    error::{Message, Result},
    parse::{Frame, Parser, Stage, SynKind},
    position::Span,
    token::{Mark, TokenKind},
};

impl Parser<'_> {
    /// Reads the next part of the innermost open collection.
    pub(super) fn step(&mut self, frame: Frame) -> Result<()> {
        match frame {
            Frame::BlockSequence { node, start } => self.block_sequence(node, start),
            Frame::Indentless { node } => self.indentless(node),
            Frame::BlockMapping { node, start, value } => {
                if value {
                    self.block_value()
                } else {
                    self.block_key(node, start)
                }
            }
            Frame::FlowSequence { node, start, first } => self.flow_sequence(node, start, first),
            Frame::Pair { node, stage } => self.pair(node, stage),
            Frame::FlowMapping {
                node,
                start,
                first,
                stage,
            } => match stage {
                Stage::Key => self.flow_key(node, start, first),
                Stage::Value => self.flow_value(),
                Stage::Rest => {
                    let start = self.scanner.peek()?.start;
                    self.set_stage(Stage::Key);
                    self.empty(start);
                    Ok(())
                }
            },
        }
    }

    fn block_sequence(&mut self, node: u32, start: Mark) -> Result<()> {
        let token = self.scanner.peek()?;
        let (at, end) = (token.start, token.end);
        match token.kind {
            TokenKind::BlockEntry => match self.advance()?.kind {
                TokenKind::BlockEntry | TokenKind::BlockEnd => {
                    self.empty(end);
                    Ok(())
                }
                _ => self.node(true, false),
            },
            TokenKind::BlockEnd => self.end_block(node),
            _ => Err(self.error(
                at,
                Message::new(
                    "expected `-` or the end of the list",
                    "did not find expected '-' indicator",
                ),
                Some(start),
            )),
        }
    }

    /// The token that ends a block has no extent; the collection ends where its last token did.
    fn end_block(&mut self, node: u32) -> Result<()> {
        let end = self.end;
        self.take()?;
        self.end = end;
        self.close(node);
        Ok(())
    }

    fn indentless(&mut self, node: u32) -> Result<()> {
        let token = self.scanner.peek()?;
        let end = token.end;
        if token.kind != TokenKind::BlockEntry {
            self.close(node);
            return Ok(());
        }
        match self.advance()?.kind {
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                self.empty(end);
                Ok(())
            }
            _ => self.node(true, false),
        }
    }

    fn block_key(&mut self, node: u32, start: Mark) -> Result<()> {
        let token = self.scanner.peek()?;
        let (at, end) = (token.start, token.end);
        match token.kind {
            TokenKind::Key => {
                self.set_value(true);
                match self.advance()?.kind {
                    TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                        self.empty(end);
                        Ok(())
                    }
                    _ => self.node(true, true),
                }
            }
            TokenKind::BlockEnd => self.end_block(node),
            _ => Err(self.error(at, self.no_key(at), Some(start))),
        }
    }

    /// The message for a missing key. After a quote it is usually an expression that starts with a literal.
    fn no_key(&self, at: Mark) -> Message {
        let before = self.scanner.source.get(..at.at as usize).unwrap_or_default();
        let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        match line.trim_ascii_end().last() {
            Some(b'\'' | b'"') => Message::new("this value ends at its closing quote", "did not find expected key")
                .with_help("put quotes around all of it: `\"'a' in b\"`"),
            _ => Message::new("expected a key or the end of the map", "did not find expected key"),
        }
    }

    fn block_value(&mut self) -> Result<()> {
        self.set_value(false);
        let token = self.scanner.peek()?;
        let (at, end) = (token.start, token.end);
        if token.kind != TokenKind::Value {
            self.empty(at);
            return Ok(());
        }
        match self.advance()?.kind {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                self.empty(end);
                Ok(())
            }
            _ => self.node(true, true),
        }
    }

    fn flow_sequence(&mut self, node: u32, start: Mark, first: bool) -> Result<()> {
        let token = self.scanner.peek()?;
        let at = token.start;
        if token.kind != TokenKind::FlowSequenceEnd {
            if !first {
                if token.kind != TokenKind::FlowEntry {
                    return Err(self.error(
                        at,
                        Message::new("expected `,` or `]`", "did not find expected ',' or ']'"),
                        Some(start),
                    ));
                }
                self.take()?;
            }
            self.set_entered();
            let token = self.scanner.peek()?;
            let (at, end) = (token.start, token.end);
            match token.kind {
                TokenKind::Key => {
                    let number = self.push(SynKind::Mapping, Span::new(at.at, end.at), at.line);
                    self.take()?;
                    let stage = Stage::Key;
                    return self.open(Frame::Pair { node: number, stage }, at);
                }
                TokenKind::FlowSequenceEnd => {}
                _ => return self.node(false, false),
            }
        }
        self.take()?;
        self.close(node);
        Ok(())
    }

    fn pair(&mut self, node: u32, stage: Stage) -> Result<()> {
        let token = self.scanner.peek()?;
        let (at, end) = (token.start, token.end);
        let value = token.kind == TokenKind::Value;
        let ends = matches!(token.kind, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd);
        match stage {
            Stage::Key => {
                self.set_stage(Stage::Value);
                if value || ends {
                    // The reference parser drops this token.
                    self.take()?;
                    self.empty(end);
                    return Ok(());
                }
                self.node(false, false)
            }
            Stage::Value => {
                self.set_stage(Stage::Rest);
                if value {
                    match self.advance()?.kind {
                        TokenKind::FlowEntry | TokenKind::FlowSequenceEnd => {}
                        _ => return self.node(false, false),
                    }
                }
                self.empty(at);
                Ok(())
            }
            Stage::Rest => {
                self.close(node);
                Ok(())
            }
        }
    }

    fn flow_key(&mut self, node: u32, start: Mark, first: bool) -> Result<()> {
        let token = self.scanner.peek()?;
        let at = token.start;
        if token.kind != TokenKind::FlowMappingEnd {
            if !first {
                if token.kind != TokenKind::FlowEntry {
                    return Err(self.error(
                        at,
                        Message::new("expected `,` or `}`", "did not find expected ',' or '}'"),
                        Some(start),
                    ));
                }
                self.take()?;
            }
            self.set_entered();
            match self.scanner.peek()?.kind {
                TokenKind::Key => {
                    self.set_stage(Stage::Value);
                    let token = self.advance()?;
                    let at = token.start;
                    match token.kind {
                        TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd => {
                            self.empty(at);
                            return Ok(());
                        }
                        _ => return self.node(false, false),
                    }
                }
                TokenKind::FlowMappingEnd => {}
                _ => {
                    self.set_stage(Stage::Rest);
                    return self.node(false, false);
                }
            }
        }
        self.take()?;
        self.close(node);
        Ok(())
    }

    fn flow_value(&mut self) -> Result<()> {
        self.set_stage(Stage::Key);
        let token = self.scanner.peek()?;
        let mut at = token.start;
        if token.kind == TokenKind::Value {
            let token = self.advance()?;
            at = token.start;
            if !matches!(token.kind, TokenKind::FlowEntry | TokenKind::FlowMappingEnd) {
                return self.node(false, false);
            }
        }
        self.empty(at);
        Ok(())
    }

    fn set_value(&mut self, next: bool) {
        if let Some(Frame::BlockMapping { value, .. }) = self.frames.last_mut() {
            *value = next;
        }
    }

    fn set_entered(&mut self) {
        if let Some(Frame::FlowSequence { first, .. } | Frame::FlowMapping { first, .. }) = self.frames.last_mut() {
            *first = false;
        }
    }

    fn set_stage(&mut self, next: Stage) {
        if let Some(Frame::Pair { stage, .. } | Frame::FlowMapping { stage, .. }) = self.frames.last_mut() {
            *stage = next;
        }
    }
}
