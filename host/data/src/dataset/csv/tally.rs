//! Counts the ends of records and lines with vector code, and makes bit masks of the bytes in a block.

use memchr::memchr_iter;

/// How many bytes the inner loop handles at once: one or two vector registers.
pub(super) const LANES: usize = 32;
/// The maximum number of rounds of the inner loop: after more rounds, its one-byte counters could overflow.
pub(super) const ROUNDS: usize = 255;
/// How many bytes a scan of text with quotes handles at once. A mask has a bit for each of them.
pub(super) const BLOCK: usize = 64;

/// The number of lines that end in `bytes`, given the byte before them.
pub(in crate::dataset) fn count_lines(bytes: &[u8], before: u8) -> u64 {
    let Some(first) = bytes.first() else { return 0 };
    let rest = &bytes[1..];
    u64::from(ends_line(*first, before)) + tally(rest, &bytes[..rest.len()]).1
}

/// Whether a line in `bytes` begins with the character. `before` is the byte before `bytes`.
pub(super) fn begins_a_line(bytes: &[u8], character: u8, before: u8) -> bool {
    let before = |at: usize| if at == 0 { before } else { bytes[at - 1] };
    memchr_iter(character, bytes).any(|at| is_terminator(before(at)))
}

/// Whether the byte is part of a line end.
pub(in crate::dataset) fn is_terminator(byte: u8) -> bool {
    (byte == b'\n') | (byte == b'\r')
}

/// Whether a record ends at the byte, if the byte is outside quotes: the byte is CR or LF, and the byte
/// before it is neither.
#[inline(always)]
pub(super) fn ends_record(byte: u8, before: u8) -> bool {
    is_terminator(byte) & !is_terminator(before)
}

/// Whether the byte ends a line. The LF of a CRLF does not: the CR has already ended the line.
#[inline(always)]
pub(super) fn ends_line(byte: u8, before: u8) -> bool {
    (byte == b'\r') | ((byte == b'\n') & (before != b'\r'))
}

/// A mask of the bytes in a block: bit N is the result of `test` for byte N and the byte before it.
#[inline(always)]
pub(super) fn mask(
    block: &[u8; BLOCK],
    before: &[u8; BLOCK],
    test: impl Fn(u8, u8) -> bool,
) -> u64 {
    let mut flags = [0u8; BLOCK];
    for ((flag, &byte), &before) in flags.iter_mut().zip(block).zip(before) {
        *flag = u8::from(test(byte, before));
    }
    // Gathers the lowest bits of eight bytes in the highest byte of the product.
    let gather =
        |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let (words, _) = flags.as_chunks::<8>();
    words.iter().rev().fold(0, |mask, eight| mask << 8 | gather(eight))
}

/// Replaces each bit by the parity of itself and all lower bits.
pub(super) fn prefix_parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Counts the ends of records and of lines in `bytes`. `before` has the byte before each of `bytes`. The
/// counters are arrays of bytes, so that the compiler produces vector code.
pub(super) fn tally(bytes: &[u8], before: &[u8]) -> (u64, u64) {
    let mut records = 0;
    let mut lines = 0;
    let blocks = bytes.chunks(LANES * ROUNDS).zip(before.chunks(LANES * ROUNDS));
    for (bytes, before) in blocks {
        let mut record_counts = [0u8; LANES];
        let mut line_counts = [0u8; LANES];
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
