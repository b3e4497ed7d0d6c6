//! Finds the objects that a job reads from stores, and starts fetcher processes that copy them to
//! this machine.

use super::cache_dir::{self, CacheDir, TimeResolution};
use super::config::{configure, is_endpoint};
use super::error::StoreError;
use super::fetch_all::MissingObject;
use super::objects::JobObjects;
use super::prefetch::FetchPlan;
use super::process::run_request;
use super::store_objects::StoreObjects;
use crate::model::{
    Address, ByteSize, FoundUpload, JobInput, OsSandbox, StoreKind, UploadedChange, UploadedData,
};
use crate::protocol::PROTOCOL_VERSION;
use crate::protocol::store::{
    FetchRequest, Fetched, FileToPut, StoreConfig, StoreTask, WantedObjects,
};
use crate::spec::Datastores;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use walkdir::WalkDir;

/// The settings for fetching.
#[derive(Debug)]
pub struct Stager<'a> {
    /// The `sandmill` binary, which the fetcher process runs, too.
    pub program: &'a Path,
    /// The folder for objects.
    pub cache: &'a Path,
    /// How much of the process wall the fetcher process must have.
    pub os_sandbox: OsSandbox,
    /// Stores by name.
    pub datastores: &'a Datastores,
    /// The tenant on whose behalf objects are fetched.
    pub tenant: &'a str,
    /// The names of the inputs that must not be tables with a [transaction log](crate::dataset::TableLog).
    pub without_tables: Vec<String>,
    /// What the submitter has uploaded into the job's store.
    pub uploads: &'a [UploadedData],
}

/// When the objects of a job's inputs are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchTiming {
    /// All of them immediately, in the background. They must fit into the cache.
    AtOnce,
    /// All of them immediately if they fit into the cache, otherwise each when it is
    /// [requested](JobObjects::request).
    AsTheyFit,
    /// Each when it is [requested](JobObjects::request). Only the planner requests them.
    AsPlanned,
    /// Each when it is requested. A guest sees only the objects of its mini-batch.
    OnDemand,
}

/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// How many files one process uploads. Its wall has a rule for each of them.
const FILES_AT_ONCE: usize = 1000;

/// Objects that are fetched together: all that an input names in one folder of a store.
struct FolderFetch {
    store: StoreConfig,
    prefix: String,
    wanted: WantedObjects,
    shown: String,
    /// The paths that the input names, relative to the slot's folder for objects.
    paths: Vec<String>,
}

/// The slots of the cache that a job holds.
#[derive(Debug, Default)]
pub struct KeptObjects {
    slots: Vec<CacheDir>,
    /// The bytes of the objects that are here or are certain to be fetched.
    bytes: u64,
}

/// What was found for a job's inputs.
#[derive(Default)]
struct FoundObjects {
    requests: Vec<FetchRequest>,
    /// The bytes of the objects that need not be in the cache at the same time.
    bytes: u64,
}

/// The caller's hooks while it waits.
pub struct Watch<'a> {
    /// Whether the caller wants to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Receives lines that are shown to users.
    pub say: &'a mut dyn FnMut(&str),
}

impl Stager<'_> {
    /// Finds all objects that inputs name in stores. Returns the inputs with paths on this machine, and the
    /// objects, which the caller must keep while the paths are in use. Inputs that name no store are returned
    /// unchanged.
    ///
    /// Objects that need not be requested are already being fetched when this returns.
    ///
    /// # Errors
    /// If a store cannot be listed, does not have what is named, or holds more than fits into the
    /// cache. An object that cannot be fetched is not an error: it becomes a failed item.
    pub fn stage(
        &self,
        inputs: &[JobInput],
        timing: FetchTiming,
        mut kept: KeptObjects,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<JobInput>, JobObjects), StoreError> {
        let mut staged = Vec::new();
        let mut found = FoundObjects::default();
        let other_slots = kept.slots.len();
        for input in inputs {
            let what = format!("input '{}'", input.name);
            let to = (&mut kept, &mut found);
            let paths = self.list_input(&what, input, timing, to, watch);
            let paths = paths.map_err(|error| error.with_input(&what))?;
            staged.push(if paths.is_empty() {
                input.clone()
            } else {
                JobInput { paths, ..input.clone() }
            });
        }
        let objects = self.objects(kept, found, timing).map_err(StoreError::Thread)?;
        Ok((staged, objects.with_other_slots(other_slots)))
    }

    /// As [`stage`](Self::stage), for inputs that another machine has listed. Fetches only objects that are
    /// [requested](JobObjects::request_known). `are_objects`: for each path of an input that is in a store, in order:
    /// whether it is that of an object. `samples`: for each folder of a store, an object in it, to find out whether this
    /// machine may read it.
    ///
    /// # Errors
    /// If a store does not let this machine read the objects, or the cache cannot be used.
    pub fn stage_listed(
        &self,
        inputs: &[JobInput],
        timing: FetchTiming,
        (are_objects, samples): (&[bool], &[String]),
        mut kept: KeptObjects,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<JobInput>, JobObjects), StoreError> {
        let mut staged = Vec::new();
        let mut requests = Vec::new();
        let mut are_objects = are_objects.iter().copied();
        for input in inputs {
            let named = |error: StoreError| error.with_input(&format!("input '{}'", input.name));
            let mut paths = Vec::new();
            for fetch in self.folder_fetches(input).map_err(named)? {
                let slot = self.acquire(&fetch).map_err(named)?;
                let times = TimeResolution::probe(slot.folder());
                if !times.map_err(|e| named(self.cache_error(e)))?.keeps_times() {
                    return Err(named(StoreError::CoarseTimes(self.cache.to_owned())));
                }
                let sample = samples.get(requests.len()).cloned().unwrap_or_default();
                let request = self.request(&fetch, &slot, StoreTask::Check(sample.clone()));
                if !sample.is_empty() {
                    self.run_request(&request, watch).map_err(named)?;
                }
                for path in &fetch.paths {
                    let is_object = are_objects.next().unwrap_or_default();
                    if !is_object && matches!(fetch.wanted, WantedObjects::Named(_)) {
                        make_folder(&slot, path).map_err(|e| named(self.cache_error(e)))?;
                    }
                }
                paths.extend(fetch.paths_on_machine(&slot, timing));
                kept.slots.push(slot);
                requests.push(request);
            }
            staged.push(if paths.is_empty() {
                input.clone()
            } else {
                JobInput { paths, ..input.clone() }
            });
        }
        let KeptObjects { slots, bytes } = kept;
        if requests.is_empty() {
            return Ok((staged, JobObjects::complete(slots)));
        }
        let plan = FetchPlan {
            program: self.program.to_owned(),
            requests,
            room: self.datastores.cache_size().0.saturating_sub(bytes),
            evicts: true,
            keeps: true,
            fetches_all: false,
        };
        let objects = JobObjects::start_fetching(slots, plan).map_err(StoreError::Thread)?;
        Ok((staged, objects))
    }

    /// The slot for these objects.
    fn acquire(&self, fetch: &FolderFetch) -> Result<CacheDir, StoreError> {
        cache_dir::prune(self.cache, self.datastores.cache_size().0);
        let slot = CacheDir::acquire(self.cache, &fetch.cache_key());
        slot.map_err(|source| self.cache_error(source))
    }

    fn cache_error(&self, source: io::Error) -> StoreError {
        StoreError::Cache { folder: self.cache.to_owned(), source }
    }

    /// Fetches a folder of objects, or a single object, and waits for it. Returns its path on this machine.
    ///
    /// # Errors
    /// The same as for [`stage`](Self::stage), and if an object cannot be fetched.
    pub fn fetch(
        &self,
        what: &str,
        address: &Address,
        kept: &mut KeptObjects,
        watch: &mut Watch<'_>,
    ) -> Result<PathBuf, StoreError> {
        let named = |error: StoreError| error.with_input(what);
        let paths = vec![address.to_string()];
        let input = JobInput { name: what.to_owned(), paths, partition_format: None, take: None };
        let mut found = FoundObjects::default();
        let to = (&mut *kept, &mut found);
        let paths = self.list_input(what, &input, FetchTiming::AtOnce, to, watch).map_err(named)?;
        self.fetch_all(found.requests, address, watch).map_err(named)?;
        let nothing = || named(StoreError::Nothing(address.to_string()));
        let path = paths.first().ok_or_else(nothing)?;
        let lost = |source| named(StoreError::Lost { path: path.clone(), source });
        let real = Path::new(path).canonicalize().map_err(lost)?;
        if !kept.slots.last().is_some_and(|slot| slot.holds(&real)) {
            return Err(named(StoreError::Outside { address: address.to_string(), path: real }));
        }
        Ok(path.into())
    }

    /// Fetches all objects of these folders, and waits for them. An error says why all of them, or one of
    /// them, cannot be fetched.
    fn fetch_all(
        &self,
        requests: Vec<FetchRequest>,
        address: &Address,
        watch: &mut Watch<'_>,
    ) -> Result<(), StoreError> {
        let folders: Vec<_> = requests.iter().map(|request| request.folder.join("data")).collect();
        let objects = JobObjects::start_fetching(Vec::new(), self.plan_for_all(requests));
        let objects = objects.map_err(StoreError::Thread)?;
        let mut reported = Instant::now();
        let Watch { stop, say } = watch;
        objects.wait(*stop, &mut |objects, bytes| report(objects, bytes, &mut reported, *say));
        if stop() {
            return Err(StoreError::Stopped);
        }
        match objects.take_missing() {
            None => Ok(()),
            Some(MissingObject::Rest(error)) => Err(error),
            Some(MissingObject::Object(path, reason)) => {
                let below = folders.iter().find_map(|folder| path.strip_prefix(folder).ok());
                let file = below.unwrap_or(&path).to_string_lossy().into_owned();
                Err(StoreError::Object { file, address: address.to_string(), reason })
            }
        }
    }

    /// The plan to fetch all objects of these folders, which fit into the cache together.
    fn plan_for_all(&self, requests: Vec<FetchRequest>) -> FetchPlan {
        let program = self.program.to_owned();
        let room = u64::MAX;
        FetchPlan { program, requests, room, evicts: false, keeps: false, fetches_all: true }
    }

    /// Lists what an input names. Returns its paths on this machine; an empty list if the input names no
    /// store.
    fn list_input(
        &self,
        what: &str,
        input: &JobInput,
        timing: FetchTiming,
        (kept, found): (&mut KeptObjects, &mut FoundObjects),
        watch: &mut Watch<'_>,
    ) -> Result<Vec<String>, StoreError> {
        let size = self.datastores.cache_size().0;
        let mut paths = Vec::new();
        for folder_fetch in self.folder_fetches(input)? {
            let slot = self.acquire(&folder_fetch)?;
            (watch.say)(&format!("{what}: inspecting {}", folder_fetch.shown));
            let most = size.saturating_sub(kept.bytes);
            let wanted = folder_fetch.wanted.clone();
            let must_fit = timing == FetchTiming::AtOnce;
            let on_demand = timing == FetchTiming::OnDemand;
            let refuses_tables = self.without_tables.contains(&input.name);
            let task = StoreTask::List { wanted, most, must_fit, on_demand, refuses_tables };
            let request = self.request(&folder_fetch, &slot, task);
            let so_far = self.run_request(&request, watch)?;
            (watch.say)(&format!("{what}: {}", summary(&so_far)));
            folder_fetch.refuse_changed(self.uploads, &so_far)?;
            match must_fit {
                true => kept.bytes += so_far.bytes,
                false => found.bytes += so_far.bytes,
            }
            paths.extend(folder_fetch.paths_on_machine(&slot, timing));
            kept.slots.push(slot);
            found.requests.push(request);
        }
        Ok(paths)
    }

    fn objects(
        &self,
        kept: KeptObjects,
        found: FoundObjects,
        timing: FetchTiming,
    ) -> std::io::Result<JobObjects> {
        let FoundObjects { requests, bytes } = found;
        let slots = kept.slots;
        if requests.is_empty() {
            return Ok(JobObjects::complete(slots));
        }
        let room = self.datastores.cache_size().0.saturating_sub(kept.bytes);
        let evicts = bytes > room;
        if !evicts && matches!(timing, FetchTiming::AtOnce | FetchTiming::AsTheyFit) {
            return JobObjects::start_fetching(slots, self.plan_for_all(requests));
        }
        if evicts {
            requests.iter().for_each(|request| remove_objects(&request.folder));
        }
        let program = self.program.to_owned();
        let plan = FetchPlan { program, requests, room, evicts, keeps: false, fetches_all: false };
        JobObjects::start_fetching(slots, plan)
    }

    /// What an input names, grouped by folder.
    fn folder_fetches(&self, input: &JobInput) -> Result<Vec<FolderFetch>, StoreError> {
        let mut folder_fetches: Vec<FolderFetch> = Vec::new();
        for address in input.addresses() {
            let environment = std::env::vars_os();
            let (store, key_prefix) =
                configure(&address, self.datastores, self.tenant, environment)?;
            if store.kind == StoreKind::Http && (address.key.ends_with('/') || address.is_glob()) {
                return Err(StoreError::NoFolders(address.to_string()));
            }
            let (folder, rest) = address.split();
            let prefix = format!("{key_prefix}{folder}");
            let wanted = match rest {
                "" => WantedObjects::All,
                rest if address.is_glob() => WantedObjects::Glob(rest.to_owned()),
                name => WantedObjects::Named(vec![name.to_owned()]),
            };
            let existing = folder_fetches
                .iter_mut()
                .find(|folder_fetch| folder_fetch.store == store && folder_fetch.prefix == prefix);
            match (existing, &wanted) {
                (
                    Some(FolderFetch { wanted: WantedObjects::Named(names), paths, .. }),
                    WantedObjects::Named(more),
                ) => {
                    names.extend(more.iter().filter(|name| !paths.contains(name)).cloned());
                    paths.push(rest.to_owned());
                }
                _ => folder_fetches.push(FolderFetch {
                    store,
                    prefix,
                    wanted,
                    shown: shown(&address),
                    paths: vec![rest.to_owned()],
                }),
            }
        }
        Ok(folder_fetches)
    }

    fn request(
        &self,
        folder_fetch: &FolderFetch,
        slot: &CacheDir,
        task: StoreTask,
    ) -> FetchRequest {
        FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: self.os_sandbox,
            store: folder_fetch.store.clone(),
            prefix: folder_fetch.prefix.clone(),
            task,
            shown: folder_fetch.shown.clone(),
            folder: slot.folder().to_owned(),
        }
    }

    /// The objects below an address. `below`: a path below it, which ends with a `/`.
    ///
    /// # Errors
    /// If the address, or the file of datastores, does not say enough to open the store.
    pub fn objects_at(&self, address: &Address, below: &str) -> Result<StoreObjects, StoreError> {
        let request = self.folder_request(address, StoreTask::Objects, PathBuf::new())?;
        let prefix = format!("{}{below}", request.prefix);
        Ok(StoreObjects::new(self.program, FetchRequest { prefix, ..request }))
    }

    /// Uploads all files of a folder to an address. `may_publish`: for results of a job whose leader may have been replaced,
    /// asks whether it was. Then each file only replaces what was there before the question, if anything was.
    ///
    /// # Errors
    /// If a file could not be uploaded, or if another process has written an object meanwhile. Files that were uploaded stay
    /// there.
    pub fn upload_folder(
        &self,
        folder: &Path,
        address: &Address,
        may_publish: Option<&dyn Fn() -> bool>,
        watch: &mut Watch<'_>,
    ) -> Result<(), StoreError> {
        let task = if may_publish.is_some() { StoreTask::Publish } else { StoreTask::Put };
        let request = self.folder_request(address, task, folder.to_owned())?;
        (watch.say)(&format!("writing the results to {address}"));
        let so_far = self.run_asking(&request, may_publish.unwrap_or(&|| false), watch)?;
        let noun = if so_far.objects == 1 { "object" } else { "objects" };
        (watch.say)(&format!("{} {noun}, {}", so_far.objects, ByteSize(so_far.bytes).rounded()));
        Ok(())
    }

    /// Uploads files to an address, which ends with a `/`. Objects of their names and lengths that are there stay.
    ///
    /// # Errors
    /// If a file could not be uploaded, or does not have the expected content. Those that were uploaded stay there.
    pub fn put_files(
        &self,
        files: &[FileToPut],
        address: &Address,
        watch: &mut Watch<'_>,
    ) -> Result<(), StoreError> {
        let mut done = Fetched::default();
        let mut reported = Instant::now();
        let mut files = files.to_vec();
        // In the order of a store's list, of which each process reads only its part.
        files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        for files in files.chunks(FILES_AT_ONCE) {
            let task = StoreTask::PutFiles(files.to_vec());
            let request = self.folder_request(address, task, PathBuf::new())?;
            let sent =
                run_request(self.program, &request, (watch.stop, &|| false), &mut |so_far| {
                    let objects = done.objects + so_far.objects;
                    report(objects, done.bytes + so_far.bytes, &mut reported, watch.say);
                })?;
            done.objects += sent.objects;
            done.bytes += sent.bytes;
        }
        Ok(())
    }

    /// A request about everything below an address. `folder`: a folder of this machine, for the task.
    fn folder_request(
        &self,
        address: &Address,
        task: StoreTask,
        folder: PathBuf,
    ) -> Result<FetchRequest, StoreError> {
        let environment = std::env::vars_os();
        let (store, key_prefix) = configure(address, self.datastores, self.tenant, environment)?;
        let below = address.key.trim_end_matches('/');
        let below = if below.is_empty() { String::new() } else { format!("{below}/") };
        Ok(FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: self.os_sandbox,
            store,
            prefix: format!("{key_prefix}{below}"),
            task,
            shown: address.to_string(),
            folder,
        })
    }

    /// Starts a fetcher process for a request, waits until it is done, and reports progress now and
    /// then.
    fn run_request(
        &self,
        request: &FetchRequest,
        watch: &mut Watch<'_>,
    ) -> Result<Fetched, StoreError> {
        self.run_asking(request, &|| false, watch)
    }

    /// As [`run_request`](Self::run_request), for a process that may ask whether it may publish results.
    fn run_asking(
        &self,
        request: &FetchRequest,
        may_publish: &dyn Fn() -> bool,
        watch: &mut Watch<'_>,
    ) -> Result<Fetched, StoreError> {
        let mut reported = Instant::now();
        run_request(self.program, request, (watch.stop, may_publish), &mut |so_far| {
            report(so_far.objects, so_far.bytes, &mut reported, watch.say);
        })
    }
}

impl FolderFetch {
    /// The paths that the input names, on this machine.
    fn paths_on_machine(&self, slot: &CacheDir, timing: FetchTiming) -> Vec<String> {
        let data = slot.data();
        // With the folder itself as input, the guest would see all its objects. With a glob, it
        // sees only those of its mini-batch.
        let below = |path: &String| match (path.as_str(), timing) {
            ("", FetchTiming::OnDemand) => data.join("**"),
            (path, _) => data.join(path),
        };
        self.paths.iter().map(|path| below(path).to_string_lossy().into_owned()).collect()
    }

    /// Fails if this is a folder to which a submitter has uploaded data, and no longer has it.
    fn refuse_changed(
        &self,
        uploads: &[UploadedData],
        listed: &Fetched,
    ) -> Result<(), UploadedChange> {
        let is_whole = match &self.wanted {
            WantedObjects::All => true,
            WantedObjects::Glob(glob) => glob == "**",
            WantedObjects::Named(_) => false,
        };
        let found = FoundUpload { files: listed.objects, bytes: listed.bytes };
        for UploadedData { key, folders, .. } in uploads.iter().filter(|_| is_whole) {
            for folder in folders {
                if self.prefix.ends_with(&format!("/{}/", folder.name())) {
                    folder.check(key, &self.shown, found)?;
                }
            }
        }
        Ok(())
    }

    /// Identifies these objects among the objects of this and other jobs.
    fn cache_key(&self) -> String {
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

/// The folder of an address, or the whole address if it is a glob.
fn shown(address: &Address) -> String {
    match address.split() {
        (folder, _) if !address.is_glob() && address.key != folder => {
            format!("{}/{folder}", address.place)
        }
        _ => address.to_string(),
    }
}

/// Makes a folder for objects. Replaces files and links in its path, which an earlier job may have left.
fn make_folder(slot: &CacheDir, path: &str) -> io::Result<()> {
    let mut folder = slot.data();
    for part in path.split('/') {
        folder.push(part);
        if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            fs::remove_file(&folder)?;
        }
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes all objects that an earlier job left: they would take room that objects of this job need.
fn remove_objects(folder: &Path) {
    for entry in WalkDir::new(folder.join("data")).into_iter().flatten() {
        // Empty files take no room.
        if entry.metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
            // If it cannot be removed, it only takes room.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Reports progress, but not too often.
fn report(objects: u64, bytes: u64, reported: &mut Instant, say: &mut dyn FnMut(&str)) {
    if reported.elapsed() >= REPORT_INTERVAL {
        *reported = Instant::now();
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
