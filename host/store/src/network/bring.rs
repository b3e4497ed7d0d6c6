//! Fetches what stand-ins or manifests tell of: all of it, or what is asked for, a few objects at a time.

use super::fetch::{fetch, place};
use super::list::{TELL, Tell};
use super::look::key;
use super::open::Store;
use super::process::AT_ONCE;
use super::target::{Target, mark};
use super::words::{Asked, FetchError};
use crate::dataset::{Found, is_stand_in};
use crate::protocol::FrameBuffer;
use crate::protocol::store::StoreErrorKind;
use crate::protocol::store::{Bring, FetchRequest, Fetched, FromFetcher, StoreConfig};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;
use walkdir::WalkDir;

/// Bytes that are read at once of what is asked for.
const READ: usize = 16 << 10;

/// The name of an object, and its bytes or why there are none.
type Brought = (String, Result<u64, FetchError>);

/// Who carries objects here.
struct Porter<'a> {
    request: &'a FetchRequest,
    store: Arc<Store>,
    config: Arc<StoreConfig>,
    data: PathBuf,
    parts: u64,
    tasks: JoinSet<Brought>,
}

impl<'a> Porter<'a> {
    fn new(request: &'a FetchRequest) -> Result<Self, FetchError> {
        let config = Arc::new(request.store.clone());
        let asked = || Asked::Open(request.shown.clone());
        let store =
            Store::open(&config).map_err(|error| FetchError::store(error, asked(), &config))?;
        Ok(Self {
            request,
            store: Arc::new(store),
            config,
            data: request.folder.join("data"),
            parts: 0,
            tasks: JoinSet::new(),
        })
    }

    fn target(&mut self, name: &str, most: u64) -> Result<Target, FetchError> {
        self.parts += 1;
        let part = self.request.folder.join("part").join(self.parts.to_string());
        Ok(Target { file: place(&self.data, name)?, part, most })
    }

    /// Begins to fetch an object of which so much is known. An error says why nothing can be fetched.
    fn begin(&mut self, name: String, known: Found) -> Result<(), FetchError> {
        let target = self.target(&name, known.length)?;
        let key = key(&self.store, self.request, &name)?;
        let (store, config) = (Arc::clone(&self.store), Arc::clone(&self.config));
        self.tasks.spawn(async move {
            let fetched = fetch(&store, &config, &key, Some(known), &target).await;
            (name, fetched)
        });
        Ok(())
    }

    /// Stops all fetching, and removes what has come of objects: others may need the room.
    async fn discard(&mut self) {
        self.tasks.shutdown().await;
        let parts = fs::read_dir(self.request.folder.join("part")).into_iter().flatten().flatten();
        for part in parts {
            // The next job removes what stays.
            let _ = fs::remove_file(part.path());
        }
    }

    /// Waits for one that was begun. Fails if the disk has no room.
    async fn next(&mut self) -> Option<Result<Brought, FetchError>> {
        Some(match self.tasks.join_next().await? {
            Ok((_, Err(error))) if error.kind() == StoreErrorKind::DiskFull => {
                self.discard().await;
                Err(error)
            }
            Ok(done) => Ok(done),
            Err(error) => Ok((String::new(), Err(error.into()))),
        })
    }
}

/// Fetches all that stand-ins of the request's folder stand for. What cannot be fetched gets a mark. Fails if
/// nothing can be fetched, or nothing written.
pub(super) async fn bring_all(
    request: &FetchRequest,
    tell: &mut Tell<'_>,
) -> Result<Fetched, FetchError> {
    let mut porter = Porter::new(request)?;
    let (mut so_far, mut told) = (Fetched::default(), Instant::now());
    let data = porter.data.clone();
    let mut entries = WalkDir::new(&data).sort_by_file_name().into_iter().flatten();
    loop {
        while porter.tasks.len() < AT_ONCE
            && let Some(entry) = entries.next()
        {
            let metadata = entry.metadata().ok().filter(is_stand_in);
            let name = entry.path().strip_prefix(&data).ok().and_then(|name| name.to_str());
            let (Some(metadata), Some(name)) = (metadata, name) else { continue };
            so_far.objects += 1;
            porter.begin(name.to_owned(), Found::from(&metadata))?;
        }
        if porter.tasks.is_empty() {
            return Ok(so_far);
        }
        match tokio::time::timeout(TELL, porter.next()).await.ok().flatten().transpose()? {
            Some((_, Ok(bytes))) => so_far.bytes += bytes,
            Some((name, Err(reason))) => {
                so_far.failed += 1;
                let target = porter.target(&name, 0)?;
                if let Err(source) = mark(&target, &reason.to_string()) {
                    return Err(FetchError::Mark { reason: Box::new(reason), source });
                }
            }
            None => {}
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            tell(so_far)?;
        }
    }
}

/// Fetches what the leader asks for, until it closes the pipe. Fails if nothing can be fetched, or the disk has no room.
pub(super) async fn serve(
    request: &FetchRequest,
    mut asked: Receiver,
    tell: &mut dyn FnMut(FromFetcher) -> Result<(), FetchError>,
) -> Result<(), FetchError> {
    let mut porter = Porter::new(request)?;
    let (mut frames, mut buffer) = (FrameBuffer::default(), vec![0; READ]);
    let mut waiting: VecDeque<Bring> = VecDeque::new();
    loop {
        while porter.tasks.len() < AT_ONCE
            && let Some(Bring { name, known }) = waiting.pop_front()
        {
            let known =
                known.map_or_else(|| stands_for(&porter.data.join(&name)), |it| Ok(Some(it)));
            let begun = match known {
                Ok(Some(known)) => porter.begin(name.clone(), known),
                Ok(None) => {
                    tell(FromFetcher::Brought(name, None))?;
                    continue;
                }
                Err(reason) => Err(reason),
            };
            if let Err(reason) = begun {
                tell(FromFetcher::Brought(name, Some(reason.into())))?;
            }
        }
        tokio::select! {
            Some(next) = porter.next(), if !porter.tasks.is_empty() => {
                let (name, brought) = next?;
                tell(FromFetcher::Brought(name, brought.err().map(Into::into)))?;
            }
            read = asked.read(&mut buffer) => {
                let read = read.map_err(FetchError::Deaf)?;
                if read == 0 {
                    return Ok(());
                }
                frames.push(buffer.get(..read).unwrap_or_default());
                while let Some(object) = frames.next_message()? {
                    waiting.push_back(object);
                }
            }
            () = tokio::time::sleep(TELL), if !porter.tasks.is_empty() => {
                tell(FromFetcher::Progress(Fetched::default()))?;
            }
        }
    }
}

/// What a stand-in tells of its object; none if that is here.
fn stands_for(file: &Path) -> Result<Option<Found>, FetchError> {
    match fs::symlink_metadata(file) {
        Ok(stands) if is_stand_in(&stands) => Ok(Some(Found::from(&stands))),
        Ok(stands) if stands.is_file() => Ok(None),
        Ok(_) => Err(FetchError::Unknown),
        Err(error) => Err(FetchError::NotKnown(error)),
    }
}
