//! Decompression of DEFLATE data.
//!
//! Upstream counterpart: Go's `compress/flate` reader, with its error messages: `flate: corrupt input before offset N`
//! counts the bytes read so far, which are never more than the next code needed.

/// The code lengths come in this order.
const CODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const MAX_LITERALS: usize = 286;
const MAX_DISTANCES: usize = 30;
const WINDOW: usize = 32_768;

/// The reason why decompression stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Error {
    /// The data ends too early.
    End,
    /// The data is invalid before this offset.
    Corrupt(usize),
    /// The output exceeds the caller's limit.
    TooLong,
}

/// A canonical Huffman code.
struct Huffman {
    /// How many codes there are of each length.
    counts: [u16; 16],
    /// The symbols in the order of their codes.
    symbols: Vec<u16>,
}

impl Huffman {
    /// `None` if the lengths are invalid. An empty code is valid until it is used, and so is a single code of one bit.
    fn new(lengths: &[u8]) -> Option<Self> {
        let mut counts = [0_u16; 16];
        for &length in lengths {
            counts[usize::from(length)] += 1;
        }
        counts[0] = 0;
        let longest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let mut code = 0_u32;
        for &count in &counts[1..=longest] {
            code = (code << 1) + u32::from(count);
        }
        if longest > 0 && code != 1 << longest && !(code == 1 && longest == 1) {
            return None;
        }
        let mut symbols: Vec<u16> = (0..lengths.len() as u16)
            .filter(|&s| lengths[usize::from(s)] > 0)
            .collect();
        symbols.sort_by_key(|&symbol| lengths[usize::from(symbol)]);
        Some(Self { counts, symbols })
    }

    fn fixed() -> Self {
        let mut lengths = [8_u8; 288];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        Self::new(&lengths).expect("the fixed code is complete")
    }
}

/// Decompresses one stream from the start of `input`; returns the number of bytes used.
pub(super) fn inflate(input: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<usize, Error> {
    let mut reader = Reader {
        input,
        at: 0,
        bits: 0,
        bit_count: 0,
        start: out.len(),
        out,
        limit,
    };
    loop {
        let last = reader.bits(1)? == 1;
        match reader.bits(2)? {
            0 => reader.stored()?,
            1 => reader.compressed(&Huffman::fixed(), None)?,
            2 => {
                let (literals, distances) = reader.codes()?;
                reader.compressed(&literals, Some(&distances))?;
            }
            _ => return Err(reader.corrupt()),
        }
        if last {
            return Ok(reader.at);
        }
    }
}

struct Reader<'i, 'o> {
    input: &'i [u8],
    at: usize,
    bits: u32,
    bit_count: u32,
    out: &'o mut Vec<u8>,
    /// Where this stream's output begins.
    start: usize,
    limit: usize,
}

impl Reader<'_, '_> {
    fn corrupt(&self) -> Error {
        Error::Corrupt(self.at)
    }

    fn need(&mut self, count: u32) -> Result<(), Error> {
        while self.bit_count < count {
            let byte = *self.input.get(self.at).ok_or(Error::End)?;
            self.at += 1;
            self.bits |= u32::from(byte) << self.bit_count;
            self.bit_count += 8;
        }
        Ok(())
    }

    fn bits(&mut self, count: u32) -> Result<u32, Error> {
        self.need(count)?;
        let value = self.bits & ((1 << count) - 1);
        self.bits >>= count;
        self.bit_count -= count;
        Ok(value)
    }

    fn symbol(&mut self, code: &Huffman) -> Result<usize, Error> {
        if code.symbols.is_empty() {
            return Err(self.corrupt());
        }
        let (mut value, mut first, mut index) = (0_u32, 0_u32, 0_u32);
        for length in 1..16 {
            value |= self.bits(1)?;
            let count = u32::from(code.counts[length]);
            if value < first + count {
                return Ok(usize::from(code.symbols[(index + value - first) as usize]));
            }
            index += count;
            first = (first + count) << 1;
            value <<= 1;
            if index as usize == code.symbols.len() {
                // The single code of one bit is 0; nothing begins with 1.
                break;
            }
        }
        Err(self.corrupt())
    }

    fn room(&self, count: usize) -> Result<(), Error> {
        if self.out.len() + count > self.limit {
            Err(Error::TooLong)
        } else {
            Ok(())
        }
    }

    fn stored(&mut self) -> Result<(), Error> {
        self.bits = 0;
        self.bit_count = 0;
        let header = self.input.get(self.at..self.at + 4).ok_or(Error::End)?;
        let (length, check) = (
            u16::from_le_bytes([header[0], header[1]]),
            u16::from_le_bytes([header[2], header[3]]),
        );
        self.at += 4;
        if check != !length {
            return Err(self.corrupt());
        }
        let data = self
            .input
            .get(self.at..self.at + usize::from(length))
            .ok_or(Error::End)?;
        self.room(data.len())?;
        self.out.extend_from_slice(data);
        self.at += data.len();
        Ok(())
    }

    fn codes(&mut self) -> Result<(Huffman, Huffman), Error> {
        self.need(14)?;
        let literals = self.bits(5)? as usize + 257;
        if literals > MAX_LITERALS {
            return Err(self.corrupt());
        }
        let distances = self.bits(5)? as usize + 1;
        if distances > MAX_DISTANCES {
            return Err(self.corrupt());
        }
        let count = self.bits(4)? as usize + 4;
        let mut lengths = [0_u8; 19];
        for &place in &CODE_ORDER[..count] {
            lengths[place] = self.bits(3)? as u8;
        }
        let code = Huffman::new(&lengths).ok_or(self.corrupt())?;
        let mut lengths = [0_u8; MAX_LITERALS + MAX_DISTANCES];
        let total = literals + distances;
        let mut at = 0;
        while at < total {
            let symbol = self.symbol(&code)?;
            let (extra, least, repeated) = match symbol {
                0..=15 => {
                    lengths[at] = symbol as u8;
                    at += 1;
                    continue;
                }
                16 => match at.checked_sub(1) {
                    Some(previous) => (2, 3, lengths[previous]),
                    None => return Err(self.corrupt()),
                },
                17 => (3, 3, 0),
                _ => (7, 11, 0),
            };
            let times = least + self.bits(extra)? as usize;
            if at + times > total {
                return Err(self.corrupt());
            }
            lengths[at..at + times].fill(repeated);
            at += times;
        }
        let first = Huffman::new(&lengths[..literals]);
        let second = Huffman::new(&lengths[literals..total]);
        match (first, second) {
            (Some(first), Some(second)) => Ok((first, second)),
            _ => Err(self.corrupt()),
        }
    }

    fn compressed(&mut self, literals: &Huffman, distances: Option<&Huffman>) -> Result<(), Error> {
        loop {
            let symbol = self.symbol(literals)?;
            let length = match symbol {
                0..=255 => {
                    self.room(1)?;
                    self.out.push(symbol as u8);
                    continue;
                }
                256 => return Ok(()),
                257..=264 => symbol - 254,
                265..=284 => {
                    // Four codes for each number of extra bits.
                    let extra = (symbol as u32 - 261) / 4;
                    let base = ((4 + (symbol - 265) % 4) << extra) + 3;
                    base + self.bits(extra)? as usize
                }
                285 => 258,
                _ => return Err(self.corrupt()),
            };
            let code = match distances {
                Some(code) => self.symbol(code)?,
                None => self.bits(5)?.reverse_bits() as usize >> 27,
            };
            let distance = match code {
                0..=3 => code + 1,
                4..MAX_DISTANCES => {
                    let extra = (code as u32 - 2) / 2;
                    ((2 + code % 2) << extra) + self.bits(extra)? as usize + 1
                }
                _ => return Err(self.corrupt()),
            };
            if distance > (self.out.len() - self.start).min(WINDOW) {
                return Err(self.corrupt());
            }
            self.room(length)?;
            for _ in 0..length {
                self.out.push(self.out[self.out.len() - distance]);
            }
        }
    }
}
