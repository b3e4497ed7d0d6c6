//! Fetches objects on request, several at a time.

use super::download::{FetchTarget, fetch, place};
use super::error_text::{FetchError, StoreAction};
use super::head::key;
use super::listing::REPORT_INTERVAL;
use super::open::OpenStore;
use super::process::AT_ONCE;
use crate::dataset::ManifestObject;
use crate::protocol::FrameBuffer;
use crate::protocol::store::StoreErrorKind;
use crate::protocol::store::{FetchRequest, Fetched, FromFetcher, ObjectRequest, StoreConfig};
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

/// How many bytes of requests are read at once.
const READ: usize = 16 << 10;

/// The name of an object, and why it could not be fetched.
type Brought = (String, Result<(), FetchError>);

/// The running downloads.
struct Downloads<'a> {
    request: &'a FetchRequest,
    store: Arc<OpenStore>,
    config: Arc<StoreConfig>,
    data: PathBuf,
    parts: u64,
    tasks: JoinSet<Brought>,
}

impl<'a> Downloads<'a> {
    fn new(request: &'a FetchRequest) -> Result<Self, FetchError> {
        let config = Arc::new(request.store.clone());
        let asked = || StoreAction::Open(request.shown.clone());
        let store =
            OpenStore::open(&config).map_err(|error| FetchError::store(error, asked(), &config))?;
        Ok(Self {
            request,
            store: Arc::new(store),
            config,
            data: request.folder.join("data"),
            parts: 0,
            tasks: JoinSet::new(),
        })
    }

    fn target(&mut self, name: &str, most: u64) -> Result<FetchTarget, FetchError> {
        self.parts += 1;
        let part = self.request.folder.join("part").join(self.parts.to_string());
        Ok(FetchTarget { file: place(&self.data, name)?, part, most })
    }

    /// Begins to fetch an object with this record. An error says why this object cannot be fetched.
    fn begin(&mut self, name: String, known: ManifestObject) -> Result<(), FetchError> {
        let target = self.target(&name, known.found.length)?;
        let key = key(&self.store, self.request, &name)?;
        let store = Arc::clone(&self.store);
        let config = Arc::clone(&self.config);
        self.tasks.spawn(async move {
            let fetched = fetch(&store, &config, &key, Some(known), &target).await;
            (name, fetched.map(drop))
        });
        Ok(())
    }

    /// Stops all downloads, and removes the partial files: other programs may need the room.
    async fn discard(&mut self) {
        self.tasks.shutdown().await;
        let parts = fs::read_dir(self.request.folder.join("part")).into_iter().flatten().flatten();
        for part in parts {
            // The next job removes what is left.
            let _ = fs::remove_file(part.path());
        }
    }

    /// Waits for one of the downloads. Fails if the disk is full.
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

/// Fetches the objects that the leader requests, until it closes the pipe. Fails if nothing can be fetched,
/// or if the disk is full.
pub(super) async fn serve(
    request: &FetchRequest,
    mut asked: Receiver,
    report: &mut dyn FnMut(FromFetcher) -> Result<(), FetchError>,
) -> Result<(), FetchError> {
    let mut downloads = Downloads::new(request)?;
    let mut frames = FrameBuffer::default();
    let mut buffer = vec![0; READ];
    let mut waiting: VecDeque<ObjectRequest> = VecDeque::new();
    loop {
        while downloads.tasks.len() < AT_ONCE
            && let Some(ObjectRequest { name, known }) = waiting.pop_front()
        {
            if let Err(reason) = downloads.begin(name.clone(), known) {
                report(FromFetcher::Brought(name, Some(reason.into())))?;
            }
        }
        tokio::select! {
            Some(next) = downloads.next(), if !downloads.tasks.is_empty() => {
                let (name, brought) = next?;
                report(FromFetcher::Brought(name, brought.err().map(Into::into)))?;
            }
            read = asked.read(&mut buffer) => {
                let read = read.map_err(FetchError::Requests)?;
                if read == 0 {
                    return Ok(());
                }
                frames.push(buffer.get(..read).unwrap_or_default());
                while let Some(object) = frames.next_message()? {
                    waiting.push_back(object);
                }
            }
            () = tokio::time::sleep(REPORT_INTERVAL), if !downloads.tasks.is_empty() => {
                report(FromFetcher::Progress(Fetched::default()))?;
            }
        }
    }
}
