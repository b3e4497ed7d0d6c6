//! The results of a guest: rows of text, and Arrow IPC streams.

use sandmill_data::attempt::fuzz_judge;
use sandmill_data::output::RowWriter;
use sandmill_model::{OutputFormat, OutputKind, Quoting};

const KINDS: [OutputKind; 3] = [OutputKind::Text, OutputKind::Csv, OutputKind::Jsonl];
const QUOTINGS: [Quoting; 4] = [Quoting::Minimal, Quoting::All, Quoting::Nonnumeric, Quoting::None];
/// The maximum size of an attempt's results in bytes: more would only take time.
const MAX_RESULT_BYTES: u64 = 1 << 16;

/// The first byte chooses the output format, and the second byte chooses the form of the results. The rest is
/// a table, or rows separated by zero bytes, or input for [`fuzz_judge`]. Accepted results must be whole
/// lines of text, and not exceed the limit.
pub fn results(data: &[u8]) {
    let [format_bits, result_bits, results @ ..] = data else { return };
    let mut format = OutputFormat::default_for(KINDS[usize::from(format_bits % 3)]);
    format.quoting = QUOTINGS[usize::from((format_bits >> 2) & 3)];
    format.header = format_bits & 0x10 != 0;
    format.index = format_bits & 0x20 != 0;
    if format_bits & 0x40 != 0 {
        format.null = "n a".to_owned();
    }
    let keeps_rows = result_bits & 1 == 0;
    let mut writer = RowWriter::new(MAX_RESULT_BYTES, keeps_rows, &format);
    if result_bits & 4 != 0 {
        return fuzz_judge(&mut writer, results);
    }
    writer.clear();
    let failed = if result_bits & 2 == 0 {
        writer.table(results).is_err()
    } else {
        let text = String::from_utf8_lossy(results);
        text.split('\0').for_each(|row| writer.row(row));
        writer.problem().is_some()
    };
    let header = writer.take_header();
    assert!(header.as_ref().is_none_or(|header| header.text.len() < 2 << 20));
    if failed {
        return;
    }
    let lines = std::str::from_utf8(writer.lines()).expect("rows are text");
    assert!(lines.len() as u64 <= MAX_RESULT_BYTES, "{} bytes", lines.len());
    assert_eq!(lines.is_empty(), writer.rows() == 0 || !keeps_rows);
    assert!(lines.is_empty() || lines.ends_with('\n'));
    // A row that the guest returned as text is one line, and so is a row of JSON. Fields of other tables
    // may contain line breaks.
    if keeps_rows && (result_bits & 2 != 0 || format.kind == OutputKind::Jsonl) {
        assert_eq!(lines.lines().count() as u64, writer.rows());
    }
    assert!(lines.lines().count() as u64 >= writer.rows() || !keeps_rows);
}
