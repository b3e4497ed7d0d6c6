//! What is said to the process that fetches, and what it says.

use sandmill_files::Object;
use sandmill_model::{OsSandbox, StoreKind, is_full};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What opens a store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreConfig {
    /// Which kind of store it is.
    pub kind: StoreKind,
    /// The bucket, the container, or the address of a web server's folder.
    pub container: String,
    /// What leads into it, by the names of the library. Secret.
    pub options: Vec<(String, String)>,
    /// Where the options come from, for people.
    pub credentials: String,
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
pub enum Wanted {
    /// All.
    All,
    /// Those whose paths match.
    Glob(String),
    /// These, each an object or a folder of objects.
    Named(Vec<String>),
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRequest {
    /// [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION) of the leader.
    pub protocol: u32,
    /// Whether the process must lock itself down.
    pub os_sandbox: OsSandbox,
    /// Which store, and what leads into it.
    pub store: StoreConfig,
    /// Stands before all keys: empty, or with a `/` at its end.
    pub prefix: String,
    /// What is to be done.
    pub task: Task,
    /// The address, for people.
    pub shown: String,
    /// The slot, or the folder with what is put.
    pub folder: PathBuf,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Find objects, and write a manifest of them. Those of unknown length are fetched at once, as are
    /// empty ones, which may stand for folders.
    List {
        /// Below the prefix.
        wanted: Wanted,
        /// The most bytes that what is fetched may have.
        most: u64,
        /// Whether all of it must fit.
        must_fit: bool,
        /// Whether each object comes when a mini-batch wants it. Of one that is named and not in the store, that
        /// mini-batch finds out; else the manifest says that it cannot be had.
        on_demand: bool,
        /// Whether tables with a log are refused.
        refuses_tables: bool,
    },
    /// Fetch what is asked for by [`Bring`].
    Serve,
    /// Put all files of the folder.
    Put,
}

/// Asks a process that serves for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bring {
    /// Below the prefix.
    pub name: String,
    /// What its manifest tells of it.
    pub known: Object,
}

/// What came of it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Objects that are wanted.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects of these that are not here yet.
    pub awaited: u64,
    /// Objects of these that could not be fetched.
    pub failed: u64,
}

/// What the process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromFetcher {
    /// How far it is.
    Progress(Fetched),
    /// What was asked for is here, or cannot be had for this reason.
    Brought(String, Option<Failed>),
    /// All is done that was asked for at once.
    Done(Fetched),
    /// Nothing more is fetched.
    Failed(Failed),
}

/// What ended fetching, or kept an object from being fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// What kind of thing went wrong.
    pub kind: StoreErrorKind,
    /// In words, without secrets.
    pub text: String,
}

/// What kind of thing went wrong with a store, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StoreErrorKind {
    /// The job, or the file of datastores, names what cannot be fetched anywhere.
    Invalid,
    /// There is no such object, folder or bucket.
    NotFound,
    /// The store does not accept the credentials, or they do not suffice.
    Denied,
    /// The store has too much to do, and refused all attempts.
    Throttled,
    /// No connection comes about.
    Unreachable,
    /// The server, or what came from it, cannot be trusted.
    Untrusted,
    /// An object is not the one that was listed before.
    Changed,
    /// There is more than the cache may hold.
    TooLarge,
    /// The disk has no room, or not for this user. No object is to blame.
    DiskFull,
    /// A file or folder of this machine cannot be used.
    Disk,
    /// The process that fetches broke down, or never ran.
    Process,
    /// Fetching was stopped, as was asked.
    Stopped,
    /// Anything else, such as an answer that broke off.
    Other,
}

impl StoreErrorKind {
    /// That of an answer of a file system.
    pub fn of_disk(error: &io::Error) -> Self {
        if is_full(error) { Self::DiskFull } else { Self::Disk }
    }
}
