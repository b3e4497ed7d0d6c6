//! What attempts have used, in words.

use super::phrases::{count, counted};
use crate::model::{ByteSize, ReceiptTotals, UsageSum};

/// Byte-milliseconds of one gigabyte in one hour.
const BYTE_MS_OF_GB_HOUR: u128 = 1_000_000_000 * 3_600_000;

/// The number of a job's receipts, and the end of their chain.
pub(super) fn receipts_text(totals: &ReceiptTotals) -> String {
    let all = counted(totals.receipts(), "attempt");
    let not_billable = match totals.not_billable.attempts {
        0 => String::new(),
        attempts => format!(", of which {} are not billable", count(attempts)),
    };
    format!("{all}{not_billable}; the last has the hash {}", totals.head)
}

/// What attempts have used, without what they have not used at all.
pub fn usage_text(sum: &UsageSum) -> String {
    let mut parts = vec![
        format!("CPU {} s", decimal_seconds(sum.cpu_us)),
        format!("wall {} s", decimal_seconds(sum.wall_us)),
        format!("memory {} GB hours", gigabyte_hours(sum.memory_byte_ms)),
    ];
    let mut part = |amount: u64, text: String| {
        if amount > 0 {
            parts.push(text);
        }
    };
    let bytes = |number: u64| ByteSize(number).rounded();
    part(sum.peak_memory, format!("peak {}", bytes(sum.peak_memory)));
    part(sum.gpu_us, format!("GPU {} s", decimal_seconds(sum.gpu_us)));
    let model = decimal_seconds(sum.model_us);
    part(sum.model_calls, format!("{}, {model} s", counted(sum.model_calls, "model call")));
    part(sum.bytes_read, format!("read {}", bytes(sum.bytes_read)));
    part(sum.bytes_written, format!("written {}", bytes(sum.bytes_written)));
    part(sum.bytes_fetched, format!("fetched {}", bytes(sum.bytes_fetched)));
    let fuel = sum.fuel.unwrap_or_default();
    part(fuel, format!("fuel {}", count(fuel)));
    parts.join(", ")
}

/// Microseconds as seconds, exactly: `1.000250`.
pub fn decimal_seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Byte-milliseconds as gigabyte-hours, rounded down to a millionth.
pub fn gigabyte_hours(byte_ms: u128) -> String {
    let millionths = byte_ms / (BYTE_MS_OF_GB_HOUR / 1_000_000);
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_without_rounding_errors() {
        assert_eq!(decimal_seconds(1_000_250), "1.000250");
        assert_eq!(decimal_seconds(7), "0.000007");
        assert_eq!(gigabyte_hours(3 * BYTE_MS_OF_GB_HOUR / 2), "1.500000");
        let sum = UsageSum { cpu_us: 1_500_000, wall_us: 2_000_000, ..UsageSum::default() };
        insta::assert_snapshot!(usage_text(&sum), @"CPU 1.500000 s, wall 2.000000 s, memory 0.000000 GB hours");
        let sum = UsageSum {
            attempts: 3,
            memory_byte_ms: BYTE_MS_OF_GB_HOUR,
            peak_memory: 5 << 20,
            fuel: Some(12_345),
            bytes_read: 10,
            bytes_written: 20,
            bytes_fetched: 30,
            model_calls: 1,
            model_us: 5,
            gpu_us: 9,
            ..sum
        };
        insta::assert_snapshot!(usage_text(&sum), @"CPU 1.500000 s, wall 2.000000 s, memory 1.000000 GB hours, peak 5 MB, GPU 0.000009 s, 1 model call, 0.000005 s, read 10 bytes, written 20 bytes, fetched 30 bytes, fuel 12,345");
        let totals = ReceiptTotals { billable: sum, head: "ab".into(), ..ReceiptTotals::default() };
        insta::assert_snapshot!(receipts_text(&totals), @"3 attempts; the last has the hash ab");
    }
}
