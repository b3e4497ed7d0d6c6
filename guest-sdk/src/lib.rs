//! Write Sandmill entry scripts in Rust.
//!
//! An entry script is a type that implements [`EntryScript`], and one call of [`export!`]:
//!
//! ```
//! use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
//! use std::path::PathBuf;
//!
//! struct CountBytes;
//!
//! impl EntryScript for CountBytes {
//!     type Input = Files;
//!
//!     fn init(_job: &Job) -> Result<Self> {
//!         Ok(CountBytes)
//!     }
//!
//!     fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
//!         Ok(Results::each(files, |file| {
//!             let bytes = sandmill_guest::read(file)?;
//!             Ok(format!("{}: {}", file.display(), bytes.len()))
//!         }))
//!     }
//! }
//!
//! sandmill_guest::export!(CountBytes);
//! ```
//!
//! The crate of an entry script is a `cdylib`:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"]
//! ```
//!
//! `sandmill build` compiles it to a component, and `sandmill run` runs it. `cargo test` compiles the same
//! crate natively and tests it: see `test::TestHost`.
//!
//! `run` of a table job receives a [`RecordBatch`](arrow_array::RecordBatch), and may return a table.
//! [`Columns`] reads columns by name:
//!
//! ```
//! # #[cfg(feature = "table")] {
//! use sandmill_guest::arrow_array::RecordBatch;
//! use sandmill_guest::{Columns, EntryScript, Job, MiniBatchContext, Result, Results, Table};
//!
//! struct Double;
//!
//! impl EntryScript for Double {
//!     type Input = Table;
//!
//!     fn init(_job: &Job) -> Result<Self> {
//!         Ok(Double)
//!     }
//!
//!     fn run(&mut self, table: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
//!         let doubled: Vec<f64> = table.f64("x")?.iter().map(|x| 2.0 * x).collect();
//!         Results::with_columns(&table, [("doubled", doubled)])
//!     }
//! }
//! # }
//! ```
//!
//! # What the entry script may do
//! The entry script reads files with [`read()`] or `std::fs`: those of the running mini-batch, and the
//! folders that the job grants. It writes files below [`Job::output_dir`] and [`Job::log_dir`]. It has no
//! network access. The job's environment variables are in [`Job::env`] and `std::env`.
//!
//! # Models
//! [`nn`] runs the job's models (inference). The host does the computation, on the CPU or on a GPU.
//!
//! # Logging and panics
//! The macros of the [`log`] crate and the functions of [`logging`] write to the entry script's
//! log. A panic writes its message and location to stderr and to that log, and fails the attempt.

#[cfg(not(target_arch = "wasm32"))]
mod captured;
#[cfg(feature = "table")]
mod columns;
mod error;
mod input;
mod job;
pub mod logging;
pub mod nn;
mod read;
mod results;
#[cfg(feature = "table")]
mod table;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
#[cfg(not(target_arch = "wasm32"))]
pub mod test;

/// Compiles the code examples of the guide as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/entry-scripts.md")]
struct Guide;

#[cfg(feature = "table")]
pub use arrow_array;
#[cfg(feature = "table")]
pub use arrow_schema;
#[cfg(feature = "table")]
pub use columns::{Columns, IntoColumn};
pub use error::{Context, Error, Result};
#[cfg(feature = "table")]
pub use input::Table;
pub use input::{Files, Input, Void};
pub use job::{Job, MiniBatchContext};
pub use log;
pub use read::read;
pub use results::Results;

/// What a job runs. `init` makes an instance, which then receives one mini-batch after another.
///
/// Several workers run instances of the same entry script at the same time, each in its own process.
/// Instances share no state, and an instance serves one call at a time.
pub trait EntryScript: Sized + 'static {
    /// The kind of mini-batch: [`Files`], [`Table`] or [`Void`].
    type Input: Input;

    /// Makes the instance, for example reads arguments and loads models. If `init` returns an error, this
    /// worker does not start. The job ends if `init` keeps failing.
    fn init(job: &Job) -> Result<Self>;

    /// Works on one mini-batch: `&[PathBuf]` for files, `RecordBatch` for a table, `()` for void.
    ///
    /// Return one row for each item that succeeded. The rows may be in any order, so a row should contain
    /// its key. A line break inside a row of text fails the attempt.
    ///
    /// An error fails the whole attempt, and the job retries the mini-batch up to the limit `run_max_try`. To
    /// fail single items, see [`Results::each`].
    fn run(
        &mut self,
        mini_batch: <Self::Input as Input>::MiniBatch<'_>,
        context: &MiniBatchContext,
    ) -> Result<Results>;

    /// Called once after the last mini-batch, but not after a trap, a time-out or a kill.
    fn shutdown(&mut self) {}
}

/// Exports the given [`EntryScript`] from this crate's component. Call it once per crate.
///
/// In a native build it exports nothing.
#[macro_export]
macro_rules! export {
    ($script:ty) => {
        const _: () = {
            fn is_an_entry_script<S: $crate::EntryScript>() {}
            let _ = is_an_entry_script::<$script>;
        };

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            // The items below are in an inner scope, where only the alias is visible. The script may therefore
            // have the same name as one of them.
            type __SandmillScript = $script;

            const _: () = {
                ::std::thread_local! {
                    static INSTANCE: ::std::cell::RefCell<
                        ::std::option::Option<__SandmillScript>,
                    > = const { ::std::cell::RefCell::new(::std::option::Option::None) };
                }

                // The host reads this section. It refuses a job with another kind of input before the job
                // starts.
                #[unsafe(link_section = "sandmill:takes")]
                static TAKES: [u8; 5] =
                    <<__SandmillScript as $crate::EntryScript>::Input as $crate::Input>::TAKES;

                struct __SandmillComponent;

                // The names of these functions include the entry script's crate. If code of another
                // crate panics, the host finds the entry script's crate by these names in the
                // backtrace. So the functions must not be inlined.
                impl $crate::component::Guest for __SandmillComponent {
                    #[inline(never)]
                    fn init() -> ::std::result::Result<(), ::std::string::String> {
                        $crate::component::init(&INSTANCE)
                    }

                    #[inline(never)]
                    fn run(
                        batch: $crate::component::MiniBatch,
                        context: $crate::component::MiniBatchContext,
                    ) -> ::std::result::Result<$crate::component::Results, ::std::string::String>
                    {
                        $crate::component::run(&INSTANCE, batch, context)
                    }

                    #[inline(never)]
                    fn shutdown() {
                        $crate::component::shutdown(&INSTANCE);
                    }
                }

                $crate::component::bindings::export!(
                    __SandmillComponent with_types_in $crate::component::bindings
                );
            };
        };
    };
}
