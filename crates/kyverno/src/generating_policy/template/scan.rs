//! Placeholders in texts: `(( expression ))`, and `\((` for a literal `((`.
//!
//! Upstream counterpart: `pkg/cel/policies/gpol/template/scanner.go` (1.19).

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    Literal(String),
    Expression(String),
}

/// Takes a text apart.
///
/// # Errors
/// The first placeholder that is not well formed, with its offset in bytes.
pub(super) fn scan(text: &str) -> Result<Vec<Segment>, String> {
    let mut segments = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\((") {
            literal.push_str("((");
            rest = after;
        } else if rest.starts_with("((") {
            let start = text.len() - rest.len();
            let (expression, end) = placeholder(text, start)?;
            if !literal.is_empty() {
                segments.push(Segment::Literal(std::mem::take(&mut literal)));
            }
            segments.push(Segment::Expression(expression));
            rest = &text[end..];
        } else {
            literal.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    if !literal.is_empty() {
        segments.push(Segment::Literal(literal));
    }
    Ok(segments)
}

/// The expression of the placeholder at an offset, and where it ends. Parentheses and quotes in it are balanced.
fn placeholder(text: &str, start: usize) -> Result<(String, usize), String> {
    let bytes = text.as_bytes();
    let (mut depth, mut quote) = (0_usize, None);
    let mut at = start + 2;
    while let Some(&byte) = bytes.get(at) {
        if let Some(open) = quote {
            if byte == b'\\' {
                at += 2;
                continue;
            }
            if byte == open {
                quote = None;
            }
            at += 1;
            continue;
        }
        match byte {
            b'"' | b'\'' => quote = Some(byte),
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            b')' if bytes.get(at + 1) == Some(&b')') => {
                let expression = text[start + 2..at].trim();
                if expression.is_empty() {
                    return Err(format!("empty placeholder at offset {start}"));
                }
                return Ok((expression.to_owned(), at + 2));
            }
            b')' => {
                return Err(format!(
                    "unbalanced parenthesis in placeholder starting at offset {start}"
                ));
            }
            _ => {}
        }
        at += 1;
    }
    Err(if quote.is_some() {
        format!("unterminated string literal in placeholder starting at offset {start}")
    } else {
        format!("unterminated placeholder starting at offset {start}: missing closing '))'")
    })
}

/// Whether a text has a placeholder that is not escaped.
pub(super) fn has_placeholder(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find("((") {
        if !rest[..at].ends_with('\\') {
            return true;
        }
        rest = &rest[at + 2..];
    }
    false
}

/// Whether a text has an escaped placeholder.
pub(super) fn has_escape(text: &str) -> bool {
    text.contains("\\((")
}
