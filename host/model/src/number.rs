//! Conversions of numbers for which there is no `From`.

const _: () = assert!(usize::BITS == 64, "Sandmill runs on 64-bit machines");

/// The same number as a `usize`. It always fits, because Sandmill runs only on 64-bit machines.
#[expect(clippy::cast_possible_truncation, reason = "a usize has 64 bits")]
#[inline]
pub const fn to_usize(number: u64) -> usize {
    number as usize
}

/// The nearest float, for percentages and for numbers in texts. It is exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "15 digits are exact enough for a figure")]
#[inline]
pub const fn to_f64(number: u64) -> f64 {
    number as f64
}

/// The whole part of a float: 0 for a negative float and for NaN, [`u64::MAX`] for a float above that.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the fraction is dropped, and the conversion saturates"
)]
#[inline]
pub const fn whole(number: f64) -> u64 {
    number as u64
}

/// A count as a 32-bit number: [`u32::MAX`] if it is larger.
#[inline]
pub fn count_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_become_the_nearest() {
        assert_eq!(to_usize(u64::MAX), usize::MAX);
        assert_eq!(count_u32(7), 7);
        assert_eq!(count_u32(1 << 32), u32::MAX);
        for (float, number) in
            [(0.99, 0), (1.5, 1), (-3.0, 0), (f64::NAN, 0), (f64::INFINITY, u64::MAX)]
        {
            assert_eq!(whole(float), number, "{float}");
        }
        assert!(to_f64(1 << 53) < to_f64((1 << 53) + 2));
    }
}
