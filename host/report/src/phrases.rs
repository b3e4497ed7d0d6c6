//! Formats numbers, times and names for people.

use super::times::{number, span_micros};
use crate::model::{
    Device, InferenceStats, JobStatus, NodeId, WorkerId, on_one_line, text_cell, to_f64, whole,
};
pub(super) use crate::model::{count, counted};
use jiff::Timestamp;
use std::fmt::Write;

/// A time span: `0.04 s`, `3.2 s`, `1 min 05 s`, `2 h 10 min`.
pub(super) fn seconds(seconds: f64) -> String {
    let whole = whole(seconds.max(0.0).round());
    match whole {
        _ if seconds < 0.0995 => format!("{:.2} s", seconds.max(0.0)),
        _ if seconds < 59.95 => format!("{seconds:.1} s"),
        0..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Appends the last columns of the tables of attempts, each after a comma: `,3,0.062500,7680,1200,gpu
/// 0,tract`. Device and backend are empty if no model ran. A fallback to the CPU is marked.
pub(super) fn push_inference_columns(line: &mut String, stats: &InferenceStats) {
    line.push(',');
    number(line, stats.calls);
    line.push(',');
    span_micros(line, stats.seconds);
    for bytes in [stats.bytes_in, stats.bytes_out] {
        line.push(',');
        number(line, bytes);
    }
    line.push(',');
    // Writing to a string cannot fail.
    let _ = match (stats.device, stats.fell_back) {
        (None, _) => Ok(()),
        (Some(device), false) => write!(line, "{device}"),
        (Some(Device::Cpu), true) => write!(line, "cpu (fell back)"),
        (Some(device), true) => write!(line, "{device} and cpu (fell back)"),
    };
    let _ = write!(line, ",{}", stats.backends);
}

/// What is added to a number of mini-batches: `, of which 2 failed and 1 has fewer rows than items`. Empty if
/// both numbers are 0.
pub(super) fn failed_and_short(failed: u64, short: u64) -> String {
    let mut parts = Vec::new();
    if failed > 0 {
        parts.push(format!("{} failed", count(failed)));
    }
    if short > 0 {
        let verb = if short == 1 { "has" } else { "have" };
        parts.push(format!("{} {verb} fewer rows than items", count(short)));
    }
    if parts.is_empty() { String::new() } else { format!(", of which {}", parts.join(" and ")) }
}

/// A rate without a unit: `0.4`, `12`, `1,234`.
pub(super) fn rate(per_second: f64) -> String {
    if per_second < 9.95 { format!("{per_second:.1}") } else { count(whole(per_second.round())) }
}

/// A number in at most five characters: `9,999`, `12.4k`, `124k`, `1.24M`.
pub(super) fn short_count(number: u64) -> String {
    if number < 10_000 { count(number) } else { with_unit(to_f64(number)) }
}

/// A rate without a unit, in at most five characters: `0.4`, `12`, `1,234`, `2.13M`.
pub(super) fn short_rate(per_second: f64) -> String {
    if per_second < 9999.5 { rate(per_second) } else { with_unit(per_second) }
}

/// A number of at least a thousand, as three digits with a letter for the unit.
fn with_unit(number: f64) -> String {
    let units = ["k", "M", "G", "T", "P", "E"];
    let mut number = number / 1000.0;
    let mut unit = 0;
    while number >= 999.5 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.digits$}{}", units[unit])
}

/// A time span as on a clock, without fractions of seconds: `0:04`, `12:05`, `2:10:05`.
pub(super) fn clock(seconds: f64) -> String {
    let whole = whole(seconds.max(0.0));
    match whole {
        0..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60),
    }
}

/// The worker with this name, such as `process007`; `None` for other names.
pub(super) fn worker_id(name: &str) -> Option<WorkerId> {
    name.strip_prefix("process")?.parse().ok().map(WorkerId)
}

/// The node of the worker with this name. Node 0 for other names.
pub(super) fn node_of(worker: &str) -> NodeId {
    worker_id(worker).map_or(NodeId::ONLY, WorkerId::node)
}

/// How a job ended, in words that follow the job's name: `failed`, `was cancelled`.
pub(super) fn status_phrase(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Completed => "completed",
        JobStatus::Failed => "failed",
        JobStatus::Cancelled => "was cancelled",
    }
}

/// A time in the names of files, to the second, in UTC: `20261121100000`.
pub(super) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y%m%d%H%M%S").to_string()
}

/// A time in the names of files, to the hour: `2026112110`.
pub(super) fn hour_stamp(at: Timestamp) -> String {
    at.strftime("%Y%m%d%H").to_string()
}

/// The path in a mini-batch's location. A number of files or rows may follow the path, as in
/// `/inputs/a/b.png and 9 more` and `/inputs/a/b.csv, 20 records from line 2`.
pub(super) fn path_of(location: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((path, rest)) = location.rsplit_once(" and ")
        && rest.strip_suffix(" more").is_some_and(is_number)
    {
        return path;
    }
    if let Some((path, rest)) = location.rsplit_once(", ")
        && let Some((records, line)) =
            rest.split_once(" records from line ").or_else(|| rest.split_once(" rows from row "))
        && is_number(records)
        && is_number(line)
    {
        return path;
    }
    location
}

/// Appends a field of a CSV line, quoted if necessary, and escaped so that no spreadsheet program takes it
/// for a formula.
pub(super) fn csv_field(line: &mut String, text: &str) {
    let text = &*text_cell(text);
    if !text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        line.push_str(text);
        return;
    }
    line.push('"');
    let mut from = 0;
    for at in memchr::memchr_iter(b'"', text.as_bytes()) {
        line.push_str(&text[from..=at]);
        line.push('"');
        from = at + 1;
    }
    line.push_str(&text[from..]);
    line.push('"');
}

/// Appends a value that prints without commas and quotes, such as a number.
pub(super) fn csv_number(line: &mut String, number: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(line, "{number}");
}

/// The first line of a text. It ends with ` ...` if the text has more lines, or if the line was too long and
/// was cut.
pub(super) fn first_line(text: &str) -> String {
    const MAX_CHARS: usize = 300;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let end = first.char_indices().nth(MAX_CHARS).map_or(first.len(), |(at, _)| at);
    let mut line = on_one_line(&first[..end]).into_owned();
    if lines.next().is_some() || end < first.len() {
        line.push_str(" ...");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let spans: Vec<_> =
            [0.0, 0.04, 0.1, 3.21, 59.94, 59.96, 65.0, 3599.0, 7800.0].map(seconds).into();
        assert_eq!(
            spans,
            [
                "0.00 s",
                "0.04 s",
                "0.1 s",
                "3.2 s",
                "59.9 s",
                "1 min 00 s",
                "1 min 05 s",
                "59 min 59 s",
                "2 h 10 min"
            ]
        );
        assert_eq!([0.25, 12.4, 1234.5].map(rate), ["0.2", "12", "1,235"]);
    }

    #[test]
    fn short_numbers_and_clocks() {
        let counts = [0, 9999, 10_000, 12_449, 99_960, 999_499, 999_500, 12_396_000, u64::MAX];
        let counts: Vec<_> = counts.map(short_count).into();
        assert_eq!(
            counts,
            ["0", "9,999", "10.0k", "12.4k", "100k", "999k", "1.00M", "12.4M", "18.4E"]
        );
        assert_eq!(
            [0.25, 9999.4, 9999.6, 2.134e6].map(short_rate),
            ["0.2", "9,999", "10.0k", "2.13M"]
        );
        assert_eq!([4.4, 725.0, 7805.0].map(clock), ["0:04", "12:05", "2:10:05"]);
    }

    #[test]
    fn times_and_places() {
        let at: Timestamp = "2026-11-21T10:02:03.4567Z".parse().unwrap();
        assert_eq!([stamp(at), hour_stamp(at)], ["20261121100203", "2026112110"]);
        for (location, path) in [
            ("/inputs/a b.png", "/inputs/a b.png"),
            ("/inputs/a.png and 9 more", "/inputs/a.png"),
            ("/inputs/salt and pepper", "/inputs/salt and pepper"),
            ("/inputs/a, b.csv, 20 records from line 2", "/inputs/a, b.csv"),
            ("no input", "no input"),
        ] {
            assert_eq!(path_of(location), path);
        }
    }

    #[test]
    fn names_and_fields() {
        assert_eq!(worker_id("process007"), Some(WorkerId(7)));
        assert_eq!(worker_id(&WorkerId(1234).to_string()), Some(WorkerId(1234)));
        assert_eq!(worker_id("../process007"), None);
        let nodes = ["process099999", "process100000", "process1234567", "x"].map(node_of);
        assert_eq!(nodes, [NodeId(0), NodeId(1), NodeId(12), NodeId(0)]);
        let mut line = String::new();
        for field in ["plain", "a,b", "say \"hi\"", "two\nlines"] {
            csv_field(&mut line, field);
            line.push(';');
        }
        assert_eq!(line, "plain;\"a,b\";\"say \"\"hi\"\"\";\"two\nlines\";");
        assert_eq!(first_line("\n one\ntwo"), "one ...");
        assert_eq!(first_line("one\n"), "one");
        assert_eq!(first_line(&"é".repeat(400)).chars().count(), 304);
        assert_eq!(first_line("\u{1b}[2Jgone"), "\\u{1b}[2Jgone");
    }
}
