//! Whether a GPU is free again after its worker has ended: a driver may need time to free the memory of a
//! killed process.

use super::Nvidia;
use crate::model::GpuLease;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep, timeout_at};

/// How long we wait for a GPU's memory before we notify the user.
const PATIENCE: Duration =
    if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(5) };
/// Stands for "no time limit": longer than any job takes.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// The interval between two readings before the user is notified.
const PAUSE: Duration = Duration::from_millis(50);
/// The interval between two readings after that.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// The driver keeps some memory for itself after a job. The GPU counts as free if at most this many bytes are
/// in use beyond those that were in use before the job.
const SLACK_BYTES: u64 = 64 << 20;

/// Reads the bytes in use on the GPU with this value of `CUDA_VISIBLE_DEVICES`. `None` if that is unknown.
type Reading = Arc<dyn Fn(&str) -> Option<u64> + Send + Sync>;

/// The memory that was in use on a job's GPUs before the job.
#[derive(Clone)]
pub struct MemoryWatch {
    reading: Reading,
    before: BTreeMap<String, u64>,
}

impl fmt::Debug for MemoryWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWatch").field("before", &self.before).finish_non_exhaustive()
    }
}

impl MemoryWatch {
    /// Begins with the memory that is in use now.
    pub fn new(nvidia: Nvidia, leases: &[GpuLease]) -> Self {
        Self::start(Arc::new(move |visible| in_use(&nvidia, visible)), leases)
    }

    pub(crate) fn start(reading: Reading, leases: &[GpuLease]) -> Self {
        let used = |lease: &GpuLease| Some((lease.visible.clone(), reading(&lease.visible)?));
        let before = leases.iter().filter_map(used).collect();
        Self { reading, before }
    }

    /// Waits a few seconds until the memory of this GPU is free. If it is still not free, returns a message
    /// for the user. Call this after the worker has ended.
    pub async fn wait(&self, lease: &GpuLease) -> Option<String> {
        let excess = self.wait_until_free(lease, PATIENCE, PAUSE).await.err()?;
        let what = match excess {
            Some(bytes) => format!("{} MB of its memory are in use", bytes >> 20),
            None => "the driver does not report whether its memory is free".to_owned(),
        };
        let waited = PATIENCE.as_secs();
        Some(format!(
            "GPU {}: {what} {waited} s after its worker ended; no worker of this job gets this GPU until \
             the memory is free",
            lease.index
        ))
    }

    /// Waits for the memory of this GPU without a time limit.
    pub async fn wait_on(&self, lease: &GpuLease) {
        while self.wait_until_free(lease, FOR_EVER, LONG_PAUSE).await.is_err() {
            sleep(LONG_PAUSE).await;
        }
    }

    async fn wait_until_free(
        &self,
        lease: &GpuLease,
        patience: Duration,
        pause: Duration,
    ) -> Result<(), Option<u64>> {
        let Some(before) = self.before.get(&lease.visible) else { return Ok(()) };
        let reading = Arc::clone(&self.reading);
        let visible = lease.visible.clone();
        wait_until_free(*before, move || reading(&visible), patience, pause).await
    }
}

/// The bytes in use, without the bytes of living processes. The rest may belong to a worker that has ended.
fn in_use(nvidia: &Nvidia, visible: &str) -> Option<u64> {
    let used = nvidia.used(visible)?;
    Some(used.saturating_sub(held_by_processes(&nvidia.processes(visible).unwrap_or_default())))
}

/// The bytes of all processes that the driver lists. 0 if one of them is not alive or its bytes are
/// unknown: the driver may list processes of other containers, whose ids do not exist here or mean
/// other processes.
fn held_by_processes(processes: &[(u32, Option<u64>)]) -> u64 {
    let is_alive = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
    let known = processes.iter().map(|(pid, bytes)| bytes.filter(|_| is_alive(*pid)));
    known.sum::<Option<u64>>().unwrap_or(0)
}

/// Waits until at most [`SLACK_BYTES`] more are in use than `before`. If that takes longer than
/// `patience`, fails with the excess in bytes, if known. Asks the driver on a separate thread,
/// because the driver may never answer if the GPU hangs.
async fn wait_until_free(
    before: u64,
    used: impl Fn() -> Option<u64> + Send + 'static,
    patience: Duration,
    pause: Duration,
) -> Result<(), Option<u64>> {
    let (sender, mut answers) = unbounded_channel();
    let asking = thread::Builder::new().name("gpu memory".to_owned()).spawn(move || {
        // The receiver is dropped when the wait ends.
        loop {
            let excess = used().map(|bytes| bytes.saturating_sub(before));
            if sender.send(excess).is_err() {
                return;
            }
            thread::sleep(pause);
        }
    });
    if asking.is_err() {
        return Err(None);
    }
    let until = Instant::now() + patience;
    let mut excess = None;
    while let Ok(Some(bytes)) = timeout_at(until, answers.recv()).await {
        if bytes.is_some_and(|bytes| bytes <= SLACK_BYTES) {
            return Ok(());
        }
        // `None` if the driver does not report the bytes: it may have lost the GPU.
        excess = bytes;
    }
    Err(excess)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const MB: u64 = 1 << 20;

    #[tokio::test]
    async fn waits_until_the_memory_is_freed() {
        let used = AtomicU64::new(1000 * MB);
        let falling = move || Some(used.fetch_sub(400 * MB, Ordering::Relaxed));
        assert_eq!(
            wait_until_free(150 * MB, falling, Duration::from_secs(60), PAUSE).await,
            Ok(())
        );
    }

    #[test]
    fn memory_is_not_attributed_if_a_process_is_unknown() {
        let own = std::process::id();
        let gone = u32::MAX;
        assert_eq!(held_by_processes(&[(own, Some(3)), (own, Some(4))]), 7);
        assert_eq!(
            held_by_processes(&[(own, Some(3)), (gone, Some(4))]),
            0,
            "one may be the worker's"
        );
        assert_eq!(
            held_by_processes(&[(own, Some(3)), (own, None)]),
            0,
            "the driver reports no figure for one"
        );
        assert_eq!(held_by_processes(&[]), 0);
    }

    #[tokio::test]
    async fn the_wait_for_memory_has_a_time_limit() {
        let short = Duration::from_millis(120);
        assert_eq!(
            wait_until_free(100 * MB, || Some(900 * MB), short, PAUSE).await,
            Err(Some(800 * MB))
        );
        assert_eq!(
            wait_until_free(0, || None, short, PAUSE).await,
            Err(None),
            "the GPU may be lost"
        );
        let hangs = || {
            thread::sleep(Duration::from_secs(5));
            None
        };
        assert_eq!(
            wait_until_free(0, hangs, short, PAUSE).await,
            Err(None),
            "the driver does not answer"
        );
    }
}
