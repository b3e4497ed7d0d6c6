//! Converts columns to and from the message in which the planner sends them to the workers.

use crate::dataset::{DatasetError, err};
use arrow::datatypes::Schema;
use arrow::ipc::convert::try_schema_from_flatbuffer_bytes;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};

/// The maximum length of a message: each worker receives the columns, and the guest receives them with each
/// mini-batch.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The schema message of an Arrow IPC stream with these columns. Fails if it would be too long.
pub fn to_message(schema: &Schema) -> Result<Vec<u8>, DatasetError> {
    let mut dictionaries = DictionaryTracker::new(false);
    let options = IpcWriteOptions::default();
    let message = IpcDataGenerator::default()
        .schema_to_bytes_with_dictionary_tracker(schema, &mut dictionaries, &options)
        .ipc_message;
    if message.len() > MAX_MESSAGE_BYTES {
        return err!(
            "has {} columns, whose names and types take {} bytes, and an entry script can receive at most \
             {MAX_MESSAGE_BYTES}; list the columns that it needs with the key `columns`",
            schema.fields().len(),
            message.len(),
        );
    }
    Ok(message)
}

/// The columns in a message of [`to_message`]. Fails if the message is malformed.
pub fn from_message(message: &[u8]) -> Result<Schema, DatasetError> {
    match try_schema_from_flatbuffer_bytes(message) {
        Ok(schema) => Ok(schema),
        Err(error) => err!("the columns of the table cannot be read: {error}"),
    }
}
