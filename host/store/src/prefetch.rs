//! Prefetches the objects that mini-batches and the planner need, as many as the cache has room
//! for, and evicts objects that are no longer needed. If all objects fit into the cache, the plan
//! may be to fetch all of them instead. Even then, this code first fetches what the planner
//! requests. It runs on its own thread.
//!
//! An object counts as present if its file has the length and time that the manifest says. The list
//! of objects that cannot be fetched is in memory only.

use super::error::StoreError;
use super::events::{StagingReport, StoreEvent};
use super::fetch_all::{FetchProgress, FolderLists};
use super::fetch_queue::{FetchQueue, Lost};
use super::idle_objects::IdleObjects;
use super::needed_objects::{
    FailedFetch, HeldState, NeededObject, NewObject, PrefetchGroup, WaitingObject, remove_file,
};
use super::process::{FetcherReport, MAX_SILENCE, PARALLEL_FETCHES};
use crate::dataset::{ManifestObject, ManifestRecord};
use crate::model::ByteSize;
use crate::protocol::store::{FetchRequest, FromFetcher, StoreErrorKind, UnfetchedObject};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// The maximum number of idle fetcher processes that are kept.
const MAX_IDLE: usize = 4;
/// The interval at which we check whether a process has fallen silent.
const SILENCE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of objects that are requested at the same time when all objects are fetched: enough
/// that no process runs out of work.
const MAX_OPEN_REQUESTS: usize = 4 * PARALLEL_FETCHES;
/// The maximum number of manifest entries that are handled between two events.
const MAX_ENTRIES_PER_TURN: usize = 500;

/// Requests of the planner have this number or a larger one; the requests of mini-batches have smaller
/// numbers.
pub(super) const PLANNER_REQUESTS: u64 = 1 << 63;

/// The objects to fetch, and how many bytes of them the cache may hold at the same time.
#[derive(Debug)]
pub(super) struct FetchPlan {
    pub(super) program: PathBuf,
    /// One request for each folder.
    pub(super) requests: Vec<FetchRequest>,
    /// The maximum number of bytes that the objects may take in the cache.
    pub(super) room: u64,
    /// Whether objects are removed once no request needs them, because not all of them fit into the
    /// cache.
    pub(super) evicts: bool,
    /// Whether objects that no request needs stay until others need their room. The folders have no manifests, and
    /// requests say what is known about their objects.
    pub(super) keeps: bool,
    /// Whether all objects are fetched, in the order of the manifests. All of them fit into the cache.
    pub(super) fetches_all: bool,
}

struct Prefetcher {
    plan: FetchPlan,
    queues: Vec<FetchQueue>,
    arrivals: UnboundedSender<StagingReport>,
    /// The bytes that the held objects take.
    used: u64,
    /// The objects that take room, or that requests need.
    held: HashMap<PathBuf, NeededObject>,
    /// The requests for which there was no room so far.
    waiting: VecDeque<WaitingObject>,
    /// The admitted requests, by number.
    admitted: HashMap<u64, PrefetchGroup>,
    /// How many objects are being fetched.
    coming: usize,
    /// The objects that are still to be requested, if all objects are fetched.
    lists: FolderLists,
    /// The objects that may be evicted when there is no room.
    idle: IdleObjects,
    progress: Arc<FetchProgress>,
    /// When progress was last reported.
    reported: Instant,
}

/// Serves until the job ends. `fetcher_events`: a sender for `events`, through which fetcher processes
/// report.
pub(super) fn run(
    plan: FetchPlan,
    events: &Receiver<StoreEvent>,
    fetcher_events: &Sender<StoreEvent>,
    arrivals: UnboundedSender<StagingReport>,
    progress: Arc<FetchProgress>,
) {
    let (idle, used) = match plan.keeps {
        true => IdleObjects::find(&plan.requests),
        false => (IdleObjects::default(), 0),
    };
    let requests = plan.requests.iter().enumerate();
    let queue = |(index, request)| FetchQueue::new(index, &plan.program, request, fetcher_events);
    let mut prefetcher = Prefetcher {
        queues: requests.map(queue).collect(),
        plan,
        arrivals,
        used,
        idle,
        held: HashMap::new(),
        waiting: VecDeque::new(),
        admitted: HashMap::new(),
        coming: 0,
        lists: FolderLists::default(),
        progress,
        reported: Instant::now(),
    };
    let mut has_more = prefetcher.request_more();
    loop {
        match events.recv_timeout(if has_more { Duration::ZERO } else { SILENCE_CHECK_INTERVAL }) {
            Ok(StoreEvent::Want(number, files)) => prefetcher.want(number, files, None),
            Ok(StoreEvent::WantKnown(number, objects)) => prefetcher.want_known(number, &objects),
            Ok(StoreEvent::Release(numbers)) => {
                numbers.into_iter().for_each(|number| prefetcher.release(number));
            }
            Ok(StoreEvent::Reported(index, number, report)) => {
                if prefetcher.on_fetcher_report(index, number, report).is_break() {
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
    /// Handles a new request. A request whose objects are all held needs no room, so waiting requests
    /// of the planner do not delay it. Waiting requests of mini-batches do: mini-batches run in
    /// order, and the objects of a later one could leave no room for an earlier one. `objects`: the objects among the
    /// files, if they are known.
    fn want(&mut self, number: u64, files: Vec<PathBuf>, objects: Option<Vec<NewObject>>) {
        let is_new =
            |file: &PathBuf| !self.held.contains_key(file) && self.folder_of(file).is_some();
        let is_after = self.waiting.iter().any(|waiting| waiting.number < PLANNER_REQUESTS);
        match is_after || files.iter().any(is_new) {
            true => self.waiting.push_back(WaitingObject { number, files, objects }),
            false => self.register(number, files),
        }
    }

    fn want_known(&mut self, number: u64, known: &[(PathBuf, ManifestObject)]) {
        let mut objects: Vec<NewObject> = Vec::new();
        let mut seen = HashSet::new();
        for (file, object) in known {
            if let Some(folder_index) = self.folder_of(file)
                && seen.insert(file)
            {
                let file = file.clone();
                objects.push(NewObject { file, folder_index, known: Ok(*object) });
            }
        }
        let files = known.iter().map(|(file, _)| file.clone()).collect();
        self.want(number, files, Some(objects));
    }

    /// Admits waiting requests in their order, until there is no room for the next one.
    fn admit(&mut self) {
        while let Some(WaitingObject { number, files, objects }) = self.waiting.pop_front() {
            let objects = objects.unwrap_or_else(|| self.find_objects(&files));
            for object in &objects {
                self.used = self.used.saturating_sub(self.idle.claim(&object.file));
            }
            let is_new = |object: &&NewObject| !self.held.contains_key(&object.file);
            let new = objects.iter().filter(is_new);
            let bytes = new.fold(0_u64, |bytes, new| bytes.saturating_add(new.bytes()));
            // A single file that is larger than the cache need not wait for room: there will never be enough.
            let is_hopeless = files.len() == 1 && bytes > self.plan.room;
            if !is_hopeless {
                self.make_room(bytes, &objects);
            }
            let has_room = self.used.saturating_add(bytes) <= self.plan.room;
            // Idle objects that stay are those of this request. They never make room by themselves.
            let may_get_room = self.held.values().any(|held| !held.is_idle());
            if !has_room && may_get_room && !is_hopeless {
                self.waiting.push_front(WaitingObject { number, files, objects: Some(objects) });
                return;
            }
            for new in objects {
                if self.held.contains_key(&new.file) {
                    continue;
                }
                let has_room = self.used.saturating_add(new.bytes()) <= self.plan.room;
                let state = match has_room {
                    true => self.request_object(&new),
                    // The request would not fit into an empty cache either.
                    false => {
                        let bytes = ByteSize(bytes);
                        let room = ByteSize(self.plan.room);
                        let error = StoreError::NoRoom { files: files.len(), bytes, room };
                        HeldState::Failed(FailedFetch::from(&error))
                    }
                };
                self.insert(new, has_room, state);
            }
            self.register(number, files);
        }
    }

    /// Removes idle objects until there is room for this many bytes, or none is left. Spares `wanted`.
    fn make_room(&mut self, bytes: u64, wanted: &[NewObject]) {
        let mut spared = Vec::new();
        while self.used.saturating_add(bytes) > self.plan.room {
            if let Some((file, length)) = self.idle.take_leftover() {
                self.used = self.used.saturating_sub(length);
                remove_file(&file);
                continue;
            }
            let Some(file) = self.idle.take_released() else { break };
            match wanted.iter().any(|object| object.file == file) {
                true => spared.push(file),
                false => self.evict_idle(&file),
            }
        }
        self.idle.put_back(spared);
    }

    /// Removes an object that was idle, unless it is needed again.
    fn evict_idle(&mut self, file: &Path) {
        let Some(held) = self.held.get_mut(file) else { return };
        held.is_listed = false;
        if held.is_idle() {
            self.used = self.used.saturating_sub(held.bytes);
            self.held.remove(file);
            remove_file(file);
        }
    }

    /// If all objects are fetched, requests some more of them. Returns whether more can be requested
    /// immediately.
    fn request_more(&mut self) -> bool {
        if !self.plan.fetches_all {
            return false;
        }
        for _ in 0..MAX_ENTRIES_PER_TURN {
            if self.coming >= MAX_OPEN_REQUESTS {
                return false;
            }
            match self.lists.next(&self.queues) {
                Ok(Some((index, listed))) => self.request_listed(index, listed),
                Ok(None) => {
                    self.end_if_done();
                    return false;
                }
                Err((index, error)) => self.give_up(index, StoreError::List(error)),
            }
        }
        true
    }

    /// Requests an object, unless it was requested already.
    fn request_listed(
        &mut self,
        folder_index: usize,
        ManifestRecord { name, object }: ManifestRecord,
    ) {
        let Some(folder) = self.queues.get(folder_index) else { return };
        let file = folder.file(&name);
        // The manifest comes from a fetcher process, which is not trusted: a name may lead out of the folder.
        if !folder.has(&file) || self.held.contains_key(&file) {
            return;
        }
        let new = NewObject { file, folder_index, known: object };
        match self.request_object(&new) {
            HeldState::Here => {}
            HeldState::Failed(failed) => self.progress.note_missing(&new.file, &failed.reason),
            state @ HeldState::Coming(_) => self.insert(new, true, state),
        }
    }

    /// If all objects have arrived, notes that the work is done, and ends the processes.
    fn end_if_done(&mut self) {
        if self.coming == 0 && !self.progress.is_done() {
            self.queues.iter_mut().for_each(FetchQueue::end);
            self.progress.end();
        }
    }

    fn insert(&mut self, new: NewObject, has_room: bool, state: HeldState) {
        let bytes = if has_room { new.bytes() } else { 0 };
        self.used = self.used.saturating_add(bytes);
        self.held.insert(new.file, NeededObject { bytes, users: 0, is_listed: false, state });
    }

    /// The index of the folder that holds an object. `None` for other files, and for paths that lead out of
    /// the folder.
    fn folder_of(&self, file: &Path) -> Option<usize> {
        self.queues.iter().position(|queue| queue.has(file))
    }

    /// Returns the objects among the files.
    fn find_objects(&mut self, files: &[PathBuf]) -> Vec<NewObject> {
        let mut objects: Vec<NewObject> = Vec::new();
        let mut seen = HashSet::new();
        for file in files {
            if let Some(folder_index) = self.folder_of(file)
                && seen.insert(file)
            {
                let known = self.queues.get_mut(folder_index).map(|queue| queue.record(file));
                objects.extend(known.map(|known| NewObject {
                    file: file.clone(),
                    folder_index,
                    known,
                }));
            }
        }
        objects
    }

    /// Requests an object, unless it is here. Returns its state.
    fn request_object(&mut self, new: &NewObject) -> HeldState {
        let object = match &new.known {
            Ok(object) => *object,
            Err(reason) => {
                return HeldState::Failed(FailedFetch { reason: reason.clone(), is_final: true });
            }
        };
        // Without a manifest, another job may have left the file. If its time has no nanoseconds, it may be another
        // version.
        let is_exact = !self.plan.keeps || object.version == object.found.nanos;
        if is_exact && object.found.is_at(&new.file) {
            return HeldState::Here;
        }
        let Some(queue) = self.queues.get(new.folder_index) else { return HeldState::Here };
        if self.plan.fetches_all
            && let Some(reason) = queue.given_up()
        {
            let reason = reason.to_owned();
            return HeldState::Failed(FailedFetch { reason, is_final: false });
        }
        if !queue.is_served() {
            self.end_idle();
        }
        let Some(queue) = self.queues.get_mut(new.folder_index) else { return HeldState::Here };
        match queue.ask(&new.file, object) {
            Ok(()) => {
                self.coming += 1;
                HeldState::Coming(Vec::new())
            }
            Err(error) => {
                let state = HeldState::Failed(FailedFetch::from(&error));
                if self.plan.fetches_all {
                    self.give_up(new.folder_index, error);
                }
                state
            }
        }
    }

    /// Ends idle processes if there are too many.
    fn end_idle(&mut self) {
        let running = self.queues.iter().filter(|queue| queue.is_served()).count();
        let mut idle: Vec<&mut FetchQueue> =
            self.queues.iter_mut().filter(|queue| queue.is_idle()).collect();
        idle.sort_by_key(|queue| queue.last_activity());
        for queue in idle.into_iter().take((running + 1).saturating_sub(MAX_IDLE)) {
            queue.end();
        }
    }

    /// Registers a request as a user of its files.
    fn register(&mut self, number: u64, files: Vec<PathBuf>) {
        let mut coming = 0;
        for file in &files {
            let Some(held) = self.held.get_mut(file) else { continue };
            held.users += 1;
            if let HeldState::Coming(waiting) = &mut held.state {
                waiting.push(number);
                coming += 1;
            }
        }
        self.admitted.insert(number, PrefetchGroup { files, coming });
        if coming == 0 {
            self.report(number);
        }
    }

    /// Reports that all objects of a request have arrived or failed.
    fn report(&self, number: u64) {
        let Some(request) = self.admitted.get(&number) else { return };
        let mut failed = Vec::new();
        for (index, file) in (0..).zip(&request.files) {
            if let Some(NeededObject { state: HeldState::Failed(found), .. }) = self.held.get(file)
            {
                let FailedFetch { reason, is_final } = found.clone();
                failed.push(UnfetchedObject { file: index, reason, is_final, is_other: false });
            }
        }
        // The receiver may have been dropped.
        let _ = self.arrivals.send(StagingReport::Ready(number, failed));
    }

    /// Handles a report of a fetcher process. Breaks if the disk is full. The caller then returns,
    /// which ends all processes.
    fn on_fetcher_report(
        &mut self,
        index: usize,
        number: u64,
        report: FetcherReport,
    ) -> ControlFlow<()> {
        let is_current = |queue: &&mut FetchQueue| queue.is_served_by(number);
        let Some(queue) = self.queues.get_mut(index).filter(is_current) else {
            return ControlFlow::Continue(());
        };
        queue.note_activity();
        match report {
            Some(Ok(FromFetcher::Downloaded(name, failed))) => {
                if let Some(file) = queue.on_arrival(&name) {
                    let failed = failed.map(|failed| FailedFetch::from(&StoreError::from(failed)));
                    self.on_arrival(&file, failed);
                }
                self.report_progress();
            }
            Some(Ok(FromFetcher::Progress(_))) => self.report_progress(),
            Some(Ok(FromFetcher::Failed(failed))) => {
                let error = StoreError::from(failed);
                if error.kind() == StoreErrorKind::DiskFull {
                    // No object is marked as failed, because any other object would fail, too.
                    let _ = self.arrivals.send(StagingReport::NoSpace(error.to_string()));
                    self.progress.note_rest_missing(error);
                    return ControlFlow::Break(());
                }
                self.give_up(index, error);
            }
            // A process that fetches has no calls to answer, and publishes nothing.
            Some(Ok(FromFetcher::Answer(..) | FromFetcher::Noted | FromFetcher::Done(_))) => {
                self.give_up(index, StoreError::Over);
            }
            Some(Err(error)) => self.give_up(index, StoreError::Nonsense(error)),
            None => match queue.died() {
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
        if let Some(Err(error)) = self.queues.get_mut(index).map(FetchQueue::request_next) {
            self.give_up(index, error);
        }
    }

    /// Fails all objects that were requested from a folder's process or wait for it. If all objects are
    /// fetched, the rest of that folder fails, too.
    fn give_up(&mut self, index: usize, error: StoreError) {
        let Some(queue) = self.queues.get_mut(index) else { return };
        let lost = queue.give_up(&error.to_string());
        if self.plan.fetches_all {
            self.progress.note_rest_missing(error);
        }
        self.fail_all(lost);
    }

    /// Marks these objects as failed.
    fn fail_all(&mut self, (files, reason): Lost) {
        for file in files {
            let reason = reason.clone();
            self.on_arrival(&file, Some(FailedFetch { reason, is_final: false }));
        }
    }

    /// Handles the processes that reported nothing for too long.
    fn end_silent(&mut self) {
        for index in 0..self.queues.len() {
            let queue = self.queues.get_mut(index).filter(|queue| queue.is_silent(MAX_SILENCE));
            let Some(queue) = queue else { continue };
            match queue.fell_silent() {
                Some(files) => self.fail_all((files, StoreError::Silent(MAX_SILENCE).to_string())),
                None => self.give_up(index, StoreError::Silent(MAX_SILENCE)),
            }
            self.request_next(index);
        }
    }

    /// Notes that an object has arrived or failed.
    fn on_arrival(&mut self, file: &Path, failed: Option<FailedFetch>) {
        let Some(held) = self.held.get_mut(file) else { return };
        match &failed {
            Some(failed) => {
                self.progress.count(0);
                self.progress.note_missing(file, &failed.reason);
            }
            None => self.progress.count(held.bytes),
        }
        let state = failed.map_or(HeldState::Here, HeldState::Failed);
        if let HeldState::Coming(waiting) = std::mem::replace(&mut held.state, state) {
            self.coming = self.coming.saturating_sub(1);
            for number in waiting {
                let Some(request) = self.admitted.get_mut(&number) else { continue };
                request.coming = request.coming.saturating_sub(1);
                if request.coming == 0 {
                    self.report(number);
                }
            }
        }
        self.evict_unneeded(file);
    }

    /// Drops a request, which may still be waiting. The objects that only this request needed are
    /// evicted, once they have arrived.
    fn release(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
        let Some(request) = self.admitted.remove(&number) else { return };
        for file in request.files {
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
        // A failed object is kept, so that a later request for it gets the same answer.
        let is_kept = |held: &NeededObject| matches!(held.state, HeldState::Failed(_));
        if self.plan.fetches_all && self.held.get(file).is_some_and(is_kept) {
            return;
        }
        if self.plan.keeps
            && let Some(held) = self.held.get_mut(file).filter(|held| held.is_idle())
        {
            if !std::mem::replace(&mut held.is_listed, true)
                && let Some(oldest) = self.idle.release(file.to_owned())
            {
                self.evict_idle(&oldest);
            }
            return;
        }
        let Some(held) = self.held.remove(file) else { return };
        self.used = self.used.saturating_sub(held.bytes);
        if self.plan.evicts && matches!(held.state, HeldState::Here) {
            remove_file(file);
        }
    }
}

#[cfg(test)]
#[path = "prefetch_tests.rs"]
mod tests;
