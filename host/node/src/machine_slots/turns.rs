//! The share of the machine that each job has. All jobs of the machine keep one state of `sandmill_shares` in a file, which
//! each of them reads, brings up to date and writes while it holds the gate. So no process decides for the others, and none is
//! needed besides the jobs.
//!
//! A job is alive while it locks a file of its own. The kernel releases the lock if the job is killed, and the other jobs then
//! divide what it had.

use super::folder::{SlotsFolder, lock};
use crate::model::{MachineCaps, count_u32, random_name};
use sandmill_shares::{
    Grant, JobId, JobRequest, Limit, Priority, Quotas, Resources, ShareError, ShareSettings,
    Shares, SlotSize, TenantId, TenantSettings, Usage,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The file with the state of all jobs.
const STATE_FILE: &str = "shares";
/// The state while it is written.
const NEW_STATE_FILE: &str = "shares.new";
/// The beginning of the name of a job's file.
const JOB_PREFIX: &str = "job-";
/// The format of the state's file.
const FORMAT: u32 = 1;
/// The most bytes of the state: room for thousands of jobs.
const MOST_STATE: u64 = 16 << 20;
/// The workers of a machine whose caps do not limit their number.
const UNLIMITED_WORKERS: u64 = 1024;

/// The turns of one job.
#[derive(Debug)]
pub(super) struct JobTurns {
    id: JobId,
    /// A file that is locked while the job lives.
    alive: PathBuf,
    _lock: File,
    tenant: TenantId,
    settings: ShareSettings,
    tenant_settings: TenantSettings,
    capacity: Resources,
    slot: SlotSize,
    /// The workers that the job got, in total.
    granted: u64,
    /// The workers that the job gave back, in total.
    given_back: u64,
    /// When the usage was last counted, as the time since 1970-01-01.
    counted: Duration,
}

/// What a job may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobTurn {
    /// The workers that the job may have now. Other jobs leave room for them.
    pub(super) may_have: u64,
    /// The jobs on the machine.
    pub(super) jobs: u32,
    /// The workers that the job shall have once its mini-batches have ended. At most `may_have`.
    pub(super) shall_have: u64,
}

/// The content of the state's file.
#[derive(Serialize, Deserialize)]
struct StoredState {
    format: u32,
    shares: Shares,
}

impl JobTurns {
    /// Enters a job. `memory`: the bytes that each of its workers may use.
    ///
    /// # Errors
    /// If the job's file cannot be made.
    pub(super) fn enter(
        folder: &SlotsFolder,
        caps: &MachineCaps,
        memory: u64,
        tenant: &str,
    ) -> io::Result<Self> {
        let id = JobId::from(random_name());
        let file = job_file(&id);
        let held = folder.file(&file)?;
        if !lock(&held)? {
            return Err(io::Error::other("another job has the same random name"));
        }
        let workers = caps.workers.map_or(UNLIMITED_WORKERS, u64::from);
        let quotas = Quotas {
            workers: caps.workers_per_tenant.map(|most| Limit::hard(most.into())),
            ..Quotas::default()
        };
        let capacity = Resources {
            workers,
            memory: caps.memory.map_or(u64::MAX, |memory| memory.0),
            ..Resources::default()
        };
        Ok(Self {
            id,
            alive: folder.path().join(file),
            _lock: held,
            tenant: tenant.into(),
            settings: ShareSettings {
                newcomers_percent: caps.newcomers_percent,
                ..ShareSettings::default()
            },
            tenant_settings: TenantSettings {
                weight: NonZeroU32::new(caps.tenant_weight).unwrap_or(NonZeroU32::MIN),
                quotas,
                ..TenantSettings::default()
            },
            capacity,
            // Without a cap, memory is not scarce.
            slot: SlotSize {
                memory: if caps.memory.is_some() { memory } else { 0 },
                ..SlotSize::default()
            },
            granted: 0,
            given_back: 0,
            counted: now(),
        })
    }

    /// Divides the machine anew. The caller holds the gate. `has`: the workers that the job has; `wants`: how many it can use, at
    /// least `has`. Returns `None` if another version of Sandmill keeps the state, so that there are no shares.
    ///
    /// # Errors
    /// If the state cannot be read or written.
    pub(super) fn settle(
        &mut self,
        folder: &SlotsFolder,
        has: u64,
        wants: u64,
    ) -> io::Result<Option<JobTurn>> {
        let Some(mut shares) = self.read(folder)? else { return Ok(None) };
        let now = now();
        self.end_dead(&mut shares, folder)?;
        shares.forget_idle_tenants(now);
        let turn = self.divide(&mut shares, has, wants, now).map_err(io::Error::other)?;
        write(folder, shares)?;
        Ok(Some(turn))
    }

    fn divide(
        &mut self,
        shares: &mut Shares,
        has: u64,
        wants: u64,
        now: Duration,
    ) -> Result<JobTurn, ShareError> {
        if !shares.has_job(&self.id) {
            // The state was lost, or the job is new. The policy and the weight with which the latest job began hold for all.
            shares.set_settings(self.settings.clone());
            shares.set_capacity(self.capacity.clone());
            shares.set_tenant(&self.tenant, self.tenant_settings.clone());
            self.granted = self.granted.max(self.given_back + has);
            shares.submit(self.request(wants), now)?;
        }
        shares.reconnected(&self.id, self.granted, self.given_back, now)?;
        shares.set_most_workers(&self.id, wants)?;
        self.count(shares, has, now)?;
        let mut turn = self.take_turn(shares, now);
        // What the job shall not have and has not started, others may have at once.
        let unused = turn.may_have.saturating_sub(turn.shall_have.max(has));
        if unused > 0 {
            self.given_back += unused;
            shares.gave_back(&self.id, self.given_back, now)?;
            turn = self.take_turn(shares, now);
        }
        Ok(turn)
    }

    fn request(&self, wants: u64) -> JobRequest {
        JobRequest {
            id: self.id.clone(),
            tenant: self.tenant.clone(),
            user: None,
            priority: Priority::Normal,
            slot: self.slot.clone(),
            most_workers: wants,
            minimum_workers: 1,
        }
    }

    /// Counts what the job has used since the last time.
    fn count(&mut self, shares: &mut Shares, has: u64, now: Duration) -> Result<(), ShareError> {
        let wall = now.saturating_sub(std::mem::replace(&mut self.counted, now));
        if has == 0 {
            return Ok(());
        }
        let mut resources = Resources::default();
        resources.add(&self.slot, has);
        shares.used(&self.tenant, None, &Usage { resources, wall, ..Usage::default() }, now)
    }

    fn take_turn(&mut self, shares: &mut Shares, now: Duration) -> JobTurn {
        let grants = shares.share(now);
        let jobs = count_u32(shares.jobs().count());
        let Some(Grant { allowed, held, granted, .. }) =
            grants.running.into_iter().find(|grant| grant.job == self.id)
        else {
            return JobTurn { may_have: 0, jobs, shall_have: 0 };
        };
        self.granted = granted;
        JobTurn { may_have: held, jobs, shall_have: allowed }
    }

    /// Removes the jobs whose processes are gone.
    fn end_dead(&self, shares: &mut Shares, folder: &SlotsFolder) -> io::Result<()> {
        let others: Vec<JobId> = shares.jobs().filter(|id| **id != self.id).cloned().collect();
        for id in others {
            let name = job_file(&id);
            // The lock ends with the file.
            if lock(&folder.file(&name)?)? {
                let _ = std::fs::remove_file(folder.path().join(name));
                shares.end(&id).map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    /// Reads the state. A state that cannot be read begins anew: each job that lives enters itself again.
    fn read(&self, folder: &SlotsFolder) -> io::Result<Option<Shares>> {
        let path = folder.path().join(STATE_FILE);
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => drop(file.take(MOST_STATE).read_to_end(&mut bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(super::folder::with_path(&error, &path)),
        }
        #[derive(Deserialize)]
        struct AnyFormat {
            format: u32,
        }
        match serde_json::from_slice::<AnyFormat>(&bytes) {
            Ok(AnyFormat { format }) if format != FORMAT => return Ok(None),
            _ => {}
        }
        let stored = serde_json::from_slice::<StoredState>(&bytes).ok();
        let shares = stored.map(|stored| stored.shares);
        Ok(Some(
            shares.unwrap_or_else(|| Shares::new(self.settings.clone(), self.capacity.clone())),
        ))
    }
}

impl Drop for JobTurns {
    /// Removes the job's file. The other jobs find that the job has ended.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.alive);
    }
}

/// Replaces the state. The file lies in memory on most machines, so nothing is synced: after a crash of the machine, no job lives.
fn write(folder: &SlotsFolder, shares: Shares) -> io::Result<()> {
    let text = serde_json::to_vec(&StoredState { format: FORMAT, shares })?;
    let mut file = folder.file(NEW_STATE_FILE)?;
    file.set_len(0)?;
    file.write_all(&text)?;
    std::fs::rename(folder.path().join(NEW_STATE_FILE), folder.path().join(STATE_FILE))
}

/// The name of a job's file.
fn job_file(id: &JobId) -> String {
    format!("{JOB_PREFIX}{id}")
}

/// The time since 1970-01-01.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
