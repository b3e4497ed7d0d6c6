//! A folder of objects whose job fetches them when they are wanted, and the process that does.
//!
//! What such a process was at when it died is asked for once more, one by one: what kills it fails alone.

use super::error::StoreError;
use super::events::Event;
use super::process::{AT_ONCE, Fetcher, Said};
use super::slot::manifest_path;
use crate::dataset::{Found, Manifest};
use crate::protocol::store::{Bring, FetchRequest, Task};
use std::collections::{HashMap, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Processes that may die one after the other and bring nothing: each of those that one was at may be the end of one.
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
    /// What tells of the objects that have no stand-ins.
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
            // Without it nothing is known of what is in it, which is told of each object.
            manifest: Manifest::open(&manifest_path(&request.folder)).ok(),
            events: events.clone(),
            fetcher: None,
            number: 0,
            open: HashMap::new(),
            asked: 0,
            suspects: VecDeque::new(),
            rest: VecDeque::new(),
            is_careful: false,
            deaths: 0,
            moved: Instant::now(),
        }
    }

    /// Where a file may lie until it has its name.
    pub(super) fn part(&self, name: &str) -> PathBuf {
        self.request.folder.join("part").join(name)
    }

    /// Whether a file is an object of this folder. What leads out of it again is none.
    pub(super) fn has(&self, file: &Path) -> bool {
        let Ok(name) = file.strip_prefix(&self.data) else { return false };
        let is_plain = |part| matches!(part, Component::Normal(_));
        name.file_name().is_some() && name.components().all(is_plain)
    }

    /// What the manifest tells of an object.
    pub(super) fn known(&mut self, file: &Path) -> Option<Found> {
        let name = file.strip_prefix(&self.data).ok()?.to_str()?;
        let found = self.manifest.as_mut()?.find(name).ok()??;
        found.ok()
    }

    /// Whether there is a process with this number; that of an earlier one has nothing to say.
    pub(super) fn is_served_by(&self, number: u64) -> bool {
        self.number == number
    }

    /// Whether there is a process that has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.fetcher.is_some() && self.open.is_empty()
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

    /// Asks for an object, of which its manifest may tell. An error says why nobody can.
    pub(super) fn ask(&mut self, file: &Path, known: Option<Found>) -> Result<(), StoreError> {
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
                let (index, number, events) = (self.index, self.number, self.events.clone());
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

    /// Asks for the next one, where they are asked for one by one. Returns what nobody can ask for.
    pub(super) fn go_on(&mut self) -> Option<Lost> {
        if !self.is_careful || !self.open.is_empty() {
            return None;
        }
        let next = match self.suspects.pop_front() {
            Some(object) => vec![object],
            None => {
                self.is_careful = false;
                self.rest.drain(..).collect()
            }
        };
        let mut next = next.into_iter();
        while let Some(object) = next.next() {
            let file = self.data.join(&object.name);
            if let Err(error) = self.send(object) {
                let (mut lost, reason) = self.give_up(&error.to_string());
                lost.push(file);
                lost.extend(next.map(|object| self.data.join(object.name)));
                return Some((lost, reason));
            }
        }
        None
    }

    /// The process has died. Returns what has come of that: the object that it was asked for alone cannot be had;
    /// several are asked for once more.
    pub(super) fn died(&mut self) -> Lost {
        let ended = self.fetcher.take().map(|fetcher| fetcher.end().to_string());
        let reason = ended.unwrap_or_default();
        self.deaths += 1;
        if self.deaths > DEATHS {
            return self.give_up(&reason);
        }
        if self.is_careful {
            return (self.open.drain().map(|(file, _)| file).collect(), reason);
        }
        let mut open: Vec<_> = self.open.drain().map(|(_, object)| object).collect();
        open.sort_unstable_by_key(|(asked, _)| *asked);
        self.is_careful = !open.is_empty();
        // It takes them in their order.
        for (index, (_, object)) in open.into_iter().enumerate() {
            let to = if index < AT_ONCE { &mut self.suspects } else { &mut self.rest };
            to.push_back(object);
        }
        (Vec::new(), reason)
    }

    /// Nothing has moved for too long. Returns what cannot be had: one that was asked for alone, or all.
    pub(super) fn fell_silent(&mut self, reason: &str) -> Lost {
        if !self.is_careful {
            return self.give_up(reason);
        }
        self.fetcher = None;
        (self.open.drain().map(|(file, _)| file).collect(), reason.to_owned())
    }

    /// Ends the process. Returns all that it was and would be asked for.
    pub(super) fn give_up(&mut self, reason: &str) -> Lost {
        self.fetcher = None;
        self.is_careful = false;
        self.deaths = 0;
        let mut lost: Vec<PathBuf> = self.open.drain().map(|(file, _)| file).collect();
        let more = self.suspects.drain(..).chain(self.rest.drain(..));
        lost.extend(more.map(|object| self.data.join(object.name)));
        (lost, reason.to_owned())
    }

    /// Ends a process that has nothing to do.
    pub(super) fn end(&mut self) {
        self.fetcher = None;
    }
}
