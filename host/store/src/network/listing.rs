//! Finds the wanted objects and writes a manifest of them. It works page by page, so that a list of any
//! length takes little memory.

use super::cache_dir::{TimeResolution, begin_manifest, manifest_path, remove_others};
use super::download::{FetchTarget, MISSING, fetch, file_path, file_version_of, substitute_name};
use super::error_text::{FetchError, StoreAction};
use super::head::{head_all, is_missing, key};
use super::open::{OpenStore, PageRange};
use super::process::PARALLEL_FETCHES;
use super::tables::Tables;
use crate::dataset::{FileVersion, ManifestObject, ManifestWriter, Pattern};
use crate::model::ByteSize;
use crate::protocol::store::{FetchRequest, Fetched, StoreConfig, WantedObjects};
use object_store::path::Path as Key;
use object_store::{Error, ObjectMeta, path};
use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How often progress is reported.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// The number of objects of a page: the usual limit of stores.
const PAGE_OBJECTS: usize = 1000;
/// The maximum length of a reason in the manifest, in bytes.
const MAX_REASON_BYTES: usize = 1000;

/// A function that receives the progress.
pub(super) type Report<'a> = dyn FnMut(Fetched) -> Result<(), FetchError> + 'a;

/// What may be fetched, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingExtent {
    /// The maximum number of bytes that fit into the cache.
    pub(super) max_bytes: u64,
    /// Whether all wanted objects together must fit.
    pub(super) must_fit: bool,
    /// Whether each object is fetched only when a mini-batch needs it.
    pub(super) on_demand: bool,
    /// Whether tables with a transaction log are refused.
    pub(super) refuses_tables: bool,
}

/// Lists the wanted objects, and writes the manifest to the request's folder. The error is shown to users.
pub(super) async fn list(
    request: &FetchRequest,
    wanted: &WantedObjects,
    extent: ListingExtent,
    report: &mut Report<'_>,
) -> Result<Fetched, FetchError> {
    let config = Arc::new(request.store.clone());
    let action = || StoreAction::Open(request.shown.clone());
    let store =
        OpenStore::open(&config).map_err(|error| FetchError::store(error, action(), &config))?;
    let data = request.folder.join("data");
    let times = TimeResolution::probe(&request.folder).map_err(FetchError::List)?;
    if !times.keeps_times() {
        // Without exact times, we could not see which files of an earlier job have another version than their
        // objects.
        remove_others(&data, |_| false);
    }
    let mut lister = ObjectLister {
        manifest: begin_manifest(&request.folder).map_err(FetchError::List)?,
        times,
        is_new_slot: fs::read_dir(&data).is_ok_and(|mut entries| entries.next().is_none()),
        request,
        extent,
        store: Arc::new(store),
        config,
        data,
        hasher: RandomState::new(),
        wanted_names: HashSet::new(),
        folders: HashSet::new(),
        empty_names: HashSet::new(),
        undecided: Vec::new(),
        unwanted_folders: HashSet::new(),
        named_folders: Vec::new(),
        tables: Tables::new(extent.refuses_tables, wanted),
        tasks: JoinSet::new(),
        parts: 0,
        so_far: Fetched::default(),
        reported: Instant::now(),
        report,
    };
    match wanted {
        WantedObjects::All => lister.list(&request.prefix, &Pattern::Everything).await?,
        WantedObjects::Glob(glob) => {
            let pattern = Pattern::new(Some(glob))?;
            lister.list(&request.prefix, &pattern).await?;
        }
        WantedObjects::Named(names) => lister.named(names).await?,
    }
    for (name, known) in std::mem::take(&mut lister.undecided) {
        lister.handle_empty(name, known).await?;
    }
    while !lister.tasks.is_empty() {
        lister.wait_for_one().await?;
    }
    if lister.so_far.objects == 0 {
        return Err(FetchError::Empty(request.shown.clone()));
    }
    lister
        .tables
        .refuse(request, |folder| lister.folders.contains(&lister.hasher.hash_one(folder)))?;
    remove_others(&lister.data, |name| lister.wanted_names.contains(&lister.hasher.hash_one(name)));
    // The planner looks for these folders before any of their objects has arrived.
    for name in lister.named_folders {
        let folder = file_path(&lister.data, &name)?;
        fs::create_dir_all(&folder).map_err(|error| FetchError::make(&folder, error))?;
    }
    lister.manifest.finish(&manifest_path(&request.folder)).map_err(FetchError::List)?;
    Ok(lister.so_far)
}

/// The state of listing objects.
struct ObjectLister<'a> {
    request: &'a FetchRequest,
    extent: ListingExtent,
    store: Arc<OpenStore>,
    config: Arc<StoreConfig>,
    data: PathBuf,
    /// Whether no earlier job left objects in `data`.
    is_new_slot: bool,
    /// The manifest that we write.
    manifest: ManifestWriter,
    times: TimeResolution,
    hasher: RandomState,
    /// Hashes of the names of all wanted objects.
    wanted_names: HashSet<u64>,
    /// Hashes of the names of all folders of wanted objects.
    folders: HashSet<u64>,
    /// Hashes of the names of the empty wanted objects: some stores have an empty object for each folder.
    empty_names: HashSet<u64>,
    /// Empty objects of a list. Whether they are markers of folders is decided when all other objects are
    /// known.
    undecided: Vec<(String, ManifestObject)>,
    /// Hashes of the names of the folders of unwanted objects.
    unwanted_folders: HashSet<u64>,
    /// The named inputs that turned out to be folders.
    named_folders: Vec<String>,
    tables: Tables,
    /// The running downloads.
    tasks: JoinSet<Result<ListedFetch, FetchError>>,
    /// How many partial files were named so far.
    parts: u64,
    so_far: Fetched,
    /// When progress was last reported.
    reported: Instant,
    report: &'a mut Report<'a>,
}

/// The result of fetching an object during the listing.
enum ListedFetch {
    /// The whole object was fetched.
    Whole,
    /// The whole object of this name was fetched. Its length and version were unknown before.
    New(String, FileVersion),
    /// The object of this name could not be fetched.
    Unfetched(String, FetchError),
    /// The object of this name was only the marker of a folder.
    Folder(String),
}

impl ObjectLister<'_> {
    /// Handles all objects below a prefix whose names, relative to the request's prefix, match the pattern.
    async fn list(&mut self, prefix: &str, pattern: &Pattern) -> Result<(), FetchError> {
        self.tables.refuse_part(&self.store, self.request, prefix).await?;
        let mut range = PageRange::default();
        loop {
            let Some(page) = self.store.page(prefix, &range).await else {
                return Err(FetchError::NoList(self.request.shown.clone()));
            };
            let page = match page {
                Ok(page) => page,
                Err(Error::InvalidPath { source }) => {
                    self.skip_key(source, &mut range, pattern)?;
                    continue;
                }
                Err(error) => {
                    let action = StoreAction::List(self.request.shown.clone());
                    return Err(FetchError::store(error, action, &self.config));
                }
            };
            for object in page.result.objects {
                let key = object.location.as_ref();
                let Some(name) = key.strip_prefix(self.request.prefix.as_str()) else { continue };
                self.tables.note(name);
                // Some stores have an empty object for each folder.
                let is_folder = name.is_empty() || (object.size == 0 && is_marker(key, prefix));
                if is_folder {
                    continue;
                }
                if pattern.takes(name.as_bytes()) {
                    let name = name.to_owned();
                    self.want(&name, Some(object), true).await?;
                } else {
                    let folders = name.match_indices('/').map(|(at, _)| &name[..at]);
                    self.unwanted_folders
                        .extend(folders.map(|folder| self.hasher.hash_one(folder)));
                }
            }
            self.maybe_report()?;
            if page.page_token.is_none() {
                return Ok(());
            }
            range = PageRange { token: page.page_token, after: None, ..range };
        }
    }

    /// Skips a key that the library rejects with an error for the whole page. We request smaller and smaller
    /// pages up to this key, then continue after it. The object with this key cannot be fetched.
    fn skip_key(
        &mut self,
        error: path::Error,
        range: &mut PageRange,
        pattern: &Pattern,
    ) -> Result<(), FetchError> {
        let max_keys = range.max_keys.unwrap_or(PAGE_OBJECTS);
        if max_keys > 1 {
            range.max_keys = Some((max_keys / 10).max(1));
            return Ok(());
        }
        let (path::Error::EmptySegment { path: key } | path::Error::BadSegment { path: key, .. }) =
            error
        else {
            return Err(FetchError::OddList(self.request.shown.clone(), error));
        };
        if let Some(name) = key.strip_prefix(self.request.prefix.as_str())
            && pattern.takes(name.as_bytes())
        {
            self.missing(name, &FetchError::NoPath(name.to_owned()), false)?;
        }
        *range = PageRange { token: None, after: Some(key), max_keys: None };
        Ok(())
    }

    /// Handles objects, or folders of objects, by name.
    async fn named(&mut self, names: &[String]) -> Result<(), FetchError> {
        let mut missing = None;
        for names in names.chunks(PARALLEL_FETCHES) {
            for (name, answer) in
                names.iter().zip(head_all(&self.store, self.request, names).await?)
            {
                let action = || StoreAction::Read(name.clone(), self.request.shown.clone());
                match answer {
                    Ok(found) => {
                        // An empty object may be the marker of a folder.
                        let is_empty = found.as_ref().is_some_and(|found| found.size == 0);
                        if !(is_empty && self.list_folder(name).await?) {
                            self.want(name, found, false).await?;
                        }
                    }
                    Err(error) if is_missing(&error, &self.store) => {
                        if !self.list_folder(name).await? {
                            let error = FetchError::store(error, action(), &self.config);
                            self.missing(name, &error, self.extent.on_demand)?;
                            missing = Some(error);
                        }
                    }
                    Err(error) => {
                        return Err(FetchError::store(error, action(), &self.config));
                    }
                }
            }
        }
        match missing {
            Some(error) if self.so_far.failed == self.so_far.objects => Err(error),
            _ => Ok(()),
        }
    }

    /// Handles all objects of the folder of this name. Returns whether there is such a folder.
    async fn list_folder(&mut self, name: &str) -> Result<bool, FetchError> {
        if matches!(*self.store, OpenStore::Http(_)) {
            return Ok(false);
        }
        let before = self.so_far.objects;
        self.list(&format!("{}{name}/", self.request.prefix), &Pattern::Everything).await?;
        let is_folder = self.so_far.objects > before;
        self.named_folders.extend(is_folder.then(|| name.to_owned()));
        Ok(is_folder)
    }

    /// Handles a wanted object. The object gets a record in the manifest as soon as its length and version
    /// are known.
    async fn want(
        &mut self,
        name: &str,
        known: Option<ObjectMeta>,
        is_listed: bool,
    ) -> Result<(), FetchError> {
        if self.check_clash(name, known.as_ref())? {
            return Ok(());
        }
        let file = match file_path(&self.data, name) {
            Ok(file) => file,
            Err(reason) => return self.missing(name, &reason, false),
        };
        self.so_far.objects += 1;
        self.count(known.as_ref().map_or(0, |known| known.size))?;
        self.wanted_names.insert(self.hasher.hash_one(name));
        let expected = known.as_ref().map(|known| self.times.record(file_version_of(known)));
        let expected = expected.transpose().map_err(FetchError::List)?;
        if let Some(expected) = expected {
            self.manifest.add(name, Ok(expected)).map_err(FetchError::List)?;
            if expected.found.length == 0 && is_listed {
                self.undecided.push((name.to_owned(), expected));
                return self.maybe_report();
            }
            if self.is_here(&file, &expected) {
                return self.maybe_report();
            }
            if expected.found.length > 0 {
                self.so_far.awaited += 1;
                return self.maybe_report();
            }
        }
        let target = self.target(file);
        let key = match known {
            Some(known) => known.location,
            None => key(&self.store, self.request, name)?,
        };
        self.fetch_now((name.to_owned(), key), expected, target).await
    }

    /// Whether an earlier job left this object here.
    fn is_here(&self, file: &Path, expected: &ManifestObject) -> bool {
        !self.is_new_slot && expected.found.is_at(file)
    }

    /// Handles an empty object, after all others are known: if there are objects below its name, it is the
    /// marker of a folder.
    async fn handle_empty(
        &mut self,
        name: String,
        known: ManifestObject,
    ) -> Result<(), FetchError> {
        let own = self.hasher.hash_one(&name);
        let file = self.data.join(&name);
        if self.folders.contains(&own) || self.unwanted_folders.contains(&own) {
            return self.forget(&name);
        }
        if self.is_here(&file, &known) {
            return self.maybe_report();
        }
        let target = self.target(file);
        let key = key(&self.store, self.request, &name)?;
        self.fetch_now((name, key), Some(known), target).await
    }

    /// Forgets an object that turned out to be the marker of a folder.
    fn forget(&mut self, name: &str) -> Result<(), FetchError> {
        self.so_far.objects = self.so_far.objects.saturating_sub(1);
        // A file of this name from an earlier job is removed later.
        self.wanted_names.remove(&self.hasher.hash_one(name));
        self.manifest.remove(name);
        self.maybe_report()
    }

    async fn fetch_now(
        &mut self,
        (name, key): (String, Key),
        expected: Option<ManifestObject>,
        mut target: FetchTarget,
    ) -> Result<(), FetchError> {
        while self.tasks.len() >= PARALLEL_FETCHES {
            self.wait_for_one().await?;
        }
        let store = Arc::clone(&self.store);
        let config = Arc::clone(&self.config);
        target.max_bytes = expected.map_or(target.max_bytes, |known| known.found.length);
        self.tasks.spawn(async move {
            match fetch(&store, &config, &key, expected, &target).await {
                Ok(found) if expected.is_none() => Ok(ListedFetch::New(name, found)),
                Ok(_) => Ok(ListedFetch::Whole),
                Err(FetchError::Gone) => Ok(ListedFetch::Folder(name)),
                Err(error @ FetchError::Write { .. }) => Err(error),
                Err(reason) => Ok(ListedFetch::Unfetched(name, reason)),
            }
        });
        self.maybe_report()
    }

    /// Adds to the size of the wanted objects. Fails if they must fit, but do not.
    fn count(&mut self, bytes: u64) -> Result<(), FetchError> {
        self.so_far.bytes += bytes;
        if self.extent.must_fit && self.so_far.bytes > self.extent.max_bytes {
            let most = ByteSize(self.extent.max_bytes);
            return Err(FetchError::TooMany(self.request.shown.clone(), most));
        }
        Ok(())
    }

    /// Returns true if an object and a folder of another object have the same name: a file system cannot hold
    /// both. The object that comes second becomes a failed item under another name, unless it is only
    /// the marker of the folder.
    fn check_clash(&mut self, name: &str, known: Option<&ObjectMeta>) -> Result<bool, FetchError> {
        let folders = name.match_indices('/').map(|(at, _)| self.hasher.hash_one(&name[..at]));
        let folders: Vec<u64> = folders.collect();
        let is_below =
            |folder: &u64| self.wanted_names.contains(folder) && !self.empty_names.contains(folder);
        let own = self.hasher.hash_one(name);
        let is_empty = known.is_some_and(|known| known.size == 0);
        if self.folders.contains(&own) && is_empty {
            return Ok(true);
        }
        if self.folders.contains(&own) || folders.iter().any(is_below) {
            self.missing(name, &FetchError::Clash, false)?;
            return Ok(true);
        }
        self.folders.extend(folders);
        if is_empty {
            self.empty_names.insert(own);
        }
        Ok(false)
    }

    /// Notes that an object is missing. With `is_retried`, the object is fetched again for its
    /// mini-batch. Otherwise, the manifest gets an entry with the reason. The entry has the object's
    /// name if objects are fetched on demand, and else a substitute that is a valid file name.
    fn missing(
        &mut self,
        name: &str,
        reason: &FetchError,
        is_retried: bool,
    ) -> Result<(), FetchError> {
        self.so_far.objects += 1;
        self.so_far.failed += 1;
        if is_retried {
            file_path(&self.data, name)?;
            return self.manifest.add(name, Ok(MISSING)).map_err(FetchError::List);
        }
        match self.extent.on_demand {
            true => self.note(name, reason),
            false => self.note(&substitute_name(name), reason),
        }
    }

    /// Writes to the manifest why an object cannot be fetched.
    fn note(&mut self, name: &str, reason: &FetchError) -> Result<(), FetchError> {
        let mut text = reason.to_string();
        text.truncate(text.floor_char_boundary(MAX_REASON_BYTES));
        self.manifest.add(&name.replace('\0', "%00"), Err(text)).map_err(FetchError::List)
    }

    fn target(&mut self, file: PathBuf) -> FetchTarget {
        self.parts += 1;
        let part = self.request.folder.join("part").join(self.parts.to_string());
        let max_bytes = self.extent.max_bytes.saturating_sub(self.so_far.bytes);
        FetchTarget { file, part, max_bytes }
    }

    /// Waits until one of the running downloads ends.
    async fn wait_for_one(&mut self) -> Result<(), FetchError> {
        // A large object takes long. Without reports, the leader would assume that the process is stuck.
        let next = loop {
            match tokio::time::timeout(REPORT_INTERVAL, self.tasks.join_next()).await {
                Ok(next) => break next,
                Err(_) => self.maybe_report()?,
            }
        };
        match next {
            Some(Ok(Ok(ListedFetch::New(name, found)))) => {
                self.count(found.length)?;
                let object = self.times.record(found).map_err(FetchError::List)?;
                self.manifest.add(&name, Ok(object)).map_err(FetchError::List)?;
            }
            Some(Ok(Ok(ListedFetch::Whole))) => {}
            Some(Ok(Ok(ListedFetch::Unfetched(name, reason)))) => {
                self.so_far.failed += 1;
                self.note(&name, &reason)?;
            }
            Some(Ok(Ok(ListedFetch::Folder(name)))) => return self.forget(&name),
            Some(Ok(Err(error))) => return Err(error),
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        self.maybe_report()
    }

    fn maybe_report(&mut self) -> Result<(), FetchError> {
        if self.reported.elapsed() < REPORT_INTERVAL {
            return Ok(());
        }
        self.reported = Instant::now();
        (self.report)(self.so_far)
    }
}

/// Whether an empty object is the marker of the prefix's folder. The library removes the `/` at the end of
/// keys.
fn is_marker(key: &str, prefix: &str) -> bool {
    prefix.strip_suffix('/') == Some(key)
}
