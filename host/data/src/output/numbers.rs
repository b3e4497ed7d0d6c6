//! Formats numbers as Python prints them.

/// Bytes for a number and the delimiter after it. The longest number is `-2.2250738585072014e-308`, so some
/// bytes are spare.
pub(super) const NUMBER_BYTES: usize = 31;

/// Buffers for a number's text.
pub(super) struct NumberBuffers {
    integer: itoa::Buffer,
    float: zmij::Buffer,
    /// The text of a float that zmij and Python print differently.
    rewritten: [u8; NUMBER_BYTES],
}

impl NumberBuffers {
    #[inline]
    fn new() -> Self {
        let integer = itoa::Buffer::new();
        let float = zmij::Buffer::new();
        Self { integer, float, rewritten: [0; NUMBER_BYTES] }
    }
}

/// A number whose text has fewer than [`NUMBER_BYTES`] bytes.
pub(super) trait NumberText: Copy {
    /// The text as Python's `repr` prints it.
    fn text(self, buffers: &mut NumberBuffers) -> &str;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl NumberText for $integer {
            #[inline]
            fn text(self, buffers: &mut NumberBuffers) -> &str {
                buffers.integer.format(self)
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

/// From 1e-4 up to the given limit, Python and the crate zmij print numbers alike.
macro_rules! floats {
    ($($float:ty: $limit:literal)*) => {$(
        impl NumberText for $float {
            #[inline]
            fn text(self, buffers: &mut NumberBuffers) -> &str {
                let magnitude = self.abs();
                if magnitude == 0.0 || (1e-4..$limit).contains(&magnitude) {
                    buffers.float.format_finite(self)
                } else {
                    as_python(buffers.float.format(self), &mut buffers.rewritten)
                }
            }
        }
    )*};
}

floats!(f64: 1e16 f32: 1e13);

/// Rewrites zmij's text of a float as Python's `repr` prints the float. Numbers below 1e-4 and from 1e16 on
/// get an exponent, which has a sign and at least two digits. The special values are called `nan` and `inf`.
#[cold]
fn as_python<'a>(shortest: &str, out: &'a mut [u8; NUMBER_BYTES]) -> &'a str {
    let mut text = FixedText { bytes: out, length: 0 };
    let unsigned = shortest.strip_prefix('-').unwrap_or(shortest);
    if unsigned.len() < shortest.len() {
        text.push(b"-");
    }
    // The position of the decimal point, counted in digits from the first digit that is not zero.
    let point = match unsigned.split_once('e') {
        Some((mantissa, exponent)) => {
            let point = exponent.parse().map_or(0, |exponent: isize| exponent + 1);
            if let count @ 1..=16 = point {
                // Only numbers of single precision come here. They have no digits after the point.
                let digits = mantissa.bytes().filter(|byte| *byte != b'.');
                let zeros = std::iter::repeat(b'0');
                digits
                    .chain(zeros)
                    .take(count.cast_unsigned())
                    .for_each(|digit| text.push(&[digit]));
                text.push(b".0");
                return text.done();
            }
            text.push(mantissa.as_bytes());
            point
        }
        None => {
            let Some(digits) = unsigned.strip_prefix("0.") else {
                text.push(unsigned.to_ascii_lowercase().as_bytes());
                return text.done();
            };
            let decimals = digits.len();
            let digits = digits.trim_start_matches('0');
            let (first, rest) = digits.split_at(digits.len().min(1));
            text.push(first.as_bytes());
            if !rest.is_empty() {
                text.push(b".");
                text.push(rest.as_bytes());
            }
            digits.len().cast_signed() - decimals.cast_signed()
        }
    };
    let exponent = (point - 1).unsigned_abs();
    text.push(if point > 0 { b"e+" } else { b"e-" });
    text.push(if exponent < 10 { b"0" } else { b"" });
    text.push(itoa::Buffer::new().format(exponent).as_bytes());
    text.done()
}

/// A text that is being built. Bytes that do not fit are dropped.
struct FixedText<'a> {
    bytes: &'a mut [u8; NUMBER_BYTES],
    length: usize,
}

impl<'a> FixedText<'a> {
    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(target) = self.bytes.get_mut(self.length..end) {
            target.copy_from_slice(bytes);
            self.length = end;
        }
    }

    fn done(self) -> &'a str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// The text of a number, with the delimiter after it. The array has a fixed size, so that copying it needs no
/// call.
#[derive(Clone, Copy)]
pub(super) struct NumberCell {
    length: u8,
    text: [u8; NUMBER_BYTES],
}

impl NumberCell {
    pub(super) const EMPTY: Self = Self { length: 0, text: [0; NUMBER_BYTES] };

    #[expect(clippy::cast_possible_truncation, reason = "no text is longer than `NUMBER_BYTES`")]
    #[inline]
    fn set(&mut self, text: &str) {
        let text = text.as_bytes();
        if !(self.set_halves::<16>(text)
            || self.set_halves::<8>(text)
            || self.set_halves::<4>(text))
        {
            self.text[..text.len()].copy_from_slice(text);
        }
        self.length = text.len() as u8;
    }

    #[inline]
    fn push_delimiter(&mut self, delimiter: u8) {
        self.text[usize::from(self.length)] = delimiter;
        self.length += 1;
    }

    /// Copies a text of `N` to `2 * N` bytes as two overlapping halves. Returns `false` for texts of other
    /// lengths.
    #[inline]
    fn set_halves<const N: usize>(&mut self, text: &[u8]) -> bool {
        let (Some(first), Some(last)) = (text.first_chunk::<N>(), text.last_chunk::<N>()) else {
            return false;
        };
        let length = text.len();
        if length > 2 * N || length >= NUMBER_BYTES {
            return false;
        }
        self.text[..N].copy_from_slice(first);
        self.text[length - N..length].copy_from_slice(last);
        true
    }

    #[inline]
    pub(super) fn append(&self, out: &mut Vec<u8>) {
        let end = out.len() + usize::from(self.length);
        out.extend_from_slice(&self.text);
        out.truncate(end);
    }
}

#[inline]
pub(super) fn append(value: impl NumberText, out: &mut Vec<u8>) {
    let mut cell = NumberCell::EMPTY;
    cell.set(value.text(&mut NumberBuffers::new()));
    cell.append(out);
}

/// Writes each number into a cell, followed by `end`.
pub(super) fn fill<T: NumberText>(values: &[T], cells: &mut [NumberCell], end: u8) {
    let mut buffers = NumberBuffers::new();
    for (cell, value) in cells.iter_mut().zip(values) {
        cell.set(value.text(&mut buffers));
        cell.push_delimiter(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed64(value: f64) -> String {
        value.text(&mut NumberBuffers::new()).to_owned()
    }

    fn printed32(value: f32) -> String {
        value.text(&mut NumberBuffers::new()).to_owned()
    }

    #[test]
    fn floats_are_printed_as_in_python() {
        for (value, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-0.0000123, "-1.23e-05"),
            (123456789.125, "123456789.125"),
            (1e15, "1000000000000000.0"),
            (9007199254740993.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(printed64(value), text);
        }
        for (value, text) in [
            (0.1, "0.1"),
            (1e14, "100000000000000.0"),
            (1.5e15, "1500000000000000.0"),
            (1e-5, "1e-05"),
            (1e16, "1e+16"),
            (-3.4e38, "-3.4e+38"),
        ] {
            assert_eq!(printed32(value), text);
        }
    }

    /// Compares with the text that Rust prints. Rust's text has the same number of digits, but its exponent
    /// has no plus sign and no leading zeros. If two texts are equally near to the number, Rust may choose
    /// the other one.
    fn is_as_in_rust(text: &str, rust: &str) -> bool {
        let expected = match rust.split_once('e') {
            None => rust.to_lowercase(),
            Some((mantissa, exponent)) => {
                let exponent: i32 = exponent.parse().unwrap();
                let sign = if exponent < 0 { '-' } else { '+' };
                format!("{mantissa}e{sign}{:02}", exponent.abs())
            }
        };
        let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
        shape(text) == shape(&expected)
    }

    #[test]
    fn the_longest_numbers_fit_into_a_cell() {
        let cell = |text: &str| {
            let mut cell = NumberCell::EMPTY;
            cell.set(text);
            cell.push_delimiter(b'\n');
            let mut out = b"before".to_vec();
            cell.append(&mut out);
            assert_eq!(out, format!("before{text}\n").as_bytes());
        };
        let characters = "abcdefghijklmnopqrstuvwxyz0123456789";
        (0..NUMBER_BYTES).for_each(|length| cell(&characters[..length]));
        cell(&printed64(-f64::MIN_POSITIVE));
        cell(i64::MIN.text(&mut NumberBuffers::new()));
    }

    proptest! {
        #[test]
        fn floats_agree_with_rust(bits in any::<u64>(), small in any::<u32>(), unit in -20..20_i32) {
            for value in [f64::from_bits(bits), f64::from(small) * 10_f64.powi(unit)] {
                prop_assert!(is_as_in_rust(&printed64(value), &format!("{value:?}")), "{value}");
            }
            for value in [f32::from_bits(small), small as f32 * 10_f32.powi(unit)] {
                prop_assert!(is_as_in_rust(&printed32(value), &format!("{value:?}")), "{value}");
            }
        }

        #[test]
        fn floats_round_trip(bits in any::<u64>(), small in any::<u32>()) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(printed64(value).parse::<f64>().unwrap(), value);
            let value = f32::from_bits(small);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(printed32(value).parse::<f32>().unwrap(), value);
        }
    }
}
