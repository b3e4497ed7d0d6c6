//! Finds the objects that are wanted, page by page, so that a list of any length takes little memory, and puts
//! stand-ins in the places of those that are not here yet.

use super::fetch::{Known, Miss, Target, fetch, first_stand_in, mark, place, stand_in};
use super::message::{FetchRequest, Fetched, StoreConfig, Wanted};
use super::open::{At, Store};
use super::words::{failed, is_out_of_reach};
use crate::dataset::{Pattern, is_stand_in};
use crate::model::{ByteSize, hex};
use object_store::path::Path as Key;
use object_store::{Error, GetOptions, GetRange, ObjectMeta};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use walkdir::WalkDir;

/// Objects that are asked for at the same time.
pub(super) const AT_ONCE: usize = 16;
/// How often it is told how far it is.
pub(super) const TELL: Duration = Duration::from_secs(2);
/// Bytes of the name of what stands for an object whose own name is too long.
const NAME: usize = 200;
/// Objects of a page, as stores have it.
const PAGE: usize = 1000;

/// Whom it is told how far it is.
pub(super) type Tell<'a> = dyn FnMut(Fetched) -> Result<(), String> + 'a;

/// What may be fetched, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The most bytes.
    pub(super) most: u64,
    /// Whether all that is wanted must be within these.
    pub(super) must_fit: bool,
    /// Whether what is named and not there is known to be missing.
    pub(super) is_final: bool,
}

/// Fills the slot of a request with stand-ins. An error is for people.
pub(super) async fn list(
    request: &FetchRequest,
    wanted: &Wanted,
    extent: Extent,
    tell: &mut Tell<'_>,
) -> Result<Fetched, String> {
    let config = Arc::new(request.store.clone());
    let store = Store::open(&config).map_err(|error| failed(&error, &request.shown, &config))?;
    let mut round = Round {
        request,
        extent,
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
    extent: Extent,
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
    tell: &'a mut Tell<'a>,
}

/// What became of an object that was fetched at once.
enum Arrived {
    /// All of it is here, and was not counted before.
    Whole(u64),
    /// It could not be fetched, and a mark says so.
    Marked,
    /// It stood for a folder.
    Folder,
}

/// What a store says of a name.
type Looked = Result<Option<ObjectMeta>, Error>;

impl Round<'_> {
    /// All objects below a prefix whose names, below the request's prefix, match.
    async fn list(&mut self, prefix: &str, pattern: &Pattern) -> Result<(), String> {
        let mut at = At::default();
        loop {
            let Some(page) = self.store.page(prefix, &at).await else {
                return Err(format!("{} cannot be listed: name each object", self.request.shown));
            };
            let page = match page {
                Ok(page) => page,
                Err(Error::InvalidPath { source }) => {
                    self.step_over(&source, &mut at, pattern)?;
                    continue;
                }
                Err(error) => {
                    let what = format!("listing {}", self.request.shown);
                    return Err(failed(&error, &what, &self.config));
                }
            };
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
            if page.page_token.is_none() {
                return Ok(());
            }
            at = At { token: page.page_token, behind: None, ..at };
        }
    }

    /// A page has a key that is none for the library, which then tells nothing of the page: smaller and smaller
    /// pages are asked for up to it, then what is behind it. What has such a key cannot be had.
    fn step_over(
        &mut self,
        odd: &object_store::path::Error,
        at: &mut At,
        pattern: &Pattern,
    ) -> Result<(), String> {
        let most = at.most.unwrap_or(PAGE);
        if most > 1 {
            at.most = Some((most / 10).max(1));
            return Ok(());
        }
        let (object_store::path::Error::EmptySegment { path: key }
        | object_store::path::Error::BadSegment { path: key, .. }) = odd
        else {
            return Err(format!("listing {}: {odd}", self.request.shown));
        };
        if let Some(name) = key.strip_prefix(self.request.prefix.as_str())
            && pattern.takes(name.as_bytes())
        {
            let reason = format!("the key {name:?} is no path of a file");
            self.missing(&file_name(name), &reason, false)?;
        }
        *at = At { token: None, behind: Some(key.clone()), most: None };
        Ok(())
    }

    /// Objects, or folders of objects, by name.
    async fn named(&mut self, names: &[String]) -> Result<(), String> {
        let mut missing = None;
        for names in names.chunks(AT_ONCE) {
            for (name, looked) in names.iter().zip(self.look(names).await?) {
                match looked {
                    Ok(found) => self.want(name, found).await?,
                    Err(error) if is_missing(&error, &self.store) => {
                        let before = self.so_far.objects;
                        if !matches!(*self.store, Store::Http(_)) {
                            let prefix = format!("{}{name}/", self.request.prefix);
                            self.list(&prefix, &Pattern::Everything).await?;
                        }
                        if self.so_far.objects == before {
                            let what = format!("reading {name} of {}", self.request.shown);
                            let text = failed(&error, &what, &self.config);
                            self.missing(name, &text, !self.extent.is_final)?;
                            missing = Some(text);
                        }
                    }
                    Err(error) => {
                        let what = format!("reading {name} of {}", self.request.shown);
                        return Err(failed(&error, &what, &self.config));
                    }
                }
            }
        }
        match missing {
            Some(text) if self.so_far.failed == self.so_far.objects => Err(text),
            _ => Ok(()),
        }
    }

    /// Asks for objects by name; in their order, what there is, or nothing where a server does not tell.
    async fn look(&self, names: &[String]) -> Result<Vec<Looked>, String> {
        let mut tasks = JoinSet::new();
        for (index, name) in names.iter().enumerate() {
            let (store, key) = (Arc::clone(&self.store), key(&self.store, self.request, name)?);
            tasks.spawn(async move { (index, look(&store, &key).await) });
        }
        let mut looked = tasks.join_all().await;
        looked.sort_by_key(|(index, _)| *index);
        Ok(looked.into_iter().map(|(_, looked)| looked).collect())
    }

    /// An object that is wanted: gets a stand-in, if it is not here.
    async fn want(&mut self, name: &str, known: Option<ObjectMeta>) -> Result<(), String> {
        if self.clashes(name, known.as_ref())? {
            return Ok(());
        }
        let file = match place(&self.data, name) {
            Ok(file) => file,
            Err(reason) => return self.missing(&file_name(name), &reason, false),
        };
        self.so_far.objects += 1;
        let expected = known.as_ref().map(Known::from);
        self.count(expected.map_or(0, |known| known.size))?;
        self.seen.insert(self.hasher.hash_one(name));
        let found = file.symlink_metadata().ok().filter(fs::Metadata::is_file);
        if let (Some(known), Some(found)) = (expected, &found)
            && Known::from(found) == known
        {
            self.so_far.awaited += u64::from(is_stand_in(found));
            return self.maybe_tell();
        }
        let mut target = self.target(file);
        if let Some(known) = expected.filter(|known| known.size > 0) {
            self.so_far.awaited += 1;
            let put = if found.is_some() { stand_in } else { first_stand_in };
            put(known, &target.part, &target.file).map_err(|error| unmade(&target, &error))?;
            return self.maybe_tell();
        }
        while self.tasks.len() >= AT_ONCE {
            self.one_less().await?;
        }
        let (store, config) = (Arc::clone(&self.store), Arc::clone(&self.config));
        let key = match known {
            Some(known) => known.location,
            None => key(&self.store, self.request, name)?,
        };
        target.most = expected.map_or(target.most, |known| known.size);
        self.tasks.spawn(async move {
            match fetch(&store, &config, &key, expected, &target).await {
                Ok(bytes) => Ok(Arrived::Whole(expected.map_or(bytes, |_| 0))),
                Err(Miss::Folder) => Ok(Arrived::Folder),
                Err(Miss::Disk(text)) => Err(text),
                Err(Miss::Object(reason)) => {
                    let marked = mark(&target, &reason).map_err(|error| unmade(&target, &error));
                    marked.map(|()| Arrived::Marked)
                }
            }
        });
        self.maybe_tell()
    }

    /// Adds to what is wanted. Fails if it is more than may be fetched.
    fn count(&mut self, bytes: u64) -> Result<(), String> {
        self.so_far.bytes += bytes;
        if self.extent.must_fit && self.so_far.bytes > self.extent.most {
            return Err(format!(
                "the objects of {} take more than {}, which is what is left of the cache: raise \
                 cache.size in the file of datastores, or name fewer of them",
                self.request.shown,
                ByteSize(self.extent.most)
            ));
        }
        Ok(())
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
            self.missing(&file_name(name), reason, false)?;
            return Ok(true);
        }
        self.folders.extend(folders);
        if is_empty {
            self.empty.insert(own);
        }
        Ok(false)
    }

    /// An object that cannot be had. If it `may_come`, whoever wants it finds out again; else a mark says so.
    fn missing(&mut self, name: &str, reason: &str, may_come: bool) -> Result<(), String> {
        let file = place(&self.data, name)?;
        self.so_far.objects += 1;
        self.so_far.failed += 1;
        self.seen.insert(self.hasher.hash_one(name));
        let target = self.target(file);
        let made = match may_come {
            true => stand_in(Known::MISSING, &target.part, &target.file),
            false => mark(&target, reason),
        };
        made.map_err(|error| unmade(&target, &error))
    }

    fn target(&mut self, file: PathBuf) -> Target {
        self.parts += 1;
        let part = self.request.folder.join("part").join(self.parts.to_string());
        let most = self.extent.most.saturating_sub(self.so_far.bytes);
        Target { file, part, most }
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
            Some(Ok(Ok(Arrived::Whole(bytes)))) => self.count(bytes)?,
            Some(Ok(Ok(Arrived::Marked))) => self.so_far.failed += 1,
            Some(Ok(Ok(Arrived::Folder))) => self.so_far.objects -= 1,
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

/// The key of an object by its name.
pub(super) fn key(store: &Store, request: &FetchRequest, name: &str) -> Result<Key, String> {
    let text = format!("{}{name}", request.prefix);
    let key = match store {
        // As it stands in an address.
        Store::Http(_) => Key::from_url_path(&text),
        _ => Key::parse(&text),
    };
    key.map_err(|error| format!("{text:?} is no key of an object: {error}"))
}

/// What there is. An error says that there is nothing, or that the store is closed or out of reach.
async fn look(store: &Store, key: &Key) -> Looked {
    let head = GetOptions { head: true, ..Default::default() };
    let error = match store.objects().get_opts(key, head).await {
        Ok(found) => return Ok(Some(found.meta)),
        Err(error) => error,
    };
    let is_closed = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. });
    if is_closed
        || is_out_of_reach(&error)
        || !matches!(store, Store::Http(_)) && is_missing(&error, store)
    {
        return Err(error);
    }
    // Some servers do not answer what is asked seldom, or say that there is nothing: one byte tells.
    let byte = GetOptions { range: Some(GetRange::Bounded(0..1)), ..Default::default() };
    match store.objects().get_opts(key, byte).await {
        Ok(found) => Ok(Some(found.meta)),
        Err(again) if is_missing(&again, store) => Err(error),
        // It may be empty, or give no parts.
        Err(_) => Ok(None),
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

/// The name of a file that stands for an object whose own name no file can have.
fn file_name(name: &str) -> String {
    let plain = name.replace('/', "%2F").replace('\0', "%00");
    match plain.as_str() {
        "" | "." | ".." => format!("%2F{plain}"),
        _ if plain.len() > NAME => {
            let digest = hex(Sha256::digest(name.as_bytes()));
            let cut = plain.floor_char_boundary(NAME);
            format!("{}...{}", &plain[..cut], &digest[..12])
        }
        _ => plain,
    }
}

fn unmade(target: &Target, error: &std::io::Error) -> String {
    format!("{} cannot be made: {error}", target.file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_its_name_an_object_has_a_file() {
        let data = PathBuf::from("/data");
        assert_eq!(file_name("a//b"), "a%2F%2Fb");
        for odd in ["a//b", "", "..", "a/../b", "a\0b", &"ä".repeat(300), &"x/".repeat(300)] {
            assert!(place(&data, odd).is_err());
            place(&data, &file_name(odd)).unwrap();
        }
        assert_ne!(file_name(&"x".repeat(300)), file_name(&"x".repeat(301)));
    }
}
