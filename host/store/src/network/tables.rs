//! Tables with a log among the objects of a store: their data files alone do not say which rows the tables have.

use super::open::{At, Store};
use super::words::FetchError;
use crate::dataset::TableLog;
use crate::protocol::store::{FetchRequest, Wanted};
use std::collections::BTreeMap;

/// Tables that are kept in mind.
const MOST: usize = 1000;

/// What was found.
#[derive(Debug)]
pub(super) struct Tables {
    /// Whether tables are looked for.
    wanted: bool,
    /// By their folders below the request's prefix.
    found: BTreeMap<String, TableLog>,
}

impl Tables {
    /// Nothing yet. A request that names the metadata of a table means these files.
    pub(super) fn new(refused: bool, wanted: &Wanted) -> Self {
        let names_log = |text: &str| TableLog::ALL.iter().any(|log| text.contains(log.folder()));
        let means_log = match wanted {
            Wanted::All => false,
            Wanted::Glob(glob) => names_log(glob),
            Wanted::Named(names) => names.iter().any(|name| names_log(name)),
        };
        Self { wanted: refused && !means_log, found: BTreeMap::new() }
    }

    /// Looks at the name of an object below the request's prefix, whether it is wanted or not.
    pub(super) fn look(&mut self, name: &str) {
        if self.wanted
            && self.found.len() < MOST
            && let Some((log, folder)) = TableLog::shown_by(name)
        {
            self.found.entry(folder.to_owned()).or_insert(log);
        }
    }

    /// Fails if one of these folders, below the request's prefix, holds objects that are wanted.
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

    /// Fails if what lies below a prefix is a part of a table. Where the store does not let it look, it is none.
    pub(super) async fn refuse_part(
        &self,
        store: &Store,
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

/// Whether the folder, which is empty or has a `/` at its end, holds such a table.
async fn is_at(store: &Store, folder: &str, log: TableLog) -> bool {
    let prefix = format!("{folder}{}/", log.folder());
    let Some(Ok(page)) = store.page(&prefix, &At::default()).await else { return false };
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
