//! Reads the dictionary keys in Parquet pages. They are in runs: a run has one key that repeats, or several
//! bit-packed keys (Parquet's RLE/bit-packing hybrid encoding).

/// Skips `skip` keys, and fills `out` with the values in `dictionary` to which the next keys refer. The first
/// byte of `stored` is the number of bits of each key. `None` if the keys are broken.
pub(super) fn look_up<const WIDTH: usize>(
    stored: &[u8],
    dictionary: &[[u8; WIDTH]],
    mut skip: usize,
    mut out: &mut [[u8; WIDTH]],
) -> Option<()> {
    let (&bits, mut keys) = stored.split_first()?;
    let bits = usize::from(bits);
    if bits > 32 {
        return None;
    }
    while !out.is_empty() {
        let header = varint(&mut keys)?;
        let length = (header >> 1) as usize;
        let is_packed = header & 1 == 1;
        // The length of a packed run is in groups of eight keys.
        let values = if is_packed { length.checked_mul(8)? } else { length };
        let bytes = if is_packed { length.checked_mul(bits)? } else { bits.div_ceil(8) };
        // The last group of a page may be incomplete.
        let (run, rest) = keys.split_at(bytes.min(keys.len()));
        let from = skip.min(values);
        let (slots, later) = out.split_at_mut((values - from).min(out.len()));
        let is_whole = match is_packed {
            true => (from + slots.len()).checked_mul(bits)?.div_ceil(8) <= run.len(),
            false => run.len() == bytes,
        };
        if values == 0 || !is_whole {
            return None;
        }
        if is_packed {
            look_up_packed(run, bits, from, dictionary, slots)?;
        } else if !slots.is_empty() {
            let key = run.iter().rev().fold(0, |key, byte| key << 8 | usize::from(*byte));
            slots.fill(*dictionary.get(key).filter(|_| key >> bits == 0)?);
        }
        (keys, out, skip) = (rest, later, skip - from);
    }
    Some(())
}

/// Fills `out` with the values in `dictionary` to which the keys of a packed run refer, from key `from` on.
fn look_up_packed<const WIDTH: usize>(
    run: &[u8],
    bits: usize,
    from: usize,
    dictionary: &[[u8; WIDTH]],
    mut out: &mut [[u8; WIDTH]],
) -> Option<()> {
    let unpack = UNPACK.get(bits)?;
    let last = u32::try_from(dictionary.len().checked_sub(1)?).ok();
    let last = last.filter(|last| last >> 31 == 0)?;
    // Eight keys fill whole bytes.
    let mut offset = from / 8 * bits;
    let mut first = from % 8;
    while !out.is_empty() {
        let packed = run.get(offset..)?;
        let keys = match packed.first_chunk() {
            Some(packed) => unpack(packed),
            None => {
                let mut padded = [0; WINDOW_BYTES];
                padded.iter_mut().zip(packed).for_each(|(to, from)| *to = *from);
                unpack(&padded)
            }
        };
        let keys = keys.get(first..)?;
        let (slots, later) = out.split_at_mut(keys.len().min(out.len()));
        let keys = keys.get(..slots.len())?;
        // Checks all keys together, because a branch for each key would take longer than the rest of
        // the work. The highest bit of the result is set if a key is greater than `last`, or has the highest
        // bit itself.
        if keys.iter().fold(0, |bad, key| bad | last.wrapping_sub(*key) | key) >> 31 != 0 {
            return None;
        }
        for (slot, key) in slots.iter_mut().zip(keys) {
            // SAFETY: no key is greater than `last`, the last index of `dictionary`: this was checked above.
            *slot = unsafe { *dictionary.get_unchecked(*key as usize) };
        }
        (offset, first, out) = (offset + BATCH_KEYS / 8 * bits, 0, later);
    }
    Some(())
}

/// How many keys are unpacked together.
const BATCH_KEYS: usize = 32;

/// The bytes of [`BATCH_KEYS`] keys of 32 bits, and 8 more, because [`key`] reads beyond the last key.
const WINDOW_BYTES: usize = BATCH_KEYS * 4 + 8;

type UnpackFunction = fn(&[u8; WINDOW_BYTES]) -> [u32; BATCH_KEYS];

/// The functions that unpack keys, by the number of bits of a key. In each function the number is a constant,
/// so all offsets and shifts are constants, too.
const UNPACK: [UnpackFunction; 33] = [
    unpack::<0>,
    unpack::<1>,
    unpack::<2>,
    unpack::<3>,
    unpack::<4>,
    unpack::<5>,
    unpack::<6>,
    unpack::<7>,
    unpack::<8>,
    unpack::<9>,
    unpack::<10>,
    unpack::<11>,
    unpack::<12>,
    unpack::<13>,
    unpack::<14>,
    unpack::<15>,
    unpack::<16>,
    unpack::<17>,
    unpack::<18>,
    unpack::<19>,
    unpack::<20>,
    unpack::<21>,
    unpack::<22>,
    unpack::<23>,
    unpack::<24>,
    unpack::<25>,
    unpack::<26>,
    unpack::<27>,
    unpack::<28>,
    unpack::<29>,
    unpack::<30>,
    unpack::<31>,
    unpack::<32>,
];

fn unpack<const BITS: usize>(packed: &[u8; WINDOW_BYTES]) -> [u32; BATCH_KEYS] {
    macro_rules! keys {
        ($($index:literal)*) => {
            [$(key::<BITS>(packed, $index)),*]
        };
    }
    // A loop would compute offsets and shifts at run time.
    keys!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
}

/// The packed key with this index.
#[expect(clippy::cast_possible_truncation, reason = "the mask leaves at most 32 bits")]
#[inline(always)]
fn key<const BITS: usize>(packed: &[u8; WINDOW_BYTES], index: usize) -> u32 {
    let bit = index * BITS;
    let word = packed.get(bit / 8..).and_then(<[u8]>::first_chunk).copied();
    let word = u64::from_le_bytes(word.unwrap_or_default()) >> (bit % 8);
    (word & ((1 << BITS) - 1)) as u32
}

/// Reads a varint: a number that has seven bits in each byte, the lowest first.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys in the form that the `parquet` crate writes, complete and truncated.
    #[test]
    fn keys_of_any_width_are_looked_up() {
        for bits in 0..=20_u32 {
            let dictionary: Vec<[u8; 4]> =
                (0..1_u32 << bits).map(|n| (n ^ 0x55).to_le_bytes()).collect();
            let random = |n: u32| n.wrapping_mul(0x9E37_79B9) >> 7 & ((1 << bits) - 1);
            let keys: Vec<u32> = (0..900)
                .map(|n| if (300..500).contains(&n) { random(300) } else { random(n) })
                .collect();
            let mut stored = vec![bits as u8];
            let packed = |keys: &[u32]| {
                let mut bytes = vec![0; (keys.len() * bits as usize).div_ceil(8)];
                for (index, key) in keys.iter().enumerate() {
                    for bit in (0..bits as usize).filter(|bit| key >> bit & 1 == 1) {
                        let position = index * bits as usize + bit;
                        bytes[position / 8] |= 1 << (position % 8);
                    }
                }
                bytes
            };
            let header = |length: u32| [length as u8 | 0x80, (length >> 7) as u8];
            stored.extend(header(2 * 37 + 1));
            stored.extend(packed(&keys[..296]));
            stored.extend(header(2 + 1));
            stored.extend(packed(&keys[296..304]));
            stored.extend(header(2 * 196));
            stored.extend(&keys[304].to_le_bytes()[..bits.div_ceil(8) as usize]);
            stored.extend(header(2 * 50 + 1));
            stored.extend(packed(&keys[500..]));
            let look_up = |stored: &[u8], from: usize, count: usize| {
                let mut found = vec![[0; 4]; count];
                look_up(stored, &dictionary, from, &mut found).map(|()| found)
            };
            for (from, count) in [
                (0, 900),
                (0, 1),
                (5, 40),
                (290, 20),
                (303, 2),
                (299, 300),
                (499, 401),
                (899, 1),
                (640, 33),
            ] {
                let expected = keys[from..from + count].iter().map(|key| dictionary[*key as usize]);
                assert_eq!(
                    look_up(&stored, from, count),
                    Some(expected.collect()),
                    "{bits}: {from}"
                );
            }
            assert_eq!(look_up(&stored, 0, 901), None, "there are only 900 keys");
            if bits > 0 {
                assert_eq!(
                    look_up(&stored[..stored.len() - 1], 0, 900),
                    None,
                    "the last key is cut off"
                );
                assert!(look_up(&stored[..stored.len() - bits as usize], 0, 892).is_some());
                let fewer = dictionary.len() - 1;
                let mut found = vec![[0; 4]; 900];
                let has_unknown_key = keys.contains(&(fewer as u32));
                let result = super::look_up(&stored, &dictionary[..fewer], 0, &mut found);
                assert_eq!(result.is_none(), has_unknown_key, "{bits}");
            }
        }
        let mut one = [[0; 4]];
        for key in [1, 2, 1 << 31, u32::MAX - 1, u32::MAX] {
            let stored = [&[32, 3][..], &key.to_le_bytes()].concat();
            assert_eq!(
                super::look_up(&stored, &[[1; 4]; 2], 0, &mut one).is_some(),
                key == 1,
                "{key}"
            );
        }
        for broken in [
            &[][..],
            &[33, 3, 0],
            &[33, 2, 0, 0, 0, 0, 0],
            &[3, 2, 8],
            &[8],
            &[8, 0],
            &[8, 2],
            &[8, 1],
        ] {
            assert_eq!(super::look_up(broken, &[[1; 4]], 0, &mut one), None, "{broken:?}");
        }
    }
}
