//! Errors of reading a job in a job store. The texts are shown to users.

use super::claim_error::ClaimError;
use crate::journal::JournalError;
use crate::model::nearest;
use std::io;
use std::path::{Path, PathBuf};

/// The maximum number of names that an error lists.
const MAX_NAMED: usize = 10;

/// Why a job in a job store cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// There is no such store.
    #[error(
        "there is no job store {}: name the folder of the job's job_store, or mount the shared folder on this \
         machine",
        .0.display()
    )]
    NoStore(PathBuf),
    /// The store has no such job.
    #[error("the job store {store} has no job called {name}{known}")]
    NoJob {
        /// The store.
        store: String,
        /// The name that was given.
        name: String,
        /// The jobs that the store has, as the rest of the sentence.
        known: String,
    },
    /// No run of the job has begun its commit log.
    #[error("job {name} has not begun: its commit log has no record yet; try again later")]
    NotBegun {
        /// The job.
        name: String,
    },
    /// This version cannot read the job's state.
    #[error(transparent)]
    State(#[from] ClaimError),
    /// The commit log, or another part of the store, cannot be read or written.
    #[error(transparent)]
    Store(#[from] JournalError),
    /// The job's logs in the store cannot be understood.
    #[error("the copies of the job's logs in {place} are not what was written: {what}")]
    Logs {
        /// Where they are.
        place: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The cache folder cannot be used.
    #[error(
        "the job's logs cannot be copied to {}: {source}; name another cache folder in SANDMILL_CACHE_DIR",
        folder.display()
    )]
    Cache {
        /// The folder for the copies.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ViewError {
    pub(super) fn cache(folder: &Path, source: io::Error) -> Self {
        Self::Cache { folder: folder.to_owned(), source }
    }

    /// The error for a name that no job in the store has.
    pub(super) fn no_job(store: &str, name: &str, names: &[String]) -> Self {
        let known = match (names.is_empty(), nearest(name, names.iter().map(String::as_str))) {
            (true, _) => ": it has no jobs".to_owned(),
            (false, like) => {
                let like = like.map(|like| format!("; did you mean {like}?")).unwrap_or_default();
                let end = if like.is_empty() { "." } else { "" };
                let more = names.len().saturating_sub(MAX_NAMED);
                let list = names[..names.len().min(MAX_NAMED)].join(", ");
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{like}{end} The jobs there: {list}{more}")
            }
        };
        Self::NoJob { store: store.to_owned(), name: name.to_owned(), known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = |name: &str, known: &[&str]| {
            let names: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
            ViewError::no_job("/jobs", name, &names).to_string()
        };
        insta::assert_snapshot!(error("nightly", &[]), @"the job store /jobs has no job called nightly: it has no jobs");
        insta::assert_snapshot!(error("nigthly", &["iris", "nightly"]), @"the job store /jobs has no job called nigthly; did you mean nightly? The jobs there: iris, nightly");
        insta::assert_snapshot!(error("zebra", &["iris"]), @"the job store /jobs has no job called zebra. The jobs there: iris");
    }
}
