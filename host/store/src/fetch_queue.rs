//! A folder of objects that are fetched on request, and its fetcher process.
//!
//! If the process dies, the objects that it was working on are requested once more, one by one, so that only
//! the object that kills it fails.

use super::cache_dir::manifest_path;
use super::error::StoreError;
use super::events::StoreEvent;
use super::process::{Fetcher, FetcherReport, PARALLEL_FETCHES};
use crate::dataset::{Manifest, ManifestObject};
use crate::protocol::store::{FetchRequest, ObjectRequest, StoreTask};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How many processes of a folder may die in a row without delivering an object. After the first death, each
/// object that the first process was working on may kill one more process.
#[expect(
    clippy::cast_possible_truncation,
    reason = "some dozen objects are fetched at the same time"
)]
const MAX_DEATHS: u32 = PARALLEL_FETCHES as u32 + 2;

/// Objects that cannot be fetched, and the reason.
pub(super) type Lost = (Vec<PathBuf>, String);

/// A folder of objects, and its fetcher process if there is one.
#[derive(Debug)]
pub(super) struct FetchQueue {
    index: usize,
    program: PathBuf,
    request: FetchRequest,
    data: PathBuf,
    /// The manifest of the objects; `None` until it is opened.
    manifest: Option<Manifest>,
    events: Sender<StoreEvent>,
    fetcher: Option<Fetcher>,
    /// The number of processes started so far. It identifies the current process.
    process_number: u64,
    /// The objects that are requested and have not arrived, each with its number in the order of requests.
    requested: HashMap<PathBuf, (u64, ObjectRequest)>,
    /// How many objects were requested so far.
    request_count: u64,
    /// After a process died: the objects that may have killed it, which are requested one by one.
    suspects: VecDeque<ObjectRequest>,
    /// The objects that are requested after the suspects.
    rest: VecDeque<ObjectRequest>,
    /// Whether objects are requested one by one.
    is_careful: bool,
    /// How many processes died in a row without delivering an object.
    deaths: u32,
    /// Why this folder was given up; `None` if it was not.
    given_up: Option<String>,
    /// The last time that something was requested or reported.
    last_activity: Instant,
}

impl FetchQueue {
    /// The queue for the folder of a request. `index`: the index of the folder, for the reports that
    /// processes send to `events`.
    pub(super) fn new(
        index: usize,
        program: &Path,
        request: &FetchRequest,
        events: &Sender<StoreEvent>,
    ) -> Self {
        Self {
            index,
            program: program.to_owned(),
            request: FetchRequest { task: StoreTask::Serve, ..request.clone() },
            data: request.folder.join("data"),
            manifest: None,
            events: events.clone(),
            fetcher: None,
            process_number: 0,
            requested: HashMap::new(),
            request_count: 0,
            suspects: VecDeque::new(),
            rest: VecDeque::new(),
            is_careful: false,
            deaths: 0,
            given_up: None,
            last_activity: Instant::now(),
        }
    }

    /// Whether a path is that of an object in this folder. False for a path that leads out of the folder.
    pub(super) fn has(&self, file: &Path) -> bool {
        let Ok(name) = file.strip_prefix(&self.data) else { return false };
        let is_plain = |part| matches!(part, Component::Normal(_));
        name.file_name().is_some() && name.components().all(is_plain)
    }

    pub(super) fn open_manifest(&self) -> io::Result<Manifest> {
        Manifest::open(&manifest_path(&self.request.folder))
    }

    /// The path of an object of this folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// The manifest's record of an object. An error says why the object cannot be fetched.
    pub(super) fn record(&mut self, file: &Path) -> Result<ManifestObject, String> {
        let name = file.strip_prefix(&self.data).ok().and_then(Path::to_str);
        let name = name.ok_or_else(|| StoreError::OddName.to_string())?;
        let manifest = match self.manifest.take() {
            Some(manifest) => Ok(manifest),
            None => self.open_manifest(),
        };
        let found = manifest.and_then(|manifest| self.manifest.insert(manifest).find(name));
        let found = found.map_err(|error| StoreError::List(error).to_string())?;
        found.unwrap_or_else(|| Err(StoreError::NotListed.to_string()))
    }

    /// Whether the current process has this number. The caller ignores reports of earlier processes.
    pub(super) fn is_served_by(&self, number: u64) -> bool {
        self.process_number == number
    }

    /// Whether a process is running and has no work.
    pub(super) fn is_idle(&self) -> bool {
        self.fetcher.is_some() && self.requested.is_empty()
    }

    /// Whether requested objects have not arrived yet.
    pub(super) fn is_busy(&self) -> bool {
        !self.requested.is_empty()
    }

    /// Whether a process is running.
    pub(super) fn is_served(&self) -> bool {
        self.fetcher.is_some()
    }

    /// The last time that something was requested or reported.
    pub(super) fn last_activity(&self) -> Instant {
        self.last_activity
    }

    /// Notes that the process reported something.
    pub(super) fn note_activity(&mut self) {
        self.last_activity = Instant::now();
    }

    /// Whether objects are requested and nothing was reported for this long.
    pub(super) fn is_silent(&self, patience: Duration) -> bool {
        !self.requested.is_empty() && self.last_activity.elapsed() > patience
    }

    /// Requests an object. `known`: the manifest's record of the object. An error says why no process can be
    /// started.
    pub(super) fn ask(&mut self, file: &Path, known: ManifestObject) -> Result<(), StoreError> {
        let name = file.strip_prefix(&self.data).ok().and_then(Path::to_str);
        let name = name.ok_or(StoreError::OddName)?.to_owned();
        let object = ObjectRequest { name, known };
        if self.is_careful {
            self.rest.push_back(object);
            return Ok(());
        }
        self.send(object)
    }

    fn send(&mut self, object: ObjectRequest) -> Result<(), StoreError> {
        let fetcher = match &mut self.fetcher {
            Some(fetcher) => fetcher,
            fetcher => {
                self.process_number += 1;
                let index = self.index;
                let number = self.process_number;
                let events = self.events.clone();
                let on_report = move |report: FetcherReport| {
                    events.send(StoreEvent::Reported(index, number, report)).is_ok()
                };
                fetcher.insert(Fetcher::start(&self.program, &self.request, on_report)?)
            }
        };
        fetcher.request(&object);
        self.last_activity = Instant::now();
        self.request_count += 1;
        self.requested.insert(self.data.join(&object.name), (self.request_count, object));
        Ok(())
    }

    /// Notes that an object has arrived or failed. Returns its file; `None` if it was not requested.
    pub(super) fn on_arrival(&mut self, name: &str) -> Option<PathBuf> {
        let file = self.data.join(name);
        self.deaths = 0;
        self.requested.remove(&file).map(|_| file)
    }

    /// If objects are requested one by one, requests the next one. An error says why no process can be
    /// started.
    pub(super) fn request_next(&mut self) -> Result<(), StoreError> {
        if !self.is_careful || !self.requested.is_empty() {
            return Ok(());
        }
        let next = match self.suspects.pop_front() {
            Some(object) => vec![object],
            None => {
                self.is_careful = false;
                self.rest.drain(..).collect()
            }
        };
        let mut next = VecDeque::from(next);
        while let Some(object) = next.pop_front() {
            if let Err(error) = self.send(object.clone()) {
                next.push_front(object);
                next.append(&mut self.rest);
                self.rest = next;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Handles the death of the process. If objects were requested one by one, returns the current
    /// one, as failed. Otherwise, the objects that the process was working on are requested again,
    /// one by one. Fails if too many processes died.
    pub(super) fn died(&mut self) -> Result<Lost, StoreError> {
        // We have already ended the process.
        let Some(fetcher) = self.fetcher.take() else { return Ok(Lost::default()) };
        let ended = fetcher.end();
        self.deaths += 1;
        if self.deaths > MAX_DEATHS {
            return Err(ended);
        }
        if self.is_careful {
            return Ok((self.requested.drain().map(|(file, _)| file).collect(), ended.to_string()));
        }
        let mut requested: Vec<_> = self.requested.drain().map(|(_, object)| object).collect();
        requested.sort_unstable_by_key(|(number, _)| *number);
        self.is_careful = !requested.is_empty();
        // The process handles requests in order, so only the first ones can have killed it.
        for (index, (_, object)) in requested.into_iter().enumerate() {
            let to = if index < PARALLEL_FETCHES { &mut self.suspects } else { &mut self.rest };
            to.push_back(object);
        }
        Ok(Lost::default())
    }

    /// Handles a process that reported nothing for too long. If objects are requested one by one,
    /// ends the process, and returns the current object, as failed. `None` otherwise.
    pub(super) fn fell_silent(&mut self) -> Option<Vec<PathBuf>> {
        self.is_careful.then(|| {
            self.fetcher = None;
            self.requested.drain().map(|(file, _)| file).collect()
        })
    }

    /// Gives this folder up, for this reason: ends the process, and returns all objects that were
    /// requested or waiting.
    pub(super) fn give_up(&mut self, reason: &str) -> Lost {
        self.given_up = Some(reason.to_owned());
        self.fetcher = None;
        self.is_careful = false;
        self.deaths = 0;
        let mut lost: Vec<PathBuf> = self.requested.drain().map(|(file, _)| file).collect();
        let more = self.suspects.drain(..).chain(self.rest.drain(..));
        lost.extend(more.map(|object| self.data.join(object.name)));
        (lost, reason.to_owned())
    }

    /// Why this folder was given up; `None` if it was not.
    pub(super) fn given_up(&self) -> Option<&str> {
        self.given_up.as_deref()
    }

    /// Ends the process, which has no work.
    pub(super) fn end(&mut self) {
        self.fetcher = None;
    }
}
