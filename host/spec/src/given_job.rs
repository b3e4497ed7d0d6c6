//! A job whose texts, and possibly whose entry script, came from another machine.

use super::fetched_script::FetchedScript;
use super::registered::{NotRegistered, Registrations};
use crate::model::{FoundName, JobText, Registered, RegisteredKind, RegisteredName};
use std::cell::RefCell;

/// A job that another machine has read.
#[derive(Clone, Debug)]
pub struct GivenJob {
    /// The texts of the job.
    pub text: JobText,
    /// What was fetched to this machine.
    pub script: FetchedScript,
    /// The SHA-256 of the other machine's component, in hexadecimal. `None` if a runtime loads the script.
    pub component: Option<String>,
}

/// The registered names that another machine has looked up.
pub(super) struct GivenNames<'a>(pub(super) &'a JobText);

impl Registrations for GivenNames<'_> {
    fn find(
        &self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, NotRegistered> {
        self.0.find(kind, wanted).cloned().ok_or_else(|| {
            let message = format!(
                "found {wanted}, a {} that was not looked up when the job file was read; start the job again",
                kind.word()
            );
            NotRegistered::Failed(message)
        })
    }
}

/// Keeps what is looked up.
pub(super) struct KeptNames<'a> {
    registrations: &'a dyn Registrations,
    found: RefCell<Vec<FoundName>>,
}

impl<'a> KeptNames<'a> {
    pub(super) fn new(registrations: &'a dyn Registrations) -> Self {
        Self { registrations, found: RefCell::default() }
    }

    pub(super) fn into_found(self) -> Vec<FoundName> {
        self.found.into_inner()
    }
}

impl Registrations for KeptNames<'_> {
    fn find(
        &self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, NotRegistered> {
        let found = self.registrations.find(kind, wanted)?;
        let version = wanted.version;
        let name = FoundName { kind, version, found: found.clone() };
        let mut names = self.found.borrow_mut();
        if !names.contains(&name) {
            names.push(name);
        }
        Ok(found)
    }

    fn means(&self, kind: RegisteredKind, name: &str) -> &'static str {
        self.registrations.means(kind, name)
    }
}
