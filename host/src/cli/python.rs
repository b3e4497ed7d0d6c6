//! `sandmill python`: the runtime of entry scripts in Python.

use super::config::Config;
use super::exit::{Exit, Problem};
use super::{PolicyArgument, WallArgument, print_paths, run, say};
use crate::compile::Compiler;
use crate::runtimes;
use std::path::PathBuf;

/// A command about Python.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Makes the runtime of Python scripts, and compiles it: once for a machine and a version of Sandmill.
    ///
    /// Your own pip (or uv) fetches what makes it. No other command fetches it.
    Install(Install),
}

/// What to install, and from where.
#[derive(Debug, clap::Args)]
pub(super) struct Install {
    /// The runtime: light is CPython with its standard library.
    #[arg(value_enum, default_value = "light")]
    runtime: Runtime,
    /// A folder with the runtime's file of a release, or with a wheel of componentize-py; nothing is fetched then.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The folder for the runtime, as that of the program itself; unless given, a folder beside compiled code.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Where compiled entry scripts are kept, as for `run`.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    wall: WallArgument,
    #[command(flatten)]
    policy: PolicyArgument,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Runtime {
    Light,
}

/// Does what the command says.
pub(super) fn python(command: &Command) -> Result<Exit, Problem> {
    let Command::Install(install) = command;
    let Runtime::Light = install.runtime;
    let policy = install.policy.load()?;
    let cache = Config::load(&install.policy)?.cache_dir(install.cache_dir.as_deref());
    let sandbox = policy.sandbox(install.wall.os_sandbox);
    let compiler = Compiler::new(&run::this_program()?, sandbox);
    let path = runtimes::install(
        &compiler,
        cache.as_deref(),
        install.from.as_deref(),
        install.into.as_deref(),
        &mut say,
    )
    .map_err(Problem::usage)?;
    print_paths(&[path])?;
    Ok(Exit::Completed)
}
