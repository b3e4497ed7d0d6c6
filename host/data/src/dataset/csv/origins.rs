//! Where gathered records come from. The origin of a record is the number of a file, and a line. The names of
//! the numbered files are in two other files: one has the names, the other has their offsets.

use crate::model::SpilledRows;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The maximum length of a file's name, in bytes. A longer one is invalid.
const MAX_NAME: u64 = 1 << 20;

/// Appends a number as LEB128: seven bits in each byte, the lowest first.
pub fn encode_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Decodes a number at the front of `bytes`, and advances `bytes`. `None` if `bytes` does not begin
/// with a complete number.
pub fn decode_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Writes the names of files, which are numbered from 0. A second file has the offsets of the names.
#[derive(Debug)]
pub struct OriginNames {
    text: BufWriter<File>,
    index: BufWriter<File>,
    /// The length of all names so far, in bytes.
    length: u64,
    count: u64,
}

impl OriginNames {
    /// Creates the two files.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut index = BufWriter::new(File::create(index_of(path))?);
        index.write_all(&0u64.to_le_bytes())?;
        Ok(Self { text: BufWriter::new(File::create(path)?), index, length: 0, count: 0 })
    }

    /// Adds a name, and returns its number.
    pub fn add(&mut self, name: &str) -> io::Result<u64> {
        self.text.write_all(name.as_bytes())?;
        self.length += name.len() as u64;
        self.index.write_all(&self.length.to_le_bytes())?;
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Writes all that is buffered.
    pub fn finish(mut self) -> io::Result<()> {
        self.text.flush()?;
        self.index.flush()
    }
}

/// The path of the file with the offsets of the names at `path`.
fn index_of(path: &Path) -> std::path::PathBuf {
    path.with_extension("index")
}

/// Looks up the origins of records, in ascending order. Opens its files at the first lookup.
#[derive(Debug)]
pub(in crate::dataset) struct Origins<'a> {
    root: &'a Path,
    rows: &'a SpilledRows,
    /// The name for a record whose origin cannot be found.
    label: &'a str,
    /// The origins of all records. `None` before the first lookup.
    bytes: Option<Vec<u8>>,
    /// Where the next origin begins in `bytes`.
    next_start: usize,
    /// The record of the next origin, counted from 0.
    next_record: u64,
}

impl<'a> Origins<'a> {
    pub(in crate::dataset) fn new(root: &'a Path, rows: &'a SpilledRows, label: &'a str) -> Self {
        Self { root, rows, label, bytes: None, next_start: 0, next_record: 0 }
    }

    /// The name of the file and the line of the record with this index (from 0). Each call must ask
    /// for a later record than the last call.
    pub(in crate::dataset) fn of_record(&mut self, record: u64) -> (String, Option<u64>) {
        match self.find(record) {
            Some((name, line)) => (name, Some(line)),
            // Report the record even if its origin cannot be read.
            None => (self.label.to_owned(), None),
        }
    }

    fn find(&mut self, record: u64) -> Option<(String, u64)> {
        if self.bytes.is_none() {
            let mut bytes = vec![0; usize::try_from(self.rows.origins_length).ok()?];
            let file = File::open(self.root.join(&self.rows.origins)).ok()?;
            file.read_exact_at(&mut bytes, self.rows.origins_offset).ok()?;
            self.bytes = Some(bytes);
        }
        let origins = self.bytes.as_deref()?;
        let mut bytes = origins.get(self.next_start..)?;
        let mut found = None;
        while self.next_record <= record {
            found = Some((decode_number(&mut bytes)?, decode_number(&mut bytes)?));
            self.next_record += 1;
        }
        self.next_start = origins.len() - bytes.len();
        let (file, line) = found?;
        Some((self.name(file)?, line))
    }

    fn name(&self, number: u64) -> Option<String> {
        let path = self.root.join(&self.rows.names);
        let mut bounds = [0; 16];
        let index = File::open(index_of(&path)).ok()?;
        index.read_exact_at(&mut bounds, number.checked_mul(8)?).ok()?;
        let (start, end) = bounds.split_first_chunk::<8>()?;
        let start = u64::from_le_bytes(*start);
        let length = u64::from_le_bytes(end.try_into().ok()?).checked_sub(start)?;
        let mut name = vec![0; usize::try_from(length.min(MAX_NAME)).ok()?];
        File::open(path).ok()?.read_exact_at(&mut name, start).ok()?;
        String::from_utf8(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_back(numbers in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut out = Vec::new();
            numbers.iter().for_each(|number| encode_number(*number, &mut out));
            let mut bytes = out.as_slice();
            let seen: Vec<_> = std::iter::from_fn(|| decode_number(&mut bytes)).collect();
            prop_assert_eq!(seen, numbers);
        }
    }

    #[test]
    fn records_are_traced_to_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = OriginNames::create(&folder.path().join("names")).unwrap();
        for (number, name) in ["a.csv", "", "b/c.csv"].into_iter().enumerate() {
            assert_eq!(names.add(name).unwrap(), number as u64);
        }
        names.finish().unwrap();
        let mut origins = vec![0xff; 3];
        for number in [2, 300, 0, 7, 2, 301] {
            encode_number(number, &mut origins);
        }
        std::fs::write(folder.path().join("origins"), &origins).unwrap();
        let rows = SpilledRows {
            origins: "origins".into(),
            origins_offset: 3,
            origins_length: origins.len() as u64 - 3,
            names: "names".into(),
            ..SpilledRows::sample()
        };
        let mut found = Origins::new(folder.path(), &rows, "somewhere");
        assert_eq!(found.of_record(0), ("b/c.csv".to_owned(), Some(300)));
        assert_eq!(found.of_record(2), ("b/c.csv".to_owned(), Some(301)));
        assert_eq!(found.of_record(3), ("somewhere".to_owned(), None));
        let mut found = Origins::new(folder.path(), &rows, "somewhere");
        assert_eq!(found.of_record(1), ("a.csv".to_owned(), Some(7)));
    }
}
