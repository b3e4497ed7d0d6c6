//! The errors of the fetcher process, and their messages without secrets.

use super::proxy;
use super::secrets::scrub;
use crate::dataset::{DatasetError, TableLog};
use crate::model::{ByteSize, is_full};
use crate::protocol::FrameError;
use crate::protocol::store::StoreErrorKind;
use crate::protocol::store::{Failed, StoreConfig};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::{Error, path};
use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tokio::task::JoinError;

/// How the TLS library begins its message about an invalid certificate.
const UNTRUSTED_CERTIFICATE: &str = "invalid peer certificate";

/// A request to a store, displayed for the middle of a sentence: "listing s3://b/x".
#[derive(Debug)]
pub(super) enum StoreAction {
    /// To open this address.
    Open(String),
    /// To list the objects at this address.
    List(String),
    /// To read an object below this address.
    Read(String, String),
    /// To read an object that the message names elsewhere.
    ReadObject,
    /// To write an object below this address.
    Write(String, String),
}

impl fmt::Display for StoreAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(shown) => f.write_str(shown),
            Self::List(shown) => write!(f, "listing {shown}"),
            Self::Read(name, shown) => write!(f, "reading {name} of {shown}"),
            Self::ReadObject => f.write_str("reading it"),
            Self::Write(key, shown) => write!(f, "writing {key} to {shown}"),
        }
    }
}

/// A request that a store did not fulfil. The message has no secrets; the source may hold some.
#[derive(Debug, thiserror::Error)]
pub(super) struct StoreFailure {
    action: StoreAction,
    kind: StoreErrorKind,
    /// Where the credentials come from.
    credentials: String,
    /// The store's answer.
    detail: String,
    /// A hint at a proxy that may have answered; empty if there is no hint.
    proxy_hint: String,
    source: Error,
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, kind, credentials, detail, proxy_hint, .. } = self;
        match kind {
            StoreErrorKind::Changed => write!(f, "{action}: it changed while it was read"),
            StoreErrorKind::Untrusted => write!(
                f,
                "{action} failed: no trusted authority vouches for this server under this name; check the \
                 address, or set SSL_CERT_FILE to a file with the certificate of its authority ({detail})"
            ),
            StoreErrorKind::Unreachable => write!(
                f,
                "{action} failed: the store cannot be reached; check the address, and the network \
                 ({detail}){proxy_hint}"
            ),
            StoreErrorKind::Denied => {
                let may =
                    if let StoreAction::Write(..) = action { "write" } else { "list and read" };
                write!(
                    f,
                    "{action} was refused, using {credentials}: check the rights to {may} there \
                     ({detail}){proxy_hint}"
                )
            }
            StoreErrorKind::NotFound => {
                write!(f, "{action}: it does not exist; check the address ({detail}){proxy_hint}")
            }
            _ => write!(f, "{action} failed, using {credentials} ({detail}){proxy_hint}"),
        }
    }
}

/// An error of the fetcher process. Its message is shown to users and has no secrets. Its source may hold
/// secrets, so only the [message](Failed) leaves the process.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The store did not fulfil a request.
    #[error(transparent)]
    Store(Box<StoreFailure>),
    /// A download ended early.
    #[error("reading it ended after {found} of {expected} bytes")]
    Short {
        /// How many bytes arrived.
        found: u64,
        /// The object's length.
        expected: u64,
    },
    /// An object is larger than the space that is left in the cache: the object's size, and the
    /// space.
    #[error("it has {0}, and {1} are left in the cache (cache.size)")]
    Large(ByteSize, ByteSize),
    /// A listed object no longer exists, or was only the marker of a folder.
    #[error("it is gone; run the job again")]
    Gone,
    /// There is no object at an address.
    #[error("{0} holds no object; check the address")]
    Empty(String),
    /// The objects of an address are larger than the space that is left in the cache, but all of
    /// them must fit.
    #[error(
        "the objects of {0} take more than {1}, the space left in the cache: raise \
         cache.size in the file of datastores, or name fewer of them"
    )]
    TooMany(String, ByteSize),
    /// A web server has no lists.
    #[error("{0} cannot be listed: name each object")]
    NoList(String),
    /// The store lists a key that the library rejects.
    #[error("listing {0}: {1}")]
    OddList(String, #[source] path::Error),
    #[error("{0:?} is not a valid object key: {1}")]
    NoKey(String, #[source] path::Error),
    #[error("the key {0:?} is not a valid file path")]
    NoPath(String),
    /// A part of a key has more bytes than a file's name may have.
    #[error("a part of its key has {0} bytes, and a file name may have at most 255")]
    LongPart(usize),
    /// An object and a folder have the same name.
    #[error(
        "the store has an object and a folder with the same name, which a file system cannot have: \
         rename one of them, or leave it out with a glob"
    )]
    Clash,
    /// A glob is invalid.
    #[error(transparent)]
    Glob(#[from] DatasetError),
    /// The objects are a table with a transaction log, at this address.
    #[error("{}", .0.refusal(.1))]
    Table(TableLog, String),
    /// The manifest cannot be written.
    #[error("the list of the objects cannot be written: {0}")]
    List(#[source] io::Error),
    /// A folder cannot be created.
    #[error("{} cannot be made: {source}", path.display())]
    Make { path: PathBuf, source: io::Error },
    /// An object cannot be written.
    #[error(
        "{} cannot be written: {source}{}",
        path.display(),
        if is_full(source) { "; free some space there" } else { "" }
    )]
    Write { path: PathBuf, source: io::Error },
    /// Another process has written an object of the results, at this address.
    #[error("{0}: another process has written {1} meanwhile, so this one does not replace it")]
    Replaced(String, String),
    /// Results cannot be written to a web server.
    #[error("{0} is a web server, which stores no results; name another store")]
    NoResults(String),
    /// The files with the results cannot be listed.
    #[error("the results cannot be listed: {0}")]
    Results(#[source] walkdir::Error),
    /// The name of a result file is not valid as a key.
    #[error("{} has a name that is not allowed for objects", .0.display())]
    OddName(PathBuf),
    /// A file has changed while it was uploaded.
    #[error("{} has changed while it was uploaded: start the job again", .0.display())]
    FileChanged(PathBuf),
    /// A result file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The leader does not read its pipe.
    #[error("{0}")]
    Leader(#[source] io::Error),
    /// The leader's requests cannot be read.
    #[error("the requests cannot be read: {0}")]
    Requests(#[source] io::Error),
    /// The leader sent an invalid message.
    #[error(transparent)]
    Nonsense(#[from] FrameError),
    /// A task of the runtime panicked.
    #[error("fetching failed: {0}")]
    Task(#[from] JoinError),
}

impl FetchError {
    /// The error for a store that did not fulfil a request.
    pub(super) fn store(source: Error, action: StoreAction, store: &StoreConfig) -> Self {
        let detail = detail(&source, store);
        let kind = kind(&source, &detail);
        let credentials = store.credentials.clone();
        // If no request was sent, no proxy answered.
        let is_answer = full_text(&source).contains(STATUS_PREFIX) || is_out_of_reach(&source);
        let proxy_hint = match is_answer {
            true => proxy::hint(store, &full_text(&source), |name| std::env::var(name).ok()),
            false => String::new(),
        };
        Self::Store(Box::new(StoreFailure {
            action,
            kind,
            credentials,
            detail,
            proxy_hint,
            source,
        }))
    }

    /// The error for a folder that cannot be created.
    pub(super) fn make(path: &Path, source: io::Error) -> Self {
        Self::Make { path: path.to_owned(), source }
    }

    pub(super) fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Store(failure) => failure.kind,
            Self::Short { .. } => StoreErrorKind::Other,
            Self::Large(..) | Self::TooMany(..) => StoreErrorKind::TooLarge,
            Self::Gone | Self::Replaced(..) | Self::FileChanged(_) => StoreErrorKind::Changed,
            Self::Empty(_) => StoreErrorKind::NotFound,
            Self::NoList(_)
            | Self::OddList(..)
            | Self::NoKey(..)
            | Self::NoPath(_)
            | Self::LongPart(_)
            | Self::Clash
            | Self::Glob(_)
            | Self::Table(..)
            | Self::NoResults(_)
            | Self::OddName(_) => StoreErrorKind::Invalid,
            Self::List(source)
            | Self::Make { source, .. }
            | Self::Write { source, .. }
            | Self::Read { source, .. } => StoreErrorKind::of_disk(source),
            Self::Results(_) => StoreErrorKind::Disk,
            Self::Leader(_) | Self::Requests(_) | Self::Nonsense(_) | Self::Task(_) => {
                StoreErrorKind::Process
            }
        }
    }
}

impl From<FetchError> for Failed {
    fn from(error: FetchError) -> Self {
        Self { kind: error.kind(), text: error.to_string() }
    }
}

/// The kind of a store's answer. `detail` is the message of the error.
fn kind(error: &Error, detail: &str) -> StoreErrorKind {
    if matches!(error, Error::Precondition { .. }) {
        return StoreErrorKind::Changed;
    }
    if detail.contains(UNTRUSTED_CERTIFICATE) {
        return StoreErrorKind::Untrusted;
    }
    if is_out_of_reach(error) {
        return StoreErrorKind::Unreachable;
    }
    match detail.get(..3) {
        Some("401" | "403") => StoreErrorKind::Denied,
        Some("404") => StoreErrorKind::NotFound,
        Some("429" | "503") => StoreErrorKind::Throttled,
        _ => StoreErrorKind::Other,
    }
}

/// Whether no connection to the store could be made.
pub(super) fn is_out_of_reach(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(http) = inner.downcast_ref::<HttpError>() {
            return http.kind() == HttpErrorKind::Connect;
        }
        source = inner.source();
    }
    false
}

/// The library writes this before the status of a server's answer.
const STATUS_PREFIX: &str = "status code: ";

/// The important part of the messages of an error and its sources, without secrets.
fn detail(error: &Error, store: &StoreConfig) -> String {
    let text = full_text(error);
    for (missing, key) in
        [("SecretAccessKey", "secret_access_key"), ("AccessKeyId", "access_key_id")]
    {
        if text.contains(&format!("Missing {missing}")) {
            let variable = format!("AWS_{}", key.to_ascii_uppercase());
            return format!(
                "{variable} is missing or empty: set it, or {key} in the file of datastores"
            );
        }
    }
    scrub(&important_part(&text), store)
}

/// The messages of an error and its sources.
fn full_text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let message = inner.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        source = inner.source();
    }
    text
}

/// The important part of an error's full text: the server's answer, or else the innermost error.
fn important_part(text: &str) -> String {
    let Some((_, answer)) = text.split_once(STATUS_PREFIX) else {
        return text.rsplit(" - ").next().unwrap_or(text).to_owned();
    };
    let (status, body) = answer.split_once(": ").unwrap_or((answer, ""));
    let tag = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
    };
    match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => format!("{status}, {code}: {message}"),
        (Some(code), None) => format!("{status}, {code}"),
        _ if body.trim_start().starts_with('<') || body.is_empty() => status.to_owned(),
        _ => format!("{status}: {body}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_errors_quote_the_servers_answer() {
        let answer = "Error performing GET http://h/b in 1.2ms, after 8 retries - Server returned \
                      non-2xx status code: 404 Not Found: <Error><Code>NoSuchBucket</Code>\
                      <Message>It is not there</Message></Error>";
        assert_eq!(important_part(answer), "404 Not Found, NoSuchBucket: It is not there");
        assert_eq!(important_part("status code: 500 Oh: it broke"), "500 Oh: it broke");
        assert_eq!(important_part("status code: 500 Oh: <html>"), "500 Oh");
        assert_eq!(
            important_part("Error performing GET x in 3s - HTTP error: no route"),
            "HTTP error: no route"
        );
    }

    fn store(options: &[(&str, &str)]) -> StoreConfig {
        let option = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        StoreConfig {
            options: options.iter().map(option).collect(),
            credentials: "a key".into(),
            ..StoreConfig::sample()
        }
    }

    #[test]
    fn each_kind_of_answer_has_its_message() {
        let describe = |action: StoreAction, answer: &str| {
            let source = format!("Server returned non-2xx status code: {answer}").into();
            let error =
                FetchError::store(Error::Generic { store: "S3", source }, action, &store(&[]));
            let Failed { kind, text } = error.into();
            format!("{kind:?}: {text}")
        };
        let read = || StoreAction::Read("a".to_owned(), "s3://b".to_owned());
        insta::assert_snapshot!(describe(read(), "403 Forbidden"), @"Denied: reading a of s3://b was refused, using a key: check the rights to list and read there (403 Forbidden)");
        let write = StoreAction::Write("a".to_owned(), "s3://b".to_owned());
        insta::assert_snapshot!(describe(write, "401 Unauthorized"), @"Denied: writing a to s3://b was refused, using a key: check the rights to write there (401 Unauthorized)");
        let list = StoreAction::List("s3://b".to_owned());
        insta::assert_snapshot!(describe(list, "404 Not Found"), @"NotFound: listing s3://b: it does not exist; check the address (404 Not Found)");
        insta::assert_snapshot!(describe(StoreAction::ReadObject, "503 Slow Down"), @"Throttled: reading it failed, using a key (503 Slow Down)");
        insta::assert_snapshot!(describe(StoreAction::ReadObject, "500 Oh"), @"Other: reading it failed, using a key (500 Oh)");
        let source = "Missing SecretAccessKey".into();
        let missing = Error::Generic { store: "S3", source };
        let missing =
            FetchError::store(missing, StoreAction::Open("s3://b".to_owned()), &store(&[]));
        insta::assert_snapshot!(missing, @"s3://b failed, using a key (AWS_SECRET_ACCESS_KEY is missing or empty: set it, or secret_access_key in the file of datastores)");
        let source = "another version".into();
        let changed = Error::Precondition { path: "a".to_owned(), source };
        let changed = FetchError::store(changed, StoreAction::ReadObject, &store(&[]));
        assert_eq!(changed.kind(), StoreErrorKind::Changed);
        insta::assert_snapshot!(changed, @"reading it: it changed while it was read");
    }

    #[test]
    fn a_full_disk_has_a_separate_error_kind() {
        let write = |errno| FetchError::Write {
            path: "/c/a".into(),
            source: io::Error::from_raw_os_error(errno),
        };
        let describe = |error: FetchError| (error.kind(), error.to_string());
        let full =
            "/c/a cannot be written: No space left on device (os error 28); free some space there";
        assert_eq!(describe(write(libc::ENOSPC)), (StoreErrorKind::DiskFull, full.to_owned()));
        let refused = "/c/a cannot be written: Permission denied (os error 13)";
        assert_eq!(describe(write(libc::EACCES)), (StoreErrorKind::Disk, refused.to_owned()));
        let list = FetchError::List(io::Error::from_raw_os_error(libc::EDQUOT));
        assert_eq!(list.kind(), StoreErrorKind::DiskFull);
    }
}
