//! The child process. Its standard input is the file of appended rows, its standard output the file to make,
//! and its standard error takes one message for the user.

use super::error::ChildError;
use crate::model::{Compression, OsSandbox, OutputFormat, OutputKind};
use crate::output::convert_appended_rows;
use crate::wall::{self, ResourceLimits, Wall, WallRole};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

/// The hidden subcommand. When it is called, the program must call [`serve_finish`] and exit with
/// the result.
pub const FINISH_COMMAND: &str = "finish-output";

/// Bytes of memory that the process may write to: enough for a row group, and the dictionaries of a whole
/// file.
pub(super) const MEMORY_BYTES: u64 = 8 << 30;
/// The limit on CPU seconds, far more than any file needs. The leader itself ends a process that
/// stops reading.
pub(super) const CPU_SECONDS: u64 = 6 * 60 * 60;
/// The largest size of the file, in bytes.
pub(super) const FILE_BYTES: u64 = 1 << 40;
/// How many files may be open at once.
const OPEN_FILES: u64 = 64;
/// The longest message, in bytes.
const MESSAGE_BYTES: usize = 16 << 10;

/// What the process has to make.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FinishTask {
    pub(super) mode: OsSandbox,
    pub(super) kind: OutputKind,
    pub(super) compression: Compression,
    /// The expected number of rows.
    pub(super) rows: u64,
}

impl FinishTask {
    /// The task as the arguments of [`FINISH_COMMAND`].
    pub(super) fn to_arguments(&self) -> [String; 4] {
        let Self { mode, kind, compression, rows } = self;
        [mode.name(), kind.name(), compression.name(), &rows.to_string()].map(str::to_owned)
    }

    fn parse(arguments: &[String]) -> Option<Self> {
        let [mode, kind, compression, rows] = arguments else { return None };
        Some(Self {
            mode: OsSandbox::ALL.into_iter().find(|known| known.name() == mode)?,
            kind: OutputKind::ALL.into_iter().find(|known| known.name() == kind)?,
            compression: Compression::ALL.into_iter().find(|known| known.name() == compression)?,
            rows: rows.parse().ok()?,
        })
    }
}

/// The body of `sandmill finish-output`.
pub fn serve_finish(arguments: &[String]) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error.to_string();
            // If this fails, there is no other way to report the error.
            let _ = writeln!(io::stderr(), "{}", &text[..text.floor_char_boundary(MESSAGE_BYTES)]);
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &[String]) -> Result<(), ChildError> {
    let task = FinishTask::parse(arguments).ok_or(ChildError::ByHand)?;
    wall::enter()?;
    let source = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let target = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let bounds = ResourceLimits {
        memory: Some(MEMORY_BYTES),
        cpu_seconds: Some(CPU_SECONDS),
        largest_file: FILE_BYTES,
        open_files: OPEN_FILES,
    };
    let role = WallRole::Finisher;
    let wall = Wall { role, mode: task.mode, folders: Vec::new(), bounds };
    wall.build()?;
    let format =
        OutputFormat { compression: task.compression, ..OutputFormat::default_for(task.kind) };
    Ok(convert_appended_rows(source, target, &format, task.rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_round_trip_through_the_command_line() {
        for (kind, compression) in
            [(OutputKind::Parquet, Compression::Zstd), (OutputKind::Arrow, Compression::None)]
        {
            for mode in OsSandbox::ALL {
                let arguments = FinishTask { mode, kind, compression, rows: 7 }.to_arguments();
                let task = FinishTask { mode, kind, compression, rows: 7 };
                assert_eq!(FinishTask::parse(&arguments), Some(task));
                assert_eq!(FinishTask::parse(&arguments[..3]), None);
            }
        }
        for wrong in
            ["off parquet zip 1", "off odt none 1", "none arrow none 1", "off arrow none -1"]
        {
            let arguments: Vec<_> = wrong.split(' ').map(str::to_owned).collect();
            assert_eq!(FinishTask::parse(&arguments), None, "{wrong}");
        }
    }
}
