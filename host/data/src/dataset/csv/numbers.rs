//! Parses numbers from text, many digits at once, without branches that depend on the digits.

use crate::dataset::exact::eight_digits;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::Float64Type;

/// Floats hold all whole numbers up to this one exactly.
const MAX_EXACT_INTEGER: u64 = 1 << 53;
/// The powers of ten from 10^0 to 10^15: a number of sixteen bytes has at most 15 digits after its point.
/// Floats hold these powers exactly.
pub(super) const POWERS_OF_TEN: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// 1 in each byte.
const ONES: u64 = u64::from_ne_bytes([1; 8]);
/// The highest bit of each byte.
const HIGHS: u64 = ONES << 7;
/// The character `0` in each byte. XOR with it turns digits into their values.
const ASCII_ZEROS: u64 = ONES * b'0' as u64;

/// The whole number in the bytes from `start` to `end`: an optional minus, and 1 to 16 digits.
/// `None` for all other texts, and for a number near the start of `bytes`, because this function
/// reads whole words before `end`.
#[inline(always)]
pub(in crate::dataset) fn short_integer(bytes: &[u8], start: usize, end: usize) -> Option<i64> {
    let negative = *bytes.get(start)? == b'-';
    let length = end.wrapping_sub(start + usize::from(negative));
    let number = match length {
        1..=8 => eight_digits(digits(word(bytes, end)?, length)?),
        9..=16 => {
            let high = digits(word(bytes, end - 8)?, length - 8)?;
            eight_digits(high) * 100_000_000 + eight_digits(digits(word(bytes, end)?, 8)?)
        }
        _ => return None,
    };
    // A branch would often be mispredicted.
    let sign = -i64::from(negative);
    Some((number.cast_signed() ^ sign) - sign)
}

/// The float in the bytes from `start` to `end`: an optional minus, and 1 to 16 bytes of digits
/// with at most one point among them. The result is the nearest float, as from any good parser.
/// `None` for all other texts, for a number near the start of `bytes`, and for more digits than one
/// exact division can handle.
#[inline]
pub(in crate::dataset) fn short_float(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    let negative = *bytes.get(start)? == b'-';
    let length = end.wrapping_sub(start + usize::from(negative));
    let magnitude = match length {
        1..=8 => parse_eight(word(bytes, end)?, length)?,
        9..=16 => parse_sixteen(word(bytes, end - 8)?, word(bytes, end)?, length)?,
        _ => return None,
    };
    Some(f64::from_bits(magnitude.to_bits() | u64::from(negative) << 63))
}

/// Like [`short_integer`], but also `None` for numbers with leading zeros, and for `-0`.
#[inline(always)]
pub(super) fn exact_integer(bytes: &[u8], start: usize, end: usize) -> Option<i64> {
    let first = match *bytes.get(start)? {
        b'-' => *bytes.get(start + 1)?,
        // A single zero is a number.
        first if end.wrapping_sub(start) > 1 => first,
        _ => b'1',
    };
    if first == b'0' { None } else { short_integer(bytes, start, end) }
}

/// Like [`short_float`], but also `None` for numbers with leading zeros.
#[inline]
pub(super) fn exact_float(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    let first = start + usize::from(*bytes.get(start)? == b'-');
    // Needs no check against `end`, because the byte after a field is not a digit.
    let has_leading_zero =
        bytes.get(first) == Some(&b'0') && bytes.get(first + 1).is_some_and(u8::is_ascii_digit);
    if has_leading_zero { None } else { short_float(bytes, start, end) }
}

/// Any float, as arrow-csv parses it, but faster in the usual forms.
pub(super) fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    if is_digit(unsigned.first()) && is_digit(unsigned.last()) {
        return fast_float2::parse(text).ok();
    }
    Float64Type::parse(text)
}

/// The eight bytes before `end`, as a number. The last byte is the highest.
#[inline(always)]
fn word(bytes: &[u8], end: usize) -> Option<u64> {
    let word = bytes.get(end.wrapping_sub(8)..end)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

/// The values of the digits in the last `length` bytes (1 to 8) of a word. The other bytes are 0.
#[inline(always)]
fn digit_values(word: u64, length: usize) -> u64 {
    (word ^ ASCII_ZEROS) & (u64::MAX << (64 - length * 8))
}

/// Marks each byte that is not the value of a digit, by the byte's highest bit.
#[inline(always)]
fn non_digits(values: u64) -> u64 {
    (((values & !HIGHS) + ONES * (0x7f - 9)) | values) & HIGHS
}

/// The [`digit_values`], if all bytes are digits.
#[inline(always)]
fn digits(word: u64, length: usize) -> Option<u64> {
    let values = digit_values(word, length);
    (non_digits(values) == 0).then_some(values)
}

/// The float in the last `length` bytes (1 to 8) of a word.
#[expect(clippy::cast_possible_truncation, reason = "only one byte of the word is used")]
#[inline(always)]
fn parse_eight(word: u64, length: usize) -> Option<f64> {
    let values = digit_values(word, length);
    let non_digits = non_digits(values);
    if non_digits == 0 {
        return Some(divide_by_power(eight_digits(values), 0));
    }
    let point = non_digits.trailing_zeros() & !7;
    if non_digits & (non_digits - 1) != 0 || (word >> point) as u8 != b'.' || length == 1 {
        return None;
    }
    // Closes the gap at the point: moves the digits before it by one byte.
    let before = (1 << point) - 1;
    let joined = (values & !(before << 8 | 0xff)) | (values & before) << 8;
    Some(divide_by_power(eight_digits(joined), 7 - point as usize / 8))
}

/// The float in the last `length` bytes (9 to 16) of two words. `low` is the second word.
#[expect(clippy::cast_possible_truncation, reason = "only a byte or a half of a word is used")]
#[inline(always)]
fn parse_sixteen(high: u64, low: u64, length: usize) -> Option<f64> {
    let word = u128::from(low) << 64 | u128::from(high);
    let high = digit_values(high, length - 8);
    let low = low ^ ASCII_ZEROS;
    let non_digits = u128::from(non_digits(low)) << 64 | u128::from(non_digits(high));
    let values = u128::from(low) << 64 | u128::from(high);
    let (joined, places) = if non_digits == 0 {
        (values, 0)
    } else {
        let point = non_digits.trailing_zeros() & !7;
        if non_digits & (non_digits - 1) != 0 || (word >> point) as u8 != b'.' {
            return None;
        }
        let before = (1 << point) - 1;
        let joined = (values & !(before << 8 | 0xff)) | (values & before) << 8;
        (joined, 15 - point as usize / 8)
    };
    let number = eight_digits(joined as u64) * 100_000_000 + eight_digits((joined >> 64) as u64);
    (number <= MAX_EXACT_INTEGER).then(|| divide_by_power(number, places))
}

/// Divides a number by the power of ten for this many decimal places. Floats hold both exactly, so the result
/// is rounded only once.
#[expect(clippy::cast_precision_loss, reason = "the number is at most `MAX_EXACT_INTEGER`")]
#[inline(always)]
fn divide_by_power(number: u64, places: usize) -> f64 {
    number.cast_signed() as f64 / POWERS_OF_TEN[places]
}
