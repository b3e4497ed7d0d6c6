//! Converts the benchmark's CSV table to other formats.

use crate::table::schema;
use arrow::csv::ReaderBuilder;
use arrow::json::LineDelimitedWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// The number of rows in a row group, which then has about 1 MB of numbers.
const ROW_GROUP_ROWS: usize = 12 * 1024;

/// Converts the first `rows` rows of the CSV file `from`. The extension of `to` (`jsonl` or `parquet`) names
/// the format.
pub(crate) fn convert(from: &Path, to: &Path, rows: usize) -> Result<(), Box<dyn Error>> {
    let tables = ReaderBuilder::new(schema())
        .with_header(true)
        .with_batch_size(ROW_GROUP_ROWS)
        .with_bounds(0, rows)
        .build(File::open(from)?)?;
    let out = BufWriter::with_capacity(1 << 20, File::create(to)?);
    if to.to_string_lossy().contains(".jsonl") {
        let mut writer = LineDelimitedWriter::new(out);
        for table in tables {
            writer.write(&table?)?;
        }
        writer.finish()?;
        writer.into_inner().into_inner()?;
        return Ok(());
    }
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(out, schema(), Some(properties))?;
    for table in tables {
        writer.write(&table?)?;
    }
    writer.close()?;
    Ok(())
}
