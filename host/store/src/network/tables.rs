//! Recognizes tables with a transaction log ([`TableLog`]) among the objects of a store. Without the log, the
//! data files do not say which rows such a table has.

use super::error_text::FetchError;
use super::open::{OpenStore, PageRange};
use crate::dataset::TableLog;
use crate::protocol::store::{FetchRequest, WantedObjects};
use std::collections::BTreeMap;

/// The maximum number of tables that are remembered.
const MAX_TABLES: usize = 1000;

/// The tables found so far.
#[derive(Debug)]
pub(super) struct Tables {
    /// Whether we search for tables.
    is_searching: bool,
    /// The log of each table, by the table's folder, relative to the request's prefix.
    found: BTreeMap<String, TableLog>,
}

impl Tables {
    /// A value that knows no tables yet. `refused`: whether the request refuses tables. If the request names
    /// the metadata files of a table, the user wants these files, so we do not search for tables.
    pub(super) fn new(refused: bool, wanted: &WantedObjects) -> Self {
        let names_log = |text: &str| TableLog::ALL.iter().any(|log| text.contains(log.folder()));
        let wants_log_files = match wanted {
            WantedObjects::All => false,
            WantedObjects::Glob(glob) => names_log(glob),
            WantedObjects::Named(names) => names.iter().any(|name| names_log(name)),
        };
        Self { is_searching: refused && !wants_log_files, found: BTreeMap::new() }
    }

    /// Notes the table that an object is a part of. `name`: the object's name, relative to the request's
    /// prefix. The object need not be wanted.
    pub(super) fn note(&mut self, name: &str) {
        if self.is_searching
            && self.found.len() < MAX_TABLES
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
                let address = format!("{}{folder}", base_address(request));
                Err(FetchError::Table(*log, address.trim_end_matches('/').to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Fails if a prefix is inside a table. If the store does not allow us to check, we assume that
    /// the prefix is not inside a table.
    pub(super) async fn refuse_part(
        &self,
        store: &OpenStore,
        request: &FetchRequest,
        prefix: &str,
    ) -> Result<(), FetchError> {
        if !self.is_searching {
            return Ok(());
        }
        let mut below = prefix.trim_end_matches('/');
        while !below.is_empty() {
            let above = below.rfind('/').map_or(0, |at| at + 1);
            let (folder, first) = below.split_at(above);
            let logs = TableLog::ALL.into_iter().filter(|log| log.owns(first, false));
            for log in logs {
                if is_table(store, folder, log).await {
                    let base = base_address(request);
                    let table =
                        base.strip_suffix(request.prefix.get(folder.len()..).unwrap_or_default());
                    let address = table.unwrap_or(&base).trim_end_matches('/');
                    return Err(FetchError::Table(log, address.to_owned()));
                }
            }
            below = folder.trim_end_matches('/');
        }
        Ok(())
    }
}

/// Whether a folder is a table with this log. The folder's name is empty or ends in a `/`.
async fn is_table(store: &OpenStore, folder: &str, log: TableLog) -> bool {
    let prefix = format!("{folder}{}/", log.folder());
    let Some(Ok(page)) = store.page(&prefix, &PageRange::default()).await else { return false };
    let mut keys = page.result.objects.iter().map(|object| object.location.as_ref());
    keys.any(|key: &str| key.strip_prefix(&prefix).is_some_and(|name| log.is_shown_by(name)))
}

/// The address of the request's prefix, with a `/` at its end.
fn base_address(request: &FetchRequest) -> String {
    let shown = request.shown.as_str();
    let plain = shown.find(['*', '?', '[', '{']).map_or(shown, |end| &shown[..end]);
    match plain.rfind('/') {
        Some(end) => plain[..=end].to_owned(),
        None => format!("{plain}/"),
    }
}
