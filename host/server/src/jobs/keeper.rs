//! Decides which jobs start, and follows their processes. It has one thread, so no two decisions contradict each other.
//!
//! The database is the truth. What the keeper remembers beside it, a restarted server finds again.

use super::asking::Asking;
use super::outcome::{Ended, run_in};
use super::process::{JobProcesses, SETTINGS_FILE};
use super::queue::{Running, WhyWaiting, next_jobs};
use crate::names::{JobId, TenantName, now};
use crate::state::{JobPhase, JobRecord, JobWish, ServerState, StateError, Tenant};
use sandmill_model::JobDir;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the keeper looks for processes that have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How long a job waits after its process was lost, so that a process that always dies does not keep the machine busy.
const PAUSE_AFTER_LOSS: Duration = Duration::from_secs(2);

/// What the keeper learns from the API.
enum News {
    /// This job is new, or its wish has changed.
    Changed(JobId),
    /// No job starts any longer, because the server is about to end.
    StartNothing,
    /// The server ends. Jobs that run go on.
    End,
}

/// Tells the keeper of changes.
#[derive(Clone, Debug)]
pub(crate) struct KeeperHandle {
    news: Sender<News>,
    waiting: Arc<Mutex<BTreeMap<JobId, WhyWaiting>>>,
}

impl KeeperHandle {
    /// A job is new, or its wish has changed.
    pub(crate) fn changed(&self, id: &JobId) {
        // What a keeper that has ended does not learn, the next one finds in the state.
        let _ = self.news.send(News::Changed(id.clone()));
    }

    /// No job starts any longer.
    pub(crate) fn start_nothing(&self) {
        let _ = self.news.send(News::StartNothing);
    }

    /// Ends the keeper. Jobs that run go on.
    pub(crate) fn end(&self) {
        let _ = self.news.send(News::End);
    }

    /// Why a job waits. `None` if it does not.
    pub(crate) fn why_waiting(&self, id: &JobId) -> Option<WhyWaiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

/// A job whose process runs.
#[derive(Default)]
struct RunningJob {
    /// `None` if an earlier server started it.
    child: Option<Child>,
    /// How the process ended, once it has.
    exit: Option<ExitStatus>,
    /// How much the processes before have printed.
    text_from: u64,
    asking: Asking,
}

/// Follows the jobs.
pub(crate) struct Keeper {
    state: Arc<dyn ServerState>,
    processes: JobProcesses,
    /// The most jobs that run at a time.
    most_running: usize,
    /// The jobs that have not ended.
    jobs: BTreeMap<JobId, JobRecord>,
    running: BTreeMap<JobId, RunningJob>,
    lost: BTreeMap<JobId, Instant>,
    /// The jobs that could not be read or changed, because the database failed.
    unread: BTreeSet<JobId>,
    starts_none: bool,
    /// Whether something has changed since the last decision.
    has_news: bool,
    handle: KeeperHandle,
}

impl Keeper {
    /// Starts the thread. Finds the jobs that earlier servers have left.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub(crate) fn start(
        state: Arc<dyn ServerState>,
        processes: JobProcesses,
        most_running: usize,
    ) -> Result<(KeeperHandle, JoinHandle<()>), StateError> {
        let (sender, news) = mpsc::channel();
        let handle = KeeperHandle { news: sender, waiting: Arc::default() };
        let found = state.unfinished()?;
        let jobs: BTreeMap<_, _> = found.into_iter().map(|job| (job.id.clone(), job)).collect();
        let was_running = |job: &&JobRecord| job.phase == JobPhase::Running;
        let running = jobs.values().filter(was_running);
        let running = running.map(|job| (job.id.clone(), RunningJob::default())).collect();
        let mut keeper = Self {
            state,
            processes,
            most_running,
            // A user may have changed a wish when no keeper was there.
            unread: jobs.keys().cloned().collect(),
            jobs,
            running,
            lost: BTreeMap::new(),
            starts_none: false,
            has_news: true,
            handle: handle.clone(),
        };
        let thread = std::thread::spawn(move || keeper.follow(&news));
        Ok((handle, thread))
    }

    fn follow(&mut self, news: &Receiver<News>) {
        loop {
            for id in std::mem::take(&mut self.unread) {
                self.read(&id);
            }
            self.look();
            if self.has_news || !self.lost.is_empty() {
                self.start_next();
            }
            let mut next = news.recv_timeout(LOOK_INTERVAL);
            loop {
                match next {
                    Ok(News::Changed(id)) => self.read(&id),
                    Ok(News::StartNothing) => self.starts_none = true,
                    Ok(News::End) | Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => break,
                }
                next = news.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
        }
    }

    /// Reads a job whose record has changed.
    fn read(&mut self, id: &JobId) {
        self.has_news = true;
        match self.state.job(id) {
            Ok(job) => self.keep(id, job),
            Err(error) => return self.note_failure(id, &error),
        }
        self.stop_queued(id);
        self.ask_to_end(id);
    }

    /// Remembers a job, or forgets it if it has ended.
    fn keep(&mut self, id: &JobId, job: Option<JobRecord>) {
        match job.filter(|job| !job.phase.has_ended()) {
            Some(job) => self.jobs.insert(id.clone(), job),
            None => self.jobs.remove(id),
        };
    }

    /// The database failed. The job is read again at the next look.
    fn note_failure(&mut self, id: &JobId, error: &StateError) {
        tracing::error!("job {id}: {error}");
        self.unread.insert(id.clone());
    }

    /// A job without a process ends or pauses at once.
    fn stop_queued(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        let is_idle = matches!(job.phase, JobPhase::Queued | JobPhase::Paused);
        if !is_idle || job.wish == JobWish::Run {
            return;
        }
        let now = now();
        self.change(id, |job| match job.wish {
            JobWish::Run => false,
            JobWish::Pause => {
                std::mem::replace(&mut job.phase, JobPhase::Paused) != JobPhase::Paused
            }
            JobWish::Cancel | JobWish::CancelAtOnce => {
                job.phase = JobPhase::Cancelled;
                job.ended = Some(now);
                job.reason = "cancelled while it waited".to_owned();
                true
            }
        });
    }

    /// Changes the record of a job, and keeps the result. Returns false if the database failed.
    fn change(&mut self, id: &JobId, mut change: impl FnMut(&mut JobRecord) -> bool) -> bool {
        self.has_news = true;
        match self.state.change_job(id, &mut change, None) {
            Ok(job) => {
                self.keep(id, job);
                true
            }
            Err(error) => {
                self.note_failure(id, &error);
                false
            }
        }
    }

    /// Looks which processes have ended, and asks those to end that should.
    fn look(&mut self) {
        for id in self.running.keys().cloned().collect::<Vec<_>>() {
            let Some(job) = self.jobs.get(&id).cloned() else {
                self.running.remove(&id);
                continue;
            };
            match self.has_ended(&job) {
                true => self.note_end(&job),
                false => self.ask_to_end(&id),
            }
        }
    }

    fn has_ended(&mut self, job: &JobRecord) -> bool {
        let Some(running) = self.running.get_mut(&job.id) else { return true };
        if running.exit.is_some() {
            return true;
        }
        match &mut running.child {
            Some(child) => {
                running.exit = child.try_wait().ok().flatten();
                running.exit.is_some()
            }
            None => self.processes.runs(job).is_ok_and(|runs| !runs),
        }
    }

    fn note_end(&mut self, job: &JobRecord) {
        let dir = JobDir::new(self.processes.folders.job(&job.tenant, &job.id));
        let running = self.running.get(&job.id);
        let (exit, from) = running.map_or((None, 0), |it| (it.exit, it.text_from));
        let ended = Ended::read(&dir, job, exit, self.processes.last_text(job, from));
        let now = now();
        let is_noted = self.change(&job.id, |job| {
            ended.note(job, now);
            true
        });
        if !is_noted {
            return;
        }
        self.running.remove(&job.id);
        if self.jobs.get(&job.id).is_some_and(|job| job.phase == JobPhase::Queued) {
            tracing::warn!("the process of job {} was lost", job.id);
            self.lost.insert(job.id.clone(), Instant::now());
        }
        // A user may have changed the wish meanwhile.
        self.stop_queued(&job.id);
    }

    /// Asks the process of a job to end, if the user wants that.
    fn ask_to_end(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        if let Some(running) = self.running.get_mut(id) {
            running.asking.follow(&self.processes, job);
        }
    }

    /// Starts jobs while there is room, and notes why the others wait.
    fn start_next(&mut self) {
        self.has_news = false;
        self.lost.retain(|_, at| at.elapsed() < PAUSE_AFTER_LOSS);
        let queued: Vec<&JobRecord> = self
            .jobs
            .values()
            .filter(|job| job.phase == JobPhase::Queued && job.wish == JobWish::Run)
            .collect();
        let names: BTreeSet<&TenantName> = queued.iter().map(|job| &job.tenant).collect();
        let mut tenants: BTreeMap<TenantName, Tenant> = BTreeMap::new();
        for name in names {
            match self.state.tenant(name) {
                Ok(found) => tenants.extend(found.map(|tenant| (name.clone(), tenant))),
                Err(error) => {
                    tracing::error!("tenant {name}: {error}");
                    self.has_news = true;
                }
            }
        }
        let mut running = Running::default();
        self.running.keys().filter_map(|id| self.jobs.get(id)).for_each(|job| running.add(job));
        let most = if self.starts_none { 0 } else { self.most_running };
        let is_lost = |id: &JobId| self.lost.contains_key(id);
        let (chosen, waiting) = next_jobs(&queued, &tenants, running, most, now(), is_lost);
        *self.handle.waiting.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
        chosen.iter().for_each(|id| self.start_job(id));
    }

    fn start_job(&mut self, id: &JobId) {
        let now = now();
        let Some(job) = self.jobs.get(id) else { return };
        let folders = &self.processes.folders;
        let earlier_run = run_in(&JobDir::new(folders.job(&job.tenant, id)));
        let submitted = folders.submitted_job(&job.tenant, id);
        let text_from = self.processes.text_length(job);
        // The record comes first: a server that is killed between the two steps finds no process, and starts it again.
        self.change(id, |job| {
            let may_start = job.phase == JobPhase::Queued && job.wish == JobWish::Run;
            if may_start {
                job.phase = JobPhase::Running;
                job.began.get_or_insert(now);
                job.ended = None;
                job.starts += 1;
                job.earlier_run.clone_from(&earlier_run);
            }
            may_start
        });
        let Some(job) = self.jobs.get(id).filter(|job| job.phase == JobPhase::Running) else {
            return;
        };
        let settings = read_settings(&submitted.join(SETTINGS_FILE));
        let tenant = self.state.tenant(&job.tenant).ok().flatten();
        let weight = tenant.map_or(1, |tenant| tenant.weight.max(1));
        let started = settings.and_then(|settings| self.processes.start(job, &settings, weight));
        let mut running = RunningJob { text_from, ..RunningJob::default() };
        match started {
            Ok(child) => running.child = Some(child),
            // The job then looks like one whose process was lost. It is tried again, and fails in the end.
            Err(error) => tracing::error!("job {id}: its process cannot be started: {error}"),
        }
        self.running.insert(id.clone(), running);
    }
}

fn read_settings(file: &Path) -> std::io::Result<Vec<(String, String)>> {
    let text = std::fs::read(file)?;
    serde_json::from_slice(&text).map_err(std::io::Error::other)
}
