//! Parquet and Arrow files, whose content cannot be trusted.

use super::scratch;
use arrow::ipc::reader::StreamReader;
use sandmill_data::dataset::columnar::{InputColumns, TypedTableFile, check, to_message};
use sandmill_data::dataset::{DatasetError, RowPart, RowReader};
use sandmill_model::{SliceSize, TableFormat, TableKind};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

const FILE_NAME: &str = "t";
/// The maximum number of slices that are read. A file may claim millions of rows, and reading them all would
/// only take time.
const MAX_SLICES: usize = 20;

thread_local! {
    /// The path of the file to read.
    static PATH: PathBuf = scratch::file(FILE_NAME);
}

/// The first byte chooses the format and the size of slices; the rest is the file. Either the file is refused
/// with a message, or each slice becomes a table with as many rows as the slice claims.
pub fn columns(data: &[u8]) {
    let Some((choice, file)) = data.split_first() else { return };
    let kind = if choice & 1 == 0 { TableKind::Parquet } else { TableKind::Arrow };
    let path = PATH.with(PathBuf::clone);
    fs::write(&path, file).expect("fuzzing needs room for temporary files");
    if let Err(error) = read(kind, SliceSize::Rows(u64::from(choice >> 1) + 1), &path) {
        assert!(!error.to_string().is_empty());
    }
}

fn read(kind: TableKind, size: SliceSize, path: &Path) -> Result<(), DatasetError> {
    let root = path.parent().expect("a file is in a folder");
    let mut file = TypedTableFile::open(kind, None, path)?;
    let mut columns = InputColumns::new(None);
    columns.learn(file.schema()?, FILE_NAME)?;
    let schema = columns.schema();
    check(file.schema()?, &schema, true, FILE_NAME)?;
    let format = TableFormat { kind, schema: to_message(&schema)?, ..TableFormat::default() };
    let mut reader = RowReader::new(&format)?;
    for slice in file.cut(&schema, size, FILE_NAME.to_owned())?.take(MAX_SLICES) {
        let part = RowPart { root, slice: &slice, item: FILE_NAME };
        let read = reader.read(std::iter::once(part));
        let loaded = read.map_err(|error| DatasetError(error.to_string()))?;
        assert_eq!(loaded.rows, slice.rows);
        let mut stream =
            StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None).expect("a stream");
        let batch = stream.next().expect("one batch").expect("a batch of the stream");
        assert_eq!(batch.num_rows() as u64, slice.rows);
    }
    Ok(())
}
