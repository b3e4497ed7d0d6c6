//! The `sandmill` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandmill::cli::main()
}
