//! Kyverno's wildcard match (`go-wildcard` 1.0.3): `*` is any run of characters, `?` exactly one, everything else itself.
//!
//! Upstream tries both branches of every `*` recursively, which is exponential; one remembered `*` is enough, because what
//! an earlier one took never has to be reconsidered once a later one is reached.

/// Whether the whole text matches the pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, bytes) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to resume: after the last `*`, and one character further in the text than last time.
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

/// Whether a text has a wildcard at all.
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
