//! Where the operator's policy comes from.

use super::exit::Problem;
use crate::spec::OperatorPolicy;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The variable that names the policy file.
const VARIABLE: &str = "SANDMILL_POLICY";
/// The policy file of a machine, if nothing names another.
const USUAL: &str = "/etc/sandmill/policy.yaml";

/// Which policy holds.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct PolicyArgument {
    /// What the operator of this machine lets jobs ask for [default: $SANDMILL_POLICY, else
    /// /etc/sandmill/policy.yaml if it is there].
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

impl PolicyArgument {
    /// Reads the policy that holds; without any, everything is allowed.
    ///
    /// One that is there and cannot be read, or is wrong, is an error: whoever could make it so must
    /// not be rid of it.
    pub(super) fn load(&self) -> Result<OperatorPolicy, Problem> {
        match self.which() {
            Some(file) => OperatorPolicy::load(&file)
                .map_err(|errors| Problem::each_line(&errors.to_string())),
            None => Ok(OperatorPolicy::default()),
        }
    }

    /// The policy file that holds, if there is one.
    pub(super) fn which(&self) -> Option<PathBuf> {
        self.file(std::env::var_os(VARIABLE), Path::new(USUAL))
    }

    fn file(&self, variable: Option<OsString>, usual: &Path) -> Option<PathBuf> {
        let named = variable.filter(|name| !name.is_empty()).map(PathBuf::from);
        // A link that leads nowhere is there, too; and what may not be looked at may be there.
        let gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        let is_gone = || usual.symlink_metadata().is_err_and(|error| gone(&error));
        let usual = || (!is_gone()).then(|| usual.to_owned());
        self.policy.clone().or(named).or_else(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_comes_before_the_environment() {
        let there = tempfile::NamedTempFile::new().unwrap();
        let gone = Path::new("/nonexistent/policy.yaml");
        let given = PolicyArgument { policy: Some("a.yaml".into()) };
        let none = PolicyArgument::default();
        let file = |argument: &PolicyArgument, variable: Option<&str>, usual: &Path| {
            argument.file(variable.map(OsString::from), usual)
        };
        assert_eq!(file(&given, Some("b.yaml"), there.path()), Some("a.yaml".into()));
        assert_eq!(file(&none, Some("b.yaml"), there.path()), Some("b.yaml".into()));
        assert_eq!(file(&none, Some(""), there.path()), Some(there.path().to_owned()));
        assert_eq!(file(&none, None, gone), None);
    }
}
