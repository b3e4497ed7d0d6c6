//! A folder of objects that are fetched on request, and its fetcher process.
//!
//! If the process dies, the objects that it was working on are requested once more, one by one, so that only
//! the object that kills it fails.

use super::cache_dir::manifest_path;
use super::error::StoreError;
use super::events::StoreEvent;
use super::process::{AT_ONCE, Fetcher, FetcherReport};
use crate::dataset::{Manifest, ManifestObject};
use crate::protocol::store::{FetchRequest, ObjectRequest, StoreTask};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The most processes of a folder that may die in a row without delivering an object. Each object that the
/// first one was working on may kill one more.
#[expect(clippy::cast_possible_truncation, reason = "some dozen are at once")]
const DEATHS: u32 = AT_ONCE as u32 + 2;

/// Objects that cannot be fetched, and the reason.
pub(super) type Lost = (Vec<PathBuf>, String);

/// A folder of objects, and its fetcher process if there is one.
#[derive(Debug)]
pub(super) struct FetchQueue {
    index: usize,
    program: PathBuf,
    request: FetchRequest,
    data: PathBuf,
    /// The list of the objects; `None` until it is opened.
    manifest: Option<Manifest>,
    events: Sender<StoreEvent>,
    fetcher: Option<Fetcher>,
    /// The number of processes started so far, which is the number of the current one.
    number: u64,
    /// The objects that are requested and have not arrived, each with its number in the order of requests.
    open: HashMap<PathBuf, (u64, ObjectRequest)>,
    asked: u64,
    /// After a process died: the objects that may have killed it, which are requested one by one, and those
    /// that are requested after them.
    suspects: VecDeque<ObjectRequest>,
    rest: VecDeque<ObjectRequest>,
    is_careful: bool,
    /// How many processes died in a row without delivering an object.
    deaths: u32,
    given_up: Option<String>,
    /// The last time that something was requested or reported.
    moved: Instant,
}

impl FetchQueue {
    /// Creates the folder of a request, which has this index. The processes report to `events`.
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
            number: 0,
            open: HashMap::new(),
            asked: 0,
            suspects: VecDeque::new(),
            rest: VecDeque::new(),
            is_careful: false,
            deaths: 0,
            given_up: None,
            moved: Instant::now(),
        }
    }

    /// Whether a file is an object of this folder. False for a path that leads out of it again.
    pub(super) fn has(&self, file: &Path) -> bool {
        let Ok(name) = file.strip_prefix(&self.data) else { return false };
        let is_plain = |part| matches!(part, Component::Normal(_));
        name.file_name().is_some() && name.components().all(is_plain)
    }

    /// Opens the list of its objects.
    pub(super) fn list(&self) -> io::Result<Manifest> {
        Manifest::open(&manifest_path(&self.request.folder))
    }

    /// The path of an object of its list.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// What the list says about an object. An error says why it cannot be fetched.
    pub(super) fn known(&mut self, file: &Path) -> Result<ManifestObject, String> {
        let name = file.strip_prefix(&self.data).ok().and_then(Path::to_str);
        let name = name.ok_or_else(|| StoreError::OddName.to_string())?;
        let list = match self.manifest.take() {
            Some(list) => Ok(list),
            None => self.list(),
        };
        let found = list.and_then(|list| self.manifest.insert(list).find(name));
        let found = found.map_err(|error| StoreError::List(error).to_string())?;
        found.unwrap_or_else(|| Err(StoreError::NotListed.to_string()))
    }

    /// Whether the current process has this number. Reports of earlier ones are ignored.
    pub(super) fn is_served_by(&self, number: u64) -> bool {
        self.number == number
    }

    /// Whether there is a process without work.
    pub(super) fn is_idle(&self) -> bool {
        self.fetcher.is_some() && self.open.is_empty()
    }

    /// Whether requested objects have not arrived yet.
    pub(super) fn is_busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether there is a process.
    pub(super) fn is_served(&self) -> bool {
        self.fetcher.is_some()
    }

    /// The last time that something was requested or reported.
    pub(super) fn moved(&self) -> Instant {
        self.moved
    }

    /// Notes that the process reported something.
    pub(super) fn moves(&mut self) {
        self.moved = Instant::now();
    }

    /// Whether objects are requested and nothing was reported for this long.
    pub(super) fn is_silent(&self, patience: Duration) -> bool {
        !self.open.is_empty() && self.moved.elapsed() > patience
    }

    /// Requests an object, with what the list says about it. An error says why no process can be asked.
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
            none => {
                self.number += 1;
                let index = self.index;
                let number = self.number;
                let events = self.events.clone();
                let on_report = move |report: FetcherReport| {
                    events.send(StoreEvent::Reported(index, number, report)).is_ok()
                };
                none.insert(Fetcher::start(&self.program, &self.request, on_report)?)
            }
        };
        fetcher.request(&object);
        self.moved = Instant::now();
        self.asked += 1;
        self.open.insert(self.data.join(&object.name), (self.asked, object));
        Ok(())
    }

    /// Notes that an object has arrived or failed. Returns its file; `None` if it was not requested.
    pub(super) fn came(&mut self, name: &str) -> Option<PathBuf> {
        let file = self.data.join(name);
        self.deaths = 0;
        self.open.remove(&file).map(|_| file)
    }

    /// If objects are requested one by one, requests the next one. An error says why no process can be asked.
    pub(super) fn request_next(&mut self) -> Result<(), StoreError> {
        if !self.is_careful || !self.open.is_empty() {
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

    /// Handles the death of the process. If a single object was requested, it fails, and is returned. If
    /// there were several, they are requested again one by one. An error means that there were too many
    /// deaths.
    pub(super) fn died(&mut self) -> Result<Lost, StoreError> {
        // The process was already ended by us.
        let Some(fetcher) = self.fetcher.take() else { return Ok(Lost::default()) };
        let ended = fetcher.end();
        self.deaths += 1;
        if self.deaths > DEATHS {
            return Err(ended);
        }
        if self.is_careful {
            return Ok((self.open.drain().map(|(file, _)| file).collect(), ended.to_string()));
        }
        let mut open: Vec<_> = self.open.drain().map(|(_, object)| object).collect();
        open.sort_unstable_by_key(|(asked, _)| *asked);
        self.is_careful = !open.is_empty();
        // The process handles requests in order, so only the first ones can have killed it.
        for (index, (_, object)) in open.into_iter().enumerate() {
            let to = if index < AT_ONCE { &mut self.suspects } else { &mut self.rest };
            to.push_back(object);
        }
        Ok(Lost::default())
    }

    /// Handles a process that reported nothing for too long. If a single object was requested, the process is
    /// ended, and the object is returned as failed. `None` otherwise.
    pub(super) fn fell_silent(&mut self) -> Option<Vec<PathBuf>> {
        self.is_careful.then(|| {
            self.fetcher = None;
            self.open.drain().map(|(file, _)| file).collect()
        })
    }

    /// Ends the process, for a reason. Returns all objects that were requested or waited.
    pub(super) fn give_up(&mut self, reason: &str) -> Lost {
        self.given_up = Some(reason.to_owned());
        self.fetcher = None;
        self.is_careful = false;
        self.deaths = 0;
        let mut lost: Vec<PathBuf> = self.open.drain().map(|(file, _)| file).collect();
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
