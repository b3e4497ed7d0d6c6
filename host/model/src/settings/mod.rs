//! The settings of a job. Each is one row of a table. A table is a macro that calls another macro with its
//! rows. Three macros use the tables:
//!
//! - `structs`, here: a struct with the values of `job` settings, one with those of `worker` settings, and
//!   the defaults;
//! - `keys`, in `sandmill-spec`: the list of keys, for errors, suggestions, the JSON schema, the operator's
//!   policy and the docs;
//! - `given`, in the same crate: a file's values, how they are read, which settings affect rows, and which a
//!   policy may cap.
//!
//! A row looks like this:
//!
//! ```text
//! job run_max_try: u32 => {
//!     kind: Kind::Integer { min: 1, max: COUNT },    what its value is made of
//!     values: "..",        the same in words, where the docs need other words than those of the kind
//!     default: "3",        in YAML; nothing if there is none
//!     unless_given: "..",  the default in words, for the docs
//!     expected: "..",      for the end of an error that says "expected"
//!     example: "3",        in YAML
//!     description: "..",   one or two sentences, for the schema; quoted words stand in backquotes
//!     docs: "..",          more of it for the docs, if there is more to say
//!     prs: Prs::Setting("..", ".."),     what ParallelRunStep calls it
//!     rows: Rows::Not(".."),             whether it decides rows, or why not
//!     ceiling: most { .., .., .. },      the key of the operator's policy that caps it: what is expected, an
//!                                        example, a description; `most same` if it is as this one; or `no ".."`, why
//!                                        it needs none
//!     enforced: "..", by "..",           of a limit: in which file, and by which test that is held
//! }
//! ```
//!
//! To add a setting, add a row and use it as `spec.settings.NAME`, or, in a worker, as `setup.settings.NAME`.
//! A new setting of workers needs a new version of the protocol. Implement `Setting` once for each new type
//! of value.

mod job_keys;
mod limit_keys;
mod setting;
mod structs;

pub use setting::Setting;
pub use structs::{JobLimits, JobSettings, Limits, WorkerSettings};
