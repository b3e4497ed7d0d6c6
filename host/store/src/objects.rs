//! The objects of a job: the folders that hold them, and the thread that fetches the missing ones.

use super::cache_dir::CacheDir;
use super::events::{StagingReport, StoreEvent};
use super::fetch_all::{FetchProgress, MissingObject};
use super::prefetch::{self, FetchPlan, PLANNER_REQUESTS};
use crate::dataset::{Manifest, ManifestObject};
use crate::model::Source;
use crate::protocol::ObjectsToAsk;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How often we check whether all objects are here.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How many records of a manifest are read to find an object that can be fetched.
const MAX_LOOKS: u32 = 100;

/// The objects that a job's inputs consist of. The job holds their slots until it drops this value.
#[derive(Debug, Default)]
pub struct JobObjects {
    fetching: Option<FetchThread>,
    /// How many requests were made for the planner.
    planner_requests: u64,
    /// How many of the first slots hold side inputs and models.
    other_slots: usize,
    /// The last field, so that it is dropped last: the slots are held until no process writes to them.
    slots: Vec<CacheDir>,
}

/// The thread that fetches objects, through fetcher processes.
#[derive(Debug)]
struct FetchThread {
    thread: Option<JoinHandle<()>>,
    events: mpsc::Sender<StoreEvent>,
    arrivals: UnboundedReceiver<StagingReport>,
    fetches_all: bool,
    progress: Arc<FetchProgress>,
}

impl Drop for FetchThread {
    fn drop(&mut self) {
        // Fails if the thread has ended.
        let _ = self.events.send(StoreEvent::End);
        if let Some(thread) = self.thread.take() {
            // The thread has already reported its errors.
            let _ = thread.join();
        }
    }
}

impl JobObjects {
    /// The handle for objects that need not be fetched.
    pub(super) fn complete(slots: Vec<CacheDir>) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Starts a thread that fetches the objects: all of them, or those that are [requested](Self::request).
    pub(super) fn start_fetching(slots: Vec<CacheDir>, plan: FetchPlan) -> std::io::Result<Self> {
        let progress = Arc::new(FetchProgress::default());
        let (sender, arrivals) = unbounded_channel();
        let (events, receiver) = mpsc::channel();
        let fetcher_events = events.clone();
        let thread_progress = Arc::clone(&progress);
        let fetches_all = plan.fetches_all;
        let work = move || {
            prefetch::run(plan, &receiver, &fetcher_events, sender, Arc::clone(&thread_progress));
            thread_progress.end();
        };
        let thread = thread::Builder::new().name("fetch".to_owned()).spawn(work)?;
        let fetching =
            FetchThread { thread: Some(thread), events, arrivals, fetches_all, progress };
        Ok(Self { fetching: Some(fetching), slots, ..Self::default() })
    }

    /// If a source consists of these objects, sets its manifest and returns true. Returns false for other
    /// sources, and if the manifest is not a regular file: the fetcher process may have made a link.
    pub fn claim(&self, source: &mut Source) -> bool {
        let slot = self.slots.iter().find(|slot| slot.holds(&source.root));
        source.manifest = slot.and_then(CacheDir::manifest);
        source.manifest.is_some()
    }

    /// Whether a path is in one of the folders for objects.
    pub fn holds(&self, path: &Path) -> bool {
        self.slots.iter().any(|slot| slot.holds(path))
    }

    /// Notes that the first slots, this many, do not hold inputs.
    pub(super) fn with_other_slots(self, other_slots: usize) -> Self {
        Self { other_slots, ..self }
    }

    /// For each folder of objects that inputs name, in order: the name of an object that is not empty and can be fetched.
    /// Empty if none of the first objects is such.
    pub fn samples(&self) -> Vec<String> {
        let inputs = self.slots.iter().skip(self.other_slots);
        inputs.map(|slot| sample(slot).unwrap_or_default()).collect()
    }

    /// Returns a function that says whether a path belongs to an object, fetched or not. The
    /// function is fast if the caller passes the paths of a folder in their order.
    pub fn lookup(&self) -> impl FnMut(&Path) -> bool {
        let mut slots: Vec<_> = self.slots.iter().map(CacheDir::lookup).collect();
        move |path| slots.iter_mut().any(|is_object| is_object(path))
    }

    /// Whether objects are fetched only when they are [requested](Self::request).
    pub fn come_on_demand(&self) -> bool {
        self.asks() == ObjectsToAsk::Each
    }

    /// For which objects the planner must ask before it reads them.
    pub fn asks(&self) -> ObjectsToAsk {
        match &self.fetching {
            None => ObjectsToAsk::Never,
            Some(FetchThread { fetches_all: true, .. }) => ObjectsToAsk::Absent,
            Some(_) => ObjectsToAsk::Each,
        }
    }

    /// Waits for the next report. Waits forever if there will be no more reports.
    pub async fn arrival(&mut self) -> StagingReport {
        let Some(fetching) = &mut self.fetching else { return pending().await };
        match fetching.arrivals.recv().await {
            Some(arrival) => arrival,
            // The thread has ended, and its last report gave the reason.
            None => pending().await,
        }
    }

    /// Like [`arrival`](Self::arrival), for a synchronous caller. `None` if there will be no more reports.
    pub fn blocking_arrival(&mut self) -> Option<StagingReport> {
        self.fetching.as_mut()?.arrivals.blocking_recv()
    }

    /// Requests these files under a number. Objects are fetched in the order of the requests, and stay until
    /// the request is [released](Self::release). Files that are not objects count as fetched.
    pub fn request(&self, number: u64, files: Vec<PathBuf>) {
        self.send(StoreEvent::Want(number, files));
    }

    /// Requests these objects under a number, of which the job has no manifest. Otherwise like
    /// [`request`](Self::request).
    pub fn request_known(&self, number: u64, objects: Vec<(PathBuf, ManifestObject)>) {
        self.send(StoreEvent::WantKnown(number, objects));
    }

    /// Requests a file for the planner. Returns the number of the request, which differs from those of all
    /// mini-batches.
    pub fn want_one(&mut self, file: PathBuf) -> u64 {
        let number = PLANNER_REQUESTS + self.planner_requests;
        self.planner_requests += 1;
        self.request(number, vec![file]);
        number
    }

    /// Drops the requests with these numbers, complete or not.
    pub fn release(&self, numbers: Vec<u64>) {
        self.send(StoreEvent::Release(numbers));
    }

    fn send(&self, event: StoreEvent) {
        if let Some(fetching) = &self.fetching {
            // Fails only if the thread has ended because the disk is full. The thread has reported
            // that.
            let _ = fetching.events.send(event);
        }
    }

    /// Waits until all objects have been fetched. Returns immediately if objects are fetched on demand.
    /// `report` receives the number of objects and bytes so far.
    pub fn wait(&self, stop: &dyn Fn() -> bool, report: &mut dyn FnMut(u64, u64)) {
        let Some(fetching) = self.fetching.as_ref().filter(|fetching| fetching.fetches_all) else {
            return;
        };
        while !fetching.progress.is_done() && !stop() {
            thread::sleep(CHECK_INTERVAL);
            let (objects, bytes) = fetching.progress.so_far();
            report(objects, bytes);
        }
    }

    /// Returns what is missing so far, if all objects are fetched, and forgets it.
    pub(super) fn take_missing(&self) -> Option<MissingObject> {
        self.fetching.as_ref()?.progress.take_missing()
    }
}

/// The name of one of the first objects in a manifest that can be fetched.
fn sample(slot: &CacheDir) -> Option<String> {
    let mut manifest = Manifest::open(&slot.manifest()?).ok()?;
    for _ in 0..MAX_LOOKS {
        let record = manifest.next_object().ok()??;
        // A byte of it may be read.
        if record.object.is_ok_and(|object| object.found.length > 0) {
            return Some(record.name);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_dir::manifest_path;

    /// A compromised fetcher process may make links, and a source's path may be the target of such
    /// a link.
    #[test]
    fn sources_outside_the_cache_are_not_claimed() {
        let dir = tempfile::tempdir().unwrap();
        let slot = CacheDir::acquire(&dir.path().join("cache"), "s3://box/").unwrap();
        let data = slot.data();
        let manifest = manifest_path(slot.folder());
        let objects = JobObjects::complete(vec![slot]);
        let claimed = |root: PathBuf| {
            let mut source = Source::new("data", root);
            objects.claim(&mut source).then_some(source.manifest).flatten()
        };
        assert_eq!(claimed(data.join("folder")), None, "there is no manifest");
        std::os::unix::fs::symlink("/etc/passwd", &manifest).unwrap();
        assert_eq!(claimed(data.clone()), None);
        std::fs::remove_file(&manifest).unwrap();
        std::fs::write(&manifest, "").unwrap();
        assert_eq!(claimed(data.join("folder")), Some(manifest.clone()));
        assert_eq!(claimed(data), Some(manifest.clone()));
        assert_eq!(claimed("/home".into()), None);
        drop(objects);
        assert!(!manifest.exists(), "each job makes its own");
    }
}
