//! A folder of objects whose job fetches them when they are wanted, and the process that does.
//!
//! What such a process was at when it died is asked for once more, one by one: what kills it fails alone.

use super::error::StoreError;
use super::events::Event;
use super::process::{AT_ONCE, Fetcher, Said};
use super::slot::manifest_path;
use crate::dataset::{Manifest, Object};
use crate::protocol::store::{Bring, FetchRequest, Task};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Processes that may die one after the other and bring nothing: each of those that one was at may be the end of one.
#[expect(clippy::cast_possible_truncation, reason = "some dozen are at once")]
const DEATHS: u32 = AT_ONCE as u32 + 2;

/// Objects that cannot be had, all for this reason.
pub(super) type Lost = (Vec<PathBuf>, String);

/// A folder of objects, and the process that fetches them if there is one.
#[derive(Debug)]
pub(super) struct Place {
    index: usize,
    program: PathBuf,
    request: FetchRequest,
    data: PathBuf,
    /// What tells of the objects; `None` until it is read.
    manifest: Option<Manifest>,
    events: Sender<Event>,
    fetcher: Option<Fetcher>,
    /// Counts the processes.
    number: u64,
    /// What is asked for and has not come, and how much was asked for before.
    open: HashMap<PathBuf, (u64, Bring)>,
    asked: u64,
    /// What a process that died may have been at: this is asked for one by one, and all else after it.
    suspects: VecDeque<Bring>,
    rest: VecDeque<Bring>,
    is_careful: bool,
    /// Processes that died one after the other and brought nothing.
    deaths: u32,
    given_up: Option<String>,
    /// When something was asked for or came last.
    moved: Instant,
}

impl Place {
    /// The folder of a request, the place of which is `index`. What processes say goes to `events`.
    pub(super) fn new(
        index: usize,
        program: &Path,
        request: &FetchRequest,
        events: &Sender<Event>,
    ) -> Self {
        Self {
            index,
            program: program.to_owned(),
            request: FetchRequest { task: Task::Serve, ..request.clone() },
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

    /// Whether a file is an object of this folder. What leads out of it again is none.
    pub(super) fn has(&self, file: &Path) -> bool {
        let Ok(name) = file.strip_prefix(&self.data) else { return false };
        let is_plain = |part| matches!(part, Component::Normal(_));
        name.file_name().is_some() && name.components().all(is_plain)
    }

    /// The list of its objects, from the first one on.
    pub(super) fn list(&self) -> io::Result<Manifest> {
        Manifest::open(&manifest_path(&self.request.folder))
    }

    /// Where an object of its list lies.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// What the list tells of an object. An error says why it cannot be had.
    pub(super) fn known(&mut self, file: &Path) -> Result<Object, String> {
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

    /// Whether there is a process with this number; that of an earlier one has nothing to say.
    pub(super) fn is_served_by(&self, number: u64) -> bool {
        self.number == number
    }

    /// Whether there is a process that has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.fetcher.is_some() && self.open.is_empty()
    }

    /// Whether something is asked for and has not come.
    pub(super) fn is_busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether there is a process.
    pub(super) fn is_served(&self) -> bool {
        self.fetcher.is_some()
    }

    /// When something was asked for or came last.
    pub(super) fn moved(&self) -> Instant {
        self.moved
    }

    /// Something was said.
    pub(super) fn moves(&mut self) {
        self.moved = Instant::now();
    }

    /// Whether what was asked for has not moved for so long.
    pub(super) fn is_silent(&self, patience: Duration) -> bool {
        !self.open.is_empty() && self.moved.elapsed() > patience
    }

    /// Asks for an object, of which its list tells this. An error says why no process can be asked.
    pub(super) fn ask(&mut self, file: &Path, known: Object) -> Result<(), StoreError> {
        let name = file.strip_prefix(&self.data).ok().and_then(Path::to_str);
        let name = name.ok_or(StoreError::OddName)?.to_owned();
        let object = Bring { name, known };
        if self.is_careful {
            self.rest.push_back(object);
            return Ok(());
        }
        self.send(object)
    }

    fn send(&mut self, object: Bring) -> Result<(), StoreError> {
        let fetcher = match &mut self.fetcher {
            Some(fetcher) => fetcher,
            none => {
                self.number += 1;
                let index = self.index;
                let number = self.number;
                let events = self.events.clone();
                let hear = move |said: Said| events.send(Event::Said(index, number, said)).is_ok();
                none.insert(Fetcher::start(&self.program, &self.request, hear)?)
            }
        };
        fetcher.bring(&object);
        self.moved = Instant::now();
        self.asked += 1;
        self.open.insert(self.data.join(&object.name), (self.asked, object));
        Ok(())
    }

    /// An object has come, or cannot be had. Its file; none if nobody asked for it.
    pub(super) fn came(&mut self, name: &str) -> Option<PathBuf> {
        let file = self.data.join(name);
        self.deaths = 0;
        self.open.remove(&file).map(|_| file)
    }

    /// Asks for the next one, where they are asked for one by one. An error says why no process can be asked.
    pub(super) fn go_on(&mut self) -> Result<(), StoreError> {
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

    /// The process has died. Returns what has come of that: the object that it was asked for alone cannot be had;
    /// several are asked for once more. An error says that there were too many deaths.
    pub(super) fn died(&mut self) -> Result<Lost, StoreError> {
        // One that was ended has no more to say.
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
        // It takes them in their order.
        for (index, (_, object)) in open.into_iter().enumerate() {
            let to = if index < AT_ONCE { &mut self.suspects } else { &mut self.rest };
            to.push_back(object);
        }
        Ok(Lost::default())
    }

    /// Nothing has moved for too long. Returns what cannot be had, if it is one object that was asked for alone.
    pub(super) fn fell_silent(&mut self) -> Option<Vec<PathBuf>> {
        self.is_careful.then(|| {
            self.fetcher = None;
            self.open.drain().map(|(file, _)| file).collect()
        })
    }

    /// Ends the process, for a reason. Returns all that it was and would be asked for.
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

    /// Why a process for it was given up, if one was.
    pub(super) fn given_up(&self) -> Option<&str> {
        self.given_up.as_deref()
    }

    /// Ends a process that has nothing to do.
    pub(super) fn end(&mut self) {
        self.fetcher = None;
    }
}
