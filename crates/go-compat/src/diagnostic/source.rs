//! The source texts that diagnostics refer to, and positions in them.
//!
//! A line ends at `\n` (so `\r\n` works as well), a column counts characters, both start at 1. A byte order mark at the
//! beginning of a file does not count as a column. Offsets outside the text are moved to its end: a wrong span gives an
//! odd picture, never a panic.

use std::sync::{Arc, OnceLock};

/// Identifies a source within a [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// A range of bytes in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// The range `start..end` of a source.
    pub const fn new(file: FileId, start: u32, end: u32) -> Self {
        Self { file, start, end }
    }

    /// An empty range between two bytes.
    pub const fn point(file: FileId, at: u32) -> Self {
        Self::new(file, at, at)
    }
}

/// A line and a column, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: usize,
    /// In characters.
    pub column: usize,
}

#[derive(Debug, Clone)]
struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// The byte at which each line starts, computed on first use.
    lines: OnceLock<Vec<usize>>,
}

/// The source texts of one run, each with its name.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    all: Vec<Source>,
}

impl Sources {
    pub const fn new() -> Self {
        Self { all: Vec::new() }
    }

    /// Adds a source and returns the identifier that spans use. The name is the path as the user gave it.
    ///
    /// # Panics
    /// If there are more than 2³² sources.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> FileId {
        let id = FileId(u32::try_from(self.all.len()).expect("fewer than 2^32 sources"));
        self.all.push(Source {
            name: name.into(),
            text: text.into(),
            lines: OnceLock::new(),
        });
        id
    }

    /// Every source, in insertion order.
    pub fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.all.len() as u32).map(FileId)
    }

    /// The name of a source; `None` if the id belongs to another store.
    pub fn name(&self, file: FileId) -> Option<&str> {
        self.source(file).map(|source| &*source.name)
    }

    /// The text of a source; `None` if the id belongs to another store.
    pub fn text(&self, file: FileId) -> Option<&Arc<str>> {
        self.source(file).map(|source| &source.text)
    }

    /// Line and column of a byte; `None` if the id belongs to another store.
    pub fn position(&self, file: FileId, byte: u32) -> Option<Position> {
        let source = self.source(file)?;
        let byte = source.text.floor_char_boundary(byte as usize);
        let line = source.line_of(byte);
        let start = source.visible_start(line);
        let column = source.text.get(start..byte).map_or(0, |before| before.chars().count()) + 1;
        Some(Position { line: line + 1, column })
    }

    fn source(&self, file: FileId) -> Option<&Source> {
        self.all.get(file.0 as usize)
    }

    /// The whole lines that a range touches: the number of the first one (from 1), the byte at which it starts, and
    /// their text.
    pub(super) fn lines(&self, file: FileId, start: usize, end: usize) -> Option<(usize, usize, &str)> {
        let source = self.source(file)?;
        let first = source.line_of(start);
        let from = source.visible_start(first);
        let last = source.line_of(end.max(start));
        let to = source.starts().get(last + 1).copied().unwrap_or(source.text.len());
        Some((first + 1, from, source.text.get(from..to)?))
    }
}

impl Source {
    fn starts(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let after = self
                .text
                .bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(i, _)| i + 1);
            std::iter::once(0).chain(after).collect()
        })
    }

    /// The line (from 0) that contains a byte.
    fn line_of(&self, byte: usize) -> usize {
        self.starts().partition_point(|start| *start <= byte).saturating_sub(1)
    }

    /// The first byte of a line (from 0), after a byte order mark.
    fn visible_start(&self, line: usize) -> usize {
        match self.starts().get(line) {
            Some(0) | None if self.text.starts_with('\u{feff}') => '\u{feff}'.len_utf8(),
            start => start.copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str, bytes: &[u32]) -> Vec<(usize, usize)> {
        let mut sources = Sources::new();
        let file = sources.add("f", text);
        let place = |byte: &u32| sources.position(file, *byte).map(|p| (p.line, p.column));
        bytes.iter().filter_map(place).collect()
    }

    #[test]
    fn lines_and_columns() {
        assert_eq!(
            positions("ab\r\nc\n", &[0, 1, 4, 5, 6, 99]),
            [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 1)]
        );
        assert_eq!(positions("", &[0, 1]), [(1, 1), (1, 1)]);
        assert_eq!(
            positions("ä漢x", &[0, 1, 2, 3, 5]),
            [(1, 1), (1, 1), (1, 2), (1, 2), (1, 3)]
        );
        assert_eq!(
            positions("\u{feff}ab\nc", &[0, 3, 4, 6]),
            [(1, 1), (1, 1), (1, 2), (2, 1)]
        );
    }

    #[test]
    fn a_foreign_id_is_nowhere() {
        let sources = Sources::new();
        assert_eq!(sources.position(FileId(3), 0), None);
        assert_eq!(sources.name(FileId(3)), None);
        assert_eq!(sources.text(FileId(3)), None);
    }
}
