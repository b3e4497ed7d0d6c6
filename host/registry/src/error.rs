//! Errors of a registry, with messages for the user.

use super::settings::{LOCK_TIMEOUT, REGISTRY_VARIABLE};
use rusqlite::ErrorCode;
use sandmill_model::{Registered, RegisteredKind, RegisteredName, printable};
use std::path::{Path, PathBuf};

/// Why a registry cannot be used, or does not have the requested name or version.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// No environment variable says where the registry is.
    #[error(
        "it is unknown where the registry is: none of {REGISTRY_VARIABLE}, XDG_DATA_HOME and HOME is set. \
         Set {REGISTRY_VARIABLE} to a file in one of your folders"
    )]
    NoPlace,
    /// Other users could write to the registry.
    #[error(
        "the registry cannot be trusted: {} {why}, so other users could decide what jobs read. Make it \
         private with `chmod go-w`, or name another file in {REGISTRY_VARIABLE}",
        path.display()
    )]
    Open {
        /// The file or its folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file or its folder cannot be used.
    #[error("the registry {}: {source}; name another file in {REGISTRY_VARIABLE}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Another process kept the registry locked for too long.
    #[error(
        "the registry {} has been in use by another process for {} s; try again when that process has ended",
        path.display(),
        LOCK_TIMEOUT.as_secs()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file system is full.
    #[error("no space left on the disk that holds the registry {}: free some space", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The user has no permission to write to the file, or to make a file next to it.
    #[error(
        "the registry {} cannot be written: check the rights to it and to its folder, or name \
         another file in {REGISTRY_VARIABLE}",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "the registry {} is damaged ({what}): replace it with an intact copy, or move it away \
         and register your datasets and models again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file is a database of another program.
    #[error(
        "{} is a database, but not a registry of sandmill; name another file in {REGISTRY_VARIABLE}",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A later version of Sandmill wrote the file.
    #[error(
        "the registry {} has format {found}, and this version of sandmill knows {known}: use a newer \
         version, or name another file in {REGISTRY_VARIABLE}",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The format of this build.
        known: i64,
    },
    /// Another error of SQLite.
    #[error("the registry {} failed: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// No dataset or model has this name.
    #[error("there is no registered {} {:?}{}", kind.word(), wanted.name, near(*kind, wanted, nearest))]
    NoName {
        /// A dataset or a model.
        kind: RegisteredKind,
        /// The requested name.
        wanted: RegisteredName,
        /// Similar names, nearest first.
        nearest: Vec<String>,
    },
    /// The name has no such version.
    #[error("{} {} has no version {version}; {}", kind.word(), name, versions(existing))]
    NoVersion {
        /// A dataset or a model.
        kind: RegisteredKind,
        /// The name of the dataset or model.
        name: String,
        /// The requested version.
        version: u64,
        /// The existing versions, at least one, in rising order.
        existing: Vec<u64>,
    },
    /// The name is already registered.
    #[error(
        "{} {} is registered already, by {} at {}: {}; add --new-version to register it as version \
         {}, or choose another name",
        kind.word(),
        existing.title(),
        printable(&existing.by),
        existing.registered.strftime("%Y-%m-%d %H:%M:%SZ"),
        paths(existing),
        existing.version + 1
    )]
    Taken {
        /// A dataset or a model.
        kind: RegisteredKind,
        /// The latest version of that name.
        existing: Box<Registered>,
    },
}

/// The advice if a name is not registered: the nearest names, or the commands that list and register
/// names.
fn near(kind: RegisteredKind, wanted: &RegisteredName, nearest: &[String]) -> String {
    let word = kind.word();
    let name = &wanted.name;
    match nearest {
        [] => format!(
            "; `sandmill {word} list` lists the registered {word}s, and `sandmill {word} register {name} \
             PATH` registers it"
        ),
        [one] => format!("; did you mean {one}?"),
        many => format!("; did you mean one of {}?", many.join(", ")),
    }
}

/// The existing versions, with ranges such as `1 to 3`.
fn versions(existing: &[u64]) -> String {
    if let [only] = existing {
        return format!("the only version is {only}");
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &version in existing {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == version => *last = version,
            _ => runs.push((version, version)),
        }
    }
    let run = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    format!("there are {}", runs.iter().map(run).collect::<Vec<_>>().join(", "))
}

/// The first paths, and how many more there are.
fn paths(registered: &Registered) -> String {
    const MAX_SHOWN: usize = 3;
    let mut text = registered.paths.iter().take(MAX_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if registered.paths.len() > MAX_SHOWN {
        text += &format!(" and {} more", registered.paths.len() - MAX_SHOWN);
    }
    if let Some(datastore) = &registered.datastore {
        text += &format!(" in datastore {datastore}");
    }
    printable(&text).into_owned()
}

impl RegistryError {
    /// Converts SQLite's error.
    pub(super) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        if let rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..) = source
        {
            return Self::Damaged { path, what: source.to_string() };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly { path }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, what: source.to_string() }
            }
            _ => Self::Sqlite { path, source },
        }
    }
}
