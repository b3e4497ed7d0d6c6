//! Writes files of a submitter's machine to a store. Only files whose content is the expected one become objects.

use super::error_text::{FetchError, StoreAction};
use super::listing::Report;
use super::open::{OpenStore, PageRange};
use super::upload::{FileToSend, PART_BYTES, Replaces, UploadFailure, upload_file, upload_small};
use crate::protocol::store::{FetchRequest, Fetched, FileToPut};
use object_store::path::Path as Key;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// How many files are sent at the same time. The larger ones are sent one after the other, in parts at the same time, so
/// that only some parts are in memory.
const PARALLEL_FILES: usize = 16;

/// Uploads these files, unless objects of their names and lengths are there: an interrupted upload continues. The error is
/// shown to users.
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
    let there = lengths(&store, request).await?;
    let is_missing = |file: &&FileToPut| there.get(&file.name) != Some(&file.length);
    let missing: Vec<&FileToPut> = files.iter().filter(is_missing).collect();
    let (small, large): (Vec<&FileToPut>, Vec<_>) =
        missing.into_iter().partition(|file| file.length <= PART_BYTES);
    let mut so_far = Fetched::default();
    put_small(request, &store, &small, &mut so_far, report).await?;
    for file in large {
        let file = to_send(request, file)?;
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
    files: &[&FileToPut],
    so_far: &mut Fetched,
    report: &mut Report<'_>,
) -> Result<(), FetchError> {
    let mut tasks: JoinSet<Result<u64, (UploadFailure, FileToSend)>> = JoinSet::new();
    let mut files = files.iter();
    loop {
        while tasks.len() < PARALLEL_FILES
            && let Some(file) = files.next()
        {
            let store = Arc::clone(store);
            let file = to_send(request, file)?;
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

fn to_send(request: &FetchRequest, file: &FileToPut) -> Result<FileToSend, FetchError> {
    let key = Key::parse(format!("{}{}", request.prefix, file.name));
    Ok(FileToSend {
        key: key.map_err(|_| FetchError::OddName(file.path.clone()))?,
        path: file.path.clone(),
        replaces: Replaces::Any,
        expected: Some(file.sha256),
    })
}

/// The lengths of the objects below the request's prefix, by their names.
async fn lengths(
    store: &OpenStore,
    request: &FetchRequest,
) -> Result<HashMap<String, u64>, FetchError> {
    let failed =
        |error| FetchError::store(error, StoreAction::List(request.shown.clone()), &request.store);
    let mut found = HashMap::new();
    let mut range = PageRange::default();
    loop {
        let page = store.page(&request.prefix, &range).await;
        let page = page.ok_or_else(|| FetchError::NoList(request.shown.clone()))?;
        let page = page.map_err(failed)?;
        for object in page.result.objects {
            let name = object.location.as_ref().strip_prefix(&request.prefix);
            found.extend(name.map(|name| (name.to_owned(), object.size)));
        }
        if page.page_token.is_none() {
            return Ok(found);
        }
        range = PageRange { token: page.page_token, after: None, ..range };
    }
}
