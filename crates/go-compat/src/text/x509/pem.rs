//! PEM blocks.
//!
//! Upstream counterpart: Go's `encoding/pem` `Decode`: finds the first well-formed block, regardless of the surrounding
//! text.

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// A block: its type and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    pub kind: String,
    pub bytes: Vec<u8>,
    pub headers: bool,
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn find_last(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).rposition(|window| window == needle)
}

/// The first line without trailing white space, and the rest.
fn line(data: &[u8]) -> (&[u8], &[u8]) {
    let (first, rest) = match data.iter().position(|&b| b == b'\n') {
        Some(end) => (
            data[..end].strip_suffix(b"\r").unwrap_or(&data[..end]),
            &data[end + 1..],
        ),
        None => (data, &data[data.len()..]),
    };
    let length = first
        .iter()
        .rposition(|b| !matches!(b, b' ' | b'\t'))
        .map_or(0, |last| last + 1);
    (&first[..length], rest)
}

/// The first block, and the rest.
pub fn decode(data: &[u8]) -> Option<(Block, &[u8])> {
    let mut rest = data;
    loop {
        // The last beginning before the first end: beginnings without an end are skipped.
        let end = find_end(rest)?;
        let after_end = &rest[end + END.len()..];
        if let Some(block) = block(rest, end, after_end) {
            return Some((block, line(after_end).1));
        }
        rest = after_end;
    }
}

/// An end marker is at the start of a line.
fn find_end(data: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + find(&data[from..], END)?;
        if at > 0 && data[at - 1] == b'\n' {
            return Some(at);
        }
        from = at + 1;
    }
}

fn block(data: &[u8], end: usize, after_end: &[u8]) -> Option<Block> {
    let begin = find_last(&data[..end], BEGIN)?;
    if begin > 0 && data[begin - 1] != b'\n' {
        return None;
    }
    let (title, mut body) = line(&data[begin + BEGIN.len()..end]);
    let kind = title.strip_suffix(DASHES)?;
    let mut headers = false;
    while !body.is_empty() {
        let (first, next) = line(body);
        if !first.contains(&b':') {
            break;
        }
        headers = true;
        body = next;
    }
    let trailer = after_end.strip_prefix(kind)?.strip_prefix(DASHES)?;
    if !line(trailer).0.is_empty() {
        return None;
    }
    Some(Block {
        kind: String::from_utf8_lossy(kind).into_owned(),
        bytes: base64(body)?,
        headers,
    })
}

/// Standard base64 with padding; line breaks and blanks are ignored.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.iter().copied().filter(|b| !b" \t\r\n".contains(b)).collect();
    crate::text::base64::decode(&digits, true).ok()
}
