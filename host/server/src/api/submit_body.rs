//! What is submitted: a job file with settings and notes.

use crate::problem::Problem;
use crate::state::ScriptDigest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The longest job file.
pub(crate) const MOST_JOB_FILE: usize = 1 << 20;
/// The most settings and labels of a job, and the longest texts among them.
const MOST_ENTRIES: usize = 64;
const MOST_TEXT: usize = 4096;
/// The priorities.
const PRIORITIES: std::ops::RangeInclusive<i32> = -100..=100;
/// The settings that only the server may give.
const RESERVED: [&str; 2] = ["tenant", "job_store"];

/// A job to be submitted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitBody {
    /// The text of the job file, in YAML.
    pub(crate) job: String,
    /// The digest of an uploaded entry script, which replaces the `entry_script` of the job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) component: Option<ScriptDigest>,
    /// Settings that replace those of the job file, as in `{"mini_batch_size": "10"}`. The values are written as in the file.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
    /// Jobs of the tenant with a higher priority start first, -100 to 100.
    #[serde(default)]
    #[schema(minimum = -100, maximum = 100)]
    pub(crate) priority: i32,
    /// Notes about the job, as in `{"team": "red"}`.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

impl SubmitBody {
    /// Checks everything but the job file.
    ///
    /// # Errors
    /// If something is not as documented.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.job.len() > MOST_JOB_FILE {
            let detail = format!("job: the job file may have at most {MOST_JOB_FILE} bytes");
            return Err(Problem::too_large(detail));
        }
        check_priority(self.priority)?;
        for (what, entries) in [("settings", &self.settings), ("labels", &self.labels)] {
            let fits = |text: &String| text.len() <= MOST_TEXT && !text.contains('\0');
            let are_good = entries.iter().all(|(key, value)| {
                !key.is_empty() && !key.contains('=') && fits(key) && fits(value)
            });
            if entries.len() > MOST_ENTRIES || !are_good {
                return Err(Problem::invalid(format!(
                    "{what}: expected at most {MOST_ENTRIES} texts of at most {MOST_TEXT} bytes, with keys that have no `=`"
                )));
            }
        }
        let reserved = RESERVED.iter().find(|key| self.settings.contains_key(**key));
        reserved.map_or(Ok(()), |key| {
            Err(Problem::invalid(format!(
                "settings.{key}: only the server gives this: leave it out"
            )))
        })
    }
}

/// Checks the priority of a job.
///
/// # Errors
/// If it is out of range.
pub(crate) fn check_priority(priority: i32) -> Result<(), Problem> {
    PRIORITIES.contains(&priority).then_some(()).ok_or_else(|| {
        Problem::invalid(format!("priority: found {priority}; expected -100 to 100"))
    })
}
