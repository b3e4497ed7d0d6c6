//! The messages to and from the process that fetches objects from a store.

use sandmill_files::ManifestObject;
use sandmill_model::{OsSandbox, StoreKind, is_full};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What is needed to open a store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreConfig {
    /// Which kind of store it is.
    pub kind: StoreKind,
    /// The bucket, the container, or the address of a web server's folder.
    pub container: String,
    /// The credentials and other options, under the names that the library `object_store` uses. Secret.
    pub options: Vec<(String, String)>,
    /// Where the options come from, as text for the user.
    pub credentials: String,
}

/// Shows the names of the options, never their values.
impl fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.options.iter().map(|(name, _)| name).collect();
        write!(f, "StoreConfig({:?}, {}, {names:?})", self.kind, self.container)
    }
}

/// Which objects are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WantedObjects {
    /// All objects.
    All,
    /// The objects whose paths match this glob.
    Glob(String),
    /// The objects with these paths, and all objects of folders with these paths.
    Named(Vec<String>),
}

/// The request to the process that fetches objects. It is the first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRequest {
    /// [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION) of the leader.
    pub protocol: u32,
    /// How much of the process wall must be in place.
    pub os_sandbox: OsSandbox,
    /// The store, with its credentials.
    pub store: StoreConfig,
    /// The prefix of all keys: empty, or with a `/` at its end.
    pub prefix: String,
    /// The task.
    pub task: StoreTask,
    /// The address, as messages show it.
    pub shown: String,
    /// The slot in the cache, or the folder with the files to upload.
    pub folder: PathBuf,
}

/// The task of the process that fetches objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreTask {
    /// Find objects, and write a manifest of them. Objects of unknown length are fetched immediately. So are
    /// empty objects, because they may stand for folders.
    List {
        /// The objects, with paths below the prefix.
        wanted: WantedObjects,
        /// The most bytes that the objects in the cache may have.
        most: u64,
        /// Whether all objects together must fit into `most` bytes.
        must_fit: bool,
        /// Whether each object is fetched only when a mini-batch needs it. If so, a mini-batch
        /// discovers that an object is missing. If not, the manifest already says that the object
        /// cannot be fetched.
        on_demand: bool,
        /// Whether tables with a transaction log (Delta Lake, Iceberg) are refused.
        refuses_tables: bool,
    },
    /// Fetch the objects that [`ObjectRequest`] messages ask for.
    Serve,
    /// Upload all files of the folder.
    Put,
    /// As [`Put`](Self::Put), but each only over the object that was there before the leader has sent [`MayPublish`].
    Publish,
    /// Upload these files, unless objects of their names and lengths are there.
    PutFiles(Vec<FileToPut>),
    /// Do what [`ObjectCall`] messages ask for.
    Objects,
    /// Find out whether the store lets this machine read the object of this name. It need not exist.
    Check(String),
}

/// A file to upload, and what it must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileToPut {
    /// The object's name below the prefix.
    pub name: String,
    /// The file. An absolute path.
    pub path: PathBuf,
    /// The file's length in bytes.
    pub length: u64,
    /// The SHA-256 of its content.
    pub sha256: [u8; 32],
}

/// A call to a process that creates, reads, lists and removes objects. The names in a call are below the
/// request's prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectCall {
    /// The call's number, which its answers repeat.
    pub id: u64,
    /// What the process shall do.
    pub action: ObjectAction,
}

/// What an [`ObjectCall`] asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectAction {
    /// More of the content that [`Create`](Self::Create) of the same call uses. Has no answer.
    Part(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Create an object of this name, unless there is one.
    Create(String),
    /// Read the object of this name, unless it is longer than this many bytes.
    Read(String, u64),
    /// Read a range of the object of this name: from this byte on, this many bytes, or what the object has of them.
    ReadRange(String, u64, u64),
    /// List the objects and folders that are directly in this folder.
    List(String),
    /// Remove the object of this name, if there is one.
    Remove(String),
}

/// An answer to an [`ObjectCall`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectAnswer {
    /// More of the content of an object. More answers follow.
    Part(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The last parts of the names of objects. More answers follow.
    Objects(Vec<String>),
    /// The last parts of the names of folders. More answers follow.
    Folders(Vec<String>),
    /// Whether the object was created. If not, there is one of this name.
    Created(bool),
    /// Whether there is an object of this name. Its content came before.
    Read(bool),
    /// The object is too long.
    TooLong,
    /// The list is complete.
    Listed,
    /// The object is gone.
    Removed,
    /// The call has failed.
    Failed(Failed),
}

impl ObjectAnswer {
    /// Whether no more answers to the call follow.
    pub fn is_last(&self) -> bool {
        !matches!(self, Self::Part(_) | Self::Objects(_) | Self::Folders(_))
    }
}

/// Asks a serving process for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRequest {
    /// Its path below the prefix.
    pub name: String,
    /// What the manifest says about it.
    pub known: ManifestObject,
}

/// The answer to [`FromFetcher::Noted`]: no other leader has published results yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MayPublish;

/// The progress of fetching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// How many objects are wanted.
    pub objects: u64,
    /// The bytes of all wanted objects.
    pub bytes: u64,
    /// How many of the objects have not arrived yet.
    pub awaited: u64,
    /// How many of the objects could not be fetched.
    pub failed: u64,
}

/// A report of the process that fetches objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromFetcher {
    /// Its progress.
    Progress(Fetched),
    /// The process knows which objects are at the addresses of the results, and waits for [`MayPublish`].
    Noted,
    /// The requested object has arrived, or cannot be fetched for this reason.
    Downloaded(String, Option<Failed>),
    /// An answer to the [`ObjectCall`] with this number.
    Answer(u64, ObjectAnswer),
    /// The task is done, except for objects that are fetched later, on request.
    Done(Fetched),
    /// Fetching has ended with this error.
    Failed(Failed),
}

/// Why fetching ended, or why one object was not fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The kind of error.
    pub kind: StoreErrorKind,
    /// The error in words, without secrets.
    pub text: String,
}

/// An object that a node could not fetch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfetchedObject {
    /// The position of its file among those that were asked for: see
    /// [`MiniBatch::reads`](sandmill_model::MiniBatch::reads).
    pub file: u32,
    /// Why, as text for the user.
    pub reason: String,
    /// Whether no machine can fetch it: it does not exist, or it has changed since it was listed.
    pub is_final: bool,
    /// Whether the machine has another file there than the leader's machine, because a folder is not shared.
    pub is_other: bool,
}

/// The kinds of errors with a store, so that programs can decide what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StoreErrorKind {
    /// The job or the datastores file names something that cannot be fetched.
    Invalid,
    /// There is no such object, folder or bucket.
    NotFound,
    /// The store does not accept the credentials, or they lack a permission.
    Denied,
    /// The store is overloaded and refused all attempts.
    Throttled,
    /// No connection can be made.
    Unreachable,
    /// The server, or its data, cannot be trusted.
    Untrusted,
    /// An object has changed since it was listed.
    Changed,
    /// The objects are larger than the cache may be.
    TooLarge,
    /// The disk is full, or this user's quota is. No object is to blame.
    DiskFull,
    /// A file or folder on this machine cannot be used.
    Disk,
    /// The fetching process crashed or could not be started.
    Process,
    /// Fetching was stopped on request.
    Stopped,
    /// Anything else, such as an answer that broke off.
    Other,
}

impl StoreErrorKind {
    /// Whether an object that failed for this reason cannot be fetched by any other machine either.
    pub fn is_final(self) -> bool {
        matches!(self, Self::NotFound | Self::Changed)
    }

    /// The kind of an error from the local file system.
    pub fn of_disk(error: &io::Error) -> Self {
        if is_full(error) { Self::DiskFull } else { Self::Disk }
    }
}
