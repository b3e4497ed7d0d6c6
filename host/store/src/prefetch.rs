//! Prefetches the objects that mini-batches need and those that the planner asks for, as many as the cache
//! has room for, and evicts them when they are done. Or it fetches all objects, those that the planner asks
//! for first. Runs on its own thread.
//!
//! An object counts as present if its file has the length and time that the list gives. Which objects cannot
//! be fetched is kept in memory only.

use super::error::StoreError;
use super::events::{StagingReport, StoreEvent};
use super::fetch_all::{FetchProgress, FolderLists};
use super::fetch_queue::{FetchQueue, Lost};
use super::process::{AT_ONCE, FetcherReport, SILENCE};
use crate::dataset::{ManifestObject, ManifestRecord};
use crate::model::ByteSize;
use crate::protocol::store::{FetchRequest, FromFetcher, StoreErrorKind};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// The most idle fetcher processes that are kept.
const IDLE: usize = 4;
/// How often we check whether a process has fallen silent.
const TICK: Duration = Duration::from_secs(5);
/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// The most objects that are requested at the same time when all objects are fetched: enough that no process
/// runs out of work.
const WINDOW: usize = 4 * AT_ONCE;
/// The most list entries that are handled between two events.
const TURN: usize = 500;

/// Mini-batches have smaller numbers; requests of the planner have this number or a larger one.
pub(super) const PLANNER_REQUESTS: u64 = 1 << 63;

/// What is to be fetched, and how much of it at once.
#[derive(Debug)]
pub(super) struct FetchPlan {
    pub(super) program: PathBuf,
    /// One for each folder.
    pub(super) requests: Vec<FetchRequest>,
    /// The most bytes that the objects may take.
    pub(super) room: u64,
    /// Whether objects are removed once no user needs them, because not all of them fit into the cache.
    pub(super) evicts: bool,
    /// Whether all objects are fetched, in the order of their lists. They all fit into the cache.
    pub(super) fetches_all: bool,
}

/// An object that a request needs.
#[derive(Debug)]
struct NeededObject {
    bytes: u64,
    /// How many requests need it. If none is left while it is being fetched, it is removed once it has
    /// arrived.
    users: usize,
    state: HeldState,
}

#[derive(Debug)]
enum HeldState {
    /// It is being fetched; the requests with these numbers wait for it.
    Coming(Vec<u64>),
    Here,
    Failed(String),
}

/// A request that waits for room.
#[derive(Debug)]
struct WaitingObject {
    number: u64,
    files: Vec<PathBuf>,
    /// Those of the files that are objects; `None` until they have been looked up.
    objects: Option<Vec<NewObject>>,
}

/// An object that may have to be fetched.
#[derive(Debug)]
struct NewObject {
    file: PathBuf,
    place: usize,
    /// What the list says about it, or why it cannot be fetched.
    known: Result<ManifestObject, String>,
}

impl NewObject {
    fn bytes(&self) -> u64 {
        self.known.as_ref().map_or(0, |object| object.found.length)
    }
}

/// A request that has been admitted.
#[derive(Debug)]
struct PrefetchGroup {
    files: Vec<PathBuf>,
    /// How many of its objects are still being fetched.
    coming: usize,
}

struct Prefetcher {
    plan: FetchPlan,
    places: Vec<FetchQueue>,
    arrivals: UnboundedSender<StagingReport>,
    used: u64,
    held: HashMap<PathBuf, NeededObject>,
    /// The requests that there was no room for so far.
    waiting: VecDeque<WaitingObject>,
    wanted: HashMap<u64, PrefetchGroup>,
    /// How many objects are being fetched.
    coming: usize,
    /// If all objects are fetched: those that are still to be requested.
    lists: FolderLists,
    tally: Arc<FetchProgress>,
    /// When progress was last reported.
    reported: Instant,
}

/// Serves until the job ends. `own` is the sender of `events`; the fetcher processes report through it.
pub(super) fn run(
    plan: FetchPlan,
    events: &Receiver<StoreEvent>,
    own: &Sender<StoreEvent>,
    arrivals: UnboundedSender<StagingReport>,
    tally: Arc<FetchProgress>,
) {
    let requests = plan.requests.iter().enumerate();
    let place = |(index, request)| FetchQueue::new(index, &plan.program, request, own);
    let mut prefetcher = Prefetcher {
        places: requests.map(place).collect(),
        plan,
        arrivals,
        used: 0,
        held: HashMap::new(),
        waiting: VecDeque::new(),
        wanted: HashMap::new(),
        coming: 0,
        lists: FolderLists::default(),
        tally,
        reported: Instant::now(),
    };
    let mut has_more = prefetcher.request_more();
    loop {
        match events.recv_timeout(if has_more { Duration::ZERO } else { TICK }) {
            Ok(StoreEvent::Want(number, files)) => prefetcher.want(number, files),
            Ok(StoreEvent::Release(numbers)) => {
                numbers.into_iter().for_each(|number| prefetcher.release(number));
            }
            Ok(StoreEvent::Reported(place, number, report)) => {
                if prefetcher.on_fetcher_report(place, number, report).is_break() {
                    return;
                }
            }
            Ok(StoreEvent::End) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => prefetcher.end_silent(),
        }
        prefetcher.admit();
        has_more = prefetcher.request_more();
    }
}

impl Prefetcher {
    /// A request whose objects are all held already needs no room, so it need not wait for a request of the
    /// planner that has no room yet. It does wait for earlier mini-batches: these are handed out in order,
    /// and objects that a later mini-batch keeps could leave an earlier one without room.
    fn want(&mut self, number: u64, files: Vec<PathBuf>) {
        let is_new =
            |file: &PathBuf| !self.held.contains_key(file) && self.place_of(file).is_some();
        let is_after = self.waiting.iter().any(|waiting| waiting.number < PLANNER_REQUESTS);
        match is_after || files.iter().any(is_new) {
            true => self.waiting.push_back(WaitingObject { number, files, objects: None }),
            false => self.join(number, files),
        }
    }

    /// Admits the waiting requests that there is room for, in their order.
    fn admit(&mut self) {
        while let Some(WaitingObject { number, files, objects }) = self.waiting.pop_front() {
            let objects = objects.unwrap_or_else(|| self.find_objects(&files));
            let is_new = |object: &&NewObject| !self.held.contains_key(&object.file);
            let new = objects.iter().filter(is_new);
            let bytes = new.fold(0_u64, |bytes, new| bytes.saturating_add(new.bytes()));
            // A file that is larger than the cache need not wait for room.
            let is_hopeless = files.len() == 1 && bytes > self.plan.room;
            let has_room = self.used.saturating_add(bytes) <= self.plan.room;
            if !has_room && !self.held.is_empty() && !is_hopeless {
                self.waiting.push_front(WaitingObject { number, files, objects: Some(objects) });
                return;
            }
            for new in objects {
                if self.held.contains_key(&new.file) {
                    continue;
                }
                let has_room = self.used.saturating_add(new.bytes()) <= self.plan.room;
                let state = match has_room {
                    true => self.ask_for(&new),
                    // It would not fit into the empty cache either.
                    false => failed(&StoreError::NoRoom {
                        files: files.len(),
                        bytes: ByteSize(bytes),
                        room: ByteSize(self.plan.room),
                    }),
                };
                self.hold(new, has_room, state);
            }
            self.join(number, files);
        }
    }

    /// If all objects are fetched, requests some more of them. Returns whether more can be requested at once.
    fn request_more(&mut self) -> bool {
        if !self.plan.fetches_all {
            return false;
        }
        for _ in 0..TURN {
            if self.coming >= WINDOW {
                return false;
            }
            match self.lists.next(&self.places) {
                Ok(Some((place, listed))) => self.request_listed(place, listed),
                Ok(None) => {
                    self.end_if_done();
                    return false;
                }
                Err((place, error)) => self.give_up(place, StoreError::List(error)),
            }
        }
        true
    }

    /// Requests an object, unless it was requested already.
    fn request_listed(&mut self, place: usize, ManifestRecord { name, object }: ManifestRecord) {
        let Some(folder) = self.places.get(place) else { return };
        let file = folder.file(&name);
        // The list comes from a fetcher process, which is not trusted: a name may lead out of its folder.
        if !folder.has(&file) || self.held.contains_key(&file) {
            return;
        }
        let new = NewObject { file, place, known: object };
        match self.ask_for(&new) {
            HeldState::Here => {}
            HeldState::Failed(reason) => self.tally.lacks(&new.file, &reason),
            state @ HeldState::Coming(_) => self.hold(new, true, state),
        }
    }

    /// When all objects have arrived, reports that and ends the processes.
    fn end_if_done(&mut self) {
        if self.coming == 0 && !self.tally.is_done() {
            self.places.iter_mut().for_each(FetchQueue::end);
            self.tally.end();
        }
    }

    fn hold(&mut self, new: NewObject, has_room: bool, state: HeldState) {
        let bytes = if has_room { new.bytes() } else { 0 };
        self.used = self.used.saturating_add(bytes);
        self.held.insert(new.file, NeededObject { bytes, users: 0, state });
    }

    /// The folder of objects that a file is in. `None` for other files, and for paths that lead out of the
    /// folder again.
    fn place_of(&self, file: &Path) -> Option<usize> {
        self.places.iter().position(|place| place.has(file))
    }

    /// Returns those of the files that are objects.
    fn find_objects(&mut self, files: &[PathBuf]) -> Vec<NewObject> {
        let mut objects: Vec<NewObject> = Vec::new();
        let mut seen = HashSet::new();
        for file in files {
            if let Some(place) = self.place_of(file)
                && seen.insert(file)
            {
                let known = self.places.get_mut(place).map(|place| place.known(file));
                objects.extend(known.map(|known| NewObject { file: file.clone(), place, known }));
            }
        }
        objects
    }

    /// Requests an object, unless it is here.
    fn ask_for(&mut self, new: &NewObject) -> HeldState {
        let object = match &new.known {
            Ok(object) => *object,
            Err(reason) => return HeldState::Failed(reason.clone()),
        };
        if object.found.is_at(&new.file) {
            return HeldState::Here;
        }
        let Some(place) = self.places.get(new.place) else { return HeldState::Here };
        if self.plan.fetches_all
            && let Some(reason) = place.given_up()
        {
            return HeldState::Failed(reason.to_owned());
        }
        if !place.is_served() {
            self.end_idle();
        }
        let Some(place) = self.places.get_mut(new.place) else { return HeldState::Here };
        match place.ask(&new.file, object) {
            Ok(()) => {
                self.coming += 1;
                HeldState::Coming(Vec::new())
            }
            Err(error) => {
                let state = failed(&error);
                if self.plan.fetches_all {
                    self.give_up(new.place, error);
                }
                state
            }
        }
    }

    /// Ends idle processes if there are too many.
    fn end_idle(&mut self) {
        let running = self.places.iter().filter(|place| place.is_served()).count();
        let mut idle: Vec<&mut FetchQueue> =
            self.places.iter_mut().filter(|place| place.is_idle()).collect();
        idle.sort_by_key(|place| place.moved());
        for place in idle.into_iter().take((running + 1).saturating_sub(IDLE)) {
            place.end();
        }
    }

    /// Registers a request as a user of its files.
    fn join(&mut self, number: u64, files: Vec<PathBuf>) {
        let mut coming = 0;
        for file in &files {
            let Some(held) = self.held.get_mut(file) else { continue };
            held.users += 1;
            if let HeldState::Coming(waiting) = &mut held.state {
                waiting.push(number);
                coming += 1;
            }
        }
        self.wanted.insert(number, PrefetchGroup { files, coming });
        if coming == 0 {
            self.report(number);
        }
    }

    /// Reports that all objects of a request have arrived or failed.
    fn report(&self, number: u64) {
        let Some(wanted) = self.wanted.get(&number) else { return };
        let mut failed = Vec::new();
        for (index, file) in (0..).zip(&wanted.files) {
            if let Some(NeededObject { state: HeldState::Failed(reason), .. }) = self.held.get(file)
            {
                failed.push((index, reason.clone()));
            }
        }
        // The receiver may have been dropped.
        let _ = self.arrivals.send(StagingReport::Ready(number, failed));
    }

    /// Breaks if the disk is full: the processes end with the caller, and no new process is started.
    fn on_fetcher_report(
        &mut self,
        index: usize,
        number: u64,
        report: FetcherReport,
    ) -> ControlFlow<()> {
        let is_of = |place: &&mut FetchQueue| place.is_served_by(number);
        let Some(place) = self.places.get_mut(index).filter(is_of) else {
            return ControlFlow::Continue(());
        };
        place.moves();
        match report {
            Some(Ok(FromFetcher::Brought(name, failed))) => {
                if let Some(file) = place.came(&name) {
                    self.arrived(&file, failed.map(|it| StoreError::from(it).to_string()));
                }
                self.report_progress();
            }
            Some(Ok(FromFetcher::Progress(_))) => self.report_progress(),
            Some(Ok(FromFetcher::Failed(failed))) => {
                let error = StoreError::from(failed);
                if error.kind() == StoreErrorKind::DiskFull {
                    // The fault is the disk's, so no object is marked as failed.
                    let _ = self.arrivals.send(StagingReport::NoSpace(error.to_string()));
                    self.tally.lacks_rest(error);
                    return ControlFlow::Break(());
                }
                self.give_up(index, error);
            }
            Some(Ok(FromFetcher::Done(_))) => self.give_up(index, StoreError::Over),
            Some(Err(error)) => self.give_up(index, StoreError::Nonsense(error)),
            None => match place.died() {
                Ok(lost) => self.fail_all(lost),
                Err(error) => self.give_up(index, error),
            },
        }
        self.request_next(index);
        ControlFlow::Continue(())
    }

    /// Reports progress, but not too often.
    fn report_progress(&mut self) {
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            // The job may have ended.
            let _ = self.arrivals.send(StagingReport::Progress);
        }
    }

    fn request_next(&mut self, index: usize) {
        if let Some(Err(error)) = self.places.get_mut(index).map(FetchQueue::request_next) {
            self.give_up(index, error);
        }
    }

    /// Fails all objects that were requested from a folder's process or wait for it. If all objects are
    /// fetched, the rest of that folder fails, too.
    fn give_up(&mut self, index: usize, error: StoreError) {
        let Some(place) = self.places.get_mut(index) else { return };
        let lost = place.give_up(&error.to_string());
        if self.plan.fetches_all {
            self.tally.lacks_rest(error);
        }
        self.fail_all(lost);
    }

    /// Marks these objects as failed.
    fn fail_all(&mut self, (files, reason): Lost) {
        for file in files {
            self.arrived(&file, Some(reason.clone()));
        }
    }

    fn end_silent(&mut self) {
        for index in 0..self.places.len() {
            let place = self.places.get_mut(index).filter(|place| place.is_silent(SILENCE));
            let Some(place) = place else { continue };
            match place.fell_silent() {
                Some(files) => self.fail_all((files, StoreError::Silent(SILENCE).to_string())),
                None => self.give_up(index, StoreError::Silent(SILENCE)),
            }
            self.request_next(index);
        }
    }

    fn arrived(&mut self, file: &Path, failed: Option<String>) {
        let Some(held) = self.held.get_mut(file) else { return };
        match &failed {
            Some(reason) => {
                self.tally.count(0);
                self.tally.lacks(file, reason);
            }
            None => self.tally.count(held.bytes),
        }
        let state = failed.map_or(HeldState::Here, HeldState::Failed);
        if let HeldState::Coming(waiting) = std::mem::replace(&mut held.state, state) {
            self.coming = self.coming.saturating_sub(1);
            for number in waiting {
                let Some(wanted) = self.wanted.get_mut(&number) else { continue };
                wanted.coming = wanted.coming.saturating_sub(1);
                if wanted.coming == 0 {
                    self.report(number);
                }
            }
        }
        self.evict_unneeded(file);
    }

    /// Drops a request. The objects that only this request needed make room. It may still be waiting, or its
    /// objects may not have arrived.
    fn release(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
        let Some(wanted) = self.wanted.remove(&number) else { return };
        for file in wanted.files {
            if let Some(held) = self.held.get_mut(&file) {
                held.users = held.users.saturating_sub(1);
            }
            self.evict_unneeded(&file);
        }
    }

    /// Removes an object that no request needs and that is not being fetched.
    fn evict_unneeded(&mut self, file: &Path) {
        let is_needed =
            |held: &NeededObject| held.users > 0 || matches!(held.state, HeldState::Coming(_));
        if self.held.get(file).is_none_or(is_needed) {
            return;
        }
        // A later request for it gets the same answer.
        let is_kept = |held: &NeededObject| matches!(held.state, HeldState::Failed(_));
        if self.plan.fetches_all && self.held.get(file).is_some_and(is_kept) {
            return;
        }
        let Some(held) = self.held.remove(file) else { return };
        self.used = self.used.saturating_sub(held.bytes);
        if self.plan.evicts && matches!(held.state, HeldState::Here) {
            // If it cannot be removed, it is removed later with the whole folder.
            let _ = without_links(file).and_then(|(_folder, file)| fs::remove_file(file));
        }
    }
}

/// A path to a file by way of its open folder, which is opened without following links. A fetcher process can
/// write to the folder, and may have been compromised.
fn without_links(file: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Old kernels do not have openat2, and some containers block it.
        Err(Errno::NOSYS | Errno::PERM) => {
            let root = rustix::fs::open("/", flags, Mode::empty())?;
            let mut parts = folder.components().skip(1);
            parts.try_fold(root, |folder, part| {
                openat(&folder, part.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())
            })?
        }
        opened => opened?,
    };
    let way = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((folder, way))
}

/// The state of an object that cannot be fetched.
fn failed(error: &StoreError) -> HeldState {
    HeldState::Failed(error.to_string())
}

#[cfg(test)]
#[path = "prefetch_tests.rs"]
mod tests;
