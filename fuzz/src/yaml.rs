//! The body of the target `yaml`: any bytes are read or refused, every place lies in the source, and what is emitted
//! reads back as it was.

use kyvtest::yaml::{Error, Kind, Limits, Mode, Node, Span, Stream, emit, read};

/// Checks one input.
///
/// # Panics
/// If the reader or the emitter breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let limits = Limits::default();
    let lax = read(data, Mode::Lax, &limits);
    let strict = read(data, Mode::Strict, &limits);
    assert_eq!(lax.documents().len(), strict.documents().len());
    for (document, other) in lax.documents().iter().zip(strict.documents()) {
        place(&lax, document.span());
        match document.tree() {
            Ok(tree) => {
                located(&lax, tree.root());
                let text = emit::to_string(tree.root());
                let again = read(&text, Mode::Strict, &limits);
                let back = match again.documents() {
                    [document] => document.tree().unwrap_or_else(|error| panic!("{error} in {text:?}")),
                    documents => panic!("{} documents in {text:?}", documents.len()),
                };
                assert!(same(tree.root(), back.root()), "other value in {text:?}");
            }
            Err(error) => {
                refused(&lax, error);
                assert!(other.tree().is_err(), "strict accepts what lax refuses");
            }
        }
        if let Err(error) = other.tree() {
            refused(&strict, error);
        }
    }
    if let Some(cut) = lax.cut() {
        refused(&lax, cut);
    }
}

fn place(stream: &Stream, span: Span) {
    let (start, end) = (span.start as usize, span.end as usize);
    assert!(stream.source().get(start..end).is_some(), "no such place: {span:?}");
}

fn refused(stream: &Stream, error: &Error) {
    place(stream, error.span());
    if let Some((span, _)) = error.related() {
        place(stream, span);
    }
    let position = stream.lines().position(error.span().start);
    assert_eq!(
        stream.lines().offset(position).map(|at| at <= error.span().start),
        Some(true)
    );
}

fn located(stream: &Stream, node: Node<'_>) {
    place(stream, node.span());
    match node.kind() {
        Kind::Seq(items) => items.iter().for_each(|item| located(stream, item)),
        Kind::Map(entries) => {
            for entry in entries.iter() {
                place(stream, entry.key_span);
                let at = entry.key_source_offset(entry.key.len() / 2);
                assert!(entry.key_span.start <= at && at <= entry.key_span.end);
                located(stream, entry.value);
            }
        }
        _ => {
            let text = node.raw_text().expect("a scalar");
            let segments = node.segments();
            let mut last = 0;
            for (offset, character) in text.char_indices().step_by(1 + text.len() / 64) {
                let at = segments.source_offset(offset);
                assert_eq!(at, node.source_offset(offset));
                assert!(last <= at && at as usize <= stream.source().len());
                last = at;
                // What is not an escape or a folded break stands there as it is.
                let found = stream.source()[at as usize..].chars().next();
                let special = matches!(found, Some('\\' | '\'' | '\n' | '\r' | '\u{85}') | None);
                assert!(special || found == Some(character), "{character:?} is not at {at}");
            }
        }
    }
}

fn same(left: Node<'_>, right: Node<'_>) -> bool {
    match (left.kind(), right.kind()) {
        (Kind::Null, Kind::Null) => true,
        (Kind::Bool(left), Kind::Bool(right)) => left == right,
        (Kind::Int(left), Kind::Int(right)) => left == right,
        (Kind::Uint(left), Kind::Uint(right)) => left == right,
        (Kind::Float(left), Kind::Float(right)) => left.to_bits() == right.to_bits(),
        (Kind::Str(left), Kind::Str(right)) => left == right,
        (Kind::Seq(left), Kind::Seq(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(left, right)| same(left, right))
        }
        (Kind::Map(left), Kind::Map(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right.iter())
                    .all(|(left, right)| left.key == right.key && same(left.value, right.value))
        }
        _ => false,
    }
}
