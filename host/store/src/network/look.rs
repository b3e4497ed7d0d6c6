//! Asks a store for objects by their names.

use super::open::Store;
use super::words::{FetchError, is_out_of_reach};
use crate::protocol::store::FetchRequest;
use object_store::path::Path as Key;
use object_store::{Error, GetOptions, GetRange, ObjectMeta};
use std::sync::Arc;
use tokio::task::JoinSet;

/// What a store says of a name.
pub(super) type Looked = Result<Option<ObjectMeta>, Error>;

/// Asks for objects by name; in their order, what there is, or nothing where a server does not tell.
pub(super) async fn look(
    store: &Arc<Store>,
    request: &FetchRequest,
    names: &[String],
) -> Result<Vec<Looked>, FetchError> {
    let mut tasks = JoinSet::new();
    for (index, name) in names.iter().enumerate() {
        let (store, key) = (Arc::clone(store), key(store, request, name)?);
        tasks.spawn(async move { (index, look_for(&store, &key).await) });
    }
    let mut looked = tasks.join_all().await;
    looked.sort_by_key(|(index, _)| *index);
    Ok(looked.into_iter().map(|(_, looked)| looked).collect())
}

/// The key of an object by its name.
pub(super) fn key(store: &Store, request: &FetchRequest, name: &str) -> Result<Key, FetchError> {
    let text = format!("{}{name}", request.prefix);
    let key = match store {
        // As it stands in an address.
        Store::Http(_) => Key::from_url_path(&text),
        _ => Key::parse(&text),
    };
    key.map_err(|error| FetchError::NoKey(text, error))
}

/// What there is. An error says that there is nothing, or that the store is closed or out of reach.
async fn look_for(store: &Store, key: &Key) -> Looked {
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
pub(super) fn is_missing(error: &Error, store: &Store) -> bool {
    match error {
        Error::NotFound { .. } => true,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            matches!(store, Store::Http(_))
        }
        _ => false,
    }
}
