//! Sample values of structs. A test sets only the fields that matter to it:
//! `Segment { length: 9, ..Segment::sample() }`.

use super::{
    AttemptReport, Backend, DeviceChoice, FailedItem, FailureKind, InferenceStats, ItemCounts,
    JobInput, JobModel, JobResult, JobStatus, MiniBatchId, Segment, SpilledRows, TextSlice,
    WallState,
};

impl JobInput {
    /// An input without paths.
    pub fn sample() -> Self {
        Self { name: "data".to_owned(), paths: Vec::new(), partition_format: None, take: None }
    }
}

impl JobModel {
    /// A model that the guest sees at `/models/m`, with any backend and device.
    pub fn sample() -> Self {
        Self {
            name: "m".to_owned(),
            host: "/m".into(),
            file: "model.onnx".to_owned(),
            guest: "/models/m".to_owned(),
            backend: Backend::Auto,
            device: DeviceChoice::Auto,
            fallback: false,
            stamp: None,
            beside: None,
        }
    }
}

impl Segment {
    /// One line of one byte, at the beginning of the part file. Its checksum is wrong.
    pub fn sample() -> Self {
        Self { offset: 0, length: 1, checksum: 0, rows: 1 }
    }
}

impl FailedItem {
    /// A file that `run` reported as failed, without a reason.
    pub fn sample() -> Self {
        Self {
            item: "/inputs/a".to_owned(),
            line: None,
            row: None,
            reason: String::new(),
            kind: FailureKind::ScriptError,
        }
    }
}

impl AttemptReport {
    /// A successful first attempt at mini-batch 0, with one item and one row. It took no time.
    pub fn sample() -> Self {
        let items = ItemCounts::from_returned(1, 1);
        Self::new(MiniBatchId(0), 1, 0, items, Ok(Segment::sample()))
    }
}

impl JobResult {
    /// A completed job of one mini-batch, with one row and without counted items.
    pub fn sample() -> Self {
        Self {
            status: JobStatus::Completed,
            reason: String::new(),
            first_failure: None,
            ended_by: None,
            mini_batches: 1,
            succeeded_mini_batches: 1,
            failed_mini_batches: 0,
            short_mini_batches: 0,
            restored_mini_batches: 0,
            late_attempts: 0,
            items: ItemCounts::default(),
            rows: 1,
            seconds: 1.0,
            processor_seconds: 0.5,
            bytes_read: None,
            peak_memory: None,
            inference: InferenceStats::default(),
            os_sandbox: WallState::default(),
            runtime: None,
            mixed_backends: Vec::new(),
            receipts: None,
        }
    }
}

impl TextSlice {
    /// The first record of `a.csv`, of one byte.
    pub fn sample() -> Self {
        Self {
            file: "a.csv".to_owned(),
            offset: 0,
            length: 1,
            first_line: 1,
            rows: 1,
            unpacked: None,
        }
    }
}

impl SpilledRows {
    /// The rows of one text, without known origins.
    pub fn sample() -> Self {
        Self {
            text: TextSlice::sample(),
            origins: "origins".to_owned(),
            origins_offset: 0,
            origins_length: 0,
            names: "names".to_owned(),
        }
    }
}
