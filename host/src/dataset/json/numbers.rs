//! Numbers exactly: arrow-json cuts off the fraction of a number in a column of whole numbers, of dates or
//! of times, and takes text for numbers.

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, PrimitiveBuilder};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, FieldRef, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::json::reader::{ArrayDecoder, DecoderContext, DecoderFactory, Tape, TapeElement};
use std::sync::Arc;

/// Whole numbers up to here are the same as floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Makes the decoders of numbers.
#[derive(Debug)]
pub(super) struct Exact;

impl DecoderFactory for Exact {
    fn make_default_decoder(
        &self,
        _: &DecoderContext,
        field: &FieldRef,
        _: bool,
    ) -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
        Ok(match field.data_type() {
            DataType::Int64 => {
                Some(Box::new(Numbers::<Int64Type> { parse: integer, name: "int64" }))
            }
            DataType::Float64 => {
                Some(Box::new(Numbers::<Float64Type> { parse: float, name: "float64" }))
            }
            DataType::Date32 => Some(Box::new(Moments::<Date32Type> {
                kind: DataType::Date32,
                parse: Date32Type::parse,
                count: days,
            })),
            kind @ DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Some(Box::new(Moments::<TimestampMicrosecondType> {
                    kind: kind.clone(),
                    parse: microseconds,
                    count: integer,
                }))
            }
            _ => None,
        })
    }
}

/// The number of days since 1970 that is written there.
pub(super) fn days(text: &str) -> Option<i32> {
    integer(text).and_then(|days| days.try_into().ok())
}

/// The text as a point in time, in microseconds since 1970, in UTC where it names no zone.
fn microseconds(text: &str) -> Option<i64> {
    let zone = "+00:00".parse::<Tz>().ok()?;
    string_to_datetime(&zone, text).ok().map(|time| time.timestamp_micros())
}

/// A column of dates or times: texts, or whole numbers that count from 1970 on.
struct Moments<T: ArrowPrimitiveType> {
    kind: DataType,
    parse: fn(&str) -> Option<T::Native>,
    count: fn(&str) -> Option<T::Native>,
}

impl<T: ArrowPrimitiveType> ArrayDecoder for Moments<T> {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let builder = PrimitiveBuilder::<T>::with_capacity(pos.len());
        let mut builder = builder.with_data_type(self.kind.clone());
        for &at in pos {
            let moment = match tape.get(at) {
                TapeElement::Null => {
                    builder.append_null();
                    continue;
                }
                TapeElement::String(index) => (self.parse)(tape.get_string(index)),
                TapeElement::Number(index) => (self.count)(tape.get_string(index)),
                _ => None,
            };
            match moment {
                Some(moment) => builder.append_value(moment),
                None => return Err(tape.error(at, &self.kind.to_string())),
            }
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// A column of numbers, each read by `parse`.
struct Numbers<T: ArrowPrimitiveType> {
    parse: fn(&str) -> Option<T::Native>,
    name: &'static str,
}

impl<T: ArrowPrimitiveType> ArrayDecoder for Numbers<T> {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(pos.len());
        for &at in pos {
            let number = match tape.get(at) {
                TapeElement::Null => None,
                TapeElement::Number(index) => Some((self.parse)(tape.get_string(index))),
                _ => Some(None),
            };
            match number {
                None => builder.append_null(),
                Some(Some(number)) => builder.append_value(number),
                Some(None) => return Err(tape.error(at, self.name)),
            }
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// The whole number that is written there, if it fits. `1.0` and `1e3` are whole, too.
pub(super) fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let canonical = digits == "0" || !digits.starts_with('0');
        return text.parse().ok().filter(|_| canonical);
    }
    let number = float(text).filter(|number| number.fract() == 0.0 && number.abs() <= EXACT)?;
    Some(number as i64)
}

/// The number that is written there, if it is one of JSON and no larger than floats can be.
pub(super) fn float(text: &str) -> Option<f64> {
    if !is_number(text.as_bytes()) {
        return None;
    }
    fast_float2::parse::<f64, _>(text).ok().filter(|number| number.is_finite())
}

/// Whether it is a number of JSON: `-? (0 | [1-9][0-9]*) (\. [0-9]+)? ([eE] [+-]? [0-9]+)?`.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest[0] == b'0' {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let places = digits(fraction);
        if places == 0 {
            return false;
        }
        rest = &fraction[places..];
    }
    if let [b'e' | b'E', power @ ..] = rest {
        let power = power.strip_prefix(b"-").or(power.strip_prefix(b"+")).unwrap_or(power);
        return !power.is_empty() && digits(power) == power.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_json() {
        for (text, whole, number) in [
            ("0", Some(0), Some(0.0)),
            ("-0", Some(0), Some(-0.0)),
            ("12", Some(12), Some(12.0)),
            ("-1.50", None, Some(-1.5)),
            ("1.0", Some(1), Some(1.0)),
            ("1e3", Some(1000), Some(1000.0)),
            ("2.5E-1", None, Some(0.25)),
            ("9223372036854775807", Some(i64::MAX), Some(9_223_372_036_854_775_807.0)),
            ("9223372036854775808", None, Some(9_223_372_036_854_775_808.0)),
            ("1e400", None, None),
            ("01", None, None),
            ("-", None, None),
            ("1.", None, None),
            (".5", None, None),
            ("+1", None, None),
            ("1e", None, None),
            ("1-2", None, None),
            ("", None, None),
        ] {
            assert_eq!(float(text), number, "{text}");
            assert_eq!(integer(text).filter(|_| !text.is_empty()), whole, "{text}");
        }
    }
}
