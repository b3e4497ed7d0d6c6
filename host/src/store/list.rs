//! Finds the objects that are wanted, and brings those that are not there yet: page by page, so that a list
//! of any length takes little memory, a few objects at a time.

use super::fetch::{Miss, Target, fetch, is_current, mark, place};
use super::message::{FetchRequest, Fetched, StoreConfig, Wanted};
use super::open::Store;
use super::words::failed;
use crate::dataset::Pattern;
use crate::model::ByteSize;
use object_store::path::Path as Key;
use object_store::{Error, GetOptions, ObjectMeta};
use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use walkdir::WalkDir;

/// Objects that are fetched at the same time.
const AT_ONCE: usize = 16;
/// How often it is told how far it is.
const TELL: Duration = Duration::from_secs(2);

/// Fills the slot of a request. An error is for people.
pub(super) async fn fill(
    request: &FetchRequest,
    wanted: &Wanted,
    most: u64,
    tell: &mut dyn FnMut(Fetched) -> Result<(), String>,
) -> Result<Fetched, String> {
    let config = Arc::new(request.store.clone());
    let store = Store::open(&config).map_err(|error| failed(&error, &request.shown, &config))?;
    let mut round = Round {
        request,
        most,
        store: Arc::new(store),
        config,
        data: request.folder.join("data"),
        hasher: RandomState::new(),
        seen: HashSet::new(),
        folders: HashSet::new(),
        empty: HashSet::new(),
        tasks: JoinSet::new(),
        parts: 0,
        so_far: Fetched::default(),
        told: Instant::now(),
        tell,
    };
    match wanted {
        Wanted::All => round.list(&request.prefix, &Pattern::Everything).await?,
        Wanted::Glob(glob) => {
            let pattern = Pattern::new(Some(glob)).map_err(|error| error.to_string())?;
            round.list(&request.prefix, &pattern).await?;
        }
        Wanted::Named(names) => round.named(names).await?,
    }
    while !round.tasks.is_empty() {
        round.one_less().await?;
    }
    if round.so_far.objects == 0 {
        return Err(format!("{} holds no object; check the address", request.shown));
    }
    round.remove_others();
    Ok(round.so_far)
}

struct Round<'a> {
    request: &'a FetchRequest,
    most: u64,
    store: Arc<Store>,
    config: Arc<StoreConfig>,
    data: PathBuf,
    hasher: RandomState,
    /// Hashes of the names of all that is wanted.
    seen: HashSet<u64>,
    /// Hashes of the names of all folders of these.
    folders: HashSet<u64>,
    /// Hashes of the names of those without content: some stores have one for each folder.
    empty: HashSet<u64>,
    tasks: JoinSet<Result<Arrived, String>>,
    parts: u64,
    so_far: Fetched,
    told: Instant,
    tell: &'a mut dyn FnMut(Fetched) -> Result<(), String>,
}

/// What became of an object.
enum Arrived {
    Whole,
    /// It could not be fetched, and a mark says so.
    Marked,
    /// It stood for a folder.
    Folder,
}

impl Round<'_> {
    /// All objects below a prefix whose names, below the request's prefix, match.
    async fn list(&mut self, prefix: &str, pattern: &Pattern) -> Result<(), String> {
        let mut token = None;
        loop {
            let Some(page) = self.store.page(prefix, token).await else {
                return Err(format!("{} cannot be listed: name each object", self.request.shown));
            };
            let what = format!("listing {}", self.request.shown);
            let page = page.map_err(|error| failed(&error, &what, &self.config))?;
            for object in page.result.objects {
                let key = object.location.as_ref();
                let Some(name) = key.strip_prefix(self.request.prefix.as_str()) else { continue };
                // Some stores have an empty object for each folder.
                let is_folder = name.is_empty() || (object.size == 0 && is_marker(key, prefix));
                if !is_folder && pattern.takes(name.as_bytes()) {
                    let name = name.to_owned();
                    self.want(&name, Some(object)).await?;
                }
            }
            self.maybe_tell()?;
            token = page.page_token;
            if token.is_none() {
                return Ok(());
            }
        }
    }

    /// Objects, or folders of objects, by name.
    async fn named(&mut self, names: &[String]) -> Result<(), String> {
        let mut missing = None;
        for name in names {
            let key = self.key(name)?;
            let head = GetOptions { head: true, ..Default::default() };
            match self.store.objects().get_opts(&key, head).await {
                Ok(found) => self.want(name, Some(found.meta)).await?,
                Err(error) if is_missing(&error, &self.store) => {
                    let before = self.so_far.objects;
                    if !matches!(*self.store, Store::Http(_)) {
                        let prefix = format!("{}{name}/", self.request.prefix);
                        self.list(&prefix, &Pattern::Everything).await?;
                    }
                    if self.so_far.objects == before {
                        let what = format!("reading {name} of {}", self.request.shown);
                        missing = Some((name, failed(&error, &what, &self.config)));
                        self.missing(name, missing.as_ref().map_or("", |(_, text)| text))?;
                    }
                }
                Err(error @ (Error::PermissionDenied { .. } | Error::Unauthenticated { .. })) => {
                    let what = format!("reading {name} of {}", self.request.shown);
                    return Err(failed(&error, &what, &self.config));
                }
                // A server may not answer what it is not asked often.
                Err(_) => self.want(name, None).await?,
            }
        }
        match missing {
            Some((_, text)) if self.so_far.failed == self.so_far.objects => Err(text),
            _ => Ok(()),
        }
    }

    fn key(&self, name: &str) -> Result<Key, String> {
        let text = format!("{}{name}", self.request.prefix);
        let key = match *self.store {
            // As it stands in an address.
            Store::Http(_) => Key::from_url_path(&text),
            _ => Key::parse(&text),
        };
        key.map_err(|error| format!("{text:?} is no key of an object: {error}"))
    }

    /// An object that is wanted: brings it, if it is not there.
    async fn want(&mut self, name: &str, known: Option<ObjectMeta>) -> Result<(), String> {
        if self.clashes(name, known.as_ref())? {
            return Ok(());
        }
        self.so_far.objects += 1;
        self.so_far.bytes += known.as_ref().map_or(0, |known| known.size);
        if self.so_far.bytes > self.most {
            return Err(format!(
                "the objects of {} take more than {}, the size of the cache: raise cache.size in the \
                 file of datastores, or name fewer of them",
                self.request.shown,
                ByteSize(self.most)
            ));
        }
        self.seen.insert(self.hasher.hash_one(name));
        let file = match place(&self.data, name) {
            Ok(file) => file,
            Err(reason) => return Err(format!("an object of {}: {reason}", self.request.shown)),
        };
        if let (Some(known), Ok(found)) = (&known, file.symlink_metadata())
            && is_current(&found, known)
        {
            return self.maybe_tell();
        }
        self.so_far.fetched += 1;
        while self.tasks.len() >= AT_ONCE {
            self.one_less().await?;
        }
        let (store, config) = (Arc::clone(&self.store), Arc::clone(&self.config));
        let key = match &known {
            Some(known) => known.location.clone(),
            None => self.key(name)?,
        };
        let mut target = self.target(file);
        target.most = known.as_ref().map_or(target.most, |known| known.size);
        self.tasks.spawn(async move {
            match fetch(&store, &config, &key, known.as_ref(), &target).await {
                Ok(_) => Ok(Arrived::Whole),
                Err(Miss::Folder) => Ok(Arrived::Folder),
                Err(Miss::Disk(text)) => Err(text),
                Err(Miss::Object(reason)) => match mark(&target, &reason) {
                    Ok(()) => Ok(Arrived::Marked),
                    Err(error) => Err(format!("{} cannot be made: {error}", target.file.display())),
                },
            }
        });
        self.maybe_tell()
    }

    /// Whether an object has the name of another one's folder, or the other way round: a file system
    /// cannot hold both. The one that comes later becomes a failed item of another name, unless it just
    /// stands for the folder.
    fn clashes(&mut self, name: &str, known: Option<&ObjectMeta>) -> Result<bool, String> {
        let folders = name.match_indices('/').map(|(at, _)| self.hasher.hash_one(&name[..at]));
        let folders: Vec<u64> = folders.collect();
        let is_below = |folder: &u64| self.seen.contains(folder) && !self.empty.contains(folder);
        let own = self.hasher.hash_one(name);
        let is_empty = known.is_some_and(|known| known.size == 0);
        if self.folders.contains(&own) && is_empty {
            return Ok(true);
        }
        if self.folders.contains(&own) || folders.iter().any(is_below) {
            let reason = "the store has an object and a folder of one name, which files cannot have: \
                          name the objects otherwise, or leave one out by a glob";
            self.missing(&name.replace('/', "%2F"), reason)?;
            return Ok(true);
        }
        self.folders.extend(folders);
        if is_empty {
            self.empty.insert(own);
        }
        Ok(false)
    }

    /// An object that the job file names and that is not there.
    fn missing(&mut self, name: &str, reason: &str) -> Result<(), String> {
        let file = place(&self.data, name)?;
        self.so_far.objects += 1;
        self.so_far.failed += 1;
        self.seen.insert(self.hasher.hash_one(name));
        let target = self.target(file);
        mark(&target, reason)
            .map_err(|error| format!("{} cannot be made: {error}", target.file.display()))
    }

    fn target(&mut self, file: PathBuf) -> Target {
        self.parts += 1;
        let part = self.request.folder.join("part").join(self.parts.to_string());
        Target { file, part, most: self.most.saturating_sub(self.so_far.bytes) }
    }

    /// Waits for one of those that are on their way.
    async fn one_less(&mut self) -> Result<(), String> {
        // A large object takes long; whoever listens must not take that for the end.
        let next = loop {
            match tokio::time::timeout(TELL, self.tasks.join_next()).await {
                Ok(next) => break next,
                Err(_) => self.maybe_tell()?,
            }
        };
        match next {
            Some(Ok(Ok(Arrived::Whole))) => {}
            Some(Ok(Ok(Arrived::Marked))) => self.so_far.failed += 1,
            Some(Ok(Ok(Arrived::Folder))) => {
                self.so_far.objects -= 1;
                self.so_far.fetched -= 1;
            }
            Some(Ok(Err(text))) => return Err(text),
            Some(Err(error)) => return Err(format!("fetching broke down: {error}")),
            None => {}
        }
        self.maybe_tell()
    }

    fn maybe_tell(&mut self) -> Result<(), String> {
        if self.told.elapsed() < TELL {
            return Ok(());
        }
        self.told = Instant::now();
        (self.tell)(self.so_far)
    }

    /// Removes what an earlier job wanted, or the store has no more. What cannot be removed is told by the
    /// planner, who finds it.
    fn remove_others(&self) {
        for entry in
            WalkDir::new(&self.data).min_depth(1).contents_first(true).into_iter().flatten()
        {
            if entry.file_type().is_dir() {
                // Fails if there is anything in it.
                let _ = fs::remove_dir(entry.path());
                continue;
            }
            let name = entry.path().strip_prefix(&self.data).ok().and_then(|name| name.to_str());
            if name.is_none_or(|name| !self.seen.contains(&self.hasher.hash_one(name))) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether a name stands for no object, which may be a folder. A web server has nothing else to name, so
/// that what it refuses is not there, either.
fn is_missing(error: &Error, store: &Store) -> bool {
    match error {
        Error::NotFound { .. } => true,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            matches!(store, Store::Http(_))
        }
        _ => false,
    }
}

/// Whether an empty object stands for the folder of the prefix: keys come without a `/` at their end.
fn is_marker(key: &str, prefix: &str) -> bool {
    prefix.strip_suffix('/') == Some(key)
}
