//! The options and tools of commands that open entry scripts without a job file.

use super::config::Config;
use super::exit::Problem;
use super::run::this_program;
use super::{PolicyArgument, WallArgument};
use crate::compile::Compiler;
use crate::model::OsSandbox;
use crate::spec::OperatorPolicy;
use std::path::PathBuf;

/// The options of such a command.
#[derive(Debug, clap::Args)]
pub(super) struct ToolArguments {
    /// The folder for compiled entry scripts, as for `run`.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    wall: WallArgument,
    #[command(flatten)]
    policy: PolicyArgument,
}

/// The tools that the options select.
pub(super) struct ToolSettings {
    pub(super) config: Config,
    pub(super) policy: OperatorPolicy,
    /// The sandmill binary, for child processes.
    pub(super) program: PathBuf,
    /// The sandbox that the child processes must get from the operating system.
    pub(super) os_sandbox: OsSandbox,
    /// Parses components in child processes.
    pub(super) compiler: Compiler,
    /// The cache for compiled code. `None` means the default one.
    pub(super) cache: Option<PathBuf>,
}

impl ToolArguments {
    /// Reads the config file and the policy, and sets up the compiler.
    ///
    /// # Errors
    /// If the config file or the policy cannot be used.
    pub(super) fn load(&self) -> Result<ToolSettings, Problem> {
        let config = Config::load(&self.policy)?;
        let policy = self.policy.load()?;
        let program = this_program()?;
        let os_sandbox = policy.sandbox(self.wall.os_sandbox);
        let compiler = Compiler::new(&program, os_sandbox);
        let cache = config.cache_dir(self.cache_dir.as_deref());
        Ok(ToolSettings { config, policy, program, os_sandbox, compiler, cache })
    }
}
