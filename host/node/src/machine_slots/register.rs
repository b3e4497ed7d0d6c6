//! The slots for workers on the machine. Each slot has a file, locked by the job that has the slot.

use super::folder::{SlotsError, SlotsFolder, lock};
use super::turns::{JobTurn, JobTurns};
use crate::files::lock_holders;
use crate::model::{ByteSize, MachineCaps, count_u32};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The beginning of the name of a slot's file.
const FILE_PREFIX: &str = "worker-";
/// How often we try to lock the gate.
const GATE_TRIES: u32 = 20;
/// For each job of the machine, a job that may have no more slots waits this much longer before it asks again.
const PAUSE_PER_JOB: Duration = Duration::from_millis(5);

/// Leases slots for the workers of a job.
#[derive(Debug)]
pub struct MachineSlots {
    folder: SlotsFolder,
    caps: MachineCaps,
    /// Memory that each of the job's workers may use.
    share: ByteSize,
    /// The tenant for whom the job runs.
    tenant: String,
    /// The turns of the job, once it has asked for a slot.
    turns: Option<JobTurns>,
    /// How many workers the job can use.
    wanted: u32,
    /// One for each slot that the job has, and one more.
    taken: Arc<()>,
    /// Until when the job does not ask again whether it may have more slots.
    refused_until: Option<Instant>,
}

/// A worker's slot on the machine. It is free again when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct SlotLease {
    #[expect(dead_code, reason = "holds the lock")]
    lock: File,
    #[expect(dead_code, reason = "counts")]
    taken: Arc<()>,
}

impl MachineSlots {
    /// Opens the folder with the files of slots. Creates the folder if it is missing. `share` is the memory
    /// that each worker of the job may use, and `tenant` the tenant for whom the job runs. `None`
    /// without caps.
    ///
    /// # Errors
    /// If a single worker would exceed the cap, or if the folder cannot be used or is open to other users.
    pub fn open(
        caps: &MachineCaps,
        share: ByteSize,
        tenant: &str,
    ) -> Result<Option<Self>, SlotsError> {
        if !caps.any() {
            return Ok(None);
        }
        if let Some(memory) = caps.memory.filter(|memory| share > *memory) {
            return Err(SlotsError(format!(
                "each worker of this job may use {} of memory (limits.memory, and memory for results, \
                 reading and decoding), but all jobs on this machine together may use only {memory} \
                 (machine.memory of the operator's policy): lower limits.memory, limits.results or \
                 limits.read, or make mini_batch_size smaller",
                share.rounded()
            )));
        }
        let folder = SlotsFolder::open(caps)?;
        Ok(Some(Self {
            folder,
            caps: caps.clone(),
            share,
            tenant: tenant.to_owned(),
            turns: None,
            wanted: 0,
            taken: Arc::default(),
            refused_until: None,
        }))
    }

    /// The slots that the job has.
    fn taken(&self) -> u32 {
        count_u32(Arc::strong_count(&self.taken) - 1)
    }

    /// From now on, the job can use this many workers, with those that it has.
    pub fn want(&mut self, workers: u32) {
        self.wanted = workers;
    }

    /// How many of its slots the job must give back, because they belong to other jobs by their tenants' shares. Also counts
    /// what the job has used. `None` if that is not known now, because other jobs keep the gate locked or the state cannot be
    /// kept. Never waits for long.
    pub fn beyond_share(&mut self) -> Option<u32> {
        if self.turns.is_none() {
            return Some(0);
        }
        let _gate = self.folder.gate(GATE_TRIES).ok().flatten()?;
        let taken = self.taken();
        let turn = self.settle(taken, self.wanted.max(taken)).ok()?;
        let beyond = turn.map_or(0, |turn| u64::from(taken).saturating_sub(turn.shall_have));
        Some(u32::try_from(beyond).unwrap_or(u32::MAX))
    }

    /// Gives back the job's share, because the job starts no more workers. Its slots are free when its workers have ended.
    pub fn end(&mut self) {
        self.turns = None;
    }

    /// Divides the machine anew. The caller holds the gate. `None` if there are no shares.
    ///
    /// # Errors
    /// If the state of the shares cannot be kept. The caps hold all the same, by the slots.
    fn settle(&mut self, has: u32, wants: u32) -> io::Result<Option<JobTurn>> {
        let turns = match &mut self.turns {
            Some(turns) => turns,
            none => {
                none.insert(JobTurns::enter(&self.folder, &self.caps, self.share.0, &self.tenant)?)
            }
        };
        turns.settle(&self.folder, has.into(), wants.into())
    }

    /// Leases a slot for one worker. `None` if none is left, or if those that are left belong to other jobs. Never waits for
    /// long.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn lease(&mut self) -> io::Result<Option<SlotLease>> {
        let Some(_gate) = self.folder.gate(GATE_TRIES)? else { return Ok(None) };
        let taken = self.taken();
        if self.refused_until.is_some_and(|until| Instant::now() < until) {
            return Ok(None);
        }
        // If the shares cannot be kept, for example because a disk is full, the job still gets free slots.
        let turn = self.settle(taken, self.wanted.max(taken.saturating_add(1))).unwrap_or_default();
        if let Some(turn) = turn.filter(|turn| turn.may_have <= u64::from(taken)) {
            // The more jobs wait, the less often each of them asks, so that they do not keep the gate locked.
            self.refused_until = Some(Instant::now() + PAUSE_PER_JOB * turn.jobs);
            return Ok(None);
        }
        let counted = self.count()?;
        let too_many = self.caps.workers.is_some_and(|most| counted.workers >= most)
            || self.caps.workers_per_tenant.is_some_and(|most| counted.of_tenant >= most);
        let memory = counted.memory.saturating_add(self.share.0);
        if too_many || self.caps.memory.is_some_and(|most| memory > most.0) {
            return Ok(None);
        }
        let mut file = self.folder.file(&format!("{FILE_PREFIX}{}", counted.free))?;
        if !lock(&file)? {
            return Ok(None); // A process locked it without the gate.
        }
        file.set_len(0)?;
        file.write_all(format!("{} {}", self.share.0, self.tenant).as_bytes())?;
        Ok(Some(SlotLease { lock: file, taken: self.taken.clone() }))
    }

    /// Counts the slots that are taken.
    fn count(&self) -> io::Result<TakenCounts> {
        let mut counted = TakenCounts { workers: 0, of_tenant: 0, memory: 0, free: 0 };
        let mut taken = Vec::new();
        for entry in std::fs::read_dir(self.folder.path())? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(FILE_PREFIX));
            let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
                continue;
            };
            let mut file = self.folder.file(&format!("{FILE_PREFIX}{number}"))?;
            if lock(&file)? {
                continue; // The slot is free; this lock ends with `file`.
            }
            taken.push(number);
            counted.workers += 1;
            let held = SlotRecord::read(&mut file)?;
            counted.memory = counted.memory.saturating_add(held.memory);
            counted.of_tenant += u32::from(held.may_be_of(&self.tenant));
        }
        taken.sort_unstable();
        for number in taken {
            counted.free += u32::from(number == counted.free);
        }
        Ok(counted)
    }
}

/// The processes that have slots for workers on the machine, with their numbers of slots. The process with
/// the most slots comes first.
///
/// # Errors
/// If the folder with the files of slots cannot be read.
pub fn holders(caps: &MachineCaps) -> io::Result<Vec<(u32, u32)>> {
    let mut found: BTreeMap<u32, u32> = BTreeMap::new();
    if !caps.any() {
        return Ok(Vec::new());
    }
    let folder = SlotsFolder::open(caps).map_err(io::Error::other)?;
    for entry in std::fs::read_dir(folder.path())? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(FILE_PREFIX)) {
            for pid in lock_holders(&entry.metadata()?) {
                *found.entry(pid).or_default() += 1;
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, slots)| Reverse(*slots));
    Ok(found)
}

/// The slots that are taken.
struct TakenCounts {
    workers: u32,
    /// The workers of this job's tenant.
    of_tenant: u32,
    memory: u64,
    /// The lowest number of a free slot.
    free: u32,
}

/// The content of a taken slot's file.
struct SlotRecord {
    /// The worker's memory. If it cannot be read, the maximum, so that no other worker fits.
    memory: u64,
    /// `None` if the file does not name a tenant.
    tenant: Option<String>,
}

impl SlotRecord {
    fn read(file: &mut File) -> io::Result<Self> {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(1024).read_to_string(&mut text)?;
        let (memory, tenant) = match text.split_once(' ') {
            Some((memory, tenant)) => (memory, Some(tenant.to_owned())),
            None => (text.as_str(), None),
        };
        Ok(Self { memory: memory.parse().unwrap_or(u64::MAX), tenant })
    }

    /// A slot without a known tenant counts for every tenant.
    fn may_be_of(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|holder| holder == tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const MB: u64 = 1 << 20;

    struct SlotsFixture(tempfile::TempDir);

    impl SlotsFixture {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn caps(&self, workers: Option<u32>, memory: Option<u64>) -> MachineCaps {
            let directory = Some(self.0.path().join("turns"));
            let memory = memory.map(|mb| ByteSize(mb * MB));
            MachineCaps { workers, memory, directory, ..MachineCaps::default() }
        }

        fn job(&self, workers: Option<u32>, memory: Option<u64>, share: u64) -> MachineSlots {
            let caps = self.caps(workers, memory);
            MachineSlots::open(&caps, ByteSize(share * MB), "default").unwrap().unwrap()
        }
    }

    #[test]
    fn jobs_share_the_worker_limit_of_a_machine() {
        let machine = SlotsFixture::new();
        let mut one = machine.job(Some(2), None, 1);
        let mut other = machine.job(Some(2), None, 1);
        let first = one.lease().unwrap().expect("a slot");
        let second = other.lease().unwrap().expect("a slot");
        assert!(one.lease().unwrap().is_none());
        assert!(other.lease().unwrap().is_none());
        assert_eq!(holders(&machine.caps(Some(2), None)).unwrap(), [(std::process::id(), 2)]);
        drop(first);
        one.want(0);
        assert_eq!(one.beyond_share(), Some(0));
        other.refused_until = None;
        let third = other.lease().unwrap().expect("a slot that was given back");
        assert!(one.lease().unwrap().is_none());
        drop((second, third));
        other.want(0);
        assert_eq!(other.beyond_share(), Some(0));
        one.refused_until = None;
        assert!(one.lease().unwrap().is_some());
    }

    #[test]
    fn jobs_share_the_memory_limit_of_a_machine() {
        let machine = SlotsFixture::new();
        let mut small = machine.job(None, Some(100), 30);
        let mut large = machine.job(None, Some(100), 60);
        let first = large.lease().unwrap().expect("60 of 100");
        let _second = small.lease().unwrap().expect("90 of 100");
        assert!(small.lease().unwrap().is_none(), "120 of 100");
        assert!(large.lease().unwrap().is_none(), "150 of 100");
        drop((first, large));
        small.refused_until = None;
        let _third = small.lease().unwrap().expect("60 of 100");
        let _fourth = small.lease().unwrap().expect("90 of 100");
        assert!(machine.job(None, Some(100), 60).lease().unwrap().is_none(), "150 of 100");
    }

    /// The jobs of one tenant leave room for the jobs of other tenants.
    #[test]
    fn a_tenant_gets_no_more_than_its_slots() {
        let machine = SlotsFixture::new();
        let caps = MachineCaps { workers_per_tenant: Some(2), ..machine.caps(Some(3), None) };
        let job = |tenant| MachineSlots::open(&caps, ByteSize(MB), tenant).unwrap().unwrap();
        let mut one = job("a");
        let mut again = job("a");
        let mut other = job("a b");
        let first = one.lease().unwrap().expect("a slot");
        let _second = again.lease().unwrap().expect("a slot");
        assert!(one.lease().unwrap().is_none() && again.lease().unwrap().is_none());
        let _third = other.lease().unwrap().expect("the slot that is left for others");
        drop((first, one));
        again.refused_until = None;
        let _fourth = again.lease().unwrap().expect("the slot of the job that has ended");
        // A slot without a readable tenant may belong to any tenant.
        std::fs::write(machine.0.path().join("turns/worker-2"), "1").unwrap();
        assert!(other.lease().unwrap().is_none());
    }

    /// A job that has the whole machine gives back what belongs to other tenants, by their weights.
    #[test]
    fn tenants_get_their_shares() {
        let machine = SlotsFixture::new();
        let job = |tenant, tenant_weight| {
            let caps = MachineCaps { tenant_weight, ..machine.caps(Some(4), None) };
            MachineSlots::open(&caps, ByteSize(MB), tenant).unwrap().unwrap()
        };
        let mut first = job("a", 1);
        first.want(4);
        let mut has: Vec<SlotLease> = (0..4).map(|_| first.lease().unwrap().unwrap()).collect();
        assert_eq!(first.beyond_share(), Some(0));
        let mut heavy = job("b", 3);
        heavy.want(4);
        assert!(heavy.lease().unwrap().is_none(), "all slots are taken");
        assert_eq!(first.beyond_share(), Some(3));
        // Its mini-batches end one after another.
        let mut other_has = Vec::new();
        for left in (0..3).rev() {
            drop(has.pop());
            assert_eq!(first.beyond_share(), Some(left));
            assert!(first.lease().unwrap().is_none(), "it takes no slot that it has given back");
            heavy.refused_until = None;
            other_has.push(heavy.lease().unwrap().expect("the slot of the first job"));
        }
        assert!(heavy.lease().unwrap().is_none());
        assert_eq!((first.beyond_share(), heavy.beyond_share()), (Some(0), Some(0)));
        // The process of a job is killed: its lock and its slots are free, and others get them.
        drop((heavy, other_has));
        first.refused_until = None;
        assert!(first.lease().unwrap().is_some());
    }

    /// A job that publishes its results has given its share back.
    #[test]
    fn a_job_that_starts_no_more_workers_keeps_nothing() {
        let machine = SlotsFixture::new();
        let mut one = machine.job(Some(1), None, 1);
        drop(one.lease().unwrap().unwrap());
        let mut other = machine.job(Some(1), None, 1);
        assert!(other.lease().unwrap().is_none(), "the first job may start another worker");
        one.end();
        other.refused_until = None;
        assert!(other.lease().unwrap().is_some());
    }

    /// If the state cannot be kept, jobs still get free slots.
    #[test]
    fn a_state_that_cannot_be_kept_stops_no_job() {
        let machine = SlotsFixture::new();
        let mut one = machine.job(Some(1), None, 1);
        std::fs::create_dir_all(machine.0.path().join("turns/shares/full")).unwrap();
        let _has = one.lease().unwrap().expect("a free slot");
        assert!(one.lease().unwrap().is_none());
        assert_eq!(one.beyond_share(), None);
    }

    /// A state that is lost or broken begins anew, with what the jobs have.
    #[test]
    fn jobs_enter_themselves_into_a_new_state() {
        let machine = SlotsFixture::new();
        let state = machine.0.path().join("turns/shares");
        let mut one = machine.job(Some(3), None, 1);
        one.want(2);
        let _has = [one.lease().unwrap().unwrap(), one.lease().unwrap().unwrap()];
        for broken in ["", "{", "{\"format\":1,\"shares\":{}}"] {
            std::fs::write(&state, broken).unwrap();
            let mut other = machine.job(Some(3), None, 1);
            assert_eq!(one.beyond_share(), Some(0));
            other.want(3);
            let _third = other.lease().unwrap().expect("the free slot");
            assert!(other.lease().unwrap().is_none());
        }
        // With the state of another version, there are only slots.
        std::fs::write(&state, "{\"format\":2}").unwrap();
        let mut other = machine.job(Some(3), None, 1);
        let _third = other.lease().unwrap().expect("the free slot");
        assert!(other.lease().unwrap().is_none() && one.lease().unwrap().is_none());
        assert_eq!(std::fs::read_to_string(&state).unwrap(), "{\"format\":2}");
    }

    #[test]
    fn a_worker_larger_than_the_machine_limit_is_refused() {
        let machine = SlotsFixture::new();
        let caps = machine.caps(None, Some(100));
        let error =
            MachineSlots::open(&caps, ByteSize(101 * MB), "default").unwrap_err().to_string();
        insta::assert_snapshot!(error, @"each worker of this job may use 101 MB of memory (limits.memory, and memory for results, reading and decoding), but all jobs on this machine together may use only 100 MB (machine.memory of the operator's policy): lower limits.memory, limits.results or limits.read, or make mini_batch_size smaller");
        assert!(
            MachineSlots::open(&MachineCaps::default(), ByteSize(MB), "default").unwrap().is_none()
        );
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let machine = SlotsFixture::new();
        let folder = machine.0.path().join("turns");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let caps = machine.caps(Some(1), None);
        let error = MachineSlots::open(&caps, ByteSize(MB), "default").unwrap_err().to_string();
        assert!(error.contains("can be written by other users (mode 777)"), "{error}");
        std::fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink(machine.0.path(), &folder).unwrap();
        let error = MachineSlots::open(&caps, ByteSize(MB), "default").unwrap_err().to_string();
        assert!(error.contains("is not a folder"), "{error}");
    }

    /// A slot whose file does not say its share may stand for any amount of memory.
    #[test]
    fn a_slot_without_a_share_leaves_no_memory() {
        let machine = SlotsFixture::new();
        let mut job = machine.job(None, Some(100), 10);
        let _slot = job.lease().unwrap().expect("a slot");
        std::fs::write(machine.0.path().join("turns/worker-0"), "").unwrap();
        assert!(job.lease().unwrap().is_none());
    }
}
