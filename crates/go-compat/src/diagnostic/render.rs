//! Renders diagnostics as text: an excerpt with carets, or one line.
//!
//! `annotate-snippets` draws the excerpt; this module decides which lines it sees. It passes only the lines between the
//! first and the last marked one, so that the work depends on the excerpt and not on the file.

use std::{borrow::Cow, fmt::Write as _, ops::Range};

use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use super::{Diagnostic, FileId, Severity, Sources, Span};

/// The largest part of a source, in bytes, that is drawn as one excerpt. Beyond it each mark gets its own small
/// excerpt.
const LARGEST_EXCERPT: usize = 64 * 1024;

/// How many bytes after the start of a mark a small excerpt extends at most.
const MARGIN: usize = 512;

/// Renders the diagnostic with an excerpt of each source that it refers to; ends with a newline. With `color` the text
/// contains ANSI escapes.
pub fn full(diagnostic: &Diagnostic, sources: &Sources, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let title = level(diagnostic.severity)
        .primary_title(diagnostic.message.as_str())
        .id(diagnostic.code.id());
    let mut group = Group::with_title(title);
    for (file, marks) in by_file(diagnostic) {
        group = group.elements(excerpts(sources, file, &marks).unwrap_or_default());
    }
    let notes = diagnostic.notes.iter().map(|note| Level::NOTE.message(note.as_str()));
    let help = diagnostic.help.iter().map(|help| Level::HELP.message(help.as_str()));
    let group = group.elements(notes).elements(help);
    let mut text = renderer.render(&[group]);
    text.push('\n');
    text
}

/// Renders the diagnostic as one line, `file:line:column: severity[KT001]: message`, without a newline at the end.
pub fn concise(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let mut line = String::new();
    if let Some(span) = diagnostic.primary
        && let Some(name) = sources.name(span.file)
        && let Some(place) = sources.position(span.file, span.start)
    {
        line.push_str(&one_line(name));
        if sources.text(span.file).is_some_and(|text| !text.is_empty()) {
            let _ = write!(line, ":{}:{}", place.line, place.column);
        }
        line.push_str(": ");
    }
    let severity = diagnostic.severity.name();
    let _ = write!(
        line,
        "{severity}[{}]: {}",
        diagnostic.code,
        one_line(&diagnostic.message)
    );
    line
}

/// Replaces line breaks and other characters that change how the rest of the line looks.
fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(misleading) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => line.push(' '),
            '\r' => {}
            c if misleading(c) => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    Cow::Owned(line)
}

/// Control characters, line separators and the marks that change the direction of writing.
pub fn misleading(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Note => Level::NOTE,
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    }
}

/// A part of a source and the text beside it.
struct Mark<'a> {
    span: Span,
    primary: bool,
    message: &'a str,
}

impl<'a> Mark<'a> {
    /// Annotates the bytes `range` of a source of which the part from byte `from` on is drawn.
    fn annotation(&self, range: Range<usize>, from: usize) -> Annotation<'a> {
        let kind = if self.primary {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        let range = range.start.saturating_sub(from)..range.end.saturating_sub(from);
        kind.span(range)
            .label((!self.message.is_empty()).then_some(self.message))
    }
}

/// The marks of each source: that of the primary location first, then those of the labels in order.
fn by_file(diagnostic: &Diagnostic) -> Vec<(FileId, Vec<Mark<'_>>)> {
    let mut marks = Vec::new();
    if let Some(span) = diagnostic.primary
        && diagnostic.labels.iter().all(|label| label.span != span)
    {
        marks.push(Mark {
            span,
            primary: true,
            message: "",
        });
    }
    let mut labels: Vec<Mark<'_>> = diagnostic
        .labels
        .iter()
        .map(|label| Mark {
            span: label.span,
            primary: diagnostic.primary == Some(label.span),
            message: &label.message,
        })
        .collect();
    labels.sort_by_key(|mark| !mark.primary);
    marks.extend(labels);
    let mut files: Vec<(FileId, Vec<Mark<'_>>)> = Vec::new();
    for mark in marks {
        match files.iter_mut().find(|(file, _)| *file == mark.span.file) {
            Some((_, list)) => list.push(mark),
            None => files.push((mark.span.file, vec![mark])),
        }
    }
    files
}

fn excerpts<'a>(sources: &'a Sources, file: FileId, marks: &[Mark<'a>]) -> Option<Vec<Element<'a>>> {
    let name = sources.name(file)?;
    let text = sources.text(file)?;
    if text.is_empty() {
        return Some(vec![Element::from(Origin::path(name))]);
    }
    let ranges: Vec<Range<usize>> = marks.iter().map(|mark| inside(mark.span, text)).collect();
    let first = ranges.iter().map(|range| range.start).min()?;
    let last = ranges.iter().map(|range| range.end).max()?;
    let (line, from, shown) = sources.lines(file, first, last)?;
    if shown.len() > LARGEST_EXCERPT {
        let small = marks
            .iter()
            .zip(ranges)
            .filter_map(|(mark, range)| small_excerpt(sources, name, mark, range));
        return Some(small.collect());
    }
    let annotations = marks
        .iter()
        .zip(ranges)
        .map(|(mark, range)| mark.annotation(range, from));
    Some(vec![Element::from(
        Snippet::source(shown)
            .path(name)
            .line_start(line)
            .annotations(annotations),
    )])
}

/// The line on which a mark starts, up to a little after it. The text before the mark must stay: the drawing library
/// counts the column from there.
fn small_excerpt<'a>(sources: &'a Sources, name: &'a str, mark: &Mark<'a>, range: Range<usize>) -> Option<Element<'a>> {
    let (line, from, shown) = sources.lines(mark.span.file, range.start, range.start)?;
    let end = shown.floor_char_boundary(range.start.saturating_sub(from).saturating_add(MARGIN));
    let shown = shown.get(..end)?;
    let last = from + shown.trim_end_matches(['\r', '\n']).len();
    let annotation = mark.annotation(range.start..range.end.min(last).max(range.start), from);
    Some(Element::from(
        Snippet::source(shown)
            .path(name)
            .line_start(line)
            .annotation(annotation),
    ))
}

/// Clips a span to the text, on character boundaries.
fn inside(span: Span, text: &str) -> Range<usize> {
    let start = text.floor_char_boundary(span.start as usize);
    let end = text.ceil_char_boundary(span.end as usize);
    start..end.max(start)
}
