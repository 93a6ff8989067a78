//! Base64 with the standard alphabet.
//!
//! Upstream counterpart: Go's `encoding/base64`, `StdEncoding` and `RawStdEncoding`.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let sextet = (bits >> (18 - 6 * i)) as usize & 63;
            out.push(if i <= chunk.len() { ALPHABET[sextet].into() } else { '=' });
        }
    }
    out
}

/// Decodes base64; line ends are ignored. The error is the position that Go reports.
///
/// With `padded` the last group must be filled up with `=`, without it no `=` may occur.
pub fn decode(text: &[u8], padded: bool) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut bits = 0_u32;
        let mut letters = 0;
        let mut last = false;
        while letters < 4 {
            let Some(&letter) = text.get(at) else {
                match letters {
                    0 => return Ok(out),
                    count if count == 1 || padded => return Err(at - count),
                    _ => {}
                }
                last = true;
                break;
            };
            at += 1;
            if let Some(sextet) = sextet(letter) {
                bits = bits << 6 | u32::from(sextet);
                letters += 1;
                continue;
            }
            match letter {
                b'\r' | b'\n' => continue,
                b'=' if padded && letters >= 2 => {}
                _ => return Err(at - 1),
            }
            if letters == 2 {
                at = skip_line_ends(text, at);
                match text.get(at) {
                    None => return Err(text.len()),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(at - 1),
                }
            }
            at = skip_line_ends(text, at);
            if at < text.len() {
                return Err(at);
            }
            last = true;
            break;
        }
        bits <<= 6 * (4 - letters);
        out.extend_from_slice(&bits.to_be_bytes()[1..letters]);
        if last {
            return Ok(out);
        }
    }
}

fn skip_line_ends(text: &[u8], mut at: usize) -> usize {
    while let Some(b'\r' | b'\n') = text.get(at) {
        at += 1;
    }
    at
}

fn sextet(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}
