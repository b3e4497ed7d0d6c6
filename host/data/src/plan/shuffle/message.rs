//! The messages between the planner and its helper processes. All are the same program, so messages have no
//! versions.

use crate::model::{CsvFormat, OsSandbox, PartitionFormat, TextSlice};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The number of buckets for rows. The number is constant, so that a plan is always the same.
pub(super) const BUCKETS: u32 = 32;

/// Limits on memory and on the number of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::plan) struct ShuffleLimits {
    /// Bytes of text in a task, approximately.
    pub(in crate::plan) task: u64,
    /// Bytes of rows that are sorted at a time, approximately.
    pub(in crate::plan) run: usize,
    /// How many sorted runs are merged at a time.
    pub(in crate::plan) fan_in: usize,
}

impl Default for ShuffleLimits {
    fn default() -> Self {
        Self { task: 16 << 20, run: 64 << 20, fan_in: 64 }
    }
}

/// The first message: the wall that the process must build.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HelperWall {
    /// How much of the wall must be in place.
    pub(super) os_sandbox: OsSandbox,
    /// The folders of all sources.
    pub(super) roots: Vec<PathBuf>,
    /// The folder for spill files.
    pub(super) spill: PathBuf,
}

/// All further messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ToHelper {
    /// The setup of the tasks that follow. The helper does not answer it.
    Setup(ShuffleSetup),
    Task(ShuffleTask),
}

/// What all tasks of a shuffle have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ShuffleSetup {
    pub(super) csv: CsvFormat,
    /// The number of columns in the files.
    pub(super) columns: usize,
    /// The indices of the key columns, in the order of the keys. Columns from the path come after the columns
    /// in the files.
    pub(super) keys: Vec<usize>,
    /// The template of the files' paths.
    pub(super) path: Option<PartitionFormat>,
    /// The folders of the input's sources.
    pub(super) roots: Vec<PathBuf>,
    /// The folder of unpacked texts.
    pub(super) spill: PathBuf,
    /// The folder for this input's spill files.
    pub(super) folder: PathBuf,
    /// Limits on memory and on open files.
    pub(super) bounds: ShuffleLimits,
}

impl ShuffleSetup {
    /// The file of a piece's rows, with one segment for each bucket.
    pub(super) fn scattered(&self, number: u64) -> PathBuf {
        self.folder.join(format!("scattered-{number:06}"))
    }

    /// A sorted run of a bucket.
    pub(super) fn run(&self, bucket: u32, number: usize) -> PathBuf {
        self.folder.join(format!("run-{bucket:03}-{number:06}"))
    }

    /// A bucket's rows by group.
    pub(super) fn text(&self, bucket: u32) -> PathBuf {
        self.folder.join(text_name(bucket))
    }

    /// The origins of the rows in [`text`](Self::text): the file and line that each row comes from.
    pub(super) fn origins(&self, bucket: u32) -> PathBuf {
        self.folder.join(origins_name(bucket))
    }

    /// A bucket's groups.
    pub(super) fn index(&self, bucket: u32) -> PathBuf {
        self.folder.join(format!("index-{bucket:03}"))
    }

    /// The names of the files that rows come from.
    pub(super) fn names(&self) -> PathBuf {
        self.folder.join(NAMES_FILE)
    }
}

/// The name of [`ShuffleSetup::names`].
pub(super) const NAMES_FILE: &str = "names";

/// The name of [`ShuffleSetup::text`].
pub(super) fn text_name(bucket: u32) -> String {
    format!("text-{bucket:03}")
}

/// The name of [`ShuffleSetup::origins`].
pub(super) fn origins_name(bucket: u32) -> String {
    format!("origins-{bucket:03}")
}

/// A task. It can be repeated, because it overwrites its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ShuffleTask {
    /// Put the rows of a piece of the input into buckets.
    Scatter {
        /// The piece's number, from 0.
        number: u64,
        /// The slices that the piece consists of.
        slices: Vec<InputSlice>,
    },
    /// Put the rows of a bucket into groups.
    Gather { bucket: u32, pieces: u64 },
}

impl ShuffleTask {
    /// A description for the user.
    pub(super) fn describe(&self, setup: &ShuffleSetup) -> String {
        match self {
            Self::Gather { bucket, .. } => format!("bucket {bucket} of {BUCKETS}"),
            Self::Scatter { slices, .. } => slices.first().map_or_else(String::new, |slice| {
                let root = setup.roots.get(slice.root as usize).cloned().unwrap_or_default();
                let path = root.join(&slice.slice.file);
                format!("{} from line {} on", path.display(), slice.slice.first_line)
            }),
        }
    }
}

/// A slice of an input's file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InputSlice {
    /// Index into [`ShuffleSetup::roots`].
    pub(super) root: u32,
    /// The file's number in [`ShuffleSetup::names`].
    pub(super) file: u64,
    pub(super) slice: TextSlice,
}

/// The answer to a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ShuffleReply {
    /// The task is done; its files are complete.
    Done,
    /// No process can do the task. The text is shown to the user.
    Failed(String),
}
