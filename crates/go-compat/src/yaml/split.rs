//! Splits a file into documents.
//!
//! Upstream counterpart: `ext/yaml` of Kyverno 1.19 over the line reader of `k8s.io/apimachinery/pkg/util/yaml`. It
//! cuts at lines that start with `---`, regardless of their context, keeps a leading separator as part of the document
//! that follows, and drops documents that have only blank lines and comments. At a separator with content on its line
//! it stops without an error, and the document before it is lost as well.

use super::{
    error::{Error, ErrorKind},
    position::Span,
};

const SEPARATOR: &[u8] = b"---";

/// Returns the documents as byte ranges, and the separator at which the splitter stops, if any.
///
/// The text ends with a line feed or is empty.
pub(super) fn split(text: &[u8]) -> (Vec<Span>, Option<Error>) {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < text.len() {
        let end = text[at..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(text.len(), |n| at + n + 1);
        let line = &text[at..end];
        if let Some(rest) = line.strip_prefix(SEPARATOR) {
            let rest = trim(rest);
            if !rest.is_empty() && rest[0] != b'#' {
                let span = Span::of(at, at + line.trim_ascii_end().len());
                let error = Error::new(
                    ErrorKind::Separator,
                    span,
                    "only a comment may follow `---` on its line",
                );
                return (documents, Some(error));
            }
            if at > start {
                push(&mut documents, text, start, at);
                start = end;
            }
        }
        at = end;
    }
    if at > start {
        push(&mut documents, text, start, at);
    }
    (documents, None)
}

fn push(documents: &mut Vec<Span>, text: &[u8], start: usize, end: usize) {
    let empty = text[start..end]
        .split(|byte| *byte == b'\n')
        .map(trim)
        .all(|line| line.is_empty() || line[0] == b'#');
    if !empty {
        documents.push(Span::of(start, end));
    }
}

/// Trims white space, including Unicode's.
fn trim(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    // Only a first or last byte outside ASCII can belong to further white space (or vertical tab, which is ASCII).
    let odd = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii() || *byte == 0x0B);
    if (odd(line.first()) || odd(line.last()))
        && let Ok(text) = std::str::from_utf8(line)
    {
        return text.trim().as_bytes();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        let (documents, error) = split(text.as_bytes());
        assert_eq!(error, None);
        documents
            .iter()
            .map(|span| &text[span.start as usize..span.end as usize])
            .collect()
    }

    #[test]
    fn documents() {
        assert_eq!(texts(""), Vec::<&str>::new());
        assert_eq!(texts("# only\n\n"), Vec::<&str>::new());
        assert_eq!(texts("a: 1\n---\nb: 2\n"), ["a: 1\n", "b: 2\n"]);
        assert_eq!(texts("---\na: 1\n"), ["---\na: 1\n"]);
        assert_eq!(texts("a\n---\n---\nb\n"), ["a\n", "---\nb\n"]);
        assert_eq!(texts("---\n---\n"), ["---\n"]);
        assert_eq!(texts("a\n--- # note\n# c\n--- \nb\n"), ["a\n", "b\n"]);
    }

    #[test]
    fn separator_with_content() {
        let (documents, error) = split(b"a: 1\n--- b: 2\nc: 3\n");
        assert_eq!(documents.len(), 0);
        assert_eq!(error.expect("refused").span(), Span::new(5, 13));
    }
}
