//! What commands without a job file look into entry scripts with: the options for it, and what they come to.

use super::config::Config;
use super::exit::Problem;
use super::run::this_program;
use super::{PolicyArgument, WallArgument};
use crate::compile::Compiler;
use crate::model::OsSandbox;
use crate::spec::OperatorPolicy;
use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
pub(super) struct ToolArguments {
    /// Where compiled entry scripts are kept, as for `run`.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    wall: WallArgument,
    #[command(flatten)]
    policy: PolicyArgument,
}

/// What the options come to.
pub(super) struct Tools {
    pub(super) config: Config,
    /// What the operator allows.
    pub(super) policy: OperatorPolicy,
    /// The sandmill binary, for child processes.
    pub(super) program: PathBuf,
    /// How much of the process wall must stand around them.
    pub(super) os_sandbox: OsSandbox,
    /// Looks into components.
    pub(super) compiler: Compiler,
    /// Where compiled code is kept, if not in the usual place.
    pub(super) cache: Option<PathBuf>,
}

impl ToolArguments {
    /// # Errors
    /// If the config file or the policy cannot be used.
    pub(super) fn ready(&self) -> Result<Tools, Problem> {
        let config = Config::load(&self.policy)?;
        let policy = self.policy.load()?;
        let program = this_program()?;
        let os_sandbox = policy.sandbox(self.wall.os_sandbox);
        let compiler = Compiler::new(&program, os_sandbox);
        let cache = config.cache_dir(self.cache_dir.as_deref());
        Ok(Tools { config, policy, program, os_sandbox, compiler, cache })
    }
}
