//! Reads the dictionary keys in Parquet pages. They are in runs: one key that repeats, or several keys that
//! are packed bit by bit.

/// Fills `new` with the dictionary values that the keys name, after `skipped` keys. The first byte of
/// `stored` is the number of bits of each key. `None` if the keys are broken.
pub(super) fn look_up<const WIDTH: usize>(
    stored: &[u8],
    known: &[[u8; WIDTH]],
    mut skipped: usize,
    mut new: &mut [[u8; WIDTH]],
) -> Option<()> {
    let (&bits, mut keys) = stored.split_first()?;
    let bits = usize::from(bits);
    if bits > 32 {
        return None;
    }
    while !new.is_empty() {
        let header = number(&mut keys)?;
        let length = (header >> 1) as usize;
        let is_packed = header & 1 == 1;
        let values = if is_packed { length.checked_mul(8)? } else { length };
        let bytes = if is_packed { length.checked_mul(bits)? } else { bits.div_ceil(8) };
        // The last group of a page may be cut short.
        let (run, rest) = keys.split_at(bytes.min(keys.len()));
        let from = skipped.min(values);
        let (slots, later) = new.split_at_mut((values - from).min(new.len()));
        let is_whole = match is_packed {
            true => (from + slots.len()).checked_mul(bits)?.div_ceil(8) <= run.len(),
            false => run.len() == bytes,
        };
        if values == 0 || !is_whole {
            return None;
        }
        if is_packed {
            look_up_packed(run, bits, from, known, slots)?;
        } else if !slots.is_empty() {
            let key = run.iter().rev().fold(0, |key, byte| key << 8 | usize::from(*byte));
            slots.fill(*known.get(key).filter(|_| key >> bits == 0)?);
        }
        (keys, new, skipped) = (rest, later, skipped - from);
    }
    Some(())
}

fn look_up_packed<const WIDTH: usize>(
    run: &[u8],
    bits: usize,
    from: usize,
    known: &[[u8; WIDTH]],
    mut new: &mut [[u8; WIDTH]],
) -> Option<()> {
    let unpack = UNPACK.get(bits)?;
    let last = u32::try_from(known.len().checked_sub(1)?).ok().filter(|last| last >> 31 == 0)?;
    // Eight keys fill whole bytes.
    let mut place = from / 8 * bits;
    let mut first = from % 8;
    while !new.is_empty() {
        let packed = run.get(place..)?;
        let keys = match packed.first_chunk() {
            Some(packed) => unpack(packed),
            None => {
                let mut padded = [0; WINDOW];
                padded.iter_mut().zip(packed).for_each(|(to, from)| *to = *from);
                unpack(&padded)
            }
        };
        let keys = keys.get(first..)?;
        let (slots, later) = new.split_at_mut(keys.len().min(new.len()));
        let keys = keys.get(..slots.len())?;
        // Checks all keys at once, because a branch for each would take longer than the rest. The highest bit
        // is set if a key is beyond the last one, or has that bit itself.
        if keys.iter().fold(0, |bad, key| bad | last.wrapping_sub(*key) | key) >> 31 != 0 {
            return None;
        }
        for (slot, key) in slots.iter_mut().zip(keys) {
            // SAFETY: no key is beyond `last`, the last index of `known`: this was checked above.
            *slot = unsafe { *known.get_unchecked(*key as usize) };
        }
        (place, first, new) = (place + AT_ONCE / 8 * bits, 0, later);
    }
    Some(())
}

/// How many keys are unpacked at once.
const AT_ONCE: usize = 32;

/// The bytes of that many keys of 32 bits, and 8 more, because `key` reads beyond the last one.
const WINDOW: usize = AT_ONCE * 4 + 8;

type Unpack = fn(&[u8; WINDOW]) -> [u32; AT_ONCE];

/// The functions that unpack keys, by the number of bits. As that is a constant in each, so are all offsets
/// and shifts.
const UNPACK: [Unpack; 33] = [
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

fn unpack<const BITS: usize>(packed: &[u8; WINDOW]) -> [u32; AT_ONCE] {
    macro_rules! keys {
        ($($number:literal)*) => {
            [$(key::<BITS>(packed, $number)),*]
        };
    }
    // A loop would compute offsets and shifts at run time.
    keys!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
}

#[expect(clippy::cast_possible_truncation, reason = "the mask leaves at most 32 bits")]
#[inline(always)]
fn key<const BITS: usize>(packed: &[u8; WINDOW], number: usize) -> u32 {
    let bit = number * BITS;
    let word = packed.get(bit / 8..).and_then(<[u8]>::first_chunk).copied();
    let word = u64::from_le_bytes(word.unwrap_or_default()) >> (bit % 8);
    (word & ((1 << BITS) - 1)) as u32
}

/// Reads a number that has seven bits in each byte, the lowest first.
pub(super) fn number(bytes: &mut &[u8]) -> Option<u32> {
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

    /// Keys as the library writes them, whole and cut short.
    #[test]
    fn keys_of_any_width_are_looked_up() {
        for bits in 0..=20_u32 {
            let known: Vec<[u8; 4]> =
                (0..1_u32 << bits).map(|n| (n ^ 0x55).to_le_bytes()).collect();
            let random = |n: u32| n.wrapping_mul(0x9E37_79B9) >> 7 & ((1 << bits) - 1);
            let keys: Vec<u32> = (0..900)
                .map(|n| if (300..500).contains(&n) { random(300) } else { random(n) })
                .collect();
            let mut stored = vec![bits as u8];
            let packed = |keys: &[u32]| {
                let mut bytes = vec![0; (keys.len() * bits as usize).div_ceil(8)];
                for (at, key) in keys.iter().enumerate() {
                    for bit in (0..bits as usize).filter(|bit| key >> bit & 1 == 1) {
                        let place = at * bits as usize + bit;
                        bytes[place / 8] |= 1 << (place % 8);
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
                look_up(stored, &known, from, &mut found).map(|()| found)
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
                let wanted = keys[from..from + count].iter().map(|key| known[*key as usize]);
                assert_eq!(look_up(&stored, from, count), Some(wanted.collect()), "{bits}: {from}");
            }
            assert_eq!(look_up(&stored, 0, 901), None, "there are no more");
            if bits > 0 {
                assert_eq!(look_up(&stored[..stored.len() - 1], 0, 900), None, "one is cut off");
                assert!(look_up(&stored[..stored.len() - bits as usize], 0, 892).is_some());
                let few = known.len() - 1;
                let mut found = vec![[0; 4]; 900];
                let unknown = keys.contains(&(few as u32));
                let looked = super::look_up(&stored, &known[..few], 0, &mut found);
                assert_eq!(looked.is_none(), unknown, "{bits}");
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
