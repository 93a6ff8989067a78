//! The parser: turns tokens into the syntax of one document, a flat list in document order.
//!
//! Upstream counterpart: `parserc.go` of go.yaml.in/yaml/v2 2.4 and the first half of its `decode.go`. As there, only
//! the first document of the text counts (text after `...` is ignored), and an alias refers to the latest anchor of its
//! name.

use rustc_hash::FxHashMap;

use super::{
    error::{Error, ErrorKind, Message, Result},
    position::Span,
    scalar::{Shape, Text},
    scan::Scanner,
    token::{Mark, Token, TokenKind},
};

/// The syntax of a document, before scalars and aliases are resolved.
pub(super) struct Syntax {
    /// The nodes, each before its children. Empty if the text has no document.
    pub(super) nodes: Vec<Syn>,
    /// The tags that occur, in their long form.
    pub(super) tags: Vec<String>,
    pub(super) decoded: String,
    pub(super) shapes: Vec<Shape>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Syn {
    pub(super) kind: SynKind,
    /// The node without its properties (anchor and tag).
    pub(super) span: Span,
    /// The line that the node begins on, properties included, counted from 0 at the start of the document.
    pub(super) line: u32,
    /// The number of the node that follows this one and all that it contains.
    pub(super) next: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum SynKind {
    /// `implicit`: the text alone determines the type of the scalar.
    Scalar {
        text: Text,
        tag: Option<u32>,
        implicit: bool,
    },
    Sequence,
    /// Keys and values alternate.
    Mapping,
    Alias {
        target: u32,
    },
}

/// An open collection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Frame {
    BlockSequence {
        node: u32,
        start: Mark,
    },
    Indentless {
        node: u32,
    },
    BlockMapping {
        node: u32,
        start: Mark,
        value: bool,
    },
    FlowSequence {
        node: u32,
        start: Mark,
        first: bool,
    },
    /// A `key: value` that is an entry of a flow sequence.
    Pair {
        node: u32,
        stage: Stage,
    },
    FlowMapping {
        node: u32,
        start: Mark,
        first: bool,
        stage: Stage,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Key,
    Value,
    /// Of a flow mapping: the entry was a single node. Of a pair: it is complete.
    Rest,
}

pub(super) struct Parser<'a> {
    pub(super) scanner: Scanner<'a>,
    pub(super) frames: Vec<Frame>,
    depth: usize,
    nodes: Vec<Syn>,
    tags: Vec<String>,
    anchors: FxHashMap<&'a str, u32>,
    handles: Vec<(String, String)>,
    /// The end of the last token that was taken.
    pub(super) end: u32,
}

/// Parses the document `span` of `text`.
pub(super) fn parse(text: &str, span: Span, depth: usize) -> Result<Syntax> {
    let mut parser = Parser {
        scanner: Scanner::new(text, span, depth),
        frames: Vec::new(),
        depth,
        nodes: Vec::with_capacity(span.len() / 16),
        tags: Vec::new(),
        anchors: FxHashMap::default(),
        handles: Vec::new(),
        end: span.start,
    };
    parser.document()?;
    Ok(Syntax {
        nodes: parser.nodes,
        tags: parser.tags,
        decoded: parser.scanner.decoded,
        shapes: parser.scanner.shapes,
    })
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<()> {
        match self.scanner.peek()?.kind {
            TokenKind::StreamEnd => return Ok(()),
            TokenKind::Version { .. } | TokenKind::TagDirective(_) | TokenKind::DocumentStart => {
                self.directives()?;
                let token = self.scanner.peek()?;
                if token.kind != TokenKind::DocumentStart {
                    let (start, message) = (token.start, "expected `---` after the directives");
                    return Err(self.error(start, message, None));
                }
                self.take()?;
                let token = self.scanner.peek()?;
                let start = token.start;
                match token.kind {
                    TokenKind::Version { .. }
                    | TokenKind::TagDirective(_)
                    | TokenKind::DocumentStart
                    | TokenKind::DocumentEnd
                    | TokenKind::StreamEnd => self.empty(start),
                    _ => self.node(true, false)?,
                }
            }
            _ => {
                self.directives()?;
                self.node(true, false)?;
            }
        }
        while let Some(frame) = self.frames.last().copied() {
            self.step(frame)?;
        }
        // The end of the document has to be found, so an error right after it counts.
        self.scanner.peek()?;
        Ok(())
    }

    fn directives(&mut self) -> Result<()> {
        let mut versioned = false;
        loop {
            let token = self.scanner.peek()?;
            let start = token.start;
            match &token.kind {
                TokenKind::Version { major, minor } => {
                    let known = (*major, *minor) == (1, 1);
                    if versioned {
                        return Err(self.error(
                            start,
                            Message::new("a second `%YAML`", "found duplicate %YAML directive"),
                            None,
                        ));
                    }
                    if !known {
                        return Err(self.error(
                            start,
                            Message::new("only YAML 1.1 is read", "found incompatible YAML document"),
                            None,
                        ));
                    }
                    versioned = true;
                }
                TokenKind::TagDirective(parts) => {
                    let parts = (parts.handle.clone(), parts.rest.clone());
                    if self.handles.iter().any(|(handle, _)| *handle == parts.0) {
                        return Err(self.error(
                            start,
                            Message::new("a second `%TAG` for the same handle", "found duplicate %TAG directive"),
                            None,
                        ));
                    }
                    self.handles.push(parts);
                }
                _ => break,
            }
            self.take()?;
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.handles.iter().any(|(known, _)| known == handle) {
                self.handles.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(())
    }

    pub(super) fn take(&mut self) -> Result<Token> {
        let token = self.scanner.next()?;
        self.end = token.end.at;
        Ok(token)
    }

    /// Drops the next token, which the caller has inspected, and returns the one after it.
    pub(super) fn advance(&mut self) -> Result<&Token> {
        self.take()?;
        self.scanner.peek()
    }

    pub(super) fn error(&self, at: Mark, message: impl Into<Message>, context: Option<Mark>) -> Error {
        let rest = &self.scanner.text[at.at as usize..];
        let width = rest
            .chars()
            .next()
            .filter(|c| !matches!(c, '\n' | '\r'))
            .map_or(0, char::len_utf8);
        let span = Span::of(at.at as usize, at.at as usize + width);
        let error = Error::new(ErrorKind::Structure, span, message).with_go_line((at.line > 0).then_some(at.line));
        match context {
            Some(mark) => error.with_related(Span::at(mark.at), "it starts here"),
            None => error,
        }
    }

    // ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) fn push(&mut self, kind: SynKind, span: Span, line: u32) -> u32 {
        let number = self.nodes.len() as u32;
        self.nodes.push(Syn {
            kind,
            span,
            line,
            next: number + 1,
        });
        number
    }

    /// A missing value.
    pub(super) fn empty(&mut self, mark: Mark) {
        let text = Text::Source {
            start: mark.at,
            end: mark.at,
        };
        let kind = SynKind::Scalar {
            text,
            tag: None,
            implicit: true,
        };
        self.push(kind, Span::at(mark.at), mark.line);
    }

    /// Sets the extent of a collection that ends here.
    pub(super) fn close(&mut self, node: u32) {
        let next = self.nodes.len() as u32;
        let syn = &mut self.nodes[node as usize];
        syn.next = next;
        syn.span.end = self.end.max(syn.span.start);
        self.frames.pop();
    }

    /// Reads one node: a scalar or alias at once, a collection by opening a frame.
    pub(super) fn node(&mut self, block: bool, indentless: bool) -> Result<()> {
        let token = self.scanner.peek()?;
        let start = token.start;
        if token.kind == TokenKind::Alias {
            return self.alias();
        }
        let mut anchor = None;
        let mut tag = None;
        // Each property at most once, in either order.
        for _ in 0..2 {
            let token = self.scanner.peek()?;
            match &token.kind {
                TokenKind::Anchor if anchor.is_none() => {
                    let token = self.take()?;
                    anchor = Some(self.name(&token));
                }
                TokenKind::Tag(_) if tag.is_none() => {
                    let token = self.take()?;
                    tag = Some((token.kind, token.start));
                }
                _ => break,
            }
        }
        let tag = match tag {
            Some((TokenKind::Tag(parts), mark)) => Some(self.tag(&parts.handle, &parts.rest, mark)?),
            _ => None,
        };
        let number = self.nodes.len() as u32;
        if let Some(name) = anchor {
            self.anchors.insert(name, number);
        }
        let token = self.scanner.peek()?;
        let (at, end) = (token.start, token.end);
        let span = Span::new(at.at, end.at);
        let frame = match token.kind {
            TokenKind::BlockEntry if indentless => {
                self.push(SynKind::Sequence, span, start.line);
                return self.open(Frame::Indentless { node: number }, at);
            }
            TokenKind::Scalar { text, plain } => {
                let implicit = match tag {
                    None => plain,
                    Some(tag) => self.tags[tag as usize] == "!",
                };
                self.push(SynKind::Scalar { text, tag, implicit }, span, start.line);
                self.take()?;
                return Ok(());
            }
            TokenKind::FlowSequenceStart => Frame::FlowSequence {
                node: number,
                start: at,
                first: true,
            },
            TokenKind::FlowMappingStart => Frame::FlowMapping {
                node: number,
                start: at,
                first: true,
                stage: Stage::Key,
            },
            TokenKind::BlockSequenceStart if block => Frame::BlockSequence {
                node: number,
                start: at,
            },
            TokenKind::BlockMappingStart if block => Frame::BlockMapping {
                node: number,
                start: at,
                value: false,
            },
            _ if anchor.is_some() || tag.is_some() => {
                // The end of the properties is the best location for an error about what should follow them.
                let place = Mark {
                    at: self.end,
                    line: start.line,
                };
                self.empty(place);
                if let (Some(tag), Some(syn)) = (tag, self.nodes.last_mut())
                    && let SynKind::Scalar {
                        tag: place, implicit, ..
                    } = &mut syn.kind
                {
                    *place = Some(tag);
                    *implicit = false;
                }
                return Ok(());
            }
            _ => {
                return Err(self.error(
                    at,
                    Message::new("expected a value", "did not find expected node content"),
                    Some(start).filter(|mark| *mark != at),
                ));
            }
        };
        let kind = match frame {
            Frame::FlowSequence { .. } | Frame::BlockSequence { .. } => SynKind::Sequence,
            _ => SynKind::Mapping,
        };
        self.push(kind, span, start.line);
        self.take()?;
        self.open(frame, at)
    }

    pub(super) fn open(&mut self, frame: Frame, at: Mark) -> Result<()> {
        if self.frames.len() >= self.depth {
            let message = format!("more than {} levels of nesting", self.depth);
            return Err(Error::new(ErrorKind::Depth, Span::at(at.at), message));
        }
        self.frames.push(frame);
        Ok(())
    }

    fn name(&self, token: &Token) -> &'a str {
        &self.scanner.text[token.start.at as usize + 1..token.end.at as usize]
    }

    fn alias(&mut self) -> Result<()> {
        let token = self.take()?;
        let name = self.name(&token);
        let span = Span::new(token.start.at, token.end.at);
        let Some(&target) = self.anchors.get(name) else {
            return Err(Error::new(
                ErrorKind::Alias,
                span,
                Message::new(
                    format!("unknown anchor `{name}`"),
                    format!("unknown anchor '{name}' referenced"),
                ),
            ));
        };
        self.push(SynKind::Alias { target }, span, token.start.line);
        Ok(())
    }

    fn tag(&mut self, handle: &str, rest: &str, at: Mark) -> Result<u32> {
        let tag = if handle.is_empty() {
            rest.to_owned()
        } else {
            let prefix = self.handles.iter().find(|(known, _)| known == handle);
            match prefix.map(|(_, prefix)| format!("{prefix}{rest}")) {
                Some(tag) if !tag.is_empty() => tag,
                _ => {
                    return Err({
                        let text = format!("unknown tag handle `{handle}`");
                        self.error(at, Message::new(text, "found undefined tag handle"), None)
                    });
                }
            }
        };
        // Most documents have no tags and the others few, so recent ones are the likely ones.
        let known = self.tags.iter().rev().take(8).position(|known| *known == tag);
        if let Some(back) = known {
            return Ok((self.tags.len() - 1 - back) as u32);
        }
        self.tags.push(tag);
        Ok(self.tags.len() as u32 - 1)
    }
}
