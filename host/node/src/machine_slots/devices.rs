//! Lends devices of the machine to jobs. Each device has a file. The job that has the device and the worker
//! that uses it both hold a shared lock on the file, so the device stays taken until both are gone: a worker
//! that outlives its leader keeps its device.

use super::folder::{SlotsError, SlotsFolder, lock, share, with_path};
use crate::model::MachineCaps;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The beginning of the name of a device's file.
const FILE_PREFIX: &str = "gpu-";
/// How often we try to lock the gate. A process that takes devices holds the gate for microseconds,
/// but the process may be suspended meanwhile.
const GATE_TRIES: u32 = 1000;

/// Leases devices to a job.
#[derive(Debug)]
pub struct Devices(SlotsFolder);

/// The result of leasing devices.
#[derive(Debug, Default)]
pub struct LeasedDevices {
    /// The devices that this job got. The job keeps them until this is dropped.
    pub held: Vec<DeviceLease>,
    /// The devices that other jobs have: the position of each in the requested list, and the process that
    /// took it, if known.
    pub busy: Vec<(usize, Option<u32>)>,
}

/// A device that this job has.
#[derive(Debug)]
pub struct DeviceLease {
    /// The device's position in the requested list.
    pub position: usize,
    /// The device's file, which the worker will [`keep`].
    pub file: PathBuf,
    _lock: File,
}

impl Devices {
    /// Opens the folder with the files of devices. Creates the folder if it is missing.
    ///
    /// # Errors
    /// If the folder cannot be used or is open to other users.
    pub fn open(caps: &MachineCaps) -> Result<Self, SlotsError> {
        SlotsFolder::open(caps).map(Self)
    }

    /// Leases the first free devices of this list of names, at most `most`. A name stands for the same device
    /// in all jobs of the machine.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn lease(&self, names: &[String], most: usize) -> Result<LeasedDevices, SlotsError> {
        self.try_lease(names, most).map_err(|error| {
            SlotsError(format!(
                "the GPUs of other jobs cannot be determined: {error}; repair the folder, name \
                 another in machine.directory of the operator's policy, or set gpus to 0"
            ))
        })
    }

    fn try_lease(&self, names: &[String], most: usize) -> io::Result<LeasedDevices> {
        let mut taken = LeasedDevices::default();
        let Some(_gate) = self.0.gate(GATE_TRIES)? else {
            let text =
                format!("another process has locked {} for too long", self.0.path().display());
            return Err(io::Error::other(text));
        };
        for (position, name) in names.iter().enumerate() {
            if taken.held.len() == most {
                break;
            }
            let name = format!("{FILE_PREFIX}{name}");
            let mut file = self.0.file(&name)?;
            if !lock(&file)? {
                taken.busy.push((position, holder(&mut file)?));
                continue;
            }
            file.set_len(0)?;
            file.write_all(std::process::id().to_string().as_bytes())?;
            // The exclusive lock becomes a shared one. Meanwhile no other job takes the device, because a job takes
            // devices only while it holds the gate.
            if share(&file)? {
                taken.held.push(DeviceLease {
                    position,
                    file: self.0.path().join(name),
                    _lock: file,
                });
            }
        }
        Ok(taken)
    }
}

/// Keeps a job's device taken while the returned file is open. A worker that uses the device calls this
/// before its leader ends.
///
/// # Errors
/// If the file cannot be opened, or if another job is just taking the device.
pub fn keep(file: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file);
    let opened = opened.map_err(|error| with_path(&error, file))?;
    if share(&opened)? {
        return Ok(opened);
    }
    Err(io::Error::other(format!("{}: another job is taking this GPU", file.display())))
}

/// The process that took the device, as its file says. `None` if the file does not say.
fn holder(file: &mut File) -> io::Result<Option<u32>> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(32).read_to_string(&mut text)?;
    Ok(text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct DevicesFixture(tempfile::TempDir);

    impl DevicesFixture {
        fn job(&self) -> Devices {
            let directory = Some(self.0.path().join("turns"));
            Devices::open(&MachineCaps { directory, ..MachineCaps::default() }).unwrap()
        }
    }

    fn names(count: u32) -> Vec<String> {
        (0..count).map(|name| name.to_string()).collect()
    }

    fn positions(taken: &LeasedDevices) -> Vec<usize> {
        taken.held.iter().map(|held| held.position).collect()
    }

    #[test]
    fn two_jobs_never_have_the_same_device() {
        let machine = DevicesFixture(tempfile::tempdir().unwrap());
        let one = machine.job();
        let other = machine.job();
        let first = one.lease(&names(3), 2).unwrap();
        assert_eq!((positions(&first), first.busy.len()), (vec![0, 1], 0));
        let second = other.lease(&names(3), 2).unwrap();
        assert_eq!(positions(&second), [2]);
        let me = Some(std::process::id());
        assert_eq!(second.busy, [(0, me), (1, me)]);
        drop(first);
        let third = other.lease(&names(3), 3).unwrap();
        assert_eq!(positions(&third), [0, 1]);
    }

    /// The leader was killed; the worker that still uses the device keeps it.
    #[test]
    fn a_worker_that_outlives_its_leader_keeps_its_device() {
        let machine = DevicesFixture(tempfile::tempdir().unwrap());
        let leader = machine.job().lease(&names(1), 1).unwrap();
        let worker = keep(&leader.held[0].file).unwrap();
        let again = keep(&leader.held[0].file).unwrap();
        drop(leader);
        assert_eq!(machine.job().lease(&names(1), 1).unwrap().busy.len(), 1);
        drop(worker);
        assert_eq!(machine.job().lease(&names(1), 1).unwrap().busy.len(), 1);
        drop(again);
        assert_eq!(positions(&machine.job().lease(&names(1), 1).unwrap()), [0]);
    }

    /// The worker calls `keep` only after its leader has ended, while another job is taking the device.
    #[test]
    fn a_worker_cannot_keep_a_device_taken_by_another_job() {
        let machine = DevicesFixture(tempfile::tempdir().unwrap());
        let leader = machine.job().lease(&names(1), 1).unwrap();
        let file = leader.held[0].file.clone();
        drop(leader);
        let other = File::open(&file).unwrap();
        assert!(lock(&other).unwrap());
        let error = keep(&file).unwrap_err().to_string();
        assert!(error.ends_with("another job is taking this GPU"), "{error}");
    }

    #[test]
    fn a_gate_that_stays_locked_is_an_error() {
        let machine = DevicesFixture(tempfile::tempdir().unwrap());
        let job = machine.job();
        let _gate = job.0.gate(1).unwrap().expect("the gate");
        let error = job.lease(&names(1), 1).unwrap_err().to_string();
        assert!(error.contains("another process has locked"), "{error}");
    }
}
