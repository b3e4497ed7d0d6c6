//! Finds where the fields of CSV text end, block by block.

use super::tally::{BLOCK, is_terminator, mask, parity};
use memchr::memchr;

/// About how many ends are found at once. They and their text should stay in the first-level cache.
const AT_ONCE: usize = 2048;

/// A walk over text that finds the ends of its fields. Blank lines have none.
#[derive(Debug)]
pub(in crate::dataset) struct FieldEnds<'a> {
    text: &'a [u8],
    delimiter: u8,
    quote: u8,
    /// Whether there are any quotes in the text.
    pub(super) quoted: bool,
    /// The offset of the next block, and the byte before it.
    at: usize,
    before: u8,
    /// All bits set if the next block begins inside quotes.
    inside: u64,
}

/// Ends that were found and not yet passed. Several walks use it one after the other.
#[derive(Debug, Default)]
pub(in crate::dataset) struct FoundEnds {
    /// The end before the first one, then the ends.
    slots: Vec<u32>,
    /// The number of ends.
    pub(in crate::dataset) count: usize,
}

impl FoundEnds {
    /// Where the field before the first one ended (`u32::MAX`, as -1, at the beginning), then the ends.
    pub(in crate::dataset) fn ends(&self) -> &[u32] {
        self.slots.get(..=self.count).unwrap_or_default()
    }

    /// Removes all ends, and makes room for records with this many fields.
    fn begin(&mut self, fields: usize) {
        self.count = 0;
        self.slots.resize(fields + AT_ONCE + 2 * BLOCK, 0);
        self.slots[0] = u32::MAX;
    }

    /// Removes the first `used` ends.
    pub(in crate::dataset) fn pass(&mut self, used: usize) {
        self.slots.copy_within(used..=self.count, 0);
        self.count -= used;
    }

    /// Adds the positions of the bits that are set. The lowest bit stands for `base`.
    #[inline(always)]
    fn add(&mut self, base: u32, mut bits: u64) {
        let count = bits.count_ones() as usize;
        let free = self.slots.get_mut(self.count + 1..).unwrap_or_default();
        // Writes eight at a time, needed or not: a branch for each would be mispredicted at the end of each
        // block.
        for eight in free.as_chunks_mut::<8>().0 {
            for slot in eight {
                *slot = base + bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
            }
            if bits == 0 {
                break;
            }
        }
        self.count += count;
    }
}

impl<'a> FieldEnds<'a> {
    /// Starts at the beginning of a record. Clears `found`, and makes it large enough for records with this
    /// many `fields`. `None` if the text is too long.
    pub(in crate::dataset) fn new(
        text: &'a str,
        delimiter: u8,
        quote: Option<u8>,
        fields: usize,
        found: &mut FoundEnds,
    ) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() > i32::MAX as usize {
            return None;
        }
        found.begin(fields);
        let quoted = quote.is_some_and(|quote| memchr(quote, text).is_some());
        let quote = quote.unwrap_or_default();
        Some(Self { text, delimiter, quote, quoted, at: 0, before: b'\n', inside: 0 })
    }

    /// Finds more ends. With those already in `found` they are at least one record. Returns false at the end
    /// of the text. If the text has quotes, the ends are right only if each field with quotes begins and ends
    /// with one, and has pairs of quotes in between.
    pub(in crate::dataset) fn more(&mut self, found: &mut FoundEnds) -> bool {
        while found.count + 1 + BLOCK < found.slots.len() {
            let rest = self.text.get(self.at..).unwrap_or_default();
            if let Some(block) = rest.first_chunk() {
                self.pass(block, found);
                continue;
            }
            // The first of these line ends ends the last record, if nothing else has.
            let mut block = [b'\n'; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            self.pass(&block, found);
            return false;
        }
        true
    }

    /// Whether the walk is inside quotes.
    pub(in crate::dataset) fn is_inside(&self) -> bool {
        self.inside != 0
    }

    #[expect(clippy::cast_possible_truncation, reason = "`new` takes no text of more than 31 bits")]
    #[inline(always)]
    fn pass(&mut self, block: &[u8; BLOCK], found: &mut FoundEnds) {
        let mut before = [self.before; BLOCK];
        before[1..].copy_from_slice(&block[..BLOCK - 1]);
        let delimiter = self.delimiter;
        let mut ends = mask(block, &before, |byte, before| {
            (byte == delimiter) | (is_terminator(byte) & !is_terminator(before))
        });
        if self.quoted {
            let quote = self.quote;
            let inside = parity(mask(block, &before, |byte, _| byte == quote)) ^ self.inside;
            ends &= !inside;
            self.inside = 0u64.wrapping_sub(inside >> (BLOCK - 1));
        }
        found.add(self.at as u32, ends);
        self.before = block[BLOCK - 1];
        self.at += BLOCK;
    }
}
