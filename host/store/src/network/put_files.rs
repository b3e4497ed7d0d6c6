//! Writes files of a submitter's machine to a store. Only files whose content is the expected one become objects.

use super::error_text::{FetchError, StoreAction};
use super::listing::Report;
use super::open::{OpenStore, PageRange};
use super::upload::{
    ExpectedContent, FileToSend, PART_BYTES, Replaces, UploadFailure, find, upload_file,
    upload_small, version,
};
use crate::protocol::store::{FetchRequest, Fetched, FileToPut};
use object_store::ObjectMeta;
use object_store::path::Path as Key;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// How many files are sent at the same time. The larger ones are sent one after the other, in parts at the same time, so
/// that only some parts are in memory.
const PARALLEL_FILES: usize = 16;

/// Uploads these files, which are sorted by their names, unless objects of their names and lengths are there: an interrupted
/// upload continues. Replaces no object that another upload of the same files writes meanwhile: a job may read it already.
/// The error is shown to users.
pub(super) async fn put_files(
    request: &FetchRequest,
    files: &[FileToPut],
    report: &mut Report<'_>,
) -> Result<Fetched, FetchError> {
    let config = &request.store;
    let action = StoreAction::Open(request.shown.clone());
    let store = OpenStore::open(config);
    let store = Arc::new(store.map_err(|error| FetchError::store(error, action, config))?);
    if matches!(*store, OpenStore::Http(_)) {
        return Err(FetchError::NoResults(request.shown.clone()));
    }
    let mut there = found(&store, request, files, report).await?;
    let mut small = Vec::new();
    let mut large = Vec::new();
    for file in files {
        let sent = if file.length <= PART_BYTES { &mut small } else { &mut large };
        match there.remove(&file.name) {
            Some(found) if found.size == file.length => {}
            found => sent.push(to_send(request, file, found)?),
        }
    }
    let mut so_far = Fetched::default();
    put_small(request, &store, small, &mut so_far, report).await?;
    for file in large {
        so_far.objects += 1;
        let sent = upload_file(&store, &file, &mut so_far, report).await;
        sent.map_err(|failure| file.explain(failure, request))?;
        report(so_far)?;
    }
    Ok(so_far)
}

/// Uploads small files, several at a time.
async fn put_small(
    request: &FetchRequest,
    store: &Arc<OpenStore>,
    files: Vec<FileToSend>,
    so_far: &mut Fetched,
    report: &mut Report<'_>,
) -> Result<(), FetchError> {
    let mut tasks: JoinSet<Result<u64, (UploadFailure, FileToSend)>> = JoinSet::new();
    let mut files = files.into_iter();
    loop {
        while tasks.len() < PARALLEL_FILES
            && let Some(file) = files.next()
        {
            let store = Arc::clone(store);
            tasks.spawn(async move {
                upload_small(&store, &file).await.map_err(|failure| (failure, file))
            });
        }
        let Some(sent) = tasks.join_next().await else { return Ok(()) };
        let sent = sent?.map_err(|(failure, file)| file.explain(failure, request));
        so_far.bytes += sent?;
        so_far.objects += 1;
        report(*so_far)?;
    }
}

/// `found`: the object of its name, which has another length.
fn to_send(
    request: &FetchRequest,
    file: &FileToPut,
    found: Option<ObjectMeta>,
) -> Result<FileToSend, FetchError> {
    let FileToPut { path, length, sha256, .. } = file;
    Ok(FileToSend {
        key: key(request, file)?,
        path: path.clone(),
        replaces: found.map_or(Replaces::None, |found| Replaces::Version(version(found))),
        expected: Some(ExpectedContent { length: *length, sha256: *sha256 }),
    })
}

fn key(request: &FetchRequest, file: &FileToPut) -> Result<Key, FetchError> {
    let key = Key::parse(format!("{}{}", request.prefix, file.name));
    key.map_err(|_| FetchError::OddName(file.path.clone()))
}

/// The objects below the request's prefix, by their names, from that of the first file to that of the last. So the objects
/// of a large folder are not listed again for each part of its files.
async fn found(
    store: &OpenStore,
    request: &FetchRequest,
    files: &[FileToPut],
    report: &mut Report<'_>,
) -> Result<HashMap<String, ObjectMeta>, FetchError> {
    let failed =
        |error| FetchError::store(error, StoreAction::List(request.shown.clone()), &request.store);
    let mut all = HashMap::new();
    let [first, ..] = files else { return Ok(all) };
    let last = files.last().unwrap_or(first);
    let first_key = key(request, first)?;
    let object = find(store, &first_key).await.map_err(failed)?;
    all.extend(object.map(|object| (first.name.clone(), object)));
    let mut range = PageRange { after: Some(first_key.to_string()), ..Default::default() };
    loop {
        report(Fetched::default())?;
        let page = store.page(&request.prefix, &range).await;
        let page = page.ok_or_else(|| FetchError::NoList(request.shown.clone()))?;
        let page = page.map_err(failed)?;
        let mut is_past = false;
        for object in page.result.objects {
            if let Some(name) = object.location.as_ref().strip_prefix(&request.prefix) {
                is_past |= name > last.name.as_str();
                all.insert(name.to_owned(), object);
            }
        }
        if is_past || page.page_token.is_none() {
            return Ok(all);
        }
        range = PageRange { token: page.page_token, after: None, ..range };
    }
}
