//! Compression to DEFLATE data, bit for bit like Go's default level.
//!
//! Upstream counterpart: Go's `compress/flate` writer at level 6. The whole input is available here, so positions are
//! those of the input; `Window` reproduces what upstream's sliding window forgets.

const WINDOW: usize = 1 << 15;
/// The shortest match searched for; the format's own minimum is one less.
const MIN_MATCH: usize = 4;
const MAX_MATCH: usize = 258;
const HASH_BITS: u32 = 17;
const BLOCK_TOKENS: usize = 1 << 14;
const STORED_LIMIT: usize = 65_535;
/// A match of this length shortens the search for a better one.
const GOOD: usize = 8;
/// After a match of this length, starting at the next byte is not tried.
const LAZY: usize = 16;
/// A match of this length ends the search.
const NICE: usize = 128;
const CHAIN: usize = 128;
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy)]
enum Token {
    Literal(u8),
    Match { length: u16, distance: u16 },
}

/// Appends the compressed form of `input` to `out`.
pub(super) fn deflate(input: &[u8], out: &mut Vec<u8>) {
    let mut bits = BitWriter { out, bits: 0, count: 0 };
    if !input.is_empty() {
        Compressor::new(input).run(&mut bits);
    }
    bits.stored_header(0, true);
    bits.flush();
}

/// The part of the input that upstream's buffer of two windows holds.
struct Window {
    /// The start of the buffer.
    base: usize,
    /// The end of the data copied into it.
    end: usize,
}

struct Compressor<'i> {
    input: &'i [u8],
    window: Window,
    /// The last position of each hash value, and for each position of a window the one before it.
    heads: Vec<u32>,
    previous: Vec<u32>,
    tokens: Vec<Token>,
    /// The start of the current block; `None` if the window has moved past it.
    block_start: Option<usize>,
}

impl<'i> Compressor<'i> {
    fn new(input: &'i [u8]) -> Self {
        Self {
            input,
            window: Window { base: 0, end: 0 },
            heads: vec![NOWHERE; 1 << HASH_BITS],
            previous: vec![NOWHERE; WINDOW],
            tokens: Vec::new(),
            block_start: Some(0),
        }
    }

    fn run(&mut self, bits: &mut BitWriter<'_>) {
        let mut at = 0;
        let (mut length, mut distance) = (MIN_MATCH - 1, 0);
        let mut pending = false;
        let mut head = NOWHERE;
        loop {
            if self.window.end - at < MIN_MATCH + MAX_MATCH && self.window.end < self.input.len() {
                self.refill(at);
                continue;
            }
            let lookahead = self.window.end - at;
            if lookahead == 0 {
                if pending {
                    self.tokens.push(Token::Literal(self.input[at - 1]));
                }
                if !self.tokens.is_empty() {
                    self.write_block(bits, at);
                }
                return;
            }
            if let Some(before) = self.insert(at) {
                head = before;
            }
            let (last_length, last_distance) = (length, distance);
            (length, distance) = (MIN_MATCH - 1, 0);
            let oldest = at.saturating_sub(WINDOW).max(self.window.base);
            if head != NOWHERE && head as usize >= oldest && lookahead > last_length && last_length < LAZY {
                (length, distance) = self.find(at, head as usize, lookahead).unwrap_or((length, distance));
            }
            if last_length >= MIN_MATCH && length <= last_length {
                // The match that began one byte earlier is as good: take it.
                self.tokens.push(Token::Match {
                    length: last_length as u16,
                    distance: (last_distance - 1) as u16,
                });
                for i in at + 1..at + last_length - 1 {
                    self.insert(i);
                }
                at += last_length - 1;
                pending = false;
                length = MIN_MATCH - 1;
                if self.tokens.len() == BLOCK_TOKENS {
                    self.write_block(bits, at);
                }
            } else {
                if pending {
                    self.tokens.push(Token::Literal(self.input[at - 1]));
                    if self.tokens.len() == BLOCK_TOKENS {
                        self.write_block(bits, at);
                    }
                }
                at += 1;
                pending = true;
            }
        }
    }

    fn refill(&mut self, at: usize) {
        if at - self.window.base >= 2 * WINDOW - (MIN_MATCH + MAX_MATCH) {
            self.window.base += WINDOW;
            self.block_start = self.block_start.filter(|&start| start >= self.window.base);
        }
        self.window.end = self.input.len().min(self.window.base + 2 * WINDOW);
    }

    /// Enters a position; returns the previous one with the same hash value. Does nothing near the end.
    fn insert(&mut self, at: usize) -> Option<u32> {
        if at + MIN_MATCH > self.window.end {
            return None;
        }
        let four = self.input.get(at..at + 4)?;
        let value = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
        let hash = value.wrapping_mul(0x1e35_a7bd) >> (32 - HASH_BITS);
        let before = std::mem::replace(&mut self.heads[hash as usize], at as u32);
        self.previous[at % WINDOW] = before;
        Some(before)
    }

    fn find(&self, at: usize, head: usize, lookahead: usize) -> Option<(usize, usize)> {
        let longest = lookahead.min(MAX_MATCH);
        let nice = longest.min(NICE);
        let here = &self.input[at..at + longest];
        let mut best = None;
        let mut length = MIN_MATCH - 1;
        // Upstream always passes the smallest length to beat, so the branch for good matches is never taken.
        debug_assert!(length < GOOD);
        let mut candidate = head;
        for _ in 0..CHAIN {
            let there = &self.input[candidate..candidate + longest];
            if here.get(length) == there.get(length) {
                let common = here.iter().zip(there).take_while(|(a, b)| a == b).count();
                if common > length && (common > MIN_MATCH || at - candidate <= 4096) {
                    length = common;
                    best = Some((length, at - candidate));
                    if common >= nice {
                        break;
                    }
                }
            }
            if candidate + WINDOW == at {
                break;
            }
            let next = self.previous[candidate % WINDOW];
            if next == NOWHERE || (next as usize) < self.window.base || (next as usize) + WINDOW < at {
                break;
            }
            candidate = next as usize;
        }
        best
    }

    fn write_block(&mut self, bits: &mut BitWriter<'_>, end: usize) {
        let plain = self
            .block_start
            .filter(|&start| start <= end)
            .map(|start| &self.input[start..end]);
        bits.block(&self.tokens, plain);
        self.block_start = Some(end);
        self.tokens.clear();
    }
}

/// The code of a length of a match, its number of extra bits and their value.
fn length_code(length: u16) -> (usize, u32, u32) {
    let n = u32::from(length) - 3;
    match n {
        0..8 => (257 + n as usize, 0, 0),
        255 => (285, 0, 0),
        _ => {
            let extra = n.ilog2() - 2;
            (
                261 + (extra * 4 + (n >> extra) - 4) as usize,
                extra,
                n & ((1 << extra) - 1),
            )
        }
    }
}

/// The code of a distance (one less than it is), its number of extra bits and their value.
fn distance_code(distance: u16) -> (usize, u32, u32) {
    let n = u32::from(distance);
    if n < 4 {
        return (n as usize, 0, 0);
    }
    let extra = n.ilog2() - 1;
    ((extra * 2 + (n >> extra)) as usize, extra, n & ((1 << extra) - 1))
}

#[derive(Clone, Copy, Default)]
struct Code {
    /// With its first bit lowest.
    bits: u16,
    length: u8,
}

fn code(bits: u16, length: u8) -> Code {
    Code {
        bits: bits.reverse_bits() >> (16 - u32::from(length)),
        length,
    }
}

/// The best code of at most `limit` bits for some frequencies.
///
/// Length-limited Huffman codes by merging packages: on each level the symbols and the pairs of the level below are
/// sorted by weight, pairs first among equals; the first 2n-2 entries of the highest level are taken, and for each pair
/// its two components.
fn best_code(frequencies: &[u32], limit: usize) -> Vec<Code> {
    let mut codes = vec![Code::default(); frequencies.len()];
    let mut used: Vec<(u32, usize)> = frequencies
        .iter()
        .enumerate()
        .filter(|(_, f)| **f > 0)
        .map(|(symbol, &f)| (f, symbol))
        .collect();
    if used.len() <= 2 {
        for (i, (_, symbol)) in used.iter().enumerate() {
            codes[*symbol] = code(i as u16, 1);
        }
        return codes;
    }
    used.sort_unstable();
    let levels = limit.min(used.len() - 1);
    // For each level: the weights, and which of them are pairs.
    let mut rows: Vec<Vec<(u32, bool)>> = Vec::with_capacity(levels);
    for _ in 0..levels {
        let below = rows.last().map_or(&[][..], Vec::as_slice);
        let mut pairs = below.chunks_exact(2).map(|pair| pair[0].0 + pair[1].0).peekable();
        let mut row = Vec::with_capacity(2 * used.len());
        for &(weight, _) in &used {
            while let Some(pair) = pairs.next_if(|&pair| pair <= weight) {
                row.push((pair, true));
            }
            row.push((weight, false));
        }
        row.extend(pairs.map(|pair| (pair, true)));
        rows.push(row);
    }
    let mut lengths = vec![0_u8; used.len()];
    let mut taken = 2 * used.len() - 2;
    for row in rows.iter().rev() {
        let pairs = row[..taken].iter().filter(|(_, pair)| *pair).count();
        for length in &mut lengths[..taken - pairs] {
            *length += 1;
        }
        taken = 2 * pairs;
    }
    let mut by_length: Vec<(u8, usize)> = lengths
        .iter()
        .zip(&used)
        .map(|(&length, &(_, s))| (length, s))
        .collect();
    by_length.sort_unstable();
    let (mut bits, mut last) = (0_u16, 0);
    for (length, symbol) in by_length {
        bits <<= length - last;
        last = length;
        codes[symbol] = code(bits, length);
        bits = bits.wrapping_add(1);
    }
    codes
}

fn fixed_literals() -> Vec<Code> {
    (0..286_u16)
        .map(|symbol| match symbol {
            0..144 => code(symbol + 48, 8),
            144..256 => code(symbol + 256, 9),
            256..280 => code(symbol - 256, 7),
            _ => code(symbol - 88, 8),
        })
        .collect()
}

fn total(codes: &[Code], frequencies: &[u32]) -> usize {
    codes
        .iter()
        .zip(frequencies)
        .map(|(code, &f)| f as usize * usize::from(code.length))
        .sum()
}

const CODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Code lengths in run-length form: a symbol, its number of extra bits and their value.
fn runs(lengths: &[u8]) -> Vec<(usize, u32, u32)> {
    let mut out = Vec::new();
    for run in lengths.chunk_by(|a, b| a == b) {
        let symbol = usize::from(run[0]);
        let mut left = run.len();
        if symbol == 0 {
            while left >= 11 {
                let n = left.min(138);
                out.push((18, 7, n as u32 - 11));
                left -= n;
            }
            if left >= 3 {
                out.push((17, 3, left as u32 - 3));
                left = 0;
            }
        } else {
            out.push((symbol, 0, 0));
            left -= 1;
            while left >= 3 {
                let n = left.min(6);
                out.push((16, 2, n as u32 - 3));
                left -= n;
            }
        }
        out.extend(std::iter::repeat_n((symbol, 0, 0), left));
    }
    out
}

struct BitWriter<'o> {
    out: &'o mut Vec<u8>,
    bits: u64,
    count: u32,
}

impl BitWriter<'_> {
    fn put(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    fn code(&mut self, code: Code) {
        self.put(u32::from(code.bits), u32::from(code.length));
    }

    fn flush(&mut self) {
        if self.count > 0 {
            self.out.push(self.bits as u8);
        }
        self.bits = 0;
        self.count = 0;
    }

    fn stored_header(&mut self, length: u16, last: bool) {
        self.put(u32::from(last), 3);
        self.flush();
        self.put(u32::from(length), 16);
        self.put(u32::from(!length), 16);
    }

    /// Writes a block in its shortest form; it can only be stored if its plain bytes are given.
    fn block(&mut self, tokens: &[Token], plain: Option<&[u8]>) {
        let mut literals = [0_u32; 286];
        let mut distances = [0_u32; 30];
        let mut extra = 0;
        for token in tokens {
            match *token {
                Token::Literal(byte) => literals[usize::from(byte)] += 1,
                Token::Match { length, distance } => {
                    let (length, length_bits, _) = length_code(length);
                    let (distance, distance_bits, _) = distance_code(distance);
                    literals[length] += 1;
                    distances[distance] += 1;
                    extra += (length_bits + distance_bits) as usize;
                }
            }
        }
        literals[256] += 1;
        let literal_count = literals.iter().rposition(|&f| f > 0).map_or(0, |last| last + 1);
        let mut distance_count = distances.iter().rposition(|&f| f > 0).map_or(0, |last| last + 1);
        if distance_count == 0 {
            // The format requires at least one code.
            distances[0] = 1;
            distance_count = 1;
        }
        let own_literals = best_code(&literals, 15);
        let own_distances = best_code(&distances, 15);
        let lengths: Vec<u8> = own_literals[..literal_count]
            .iter()
            .chain(&own_distances[..distance_count])
            .map(|c| c.length)
            .collect();
        let runs = runs(&lengths);
        let mut run_frequencies = [0_u32; 19];
        for (symbol, ..) in &runs {
            run_frequencies[*symbol] += 1;
        }
        let run_codes = best_code(&run_frequencies, 7);
        let shown = CODE_ORDER
            .iter()
            .rposition(|&symbol| run_frequencies[symbol] > 0)
            .map_or(4, |last| (last + 1).max(4));
        let run_extra: u32 = runs.iter().map(|(_, bits, _)| bits).sum();
        let own_size = 17
            + 3 * shown
            + total(&run_codes, &run_frequencies)
            + run_extra as usize
            + total(&own_literals, &literals)
            + total(&own_distances, &distances)
            + extra;
        let fixed_literals = fixed_literals();
        let fixed_distances: Vec<Code> = (0..30).map(|symbol| code(symbol, 5)).collect();
        let fixed_size = 3 + total(&fixed_literals, &literals) + total(&fixed_distances, &distances) + extra;
        if let Some(plain) = plain
            && plain.len() <= STORED_LIMIT
            && (plain.len() + 5) * 8 < own_size.min(fixed_size)
        {
            self.stored_header(plain.len() as u16, false);
            self.out.extend_from_slice(plain);
            return;
        }
        if own_size < fixed_size {
            self.put(4, 3);
            self.put(literal_count as u32 - 257, 5);
            self.put(distance_count as u32 - 1, 5);
            self.put(shown as u32 - 4, 4);
            for &symbol in &CODE_ORDER[..shown] {
                self.put(u32::from(run_codes[symbol].length), 3);
            }
            for (symbol, bits, value) in runs {
                self.code(run_codes[symbol]);
                self.put(value, bits);
            }
            self.tokens(tokens, &own_literals, &own_distances);
        } else {
            self.put(2, 3);
            self.tokens(tokens, &fixed_literals, &fixed_distances);
        }
    }

    fn tokens(&mut self, tokens: &[Token], literals: &[Code], distances: &[Code]) {
        for token in tokens {
            match *token {
                Token::Literal(byte) => self.code(literals[usize::from(byte)]),
                Token::Match { length, distance } => {
                    let (symbol, bits, value) = length_code(length);
                    self.code(literals[symbol]);
                    self.put(value, bits);
                    let (symbol, bits, value) = distance_code(distance);
                    self.code(distances[symbol]);
                    self.put(value, bits);
                }
            }
        }
        self.code(literals[256]);
    }
}
