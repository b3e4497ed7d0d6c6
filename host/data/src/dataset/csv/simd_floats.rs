//! Parses four short floats at once, on processors with AVX2. The results are those of
//! [`short_float`](super::short_float), in less than half of the time.

use super::numbers::POWERS_OF_TEN;
use std::arch::x86_64::*;

/// How many floats are parsed at once.
pub(super) const LANES: usize = 4;

/// After this many misses (groups of fields that cannot be parsed at once) in one block of records, the
/// column probably has longer floats, and trying again is useless.
pub(super) const MAX_MISSES: u32 = 8;

/// The floats in four fields. `bounds` has the start and the end of each field. A field has an optional
/// minus, and 1 to 8 bytes of digits with at most one point among them; if `exact`, it has no leading zeros.
/// `None` if a field is anything else, or is near the start or the end of `bytes`.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn floats(
    bytes: &[u8],
    bounds: &[(usize, usize); LANES],
    exact: bool,
) -> Option<[f64; LANES]> {
    let mut firsts = [0; LANES];
    let mut words = [0; LANES];
    let mut lengths = [0; LANES];
    for (lane, &(start, end)) in bounds.iter().enumerate() {
        firsts[lane] = i64::from(u32::from_le_bytes(*bytes.get(start..)?.first_chunk()?));
        words[lane] = i64::from_le_bytes(*bytes.get(end.wrapping_sub(8)..end)?.first_chunk()?);
        lengths[lane] = end.wrapping_sub(start).cast_signed() as i64;
    }
    let firsts = vector(firsts);
    let byte = _mm256_set1_epi64x(0xff);
    let first = _mm256_and_si256(firsts, byte);
    let minus = _mm256_cmpeq_epi64(first, _mm256_set1_epi64x(i64::from(b'-')));
    let length = _mm256_add_epi64(vector(lengths), minus);
    let word = vector(words);
    let zero = _mm256_setzero_si256();
    let ones = _mm256_set1_epi8(1);

    // The bytes of a field are the highest ones of its lane. Each is a digit or a point.
    let shift = _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64::<3>(length));
    let kept = _mm256_sllv_epi64(_mm256_set1_epi8(-1), shift);
    let values =
        _mm256_and_si256(_mm256_xor_si256(word, _mm256_set1_epi8(b'0'.cast_signed())), kept);
    let digits = _mm256_cmpeq_epi8(_mm256_min_epu8(values, _mm256_set1_epi8(9)), values);
    let point = _mm256_cmpeq_epi8(values, _mm256_set1_epi8((b'.' ^ b'0').cast_signed()));
    let points = _mm256_sad_epu8(_mm256_and_si256(point, ones), zero);
    let others = _mm256_xor_si256(_mm256_or_si256(digits, point), _mm256_set1_epi8(-1));

    // Closes the gap at the point: moves the digits before it by one byte.
    let has_point = _mm256_cmpgt_epi64(points, zero);
    let before = _mm256_andnot_si256(point, _mm256_sub_epi64(point, _mm256_set1_epi64x(1)));
    let before = _mm256_and_si256(before, has_point);
    let after = _mm256_or_si256(before, point);
    let moved = _mm256_slli_epi64::<8>(_mm256_and_si256(values, before));
    let joined = _mm256_or_si256(_mm256_andnot_si256(after, values), moved);
    let places =
        _mm256_and_si256(_mm256_sad_epu8(_mm256_andnot_si256(after, ones), zero), has_point);

    // Combines digits to numbers of two digits (10 * first + second), then of four, then of eight.
    let pairs = _mm256_maddubs_epi16(joined, _mm256_set1_epi16(0x010a));
    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0001_0064));
    let high = _mm256_mul_epu32(fours, _mm256_set1_epi64x(10_000));
    let number = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(fours));

    // Finds leading zeros: a zero before another digit. The byte after a field is not a digit.
    let after_minus = _mm256_srlv_epi64(firsts, _mm256_and_si256(minus, _mm256_set1_epi64x(8)));
    let second = _mm256_and_si256(_mm256_srli_epi64::<8>(after_minus), byte);
    let zero_first = _mm256_cmpeq_epi64(
        _mm256_and_si256(after_minus, byte),
        _mm256_set1_epi64x(i64::from(b'0')),
    );
    let is_digit = _mm256_and_si256(
        _mm256_cmpgt_epi64(second, _mm256_set1_epi64x(i64::from(b'0' - 1))),
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(i64::from(b'9' + 1)), second),
    );
    let has_leading_zero = _mm256_and_si256(
        _mm256_and_si256(zero_first, is_digit),
        _mm256_set1_epi64x(-i64::from(exact)),
    );

    // There must be at least one digit, at most one point, and at most as many bytes as a lane has.
    let long = _mm256_cmpgt_epi64(length, _mm256_set1_epi64x(8));
    let short = _mm256_cmpgt_epi64(_mm256_set1_epi64x(1), _mm256_sub_epi64(length, points));
    let many = _mm256_cmpgt_epi64(points, _mm256_set1_epi64x(1));
    let wrong = _mm256_or_si256(_mm256_or_si256(long, short), _mm256_or_si256(many, others));
    let wrong = _mm256_or_si256(wrong, has_leading_zero);
    if _mm256_testz_si256(wrong, wrong) == 0 {
        return None;
    }
    // Converts the number, which is below 2^52: it becomes the lowest bits of the float 2^52, from which 2^52
    // is then subtracted.
    let two_to_52 = _mm256_set1_epi64x(0x4330_0000_0000_0000);
    let magnitude = _mm256_sub_pd(
        _mm256_castsi256_pd(_mm256_or_si256(number, two_to_52)),
        _mm256_castsi256_pd(two_to_52),
    );
    // SAFETY: each of `places` is at most 8, the number of bytes in a lane, and `POWERS_OF_TEN` has
    // more powers.
    let power = unsafe { _mm256_i64gather_pd::<8>(POWERS_OF_TEN.as_ptr(), places) };
    let sign = _mm256_castsi256_pd(_mm256_slli_epi64::<63>(minus));
    let result = _mm256_or_pd(_mm256_div_pd(magnitude, power), sign);
    let mut floats = [0.0; LANES];
    // SAFETY: there is room for four floats.
    unsafe { _mm256_storeu_pd(floats.as_mut_ptr(), result) };
    Some(floats)
}

#[target_feature(enable = "avx2")]
#[inline]
fn vector([a, b, c, d]: [i64; LANES]) -> __m256i {
    _mm256_setr_epi64x(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::super::numbers::{exact_float, short_float};
    use super::*;
    use proptest::prelude::*;

    /// The floats in four texts, parsed together and one by one.
    fn parse_both_ways(
        texts: &[String; LANES],
        exact: bool,
    ) -> (Option<[f64; LANES]>, [Option<f64>; LANES]) {
        let mut all = "some text,".to_owned();
        let bounds = texts.each_ref().map(|text| {
            let start = all.len();
            all.push_str(text);
            all.push(',');
            (start, start + text.len())
        });
        all.push_str("end");
        // SAFETY: the caller has seen that there is AVX2.
        let wide = unsafe { floats(all.as_bytes(), &bounds, exact) };
        let one = if exact { exact_float } else { short_float };
        (wide, bounds.map(|(start, end)| one(all.as_bytes(), start, end)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// Does nothing on processors without AVX2.
        #[test]
        fn four_floats_equal_those_parsed_one_by_one(
            texts in proptest::array::uniform4(prop_oneof![
                4 => "-?([0-9]{1,8}|[0-9]{1,5}[.][0-9]{0,2}|[.][0-9]{1,7})",
                1 => "[-+.0-9e, x]{0,10}",
            ]),
            exact in any::<bool>(),
        ) {
            if is_x86_feature_detected!("avx2") {
                let (wide, single) = parse_both_ways(&texts, exact);
                let is_short = |text: &String| text.trim_start_matches('-').len() <= 8;
                let usual = single.iter().all(Option::is_some) && texts.iter().all(is_short);
                prop_assert_eq!(wide.is_some(), usual, "{:?}", texts);
                let bits = |float: f64| float.to_bits();
                let wide = wide.map(|floats| floats.map(bits).map(Some));
                prop_assert!(wide.is_none_or(|wide| wide == single.map(|one| one.map(bits))));
            }
        }
    }

    #[test]
    fn fields_near_the_ends_of_the_text_are_refused() {
        if is_x86_feature_detected!("avx2") {
            let bounds = [(0, 3), (4, 7), (8, 11), (12, 15)];
            // SAFETY: there is AVX2.
            assert_eq!(unsafe { floats(b"1.5,2.5,3.5,4.5,", &bounds, false) }, None);
            let bounds = [(8, 11), (12, 15), (16, 19), (20, 23)];
            // SAFETY: there is AVX2.
            assert_eq!(unsafe { floats(b"1.5,2.5,1.5,2.5,3.5,4.5", &bounds, false) }, None);
        }
    }
}
