//! What is wrong with a job file: every error at once, each with its place.

use crate::model::on_one_line;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nowhere: it is missing, or the file as a whole is meant.
    File,
    /// On this line of the job file, from 1.
    Line(usize),
    /// On the command line, by `--set` with this key.
    Set(Arc<str>),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Where.
    pub origin: Origin,
    /// The key's path, as in `inputs[0].path`. Empty if the file as a whole is meant.
    pub key: String,
    /// What was found, what is allowed, what to do.
    pub message: String,
}

/// All that is wrong with a job file. Never empty. Prints one line for each error:
/// `job.yaml:12: mini_batch_size: found "ten"; expected ...`. Keys and messages hold words of the
/// file, so each stays on its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecErrors {
    /// The job file, as the user named it.
    pub file: String,
    /// The errors: by line, those of `--set` last.
    pub errors: Vec<SpecError>,
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = on_one_line(&self.file);
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match &error.origin {
                Origin::File => write!(f, "{file}: ")?,
                Origin::Line(line) => write!(f, "{file}:{line}: ")?,
                Origin::Set(key) => {
                    // The job of a pipeline is picked by an option of its own.
                    f.write_str(if &**key == "job" { "--" } else { "--set " })?;
                    if **key != error.key {
                        write!(f, "{}: ", on_one_line(key))?;
                    }
                }
            }
            if !error.key.is_empty() {
                write!(f, "{}: ", on_one_line(&error.key))?;
            }
            f.write_str(&on_one_line(&error.message))?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecErrors {}

/// More errors than this help nobody.
const MOST_ERRORS: usize = 100;

/// Gathers errors and notices while a file is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    errors: RefCell<Vec<SpecError>>,
    notices: RefCell<Vec<String>>,
}

impl Report {
    pub(super) fn error(&self, origin: &Origin, key: &str, message: impl Into<String>) {
        if self.is_full() {
            return;
        }
        let error =
            SpecError { origin: origin.clone(), key: key.to_owned(), message: message.into() };
        self.errors.borrow_mut().push(error);
    }

    pub(super) fn notice(&self, line: impl Into<String>) {
        let line = line.into();
        self.notices.borrow_mut().push(on_one_line(&line).into_owned());
    }

    /// Whether the key, or something below it, is already known to be wrong.
    pub(super) fn blames(&self, key: &str) -> bool {
        self.errors.borrow().iter().any(|error| {
            error
                .key
                .strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Whether so much is wrong that no more is taken in.
    pub(super) fn is_full(&self) -> bool {
        self.errors.borrow().len() >= MOST_ERRORS
    }

    pub(super) fn is_clean(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub(super) fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    /// The errors in the order in which they are read best.
    pub(super) fn into_errors(self, file: &str) -> SpecErrors {
        let mut errors = self.errors.into_inner();
        errors.sort_by(|a, b| a.origin.cmp(&b.origin));
        if errors.len() >= MOST_ERRORS {
            let message = String::from("there may be more errors; these are the first");
            errors.push(SpecError { origin: Origin::File, key: String::new(), message });
        }
        SpecErrors { file: file.to_owned(), errors }
    }
}
