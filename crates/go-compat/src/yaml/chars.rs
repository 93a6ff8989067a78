//! Character classes of YAML 1.1, over bytes. Reading past the end gives a zero byte, which cannot occur in the text.

/// The byte at `at`.
#[inline]
pub(super) fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// A space or a tab.
#[inline]
pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The length of the line break at `at` in bytes; 0 if there is none.
///
/// The splitter strips one carriage return before each line feed, so a second one belongs to the same break.
#[inline]
pub(super) fn break_len(text: &[u8], at: usize) -> usize {
    match byte(text, at) {
        b'\n' => 1,
        b'\r' => match (byte(text, at + 1), byte(text, at + 2)) {
            (b'\n', _) => 2,
            (b'\r', b'\n') => 3,
            _ => 1,
        },
        0xC2 if byte(text, at + 1) == 0x85 => 2,
        0xE2 if byte(text, at + 1) == 0x80 && matches!(byte(text, at + 2), 0xA8 | 0xA9) => 3,
        _ => 0,
    }
}

/// Whether the break at `at` reads as a line feed; U+2028 and U+2029 are preserved.
#[inline]
pub(super) fn is_feed(text: &[u8], at: usize) -> bool {
    byte(text, at) != 0xE2
}

/// A line break or the end.
#[inline]
pub(super) fn is_break_or_end(text: &[u8], at: usize) -> bool {
    at >= text.len() || break_len(text, at) > 0
}

/// A blank, a line break or the end.
#[inline]
pub(super) fn is_gap(text: &[u8], at: usize) -> bool {
    match byte(text, at) {
        b' ' | b'\t' | b'\n' | b'\r' | 0 => true,
        0xC2 | 0xE2 => break_len(text, at) > 0,
        _ => false,
    }
}

/// A character of a name: letter, digit, `_` or `-`.
#[inline]
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// A character of a tag, percent escapes included.
pub(super) fn is_uri(byte: u8) -> bool {
    is_name(byte) || b";/?:@&=+$,.!~*'()[]%".contains(&byte)
}

/// `---` or `...`, followed by a gap.
pub(super) fn is_document_marker(text: &[u8], at: usize) -> bool {
    matches!(byte(text, at), b'-' | b'.')
        && byte(text, at + 1) == byte(text, at)
        && byte(text, at + 2) == byte(text, at)
        && is_gap(text, at + 3)
}

/// The offset of the first character that YAML forbids.
pub(super) fn forbidden(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r') || byte == 0x7F {
            return Some(at);
        }
        // C1 controls other than U+0085; the two non-characters at the end of the plane.
        if byte == 0xC2 && bytes[at + 1] < 0xA0 && bytes[at + 1] != 0x85
            || byte == 0xEF && bytes[at + 1] == 0xBF && bytes[at + 2] >= 0xBE
        {
            return Some(at);
        }
        at += 1;
    }
    None
}
