use super::super::tally::{LANES, ROUNDS};
use super::*;
use proptest::prelude::*;

/// The end of each record, and whether the record has a stray quote. Finds them byte by byte, with lookahead.
fn by_hand(text: &[u8], newlines: bool, max_field_bytes: usize) -> Vec<(usize, bool)> {
    let ends = |at: usize| text.get(at).is_some_and(|byte| is_terminator(*byte));
    let mut records = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if ends(at) {
            at += 1;
            continue;
        }
        let stray = loop {
            if text.get(at) == Some(&QUOTE) {
                match field_end(text, at, newlines, max_field_bytes) {
                    Some(end) => at = end,
                    None => break true,
                }
            }
            while at < text.len() && text[at] != b',' && !ends(at) {
                at += 1;
            }
            if text.get(at) != Some(&b',') {
                break false;
            }
            at += 1;
        };
        while at < text.len() && !ends(at) {
            at += 1;
        }
        at = (at + 1).min(text.len());
        records.push((at, stray));
    }
    records
}

/// Where a quoted field ends. `None` if its quote is stray.
fn field_end(text: &[u8], quote: usize, newlines: bool, max_field_bytes: usize) -> Option<usize> {
    let mut at = quote + 1;
    loop {
        match text.get(at)? {
            b'"' if text.get(at + 1) == Some(&b'"') => at += 2,
            b'"' => break,
            byte if is_terminator(*byte) && !newlines => return None,
            _ => at += 1,
        }
    }
    let blanks = text[at + 1..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let end = at + 1 + blanks;
    let is_end = text.get(end).is_none_or(|byte| *byte == b',' || is_terminator(*byte));
    (is_end && at - quote <= max_field_bytes).then_some(end)
}

/// The numbers of records, of lines and of records with stray quotes. The scan passes pieces of this size.
fn by_pieces(mut scan: CsvScan, text: &[u8], size: usize) -> (u64, u64, u64) {
    let mut at = 0;
    loop {
        let piece = &text[at..(at + size).min(text.len())];
        let back = if piece.is_empty() { scan.end_last_record() } else { scan.advance(piece) };
        match back {
            Some(back) => at = back as usize,
            None if piece.is_empty() => break,
            None => at += piece.len(),
        }
        assert_eq!(scan.offset, at as u64);
    }
    (scan.records, scan.lines, scan.stray_count)
}

/// Like [`by_hand`], but with a scan that stops at each record. The scan passes pieces of this size.
fn by_records(mut scan: CsvScan, text: &[u8], size: usize) -> Vec<(usize, bool)> {
    let mut at = 0;
    let mut ends = Vec::new();
    let mut stray = 0;
    loop {
        let piece = &text[at..(at + size).min(text.len())];
        let passed = match piece.is_empty() {
            true => scan.end_last_record().map_or(ScanStop::All, ScanStop::Back),
            false => scan.advance_to_record_end(piece),
        };
        match passed {
            ScanStop::All => at += piece.len(),
            ScanStop::Record(end) => at += end,
            ScanStop::Back(offset) => at = offset as usize,
        }
        let done = piece.is_empty() && passed == ScanStop::All;
        if scan.records as usize > ends.len() {
            ends.push((at, scan.stray_count > stray));
            stray = scan.stray_count;
        }
        if done {
            return ends;
        }
    }
}

/// Compares all ways to scan a text. Returns the numbers of records, lines and stray records.
fn check(text: &[u8], newlines: bool, max_field_bytes: u64) -> (u64, u64, u64) {
    let shown = String::from_utf8_lossy(text);
    let scan = || CsvScan { max_field_bytes, ..CsvScan::new(b',', newlines) };
    let expected = by_hand(text, newlines, max_field_bytes as usize);
    let counts = by_pieces(scan(), text, text.len().max(1));
    assert_eq!(counts.0, expected.len() as u64, "{shown:?}");
    assert_eq!(counts.2, expected.iter().filter(|record| record.1).count() as u64, "{shown:?}");
    let spans = |size| {
        let mut scan = scan();
        scan.spans = Some(Vec::new());
        by_pieces(scan, text, size)
    };
    for size in [1, 7, 64, 100, text.len().max(1)] {
        assert_eq!(by_pieces(scan(), text, size), counts, "{shown:?}");
        assert_eq!(spans(size), counts, "{shown:?}");
        assert_eq!(by_records(scan(), text, size), expected, "{shown:?}");
    }
    if !newlines {
        let lines = by_pieces(CsvScan::of_lines(), text, 50);
        assert_eq!((lines.0, lines.1), (counts.0, counts.1), "each line is a record: {shown:?}");
    }
    let csv = CsvFormat { quoted_newlines: newlines, ..CsvFormat::default() };
    let strays = CsvScan::strays(text, &csv);
    if max_field_bytes == MAX_FIELD_BYTES {
        let ends: Vec<_> = strays.iter().map(|stray| (stray.end as usize, true)).collect();
        let expected: Vec<_> = expected.into_iter().filter(|record| record.1).collect();
        assert_eq!(ends, expected, "{shown:?}");
    }
    counts
}

fn counts(text: &str) -> (u64, u64, u64) {
    check(text.as_bytes(), true, MAX_FIELD_BYTES)
}

#[test]
fn records_and_lines_are_counted() {
    assert_eq!(counts(""), (0, 0, 0));
    assert_eq!(counts("a,b"), (1, 0, 0));
    assert_eq!(counts("a,b\nc,d\n"), (2, 2, 0));
    assert_eq!(counts("a\r\nb\rc\n\n\r\nd"), (4, 5, 0));
    assert_eq!(counts("\n\n\na\n"), (1, 4, 0));
    assert_eq!(counts("\"a\nb\",1\n\"\"\"\r\n\"\n"), (2, 4, 0));
    assert_eq!(counts("a\"b\nc\"\n"), (2, 2, 0));
    assert_eq!(counts("\"\"\n"), (1, 1, 0));
    assert_eq!(counts("\"a\" ,\"b\"\t\nc"), (2, 1, 0));
}

#[test]
fn records_with_stray_quotes_end_with_their_line() {
    assert_eq!(counts("\"a\"b\"\nc\n"), (2, 2, 1));
    assert_eq!(counts("1,\"open\nfor ever\n"), (2, 2, 1));
    assert_eq!(counts("1,\"open\n2,\"b\"\n3,c\n"), (3, 3, 1));
    assert_eq!(counts("1,\"open\r\n2,b\r\n3,\"c"), (3, 2, 2));
    assert_eq!(counts("\"two\nlines\",\"open\nx,y\n"), (2, 3, 1));
    assert_eq!(counts("\"He said \"hi\" to\nme\",1\n2,3\n"), (3, 3, 1));
    assert_eq!(counts("1,\"a\" b\n"), (1, 1, 1));
    assert_eq!(counts("1,\"two\n2,stray\",x\n3,c\n"), (2, 3, 0));
    let lines = |text: &str| check(text.as_bytes(), false, MAX_FIELD_BYTES);
    assert_eq!(lines("1,\"two\n2,stray\"\n3,\"c\"\n"), (3, 3, 1));
    assert_eq!(lines("1,\"two\r\n\r\n2,stray\"\r3,\"\"\"c\""), (3, 3, 1));
}

#[test]
fn a_quote_of_a_field_that_is_too_long_is_stray() {
    let text = |length: usize| format!("1,\"{}\"\n2,b\n", "x\n".repeat(length / 2));
    assert_eq!(check(text(98).as_bytes(), true, 99), (2, 51, 0));
    assert_eq!(check(text(100).as_bytes(), true, 99), (52, 52, 2));
}

#[test]
fn stray_quotes_are_listed() {
    let stray = |quote, end, text_follows| StrayQuote { quote, end, text_follows };
    let csv = CsvFormat::default();
    let strays = |text: &str| CsvScan::strays(text.as_bytes(), &csv);
    assert_eq!(strays("a\"b,\"c\"\n\"d\ne\"\n"), []);
    assert_eq!(
        strays("1,\"b\"c\r\n2,\"\n3,\"d\"e"),
        [stray(2, 7, true), stray(10, 12, false), stray(14, 18, true)]
    );
}

#[test]
fn fields_with_line_ends_are_collected() {
    let spans = |text: &str, size: usize| {
        let mut scan = CsvScan { spans: Some(Vec::new()), ..CsvScan::new(b',', true) };
        text.as_bytes().chunks(size).for_each(|piece| assert_eq!(scan.advance(piece), None));
        assert_eq!(scan.end_last_record(), None);
        scan.spans.unwrap()
    };
    let long = "x".repeat(100);
    let text = format!("1,\"a\nb\"\n2,\"c\"\n3,\"{long}\n{long}\r\n\"\n\"\"\"\n\"");
    let span = |opens, closes, lines| Span { opens, closes, lines };
    let third = text.find("3,").unwrap() as u64 + 2;
    let last = text.len() as u64 - 1;
    let expected =
        [span(2, 6, (1, 2)), span(third, third + 204, (4, 6)), span(last - 4, last, (7, 8))];
    for size in [1, 3, 64, 1000] {
        assert_eq!(spans(&text, size), expected);
    }
}

#[test]
fn long_runs_do_not_overflow_the_counters() {
    let text = "x\n".repeat(LANES * ROUNDS * 3 + 7);
    let rows = text.len() as u64 / 2;
    assert_eq!(by_pieces(CsvScan::new(b',', true), text.as_bytes(), text.len()), (rows, rows, 0));
    let text = "xy\r\n".repeat(LANES * ROUNDS + 5);
    let rows = text.len() as u64 / 4;
    assert_eq!(by_pieces(CsvScan::new(b',', true), text.as_bytes(), text.len()), (rows, rows, 0));
}

/// A scan that went back from the end of the text for each quote would practically never finish.
#[test]
fn texts_full_of_stray_quotes_are_scanned_in_little_time() {
    for line in ["a\",\"b\n", "1,\"x\n", "\"\"\"x\n", "\"\" \"\n", "1,\"\"\",\"\n", ",\"a\"\"\n"] {
        let text = line.repeat(4 << 20 >> line.len().ilog2());
        let counts = by_pieces(CsvScan::new(b',', true), text.as_bytes(), 1 << 20);
        assert_eq!(counts.1, text.len() as u64 / line.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The scan passes proper CSV in blocks, and unusual text from quote to quote. The results must agree.
    #[test]
    fn all_ways_to_scan_agree(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "abc", "1.5,", ",", "\n", "\r\n", "\"a, b\"", "\"a\n\"\"\"\r\n", ",\"\"\n", "\"",
                "some longer text without anything ", "\r", "\" ", ",\"", "\"\"",
            ]),
            0..120,
        ),
        odd in 0..3u32,
        newlines in any::<bool>(),
        max_field_bytes in prop_oneof![3 => Just(MAX_FIELD_BYTES), 1 => 64..200u64],
    ) {
        let is_odd = |piece: &&str| matches!(*piece, "\"" | "\" " | ",\"" | "\"\"");
        let mut left = [0, 3, 1000][odd as usize];
        let mut keep = |piece: &&str| !is_odd(piece) || { left -= 1; left >= 0 };
        let text: String = pieces.into_iter().filter(|piece| keep(piece)).collect();
        check(text.as_bytes(), newlines, max_field_bytes);
    }
}
