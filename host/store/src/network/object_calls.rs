//! Creates, reads, lists and removes objects on request, several at a time.

use super::error_text::{FetchError, StoreAction};
use super::head::{is_missing, key};
use super::listing::REPORT_INTERVAL;
use super::open::OpenStore;
use crate::protocol::FrameBuffer;
use crate::protocol::store::{
    FetchRequest, Fetched, FromFetcher, ObjectAction, ObjectAnswer, ObjectCall, StoreConfig,
};
use object_store::path::Path as Key;
use object_store::{Error, GetOptions, GetRange, ObjectStoreExt, PutMode, PutOptions};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

/// The size of the buffer for calls, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Longer contents are divided into messages of this length, in bytes.
const PART_BYTES: usize = 4 << 20;
/// The most names in one message.
const PART_NAMES: usize = 10_000;

/// What a call has found.
enum CallResult {
    Created(bool),
    /// The content of an object. `None` if there is no such object.
    Content(Option<Vec<u8>>),
    TooLong,
    Names {
        objects: Vec<String>,
        folders: Vec<String>,
    },
    Removed,
}

/// The store, for the calls.
struct CalledStore {
    request: FetchRequest,
    store: Arc<OpenStore>,
    config: Arc<StoreConfig>,
}

/// Answers the calls of the leader, until the leader closes the pipe.
pub(super) async fn serve_calls(
    request: &FetchRequest,
    mut calls: Receiver,
    report: &mut dyn FnMut(FromFetcher) -> Result<(), FetchError>,
) -> Result<(), FetchError> {
    let called = CalledStore::open(request)?;
    let mut parts: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut tasks: JoinSet<(u64, Result<CallResult, FetchError>)> = JoinSet::new();
    let mut frames = FrameBuffer::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        tokio::select! {
            Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                let (id, result) = done?;
                answer(id, result, report)?;
            }
            read = calls.read(&mut buffer) => {
                let read = read.map_err(FetchError::Requests)?;
                if read == 0 {
                    return Ok(());
                }
                frames.push(buffer.get(..read).unwrap_or_default());
                while let Some(ObjectCall { id, action }) = frames.next_message()? {
                    match action {
                        ObjectAction::Part(bytes) => parts.entry(id).or_default().extend(bytes),
                        action => called.begin(id, action, parts.remove(&id), &mut tasks),
                    }
                }
            }
            () = tokio::time::sleep(REPORT_INTERVAL), if !tasks.is_empty() => {
                report(FromFetcher::Progress(Fetched::default()))?;
            }
        }
    }
}

impl CalledStore {
    fn open(request: &FetchRequest) -> Result<Self, FetchError> {
        let config = Arc::new(request.store.clone());
        let action = StoreAction::Open(request.shown.clone());
        let store = OpenStore::open(&config);
        let store = store.map_err(|error| FetchError::store(error, action, &config))?;
        if matches!(store, OpenStore::Http(_)) {
            return Err(FetchError::NoResults(request.shown.clone()));
        }
        Ok(Self { request: request.clone(), store: Arc::new(store), config })
    }

    /// Begins to do what a call asks for. `bytes`: the content of the object to create.
    fn begin(
        &self,
        id: u64,
        action: ObjectAction,
        bytes: Option<Vec<u8>>,
        tasks: &mut JoinSet<(u64, Result<CallResult, FetchError>)>,
    ) {
        let name = match &action {
            ObjectAction::Part(_) => return,
            ObjectAction::Create(name)
            | ObjectAction::Read(name, _)
            | ObjectAction::ReadRange(name, ..)
            | ObjectAction::List(name)
            | ObjectAction::Remove(name) => name.clone(),
        };
        let key = key(&self.store, &self.request, &name);
        let (store, config) = (Arc::clone(&self.store), Arc::clone(&self.config));
        let shown = self.request.shown.clone();
        tasks.spawn(async move {
            let key = match key {
                Ok(key) => key,
                Err(error) => return (id, Err(error)),
            };
            let (result, tried) = match action {
                ObjectAction::Create(_) | ObjectAction::Part(_) => (
                    create(&store, &key, bytes.unwrap_or_default()).await,
                    StoreAction::Write(name, shown),
                ),
                ObjectAction::Read(_, most) => {
                    (read(&store, &key, None, most).await, StoreAction::Read(name, shown))
                }
                ObjectAction::ReadRange(_, offset, length) => {
                    let range = Some((offset, length));
                    (read(&store, &key, range, u64::MAX).await, StoreAction::Read(name, shown))
                }
                ObjectAction::List(_) => (list(&store, &key).await, StoreAction::List(shown)),
                ObjectAction::Remove(_) => {
                    (remove(&store, &key).await, StoreAction::Write(name, shown))
                }
            };
            (id, result.map_err(|error| FetchError::store(error, tried, &config)))
        });
    }
}

/// Creates an object, unless there is one.
async fn create(store: &OpenStore, key: &Key, bytes: Vec<u8>) -> Result<CallResult, Error> {
    let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match store.objects().put_opts(key, bytes.into(), options).await {
        Ok(_) => Ok(CallResult::Created(true)),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
            Ok(CallResult::Created(false))
        }
        Err(error) => Err(error),
    }
}

/// Reads an object, unless it is longer than `most` bytes. `range`: the position of the first byte, and the number of
/// bytes. `None`: all of it.
async fn read(
    store: &OpenStore,
    key: &Key,
    range: Option<(u64, u64)>,
    most: u64,
) -> Result<CallResult, Error> {
    let bounded =
        |(offset, length): (u64, u64)| GetRange::Bounded(offset..offset.saturating_add(length));
    let options = GetOptions { range: range.map(bounded), ..GetOptions::default() };
    let found = match store.objects().get_opts(key, options).await {
        Ok(found) => found,
        Err(error) if is_missing(&error, store) => return Ok(CallResult::Content(None)),
        // Stores refuse a range that begins after the end.
        Err(error) => match range {
            Some((offset, _)) if store.objects().head(key).await?.size <= offset => {
                return Ok(CallResult::Content(Some(Vec::new())));
            }
            _ => return Err(error),
        },
    };
    if found.meta.size > most {
        return Ok(CallResult::TooLong);
    }
    Ok(CallResult::Content(Some(found.bytes().await?.into())))
}

/// Lists the objects and the folders that are directly in a folder.
async fn list(store: &OpenStore, folder: &Key) -> Result<CallResult, Error> {
    let listed = store.objects().list_with_delimiter(Some(folder)).await?;
    let last = |key: &Key| key.filename().map(str::to_owned);
    Ok(CallResult::Names {
        objects: listed.objects.iter().filter_map(|found| last(&found.location)).collect(),
        folders: listed.common_prefixes.iter().filter_map(last).collect(),
    })
}

/// Removes an object, if there is one.
async fn remove(store: &OpenStore, key: &Key) -> Result<CallResult, Error> {
    match store.objects().delete(key).await {
        Ok(()) => Ok(CallResult::Removed),
        Err(error) if is_missing(&error, store) => Ok(CallResult::Removed),
        Err(error) => Err(error),
    }
}

/// Reports what a call has found, in messages that are not too long.
fn answer(
    id: u64,
    result: Result<CallResult, FetchError>,
    report: &mut dyn FnMut(FromFetcher) -> Result<(), FetchError>,
) -> Result<(), FetchError> {
    let mut send = |answer| report(FromFetcher::Answer(id, answer));
    let last = match result {
        Ok(CallResult::Created(created)) => ObjectAnswer::Created(created),
        Ok(CallResult::Content(content)) => {
            for part in content.as_deref().unwrap_or_default().chunks(PART_BYTES) {
                send(ObjectAnswer::Part(part.to_vec()))?;
            }
            ObjectAnswer::Read(content.is_some())
        }
        Ok(CallResult::TooLong) => ObjectAnswer::TooLong,
        Ok(CallResult::Names { objects, folders }) => {
            for names in objects.chunks(PART_NAMES) {
                send(ObjectAnswer::Objects(names.to_vec()))?;
            }
            for names in folders.chunks(PART_NAMES) {
                send(ObjectAnswer::Folders(names.to_vec()))?;
            }
            ObjectAnswer::Listed
        }
        Ok(CallResult::Removed) => ObjectAnswer::Removed,
        Err(error) => ObjectAnswer::Failed(error.into()),
    };
    send(last)
}
