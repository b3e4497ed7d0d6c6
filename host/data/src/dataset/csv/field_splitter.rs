//! Finds where the fields of CSV text end, block by block.

use super::tally::{BLOCK, is_terminator, mask, prefix_parity};
use memchr::memchr;

/// About how many ends are found at once. They and their text should stay in the CPU's first-level cache.
const ENDS_AT_ONCE: usize = 2048;

/// A walk over text that finds the ends of its fields. Blank lines have no fields.
#[derive(Debug)]
pub(in crate::dataset) struct FieldEnds<'a> {
    text: &'a [u8],
    delimiter: u8,
    quote: u8,
    pub(super) has_quotes: bool,
    /// The offset of the next block.
    offset: usize,
    /// The byte before the next block.
    before: u8,
    /// `u64::MAX` if the next block begins inside quotes, or else 0.
    inside: u64,
}

/// Field ends that were found and not yet used. Several walks use the same buffer one after the other.
#[derive(Debug, Default)]
pub(in crate::dataset) struct FoundEnds {
    /// The end before the first field, then the ends of the fields. The rest is free.
    slots: Vec<u32>,
    pub(in crate::dataset) count: usize,
}

impl FoundEnds {
    /// The end before the first field (at the start of the text: `u32::MAX`, which stands for -1),
    /// then the ends of the fields.
    pub(in crate::dataset) fn ends(&self) -> &[u32] {
        self.slots.get(..=self.count).unwrap_or_default()
    }

    /// Removes all ends, and makes room for records with this many fields.
    fn begin(&mut self, fields: usize) {
        self.count = 0;
        self.slots.resize(fields + ENDS_AT_ONCE + 2 * BLOCK, 0);
        self.slots[0] = u32::MAX;
    }

    pub(in crate::dataset) fn remove_first(&mut self, used: usize) {
        self.slots.copy_within(used..=self.count, 0);
        self.count -= used;
    }

    /// Adds the offsets of the bits that are set. The lowest bit has the offset `base`.
    #[inline(always)]
    fn add(&mut self, base: u32, mut bits: u64) {
        let count = bits.count_ones() as usize;
        let free = self.slots.get_mut(self.count + 1..).unwrap_or_default();
        // Writes eight offsets at a time, needed or not: with a branch for each offset, the CPU would
        // mispredict the last one of each block.
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
        let has_quotes = quote.is_some_and(|quote| memchr(quote, text).is_some());
        let quote = quote.unwrap_or_default();
        Some(Self { text, delimiter, quote, has_quotes, offset: 0, before: b'\n', inside: 0 })
    }

    /// Finds more ends, so that `found` has those of at least one record. Returns false at the end of the
    /// text. If the text has quotes, the ends are right only if each field with quotes begins and ends with a
    /// quote, and all quotes in between are in pairs.
    pub(in crate::dataset) fn find_more(&mut self, found: &mut FoundEnds) -> bool {
        while found.count + 1 + BLOCK < found.slots.len() {
            let rest = self.text.get(self.offset..).unwrap_or_default();
            if let Some(block) = rest.first_chunk() {
                self.pass(block, found);
                continue;
            }
            // Fills the block with line ends. The first of them ends the last record if the text does not.
            let mut block = [b'\n'; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            self.pass(&block, found);
            return false;
        }
        true
    }

    /// Whether the next block begins inside quotes.
    pub(in crate::dataset) fn is_inside_quotes(&self) -> bool {
        self.inside != 0
    }

    /// Finds the ends in a block.
    #[expect(clippy::cast_possible_truncation, reason = "`new` takes no text of more than 31 bits")]
    #[inline(always)]
    fn pass(&mut self, block: &[u8; BLOCK], found: &mut FoundEnds) {
        let mut before = [self.before; BLOCK];
        before[1..].copy_from_slice(&block[..BLOCK - 1]);
        let delimiter = self.delimiter;
        let mut ends = mask(block, &before, |byte, before| {
            (byte == delimiter) | (is_terminator(byte) & !is_terminator(before))
        });
        if self.has_quotes {
            let quote = self.quote;
            let inside = prefix_parity(mask(block, &before, |byte, _| byte == quote)) ^ self.inside;
            ends &= !inside;
            self.inside = 0u64.wrapping_sub(inside >> (BLOCK - 1));
        }
        found.add(self.offset as u32, ends);
        self.before = block[BLOCK - 1];
        self.offset += BLOCK;
    }
}
