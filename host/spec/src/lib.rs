//! From a job file to a checked job: YAML -> `RawJob` -> [`JobSpec`], all errors at once. It
//! touches the file system just to see whether what a job names is there.
//!
//! It uses `model` and `files`; `store`, `node` and `leader` may use it, for what a job asks for.
//!
//! - `tree`: YAML text to a small tree that knows its lines;
//! - `azure`: files that were made for Azure's SDKs to trees of our own keys;
//! - `overrides`: `--set key=value`; `options`: settings that stand among the arguments;
//! - `keys`: the one table of all keys, which drives suggestions, the JSON schema and the docs;
//! - `scope`, `given`, `raw`: the tree to typed, optional settings; `measured`: those that are amounts;
//! - `error`: all that is wrong; `words`: what the file calls our keys;
//! - `place`: where the file lies; `reading`: its text; `dialect`: its form;
//! - `defaults`: what holds where the file says nothing; `machine`: what that depends on;
//! - `registered`: names of registered datasets and models to what they stand for;
//! - `models`: the models of a job, all the way; `query`: what databases are asked;
//! - `python`: entry scripts in Python;
//! - `check` and the rest: typed settings to a [`JobSpec`];
//! - `datastores`: the file of datastores, which lies outside of job files;
//! - `user_config`: what a user would otherwise give with an option each time;
//! - `policy`: what the operator of the machine lets a job ask for.

mod arguments;
mod azure;
mod check;
mod csv;
mod datastores;
mod defaults;
mod dialect;
mod docs;
mod error;
mod given;
mod inputs;
mod job;
mod keys;
mod lenient;
mod limits;
mod load;
mod machine;
mod measured;
mod models;
mod mounts;
mod options;
mod output;
mod overrides;
mod parent;
mod partition;
mod passed;
mod place;
mod policy;
mod python;
mod query;
mod raw;
mod reading;
mod registered;
mod requirements;
mod schema;
mod scope;
mod settings_file;
mod small_file;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod times;
mod tree;
mod user_config;
mod words;
mod workers;

#[cfg(test)]
mod tests;

pub use datastores::{Datastore, Datastores};
pub use docs::docs;
pub use error::{ModelPathError, NoDatastore, Origin, SpecError, SpecErrors};
pub use job::{JobSpec, LoadedScript, ModelSpec, Parent, RegisteredModel, Stored, StoredKind};
#[cfg(any(test, feature = "testing"))]
pub use keys::keys_that_decide_rows;
#[cfg(any(test, feature = "testing"))]
pub use load::load_plain;
#[cfg(any(test, feature = "testing"))]
pub use load::load_text;
pub use load::{Surroundings, load};
pub use machine::Machine;
pub use policy::OperatorPolicy;
pub use registered::{NoRegistry, NotRegistered, Registrations};
pub use requirements::Requirement;
pub use schema::schema;
pub use times::default_progress_timeout;
pub use user_config::UserConfig;

use sandmill_files::opening;
use sandmill_model as model;
