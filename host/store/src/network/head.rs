//! Asks a store for the metadata of objects, by name.

use super::error_text::{FetchError, StoreAction, is_out_of_reach};
use super::open::OpenStore;
use crate::protocol::store::FetchRequest;
use object_store::path::Path as Key;
use object_store::{Error, GetOptions, GetRange, ObjectMeta};
use std::sync::Arc;
use tokio::task::JoinSet;

/// A store's answer about a name. `None` if the store did not say whether there is an object.
pub(super) type HeadResult = Result<Option<ObjectMeta>, Error>;

/// Asks for objects by name. Returns the answers in the order of the names.
pub(super) async fn head_all(
    store: &Arc<OpenStore>,
    request: &FetchRequest,
    names: &[String],
) -> Result<Vec<HeadResult>, FetchError> {
    let mut tasks = JoinSet::new();
    for (index, name) in names.iter().enumerate() {
        let (store, key) = (Arc::clone(store), key(store, request, name)?);
        tasks.spawn(async move { (index, head_one(&store, &key).await) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Finds out whether the store lets this machine read an object, which was not empty. It may be gone.
pub(super) async fn check(request: &FetchRequest, name: &str) -> Result<(), FetchError> {
    let config = &request.store;
    let action = || StoreAction::Read(name.to_owned(), request.shown.clone());
    let failed = |error| FetchError::store(error, action(), config);
    let store = OpenStore::open(config).map_err(failed)?;
    let key = key(&store, request, name)?;
    let head = GetOptions { head: true, ..Default::default() };
    // Some web servers do not support HEAD.
    let byte = GetOptions { range: Some(GetRange::Bounded(0..1)), ..Default::default() };
    let mut answer = store.objects().get_opts(&key, head).await;
    if answer.as_ref().is_err_and(|error| !is_out_of_reach(error)) {
        answer = store.objects().get_opts(&key, byte).await;
    }
    match answer {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// The key of an object of this name.
pub(super) fn key(
    store: &OpenStore,
    request: &FetchRequest,
    name: &str,
) -> Result<Key, FetchError> {
    let text = format!("{}{name}", request.prefix);
    let key = match store {
        // URLs are percent-encoded.
        OpenStore::Http(_) => Key::from_url_path(&text),
        _ => Key::parse(&text),
    };
    key.map_err(|error| FetchError::NoKey(text, error))
}

/// Asks for one object. An error means that the object does not exist, that access is denied, or that the
/// store is unreachable.
async fn head_one(store: &OpenStore, key: &Key) -> HeadResult {
    let head = GetOptions { head: true, ..Default::default() };
    let error = match store.objects().get_opts(key, head).await {
        Ok(found) => return Ok(Some(found.meta)),
        Err(error) => error,
    };
    let is_denied = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. });
    if is_denied
        || is_out_of_reach(&error)
        || !matches!(store, OpenStore::Http(_)) && is_missing(&error, store)
    {
        return Err(error);
    }
    // Some web servers do not support HEAD, or answer it with "not found". So we read one byte.
    let byte = GetOptions { range: Some(GetRange::Bounded(0..1)), ..Default::default() };
    match store.objects().get_opts(key, byte).await {
        Ok(found) => Ok(Some(found.meta)),
        Err(again) if is_missing(&again, store) => Err(error),
        // The object may be empty, or the server may not support ranges.
        Err(_) => Ok(None),
    }
}

/// Whether an error means that there is no object of this name. The caller then looks for a folder of this
/// name. On a web server, an object to which access is denied counts as missing, too: the server has no
/// folders that the caller could find.
pub(super) fn is_missing(error: &Error, store: &OpenStore) -> bool {
    match error {
        Error::NotFound { .. } => true,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            matches!(store, OpenStore::Http(_))
        }
        _ => false,
    }
}
