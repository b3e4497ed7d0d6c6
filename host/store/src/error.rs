//! The errors of stores in the leader, with their messages.

use crate::model::{ByteSize, UploadedChange};
use crate::protocol::FrameError;
use crate::protocol::store::{Failed, StoreErrorKind};
use crate::spec::{ModelPathError, NoDatastore};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The maximum number of letters in the name of a bucket, a container or an account.
pub(super) const LONGEST_NAME: usize = 255;

/// Why objects cannot be fetched or results cannot be written to a store. The messages are complete, and
/// shown to users.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error, with the input that it belongs to.
    #[error("{what}: {source}")]
    Of {
        /// The input: `input 'numbers'`.
        what: String,
        /// The error.
        source: Box<StoreError>,
    },
    /// An error that the fetcher process reported.
    #[error("{}", printable(text))]
    Fetch {
        /// The kind of error.
        kind: StoreErrorKind,
        /// The message, without secrets.
        text: String,
    },
    /// An object could not be fetched.
    #[error("{file} of {address}: {reason}")]
    Object {
        /// The object, below the address.
        file: String,
        /// The address.
        address: String,
        /// The reason, in words.
        reason: String,
    },
    /// The file of datastores has no such store for the tenant.
    #[error("{0}")]
    Datastore(NoDatastore),
    /// An address of Azure without an account.
    #[error(
        "{address} names no storage account: write https://ACCOUNT.blob.core.windows.net/{container}/..., \
         or set AZURE_STORAGE_ACCOUNT_NAME"
    )]
    NoAccount {
        /// The address.
        address: String,
        /// Its container.
        container: String,
    },
    /// A name that no store can have.
    #[error(
        "found the {what} {name:?}; its name may have 1 to {LONGEST_NAME} characters: English \
         letters, digits, - _ . and $"
    )]
    Name {
        /// `bucket`, `container` or `account`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The address names a folder of a web server.
    #[error("{0}: a web server does not list its folders; name each object by paths")]
    NoFolders(String),
    /// What a submitter has uploaded is no longer complete.
    #[error(transparent)]
    Gone(#[from] UploadedChange),
    /// The address of a single object, where a folder is required.
    #[error("{0} is a single object; a side input is a folder of objects")]
    OneObject(String),
    /// An address at which no file was found.
    #[error("{0} holds no files")]
    Nothing(String),
    /// The fetched files are not a model.
    #[error("{0}")]
    Model(ModelPathError),
    /// A request that is too large for a message.
    #[error("the request is too large: {0}")]
    Request(#[source] FrameError),
    /// The name of a file is not valid UTF-8.
    #[error("its name is not UTF-8")]
    OddName,
    /// A file, or a mini-batch of several files, that is larger than the cache.
    #[error(
        "{} takes {bytes}, and the cache has room for {room}: raise cache.size in the file of datastores{}",
        if *files == 1 { "it" } else { "its mini-batch" },
        if *files == 1 { "" } else { ", or choose a smaller mini_batch_size" }
    )]
    NoRoom {
        /// How many files are requested together.
        files: usize,
        /// Their bytes.
        bytes: ByteSize,
        /// The maximum size of the cache.
        room: ByteSize,
    },
    /// There is no folder for objects.
    #[error(
        "there is no folder for objects of stores, because none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME and \
         HOME is set: set SANDMILL_CACHE_DIR to one of your folders"
    )]
    NoCache,
    /// The folder for objects cannot be used.
    #[error("the folder for objects {} cannot be used: {source}", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder for objects is on a file system that rounds the times of files.
    #[error(
        "the folder for objects {} is on a file system that rounds the times of files, so machines cannot compare \
         objects: name a folder on another file system as cache.folder in the file of datastores",
        .0.display()
    )]
    CoarseTimes(PathBuf),
    /// A fetched file or folder cannot be found.
    #[error("{path}: {source}")]
    Lost {
        /// Where it should be.
        path: String,
        /// Why it is not found.
        source: io::Error,
    },
    /// The list of a store's objects cannot be read. The source has the whole message.
    #[error("{0}")]
    List(#[source] io::Error),
    /// The list does not have an object that was requested.
    #[error("it is not in the list of the store's objects")]
    NotListed,
    /// The fetcher process made a link that leads out of the cache.
    #[error("{address} leads out of the cache, to {}", path.display())]
    Outside {
        /// The address that was fetched.
        address: String,
        /// Where the link leads.
        path: PathBuf,
    },
    /// Like [`Outside`](Self::Outside), for a path of an input whose address is not known.
    #[error("a downloaded path is a link that leads out of the cache, to {}: do not trust this store", .0.display())]
    AllOutside(PathBuf),
    /// The thread that fetches cannot be started.
    #[error("nothing can be fetched: {0}")]
    Thread(#[source] io::Error),
    /// The fetcher process cannot be started, or we cannot wait for its end.
    #[error("the process that fetches cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The fetcher process ended too early.
    #[error("the process that fetches {how}{}", with_stderr(faults))]
    Died {
        /// How it ended: `was ended by signal 11`.
        how: String,
        /// What it wrote to stderr, without secrets.
        faults: String,
    },
    /// The fetcher process sent an invalid message.
    #[error("the process that fetches sent an invalid message: {0}")]
    Nonsense(#[source] FrameError),
    /// The fetcher process finished before the leader closed the process's input.
    #[error("the process that fetches has ended")]
    Over,
    /// The fetcher process reported nothing for too long.
    #[error("nothing arrived for {} s; fetching was stopped", .0.as_secs())]
    Silent(Duration),
    /// The job was cancelled.
    #[error("fetching was stopped, as requested")]
    Stopped,
    /// The caller no longer leads the job whose results these are.
    #[error(
        "another process continues the job, or has started it over, so its results are not written"
    )]
    Superseded,
}

impl StoreError {
    /// Adds the input that the error is about.
    pub fn with_input(self, what: &str) -> Self {
        Self::Of { what: what.to_owned(), source: Box::new(self) }
    }

    /// The kind of error.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Of { source, .. } => source.kind(),
            Self::Fetch { kind, .. } => *kind,
            Self::Datastore(_)
            | Self::NoAccount { .. }
            | Self::Name { .. }
            | Self::NoFolders(_)
            | Self::OneObject(_)
            | Self::Gone(_)
            | Self::Nothing(_)
            | Self::Model(_)
            | Self::Request(_)
            | Self::OddName
            | Self::NotListed
            | Self::CoarseTimes(_)
            | Self::NoCache => StoreErrorKind::Invalid,
            Self::NoRoom { .. } => StoreErrorKind::TooLarge,
            Self::Cache { source, .. } | Self::Lost { source, .. } | Self::List(source) => {
                StoreErrorKind::of_disk(source)
            }
            Self::Outside { .. } | Self::AllOutside(_) => StoreErrorKind::Untrusted,
            Self::Thread(_)
            | Self::Start(_)
            | Self::Died { .. }
            | Self::Nonsense(_)
            | Self::Over
            | Self::Silent(_) => StoreErrorKind::Process,
            Self::Stopped => StoreErrorKind::Stopped,
            Self::Superseded => StoreErrorKind::Changed,
            Self::Object { .. } => StoreErrorKind::Other,
        }
    }
}

/// Replaces control characters, which could steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn with_stderr(faults: &str) -> String {
    if faults.is_empty() { String::new() } else { format!("; its output: {faults}") }
}

impl From<Failed> for StoreError {
    fn from(Failed { kind, text }: Failed) -> Self {
        Self::Fetch { kind, text }
    }
}
