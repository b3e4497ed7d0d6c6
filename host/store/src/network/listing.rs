//! Finds the wanted objects and writes a manifest of them. It works page by page, so that a list of any
//! length takes little memory.

use super::cache_dir::{TimeResolution, begin_manifest, manifest_path, remove_others};
use super::download::{FetchTarget, MISSING, fetch, file_name, file_of, place};
use super::error_text::{FetchError, StoreAction};
use super::head::{head_all, is_missing, key};
use super::open::{OpenStore, PageRange};
use super::process::AT_ONCE;
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
/// The objects of a page, which is the usual limit of stores.
const PAGE: usize = 1000;
/// The most bytes of a reason in the manifest.
const REASON: usize = 1000;

/// Receives the progress.
pub(super) type Report<'a> = dyn FnMut(Fetched) -> Result<(), FetchError> + 'a;

/// What may be fetched, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingExtent {
    /// The most bytes.
    pub(super) most: u64,
    /// Whether all wanted objects together must not exceed these.
    pub(super) must_fit: bool,
    /// Whether each object is fetched only when a mini-batch needs it.
    pub(super) on_demand: bool,
    /// Whether tables with a log are refused.
    pub(super) refuses_tables: bool,
}

/// Writes the manifest of a request's slot. The error is for people.
pub(super) async fn list(
    request: &FetchRequest,
    wanted: &WantedObjects,
    extent: ListingExtent,
    report: &mut Report<'_>,
) -> Result<Fetched, FetchError> {
    let config = Arc::new(request.store.clone());
    let asked = || StoreAction::Open(request.shown.clone());
    let store =
        OpenStore::open(&config).map_err(|error| FetchError::store(error, asked(), &config))?;
    let data = request.folder.join("data");
    let times = TimeResolution::of(&request.folder).map_err(FetchError::List)?;
    if !times.are_kept() {
        // Objects of an earlier job may be other versions, and we could not tell.
        remove_others(&data, |_| false);
    }
    let mut round = Round {
        manifest: begin_manifest(&request.folder).map_err(FetchError::List)?,
        times,
        is_first: fs::read_dir(&data).is_ok_and(|mut entries| entries.next().is_none()),
        request,
        extent,
        store: Arc::new(store),
        config,
        data,
        hasher: RandomState::new(),
        seen: HashSet::new(),
        folders: HashSet::new(),
        empty: HashSet::new(),
        later: Vec::new(),
        others: HashSet::new(),
        named_folders: Vec::new(),
        tables: Tables::new(extent.refuses_tables, wanted),
        tasks: JoinSet::new(),
        parts: 0,
        so_far: Fetched::default(),
        reported: Instant::now(),
        report,
    };
    match wanted {
        WantedObjects::All => round.list(&request.prefix, &Pattern::Everything).await?,
        WantedObjects::Glob(glob) => {
            let pattern = Pattern::new(Some(glob))?;
            round.list(&request.prefix, &pattern).await?;
        }
        WantedObjects::Named(names) => round.named(names).await?,
    }
    for (name, known) in std::mem::take(&mut round.later) {
        round.handle_empty(name, known).await?;
    }
    while !round.tasks.is_empty() {
        round.wait_for_one().await?;
    }
    if round.so_far.objects == 0 {
        return Err(FetchError::Empty(request.shown.clone()));
    }
    round
        .tables
        .refuse(request, |folder| round.folders.contains(&round.hasher.hash_one(folder)))?;
    remove_others(&round.data, |name| round.seen.contains(&round.hasher.hash_one(name)));
    // The planner looks for these folders before any of their objects has arrived.
    for name in round.named_folders {
        let folder = place(&round.data, &name)?;
        fs::create_dir_all(&folder).map_err(|error| FetchError::make(&folder, error))?;
    }
    round.manifest.finish(&manifest_path(&request.folder)).map_err(FetchError::List)?;
    Ok(round.so_far)
}

struct Round<'a> {
    request: &'a FetchRequest,
    extent: ListingExtent,
    store: Arc<OpenStore>,
    config: Arc<StoreConfig>,
    data: PathBuf,
    /// Whether no earlier job left anything there.
    is_first: bool,
    /// The manifest that we write.
    manifest: ManifestWriter,
    times: TimeResolution,
    hasher: RandomState,
    /// Hashes of the names of all wanted objects.
    seen: HashSet<u64>,
    /// Hashes of the names of all their folders.
    folders: HashSet<u64>,
    /// Hashes of the names of the empty ones: some stores have an empty object for each folder.
    empty: HashSet<u64>,
    /// Empty objects of a list. Whether they are markers of folders is decided when all other objects are
    /// known.
    later: Vec<(String, ManifestObject)>,
    /// Hashes of the names of the folders of unwanted objects.
    others: HashSet<u64>,
    /// The named inputs that turned out to be folders.
    named_folders: Vec<String>,
    tables: Tables,
    tasks: JoinSet<Result<Arrived, FetchError>>,
    parts: u64,
    so_far: Fetched,
    reported: Instant,
    report: &'a mut Report<'a>,
}

/// The result of fetching an object during the listing.
enum Arrived {
    /// All of it is here.
    Whole,
    /// The same, for an object of this name whose length and version were unknown before.
    New(String, FileVersion),
    /// The object of this name could not be fetched.
    Unfetched(String, FetchError),
    /// The object of this name was only the marker of a folder.
    Folder(String),
}

impl Round<'_> {
    /// Handles all objects below a prefix whose names, relative to the request's prefix, match the pattern.
    async fn list(&mut self, prefix: &str, pattern: &Pattern) -> Result<(), FetchError> {
        self.tables.refuse_part(&self.store, self.request, prefix).await?;
        let mut at = PageRange::default();
        loop {
            let Some(page) = self.store.page(prefix, &at).await else {
                return Err(FetchError::NoList(self.request.shown.clone()));
            };
            let page = match page {
                Ok(page) => page,
                Err(Error::InvalidPath { source }) => {
                    self.step_over(source, &mut at, pattern)?;
                    continue;
                }
                Err(error) => {
                    let asked = StoreAction::List(self.request.shown.clone());
                    return Err(FetchError::store(error, asked, &self.config));
                }
            };
            for object in page.result.objects {
                let key = object.location.as_ref();
                let Some(name) = key.strip_prefix(self.request.prefix.as_str()) else { continue };
                self.tables.inspect(name);
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
                    self.others.extend(folders.map(|folder| self.hasher.hash_one(folder)));
                }
            }
            self.maybe_report()?;
            if page.page_token.is_none() {
                return Ok(());
            }
            at = PageRange { token: page.page_token, after: None, ..at };
        }
    }

    /// Steps over a key that the library rejects; it then returns an error for the whole page. We request
    /// smaller and smaller pages up to that key, then continue after it. The object with that key cannot be
    /// fetched.
    fn step_over(
        &mut self,
        odd: path::Error,
        at: &mut PageRange,
        pattern: &Pattern,
    ) -> Result<(), FetchError> {
        let most = at.most.unwrap_or(PAGE);
        if most > 1 {
            at.most = Some((most / 10).max(1));
            return Ok(());
        }
        let (path::Error::EmptySegment { path: key } | path::Error::BadSegment { path: key, .. }) =
            odd
        else {
            return Err(FetchError::OddList(self.request.shown.clone(), odd));
        };
        if let Some(name) = key.strip_prefix(self.request.prefix.as_str())
            && pattern.takes(name.as_bytes())
        {
            self.missing(name, &FetchError::NoPath(name.to_owned()), false)?;
        }
        *at = PageRange { token: None, after: Some(key), most: None };
        Ok(())
    }

    /// Handles objects, or folders of objects, by name.
    async fn named(&mut self, names: &[String]) -> Result<(), FetchError> {
        let mut missing = None;
        for names in names.chunks(AT_ONCE) {
            for (name, answer) in
                names.iter().zip(head_all(&self.store, self.request, names).await?)
            {
                let asked = || StoreAction::Read(name.clone(), self.request.shown.clone());
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
                            let error = FetchError::store(error, asked(), &self.config);
                            self.missing(name, &error, self.extent.on_demand)?;
                            missing = Some(error);
                        }
                    }
                    Err(error) => {
                        return Err(FetchError::store(error, asked(), &self.config));
                    }
                }
            }
        }
        match missing {
            Some(error) if self.so_far.failed == self.so_far.objects => Err(error),
            _ => Ok(()),
        }
    }

    /// Handles all objects of the folder of this name. Returns whether there is one.
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

    /// Handles a wanted object. It gets a record in the manifest as soon as its length and version are known.
    async fn want(
        &mut self,
        name: &str,
        known: Option<ObjectMeta>,
        listed: bool,
    ) -> Result<(), FetchError> {
        if self.clashes(name, known.as_ref())? {
            return Ok(());
        }
        let file = match place(&self.data, name) {
            Ok(file) => file,
            Err(reason) => return self.missing(name, &reason, false),
        };
        self.so_far.objects += 1;
        self.count(known.as_ref().map_or(0, |known| known.size))?;
        self.seen.insert(self.hasher.hash_one(name));
        let expected = known.as_ref().map(|known| self.times.kept(file_of(known)));
        let expected = expected.transpose().map_err(FetchError::List)?;
        if let Some(expected) = expected {
            self.manifest.add(name, Ok(expected)).map_err(FetchError::List)?;
            if expected.found.length == 0 && listed {
                self.later.push((name.to_owned(), expected));
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
        !self.is_first && expected.found.is_at(file)
    }

    /// Handles an empty object, once all others are known: if there are objects below its name, it is the
    /// marker of a folder.
    async fn handle_empty(
        &mut self,
        name: String,
        known: ManifestObject,
    ) -> Result<(), FetchError> {
        let own = self.hasher.hash_one(&name);
        let file = self.data.join(&name);
        if self.folders.contains(&own) || self.others.contains(&own) {
            return self.take_back(&name);
        }
        if self.is_here(&file, &known) {
            return self.maybe_report();
        }
        let target = self.target(file);
        let key = key(&self.store, self.request, &name)?;
        self.fetch_now((name, key), Some(known), target).await
    }

    /// Takes back an object that turned out to be the marker of a folder.
    fn take_back(&mut self, name: &str) -> Result<(), FetchError> {
        self.so_far.objects = self.so_far.objects.saturating_sub(1);
        // So that a file of this name from an earlier job is removed.
        self.seen.remove(&self.hasher.hash_one(name));
        self.manifest.remove(name);
        self.maybe_report()
    }

    async fn fetch_now(
        &mut self,
        (name, key): (String, Key),
        expected: Option<ManifestObject>,
        mut target: FetchTarget,
    ) -> Result<(), FetchError> {
        while self.tasks.len() >= AT_ONCE {
            self.wait_for_one().await?;
        }
        let store = Arc::clone(&self.store);
        let config = Arc::clone(&self.config);
        target.most = expected.map_or(target.most, |known| known.found.length);
        self.tasks.spawn(async move {
            match fetch(&store, &config, &key, expected, &target).await {
                Ok(found) if expected.is_none() => Ok(Arrived::New(name, found)),
                Ok(_) => Ok(Arrived::Whole),
                Err(FetchError::Gone) => Ok(Arrived::Folder(name)),
                Err(error @ FetchError::Write { .. }) => Err(error),
                Err(reason) => Ok(Arrived::Unfetched(name, reason)),
            }
        });
        self.maybe_report()
    }

    /// Adds to the size of the wanted objects. Fails if they may not be that large.
    fn count(&mut self, bytes: u64) -> Result<(), FetchError> {
        self.so_far.bytes += bytes;
        if self.extent.must_fit && self.so_far.bytes > self.extent.most {
            let most = ByteSize(self.extent.most);
            return Err(FetchError::TooMany(self.request.shown.clone(), most));
        }
        Ok(())
    }

    /// Whether an object has the name of another object's folder, or the other way round: a file system
    /// cannot hold both. The second one becomes a failed item under another name, unless it is only the
    /// marker of the folder.
    fn clashes(&mut self, name: &str, known: Option<&ObjectMeta>) -> Result<bool, FetchError> {
        let folders = name.match_indices('/').map(|(at, _)| self.hasher.hash_one(&name[..at]));
        let folders: Vec<u64> = folders.collect();
        let is_below = |folder: &u64| self.seen.contains(folder) && !self.empty.contains(folder);
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
            self.empty.insert(own);
        }
        Ok(false)
    }

    /// Notes that an object is missing. If it `may_come`, the fetch for its mini-batch will find out again;
    /// otherwise, the manifest has the reason. If all objects are fetched at once, the manifest lists it
    /// under a valid file name.
    fn missing(
        &mut self,
        name: &str,
        reason: &FetchError,
        may_come: bool,
    ) -> Result<(), FetchError> {
        self.so_far.objects += 1;
        self.so_far.failed += 1;
        if may_come {
            place(&self.data, name)?;
            return self.manifest.add(name, Ok(MISSING)).map_err(FetchError::List);
        }
        match self.extent.on_demand {
            true => self.note(name, reason),
            false => self.note(&file_name(name), reason),
        }
    }

    /// Writes to the manifest why an object cannot be fetched.
    fn note(&mut self, name: &str, reason: &FetchError) -> Result<(), FetchError> {
        let mut text = reason.to_string();
        text.truncate(text.floor_char_boundary(REASON));
        self.manifest.add(&name.replace('\0', "%00"), Err(text)).map_err(FetchError::List)
    }

    fn target(&mut self, file: PathBuf) -> FetchTarget {
        self.parts += 1;
        let part = self.request.folder.join("part").join(self.parts.to_string());
        let most = self.extent.most.saturating_sub(self.so_far.bytes);
        FetchTarget { file, part, most }
    }

    /// Waits until one of the running downloads is done.
    async fn wait_for_one(&mut self) -> Result<(), FetchError> {
        // A large object takes long. Without reports, the leader would take the process for dead.
        let next = loop {
            match tokio::time::timeout(REPORT_INTERVAL, self.tasks.join_next()).await {
                Ok(next) => break next,
                Err(_) => self.maybe_report()?,
            }
        };
        match next {
            Some(Ok(Ok(Arrived::New(name, found)))) => {
                self.count(found.length)?;
                let object = self.times.kept(found).map_err(FetchError::List)?;
                self.manifest.add(&name, Ok(object)).map_err(FetchError::List)?;
            }
            Some(Ok(Ok(Arrived::Whole))) => {}
            Some(Ok(Ok(Arrived::Unfetched(name, reason)))) => {
                self.so_far.failed += 1;
                self.note(&name, &reason)?;
            }
            Some(Ok(Ok(Arrived::Folder(name)))) => return self.take_back(&name),
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

/// Whether an empty object is the marker of the prefix's folder: the library removes the `/` at the end of
/// keys.
fn is_marker(key: &str, prefix: &str) -> bool {
    prefix.strip_suffix('/') == Some(key)
}
