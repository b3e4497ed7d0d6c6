//! Decides which jobs start, and follows their processes. It has one thread, so no two decisions contradict each other.
//!
//! The database is the truth. What the keeper remembers beside it, a restarted server finds again.

use super::outcome::Ended;
use super::process::{JobProcesses, SETTINGS_FILE};
use crate::names::{JobId, now};
use crate::state::{JobPhase, JobRecord, JobWish, ServerState, StateError};
use sandmill_model::JobDir;
use std::collections::BTreeMap;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the keeper looks for processes that have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How long a job waits after its process was lost, so that a process that always dies does not keep the machine busy.
const PAUSE_AFTER_LOSS: Duration = Duration::from_secs(2);

/// Why a queued job does not run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WhyWaiting {
    /// So many jobs are before it.
    After {
        /// Jobs of all tenants that start earlier.
        jobs: usize,
    },
    /// The tenant has as many running jobs as it may have.
    Quota {
        /// The most running jobs.
        most: u32,
    },
    /// Its process was lost a moment ago.
    WasLost,
}

/// What the keeper learns from the API.
enum News {
    /// This job is new, or its wish has changed.
    Changed(JobId),
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
        // A keeper that has ended starts no job.
        let _ = self.news.send(News::Changed(id.clone()));
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
struct RunningJob {
    /// `None` if an earlier server started it.
    child: Option<Child>,
    /// Whether the process has agreed to end.
    was_asked: Option<JobWish>,
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
        let running = running
            .map(|job| (job.id.clone(), RunningJob { child: None, was_asked: None }))
            .collect();
        let mut keeper = Self {
            state,
            processes,
            most_running,
            jobs,
            running,
            lost: BTreeMap::new(),
            handle: handle.clone(),
        };
        let thread = std::thread::spawn(move || keeper.follow(&news));
        Ok((handle, thread))
    }

    fn follow(&mut self, news: &Receiver<News>) {
        loop {
            self.look();
            self.start_next();
            let mut next = news.recv_timeout(LOOK_INTERVAL);
            loop {
                match next {
                    Ok(News::Changed(id)) => self.read(&id),
                    Ok(News::End) | Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => break,
                }
                next = news.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
        }
    }

    /// Reads a job whose record has changed.
    fn read(&mut self, id: &JobId) {
        match self.state.job(id) {
            Ok(Some(job)) if !job.phase.has_ended() => {
                self.jobs.insert(id.clone(), job);
            }
            Ok(_) => {
                self.jobs.remove(id);
            }
            Err(error) => tracing::error!("job {id}: {error}"),
        }
        self.stop_queued(id);
        self.ask_to_end(id);
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

    /// Changes the record of a job, and keeps the result.
    fn change(&mut self, id: &JobId, mut change: impl FnMut(&mut JobRecord) -> bool) {
        match self.state.change_job(id, &mut change, None) {
            Ok(Some(job)) if !job.phase.has_ended() => {
                self.jobs.insert(id.clone(), job);
            }
            Ok(_) => {
                self.jobs.remove(id);
            }
            Err(error) => tracing::error!("job {id}: {error}"),
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
        let child = self.running.get_mut(&job.id).and_then(|running| running.child.as_mut());
        match child {
            Some(child) => child.try_wait().is_ok_and(|ended| ended.is_some()),
            None => self.processes.runs(job).is_ok_and(|runs| !runs),
        }
    }

    fn note_end(&mut self, job: &JobRecord) {
        let dir = JobDir::new(self.processes.folders.job(&job.tenant, &job.id));
        let ended = Ended::read(&dir, self.processes.last_text(job));
        let was_asked = self.running.remove(&job.id).is_some_and(|it| it.was_asked.is_some());
        let now = now();
        self.change(&job.id, |job| {
            ended.note(job, was_asked, now);
            true
        });
        if self.jobs.get(&job.id).is_some_and(|job| job.phase == JobPhase::Queued) {
            tracing::warn!("the process of job {} was lost", job.id);
            self.lost.insert(job.id.clone(), Instant::now());
        }
        // A user may have changed the wish meanwhile.
        self.stop_queued(&job.id);
    }

    /// Asks the process of a job to end, if the user wants that and it was not asked before.
    fn ask_to_end(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(running) = self.running.get_mut(id) else { return };
        if job.wish == JobWish::Run || running.was_asked == Some(job.wish) {
            return;
        }
        if self.processes.cancel(job, job.wish == JobWish::CancelAtOnce) {
            running.was_asked = Some(job.wish);
        }
    }

    /// Starts jobs while there is room, and notes why the others wait.
    fn start_next(&mut self) {
        self.lost.retain(|_, at| at.elapsed() < PAUSE_AFTER_LOSS);
        let mut waiting = BTreeMap::new();
        for id in self.in_order() {
            let Some(job) = self.jobs.get(&id) else { continue };
            if self.lost.contains_key(&id) {
                waiting.insert(id, WhyWaiting::WasLost);
            } else if let Some(most) = self.exceeded_quota(job) {
                waiting.insert(id, WhyWaiting::Quota { most });
            } else if self.running.len() >= self.most_running {
                let jobs = waiting.len();
                waiting.insert(id, WhyWaiting::After { jobs });
            } else {
                self.start_job(&id);
            }
        }
        *self.handle.waiting.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
    }

    /// The queued jobs, in the order in which they should start.
    fn in_order(&self) -> Vec<JobId> {
        let mut queued: Vec<&JobRecord> = self
            .jobs
            .values()
            .filter(|job| job.phase == JobPhase::Queued && job.wish == JobWish::Run)
            .collect();
        queued.sort_by_key(|job| (-job.priority, job.id.clone()));
        queued.into_iter().map(|job| job.id.clone()).collect()
    }

    fn exceeded_quota(&self, job: &JobRecord) -> Option<u32> {
        let tenant = self.state.tenant(&job.tenant).ok().flatten()?;
        let most = tenant.quotas.running_jobs?;
        let of_tenant = |id: &&JobId| self.jobs.get(*id).is_some_and(|it| it.tenant == job.tenant);
        let running = self.running.keys().filter(of_tenant).count();
        (running >= most as usize).then_some(most)
    }

    fn start_job(&mut self, id: &JobId) {
        let now = now();
        // The record comes first: a server that is killed between the two steps finds no process, and starts it again.
        self.change(id, |job| {
            let may_start = job.phase == JobPhase::Queued && job.wish == JobWish::Run;
            if may_start {
                job.phase = JobPhase::Running;
                job.began.get_or_insert(now);
                job.ended = None;
                job.starts += 1;
            }
            may_start
        });
        let Some(job) = self.jobs.get(id).filter(|job| job.phase == JobPhase::Running) else {
            return;
        };
        let submitted = self.processes.folders.submitted_job(&job.tenant, id);
        let settings = read_settings(&submitted.join(SETTINGS_FILE));
        let started = settings.and_then(|settings| self.processes.start(job, &settings));
        match started {
            Ok(child) => {
                let running = RunningJob { child: Some(child), was_asked: None };
                self.running.insert(id.clone(), running);
            }
            Err(error) => {
                tracing::error!("job {id}: its process cannot be started: {error}");
                let reason = format!("the job's process cannot be started: {error}");
                self.change(id, |job| {
                    job.phase = JobPhase::Failed;
                    job.ended = Some(now);
                    job.reason.clone_from(&reason);
                    true
                });
            }
        }
    }
}

fn read_settings(file: &std::path::Path) -> std::io::Result<Vec<(String, String)>> {
    let text = std::fs::read(file)?;
    serde_json::from_slice(&text).map_err(std::io::Error::other)
}
