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
//! The crate that holds it is a `cdylib`:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"]
//! ```
//!
//! `sandmill build` makes a component of it, `sandmill run` runs it. Compiled natively, the same
//! crate is tested with `cargo test`: see `test::TestHost`.
//!
//! A table comes as a [`RecordBatch`](arrow_array::RecordBatch), and may go back as one. [`Columns`]
//! reads its columns by name:
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
//! It reads the files it was given, below the paths in its mini-batch and its arguments, through
//! [`read()`] or `std::fs`; it writes files below [`Job::output_dir`] and [`Job::log_dir`]. There is
//! no network. Environment variables of the job are in [`Job::env`] and `std::env`.
//!
//! # Models
//! [`nn`] has the job's models computed by the host, on the CPU or on a GPU.
//!
//! # Logging and panics
//! The macros of the [`log`] crate and the functions of [`logging`] write to the entry script's
//! log. A panic's message and place go to stderr and to that log, and the attempt fails.

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

/// The guide's code, compiled with the documentation's tests.
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

/// What a job runs: made once per instance by `init`, then given one mini-batch after another.
///
/// Several workers run instances of the same entry script at the same time, each in a process of
/// its own: an instance's state is its own, and no call runs beside another in it.
pub trait EntryScript: Sized + 'static {
    /// What a mini-batch is: [`Files`], [`Table`] or [`Void`].
    type Input: Input;

    /// Makes the instance: reads arguments, loads models. An error ends this worker's start; a job
    /// whose workers keep failing here ends.
    fn init(job: &Job) -> Result<Self>;

    /// Works on one mini-batch: `&[PathBuf]` for files, `RecordBatch` for a table, `()` for void.
    ///
    /// Give one row back for each item that succeeded, in any order, so a row should carry its key.
    /// A row of text must not hold a line break, or the attempt fails.
    ///
    /// An error fails this attempt as a whole, and the job tries the mini-batch again as often as
    /// its `run_max_try` allows; to fail single items, see [`Results::each`].
    fn run(
        &mut self,
        mini_batch: <Self::Input as Input>::MiniBatch<'_>,
        context: &MiniBatchContext,
    ) -> Result<Results>;

    /// Called once after the last mini-batch; not after a trap, a time-out or a kill.
    fn shutdown(&mut self) {}
}

/// Makes the given [`EntryScript`] the one that this crate's component exports. Once per crate.
///
/// Compiled natively, it exports nothing.
#[macro_export]
macro_rules! export {
    ($script:ty) => {
        const _: () = {
            fn is_an_entry_script<S: $crate::EntryScript>() {}
            let _ = is_an_entry_script::<$script>;
        };

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            // Named where nothing else is, so that a script may be called as the items below are.
            type __SandmillScript = $script;

            const _: () = {
                ::std::thread_local! {
                    static INSTANCE: ::std::cell::RefCell<
                        ::std::option::Option<__SandmillScript>,
                    > = const { ::std::cell::RefCell::new(::std::option::Option::None) };
                }

                // Read by the host, which refuses a job with another kind of input before it starts.
                #[unsafe(link_section = "sandmill:takes")]
                static TAKES: [u8; 5] =
                    <<__SandmillScript as $crate::EntryScript>::Input as $crate::Input>::TAKES;

                struct __SandmillComponent;

                // Never inlined: the host finds the crate of a panic's caller by these functions' names.
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
