//! `gzip.compress(text)` and `gzip.decompress(bytes)`.
//!
//! Upstream counterpart: SDK `libs/gzip` over Go's `compress/gzip`: the same bytes out, the same errors.

use super::{
    deflate::deflate,
    inflate::{self, inflate},
    native,
};
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

/// The maximum size of decompressed text.
const LIMIT: usize = 64 << 20;

pub(super) fn declare(library: &mut Library) {
    library.add(
        "gzip.decompress",
        [global("decompress_bytes_string", &[Type::Bytes], Type::String).unary(decompress)],
    );
    library.add(
        "gzip.compress",
        [global("compress_any_bytes", &[Type::Dyn], Type::Bytes).unary(compress)],
    );
}

fn compress<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [text] = args else { return NO_SUCH_OVERLOAD };
    let text = match native::string(context, *text) {
        Ok(text) => text,
        Err(error) => return error,
    };
    // No name, no time, no hint of the level, an unknown operating system.
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    deflate(text.as_bytes(), &mut out);
    out.extend_from_slice(&crc32(text.as_bytes()).to_le_bytes());
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    context.bytes(&out)
}

fn decompress<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::Bytes(bytes)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    match read(bytes) {
        Ok(text) => context.string(&String::from_utf8_lossy(&text)),
        Err(error) => context.error(format_args!("{error}")),
    }
}

const HEADER: &str = "gzip: invalid header";
const END: &str = "unexpected EOF";

/// Decompresses `gzip` data.
///
/// # Errors
/// Go's message, if the input is malformed or larger than the limit.
pub fn read(input: &[u8]) -> Result<Vec<u8>, String> {
    if input.is_empty() {
        return Err("EOF".to_owned());
    }
    let mut out = Vec::new();
    let mut rest = input;
    // Several members may follow each other.
    while !rest.is_empty() {
        rest = skip_header(rest)?;
        let start = out.len();
        let used = inflate(rest, &mut out, LIMIT).map_err(|error| match error {
            inflate::Error::End => END.to_owned(),
            inflate::Error::Corrupt(offset) => format!("flate: corrupt input before offset {offset}"),
            inflate::Error::TooLong => format!("decompressed text is longer than {LIMIT} bytes"),
        })?;
        rest = &rest[used..];
        let trailer = rest.get(..8).ok_or(END)?;
        let text = &out[start..];
        if trailer[..4] != crc32(text).to_le_bytes() || trailer[4..] != (text.len() as u32).to_le_bytes() {
            return Err("gzip: invalid checksum".to_owned());
        }
        rest = &rest[8..];
    }
    Ok(out)
}

fn skip_header(input: &[u8]) -> Result<&[u8], String> {
    let header = input.get(..10).ok_or(END)?;
    if header[..3] != [0x1f, 0x8b, 8] {
        return Err(HEADER.to_owned());
    }
    let flags = header[3];
    let mut at = 10;
    if flags & 4 != 0 {
        let length = input.get(at..at + 2).ok_or(END)?;
        at += 2 + usize::from(u16::from_le_bytes([length[0], length[1]]));
        input.get(..at).ok_or(END)?;
    }
    // A name, a comment.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let rest = &input[at..];
            match rest.iter().take(512).position(|&b| b == 0) {
                Some(end) => at += end + 1,
                None if rest.len() < 512 => return Err(END.to_owned()),
                None => return Err(HEADER.to_owned()),
            }
        }
    }
    if flags & 2 != 0 {
        let check = input.get(at..at + 2).ok_or(END)?;
        if (crc32(&input[..at]) as u16).to_le_bytes() != check {
            return Err(HEADER.to_owned());
        }
        at += 2;
    }
    Ok(&input[at..])
}

/// The checksum of gzip, four bits at a time.
fn crc32(bytes: &[u8]) -> u32 {
    const fn table() -> [u32; 16] {
        let mut table = [0; 16];
        let mut i = 0;
        while i < 16 {
            let mut value = i as u32;
            let mut bit = 0;
            while bit < 4 {
                value = if value & 1 == 1 {
                    value >> 1 ^ 0xedb8_8320
                } else {
                    value >> 1
                };
                bit += 1;
            }
            table[i] = value;
            i += 1;
        }
        table
    }
    const TABLE: [u32; 16] = table();
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        let crc = crc ^ u32::from(byte);
        let crc = crc >> 4 ^ TABLE[(crc & 15) as usize];
        crc >> 4 ^ TABLE[(crc & 15) as usize]
    })
}
