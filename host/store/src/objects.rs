//! The objects of a job: where they lie, and who brings those that are not here yet.

use super::ahead::{self, LOOKS, Lot};
use super::events::{Arrival, Event};
use super::process::ask;
use super::slot::Slot;
use super::target::{Target, mark};
use crate::dataset::is_stand_in;
use crate::model::Source;
use crate::protocol::store::StoreErrorKind;
use crate::protocol::store::{FetchRequest, Task};
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use walkdir::WalkDir;

/// How often it is looked whether all is here.
const TICK: Duration = Duration::from_millis(20);

/// The objects that a job's inputs are made of. They are this job's until this is dropped.
#[derive(Debug, Default)]
pub struct Objects {
    bringer: Option<Bringer>,
    /// How many were wanted for no mini-batch.
    others: u64,
    /// Last: the folders are kept until nobody writes there any more.
    slots: Vec<Slot>,
}

/// Whoever brings objects, on a thread.
#[derive(Debug)]
struct Bringer {
    thread: Option<JoinHandle<()>>,
    /// Where objects are asked for; none if all of them are brought.
    events: Option<mpsc::Sender<Event>>,
    arrivals: Option<UnboundedReceiver<Arrival>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    stop: AtomicBool,
    done: AtomicBool,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Drop for Bringer {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        if let Some(events) = self.events.take() {
            // Fails if nobody is there any more.
            let _ = events.send(Event::End);
        }
        if let Some(thread) = self.thread.take() {
            // It has told what is wrong.
            let _ = thread.join();
        }
    }
}

impl Objects {
    /// Objects that are all here.
    pub(super) fn here(slots: Vec<Slot>) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Brings all of them, folder by folder; those that cannot be had get marks.
    pub(super) fn bringing(
        slots: Vec<Slot>,
        requests: Vec<FetchRequest>,
        program: PathBuf,
    ) -> std::io::Result<Self> {
        let state = Arc::new(State::default());
        let (sender, arrivals) = unbounded_channel();
        let told = Arc::clone(&state);
        let work = move || {
            bring(&requests, &program, &told, &sender);
            told.done.store(true, Ordering::Release);
        };
        let thread = thread::Builder::new().name("bring".to_owned()).spawn(work)?;
        let (thread, arrivals) = (Some(thread), Some(arrivals));
        let bringer = Some(Bringer { thread, events: None, arrivals, state });
        Ok(Self { bringer, slots, ..Self::default() })
    }

    /// Brings those that are [wanted](Self::want).
    pub(super) fn on_demand(slots: Vec<Slot>, lot: Lot) -> std::io::Result<Self> {
        let state = Arc::new(State::default());
        state.done.store(true, Ordering::Relaxed);
        let (sender, arrivals) = unbounded_channel();
        let (events, asked) = mpsc::channel();
        let own = events.clone();
        let work = move || ahead::run(lot, &asked, &own, sender);
        let thread = thread::Builder::new().name("fetch-ahead".to_owned()).spawn(work)?;
        let (thread, arrivals) = (Some(thread), Some(arrivals));
        let bringer = Some(Bringer { thread, events: Some(events), arrivals, state });
        Ok(Self { bringer, slots, ..Self::default() })
    }

    /// Tells a source that is made of these where the list of its files is, if no stand-ins tell of them. False if it is
    /// not made of these: nobody may read what the process that fetches has put a link to.
    pub fn claim(&self, source: &mut Source) -> bool {
        let slot = self.slots.iter().find(|slot| slot.holds(&source.root));
        source.manifest = slot.and_then(Slot::manifest);
        slot.is_some()
    }

    /// Whether objects come only if they are [wanted](Self::want).
    pub fn come_on_demand(&self) -> bool {
        self.bringer.as_ref().is_some_and(|bringer| bringer.events.is_some())
    }

    /// The next thing that comes; never, if nothing will.
    pub async fn arrival(&mut self) -> Arrival {
        let Some(bringer) = &mut self.bringer else { return pending().await };
        let Some(arrivals) = &mut bringer.arrivals else { return pending().await };
        match arrivals.recv().await {
            Some(arrival) => arrival,
            None => {
                // All is here.
                bringer.arrivals = None;
                Arrival::Progress
            }
        }
    }

    /// The same for a thread that waits for it; none if nothing will come.
    pub fn blocking_arrival(&mut self) -> Option<Arrival> {
        self.bringer.as_mut()?.arrivals.as_mut()?.blocking_recv()
    }

    /// Why nothing more comes of what comes unasked, if the disk has no room for it.
    pub fn no_space(&mut self) -> Option<String> {
        if self.come_on_demand() {
            return None;
        }
        let arrivals = self.bringer.as_mut()?.arrivals.as_mut()?;
        while let Ok(arrival) = arrivals.try_recv() {
            if let Arrival::NoSpace(text) = arrival {
                return Some(text);
            }
        }
        None
    }

    /// Asks for these files under a number. They are brought in the order in which they are asked for, and stay
    /// until they are [released](Self::release). Files that are none of the objects count as here.
    pub fn want(&self, number: u64, files: Vec<PathBuf>) {
        self.send(Event::Want(number, files));
    }

    /// Asks for a file for no mini-batch. Returns its number, which none of these has.
    pub fn want_one(&mut self, file: PathBuf) -> u64 {
        let number = LOOKS + self.others;
        self.others += 1;
        self.want(number, vec![file]);
        number
    }

    /// Nobody needs what was wanted under these numbers any more, whether it has come or not.
    pub fn release(&self, numbers: Vec<u64>) {
        self.send(Event::Release(numbers));
    }

    fn send(&self, event: Event) {
        if let Some(events) = self.bringer.as_ref().and_then(|bringer| bringer.events.as_ref()) {
            // It ends with this alone.
            let _ = events.send(event);
        }
    }

    /// Waits until all is here that comes unasked. `tell` hears how many objects and bytes have come.
    pub fn wait(&self, stop: &dyn Fn() -> bool, tell: &mut dyn FnMut(u64, u64)) {
        let Some(bringer) = &self.bringer else { return };
        while !bringer.state.done.load(Ordering::Acquire) && !stop() {
            thread::sleep(TICK);
            let State { objects, bytes, .. } = &*bringer.state;
            tell(objects.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
        }
    }
}

/// Brings all that stand-ins stand for.
fn bring(
    requests: &[FetchRequest],
    program: &Path,
    state: &State,
    arrivals: &UnboundedSender<Arrival>,
) {
    let stop = || state.stop.load(Ordering::Relaxed);
    let (mut objects, mut bytes) = (0, 0);
    for request in requests {
        let request = FetchRequest { task: Task::All, ..request.clone() };
        let done = ask(program, &request, &stop, &mut |so_far| {
            state.objects.store(objects + so_far.objects, Ordering::Relaxed);
            state.bytes.store(bytes + so_far.bytes, Ordering::Relaxed);
            // Nobody may want to know.
            let _ = arrivals.send(Arrival::Progress);
        });
        match done {
            Ok(so_far) => {
                objects += so_far.objects;
                bytes += so_far.bytes;
            }
            Err(_) if stop() => return,
            Err(error) if error.kind() == StoreErrorKind::DiskFull => {
                let _ = arrivals.send(Arrival::NoSpace(error.to_string()));
                return;
            }
            Err(error) => mark_all(&request.folder, &error.to_string()),
        }
        let _ = arrivals.send(Arrival::Progress);
    }
}

/// Puts marks in the places of all that is not here: whoever waits for it must not wait for ever.
fn mark_all(folder: &Path, reason: &str) {
    for entry in WalkDir::new(folder.join("data")).into_iter().flatten() {
        if entry.metadata().is_ok_and(|metadata| is_stand_in(&metadata)) {
            let (file, part) = (entry.into_path(), folder.join("part").join("mark"));
            let target = Target { file, part, most: 0 };
            if mark(&target, reason).is_err() {
                // Where nothing can be written, something can be removed: the planner says that it is gone.
                let _ = std::fs::remove_file(&target.file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::manifest_path;

    /// A process that fetches may be taken over, and what it made may have been resolved.
    #[test]
    fn what_lies_elsewhere_is_nobodys_source() {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::take(&dir.path().join("cache"), "s3://box/").unwrap();
        let (data, manifest) = (slot.data(), manifest_path(slot.folder()));
        let objects = Objects::here(vec![slot]);
        let claimed = |root: PathBuf| {
            let mut source = Source::new("data", root);
            objects.claim(&mut source).then_some(source.manifest)
        };
        assert_eq!(claimed(data.join("folder")), Some(None), "stand-ins tell of them");
        std::os::unix::fs::symlink("/etc/passwd", &manifest).unwrap();
        assert_eq!(claimed(data.clone()), Some(None));
        std::fs::remove_file(&manifest).unwrap();
        std::fs::write(&manifest, "").unwrap();
        assert_eq!(claimed(data), Some(Some(manifest.clone())));
        assert_eq!(claimed("/home".into()), None);
        drop(objects);
        assert!(!manifest.exists(), "each job makes its own");
    }
}
