//! Converts schemas to and from the bytes in which the planner sends them to the workers.

use super::{DatasetError, err};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

/// The schema as an Arrow IPC stream without batches.
pub fn schema_bytes(schema: &Schema) -> Result<Vec<u8>, DatasetError> {
    let mut bytes = Vec::new();
    let written = StreamWriter::try_new(&mut bytes, schema).and_then(|mut writer| writer.finish());
    match written {
        Ok(()) => Ok(bytes),
        Err(error) => err!("the columns cannot be written as an Arrow schema: {error}"),
    }
}

/// The schema that [`schema_bytes`] wrote.
pub fn schema_of(bytes: &[u8]) -> Result<SchemaRef, DatasetError> {
    match StreamReader::try_new(bytes, None) {
        Ok(reader) => Ok(reader.schema()),
        Err(error) => err!("the columns cannot be read from an Arrow schema: {error}"),
    }
}
