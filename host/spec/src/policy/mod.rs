//! The operator's policy: what any job may request, regardless of the author of its job file. This folder
//! is part of `spec` because it uses the keys, the parser and the error texts of job files.
//!
//! - `file`: reads a policy file into an [`OperatorPolicy`];
//! - `amounts`: the settings that have ceilings;
//! - `apply`: checks a job's settings against the ceilings;
//! - `owner`: checks who can change the policy file;
//! - `models`: checks the names of models, and models that the entry script loads from bytes;
//! - `places`: checks paths against the `roots`; each root is for one use of folders (`folder_use`); `real`:
//!   resolves a path's links; `overlap`: refuses roots that overlap job directories;
//! - `stores`: checks the stores that a job may use; `store_roots`: the addresses below which its objects must be;
//!   `names`: reads lists of names;
//! - `signers`: reads the signers of jobs; `signed`: the policy for the jobs of one of them;
//! - `uploads`: data that a submitter has uploaded into its job's folder of the job store.

mod amounts;
mod apply;
mod file;
mod folder_use;
mod models;
mod names;
mod overlap;
mod owner;
mod places;
mod real;
mod roots;
mod signed;
mod signers;
mod store_roots;
mod stores;
mod uploads;

#[cfg(test)]
mod job_store_tests;
#[cfg(test)]
mod signers_tests;
#[cfg(test)]
mod store_roots_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod uploads_tests;

pub use file::OperatorPolicy;
pub(crate) use folder_use::FolderUse;
pub(crate) use places::fixed_part;
pub use signed::SignerRefusal;
