//! Single records of a piece of CSV text, parsed by csv-core.

use csv_core::ReadRecordResult;

/// Walks over the records of a text that starts and ends at record boundaries.
#[derive(Debug)]
pub(super) struct Records<'a> {
    parser: csv_core::Reader,
    text: &'a [u8],
    at: usize,
    fields: Vec<u8>,
    ends: Vec<usize>,
}

/// One record.
#[derive(Debug)]
pub(super) struct Record<'a> {
    /// Its first byte in the text; line ends before it may be included.
    pub(super) start: usize,
    /// The byte behind it in the text; behind the first byte of its line end.
    pub(super) end: usize,
    fields: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Records<'a> {
    /// The records of `text`.
    pub(super) fn new(text: &'a [u8], delimiter: u8) -> Self {
        let mut parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        // A parser that has read nothing would drop a BOM, and the text may start within a file.
        parser.read_record(b"\n", &mut [0], &mut [0]);
        Self { parser, text, at: 0, fields: vec![0; 4096], ends: vec![0; 64] }
    }

    /// The next record.
    pub(super) fn next_record(&mut self) -> Option<Record<'_>> {
        let start = self.at;
        let (mut bytes, mut count) = (0, 0);
        loop {
            let (result, read, written, ended) = self.parser.read_record(
                &self.text[self.at..],
                &mut self.fields[bytes..],
                &mut self.ends[count..],
            );
            self.at += read;
            bytes += written;
            count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::End => return None,
                ReadRecordResult::Record => {
                    let (fields, ends) = (&self.fields[..bytes], &self.ends[..count]);
                    return Some(Record { start, end: self.at, fields, ends });
                }
            }
        }
    }
}

impl<'a> Record<'a> {
    /// How many fields it has. At least one.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field, unquoted; none if the record is shorter.
    pub(super) fn field(&self, index: usize) -> Option<&'a [u8]> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.fields.get(start..*self.ends.get(index)?)
    }

    /// The fields, unquoted.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let (fields, ends) = (self.fields, self.ends);
        (0..ends.len()).map(move |index| {
            let start = if index == 0 { 0 } else { ends[index - 1] };
            &fields[start..ends[index]]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_with_their_place() {
        let text = b"\n1,\"a\nb\"\r\n\xEF\xBB\xBFx\n\ny,z,\"\"\"\"";
        let mut records = Records::new(text, b',');
        let mut seen = Vec::new();
        while let Some(record) = records.next_record() {
            let fields: Vec<_> = record.fields().map(String::from_utf8_lossy).collect();
            seen.push((record.start, record.end, fields.join("|")));
        }
        assert_eq!(
            seen,
            [
                (0, 9, "1|a\nb".to_owned()),
                (9, 15, "\u{feff}x".to_owned()),
                (15, text.len(), "y|z|\"".to_owned())
            ]
        );
    }

    #[test]
    fn wide_and_long_records_fit() {
        let text = format!("{}\n{}", "ab,".repeat(500), "x".repeat(100_000));
        let mut records = Records::new(text.as_bytes(), b',');
        assert_eq!(records.next_record().unwrap().len(), 501);
        assert_eq!(records.next_record().unwrap().fields().next().unwrap().len(), 100_000);
        assert!(records.next_record().is_none());
    }
}
