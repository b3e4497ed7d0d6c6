//! The settings of a job, each in one place: a row of a table. A table is a macro that calls another one with its rows.
//! What is made of them:
//!
//! - here, in `structs`: a struct with the values that `job` goes by, one with those that go to `worker`s, and their
//!   defaults;
//! - in `sandmill-spec`, `keys`: the list of keys, for errors, suggestions, the JSON schema, the operator's policy and
//!   the docs; `given`: what a file says, how it is read, what decides rows, and what a policy may cap.
//!
//! A row is
//!
//! ```text
//! job run_max_try: u32 => {
//!     kind: Kind::Integer { min: 1, max: COUNT },    what its value is made of
//!     values: "..",        the same in words, if those of the kind do not suit; for the docs
//!     default: "3",        in YAML; nothing if there is none
//!     unless_given: "..",  what holds then, in words; for the docs
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
//! To add a setting, add a row and use it: `spec.settings.NAME`, or `setup.settings.NAME` in a worker, and raise the
//! version of the protocol then.
//! `Setting` is implemented once for each type of value.

mod job_keys;
mod limit_keys;
mod setting;
mod structs;

pub use setting::Setting;
pub use structs::{JobLimits, JobSettings, Limits, WorkerSettings};
