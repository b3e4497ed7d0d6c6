//! The results of a guest: rows of text, and Arrow IPC streams.

use sandmill_data::attempt::fuzz_judge;
use sandmill_data::output::RowWriter;
use sandmill_model::{OutputFormat, OutputKind, Quoting};

const KINDS: [OutputKind; 3] = [OutputKind::Text, OutputKind::Csv, OutputKind::Jsonl];
const QUOTINGS: [Quoting; 4] = [Quoting::Minimal, Quoting::All, Quoting::Nonnumeric, Quoting::None];
/// How many bytes an attempt may make: more would only take time.
const LIMIT: u64 = 1 << 16;

/// The first byte chooses the output format, the second the form of the results. The rest is a table, or rows
/// separated by zero bytes, or input for [`fuzz_judge`]. Accepted results must be whole lines of text, within
/// the limit.
pub fn results(data: &[u8]) {
    let [shape, way, results @ ..] = data else { return };
    let mut format = OutputFormat::of(KINDS[usize::from(shape % 3)]);
    format.quoting = QUOTINGS[usize::from((shape >> 2) & 3)];
    format.header = shape & 0x10 != 0;
    format.index = shape & 0x20 != 0;
    if shape & 0x40 != 0 {
        format.null = "n a".to_owned();
    }
    let keep = way & 1 == 0;
    let mut writer = RowWriter::new(LIMIT, keep, &format);
    if way & 4 != 0 {
        return fuzz_judge(&mut writer, results);
    }
    writer.clear();
    let failed = if way & 2 == 0 {
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
    assert!(lines.len() as u64 <= LIMIT, "{} bytes", lines.len());
    assert_eq!(lines.is_empty(), writer.rows() == 0 || !keep);
    assert!(lines.is_empty() || lines.ends_with('\n'));
    // Only fields of a table may have line breaks.
    if keep && (way & 2 != 0 || format.kind == OutputKind::Jsonl) {
        assert_eq!(lines.lines().count() as u64, writer.rows());
    }
    assert!(lines.lines().count() as u64 >= writer.rows() || !keep);
}
