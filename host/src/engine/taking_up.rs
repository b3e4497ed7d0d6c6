//! What to do where a job was run before: take it up where it was, reuse its result, or refuse.

use super::claim::Held;
use super::differences::differences;
use super::identity::settings;
use super::job::Job;
use super::job_state::{JobFile, JobState, Standing};
use super::prepare::{Options, PrepareError, Prepared};
use super::verify::{Known, Mismatch, Planning, verify};
use super::{Claim, ClaimError, parent};
use crate::compile::Compiled;
use crate::journal::{JobIdentity, Journal, JournalError};
use crate::model::{JobDir, JobResult, JobStatus, Source};
use crate::node::{Gpus, RealPaths, Seen, plan_request};
use crate::output::remove_tree;
use crate::pool::Standby;
use crate::protocol::PlanRequest;
use crate::spec::JobSpec;
use crate::store::Objects;
use crate::turns::Turns;
use jiff::Timestamp;
use std::path::{Path, PathBuf};

/// The result of an earlier run, that holds for this one.
#[derive(Clone, Debug)]
pub struct Reused {
    /// The job.
    pub spec: JobSpec,
    /// What it came to.
    pub result: JobResult,
    /// When.
    pub ended: Timestamp,
    /// The output folder.
    pub output: PathBuf,
    /// The job directory.
    pub job_dir: JobDir,
}

/// What an earlier run of a job left, for the driver.
#[derive(Debug)]
pub(super) struct TakenUp {
    pub(super) journal: Journal,
    /// Whether mini-batches that failed for good are tried again (prs-semantics W15): after a job
    /// that failed, not after one that was interrupted.
    pub(super) retry_failed: bool,
    /// Files that the earlier plan could not read ([`PlanRequest::again`]).
    pub(super) again: Vec<(u32, String)>,
}

/// A job that is ready but for its job directory.
pub(super) struct Ready {
    pub(super) spec: JobSpec,
    pub(super) real: RealPaths,
    pub(super) sources: Vec<Source>,
    pub(super) objects: Objects,
    pub(super) component: Compiled,
    pub(super) models: Vec<Seen>,
    pub(super) job_dir: JobDir,
    pub(super) turns: Option<Turns>,
    pub(super) standby: Option<Standby>,
}

/// Claims a job directory that is held: anew, or as it is.
type ClaimHeld = fn(Held, Option<JobFile>) -> Result<Claim, ClaimError>;

impl Ready {
    /// Begins the job in a directory that holds none, or anew.
    pub(super) fn begin(
        self,
        held: Held,
        options: &Options,
        say: &mut dyn FnMut(&str),
    ) -> Result<Prepared, PrepareError> {
        let settings = settings(&self.spec, &self.models, job_file(options));
        self.job(options, say, settings, None, (held, Held::begin))
    }

    /// The job, its directory claimed last.
    fn job(
        mut self,
        options: &Options,
        say: &mut dyn FnMut(&str),
        settings: Vec<(String, String)>,
        taken_up: Option<TakenUp>,
        (held, claim): (Held, ClaimHeld),
    ) -> Result<Prepared, PrepareError> {
        let mut gpus = Gpus::take(&mut self.spec, &options.node())?;
        gpus.make_ready(&mut self.spec, &options.node(), say);
        // Before anything of an earlier run is removed: a job that is refused loses nothing.
        let parent = match self.take_parent(&held) {
            Ok(parent) => parent,
            Err(error) => {
                held.give_up();
                return Err(error.into());
            }
        };
        let claim = claim(held, options.job_file.clone()).inspect_err(|_| {
            parent.as_deref().map(parent::give_back);
        })?;
        let Self { spec, real, sources, objects, component, models, job_dir, turns, standby } =
            self;
        let again = taken_up.as_ref().map(|taken_up| taken_up.again.clone()).unwrap_or_default();
        let program = options.program.clone();
        let job = Job {
            spec,
            real,
            parent,
            sources,
            objects,
            component,
            program,
            claim,
            job_dir,
            settings,
            models,
            taken_up,
            again,
            standby,
            turns,
            gpus,
            process_lists: options.policy.process_lists(),
        };
        Ok(Prepared::Job(Box::new(job)))
    }

    /// The folder for copies of logs and metrics, if the job has a parent.
    fn take_parent(&mut self, held: &Held) -> Result<Option<PathBuf>, ClaimError> {
        let Some(parent) = self.real.parent.as_deref() else { return Ok(None) };
        let name = &self.spec.name;
        let taken = match parent::claim(parent, name, held.mark()) {
            Err(ClaimError::ParentTaken(other)) => {
                let own = parent::claim_beside(parent, name, held.mark(), held.was_unmarked())?;
                let own = own.ok_or_else(|| ClaimError::ParentTaken(other.clone()))?;
                self.spec.notices.push(format!(
                    "parent: {} holds copies that an earlier version of Sandmill made without a mark; they stay, \
                     and this job's copies go to {}",
                    other.display(),
                    own.display()
                ));
                own
            }
            taken => taken?,
        };
        Ok(Some(taken))
    }

    /// Goes on from what the directory holds.
    pub(super) fn go_on(
        mut self,
        held: Held,
        earlier: &JobState,
        options: &Options,
        say: &mut dyn FnMut(&str),
    ) -> Result<Prepared, PrepareError> {
        if earlier.status == Standing::Completed {
            return self.reuse(&held, earlier, options);
        }
        let Some(journal) = self.journal(earlier)? else {
            say(&format!(
                "job '{}' was interrupted before anything was done, and begins anew",
                earlier.name
            ));
            return self.begin(held, options, say);
        };
        let dir = self.job_dir.root().to_owned();
        let changed = |why: String| ClaimError::Changed {
            dir,
            name: earlier.name.clone(),
            how: earlier.status.how(),
            why,
        };
        let known = Known::but_unreadable(&journal)?;
        let again = known.again();
        let checked = self.check(&held, &journal, known, options);
        checked.map_err(|mismatch| refused(mismatch, changed))?;
        // A leader that ended between the two has told the journal alone; and the journal knows it
        // until what failed is out of it, however often that is begun.
        let retry_failed =
            earlier.status == Standing::Failed || journal.finished()? == Some(JobStatus::Failed);
        let taken_up = Some(TakenUp { journal, retry_failed, again });
        // The journal has the settings.
        self.job(options, say, Vec::new(), taken_up, (held, Held::take_up))
    }

    /// The result of a completed run, if this one would come to the same (prs-semantics C25).
    fn reuse(
        mut self,
        held: &Held,
        earlier: &JobState,
        options: &Options,
    ) -> Result<Prepared, PrepareError> {
        let (dir, name) = (self.job_dir.root().to_owned(), earlier.name.clone());
        let (Some(result), Some(ended)) = (&earlier.result, earlier.ended) else {
            return Err(ClaimError::Finished { dir, name }.into());
        };
        if !options.reuse || !self.spec.allow_reuse {
            return Err(ClaimError::Finished { dir, name }.into());
        }
        let not_reused = |why: String| ClaimError::NotReused { dir, name, why };
        if let Some(why) = held.output_changed()? {
            return Err(not_reused(why).into());
        }
        let journal = Journal::open(&self.job_dir.journal())?;
        let checked = self.check(held, &journal, Known::of(&journal)?, options);
        checked.map_err(|mismatch| refused(mismatch, not_reused))?;
        let (result, output) = (result.clone(), held.output().to_owned());
        let Self { spec, job_dir, .. } = self;
        Ok(Prepared::Reused(Box::new(Reused { spec, result, ended, output, job_dir })))
    }

    /// The journal; none if the job was interrupted before there was one that is any good.
    fn journal(&self, earlier: &JobState) -> Result<Option<Journal>, JournalError> {
        match Journal::open(&self.job_dir.journal()) {
            Ok(journal) => Ok(Some(journal)),
            // The folder for rows is made with the first worker, and that after the journal: so
            // nothing can have been committed.
            Err(
                JournalError::Missing(_)
                | JournalError::Corrupt { .. }
                | JournalError::Version { found: 0, .. },
            ) if earlier.status == Standing::Running && !self.job_dir.parts().exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the job and its inputs are what they were.
    fn check(
        &mut self,
        held: &Held,
        journal: &Journal,
        known: Known,
        options: &Options,
    ) -> Result<(), Refusal> {
        let was = journal.job()?;
        let is = JobIdentity {
            entry_script_digest: self.component.digest.clone(),
            settings: settings(&self.spec, &self.models, job_file(options)),
            ..was.clone()
        };
        if let Some(differences) = differences(&was, &is) {
            return Err(Mismatch::Changed(differences).into());
        }
        if let Some(output) = held.earlier_output().filter(|output| output != held.output()) {
            let (was, is) = (output.display(), held.output().display());
            return Err(
                Mismatch::Changed(format!("the output folder was {was}, is now {is}")).into()
            );
        }
        let component = self.component.file.try_clone().map_err(|e| {
            Mismatch::Failed(format!("the compiled entry script cannot be used: {e}"))
        })?;
        let spill = self.job_dir.spill();
        let request = plan_request(&self.spec, &self.sources, spill.clone());
        let (again, asks) = (known.again(), self.objects.come_on_demand());
        let planning = Planning {
            program: options.program.clone(),
            component,
            request: PlanRequest { again, asks, ..request },
            objects: &mut self.objects,
            patience: self.spec.first_task_creation_timeout.max(self.spec.progress_update_timeout),
            cancel: options.cancel.clone(),
        };
        let verified = verify(planning, known);
        // What a shuffle wrote is written again by the run.
        remove_tree(&spill).map_err(|e| ClaimError::io("remove", &spill, e))?;
        Ok(verified?)
    }
}

fn job_file(options: &Options) -> Option<&Path> {
    options.job_file.as_ref().map(|file| file.path.as_path())
}

/// Why a check did not pass.
enum Refusal {
    Mismatch(Mismatch),
    Other(PrepareError),
}

impl From<Mismatch> for Refusal {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

impl From<ClaimError> for Refusal {
    fn from(error: ClaimError) -> Self {
        Self::Other(error.into())
    }
}

impl From<JournalError> for Refusal {
    fn from(error: JournalError) -> Self {
        Self::Other(error.into())
    }
}

/// The error of a check, where `changed` puts what changed into words.
fn refused(refusal: Refusal, changed: impl FnOnce(String) -> ClaimError) -> PrepareError {
    match refusal {
        Refusal::Mismatch(Mismatch::Changed(why)) => changed(why).into(),
        Refusal::Mismatch(Mismatch::Failed(text)) => PrepareError::Inputs(text),
        Refusal::Mismatch(Mismatch::Cancelled(reason)) => PrepareError::Cancelled(reason),
        Refusal::Other(error) => error,
    }
}
