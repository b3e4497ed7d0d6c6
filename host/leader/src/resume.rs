//! Decides what to do with a job that was run before: resume it, reuse its result, or refuse it.

use super::chosen_backends::{backend_names, without_chosen_backends};
use super::claim::JobDirLock;
use super::differences::differences;
use super::identity::settings;
use super::job::{PreparedJob, PreparedOnNode, ResumedJob, Reused};
use super::job_source::{SourceError, put_source};
use super::job_state::{JobFile, JobStanding, JobState, StartedBy};
use super::job_store::JobStore;
use super::nodes::{JobOnNode, RemoteWork};
use super::options::LeaderOptions;
use super::prepare_error::PreparationError;
use super::stored_plan::{KnownPlan, PlanObject, PlanUse, StoredPlan, StoredPlanError};
use super::stored_spill::NeededSpill;
use super::verify::{Comparison, InputsChanged, RecordedPlan};
use super::{ClaimError, parent};
use crate::journal::{JobIdentity, Journal, JournalError};
use crate::model::{JobDir, JobStatus, MiniBatch, OutputLayout, SignerKey, TableFormat};
use crate::protocol::node::{self, InspectReport, InspectRequest, InspectedMiniBatch, PlanOptions};
use crate::spec::JobSpec;
use sandmill_commit_log::CommitLog;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// A job that is ready except for its job directory.
pub(super) struct ReadyToResume<N> {
    pub(super) spec: JobSpec,
    /// What the node found.
    pub(super) found: node::NodeFindings,
    /// What the node holds for the job.
    pub(super) node: N,
    pub(super) job_dir: JobDir,
    /// The parent's folder, without links.
    pub(super) parent: Option<PathBuf>,
    /// The job's store, if it has one.
    pub(super) store: Option<JobStore>,
    /// The commit log to continue, if the store has one.
    pub(super) log: Option<CommitLog>,
}

/// The result of preparing a job on this kind of node.
type PreparationResult<N> = Result<PreparedOnNode<N>, PreparationError<<N as JobOnNode>::Error>>;

/// The notice for a job that is resumed with another signer than that of its last run. This is not an error: each
/// agent decides in whose jobs it takes part.
fn other_signer(last: Option<SignerKey>, current: Option<SignerKey>) -> Option<String> {
    let said = |signer: Option<SignerKey>| {
        signer.map_or_else(|| "not signed".to_owned(), |key| format!("signed with {key}"))
    };
    (last != current).then(|| {
        format!("the last run of this job was {}; this one is {}", said(last), said(current))
    })
}

/// How a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobStart {
    /// From the beginning.
    Begin,
    /// From what an earlier run left.
    Resume,
}

impl<N: JobOnNode> ReadyToResume<N> {
    /// Begins the job in a directory without a job, or starts it over.
    pub(super) fn begin(
        self,
        held: JobDirLock,
        options: &LeaderOptions,
        say: &mut dyn FnMut(&str),
    ) -> PreparationResult<N> {
        let settings = settings(&self.spec, &self.found);
        self.complete(options, say, settings, None, (held, JobStart::Begin))
    }

    /// Completes the preparation. Claims the job directory last.
    fn complete(
        mut self,
        options: &LeaderOptions,
        say: &mut dyn FnMut(&str),
        settings: Vec<(String, String)>,
        mut resumed: Option<ResumedJob>,
        (held, start): (JobDirLock, JobStart),
    ) -> PreparationResult<N> {
        let mut notices = options.notices.clone();
        notices.append(&mut self.found.notices);
        if start == JobStart::Resume && options.remote_workers {
            let earlier = held.earlier().and_then(|earlier| earlier.started_by.as_ref());
            let earlier = earlier.and_then(|started_by| started_by.signer);
            notices.extend(other_signer(earlier, options.signer));
        }
        notices.extend(self.node.lease_gpus(say).map_err(PreparationError::Node)?);
        let job_file = match self.stored_job_file(options) {
            Ok(job_file) => job_file,
            Err(error) => {
                held.give_up();
                return Err(error.into());
            }
        };
        // Do this before anything of an earlier run is removed, so that a job that is refused here loses
        // nothing.
        let parent = match self.claim_parent_folder(&held, &mut notices) {
            Ok(parent) => parent,
            Err(error) => {
                held.give_up();
                return Err(error.into());
            }
        };
        let held = held.started_by(StartedBy {
            tenant: self.spec.settings.tenant.clone(),
            uid: rustix::process::geteuid().as_raw(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: options.command.clone(),
            policy: options.policy.clone(),
            signer: options.signer,
            by_agent: options.by_agent,
        });
        // A job that is resumed keeps the id under which its journal was made.
        let run = resumed.as_ref().map(|resumed| resumed.journal.job()).transpose()?;
        let run = run.map(|job| job.id);
        let held = match self.store.as_ref().and_then(JobStore::folder) {
            Some(folder) => held.in_store(folder.to_owned(), run.clone()),
            None => held,
        };
        let known = resumed.as_mut().and_then(|resumed| resumed.plan.take());
        let recorded = job_file.clone();
        let claim = match (start, &self.store) {
            (JobStart::Resume, _) => held.resume(recorded),
            (JobStart::Begin, None) => held.begin(recorded, &mut |_| Ok(())),
            (JobStart::Begin, Some(store)) => {
                held.begin(recorded, &mut |id| Ok(store.supersede(id)?))
            }
        };
        let claim = claim.inspect_err(|_| {
            parent.as_deref().map(parent::give_back);
        })?;
        let run = run.unwrap_or_else(|| claim.id().to_owned());
        let plan = self.store.as_ref().map(|store| store.plan(&run));
        let plan = plan.map(|stored| match start {
            JobStart::Begin => PlanUse::begin(stored),
            JobStart::Resume => PlanUse::resume(stored, known),
        });
        let remote = job_file.filter(|_| options.remote_workers);
        let remote = remote.and_then(|job_file| self.remote_work(&run, job_file));
        let Self { spec, found, node, job_dir, store, .. } = self;
        let node::NodeFindings { sources, component, runtime, .. } = found;
        let unreadable =
            resumed.as_ref().map(|resumed| resumed.unreadable.clone()).unwrap_or_default();
        let job = PreparedJob {
            spec,
            parent,
            sources,
            component,
            runtime,
            claim,
            job_dir,
            settings,
            resumed,
            unreadable,
            notices,
            run,
            store,
            plan,
            remote,
            node,
        };
        Ok(PreparedOnNode::Job(Box::new(job)))
    }

    /// The job file. If other machines run the workers, puts what they need into the job's store.
    fn stored_job_file(&self, options: &LeaderOptions) -> Result<Option<JobFile>, SourceError> {
        let mut job_file = options.job_file.clone();
        let store = self.store.as_ref().filter(|_| options.remote_workers);
        if let (Some(job_file), Some(store)) = (&mut job_file, store) {
            let objects = &**store.logs().store();
            job_file.source = Some(put_source(objects, &self.spec.text, &self.found.script)?);
        }
        Ok(job_file)
    }

    /// What other machines must know to run the workers. `None` without a store.
    fn remote_work(&self, run: &str, job_file: JobFile) -> Option<RemoteWork> {
        let store = self.store.as_ref()?;
        let place = self.spec.job_store.as_ref()?;
        let shared = store.worker_dir(run);
        let is_in_parts = self.spec.output_format.layout == OutputLayout::Parts;
        Some(RemoteWork {
            job: self.spec.name.clone(),
            run: run.to_owned(),
            is_folder_shared: shared.is_some(),
            folder: shared.unwrap_or_else(|| self.job_dir.clone()),
            keeps_rows: self.spec.settings.ordered || is_in_parts,
            objects: store.logs().store().clone(),
            store: store.place().to_owned(),
            place: place.to_string(),
            tenant: self.spec.settings.tenant.clone(),
            source: job_file.source.clone()?,
            job_file,
            job_file_sha256: self.spec.job_file_sha256.clone(),
            component: self.found.component.clone(),
            settings: settings(&self.spec, &self.found),
            backends: backend_names(&self.found),
            allow_mixed: self.spec.settings.allow_mixed_backends,
            node_count: self.spec.node_count,
            listed: self.found.listed.clone(),
        })
    }

    /// The folder for copies of logs and metrics, if the job has a parent.
    fn claim_parent_folder(
        &self,
        held: &JobDirLock,
        notices: &mut Vec<String>,
    ) -> Result<Option<PathBuf>, ClaimError> {
        let Some(parent) = self.parent.as_deref() else { return Ok(None) };
        let name = &self.spec.name;
        let taken = match parent::claim(parent, name, held.mark()) {
            Err(ClaimError::ParentTaken(other)) => {
                let own = parent::claim_beside(parent, name, held.mark(), held.was_unmarked())?;
                let own = own.ok_or_else(|| ClaimError::ParentTaken(other.clone()))?;
                notices.push(format!(
                    "parent: {} holds copies that an earlier version of Sandmill made without a mark; they \
                     stay, and this job's copies go to {}",
                    other.display(),
                    own.display()
                ));
                own
            }
            taken => taken?,
        };
        Ok(Some(taken))
    }

    /// Continues from an earlier run. If that run was completed, reuses its result. Otherwise
    /// resumes the job, or starts it over if there is nothing to keep.
    pub(super) fn continue_earlier(
        mut self,
        held: JobDirLock,
        earlier: &JobState,
        options: &LeaderOptions,
        say: &mut dyn FnMut(&str),
    ) -> PreparationResult<N> {
        if earlier.status == JobStanding::Completed {
            return self.reuse(&held, earlier, options);
        }
        let Some(journal) = self.journal(earlier)? else {
            say(&format!(
                "job '{}' was interrupted before anything was done, and starts over",
                earlier.name
            ));
            return self.begin(held, options, say);
        };
        if self.store.is_none() && journal.log_position()?.is_some() {
            return Err(ClaimError::StoreNotNamed(self.job_dir.root().to_owned()).into());
        }
        let recorded = RecordedPlan::without_unreadable(&journal)?;
        let unreadable = recorded.unreadable();
        // A leader may have been killed after it recorded the failure in the journal, and before it wrote
        // `job.json`. The journal keeps the status until the failed mini-batches are removed from it, even if
        // that takes several runs.
        let retry_failed = match journal.finished()? {
            Some(JobStatus::Failed) => true,
            // Another job directory has completed the job since.
            Some(JobStatus::Completed) => false,
            Some(JobStatus::Cancelled) | None => earlier.status == JobStanding::Failed,
        };
        let stored = self.store.as_ref().filter(|_| unreadable.is_empty());
        let stored = stored.map(|store| {
            Ok::<_, JournalError>(EarlierPlan {
                stored: store.plan(&journal.job()?.id),
                // The run may have failed because rows were damaged in the store.
                may_read_spill: options.remote_workers && !retry_failed,
            })
        });
        let stored = stored.transpose()?;
        let plan = match self.check(&held, &journal, recorded, (stored.as_ref(), options), say) {
            Ok(plan) => plan,
            // The earlier run has no results that could be lost. Usually, the script failed immediately and
            // was then fixed.
            Err(ResumeRefusal::Changed(InputsChanged(why))) if journal.counts().succeeded == 0 => {
                say(&format!(
                    "job '{}' {} before any mini-batch had succeeded, and starts over: {why}",
                    earlier.name,
                    earlier.status.how()
                ));
                drop(journal);
                return self.begin(held, options, say);
            }
            Err(refusal) => {
                let kept = journal.counts();
                let dir = self.job_dir.root().to_owned();
                return Err(refused(refusal, |why| ClaimError::Changed {
                    dir,
                    name: earlier.name.clone(),
                    how: earlier.status.how(),
                    mini_batches: kept.succeeded,
                    rows: kept.rows,
                    why,
                }));
            }
        };
        let log = self.log.take();
        let resumed = Some(ResumedJob { journal, retry_failed, unreadable, log, plan });
        // The journal already has the settings.
        self.complete(options, say, Vec::new(), resumed, (held, JobStart::Resume))
    }

    /// Reuses the result of a completed run, if this run would have the same result
    /// (docs/parallel-run-step.md C25).
    fn reuse(
        mut self,
        held: &JobDirLock,
        earlier: &JobState,
        options: &LeaderOptions,
    ) -> PreparationResult<N> {
        let dir = self.job_dir.root().to_owned();
        let name = earlier.name.clone();
        let (Some(result), Some(ended)) = (&earlier.result, earlier.ended) else {
            return Err(ClaimError::Finished { dir, name }.into());
        };
        // Results that are not at their address yet are not reused: they are written there.
        let may_reuse = options.reuse && self.spec.settings.allow_reuse;
        if !may_reuse && !earlier.is_unpublished {
            return Err(ClaimError::Finished { dir, name }.into());
        }
        let not_reused = |why: String| ClaimError::NotReused { dir, name, why };
        if let Some(why) = held.output_changed()? {
            return Err(not_reused(why).into());
        }
        let journal = Journal::open(&self.job_dir.journal())?;
        let recorded = RecordedPlan::read(&journal)?;
        let checked = self.check(held, &journal, recorded, (None, options), &mut |_| {});
        checked.map_err(|mismatch| refused(mismatch, not_reused))?;
        let result = result.clone();
        let output = held.output().to_owned();
        let Self { spec, job_dir, .. } = self;
        Ok(PreparedOnNode::Reused(Box::new(Reused { spec, result, ended, output, job_dir })))
    }

    /// The journal. `None` if the job was interrupted before it had a usable one.
    fn journal(&self, earlier: &JobState) -> Result<Option<Journal>, JournalError> {
        // The folder for part files is created with the first worker, which starts after the journal exists. So
        // without this folder, nothing can have been committed.
        let has_begun = earlier.status != JobStanding::Running || self.job_dir.parts().exists();
        match Journal::open(&self.job_dir.journal()) {
            Err(error) if error.is_unusable() && !has_begun => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Checks that the job and its inputs have not changed. Returns the part of the `stored` plan that the job can
    /// continue from.
    fn check(
        &mut self,
        held: &JobDirLock,
        journal: &Journal,
        recorded: RecordedPlan,
        (stored, options): (Option<&EarlierPlan>, &LeaderOptions),
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<KnownPlan>, ResumeRefusal<N::Error>> {
        let was = journal.job()?;
        let is = JobIdentity {
            entry_script_digest: self.found.component.clone(),
            settings: settings(&self.spec, &self.found),
            ..was.clone()
        };
        // Only the nodes of other machines are compared with the job's backends, and recorded.
        let may_differ = self.spec.settings.allow_mixed_backends && options.remote_workers;
        let [earlier, now] = [&was, &is].map(|identity| match may_differ {
            true => JobIdentity {
                settings: without_chosen_backends(&identity.settings),
                ..identity.clone()
            },
            false => identity.clone(),
        });
        if let Some(differences) = differences(&earlier, &now) {
            return Err(InputsChanged(differences).into());
        }
        if let Some(output) = held.earlier_output().filter(|output| output != held.output()) {
            let was = output.display();
            let is = held.output().display();
            return Err(InputsChanged(format!("the output folder was {was}, is now {is}")).into());
        }
        let known = stored.map(|stored| self.check_stored(stored, &recorded, say)).transpose()?;
        let known = known.flatten();
        let is_checked = known.as_ref().is_some_and(|known| !known.names_files);
        let known = known.map(|StoredCheck { known, .. }| known);
        if recorded.is_empty() || is_checked {
            return Ok(known);
        }
        self.check_inputs(recorded).map(|()| known)
    }

    /// Checks that the inputs have not changed: plans them again.
    fn check_inputs(&mut self, recorded: RecordedPlan) -> Result<(), ResumeRefusal<N::Error>> {
        let options =
            PlanOptions { retried_files: recorded.unreadable(), ..PlanOptions::default() };
        let request = self.inspect_request(options, &recorded);
        let mut comparison = Comparison::new(recorded, &self.found.sources);
        let mut result = Ok(());
        let mut on_report = |report| {
            result = comparison.compare(report);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let inspected = self.node.inspect_inputs(&request, &mut on_report);
        inspected.map_err(|error| ResumeRefusal::Other(PreparationError::Node(error)))?;
        Ok(result?)
    }

    fn inspect_request(&self, plan: PlanOptions, recorded: &RecordedPlan) -> InspectRequest {
        InspectRequest {
            plan,
            since: recorded.created(),
            patience: self
                .spec
                .settings
                .first_task_creation_timeout
                .max(self.spec.progress_update_timeout),
        }
    }

    /// Checks the plan in the job's store without planning its mini-batches again: the planner only looks whether their files
    /// are the same. `None` if the plan cannot be used, and the inputs must be planned again.
    fn check_stored(
        &mut self,
        stored: &EarlierPlan,
        recorded: &RecordedPlan,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<StoredCheck>, ResumeRefusal<N::Error>> {
        let mut comparison = Comparison::new(recorded.clone(), &self.found.sources);
        let Some(found) = StoredCheck::read(stored, &mut comparison, say) else { return Ok(None) };
        let options = PlanOptions {
            continue_from: Some(found.known.position.clone()),
            stores_spill: stored.may_read_spill,
            ..PlanOptions::default()
        };
        let request = self.inspect_request(options, recorded);
        let mut is_same = false;
        let mut on_report = |report| {
            let fits = match report {
                InspectReport::Tables(tables) => tables == found.tables,
                InspectReport::Continues => {
                    is_same = true;
                    true
                }
                InspectReport::CannotContinue => false,
                report => comparison.compare(report).is_ok(),
            };
            is_same &= fits;
            let is_done = is_same && (found.names_files || comparison.is_settled());
            if fits && !is_done { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let inspected = self.node.inspect_inputs(&request, &mut on_report);
        inspected.map_err(|error| ResumeRefusal::Other(PreparationError::Node(error)))?;
        Ok(is_same.then_some(found))
    }
}

/// A plan in the job's store that may be continued.
struct EarlierPlan {
    stored: StoredPlan,
    /// Whether its mini-batches may read what an earlier leader has stored of its planner's files.
    may_read_spill: bool,
}

/// A plan in the job's store, whose mini-batches are those that the journal has recorded.
struct StoredCheck {
    known: KnownPlan,
    /// How tables are read.
    tables: Vec<TableFormat>,
    /// Whether mini-batches consist of whole files. Then what workers have found in these files must be compared, too.
    names_files: bool,
}

impl StoredCheck {
    /// Reads the plan up to the first damage. `None` if nothing of it can be used.
    fn read(
        EarlierPlan { stored, may_read_spill }: &EarlierPlan,
        comparison: &mut Comparison<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Option<Self> {
        let mut not_used = |error: StoredPlanError| {
            say(&format!("{error}; the inputs are planned again from there on"));
        };
        let objects = stored.objects().map_err(&mut not_used).ok()?;
        let mut found: Option<Self> = None;
        let mut needed = NeededSpill::default();
        for object in stored.read(objects) {
            let object = match object {
                Ok(object) => object,
                Err(error) => {
                    not_used(error);
                    break;
                }
            };
            let PlanObject { tables, batches, position } = object;
            let cannot_read = |batch: &MiniBatch| {
                batch.reads_spill() && (!may_read_spill || batch.spill.is_none())
            };
            if batches.iter().any(cannot_read) {
                break;
            }
            batches.iter().for_each(|batch| needed.add(batch));
            let names_files = batches.iter().any(|batch| batch.files().next().is_some());
            let inspected =
                |batch: MiniBatch| InspectedMiniBatch { stamp: batch.stamp, batch, changed: None };
            let inspected = batches.into_iter().map(inspected).collect();
            let known = found.get_or_insert_with(|| Self {
                known: KnownPlan { stored: stored.clone(), objects: 0, position: position.clone() },
                tables: tables.clone(),
                names_files: false,
            });
            known.known.objects += 1;
            known.known.position = position;
            known.names_files |= names_files;
            if !known.names_files {
                // If the stored plan differs from what the journal recorded, planning again says what has changed.
                if known.known.objects == 1 {
                    comparison.compare(InspectReport::Tables(tables)).ok()?;
                }
                comparison.compare(InspectReport::MiniBatches(inspected)).ok()?;
            }
        }
        match stored.has(&needed) {
            Ok(true) => found,
            Ok(false) => {
                say("rows of the plan are missing in the job store; the inputs are planned again");
                None
            }
            Err(error) => {
                say(&format!("{error}; the inputs are planned again"));
                None
            }
        }
    }
}

/// Why a check failed.
enum ResumeRefusal<E: Error + 'static> {
    Changed(InputsChanged),
    Other(PreparationError<E>),
}

impl<E: Error + 'static> From<InputsChanged> for ResumeRefusal<E> {
    fn from(changed: InputsChanged) -> Self {
        Self::Changed(changed)
    }
}

impl<E: Error + 'static> From<JournalError> for ResumeRefusal<E> {
    fn from(error: JournalError) -> Self {
        Self::Other(error.into())
    }
}

/// The error of a failed check. `changed` builds the error if something has changed.
fn refused<E: Error + 'static>(
    refusal: ResumeRefusal<E>,
    changed: impl FnOnce(String) -> ClaimError,
) -> PreparationError<E> {
    match refusal {
        ResumeRefusal::Changed(InputsChanged(why)) => changed(why).into(),
        ResumeRefusal::Other(error) => error,
    }
}
