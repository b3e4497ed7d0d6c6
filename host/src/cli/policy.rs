//! Finds the operator's policy.

use super::exit::Problem;
use crate::engine::{JobState, PolicyUsed};
use crate::model::JobDir;
use crate::run::Options;
use crate::spec::OperatorPolicy;
use anyhow::anyhow;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// The variable that names the policy file.
const VARIABLE: &str = "SANDMILL_POLICY";
/// The policy file, unless the user names another file.
const DEFAULT_FILE: &str = "/etc/sandmill/policy.yaml";

/// The policy to use.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct PolicyArgument {
    /// The policy file, in which the operator of this machine limits what jobs may ask for [default:
    /// $SANDMILL_POLICY, else /etc/sandmill/policy.yaml if it exists].
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// The tenant for whom a job runs.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct TenantArgument {
    /// The tenant for whom the job runs: `${tenant}` in the roots of the policy stands for its name, and the job file cannot
    /// choose another one.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// The weight of the tenant. A tenant of weight 3 gets three times as much of the machine (machine, in the policy) as a tenant
    /// of weight 1.
    #[arg(long, value_name = "N", requires = "tenant")]
    weight: Option<NonZeroU32>,
}

impl TenantArgument {
    /// Reads the policy for this tenant, if one is given.
    pub(super) fn policy(&self, policy: &PolicyArgument) -> Result<OperatorPolicy, Problem> {
        let loaded = policy.load_for(self.tenant.as_deref())?;
        Ok(match self.weight {
            Some(weight) => loaded.with_weight(weight),
            None => loaded,
        })
    }
}

/// A name that a tenant may have, in place of the names of all tenants.
#[cfg(feature = "server")]
pub(super) const ANY_TENANT: &str = "any";
/// The message if a tenant is given and no policy.
const NO_POLICY: &str = "--tenant: there is no policy, which would say what the tenant's jobs may do: name one with --policy FILE, or \
                         set only the tenant's name with --set tenant=NAME";

impl PolicyArgument {
    /// Reads the policy. Without a policy file, everything is allowed.
    ///
    /// A policy file that exists but cannot be read, or is wrong, is an error. Otherwise, a user who can
    /// break the file could evade the policy.
    pub(super) fn load(&self) -> Result<OperatorPolicy, Problem> {
        self.load_for(None)
    }

    fn load_for(&self, tenant: Option<&str>) -> Result<OperatorPolicy, Problem> {
        match self.which() {
            Some(file) => OperatorPolicy::load_for(&file, tenant)
                .map_err(|errors| Problem::each_line(&errors.to_string())),
            None if tenant.is_some() => Err(Problem::usage(anyhow!(NO_POLICY))),
            None => Ok(OperatorPolicy::default()),
        }
    }

    /// Reads the policy as for the jobs of a tenant that does not exist, to find its errors.
    #[cfg(feature = "server")]
    pub(super) fn load_for_any_tenant(&self) -> Result<OperatorPolicy, Problem> {
        self.load_for(Some(ANY_TENANT))
    }

    /// The path of the policy file; `None` if there is none.
    pub(super) fn which(&self) -> Option<PathBuf> {
        self.file(std::env::var_os(VARIABLE), Path::new(DEFAULT_FILE))
    }

    fn file(&self, variable: Option<OsString>, default: &Path) -> Option<PathBuf> {
        let named = variable.filter(|name| !name.is_empty()).map(PathBuf::from);
        // A dangling link counts as a policy file, and so does a path that we may not access.
        let is_not_found = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        let is_missing = || default.symlink_metadata().is_err_and(|error| is_not_found(&error));
        let default = || (!is_missing()).then(|| default.to_owned());
        self.policy.clone().or(named).or_else(default)
    }
}

/// The notice for a job that is resumed under a policy that differs from the policy of its last run. This is
/// not an error: the current policy applies.
pub(super) fn other_policy(options: &Options) -> Option<String> {
    let earlier = JobState::read(&JobDir::new(&options.job_dir)).ok()??;
    policy_note(earlier.started_by?.policy.as_ref(), options.policy_used().as_ref())
}

fn policy_note(last: Option<&PolicyUsed>, current: Option<&PolicyUsed>) -> Option<String> {
    let note = match (last, current) {
        (None, None) => return None,
        (Some(last), None) => {
            let last = last.file.display();
            format!("policy: the last run of this job was under {last}; no policy applies now")
        }
        (None, Some(current)) => {
            let current = current.file.display();
            format!("policy: the last run of this job was under no policy; {current} applies now")
        }
        (Some(last), Some(current)) if last.sha256 == current.sha256 => return None,
        (Some(last), Some(current)) if last.file == current.file => {
            let current = current.file.display();
            format!(
                "policy: {current} has changed since the last run of this job; the current one applies"
            )
        }
        (Some(last), Some(current)) => {
            let (last, current) = (last.file.display(), current.file.display());
            format!("policy: the last run of this job was under {last}; {current} applies now")
        }
    };
    Some(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_policy_is_reported() {
        let policy = |file: &str, sha256: &str| {
            Some(PolicyUsed { file: file.into(), sha256: sha256.to_owned() })
        };
        let (one, changed, other) = (policy("/a", "1"), policy("/a", "2"), policy("/b", "2"));
        let note = |last: &Option<PolicyUsed>, current: &Option<PolicyUsed>| {
            policy_note(last.as_ref(), current.as_ref()).unwrap_or_default()
        };
        assert_eq!((note(&one, &one), note(&None, &None)), (String::new(), String::new()));
        assert_eq!(note(&changed, &other), "", "the same text elsewhere");
        let notes =
            [note(&one, &None), note(&None, &one), note(&one, &changed), note(&one, &other)];
        insta::assert_snapshot!(notes.join("\n"), @"
        policy: the last run of this job was under /a; no policy applies now
        policy: the last run of this job was under no policy; /a applies now
        policy: /a has changed since the last run of this job; the current one applies
        policy: the last run of this job was under /a; /b applies now
        ");
    }

    #[test]
    fn the_command_line_comes_before_the_environment() {
        let there = tempfile::NamedTempFile::new().unwrap();
        let gone = Path::new("/nonexistent/policy.yaml");
        let given = PolicyArgument { policy: Some("a.yaml".into()) };
        let none = PolicyArgument::default();
        let file = |argument: &PolicyArgument, variable: Option<&str>, default: &Path| {
            argument.file(variable.map(OsString::from), default)
        };
        assert_eq!(file(&given, Some("b.yaml"), there.path()), Some("a.yaml".into()));
        assert_eq!(file(&none, Some("b.yaml"), there.path()), Some("b.yaml".into()));
        assert_eq!(file(&none, Some(""), there.path()), Some(there.path().to_owned()));
        assert_eq!(file(&none, None, gone), None);
    }
}
