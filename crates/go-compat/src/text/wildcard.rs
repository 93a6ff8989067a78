//! Kyverno's wildcard match (`go-wildcard` 1.0.3): `*` matches any run of characters, `?` exactly one.
//!
//! Upstream tries both branches of every `*` recursively, which is exponential. Remembering one `*` is enough: once a
//! later one is reached, the extent of an earlier one never has to be reconsidered.

/// Reports whether the whole text matches the pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, bytes) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to resume: after the last `*`, one character further in the text than last time.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                if p == pattern.len() {
                    return true;
                }
                star = Some((p, t));
                continue;
            }
            Some(b'?') if t < bytes.len() => {
                p += 1;
                t = next(text, t);
                continue;
            }
            Some(byte) if *byte != b'?' && bytes.get(t) == Some(byte) => {
                p += 1;
                t += 1;
                continue;
            }
            None if t == bytes.len() => return true,
            _ => {}
        }
        match star {
            Some((after, at)) if at < bytes.len() => {
                let at = next(text, at);
                star = Some((after, at));
                (p, t) = (after, at);
            }
            _ => return false,
        }
    }
}

/// Reports whether a string contains a wildcard.
pub fn has_wildcard(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'*' | b'?'))
}

/// The position of the character after the one at `at`.
fn next(text: &str, at: usize) -> usize {
    let mut at = at + 1;
    while at < text.len() && !text.is_char_boundary(at) {
        at += 1;
    }
    at
}
