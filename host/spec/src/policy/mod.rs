//! The operator's policy: what a job may ask for, whoever wrote its job file. Part of `spec`, as it has
//! the keys, the parser and the words of a job file.
//!
//! - `file`: from a policy file to an [`OperatorPolicy`];
//! - `amounts`: the settings that have ceilings;
//! - `apply`: a job's settings against the ceilings;
//! - `owner`: who may change the policy file;
//! - `models`: the names of models, and models of the entry script's own;
//! - `places`: what a job names against the `roots`, each for one kind of `place`; `real`: a path without links;
//!   `overlap`: roots that reach into job directories;
//! - `stores`: the stores that a job may read.

mod amounts;
mod apply;
mod file;
mod models;
mod overlap;
mod owner;
mod place;
mod places;
mod real;
mod roots;
mod stores;

#[cfg(test)]
mod tests;

pub use file::OperatorPolicy;
pub(crate) use place::Place;
