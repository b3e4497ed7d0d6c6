//! What is said to the process that fetches, and what it says.

use super::fetch::Known;
use crate::model::{OsSandbox, StoreKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// What opens a store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoreConfig {
    pub(super) kind: StoreKind,
    /// The bucket, the container, or the address of a web server's folder.
    pub(super) container: String,
    /// What leads into it, by the names of the library. Secret.
    pub(super) options: Vec<(String, String)>,
    /// Where the options come from, for people.
    pub(super) credentials: String,
}

/// Names what leads into the store, never shows it.
impl fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.options.iter().map(|(name, _)| name).collect();
        write!(f, "StoreConfig({:?}, {}, {names:?})", self.kind, self.container)
    }
}

/// Which objects are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Wanted {
    /// All.
    All,
    /// Those whose paths match.
    Glob(String),
    /// These, each an object or a folder of objects.
    Named(Vec<String>),
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FetchRequest {
    pub(super) protocol: u32,
    pub(super) os_sandbox: OsSandbox,
    pub(super) store: StoreConfig,
    /// Stands before all keys: empty, or with a `/` at its end.
    pub(super) prefix: String,
    pub(super) task: Task,
    /// The address, for people.
    pub(super) shown: String,
    /// The slot, or the folder with what is put.
    pub(super) folder: PathBuf,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    /// Find objects, and put a stand-in in the place of each that is not here. Those that nobody tells the
    /// length of are fetched at once, as are empty ones, which may stand for folders.
    List {
        /// Below the prefix.
        wanted: Wanted,
        /// The most bytes that what is fetched may have.
        most: u64,
        /// Whether all of it must fit.
        must_fit: bool,
        /// Whether each object comes when it is wanted: a manifest tells of those of folders then, and stand-ins only
        /// of those that are named. Of one that is named and not there, whoever wants it finds out.
        on_demand: bool,
        /// Whether tables with a log are refused.
        refuses_tables: bool,
    },
    /// Fetch all that stand-ins stand for.
    All,
    /// Fetch what is asked for by [`Bring`].
    Serve,
    /// Put all files of the folder.
    Put,
}

/// Asks a process that serves for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bring {
    /// Below the prefix.
    pub(super) name: String,
    /// What its manifest tells of it; a stand-in does if there is none.
    pub(super) known: Option<Known>,
}

/// What came of it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fetched {
    /// Objects that are wanted.
    pub(super) objects: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Objects of these that have stand-ins.
    pub(super) awaited: u64,
    /// Objects of these that could not be fetched.
    pub(super) failed: u64,
}

/// What the process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromFetcher {
    Progress(Fetched),
    /// What was asked for is here, or cannot be had for this reason.
    Brought(String, Option<String>),
    Done(Fetched),
    Failed(Failed),
}

/// What ended fetching.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// In words, without secrets.
    pub(super) text: String,
    /// Whether the disk has no room: no object is to blame.
    pub(super) is_full: bool,
}

impl From<String> for Failed {
    fn from(text: String) -> Self {
        Self { text, is_full: false }
    }
}
