//! For fuzzing: judges the results of a call exactly as a worker does.

use super::loaded::LoadedMiniBatch;
use super::report::{AttemptClock, Finished, MAX_REASON_BYTES, report};
use super::sink::RowSink;
use super::tally::AttemptTally;
use crate::model::{
    AttemptReport, CallStats, FailedItem, Failure, FailureKind, InferenceStats, ItemCounts,
    MiniBatch, MiniBatchId, MiniBatchWork, Segment,
};
use crate::output::{MiniBatchData, ResultSink, RowWriter};
use crate::protocol::{Assignment, FromWorker, encode, read_frame};

/// Judges the results of one call. `bytes` describes the call and its results. The first byte makes
/// four choices. Bit 0 says whether there must be as many rows as items. Bits 1 and 2 choose the
/// kind of the call's input, bits 3 and 4 the form of the results, and bits 5 to 7 the number of
/// items. The other bytes are the results: a table, or entries separated by zero bytes. Checks that
/// the worker's counts add up, and that the leader accepts the report.
pub fn judge(rows: &mut RowWriter, bytes: &[u8]) {
    let Some((choices, results)) = bytes.split_first() else { return };
    let strict = choices & 1 == 1;
    let paths: Vec<String> =
        (0..choices >> 5).map(|number| format!("/inputs/d/{number}")).collect();
    let rejected = FailedItem {
        item: "/t.csv".into(),
        line: Some(7),
        row: None,
        reason: "x".into(),
        kind: FailureKind::BadInput,
    };
    let (data, items, rejected) = match (choices >> 1) & 3 {
        0 => (MiniBatchData::Void, 0, vec![]),
        1 => (MiniBatchData::Table(&[]), paths.len() as u64, vec![rejected; 2]),
        _ => (MiniBatchData::Files(&paths), paths.len() as u64, vec![]),
    };
    let loaded = LoadedMiniBatch {
        data,
        dataset: "d",
        items,
        unknown_keys: None,
        rejected_count: rejected.len() as u64,
        rejected,
        table_file: "/t.csv".to_owned(),
        lines: None,
        file_rows: Vec::new(),
    };
    let total = items + loaded.rejected_count;
    let mut sink = RowSink::new(rows, strict);
    let (returned, has_outcomes) = deliver(&mut sink, choices >> 3, results);
    let tally = returned.and_then(|()| sink.into_tally(loaded));
    if let Ok(tally) = &tally {
        check_tally(tally, total);
        let must_match = strict && !has_outcomes && !matches!(data, MiniBatchData::Void);
        assert!(!must_match || rows.rows() == items, "{} rows for {items}", rows.rows());
        assert_eq!(tally.is_short, rows.rows() < items);
    }
    let work = MiniBatchWork::Files(paths.iter().collect());
    let mini_batch = MiniBatch::new(MiniBatchId(3), 0, work);
    let assignment = Assignment { mini_batch, attempt: 1, is_last: false, objects: Vec::new() };
    let length = rows.segment().len() as u64;
    let segment = Segment { offset: 0, length, checksum: 0, rows: rows.rows() };
    let result = tally.map(|tally| (tally, segment, false));
    let finished = Finished {
        run: CallStats::default(),
        inference: InferenceStats::default(),
        result,
        stamp: 0,
    };
    let meter = super::cpu::CpuMeter::open();
    let clock = AttemptClock::start(None, &meter);
    let report = report(&assignment, &clock, clock.stop(&meter), finished);
    let mut frame = Vec::new();
    encode(&FromWorker::Finished(Box::new(report)), &mut frame).expect("it fits into a frame");
    read_frame::<FromWorker>(&mut frame.as_slice(), &mut Vec::new())
        .expect("the leader accepts it");
}

/// Passes the results to the sink as the sandbox does. Also returns whether they are outcomes.
fn deliver(sink: &mut RowSink<'_>, form: u8, results: &[u8]) -> (Result<(), Failure>, bool) {
    if form & 3 == 0 {
        return (sink.table(results), false);
    }
    let text = String::from_utf8_lossy(results);
    let has_outcomes = form & 1 == 0;
    if has_outcomes {
        sink.outcomes(text.split('\0').count());
    }
    for (index, entry) in text.split('\0').enumerate() {
        match entry.strip_prefix('!').filter(|_| has_outcomes) {
            Some(reason) => sink.failed(index, reason),
            None => sink.row(entry),
        }
    }
    (Ok(()), has_outcomes)
}

fn check_tally(tally: &AttemptTally, total: u64) {
    let ItemCounts { total: counted, succeeded, failed } = tally.items;
    assert_eq!((counted, succeeded + failed), (total, total));
    assert!(tally.failed_items.len() <= AttemptReport::MAX_FAILED_ITEMS);
    for item in &tally.failed_items {
        assert!(item.item.starts_with('/'), "{item:?}");
        assert!(item.reason.len() <= MAX_REASON_BYTES + '…'.len_utf8());
    }
}
