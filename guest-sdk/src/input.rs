//! The kinds of mini-batches.

use crate::{Error, Result};
use std::path::PathBuf;

/// A mini-batch of files: `run` receives `&[PathBuf]`.
#[derive(Debug)]
pub enum Files {}

/// A mini-batch of rows: `run` receives a `RecordBatch`.
#[cfg(feature = "table")]
#[derive(Debug)]
pub enum Table {}

/// No data: the job runs the entry script a set number of times, and `run` receives `()`.
#[derive(Debug)]
pub enum Void {}

/// A kind of mini-batch. Only [`Files`], [`Table`] and [`Void`] implement it.
pub trait Input: sealed::Receive {
    /// The mini-batch that `run` receives.
    type MiniBatch<'a>;

    /// The name of the kind, padded with spaces. The host reads this name from the component.
    #[doc(hidden)]
    const TAKES: [u8; 5];

    #[doc(hidden)]
    fn receive<R>(raw: Raw, run: impl FnOnce(Self::MiniBatch<'_>) -> Result<R>) -> Result<R>;
}

mod sealed {
    pub trait Receive {}
    impl Receive for super::Files {}
    #[cfg(feature = "table")]
    impl Receive for super::Table {}
    impl Receive for super::Void {}
}

/// A mini-batch as it arrives, before it is decoded.
#[doc(hidden)]
#[derive(Debug)]
pub enum Raw {
    Files(Vec<PathBuf>),
    /// An Arrow IPC stream.
    Ipc(Vec<u8>),
    /// The table of a native test.
    #[cfg(feature = "table")]
    Table(arrow_array::RecordBatch),
    Void,
}

#[cfg(not(target_arch = "wasm32"))]
impl Raw {
    pub(crate) fn items(&self) -> usize {
        match self {
            Raw::Files(files) => files.len(),
            #[cfg(feature = "table")]
            Raw::Table(table) => table.num_rows(),
            // Native tests have no streams.
            Raw::Ipc(_) | Raw::Void => 0,
        }
    }
}

impl Input for Files {
    type MiniBatch<'a> = &'a [PathBuf];
    const TAKES: [u8; 5] = *b"files";

    fn receive<R>(raw: Raw, run: impl FnOnce(&[PathBuf]) -> Result<R>) -> Result<R> {
        match raw {
            Raw::Files(files) => run(&files),
            other => Err(misfit(InputKindValue::Files, &other)),
        }
    }
}

#[cfg(feature = "table")]
impl Input for Table {
    type MiniBatch<'a> = arrow_array::RecordBatch;
    const TAKES: [u8; 5] = *b"table";

    fn receive<R>(raw: Raw, run: impl FnOnce(arrow_array::RecordBatch) -> Result<R>) -> Result<R> {
        match raw {
            Raw::Ipc(bytes) => run(crate::table::decode(bytes)?),
            Raw::Table(batch) => run(batch),
            other => Err(misfit(InputKindValue::Table, &other)),
        }
    }
}

impl Input for Void {
    type MiniBatch<'a> = ();
    const TAKES: [u8; 5] = *b"void ";

    fn receive<R>(raw: Raw, run: impl FnOnce(()) -> Result<R>) -> Result<R> {
        match raw {
            Raw::Void => run(()),
            other => Err(misfit(InputKindValue::Void, &other)),
        }
    }
}

/// The error for a mini-batch of another kind.
fn misfit(wanted: InputKindValue, got: &Raw) -> Error {
    let (got, found) = match got {
        Raw::Files(_) => (InputKindValue::Files, "files"),
        Raw::Ipc(_) => (InputKindValue::Table, "a table"),
        #[cfg(feature = "table")]
        Raw::Table(_) => (InputKindValue::Table, "a table"),
        Raw::Void => (InputKindValue::Void, "void"),
    };
    let takes = match wanted {
        InputKindValue::Files => "files (`type Input = Files`)",
        InputKindValue::Table => "a table (`type Input = Table`)",
        InputKindValue::Void => "no data (`type Input = Void`)",
    };
    let remedy = match (wanted, got) {
        (InputKindValue::Void, _) => {
            "set `rank_mini_batch_count` in the job file, or set the `type Input` of its inputs"
        }
        (_, InputKindValue::Void) => {
            "remove `rank_mini_batch_count` from the job file and give it inputs, or set `type \
             Input = Void`"
        }
        (InputKindValue::Table, _) => {
            "give the job's inputs `format: csv`, or set `type Input = Files`"
        }
        (InputKindValue::Files, _) => "leave the inputs' `format` out, or set `type Input = Table`",
    };
    Error::new(format!("this entry script takes {takes}, but the mini-batch is {found}: {remedy}"))
}

/// The kinds of mini-batches as values.
#[derive(Clone, Copy)]
enum InputKindValue {
    Files,
    Table,
    Void,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text<I: Input>(raw: Raw) -> String {
        I::receive(raw, |_| Ok(())).unwrap_err().to_string()
    }

    #[test]
    fn the_remedy_fits_the_expected_and_actual_input() {
        let files = || Raw::Files(Vec::new());
        assert_eq!(
            error_text::<Void>(files()),
            "this entry script takes no data (`type Input = Void`), but the mini-batch is files: \
             set `rank_mini_batch_count` in the job file, or set the `type Input` of its inputs"
        );
        assert_eq!(
            error_text::<Files>(Raw::Void),
            "this entry script takes files (`type Input = Files`), but the mini-batch is void: \
             remove `rank_mini_batch_count` from the job file and give it inputs, or set `type \
             Input = Void`"
        );
        assert!(
            error_text::<Files>(Raw::Ipc(Vec::new())).ends_with(
                "is a table: leave the inputs' `format` out, or set `type Input = Table`"
            )
        );
        #[cfg(feature = "table")]
        assert!(error_text::<Table>(files()).ends_with(
            "is files: give the job's inputs `format: csv`, or set `type Input = Files`"
        ));
        #[cfg(feature = "table")]
        assert!(error_text::<Table>(Raw::Void).contains("remove `rank_mini_batch_count`"));
        assert!(error_text::<Void>(Raw::Ipc(Vec::new())).contains("set `rank_mini_batch_count`"));
    }
}
