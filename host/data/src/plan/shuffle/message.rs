//! What the planner tells a process of its crew. It is the same program, so there are no versions.

use crate::model::{CsvFormat, OsSandbox, PartitionFormat, TextSlice};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Buckets that rows go to. Independent of everything, so that a plan is always the same.
pub(super) const BUCKETS: u32 = 32;

/// What bounds memory, and the number of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::plan) struct Bounds {
    /// Bytes of text in a task, about.
    pub(in crate::plan) task: u64,
    /// Bytes of rows that are sorted at once, about.
    pub(in crate::plan) run: usize,
    /// Sorted runs that are merged at once.
    pub(in crate::plan) fan_in: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { task: 16 << 20, run: 64 << 20, fan_in: 64 }
    }
}

/// The first message: what the wall around the process is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// How much of it must stand.
    pub(super) os_sandbox: OsSandbox,
    /// The folders of all sources.
    pub(super) roots: Vec<PathBuf>,
    /// Where spill files go.
    pub(super) spill: PathBuf,
}

/// All further messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// What the tasks from now on are about; not answered.
    Setup(Setup),
    /// Something to do.
    Task(Task),
}

/// What tasks are about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    /// The dialect of the input.
    pub(super) csv: CsvFormat,
    /// How many columns stand in the files.
    pub(super) columns: usize,
    /// The columns of the keys, in the keys' order; those of the path come behind those in the files.
    pub(super) keys: Vec<usize>,
    /// The template of the files' paths.
    pub(super) path: Option<PartitionFormat>,
    /// The folders of the input's sources.
    pub(super) roots: Vec<PathBuf>,
    /// Where texts lie that were unpacked.
    pub(super) spill: PathBuf,
    /// Where spill files go.
    pub(super) folder: PathBuf,
    /// Bounds.
    pub(super) bounds: Bounds,
}

impl Setup {
    /// The file of a piece's rows, one segment for each bucket.
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

    /// Where they come from.
    pub(super) fn origins(&self, bucket: u32) -> PathBuf {
        self.folder.join(origins_name(bucket))
    }

    /// A bucket's groups.
    pub(super) fn index(&self, bucket: u32) -> PathBuf {
        self.folder.join(format!("index-{bucket:03}"))
    }

    /// The names of the files that rows come from.
    pub(super) fn names(&self) -> PathBuf {
        self.folder.join(NAMES)
    }
}

/// The name of [`Setup::names`].
pub(super) const NAMES: &str = "names";

/// The name of [`Setup::text`].
pub(super) fn text_name(bucket: u32) -> String {
    format!("text-{bucket:03}")
}

/// The name of [`Setup::origins`].
pub(super) fn origins_name(bucket: u32) -> String {
    format!("origins-{bucket:03}")
}

/// A task. Doing it again does it over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Put the rows of a piece of the input into buckets.
    Scatter {
        /// The piece's number, from 0.
        number: u64,
        /// What it is made of.
        slices: Vec<Slice>,
    },
    /// Put the rows of a bucket into groups.
    Gather {
        /// Which bucket.
        bucket: u32,
        /// How many pieces there are.
        pieces: u64,
    },
}

impl Task {
    /// What it is, for people.
    pub(super) fn what(&self, setup: &Setup) -> String {
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

/// A part of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Slice {
    /// Index into [`Setup::roots`].
    pub(super) root: u32,
    /// The file's number in [`Setup::names`].
    pub(super) file: u64,
    /// The part.
    pub(super) slice: TextSlice,
}

/// The answer to a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// It is done; its files are whole.
    Done,
    /// It cannot be done, by nobody; for people.
    Failed(String),
}
