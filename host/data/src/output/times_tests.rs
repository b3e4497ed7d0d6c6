//! Tests of times as text. The expected texts come from DuckDB, pyarrow and Python, as far as these support
//! the values.

use super::*;
use arrow::array::*;
use proptest::prelude::*;

fn texts(array: &dyn Array) -> Vec<String> {
    let times = TimeColumn::from_array(array).unwrap().unwrap();
    let text = |row| {
        let mut out = Vec::new();
        match times.write(row, &mut out) {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(error) => error.to_string(),
        }
    };
    (0..array.len()).map(text).collect()
}

#[test]
fn times_have_a_text_over_the_whole_range() {
    let edges = vec![0, -1, 253_402_300_799, 253_402_300_800, -62_167_219_200, -62_167_219_201];
    insta::assert_debug_snapshot!(texts(&TimestampSecondArray::from(edges)), @r#"
    [
        "1970-01-01T00:00:00",
        "1969-12-31T23:59:59",
        "9999-12-31T23:59:59",
        "+10000-01-01T00:00:00",
        "0000-01-01T00:00:00",
        "-0001-12-31T23:59:59",
    ]
    "#);
    let extremes = vec![i64::MIN, i64::MAX];
    let all = [
        texts(&TimestampSecondArray::from(extremes.clone())),
        texts(&TimestampMillisecondArray::from(extremes.clone())),
        texts(&TimestampMicrosecondArray::from(extremes.clone())),
        texts(&TimestampNanosecondArray::from(extremes.clone())),
        texts(&Date64Array::from(extremes)),
        texts(&Date32Array::from(vec![i32::MIN, i32::MAX])),
    ];
    insta::assert_snapshot!(all.concat().join("\n"), @"
    -292277022657-01-27T08:29:52
    +292277026596-12-04T15:30:07
    -292275055-05-16T16:47:04.192
    +292278994-08-17T07:12:55.807
    -290308-12-21T19:59:05.224192
    +294247-01-10T04:00:54.775807
    1677-09-21T00:12:43.145224192
    2262-04-11T23:47:16.854775807
    -292275055-05-16T16:47:04.192
    +292278994-08-17T07:12:55.807
    -5877641-06-23
    +5881580-07-11
    ");
}

#[test]
fn a_millisecond_date_shows_its_time_of_day() {
    let dates = Date64Array::from(vec![0, 86_400_000, 86_400_001, -1, -86_400_000]);
    let expected = [
        "1970-01-01",
        "1970-01-02",
        "1970-01-02T00:00:00.001",
        "1969-12-31T23:59:59.999",
        "1969-12-31",
    ];
    assert_eq!(texts(&dates), expected);
}

#[test]
fn zones_are_offsets_or_utc() {
    let describe = |zone: &str| {
        let times = TimestampMicrosecondArray::from(vec![1_500_000, i64::MAX]).with_timezone(zone);
        texts(&times)
    };
    assert_eq!(describe("UTC"), ["1970-01-01T00:00:01.500Z", "+294247-01-10T04:00:54.775807Z"]);
    assert_eq!(describe("Europe/Berlin"), describe("UTC"), "the same moment");
    assert_eq!(describe("+00:00"), describe("UTC"));
    assert_eq!(
        describe("+02:00"),
        ["1970-01-01T02:00:01.500+02:00", "+294247-01-10T06:00:54.775807+02:00"]
    );
    assert_eq!(describe("-0930")[0], "1969-12-31T14:30:01.500-09:30");
    assert_eq!(describe("+05")[0], "1970-01-01T05:00:01.500+05:00");
    assert_eq!(describe("")[0], "1970-01-01T00:00:01.500");
    let far = TimestampSecondArray::from(vec![i64::MAX, i64::MIN]).with_timezone("+14:00");
    assert_eq!(
        texts(&far),
        ["+292277026596-12-05T05:30:07+14:00", "-292277022657-01-27T22:29:52+14:00"]
    );
    for wrong in ["+24:00", "+1", "-aa:00", "+01:60", "+é1:0"] {
        let times = TimestampSecondArray::from(vec![0]).with_timezone(wrong);
        assert!(TimeColumn::from_array(&times).is_err(), "{wrong}");
    }
}

#[test]
fn times_of_day_beyond_24_hours_are_refused() {
    let seconds = Time32SecondArray::from(vec![0, 86_399, 86_400, -1]);
    insta::assert_snapshot!(texts(&seconds).join("\n"), @"
    00:00:00
    23:59:59
    Invalid argument error: 86400 s is not a time of day
    Invalid argument error: -1 s is not a time of day
    ");
    assert_eq!(
        texts(&Time32MillisecondArray::from(vec![86_399_999, 1])),
        ["23:59:59.999", "00:00:00.001"]
    );
    assert_eq!(texts(&Time64MicrosecondArray::from(vec![1])), ["00:00:00.000001"]);
    let nanos = Time64NanosecondArray::from(vec![86_399_999_999_999, 1_000_000_000]);
    assert_eq!(texts(&nanos), ["23:59:59.999999999", "00:00:01"].map(str::to_owned));
    assert!(texts(&Time64NanosecondArray::from(vec![i64::MIN]))[0].contains("not a time of day"));
}

#[test]
fn durations_and_intervals_have_a_text_over_the_whole_range() {
    let values = || vec![0, 1500, -1, i64::MIN, i64::MAX];
    let all = [
        texts(&DurationSecondArray::from(values())),
        texts(&DurationMillisecondArray::from(values())),
        texts(&DurationNanosecondArray::from(values())),
        texts(&IntervalYearMonthArray::from(vec![0, 14, -1, i32::MIN])),
        texts(&IntervalDayTimeArray::from(vec![
            IntervalDayTime::new(0, 0),
            IntervalDayTime::new(-1, 1500),
            IntervalDayTime::new(i32::MIN, i32::MIN),
        ])),
        texts(&IntervalMonthDayNanoArray::from(vec![
            IntervalMonthDayNano::new(1, -2, 3),
            IntervalMonthDayNano::new(0, 0, i64::MIN),
        ])),
    ];
    insta::assert_snapshot!(all.concat().join("\n"), @"
    P0D
    PT1500S
    -PT1S
    -PT9223372036854775808S
    PT9223372036854775807S
    P0D
    PT1.5S
    -PT0.001S
    -PT9223372036854775.808S
    PT9223372036854775.807S
    P0D
    PT0.0000015S
    -PT0.000000001S
    -PT9223372036.854775808S
    PT9223372036.854775807S
    P0D
    P14M
    P-1M
    P-2147483648M
    P0D
    P-1DT1.5S
    P-2147483648DT-2147483.648S
    P1M-2DT0.000000003S
    PT-9223372036.854775808S
    ");
}

proptest! {
    /// Our text agrees with Arrow's own text up to the end of Arrow's calendar.
    #[test]
    fn times_look_as_arrow_prints_them(value in any::<i64>(), shift in 0..40_u32) {
        let value = value >> shift;
        let arrays: [ArrayRef; 4] = [
            std::sync::Arc::new(TimestampSecondArray::from(vec![value])),
            std::sync::Arc::new(TimestampMillisecondArray::from(vec![value])),
            std::sync::Arc::new(TimestampMicrosecondArray::from(vec![value]).with_timezone("-03:30")),
            std::sync::Arc::new(TimestampNanosecondArray::from(vec![value])),
        ];
        for array in arrays {
            let options = arrow::util::display::FormatOptions::new().with_display_error(false);
            let formatter =
                arrow::util::display::ArrayFormatter::try_new(&array, &options).unwrap();
            if let Ok(text) = formatter.value(0).try_to_string() {
                prop_assert_eq!(&texts(&array)[0], &text);
            }
        }
    }
}
