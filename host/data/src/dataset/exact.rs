//! Parses the numbers of JSON without losing digits. Arrow's JSON reader would cut off the fraction of a
//! number in a column of whole numbers, and parsers of floats round.

/// The maximum number of digits of a whole number that we compute with: they fit in an `i128`.
const MOST_DIGITS: usize = 38;
/// A decimal number of at most this many digits stays the same if it is converted to a normal (not subnormal)
/// float and back.
const KEPT_DIGITS: usize = 15;
/// The maximum number of digits for [`is_near`], the fast comparison: they fit in a `u64`.
const FAST_DIGITS: usize = 19;
/// The powers of ten for the fast comparison. The product of one of them and the mantissa of a float fits in
/// a `u128`.
const POWERS_OF_TEN: [u128; 23] = {
    let mut powers = [1; 23];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = powers[index - 1] * 10;
        index += 1;
    }
    powers
};
/// More digits than the exact decimal value of any float has.
const MAX_FLOAT_DIGITS: usize = 800;

/// The text of a number: `-? (0 | [1-9][0-9]*) (\. [0-9]+)? ([eE] [+-]? [0-9]+)?`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenNumber<'a> {
    text: &'a str,
    /// The digits before the point.
    whole: &'a [u8],
    /// The digits after the point.
    fraction: &'a [u8],
    /// The number after the `e`.
    power: i64,
    /// Whether the number has neither a point nor an exponent.
    pub(super) is_plain: bool,
}

impl<'a> WrittenNumber<'a> {
    /// Parses a number. `None` if the text is not a number of JSON.
    #[inline]
    pub(super) fn new(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (whole, mut rest) = digits(bytes.strip_prefix(b"-").unwrap_or(bytes));
        if whole.is_empty() || whole.len() > 1 && whole[0] == b'0' {
            return None;
        }
        let mut fraction: &[u8] = &[];
        let is_plain = rest.is_empty();
        if let [b'.', after @ ..] = rest {
            (fraction, rest) = digits(after);
            if fraction.is_empty() {
                return None;
            }
        }
        let power = match rest {
            [] => 0,
            [b'e' | b'E', power @ ..] => parse_exponent(power)?,
            _ => return None,
        };
        Some(Self { text, whole, fraction, power, is_plain })
    }

    /// The digits before the point, the digits after it, and the power of ten of the last digit. Leaves out
    /// the zeros with which the number begins or ends.
    fn digits(&self) -> (&'a [u8], &'a [u8], i64) {
        let fraction = trimmed(self.fraction);
        let whole = if self.whole == b"0" { &[] } else { self.whole };
        let power = self.power.saturating_sub(signed(fraction.len()));
        if fraction.is_empty() {
            let shortened = trimmed(whole);
            let cut = signed(whole.len() - shortened.len());
            return (shortened, fraction, power.saturating_add(cut));
        }
        let zeros = if whole.is_empty() {
            fraction.iter().take_while(|digit| **digit == b'0').count()
        } else {
            0
        };
        (whole, &fraction[zeros..], power)
    }

    /// The value, if it is a whole number. `1.0` and `1e3` are whole numbers. `None` for a fraction, and for
    /// more than [`MOST_DIGITS`] digits.
    pub(super) fn integer(&self) -> Option<i128> {
        let (whole, fraction, power) = self.digits();
        let count = whole.len() + fraction.len();
        if count == 0 {
            return Some(0);
        }
        let power = u32::try_from(power).ok()?;
        if count + power as usize > MOST_DIGITS {
            return None;
        }
        let digits = whole.iter().chain(fraction);
        let size = digits.fold(0, |sum: i128, digit| sum * 10 + i128::from(digit - b'0'));
        let size = size * 10_i128.pow(power);
        Some(if self.text.starts_with('-') { -size } else { size })
    }

    /// The nearest float. `None` if the number is beyond all floats.
    pub(super) fn nearest(&self) -> Option<f64> {
        fast_float2::parse::<f64, _>(self.text).ok().filter(|number| number.is_finite())
    }

    /// The nearest float, if it loses nothing of the number. A plain number must be exactly equal
    /// to the float. For any other number, we write the float with as many digits as the number
    /// has: the digits must be the same. `None` if the nearest float loses something.
    pub(super) fn float(&self) -> Option<f64> {
        self.nearest().filter(|float| self.is_kept(*float))
    }

    /// Whether the nearest float loses nothing of the number.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number of at most `MOST_DIGITS` is below the largest `i128`"
    )]
    fn is_kept(&self, nearest: f64) -> bool {
        match self.is_plain {
            true if self.whole.len() <= KEPT_DIGITS => true,
            true => self.integer() == Some(nearest as i128),
            false => self.has_digits_of(nearest),
        }
    }

    /// Whether the float, written with as many digits as the number, has the same digits.
    fn has_digits_of(&self, float: f64) -> bool {
        let (whole, fraction, power) = self.digits();
        let count = whole.len() + fraction.len();
        if count <= KEPT_DIGITS && (count == 0 || float.is_normal()) {
            return true;
        }
        if count > MAX_FLOAT_DIGITS {
            return false;
        }
        if count <= FAST_DIGITS
            && let Some(is_near) = is_near(append(append(0, whole), fraction), power, float)
        {
            return is_near;
        }
        let written = format!("{:.*e}", count - 1, float.abs());
        let Some((digits, exponent)) = written.split_once('e') else { return false };
        let are_same =
            digits.bytes().filter(|byte| *byte != b'.').eq(whole.iter().chain(fraction).copied());
        are_same && exponent.parse() == Ok(power.saturating_add(signed(count) - 1))
    }
}

/// A length in memory as a signed number. A length always fits in 63 bits.
fn signed(length: usize) -> i64 {
    (length as u64).cast_signed()
}

/// The digits at the beginning of a text, and the rest.
#[inline]
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// The digits without zeros at the end.
#[inline]
fn trimmed(digits: &[u8]) -> &[u8] {
    &digits[..digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1)]
}

/// The number with the digits of `number`, followed by `digits`.
#[inline]
fn append(number: u64, digits: &[u8]) -> u64 {
    let (eights, rest) = digits.as_chunks::<8>();
    // The result fits if there are at most `FAST_DIGITS` digits.
    let number = eights.iter().fold(number, |sum, eight| {
        let values = u64::from_le_bytes(*eight) ^ u64::from_ne_bytes([b'0'; 8]);
        sum.wrapping_mul(100_000_000).wrapping_add(eight_digits(values))
    });
    rest.iter()
        .fold(number, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit ^ b'0')))
}

/// Whether the float differs from `number * 10^power` by at most half a unit of the last digit. `None`
/// if that cannot be computed in 128 bits.
fn is_near(number: u64, power: i64, float: f64) -> Option<bool> {
    let power_of_ten = POWERS_OF_TEN.get(usize::try_from(-power).ok()?)?;
    let bits = float.abs().to_bits();
    // The highest bit of the mantissa, which the format of floats leaves out.
    let hidden_bit = 1_u64 << 52;
    // The float is `mantissa / 2^shift`, and the written number is `number / power_of_ten`. We compare both
    // after multiplication with `2^shift * power_of_ten`.
    let shift = 1075_u32.checked_sub((bits >> 52) as u32).filter(|shift| *shift > 0)?;
    if shift > 64 + number.leading_zeros() {
        return None;
    }
    let mantissa = bits & (hidden_bit - 1) | hidden_bit;
    let distance = (u128::from(mantissa) * power_of_ten).abs_diff(u128::from(number) << shift);
    // If the difference is exactly half a unit of the last digit, some programs write the lower neighbour
    // and others the higher one. We accept both.
    Some(distance <= 1 << (shift - 1))
}

/// Parses the exponent after an `e`. An exponent that is too large becomes the maximum.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let (power, rest) = digits(unsigned);
    if power.is_empty() || !rest.is_empty() {
        return None;
    }
    let size = power
        .iter()
        .fold(0_i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    let size = size.min(i64::MAX / 4);
    Some(if text.starts_with(b"-") { -size } else { size })
}

/// Parses a whole number. `1.0` and `1e3` are whole numbers. `None` if the number does not fit.
pub(super) fn integer(text: &str) -> Option<i64> {
    match is_plain(text.strip_prefix('-').unwrap_or(text)) {
        true => text.parse().ok(),
        false => WrittenNumber::new(text)?.integer()?.try_into().ok(),
    }
}

/// Like [`integer`], for a number that is not negative.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    match is_plain(text) {
        true => text.parse().ok(),
        false => WrittenNumber::new(text)?.integer()?.try_into().ok(),
    }
}

/// Whether the text is a whole number without a sign, point, exponent or leading zero.
fn is_plain(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'))
}

/// The float that is nearest to the number of JSON. `None` if the number is beyond all floats.
pub(super) fn float(text: &str) -> Option<f64> {
    WrittenNumber::new(text)?.nearest()
}

/// Whether the nearest float loses nothing of the number of JSON.
pub(super) fn keeps_digits(text: &str, nearest: f64) -> bool {
    WrittenNumber::new(text).is_some_and(|number| number.is_kept(nearest))
}

/// The float that loses nothing of the number of JSON ([`WrittenNumber::float`]).
pub(super) fn exact_float(text: &str) -> Option<f64> {
    WrittenNumber::new(text)?.float()
}

/// The number with these eight digits. The last digit is in the highest byte.
#[inline(always)]
pub(super) fn eight_digits(values: u64) -> u64 {
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_those_of_json() {
        for (text, whole, number) in [
            ("0", Some(0), Some(0.0)),
            ("-0", Some(0), Some(-0.0)),
            ("-0.0", Some(0), Some(-0.0)),
            ("12", Some(12), Some(12.0)),
            ("-1.50", None, Some(-1.5)),
            ("1.0", Some(1), Some(1.0)),
            ("1e3", Some(1000), Some(1000.0)),
            ("120e-1", Some(12), Some(12.0)),
            ("0.0012E4", Some(12), Some(12.0)),
            ("2.5E-1", None, Some(0.25)),
            ("9223372036854775807", Some(i64::MAX), Some(9_223_372_036_854_775_807.0)),
            ("-9223372036854775808", Some(i64::MIN), Some(-9_223_372_036_854_775_808.0)),
            ("9223372036854775808", None, Some(9_223_372_036_854_775_808.0)),
            ("9007199254740993.0", Some(9_007_199_254_740_993), Some(9_007_199_254_740_992.0)),
            ("9.007199254740993e15", Some(9_007_199_254_740_993), Some(9_007_199_254_740_992.0)),
            ("1.00000000000000000001", None, Some(1.0)),
            ("1.00000000000000000000", Some(1), Some(1.0)),
            ("0e99999999999999999999", Some(0), Some(0.0)),
            ("1e400", None, None),
            ("1e-400", None, Some(0.0)),
            ("01", None, None),
            ("-01", None, None),
            ("-", None, None),
            ("1.", None, None),
            (".5", None, None),
            ("+1", None, None),
            ("1e", None, None),
            ("1-2", None, None),
            ("1e+-2", None, None),
            ("1.2.3", None, None),
            ("", None, None),
        ] {
            assert_eq!(float(text), number, "{text}");
            assert_eq!(integer(text), whole, "{text}");
            let unsigned_whole = whole.filter(|whole| *whole >= 0).map(i64::cast_unsigned);
            let is_large = text == "9223372036854775808";
            assert_eq!(unsigned(text), unsigned_whole.or(is_large.then_some(1 << 63)), "{text}");
        }
        assert_eq!(unsigned("18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned("1.8446744073709551615e19"), Some(u64::MAX));
        assert_eq!(unsigned("18446744073709551616"), None);
    }

    #[test]
    fn a_float_loses_no_digit() {
        for text in [
            "0",
            "-0",
            "0.0",
            "0.1",
            "0.10",
            "1e3",
            "1.5e300",
            "-2.5E-300",
            "5e-324",
            "4.9e-324",
            "9007199254740992",
            "9007199254740994",
            "1180591620717411303424",
            "1e22",
            "1e23",
            "1180591620717411300000.0",
            "0.30000000000000004",
            "0.10000000000000001",
            "0.1000000000000000055511151231257827",
            "1.10000000000000000000",
            "0.10000000000000000555",
            "1.7976931348623157e308",
            "2.2250738585072014e-308",
            "123456789012345.625",
        ] {
            assert!(exact_float(text).is_some(), "{text}");
        }
        for text in [
            "9007199254740993",
            "18446744073709551615",
            "1180591620717411300000",
            "9007199254740993.0",
            "9007199254740993.5",
            "0.1234567890123456789",
            "3.14159265358979323846",
            "1e400",
            "1e-400",
            "4e-324",
            "0.100000000000000012",
            "1.00000000000000000001",
            "100000000000000000000000000000000000000000000000000",
            "12345678901234567.5",
            "9007199254740993e1",
        ] {
            assert_eq!(exact_float(text), None, "{text}");
        }
    }

    proptest! {
        /// A program may write a float with the fewest digits that identify it, or with more digits. Each
        /// text parses to that float.
        #[test]
        fn written_floats_come_back(bits in any::<u64>(), places in 16_usize..40) {
            let float = f64::from_bits(bits);
            if float.is_finite() {
                prop_assert_eq!(exact_float(&format!("{float:e}")), Some(float));
                prop_assert_eq!(exact_float(&format!("{float:.places$e}")), Some(float));
            }
        }

        /// The fast comparison gives the same result as writing the float with all digits.
        #[test]
        fn digits_are_kept_or_not(digits in "[1-9][0-9]{15,18}", point in 1_usize..16, zeros in 0_usize..9) {
            let small = format!("0.{}{digits}", "0".repeat(zeros));
            for text in [format!("{}.{}", &digits[..point], &digits[point..]), small] {
                let number = WrittenNumber::new(&text).unwrap();
                let kept = digits.trim_end_matches('0');
                let written = format!("{:.*e}", kept.len() - 1, number.nearest().unwrap());
                let is_kept = written.replace('.', "").starts_with(&format!("{kept}e"));
                // At exactly half a unit of the last digit, either neighbour is right.
                let longer = format!("{:.*e}", kept.len(), number.nearest().unwrap());
                if !longer.contains("5e") {
                    prop_assert_eq!(number.float().is_some(), is_kept, "{}", text);
                }
            }
        }
    }
}
