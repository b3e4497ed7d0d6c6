//! Reads a job file into a checked job: YAML -> `RawJob` -> [`JobSpec`], and reports all errors at once. It
//! accesses the file system only to check whether the files that a job names exist.
//!
//! It uses `model` and `files`. `store`, `node` and `leader` may use it to learn a job's settings.
//!
//! - `tree`: parses YAML text into a small tree that knows its lines;
//! - `azure`: converts files that were made for Azure's SDKs into trees of our own keys;
//! - `overrides`: `--set key=value`; `argument_settings`: settings among the arguments;
//! - `keys`: the one table of all keys, which drives suggestions, the JSON schema and the docs;
//! - `scope`, `given_settings`, `raw`: turn the tree into typed, optional settings; `measured`: settings that
//!   are amounts;
//! - `error`: all errors; `error_text`: the file's own names for our keys;
//! - `job_file_location`: the file's folder and name; `reading`: its text; `dialect`: its form; `settings_files`: other
//!   files that it refers to;
//! - `given_job`: a job that another machine has read; `fetched_script`: its entry script;
//! - `defaults`: values for settings that the file leaves out; `machine`: the machine that some of them
//!   depend on;
//! - `registered`: resolves the names of registered datasets and models;
//! - `models`: everything about the models of a job; `query`: the queries for databases;
//! - `python`: entry scripts in Python;
//! - `nodes`: the number of machines, and what a job with a broker needs;
//! - `check` and the rest: turn typed settings into a [`JobSpec`];
//! - `datastores`: the file of datastores, which is separate from job files;
//! - `user_config`: settings that a user would otherwise give as options each time;
//! - `policy`: what the operator of the machine allows a job to request.

mod argument_settings;
mod azure;
mod check;
mod csv;
mod datastores;
mod defaults;
mod dialect;
mod docs;
mod error;
mod error_text;
mod fetched_script;
mod given_job;
mod given_settings;
mod inputs;
mod job;
mod job_file_location;
mod job_store;
mod job_store_place;
mod keys;
mod lenient;
mod limits;
mod load;
mod machine;
mod measured;
mod models;
mod mounts;
mod nodes;
mod output;
mod overrides;
mod parent;
mod partition;
mod policy;
mod prs_arguments;
mod python;
mod query;
mod raw;
mod reading;
mod registered;
mod requirements;
mod schema;
mod scope;
mod settings_file;
mod settings_files;
mod small_file;
mod templates;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod times;
mod tree;
mod uploads;
mod user_config;
mod workers;

#[cfg(test)]
mod tests;

pub use datastores::{Datastore, Datastores};
pub use docs::docs;
pub use error::{ModelPathError, NoDatastore, SettingOrigin, SpecError, SpecErrors};
pub use fetched_script::FetchedScript;
pub use given_job::GivenJob;
pub use job::{JobSpec, LoadedScript, ModelSpec, Parent, RegisteredModel, StoredKind, StoredMount};
pub use job_store_place::JobStorePlace;
#[cfg(any(test, feature = "testing"))]
pub use keys::keys_that_decide_rows;
#[cfg(any(test, feature = "testing"))]
pub use load::load_plain;
#[cfg(any(test, feature = "testing"))]
pub use load::load_text;
pub use load::{LoadContext, load, load_given};
pub use machine::MachineSize;
pub use policy::{OperatorPolicy, SignerRefusal};
pub use registered::{NoRegistry, NotRegistered, Registrations};
pub use requirements::{AcceptedVersions, Requirement};
pub use schema::schema;
pub use times::default_progress_timeout;
pub use user_config::UserConfig;

use sandmill_files::opening;
use sandmill_model as model;
