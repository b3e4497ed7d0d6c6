//! Sample values of the structs that tests build. Tests use them for the fields that do not matter.

use super::commit::{CommitTarget, FinalFailure, Success, WorkerFolders};
use super::journal::JobIdentity;
use super::model::{
    Failure, FailureKind, ItemCounts, JobDir, MiniBatchId, OnConflict, ReceiptRun, Segment,
    WorkerId,
};

impl JobIdentity {
    /// A job without settings.
    pub(crate) fn sample() -> Self {
        Self {
            name: "iris".into(),
            id: "1".into(),
            entry_script_digest: String::new(),
            settings: Vec::new(),
            created: jiff::Timestamp::UNIX_EPOCH,
        }
    }
}

impl CommitTarget {
    /// A target for files only, in the output folder of the job directory.
    pub(crate) fn sample(job_dir: &JobDir) -> Self {
        Self {
            worker_folders: WorkerFolders::in_job_dir(job_dir.clone()),
            saved: None,
            output: job_dir.default_output(),
            output_file: None,
            ordered: false,
            on_conflict: OnConflict::Error,
            header_wanted: false,
            is_plain: true,
            part_suffix: None,
            conversion: None,
            receipt_run: ReceiptRun {
                run: "1".into(),
                tenant: "local".into(),
                component: "abc".into(),
                engine: "sandmill 1".into(),
            },
        }
    }
}

impl Success {
    /// The first worker's first attempt at mini-batch 0: one item, one row.
    pub(crate) fn sample() -> Self {
        Self {
            worker: WorkerId(0),
            id: MiniBatchId(0),
            attempt: 1,
            items: ItemCounts::from_returned(1, 1),
            is_short: false,
            segment: Segment::sample(),
            header: None,
            has_files: false,
            stamp: 0,
            receipt: None,
        }
    }
}

impl FinalFailure {
    /// Mini-batch 0 has one item, and trapped three times.
    pub(crate) fn sample() -> Self {
        Self {
            id: MiniBatchId(0),
            attempts: 3,
            worker: None,
            items: ItemCounts::from_returned(1, 0),
            failure: Failure::new(FailureKind::Trap, "unreachable"),
            stamp: 0,
            receipt: None,
        }
    }
}
