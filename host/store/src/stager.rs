//! Finds what a job reads from stores, and has it brought to this machine, by way of processes that fetch.

use super::ahead::Lot;
use super::all::Lack;
use super::config::{configure, is_endpoint};
use super::error::StoreError;
use super::objects::Objects;
use super::process::ask;
use super::slot::{self, Slot};
use crate::model::{Address, ByteSize, Input, OsSandbox, StoreKind};
use crate::protocol::PROTOCOL_VERSION;
use crate::protocol::store::{FetchRequest, Fetched, StoreConfig, Task, Wanted};
use crate::spec::Datastores;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use walkdir::WalkDir;

/// Who fetches, and where to.
#[derive(Debug)]
pub struct Stager<'a> {
    /// The `sandmill` binary.
    pub program: &'a Path,
    /// The folder for objects.
    pub cache: &'a Path,
    /// How much of the process wall must stand.
    pub os_sandbox: OsSandbox,
    /// Stores by name.
    pub datastores: &'a Datastores,
    /// On whose behalf.
    pub tenant: &'a str,
    /// The names of inputs that must be no tables with a [log](crate::dataset::TableLog).
    pub without_tables: Vec<String>,
}

/// When the objects of a job's inputs come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// At once: all of them must fit into the cache.
    AtOnce,
    /// At once if all of them fit, else when they are [wanted](Objects::want).
    AsTheyFit,
    /// When they are wanted. A guest sees those of its mini-batch alone.
    OnDemand,
}

/// How often progress is told.
const TELL: Duration = Duration::from_secs(10);

/// What is fetched together: all that an input wants of one folder of a store.
struct Part {
    store: StoreConfig,
    prefix: String,
    wanted: Wanted,
    shown: String,
    /// Where the input's paths lead, below the slot's folder for objects.
    paths: Vec<String>,
}

/// What a job keeps of the cache.
#[derive(Debug, Default)]
pub struct Kept {
    slots: Vec<Slot>,
    /// Of what is here, or is certain to come.
    bytes: u64,
}

/// What was found of a job's inputs.
#[derive(Default)]
struct Found {
    requests: Vec<FetchRequest>,
    /// Of what need not be here together.
    bytes: u64,
}

/// Who wants the end, and who hears what takes time.
pub struct Watch<'a> {
    /// Whether somebody wants the end.
    pub stop: &'a dyn Fn() -> bool,
    /// Gets lines for people.
    pub say: &'a mut dyn FnMut(&str),
}

impl Stager<'_> {
    /// Finds all that inputs name in stores. Returns the inputs with paths of this machine, and the objects,
    /// which must be kept for as long as anybody reads there. Inputs of this machine are left as they are.
    ///
    /// What comes at once is on its way when this returns.
    ///
    /// # Errors
    /// If a store cannot be listed, does not have what is named, or holds more than fits. An object that
    /// cannot be fetched is none: it becomes a failed item.
    pub fn stage(
        &self,
        inputs: &[Input],
        coming: Coming,
        mut kept: Kept,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<Input>, Objects), StoreError> {
        let mut staged = Vec::new();
        let mut found = Found::default();
        for input in inputs {
            let what = format!("input '{}'", input.name);
            let to = (&mut kept, &mut found);
            let paths = self.find(&what, input, coming, to, watch);
            let paths = paths.map_err(|error| error.of(&what))?;
            staged.push(if paths.is_empty() {
                input.clone()
            } else {
                Input { paths, ..input.clone() }
            });
        }
        let objects = self.objects(kept, found, coming).map_err(StoreError::Thread)?;
        Ok((staged, objects))
    }

    /// Fetches a folder of objects or one of them, and waits for that. Returns its path on this machine.
    ///
    /// # Errors
    /// As for [`stage`](Self::stage), and if an object cannot be fetched.
    pub fn fetch(
        &self,
        what: &str,
        address: &Address,
        kept: &mut Kept,
        watch: &mut Watch<'_>,
    ) -> Result<PathBuf, StoreError> {
        let named = |error: StoreError| error.of(what);
        let paths = vec![address.to_string()];
        let input = Input { name: what.to_owned(), paths, partition_format: None, take: None };
        let mut found = Found::default();
        let to = (&mut *kept, &mut found);
        let paths = self.find(what, &input, Coming::AtOnce, to, watch).map_err(named)?;
        self.bring_all(found.requests, address, watch).map_err(named)?;
        let nothing = || named(StoreError::Nothing(address.to_string()));
        let path = paths.first().ok_or_else(nothing)?;
        let lost = |source| named(StoreError::Lost { path: path.clone(), source });
        let real = Path::new(path).canonicalize().map_err(lost)?;
        if !kept.slots.last().is_some_and(|slot| slot.holds(&real)) {
            return Err(named(StoreError::Outside { address: address.to_string(), path: real }));
        }
        Ok(path.into())
    }

    /// Fetches all objects of these folders, and waits for them. An error says why one of them cannot be had, or all.
    fn bring_all(
        &self,
        requests: Vec<FetchRequest>,
        address: &Address,
        watch: &mut Watch<'_>,
    ) -> Result<(), StoreError> {
        let folders: Vec<_> = requests.iter().map(|request| request.folder.join("data")).collect();
        let objects = Objects::coming(Vec::new(), self.all_of(requests));
        let objects = objects.map_err(StoreError::Thread)?;
        let mut told = Instant::now();
        let Watch { stop, say } = watch;
        objects.wait(*stop, &mut |objects, bytes| tell(objects, bytes, &mut told, *say));
        if stop() {
            return Err(StoreError::Stopped);
        }
        match objects.take_lack() {
            None => Ok(()),
            Some(Lack::Rest(error)) => Err(error),
            Some(Lack::Object(path, reason)) => {
                let below = folders.iter().find_map(|folder| path.strip_prefix(folder).ok());
                let file = below.unwrap_or(&path).to_string_lossy().into_owned();
                Err(StoreError::Object { file, address: address.to_string(), reason })
            }
        }
    }

    /// All objects of these folders, which have room together.
    fn all_of(&self, requests: Vec<FetchRequest>) -> Lot {
        let program = self.program.to_owned();
        Lot { program, requests, room: u64::MAX, evicts: false, brings_all: true }
    }

    /// Lists what one input names; returns its paths on this machine, none if it lies here anyway.
    fn find(
        &self,
        what: &str,
        input: &Input,
        coming: Coming,
        (kept, found): (&mut Kept, &mut Found),
        watch: &mut Watch<'_>,
    ) -> Result<Vec<String>, StoreError> {
        let size = self.datastores.cache_size().0;
        let mut paths = Vec::new();
        for part in self.parts(input)? {
            slot::prune(self.cache, size);
            let slot = Slot::take(self.cache, &part.place());
            let slot =
                slot.map_err(|source| StoreError::Cache { folder: self.cache.to_owned(), source })?;
            (watch.say)(&format!("{what}: looking at {}", part.shown));
            let most = size.saturating_sub(kept.bytes);
            let wanted = part.wanted.clone();
            let must_fit = coming == Coming::AtOnce;
            let on_demand = coming == Coming::OnDemand;
            let refuses_tables = self.without_tables.contains(&input.name);
            let task = Task::List { wanted, most, must_fit, on_demand, refuses_tables };
            let request = self.request(&part, &slot, task);
            let so_far = self.ask(&request, watch)?;
            (watch.say)(&format!("{what}: {}", summary(&so_far)));
            match must_fit {
                true => kept.bytes += so_far.bytes,
                false => found.bytes += so_far.bytes,
            }
            let data = slot.data();
            // By a glob, as a folder's files would all be seen.
            let below = |path: &String| match (path.as_str(), coming) {
                ("", Coming::OnDemand) => data.join("**"),
                (path, _) => data.join(path),
            };
            paths.extend(part.paths.iter().map(|path| below(path).to_string_lossy().into_owned()));
            kept.slots.push(slot);
            found.requests.push(request);
        }
        Ok(paths)
    }

    fn objects(&self, kept: Kept, found: Found, coming: Coming) -> std::io::Result<Objects> {
        let Found { requests, bytes } = found;
        let slots = kept.slots;
        if requests.is_empty() {
            return Ok(Objects::here(slots));
        }
        let room = self.datastores.cache_size().0.saturating_sub(kept.bytes);
        let evicts = bytes > room;
        if !evicts && coming != Coming::OnDemand {
            return Objects::coming(slots, self.all_of(requests));
        }
        if evicts {
            requests.iter().for_each(|request| empty(&request.folder));
        }
        let program = self.program.to_owned();
        let lot = Lot { program, requests, room, evicts, brings_all: false };
        Objects::coming(slots, lot)
    }

    /// What an input names, by folder.
    fn parts(&self, input: &Input) -> Result<Vec<Part>, StoreError> {
        let mut parts: Vec<Part> = Vec::new();
        for address in input.addresses() {
            let environment = std::env::vars_os();
            let (store, before) = configure(&address, self.datastores, self.tenant, environment)?;
            if store.kind == StoreKind::Http && (address.key.ends_with('/') || address.is_glob()) {
                return Err(StoreError::NoFolders(address.to_string()));
            }
            let (folder, rest) = address.split();
            let prefix = format!("{before}{folder}");
            let wanted = match rest {
                "" => Wanted::All,
                rest if address.is_glob() => Wanted::Glob(rest.to_owned()),
                name => Wanted::Named(vec![name.to_owned()]),
            };
            let same = parts.iter_mut().find(|part| part.store == store && part.prefix == prefix);
            match (same, &wanted) {
                (Some(Part { wanted: Wanted::Named(names), paths, .. }), Wanted::Named(more)) => {
                    names.extend(more.iter().filter(|name| !paths.contains(name)).cloned());
                    paths.push(rest.to_owned());
                }
                _ => parts.push(Part {
                    store,
                    prefix,
                    wanted,
                    shown: shown(&address),
                    paths: vec![rest.to_owned()],
                }),
            }
        }
        Ok(parts)
    }

    fn request(&self, part: &Part, slot: &Slot, task: Task) -> FetchRequest {
        FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: self.os_sandbox,
            store: part.store.clone(),
            prefix: part.prefix.clone(),
            task,
            shown: part.shown.clone(),
            folder: slot.folder().to_owned(),
        }
    }

    /// Puts all files of a folder to an address.
    ///
    /// # Errors
    /// If one of them did not arrive. Those that did stay there.
    pub fn put(
        &self,
        folder: &Path,
        address: &Address,
        watch: &mut Watch<'_>,
    ) -> Result<(), StoreError> {
        let environment = std::env::vars_os();
        let (store, before) = configure(address, self.datastores, self.tenant, environment)?;
        let below = address.key.trim_end_matches('/');
        let below = if below.is_empty() { String::new() } else { format!("{below}/") };
        let request = FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: self.os_sandbox,
            store,
            prefix: format!("{before}{below}"),
            task: Task::Put,
            shown: address.to_string(),
            folder: folder.to_owned(),
        };
        (watch.say)(&format!("writing the results to {address}"));
        let so_far = self.ask(&request, watch)?;
        let noun = if so_far.objects == 1 { "object" } else { "objects" };
        (watch.say)(&format!("{} {noun}, {}", so_far.objects, ByteSize(so_far.bytes).rounded()));
        Ok(())
    }

    /// Has a process do it, and tells now and then how far it is.
    fn ask(&self, request: &FetchRequest, watch: &mut Watch<'_>) -> Result<Fetched, StoreError> {
        let mut told = Instant::now();
        ask(self.program, request, watch.stop, &mut |so_far| {
            tell(so_far.objects, so_far.bytes, &mut told, watch.say);
        })
    }
}

impl Part {
    /// What tells this part from others, of the same job or of others.
    fn place(&self) -> String {
        let public = ["account_name", "region"];
        let options: Vec<_> = self
            .store
            .options
            .iter()
            .filter(|(name, _)| {
                is_endpoint(name) || public.iter().any(|public| name.ends_with(public))
            })
            .collect();
        let Self { store, prefix, wanted, .. } = self;
        format!("{:?} {} {options:?} {prefix:?} {wanted:?}", store.kind, store.container)
    }
}

/// The folder of an address, or all of it if it is a glob.
fn shown(address: &Address) -> String {
    match address.split() {
        (folder, _) if !address.is_glob() && address.key != folder => {
            format!("{}/{folder}", address.place)
        }
        _ => address.to_string(),
    }
}

/// Removes all objects that an earlier job left: they would be in the way of those that are needed first.
fn empty(folder: &Path) {
    for entry in WalkDir::new(folder.join("data")).into_iter().flatten() {
        // Those without content take no room.
        if entry.metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
            // What cannot be removed takes room, and no more.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Tells now and then how far it is.
fn tell(objects: u64, bytes: u64, told: &mut Instant, say: &mut dyn FnMut(&str)) {
    if told.elapsed() >= TELL {
        *told = Instant::now();
        say(&format!("so far {objects} objects, {}", ByteSize(bytes).rounded()));
    }
}

fn summary(so_far: &Fetched) -> String {
    let Fetched { objects, bytes, awaited, failed } = *so_far;
    let noun = if objects == 1 { "object" } else { "objects" };
    let bytes = ByteSize(bytes).rounded();
    let bad = if failed > 0 { format!(", {failed} could not be found") } else { String::new() };
    format!("{objects} {noun}, {bytes}; {awaited} to fetch{bad}")
}
