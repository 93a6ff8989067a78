//! Problems in an expression, with their locations.
//!
//! Upstream counterpart: cel-go `common/{error,errors,location,source}.go`. Lines count from 1, columns from 0 and in
//! code points; the display adds one to the column. Used by the parser and by the type checker.

use std::fmt::{self, Write as _};

/// The maximum number of problems kept; the display counts the rest.
const MAX_REPORTED: usize = 100;

/// A longer line (in bytes) is not shown below its problem.
const MAX_SNIPPET: usize = 16384;

/// A position in an expression's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Counted from 1.
    pub line: i32,
    /// In code points, counted from 0.
    pub column: i32,
}

impl Location {
    /// The location of a problem without one.
    pub(crate) const NONE: Self = Self { line: -1, column: -1 };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub location: Location,
    /// cel-go's message.
    pub message: String,
}

/// An expression's source with its line starts.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    text: &'a str,
    /// The code-point offset after each line's end; the last one is the end of the source.
    line_offsets: Vec<i32>,
}

impl<'a> Source<'a> {
    /// Finds the lines of `text`.
    pub fn new(text: &'a str) -> Self {
        let mut line_offsets = Vec::new();
        if text.is_ascii() {
            line_offsets.extend(
                text.bytes()
                    .enumerate()
                    .filter_map(|(i, b)| (b == b'\n').then_some(i as i32 + 1)),
            );
            line_offsets.push(text.len() as i32 + 1);
        } else {
            let mut length = 0;
            for c in text.chars() {
                length += 1;
                if c == '\n' {
                    line_offsets.push(length);
                }
            }
            line_offsets.push(length + 1);
        }
        if text.is_empty() {
            // cel-go gives an empty source one line that ends where it starts.
            line_offsets[0] = 0;
        }
        Self { text, line_offsets }
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The location of a code-point offset, as cel-go's `GetLocationByOffset` finds it: in an empty source it is the
    /// second line.
    pub fn location(&self, offset: i32) -> Location {
        let passed = self.line_offsets.partition_point(|&start| start <= offset);
        let column = match passed {
            0 => offset,
            n => offset - self.line_offsets[n - 1],
        };
        Location {
            line: passed as i32 + 1,
            column,
        }
    }

    /// The code-point offset of a location; -1 for a line that does not exist.
    pub fn offset(&self, location: Location) -> i32 {
        self.line_start(location.line)
            .map_or(-1, |start| start + location.column)
    }

    fn line_start(&self, line: i32) -> Option<i32> {
        match line {
            1 => Some(0),
            2.. if line as usize <= self.line_offsets.len() => Some(self.line_offsets[line as usize - 2]),
            _ => None,
        }
    }

    /// The text of a line without its end.
    pub(crate) fn snippet(&self, line: i32) -> Option<&'a str> {
        self.line_start(line)?;
        if self.text.is_empty() {
            return None;
        }
        self.text.split('\n').nth(line as usize - 1)
    }
}

/// The problems of one expression, at least one, sorted by location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issues {
    list: Vec<Issue>,
    total: usize,
    text: String,
}

impl Issues {
    /// Sorted by location; problems at the same location keep the order in which they were found.
    pub fn list(&self) -> &[Issue] {
        &self.list
    }

    /// The first line of the display: the first problem without its excerpt.
    pub fn first_line(&self) -> String {
        let display = self.to_string();
        display.lines().next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Issues {
    /// All problems with an excerpt of the text each, as cel-go's `Errors.ToDisplayString` shows them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = Source::new(&self.text);
        for (i, issue) in self.list.iter().enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            let Location { line, column } = issue.location;
            write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
            if let Some(snippet) = source.snippet(line).filter(|s| s.len() <= MAX_SNIPPET) {
                write_snippet(f, snippet, column)?;
            }
        }
        if self.total > MAX_REPORTED {
            write!(f, "\n{} more errors were truncated", self.total - MAX_REPORTED)?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

fn write_snippet(f: &mut fmt::Formatter<'_>, snippet: &str, column: i32) -> fmt::Result {
    f.write_str("\n | ")?;
    for c in snippet.chars() {
        f.write_char(if c == '\t' { ' ' } else { c })?;
    }
    f.write_str("\n | ")?;
    // Everything beyond ASCII counts as wide and gets a wide mark below it.
    let mut rest = snippet.chars();
    for c in rest.by_ref().take(usize::try_from(column).unwrap_or(0)) {
        f.write_char(if c.is_ascii() { '.' } else { '\u{ff0e}' })?;
    }
    f.write_char(match rest.next() {
        Some(c) if !c.is_ascii() => '\u{ff3e}',
        _ => '^',
    })
}

/// Collects problems.
#[derive(Debug, Clone, Default)]
pub(crate) struct IssueSink {
    issues: Vec<Issue>,
    total: usize,
}

impl IssueSink {
    pub(crate) fn report(&mut self, location: Location, message: impl Into<String>) {
        self.total += 1;
        if self.issues.len() < MAX_REPORTED {
            self.issues.push(Issue {
                location,
                message: message.into(),
            });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The problems in order, or `None` if there is none.
    pub(crate) fn into_issues(self, text: &str) -> Option<Issues> {
        let Self { mut issues, total } = self;
        issues.sort_by_key(|issue| issue.location);
        (total > 0).then(|| Issues {
            list: issues,
            total,
            text: text.to_owned(),
        })
    }
}
