//! The objects of a job: where they lie, and who brings those that are not here yet.

use super::ahead::{self, LOOKS, Lot};
use super::all::{Lack, Tally};
use super::events::{Arrival, Event};
use super::slot::Slot;
use crate::model::Source;
use crate::protocol::Asks;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

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
    events: mpsc::Sender<Event>,
    arrivals: UnboundedReceiver<Arrival>,
    brings_all: bool,
    tally: Arc<Tally>,
}

impl Drop for Bringer {
    fn drop(&mut self) {
        // Fails if nobody is there any more.
        let _ = self.events.send(Event::End);
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

    /// Brings all of them, or those that are [wanted](Self::want).
    pub(super) fn coming(slots: Vec<Slot>, lot: Lot) -> std::io::Result<Self> {
        let tally = Arc::new(Tally::default());
        let (sender, arrivals) = unbounded_channel();
        let (events, asked) = mpsc::channel();
        let own = events.clone();
        let told = Arc::clone(&tally);
        let brings_all = lot.brings_all;
        let work = move || {
            ahead::run(lot, &asked, &own, sender, Arc::clone(&told));
            told.end();
        };
        let thread = thread::Builder::new().name("fetch".to_owned()).spawn(work)?;
        let bringer = Bringer { thread: Some(thread), events, arrivals, brings_all, tally };
        Ok(Self { bringer: Some(bringer), slots, ..Self::default() })
    }

    /// Tells a source that is made of these where the list of its files is. False if it is not made of these, or its list
    /// is none: nobody may read what the process that fetches has put a link to.
    pub fn claim(&self, source: &mut Source) -> bool {
        let slot = self.slots.iter().find(|slot| slot.holds(&source.root));
        source.manifest = slot.and_then(Slot::manifest);
        source.manifest.is_some()
    }

    /// Tells which paths are those of objects, whether these are here or not. Quick where paths of one folder are asked for
    /// in their order.
    pub fn lookup(&self) -> impl FnMut(&Path) -> bool {
        let mut slots: Vec<_> = self.slots.iter().map(Slot::lookup).collect();
        move |path| slots.iter_mut().any(|is_object| is_object(path))
    }

    /// Whether objects come only if they are [wanted](Self::want).
    pub fn come_on_demand(&self) -> bool {
        self.asks() == Asks::Each
    }

    /// Before which of these a planner must ask.
    pub fn asks(&self) -> Asks {
        match &self.bringer {
            None => Asks::Never,
            Some(Bringer { brings_all: true, .. }) => Asks::Absent,
            Some(_) => Asks::Each,
        }
    }

    /// The next thing that comes; never, if nothing will.
    pub async fn arrival(&mut self) -> Arrival {
        let Some(bringer) = &mut self.bringer else { return pending().await };
        match bringer.arrivals.recv().await {
            Some(arrival) => arrival,
            // The last thing that it told is why.
            None => pending().await,
        }
    }

    /// The same for a thread that waits for it; none if nothing will come.
    pub fn blocking_arrival(&mut self) -> Option<Arrival> {
        self.bringer.as_mut()?.arrivals.blocking_recv()
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
        if let Some(bringer) = &self.bringer {
            // It ends before this only if the disk has no room, which it has told.
            let _ = bringer.events.send(event);
        }
    }

    /// Waits until all is here that comes unasked. `tell` hears how many objects and bytes have come.
    pub fn wait(&self, stop: &dyn Fn() -> bool, tell: &mut dyn FnMut(u64, u64)) {
        let Some(bringer) = self.bringer.as_ref().filter(|bringer| bringer.brings_all) else {
            return;
        };
        while !bringer.tally.is_done() && !stop() {
            thread::sleep(TICK);
            let (objects, bytes) = bringer.tally.so_far();
            tell(objects, bytes);
        }
    }

    /// What is missing of what comes unasked, so far.
    pub(super) fn take_lack(&self) -> Option<Lack> {
        self.bringer.as_ref()?.tally.take_lack()
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
        let data = slot.data();
        let manifest = manifest_path(slot.folder());
        let objects = Objects::here(vec![slot]);
        let claimed = |root: PathBuf| {
            let mut source = Source::new("data", root);
            objects.claim(&mut source).then_some(source.manifest).flatten()
        };
        assert_eq!(claimed(data.join("folder")), None, "there is no list");
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
