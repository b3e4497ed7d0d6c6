//! Arrow IPC streams for `sandmill map`.

use arrow::ipc::reader::StreamReader;
use sandmill_data::dataset::StreamBatches;
use std::io::Cursor;
use std::num::NonZeroU64;

/// The first byte is the maximum number of rows of a mini-batch; the rest is the stream. Each part that
/// [`StreamBatches`] returns must be a table with the reported number of rows.
pub fn streams(data: &[u8]) {
    let [max_rows, stream @ ..] = data else { return };
    let max_rows = NonZeroU64::new(u64::from(*max_rows));
    let mut incoming = StreamBatches::new(stream, max_rows);
    let mut first = 0;
    while let Ok(Some(rows)) = incoming.next_rows() {
        assert!(rows.count > 0 && max_rows.is_none_or(|max_rows| rows.count <= max_rows.get()));
        assert_eq!(rows.first, first);
        first += rows.count;
        let batches = StreamReader::try_new(Cursor::new(rows.table.to_vec()), None);
        let batches = batches.and_then(Iterator::collect::<Result<Vec<_>, _>>).expect("a table");
        let count: usize = batches.iter().map(arrow::array::RecordBatch::num_rows).sum();
        assert_eq!(count as u64, rows.count);
        // Stop early: columns of some types can claim any number of rows without a byte of data.
        if first > 1 << 16 {
            return;
        }
    }
}
