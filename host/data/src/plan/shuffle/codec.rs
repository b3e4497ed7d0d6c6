//! How rows are encoded in spill files: the key, the number of the file, the line number, the text.

use crate::dataset::csv::{decode_number, encode_number};
use std::io::{self, BufRead, ErrorKind};

/// A row. The bytes of keys sort in the same order as their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShuffleRow<'a> {
    pub(super) key: &'a [u8],
    /// The number of the input's file in the file of names.
    pub(super) file: u64,
    pub(super) line: u64,
    /// The record, with a line end.
    pub(super) text: &'a [u8],
}

impl<'a> ShuffleRow<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_number(self.key.len() as u64, out);
        out.extend_from_slice(self.key);
        encode_number(self.file, out);
        encode_number(self.line, out);
        encode_number(self.text.len() as u64, out);
        out.extend_from_slice(self.text);
    }

    /// Decodes a row at the front of `bytes`, and advances `bytes`. `None` if there is no whole row.
    pub(super) fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let key = decode_bytes(bytes)?;
        let file = decode_number(bytes)?;
        let line = decode_number(bytes)?;
        Some(Self { key, file, line, text: decode_bytes(bytes)? })
    }
}

fn decode_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(decode_number(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// A row that was read from a file, in buffers that are reused.
#[derive(Debug, Default)]
pub(super) struct OwnedRow {
    key: Vec<u8>,
    file: u64,
    line: u64,
    text: Vec<u8>,
}

impl OwnedRow {
    /// Reads the next row; returns `false` at the end.
    pub(super) fn read(&mut self, from: &mut impl BufRead) -> io::Result<bool> {
        if from.fill_buf()?.is_empty() {
            return Ok(false);
        }
        read_bytes(from, &mut self.key)?;
        self.file = read_number(from)?;
        self.line = read_number(from)?;
        read_bytes(from, &mut self.text)?;
        Ok(true)
    }

    pub(super) fn row(&self) -> ShuffleRow<'_> {
        ShuffleRow { key: &self.key, file: self.file, line: self.line, text: &self.text }
    }
}

fn read_number(from: &mut impl BufRead) -> io::Result<u64> {
    let mut bytes = [0; 10];
    for length in 1..=bytes.len() {
        from.read_exact(&mut bytes[length - 1..length])?;
        if bytes[length - 1] < 0x80 {
            return decode_number(&mut &bytes[..length]).ok_or_else(damaged);
        }
    }
    Err(damaged())
}

fn read_bytes(from: &mut impl BufRead, out: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::try_from(read_number(from)?).map_err(|_| damaged())?;
    out.clear();
    out.resize(length, 0);
    from.read_exact(out)
}

/// The error if a spill file is damaged.
pub(super) fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it does not hold what was written to it")
}

/// Appends a value to a key. The bytes 0 and 1 end the value; a zero byte in it is followed by 0xff.
pub(super) fn encode_value(value: &str, key: &mut Vec<u8>) {
    for &byte in value.as_bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key.extend_from_slice(&[0, 1]);
}

/// The values of a key. `None` if the bytes are not a key.
pub(super) fn values(mut key: &[u8]) -> Option<Vec<String>> {
    let mut values = Vec::new();
    let mut value = Vec::new();
    while let Some((&byte, rest)) = key.split_first() {
        key = rest;
        if byte != 0 {
            value.push(byte);
            continue;
        }
        let (&after_zero, rest) = key.split_first()?;
        key = rest;
        match after_zero {
            0xff => value.push(0),
            _ => values.push(String::from_utf8(std::mem::take(&mut value)).ok()?),
        }
    }
    value.is_empty().then_some(values)
}

/// The bucket of a key: its FNV-1a hash, mixed so that short keys spread over all buckets, too. The result is
/// the same on every machine.
pub(super) fn bucket(key: &[u8], buckets: usize) -> usize {
    const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const FNV_PRIME: u64 = 0x0100_0000_01b3;
    // From the last steps of MurmurHash3.
    const MIX_FACTOR: u64 = 0xff51_afd7_ed55_8ccd;
    let hash = key
        .iter()
        .fold(FNV_OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(MIX_FACTOR);
    ((mixed >> 33) % buckets as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(values: &[String]) -> Vec<u8> {
        let mut key = Vec::new();
        values.iter().for_each(|value| encode_value(value, &mut key));
        key
    }

    proptest! {
        #[test]
        fn keys_sort_in_the_order_of_their_values(
            one in prop::collection::vec("[\0\u{1}ab\u{ff}]{0,4}", 2),
            other in prop::collection::vec("[\0\u{1}ab\u{ff}]{0,4}", 2),
        ) {
            prop_assert_eq!(values(&key(&one)), Some(one.clone()));
            prop_assert_eq!(key(&one).cmp(&key(&other)), one.cmp(&other));
        }

        #[test]
        fn rows_round_trip(
            rows in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..5), any::<u64>(), "[a\n]{0,300}"),
                0..10,
            ),
        ) {
            let rows: Vec<_> = rows
                .iter()
                .map(|(key, file, text)| {
                    ShuffleRow { key, file: *file, line: file / 2, text: text.as_bytes() }
                })
                .collect();
            let mut bytes = Vec::new();
            rows.iter().for_each(|row| row.encode(&mut bytes));
            let mut rest = bytes.as_slice();
            let seen: Vec<_> = std::iter::from_fn(|| ShuffleRow::decode(&mut rest)).collect();
            prop_assert_eq!(&seen, &rows);
            let mut from = bytes.as_slice();
            let mut owned = OwnedRow::default();
            for row in rows {
                prop_assert!(owned.read(&mut from).unwrap());
                prop_assert_eq!(owned.row(), row);
            }
            prop_assert!(!owned.read(&mut from).unwrap());
        }
    }

    #[test]
    fn the_bucket_of_a_key_never_changes() {
        let buckets = ["", "a", "b", "store"].map(|text| bucket(text.as_bytes(), 32));
        assert_eq!(buckets, [25, 15, 27, 21]);
    }

    #[test]
    fn short_keys_spread_over_all_buckets() {
        let mut counts = [0; 32];
        for number in 0..3200 {
            counts[bucket(&key(&[number.to_string()]), 32)] += 1;
        }
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
    }
}
