//! The settings of a job. Each setting is one row of a table. A table is a macro that passes its rows to
//! another macro. Three macros use the tables:
//!
//! - `structs`, in this folder: makes a struct of the `job` settings, a struct of the `worker` settings, and
//!   the defaults;
//! - `keys`, in `sandmill-spec`: makes the list of keys, for errors, suggestions, the JSON schema, the
//!   operator's policy and the docs;
//! - `given`, in `sandmill-spec`: makes the struct of a job file's values and the code that reads
//!   them. It also lists the settings that affect rows, and those that a policy may cap.
//!
//! A row looks like this:
//!
//! ```text
//! job run_max_try: u32 => {
//!     kind: KeyKind::Integer { min: 1, max: COUNT },    the kind of the value
//!     values: "..",        the allowed values, if the docs need other words than those of the kind
//!     default: "3",        in YAML; left out if there is none
//!     unless_given: "..",  the text for the default in the docs
//!     expected: "..",      for the end of an error that says "expected"
//!     example: "3",        in YAML
//!     description: "..",   one or two sentences, for the schema; quoted words are in backquotes
//!     docs: "..",          a longer description for the docs, if it is needed
//!     prs: PrsNames::Setting("..", ".."),     what ParallelRunStep calls it
//!     rows: DecidesRows::Not(".."),      whether it decides rows, or why not
//!     ceiling: most { .., .., .. },      the key of the operator's policy that caps the setting: what is
//!                                        expected, an example, a description; `most same` if these texts
//!                                        are those of this row; or `no ".."`, why the setting needs no
//!                                        ceiling
//!     enforced: "..", by "..",           for a limit: the file that enforces it, and a test
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
