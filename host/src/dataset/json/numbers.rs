//! Numbers of JSON, with all their digits: arrow-json cuts off the fraction of a number in a column of whole
//! numbers, and every parser of floats rounds.

/// Digits of a whole number that is computed with, at most: they fit an `i128`.
const MOST_DIGITS: usize = 38;
/// Digits that every float of the usual range keeps.
const KEPT_DIGITS: usize = 15;
/// Digits that the fast comparison takes: they fit a `u64`.
const FAST_DIGITS: usize = 19;
/// The highest power of ten that the fast comparison takes: times the digits of a float, it fits a `u128`.
const FAST_POWER: u32 = 22;
/// Digits beyond which no float has any more.
const FLOAT_DIGITS: usize = 800;

/// A number as it is written: `-? (0 | [1-9][0-9]*) (\. [0-9]+)? ([eE] [+-]? [0-9]+)?`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'a> {
    text: &'a str,
    negative: bool,
    /// The digits before the point, and those after it.
    whole: &'a str,
    fraction: &'a str,
    /// What follows the `e`.
    power: i64,
    /// Whether it has neither point nor power.
    pub(super) is_plain: bool,
}

impl<'a> Number<'a> {
    /// The number that the text is; None if it is no number of JSON.
    pub(super) fn new(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, mut rest) = unsigned.split_at(digits(unsigned));
        if whole.is_empty() || whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        let is_plain = rest.is_empty();
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = after.split_at(digits(after));
            if fraction.is_empty() {
                return None;
            }
        }
        let power = match rest.strip_prefix(['e', 'E']) {
            Some(power) => exponent(power)?,
            None if rest.is_empty() => 0,
            None => return None,
        };
        let negative = unsigned.len() < text.len();
        Some(Self { text, negative, whole, fraction, power, is_plain })
    }

    /// Its digits without zeros at either end, in two pieces, and the power of ten of the last one.
    fn digits(&self) -> (&'a str, &'a str, i64) {
        let fraction = self.fraction.trim_end_matches('0');
        let power = self.power.saturating_sub(fraction.len() as i64);
        let whole = self.whole.trim_start_matches('0');
        if !fraction.is_empty() {
            let fraction =
                if whole.is_empty() { fraction.trim_start_matches('0') } else { fraction };
            return (whole, fraction, power);
        }
        let shortened = whole.trim_end_matches('0');
        (shortened, "", power.saturating_add((whole.len() - shortened.len()) as i64))
    }

    /// The whole number that it is, as `1.0` and `1e3` are, too. None if it is none, or has more than
    /// [`MOST_DIGITS`].
    pub(super) fn integer(&self) -> Option<i128> {
        let (whole, fraction, power) = self.digits();
        let count = whole.len() + fraction.len();
        if count == 0 {
            return Some(0);
        }
        let power = usize::try_from(power).ok().filter(|power| count + power <= MOST_DIGITS)?;
        let digits = whole.bytes().chain(fraction.bytes());
        let size = digits.fold(0, |sum: i128, digit| sum * 10 + i128::from(digit - b'0'));
        let size = size * 10_i128.pow(power as u32);
        Some(if self.negative { -size } else { size })
    }

    /// The nearest float. None if that is beyond all floats.
    pub(super) fn nearest(&self) -> Option<f64> {
        fast_float2::parse::<f64, _>(self.text).ok().filter(|number| number.is_finite())
    }

    /// The float that loses nothing of it: a plain whole number is that float exactly, and another number is
    /// what the float is when it is written with as many digits. None if there is none.
    pub(super) fn float(&self) -> Option<f64> {
        let float = self.nearest()?;
        let is_kept = match self.is_plain {
            true if self.whole.len() <= KEPT_DIGITS => true,
            true => self.integer() == Some(float as i128),
            false => self.is_written(float),
        };
        is_kept.then_some(float)
    }

    /// Whether the float has the digits of this number, when it is written with as many.
    fn is_written(&self, float: f64) -> bool {
        let (whole, fraction, power) = self.digits();
        let count = whole.len() + fraction.len();
        if count <= KEPT_DIGITS && (count == 0 || float.is_normal()) {
            return true;
        }
        if count > FLOAT_DIGITS {
            return false;
        }
        if count <= FAST_DIGITS
            && let Some(is_near) = is_near(whole.bytes().chain(fraction.bytes()), power, float)
        {
            return is_near;
        }
        let written = format!("{:.*e}", count - 1, float.abs());
        let Some((digits, exponent)) = written.split_once('e') else { return false };
        let same =
            digits.bytes().filter(|byte| *byte != b'.').eq(whole.bytes().chain(fraction.bytes()));
        same && exponent.parse() == Ok(power.saturating_add(count as i64 - 1))
    }
}

/// Whether the number of these digits, times ten to the power, is at most half of its last digit away from the
/// float. None where whole numbers cannot tell, or not in good time.
fn is_near(digits: impl Iterator<Item = u8>, power: i64, float: f64) -> Option<bool> {
    let power = u32::try_from(-power).ok().filter(|power| *power <= FAST_POWER)?;
    let bits = float.abs().to_bits();
    let hidden = 1_u64 << 52;
    // The float is `size / 2^shift`, and the number `digits / 10^power`.
    let shift = 1075_u32.checked_sub((bits >> 52) as u32).filter(|shift| *shift > 0)?;
    let size = u128::from(bits & (hidden - 1) | hidden) * 10_u128.pow(power);
    let digits = digits.fold(0_u128, |sum, digit| sum * 10 + u128::from(digit - b'0'));
    if shift > digits.leading_zeros() {
        return None;
    }
    let distance = size.abs_diff(digits << shift);
    let half = 1_u128 << (shift - 1);
    // At half of it, programs write either neighbour.
    Some(distance <= half)
}

/// What stands behind an `e`; one that fits nowhere becomes the largest.
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(i64::MAX).min(i64::MAX / 4);
    Some(if text.starts_with('-') { -size } else { size })
}

/// The whole number that is written there, if it fits. `1.0` and `1e3` are whole, too.
pub(super) fn integer(text: &str) -> Option<i64> {
    match is_plain(text.strip_prefix('-').unwrap_or(text)) {
        true => text.parse().ok(),
        false => Number::new(text)?.integer()?.try_into().ok(),
    }
}

/// The same of one that is not negative.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    match is_plain(text) {
        true => text.parse().ok(),
        false => Number::new(text)?.integer()?.try_into().ok(),
    }
}

/// Whether it is a whole number in its plainest form.
fn is_plain(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'))
}

/// The float that is nearest to what is written there, if it is a number of JSON and no larger than floats can be.
pub(super) fn float(text: &str) -> Option<f64> {
    Number::new(text)?.nearest()
}

/// The float that is written there, if it loses nothing ([`Number::float`]).
pub(super) fn exact_float(text: &str) -> Option<f64> {
    Number::new(text)?.float()
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
        /// What a program writes of a float, in as few digits as tell it or in more, is that float.
        #[test]
        fn written_floats_come_back(bits in any::<u64>(), places in 16_usize..40) {
            let float = f64::from_bits(bits);
            if float.is_finite() {
                prop_assert_eq!(exact_float(&format!("{float:e}")), Some(float));
                prop_assert_eq!(exact_float(&format!("{float:.places$e}")), Some(float));
            }
        }

        /// The fast comparison says what writing the float with all digits says.
        #[test]
        fn digits_are_kept_or_not(digits in "[1-9][0-9]{15,18}", point in 1_usize..16, zeros in 0_usize..9) {
            let small = format!("0.{}{digits}", "0".repeat(zeros));
            for text in [format!("{}.{}", &digits[..point], &digits[point..]), small] {
                let number = Number::new(&text).unwrap();
                let kept = digits.trim_end_matches('0');
                let written = format!("{:.*e}", kept.len() - 1, number.nearest().unwrap());
                let is_kept = written.replace('.', "").starts_with(&format!("{kept}e"));
                // At half of the last digit either neighbour is right.
                let longer = format!("{:.*e}", kept.len(), number.nearest().unwrap());
                if !longer.contains("5e") {
                    prop_assert_eq!(number.float().is_some(), is_kept, "{}", text);
                }
            }
        }
    }
}
