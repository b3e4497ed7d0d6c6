//! Whether a GPU is free again once the worker that had it is gone: a driver may take its time to put
//! away what a killed process held.

use super::Nvidia;
use crate::model::GpuLease;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, timeout_at};

/// How long it is waited for before it is told.
const PATIENCE: Duration = Duration::from_secs(5);
/// For as long as the job takes.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Between two looks, then and later.
const PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// So much more than before is nobody's: the driver keeps some for itself.
const SLACK: u64 = 64 << 20;

/// What the GPUs of a job had in use before it.
#[derive(Clone, Debug)]
pub struct MemoryWatch {
    nvidia: Arc<Nvidia>,
    before: BTreeMap<String, u64>,
}

impl MemoryWatch {
    /// Begins with what is in use now.
    pub fn new(nvidia: Nvidia, leases: &[GpuLease]) -> Self {
        let used = |lease: &GpuLease| Some((lease.visible.clone(), nvidia.used(&lease.visible)?));
        let before = leases.iter().filter_map(used).collect();
        Self { nvidia: Arc::new(nvidia), before }
    }

    /// Waits until the memory of this GPU is back, some seconds at most. Otherwise returns what to tell
    /// people. To be called when the worker is gone.
    pub async fn wait(&self, lease: &GpuLease) -> Option<String> {
        let left = self.freed(lease, PATIENCE, PAUSE).await.err()?;
        let megabytes = left.map_or("some".to_owned(), |bytes| (bytes >> 20).to_string());
        Some(format!(
            "GPU {}: {megabytes} MB of its memory are in use {} s after its worker ended; no worker gets \
             it until they are free",
            lease.index,
            PATIENCE.as_secs()
        ))
    }

    /// Waits on, for as long as it takes.
    pub async fn wait_on(&self, lease: &GpuLease) {
        // Nothing else ends this.
        let _ = self.freed(lease, FOR_EVER, LONG_PAUSE).await;
    }

    async fn freed(
        &self,
        lease: &GpuLease,
        patience: Duration,
        pause: Duration,
    ) -> Result<(), Option<u64>> {
        let Some(before) = self.before.get(&lease.visible) else { return Ok(()) };
        let (nvidia, visible) = (self.nvidia.clone(), lease.visible.clone());
        let used = move || match nvidia.processes(&visible) {
            Some(all) if are_others(&all) => Some(0),
            _ => nvidia.used(&visible),
        };
        freed(*before, used, patience, pause).await
    }
}

/// Whether the processes that the driver names live: then what is in use is theirs, and a worker that is gone has
/// nothing any more. Of another container's it may not know the numbers that they have here.
fn are_others(processes: &[u32]) -> bool {
    let lives = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    !processes.is_empty() && processes.iter().all(lives)
}

/// Waits until little more is in use than before; else how much more, if that is known. Asks on a
/// thread of its own: a driver whose GPU hangs may never answer.
async fn freed(
    before: u64,
    used: impl Fn() -> Option<u64> + Send + 'static,
    patience: Duration,
    pause: Duration,
) -> Result<(), Option<u64>> {
    let (sender, mut answers) = unbounded_channel();
    let asking = thread::Builder::new().name("gpu memory".to_owned()).spawn(move || {
        // Nobody listens once it was enough.
        loop {
            let more = used().map(|bytes| bytes.saturating_sub(before));
            if sender.send(more).is_err() {
                return;
            }
            thread::sleep(pause);
        }
    });
    if asking.is_err() {
        return Ok(()); // Without a thread to spare it is not waited for.
    }
    let until = Instant::now() + patience;
    let mut more = None;
    while let Ok(Some(bytes)) = timeout_at(until, answers.recv()).await {
        if bytes.is_some_and(|bytes| bytes <= SLACK) {
            return Ok(());
        }
        // A driver that does not tell any more may have lost the GPU.
        more = bytes;
    }
    Err(more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const MB: u64 = 1 << 20;

    #[tokio::test]
    async fn memory_that_comes_back_is_waited_for() {
        let used = AtomicU64::new(1000 * MB);
        let falling = move || Some(used.fetch_sub(400 * MB, Ordering::Relaxed));
        assert_eq!(freed(150 * MB, falling, Duration::from_secs(60), PAUSE).await, Ok(()));
    }

    #[test]
    fn what_a_process_that_is_gone_had_is_nobody_elses() {
        let (own, gone) = (std::process::id(), u32::MAX);
        assert!(are_others(&[own]));
        assert!(!are_others(&[own, gone]), "one may be the worker's");
        assert!(!are_others(&[]), "the driver may not tell");
    }

    #[tokio::test]
    async fn memory_that_stays_is_not_waited_for_for_ever() {
        let short = Duration::from_millis(120);
        assert_eq!(freed(100 * MB, || Some(900 * MB), short, PAUSE).await, Err(Some(800 * MB)));
        assert_eq!(freed(0, || None, short, PAUSE).await, Err(None), "the GPU may be lost");
        let hangs = || {
            thread::sleep(Duration::from_secs(5));
            None
        };
        assert_eq!(freed(0, hangs, short, PAUSE).await, Err(None), "the driver does not answer");
    }
}
