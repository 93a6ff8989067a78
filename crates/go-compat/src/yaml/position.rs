//! Byte spans, and the conversion of byte offsets to lines and columns.

use std::sync::Arc;

/// A range of bytes in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// The span from `start` (inclusive) to `end` (exclusive).
    pub fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// The empty span at `offset`.
    pub fn at(offset: u32) -> Self {
        Self {
            start: offset,
            end: offset,
        }
    }

    pub(super) fn of(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The smallest span that contains both.
    pub(crate) fn to(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// A line and a column, both counted from 1; columns count code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// The lines of one source. A line ends with a line feed; a carriage return before it belongs to the line end.
#[derive(Debug, Clone)]
pub struct LineIndex {
    text: Arc<str>,
    starts: Vec<u32>,
}

impl LineIndex {
    /// Finds the lines of `text`.
    pub fn new(text: Arc<str>) -> Self {
        let mut starts = vec![0];
        starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at as u32 + 1),
        );
        Self { text, starts }
    }

    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The position of a byte; an offset past the end counts as the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = offset.min(self.text.len() as u32);
        let line = self.starts.partition_point(|start| *start <= offset) - 1;
        let start = self.starts[line];
        // Continuation bytes do not start a code point, so this also holds for an offset inside one.
        let column = self.text.as_bytes()[start as usize..offset as usize]
            .iter()
            .filter(|byte| (**byte & 0xC0) != 0x80)
            .count();
        Position {
            line: line as u32 + 1,
            column: column as u32 + 1,
        }
    }

    /// The byte at a position; a column past the end of the line counts as its end. `None` if the line does not exist.
    pub fn offset(&self, position: Position) -> Option<u32> {
        let line = (position.line as usize).checked_sub(1)?;
        let span = self.line_span(line)?;
        let text = &self.text[span.start as usize..span.end as usize];
        let ahead = position.column.saturating_sub(1) as usize;
        let width = text.char_indices().nth(ahead).map_or(text.len(), |(at, _)| at);
        Some(span.start + width as u32)
    }

    /// The bytes of a line (counted from 0) without its line end.
    fn line_span(&self, line: usize) -> Option<Span> {
        let start = *self.starts.get(line)?;
        let end = self
            .starts
            .get(line + 1)
            .map_or(self.text.len() as u32, |next| next - 1);
        let bytes = &self.text.as_bytes()[start as usize..end as usize];
        let end = if bytes.last() == Some(&b'\r') { end - 1 } else { end };
        Some(Span { start, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_code_points_and_come_back() {
        let index = LineIndex::new("a: é€x\r\n\nb".into());
        assert_eq!(index.position(8), Position { line: 1, column: 6 });
        assert_eq!(index.position(12), Position { line: 3, column: 1 });
        assert_eq!(index.position(99), Position { line: 3, column: 2 });
        assert_eq!(index.offset(Position { line: 1, column: 6 }), Some(8));
        assert_eq!(index.offset(Position { line: 1, column: 90 }), Some(9));
        assert_eq!(index.offset(Position { line: 4, column: 1 }), None);
        assert_eq!(index.offset(Position { line: 0, column: 1 }), None);
    }
}
