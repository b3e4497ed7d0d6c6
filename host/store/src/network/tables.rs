//! Recognizes tables with a log among the objects of a store. The data files alone do not say which rows such
//! a table has.

use super::error_text::FetchError;
use super::open::{OpenStore, PageRange};
use crate::dataset::TableLog;
use crate::protocol::store::{FetchRequest, WantedObjects};
use std::collections::BTreeMap;

/// The most tables that are remembered.
const MOST: usize = 1000;

/// The tables found so far.
#[derive(Debug)]
pub(super) struct Tables {
    /// Whether tables are searched for.
    wanted: bool,
    /// By their folders, relative to the request's prefix.
    found: BTreeMap<String, TableLog>,
}

impl Tables {
    /// No tables yet. If a request names the metadata files of a table, it means these files, so tables are
    /// allowed.
    pub(super) fn new(refused: bool, wanted: &WantedObjects) -> Self {
        let names_log = |text: &str| TableLog::ALL.iter().any(|log| text.contains(log.folder()));
        let means_log = match wanted {
            WantedObjects::All => false,
            WantedObjects::Glob(glob) => names_log(glob),
            WantedObjects::Named(names) => names.iter().any(|name| names_log(name)),
        };
        Self { wanted: refused && !means_log, found: BTreeMap::new() }
    }

    /// Inspects the name of an object, relative to the request's prefix, wanted or not.
    pub(super) fn inspect(&mut self, name: &str) {
        if self.wanted
            && self.found.len() < MOST
            && let Some((log, folder)) = TableLog::shown_by(name)
        {
            self.found.entry(folder.to_owned()).or_insert(log);
        }
    }

    /// Fails if one of the tables' folders has objects that are wanted.
    pub(super) fn refuse(
        &self,
        request: &FetchRequest,
        has_objects: impl Fn(&str) -> bool,
    ) -> Result<(), FetchError> {
        match self.found.iter().find(|(folder, _)| folder.is_empty() || has_objects(folder)) {
            Some((folder, log)) => {
                let place = format!("{}{folder}", base(request));
                Err(FetchError::Table(*log, place.trim_end_matches('/').to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Fails if a prefix is a part of a table. If the store does not allow us to check, we assume that it is
    /// not.
    pub(super) async fn refuse_part(
        &self,
        store: &OpenStore,
        request: &FetchRequest,
        prefix: &str,
    ) -> Result<(), FetchError> {
        if !self.wanted {
            return Ok(());
        }
        let mut below = prefix.trim_end_matches('/');
        while !below.is_empty() {
            let above = below.rfind('/').map_or(0, |at| at + 1);
            let (folder, first) = below.split_at(above);
            let logs = TableLog::ALL.into_iter().filter(|log| log.owns(first, false));
            for log in logs {
                if is_at(store, folder, log).await {
                    let base = base(request);
                    let table =
                        base.strip_suffix(request.prefix.get(folder.len()..).unwrap_or_default());
                    let place = table.unwrap_or(&base).trim_end_matches('/');
                    return Err(FetchError::Table(log, place.to_owned()));
                }
            }
            below = folder.trim_end_matches('/');
        }
        Ok(())
    }
}

/// Whether a folder holds such a table. Its name is empty or ends in a `/`.
async fn is_at(store: &OpenStore, folder: &str, log: TableLog) -> bool {
    let prefix = format!("{folder}{}/", log.folder());
    let Some(Ok(page)) = store.page(&prefix, &PageRange::default()).await else { return false };
    let mut keys = page.result.objects.iter().map(|object| object.location.as_ref());
    keys.any(|key: &str| key.strip_prefix(&prefix).is_some_and(|name| log.is_shown_by(name)))
}

/// The address of the request's prefix, with a `/` at its end.
fn base(request: &FetchRequest) -> String {
    let shown = request.shown.as_str();
    let plain = shown.find(['*', '?', '[', '{']).map_or(shown, |end| &shown[..end]);
    match plain.rfind('/') {
        Some(end) => plain[..=end].to_owned(),
        None => format!("{plain}/"),
    }
}
