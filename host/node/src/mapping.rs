//! The child process of `sandmill map`: it reads an Arrow IPC stream as it arrives, calls `run` with each
//! record batch, and writes the results as another stream.

use crate::dataset::{IncomingRows, StreamBatches};
use crate::model::Failure;
use crate::sandbox::{Instance, MiniBatchData, RunContext};
use sandmill_data::attempt::{AttemptTally, LoadedMiniBatch, Outgoing, RowSink};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;

/// The name of the input that `run` gets in its context.
const INPUT_NAME: &str = "stdin";

/// The settings for mapping.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct MapSettings {
    /// The maximum number of rows of a mini-batch. `None` if each record batch is a mini-batch.
    pub rows: Option<NonZeroU64>,
}

/// The rows of a mini-batch, by their position in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedRows {
    /// The number of the mini-batch, from 0.
    pub id: u64,
    /// Its first row in the input, from 0.
    pub first: u64,
    /// The number of rows.
    pub count: u64,
}

/// The progress of mapping.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MapNews {
    /// `init` succeeded.
    Ready,
    /// `run` is about to be called.
    Began(MappedRows),
    /// `run` returned. Holds the number of items that it reported as failed. For each of the first few, it
    /// holds the position in the mini-batch, from 1, and the reason.
    Returned(u64, Vec<(u64, String)>),
    /// All mini-batches are done; `shutdown` is about to be called.
    ShuttingDown,
    /// The output is complete.
    Ended,
    /// The input cannot be read. The message to the user is "standard input" and then this text.
    BadInput(String),
    /// `init`, `run` or `shutdown` failed.
    Failed(Failure),
}

/// Maps the stream in the child process. `data` is the socket for both streams. Fails if the parent is gone.
pub(super) fn map(
    instance: &mut Instance,
    limits: &crate::model::Limits,
    mapping: MapSettings,
    data: &File,
    say: &mut dyn FnMut(MapNews) -> io::Result<()>,
) -> io::Result<()> {
    if let (_, Err(failure)) = instance.init() {
        return say(MapNews::Failed(failure));
    }
    say(MapNews::Ready)?;
    let mut incoming = StreamBatches::new(data, mapping.rows);
    let mut outgoing = Outgoing::new(data);
    let mut rows = Outgoing::<File>::rows(limits);
    let mut id = 0;
    loop {
        let taken = match incoming.next_rows() {
            Ok(Some(taken)) => taken,
            Ok(None) => break,
            Err(error) => return say(MapNews::BadInput(error.to_string())),
        };
        say(MapNews::Began(MappedRows { id, first: taken.first, count: taken.count }))?;
        let mut sink = RowSink::new(&mut rows, false);
        let tally = call(instance, id, &taken, &mut sink)
            .and_then(|loaded| sink.into_tally(loaded))
            .and_then(|tally| outgoing.write_results(&rows, tally.header.as_ref()).map(|()| tally));
        match tally {
            Ok(tally) => say(returned(&tally))?,
            Err(failure) => return say(MapNews::Failed(failure)),
        }
        outgoing.flush()?;
        id += 1;
    }
    say(MapNews::ShuttingDown)?;
    if let (_, Err(failure)) = instance.shutdown() {
        return say(MapNews::Failed(failure));
    }
    outgoing.finish()?;
    say(MapNews::Ended)
}

fn call<'a>(
    instance: &mut Instance,
    id: u64,
    taken: &'a IncomingRows,
    sink: &mut RowSink<'_>,
) -> Result<LoadedMiniBatch<'a>, Failure> {
    let data = MiniBatchData::Table(taken.table.pieces());
    let context = RunContext { id, dataset: INPUT_NAME, attempt: 1, partition_key_value: &[] };
    let (_, result) = instance.run(data, &context, sink);
    result.map(|()| LoadedMiniBatch::new(data, INPUT_NAME, taken.count))
}

/// The news that `run` returned, with the failed items.
fn returned(tally: &AttemptTally) -> MapNews {
    let named = tally.failed_items.iter().map(|item| (item.row.unwrap_or(1), item.reason.clone()));
    let named: Vec<_> = named.collect();
    // If the script gave no reasons, items without a row have not failed: the script may filter.
    let count = if named.is_empty() { 0 } else { tally.items.failed };
    MapNews::Returned(count, named)
}
