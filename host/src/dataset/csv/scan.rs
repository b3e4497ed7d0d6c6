//! Finds record ends in a stream of CSV bytes, at memory speed where nothing is quoted.

use memchr::{memchr, memchr2, memchr3};

const QUOTE: u8 = b'"';

/// Bytes that the inner loop handles at once; one or two vector registers.
const LANES: usize = 32;
/// Bytes that are looked through for a quote before it is decided how to pass them.
const CHUNK: usize = 4096;
/// Bytes that are passed at once where there are quotes: the bits of a mask.
pub(super) const BLOCK: usize = 64;
/// Rounds of the inner loop before its byte-sized counters could overflow.
const ROUNDS: usize = 255;

/// Where the scan stands towards quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Outside of quotes.
    Plain,
    /// Inside a quoted field.
    Quoted,
    /// Just behind a quote inside a quoted field: the field's end, or half of `""`.
    QuoteSeen,
}

/// A scan over the bytes of one file, in order, in pieces of any size.
#[derive(Debug)]
pub(super) struct Scan {
    delimiter: u8,
    /// Whether quotes mean anything.
    has_quotes: bool,
    state: State,
    /// The byte before the next one.
    before: u8,
    /// Records that have ended.
    pub(super) records: u64,
    /// Lines that have ended, inside quotes or not.
    pub(super) lines: u64,
    /// Whether the text ended inside quotes; known after [`Scan::finish`].
    pub(super) left_open: bool,
}

impl Scan {
    /// A scan that stands at the start of a record.
    pub(super) fn new(delimiter: u8) -> Self {
        let (state, before) = (State::Plain, b'\n');
        Self { delimiter, has_quotes: true, state, before, records: 0, lines: 0, left_open: false }
    }

    /// The same for text where each line that is not empty is a record.
    pub(super) fn of_lines() -> Self {
        Self { has_quotes: false, ..Self::new(0) }
    }

    /// Whether the next byte is the first of a record (or of a blank line). Behind a CR it may
    /// still be the LF that belongs to it.
    pub(super) fn at_record_start(&self) -> bool {
        self.state == State::Plain && is_terminator(self.before)
    }

    /// Whether an LF as the next byte would belong to the line end just passed.
    pub(super) fn after_cr(&self) -> bool {
        self.before == b'\r'
    }

    /// Ends the last record, which needs no line end. May be called again.
    pub(super) fn finish(&mut self) {
        self.left_open |= self.state == State::Quoted;
        if !self.at_record_start() {
            self.records += 1;
            self.state = State::Plain;
            self.before = b'\n';
        }
    }

    /// Passes all of `bytes`.
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        if !self.has_quotes {
            return self.pass_plain(bytes);
        }
        for chunk in bytes.chunks(CHUNK) {
            if self.state == State::QuoteSeen || memchr(QUOTE, chunk).is_some() {
                let (blocks, rest) = chunk.as_chunks::<BLOCK>();
                for block in blocks {
                    if !self.advance_block(block) {
                        self.advance_stepwise(block);
                    }
                }
                self.advance_stepwise(rest);
            } else {
                self.advance_stepwise(chunk);
            }
        }
    }

    /// Passes all of `bytes`, from quote to quote.
    fn advance_stepwise(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Plain => {
                    let end = memchr(QUOTE, bytes).unwrap_or(bytes.len());
                    self.pass_plain(&bytes[..end]);
                    if end < bytes.len() {
                        self.pass_quote();
                    }
                    bytes.get(end + 1..).unwrap_or_default()
                }
                State::Quoted | State::QuoteSeen => self.advance_quoted(bytes),
            };
        }
    }

    /// Passes a block in which every other quote opens a field, as in all proper CSV: then whether
    /// a byte is inside quotes is the parity of the quotes before it (`""` counts twice, so it
    /// changes nothing). Does nothing and says so where a quote stands in the midst of a field.
    fn advance_block(&mut self, block: &[u8; BLOCK]) -> bool {
        if self.state == State::Plain && self.before == QUOTE {
            return false;
        }
        let mut before = [self.before; BLOCK];
        before[1..].copy_from_slice(&block[..BLOCK - 1]);
        let delimiter = self.delimiter;
        let quotes = mask(block, &before, |byte, _| byte == QUOTE);
        let openable = mask(block, &before, |_, before| {
            (before == delimiter) | (before == QUOTE) | is_terminator(before)
        });
        let inside = parity(quotes) ^ if self.state == State::Quoted { u64::MAX } else { 0 };
        if quotes & inside & !openable != 0 {
            return false;
        }
        let records = mask(block, &before, ends_record) & !inside;
        self.records += u64::from(records.count_ones());
        self.lines += u64::from(mask(block, &before, ends_line).count_ones());
        self.before = block[BLOCK - 1];
        self.state = match (inside >> (BLOCK - 1), self.before) {
            (1, _) => State::Quoted,
            (_, QUOTE) => State::QuoteSeen,
            _ => State::Plain,
        };
        true
    }

    /// Passes `bytes` up to the next record's end and says where that is: behind the first byte of
    /// its line end. `None` if all bytes are passed without one.
    pub(super) fn advance_to_record_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.state != State::Plain {
                at = bytes.len() - self.advance_quoted(&bytes[at..]).len();
                continue;
            }
            let found = match self.has_quotes {
                true => memchr3(QUOTE, b'\n', b'\r', &bytes[at..]),
                false => memchr2(b'\n', b'\r', &bytes[at..]),
            };
            let Some(found) = found else {
                self.before = bytes[bytes.len() - 1];
                return None;
            };
            if found > 0 {
                self.before = bytes[at + found - 1];
            }
            at += found + 1;
            let byte = bytes[at - 1];
            if byte == QUOTE && self.has_quotes {
                self.pass_quote();
                continue;
            }
            self.lines += u64::from(ends_line(byte, self.before));
            let ended = !is_terminator(self.before);
            self.before = byte;
            if ended {
                self.records += 1;
                return Some(at);
            }
        }
        None
    }

    /// Passes bytes outside of quotes that hold no quote, or none that means anything.
    fn pass_plain(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let (first, rest) = (bytes[0], &bytes[1..]);
        self.records += u64::from(ends_record(first, self.before));
        self.lines += u64::from(ends_line(first, self.before));
        let (records, lines) = tally(rest, &bytes[..rest.len()]);
        self.records += records;
        self.lines += lines;
        self.before = *last;
    }

    /// Passes a quote outside of quotes.
    fn pass_quote(&mut self) {
        if self.before == self.delimiter || is_terminator(self.before) {
            self.state = State::Quoted;
        }
        self.before = QUOTE;
    }

    /// Passes bytes inside quotes up to the next change of state; returns what is left.
    fn advance_quoted<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.state == State::QuoteSeen {
            if bytes.first() == Some(&QUOTE) {
                self.state = State::Quoted;
                return &bytes[1..];
            }
            self.state = State::Plain;
            return bytes;
        }
        let end = memchr(QUOTE, bytes).unwrap_or(bytes.len());
        self.lines += count_lines(&bytes[..end], self.before);
        if end < bytes.len() {
            self.state = State::QuoteSeen;
            self.before = QUOTE;
            &bytes[end + 1..]
        } else {
            self.before = bytes.last().copied().unwrap_or(self.before);
            &[]
        }
    }
}

/// The number of lines that end in `bytes`, given the byte before them.
pub(super) fn count_lines(bytes: &[u8], before: u8) -> u64 {
    let Some(first) = bytes.first() else { return 0 };
    let rest = &bytes[1..];
    u64::from(ends_line(*first, before)) + tally(rest, &bytes[..rest.len()]).1
}

/// Whether the byte is part of a line end.
pub(super) fn is_terminator(byte: u8) -> bool {
    (byte == b'\n') | (byte == b'\r')
}

#[inline(always)]
fn ends_record(byte: u8, before: u8) -> bool {
    is_terminator(byte) & !is_terminator(before)
}

#[inline(always)]
fn ends_line(byte: u8, before: u8) -> bool {
    (byte == b'\r') | ((byte == b'\n') & (before != b'\r'))
}

/// A bit for each byte, lowest first: what `is` says of the byte and the one before it.
#[inline(always)]
pub(super) fn mask(block: &[u8; BLOCK], before: &[u8; BLOCK], is: impl Fn(u8, u8) -> bool) -> u64 {
    let mut flags = [0u8; BLOCK];
    for ((flag, &byte), &before) in flags.iter_mut().zip(block).zip(before) {
        *flag = u8::from(is(byte, before));
    }
    // Gathers the lowest bits of eight bytes in the product's highest byte.
    let gather =
        |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let (words, _) = flags.as_chunks::<8>();
    words.iter().rev().fold(0, |mask, eight| mask << 8 | gather(eight))
}

/// Each bit becomes the parity of itself and all lower bits.
pub(super) fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Counts the ends of records and of lines in `bytes`; `before` holds the byte before each. Written
/// with counters of one byte in arrays so that the compiler makes vector code of it.
fn tally(bytes: &[u8], before: &[u8]) -> (u64, u64) {
    let (mut records, mut lines) = (0, 0);
    let blocks = bytes.chunks(LANES * ROUNDS).zip(before.chunks(LANES * ROUNDS));
    for (bytes, before) in blocks {
        let (mut record_counts, mut line_counts) = ([0u8; LANES], [0u8; LANES]);
        let (bytes, bytes_rest) = bytes.as_chunks::<LANES>();
        let (before, before_rest) = before.as_chunks::<LANES>();
        for (bytes, before) in bytes.iter().zip(before) {
            for lane in 0..LANES {
                record_counts[lane] += u8::from(ends_record(bytes[lane], before[lane]));
                line_counts[lane] += u8::from(ends_line(bytes[lane], before[lane]));
            }
        }
        if !bytes.is_empty() {
            records += record_counts.iter().map(|&count| u64::from(count)).sum::<u64>();
            lines += line_counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        }
        for (&byte, &before) in bytes_rest.iter().zip(before_rest) {
            records += u64::from(ends_record(byte, before));
            lines += u64::from(ends_line(byte, before));
        }
    }
    (records, lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(text: &str) -> (u64, u64) {
        let mut whole = Scan::new(b',');
        whole.advance(text.as_bytes());
        let mut bytewise = Scan::new(b',');
        text.as_bytes().iter().for_each(|byte| bytewise.advance(&[*byte]));
        let mut by_records = Scan::new(b',');
        let mut rest = text.as_bytes();
        while let Some(end) = by_records.advance_to_record_end(rest) {
            rest = &rest[end..];
        }
        assert_eq!((whole.state, whole.before), (bytewise.state, bytewise.before), "{text:?}");
        for scan in [&mut whole, &mut bytewise, &mut by_records] {
            scan.finish();
        }
        assert_eq!((whole.records, whole.lines), (bytewise.records, bytewise.lines), "{text:?}");
        assert_eq!(
            (whole.records, whole.lines),
            (by_records.records, by_records.lines),
            "{text:?}"
        );
        (whole.records, whole.lines)
    }

    #[test]
    fn records_and_lines_are_counted() {
        assert_eq!(counts(""), (0, 0));
        assert_eq!(counts("a,b"), (1, 0));
        assert_eq!(counts("a,b\nc,d\n"), (2, 2));
        assert_eq!(counts("a\r\nb\rc\n\n\r\nd"), (4, 5));
        assert_eq!(counts("\n\n\na\n"), (1, 4));
        assert_eq!(counts("\"a\nb\",1\n\"\"\"\r\n\"\n"), (2, 4));
        assert_eq!(counts("a\"b\nc\"\n"), (2, 2));
        assert_eq!(counts("\"a\"b\"\nc\n"), (2, 2));
        assert_eq!(counts("1,\"open\nfor ever\n"), (1, 2));
        assert_eq!(counts("\"\"\n"), (1, 1));
    }

    #[test]
    fn long_runs_do_not_overflow_the_counters() {
        let text = "x\n".repeat(LANES * ROUNDS * 3 + 7);
        let rows = text.len() as u64 / 2;
        assert_eq!(counts(&text), (rows, rows));
        let text = "xy\r\n".repeat(LANES * ROUNDS + 5);
        let rows = text.len() as u64 / 4;
        assert_eq!(counts(&text), (rows, rows));
    }

    proptest! {
        /// Proper CSV goes by blocks, odd texts step by step, and all ways must agree.
        #[test]
        fn all_ways_count_the_same(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "abc", "1.5,", ",", "\n", "\r\n", "\"a, b\"", "\"a\n\"\"\"\r\n", ",\"\"\n", "\"",
                    "some longer text without anything ", "\r",
                ]),
                0..200,
            ),
            odd in any::<bool>(),
        ) {
            let text: String =
                pieces.into_iter().filter(|piece| odd || *piece != "\"").collect();
            counts(&text);
        }
    }
}
