//! Fetches objects on request, several at a time.

use super::download::{FetchTarget, fetch, file_path};
use super::error_text::{FetchError, StoreAction};
use super::head::key;
use super::listing::REPORT_INTERVAL;
use super::open::OpenStore;
use super::process::PARALLEL_FETCHES;
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

/// The size of the buffer for requests, in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// The name of an object, and the result of fetching it.
type DownloadResult = (String, Result<(), FetchError>);

/// The running downloads.
struct Downloads<'a> {
    request: &'a FetchRequest,
    store: Arc<OpenStore>,
    config: Arc<StoreConfig>,
    data: PathBuf,
    /// How many partial files were named so far.
    parts: u64,
    tasks: JoinSet<DownloadResult>,
}

impl<'a> Downloads<'a> {
    fn new(request: &'a FetchRequest) -> Result<Self, FetchError> {
        let config = Arc::new(request.store.clone());
        let action = || StoreAction::Open(request.shown.clone());
        let store = OpenStore::open(&config)
            .map_err(|error| FetchError::store(error, action(), &config))?;
        Ok(Self {
            request,
            store: Arc::new(store),
            config,
            data: request.folder.join("data"),
            parts: 0,
            tasks: JoinSet::new(),
        })
    }

    fn target(&mut self, name: &str, max_bytes: u64) -> Result<FetchTarget, FetchError> {
        self.parts += 1;
        let part = self.request.folder.join("part").join(self.parts.to_string());
        Ok(FetchTarget { file: file_path(&self.data, name)?, part, max_bytes })
    }

    /// Begins to fetch an object. `known`: the manifest's record of the object. An error says why it cannot
    /// be fetched.
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

    /// Stops all downloads, and removes the partial files: other programs may need the disk space.
    async fn discard(&mut self) {
        self.tasks.shutdown().await;
        let parts = fs::read_dir(self.request.folder.join("part")).into_iter().flatten().flatten();
        for part in parts {
            // The next job removes files that cannot be removed now.
            let _ = fs::remove_file(part.path());
        }
    }

    /// Waits until a download ends. Fails if the disk is full. `None` if no download is running.
    async fn next(&mut self) -> Option<Result<DownloadResult, FetchError>> {
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

/// Fetches the objects that the leader requests, until the leader closes the pipe. Fails if nothing can be
/// fetched, or if the disk is full.
pub(super) async fn serve(
    request: &FetchRequest,
    mut requests: Receiver,
    report: &mut dyn FnMut(FromFetcher) -> Result<(), FetchError>,
) -> Result<(), FetchError> {
    let mut downloads = Downloads::new(request)?;
    let mut frames = FrameBuffer::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut waiting: VecDeque<ObjectRequest> = VecDeque::new();
    loop {
        while downloads.tasks.len() < PARALLEL_FETCHES
            && let Some(ObjectRequest { name, known }) = waiting.pop_front()
        {
            if let Err(reason) = downloads.begin(name.clone(), known) {
                report(FromFetcher::Downloaded(name, Some(reason.into())))?;
            }
        }
        tokio::select! {
            Some(next) = downloads.next(), if !downloads.tasks.is_empty() => {
                let (name, downloaded) = next?;
                report(FromFetcher::Downloaded(name, downloaded.err().map(Into::into)))?;
            }
            read = requests.read(&mut buffer) => {
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
