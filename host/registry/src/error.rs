//! Errors of a registry, for people.

use super::settings::{PATIENCE, VARIABLE};
use rusqlite::ErrorCode;
use sandmill_model::{Registered, RegisteredKind, RegisteredName, printable};
use std::path::{Path, PathBuf};

/// Why a registry cannot be used, or does not have what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// No environment variable says where the registry is.
    #[error(
        "there is no place for the registry: none of {VARIABLE}, XDG_DATA_HOME and HOME is set. Set \
         {VARIABLE} to a file in a folder of yours"
    )]
    NoPlace,
    /// Other users could write to it.
    #[error(
        "the registry cannot be trusted: {} {why}, so others could decide what jobs read. Close it with \
         `chmod go-w`, or name another file in {VARIABLE}",
        path.display()
    )]
    Open {
        /// The file or its folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file or its folder cannot be used.
    #[error("the registry {}: {source}; name another file in {VARIABLE}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Another process has locked it for too long.
    #[error(
        "the registry {} has been in use by another process for {} s; try again when that has ended",
        path.display(),
        PATIENCE.as_secs()
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
         another file in {VARIABLE}",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what this program wrote.
    #[error(
        "the registry {} is damaged ({what}): replace it with an intact copy, or move it away \
         and register anew",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file is a database of something else.
    #[error(
        "{} is a database, but not a registry of sandmill; name another file in {VARIABLE}",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a later version.
    #[error(
        "the registry {} has format {found}, and this version of sandmill knows {known}: use a newer \
         one, or name another file in {VARIABLE}",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The format of this build.
        known: i64,
    },
    /// Anything else.
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
        /// What was asked for.
        wanted: RegisteredName,
        /// Similar names, nearest first.
        nearest: Vec<String>,
    },
    /// The name has no such version.
    #[error("{} {} has no version {version}; {}", kind.word(), name, versions(there))]
    NoVersion {
        /// A dataset or a model.
        kind: RegisteredKind,
        /// Its name.
        name: String,
        /// The requested version.
        version: u64,
        /// The existing versions, at least one, in rising order.
        there: Vec<u64>,
    },
    /// The name is already registered.
    #[error(
        "{} {} is registered already, by {} at {}: {}; add --new-version to register it as version \
         {}, or take another name",
        kind.word(),
        there.title(),
        printable(&there.by),
        there.registered.strftime("%Y-%m-%d %H:%M:%SZ"),
        paths(there),
        there.version + 1
    )]
    Taken {
        /// A dataset or a model.
        kind: RegisteredKind,
        /// Its latest version.
        there: Box<Registered>,
    },
}

fn near(kind: RegisteredKind, wanted: &RegisteredName, nearest: &[String]) -> String {
    let word = kind.word();
    let name = &wanted.name;
    match nearest {
        [] => format!(
            "; `sandmill {word} list` shows what there is, and `sandmill {word} register {name} \
             PATH` registers it"
        ),
        [one] => format!("; did you mean {one}?"),
        many => format!("; did you mean one of {}?", many.join(", ")),
    }
}

fn versions(there: &[u64]) -> String {
    if let [only] = there {
        return format!("the only one is {only}");
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &version in there {
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
    const SHOWN: usize = 3;
    let mut text = registered.paths.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if registered.paths.len() > SHOWN {
        text += &format!(" and {} more", registered.paths.len() - SHOWN);
    }
    if let Some(datastore) = &registered.datastore {
        text += &format!(" in datastore {datastore}");
    }
    printable(&text).into_owned()
}

impl RegistryError {
    /// Converts SQLite's error.
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> Self {
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
