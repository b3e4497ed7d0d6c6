//! The slots for workers on the machine. Each slot has a file, locked by the job that has the slot.

use super::folder::{SlotsError, SlotsFolder, lock};
use crate::files::lock_holders;
use crate::model::{ByteSize, MachineCaps};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The beginning of the name of a slot's file.
const FILE_PREFIX: &str = "worker-";
/// How often we try to lock the gate.
const GATE_TRIES: u32 = 20;

/// Leases slots for the workers of a job.
#[derive(Debug)]
pub struct MachineSlots {
    folder: SlotsFolder,
    caps: MachineCaps,
    /// Memory that each of the job's workers may use.
    share: ByteSize,
    /// The tenant for whom the job runs.
    tenant: String,
}

/// A worker's slot on the machine. It is free again when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct SlotLease(#[expect(dead_code, reason = "holds the lock")] File);

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
        Ok(Some(Self { folder, caps: caps.clone(), share, tenant: tenant.to_owned() }))
    }

    /// Leases a slot for one worker. `None` if none is left. Never waits for long.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn lease(&self) -> io::Result<Option<SlotLease>> {
        let Some(_gate) = self.folder.gate(GATE_TRIES)? else { return Ok(None) };
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
        Ok(Some(SlotLease(file)))
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
        let one = machine.job(Some(2), None, 1);
        let other = machine.job(Some(2), None, 1);
        let first = one.lease().unwrap().expect("a slot");
        let second = other.lease().unwrap().expect("a slot");
        assert!(one.lease().unwrap().is_none());
        assert!(other.lease().unwrap().is_none());
        assert_eq!(holders(&machine.caps(Some(2), None)).unwrap(), [(std::process::id(), 2)]);
        drop(first);
        let third = other.lease().unwrap().expect("a slot that was given back");
        assert!(one.lease().unwrap().is_none());
        drop((second, third));
        assert!(one.lease().unwrap().is_some());
    }

    #[test]
    fn jobs_share_the_memory_limit_of_a_machine() {
        let machine = SlotsFixture::new();
        let small = machine.job(None, Some(100), 30);
        let large = machine.job(None, Some(100), 60);
        let first = large.lease().unwrap().expect("60 of 100");
        let _second = small.lease().unwrap().expect("90 of 100");
        assert!(small.lease().unwrap().is_none(), "120 of 100");
        assert!(large.lease().unwrap().is_none(), "150 of 100");
        drop(first);
        let _third = small.lease().unwrap().expect("60 of 100");
        let _fourth = small.lease().unwrap().expect("90 of 100");
        assert!(large.lease().unwrap().is_none(), "150 of 100");
    }

    /// The jobs of one tenant leave room for the jobs of other tenants.
    #[test]
    fn a_tenant_gets_no_more_than_its_slots() {
        let machine = SlotsFixture::new();
        let caps = MachineCaps { workers_per_tenant: Some(2), ..machine.caps(Some(3), None) };
        let job = |tenant| MachineSlots::open(&caps, ByteSize(MB), tenant).unwrap().unwrap();
        let one = job("a");
        let again = job("a");
        let other = job("a b");
        let first = one.lease().unwrap().expect("a slot");
        let _second = again.lease().unwrap().expect("a slot");
        assert!(one.lease().unwrap().is_none() && again.lease().unwrap().is_none());
        let _third = other.lease().unwrap().expect("the slot that is left for others");
        drop(first);
        assert!(again.lease().unwrap().is_some());
        // A slot without a readable tenant may belong to any tenant.
        let _fourth = one.lease().unwrap().expect("a slot");
        std::fs::write(machine.0.path().join("turns/worker-2"), "1").unwrap();
        assert!(other.lease().unwrap().is_none());
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
        let job = machine.job(None, Some(100), 10);
        let _slot = job.lease().unwrap().expect("a slot");
        std::fs::write(machine.0.path().join("turns/worker-0"), "").unwrap();
        assert!(job.lease().unwrap().is_none());
    }
}
