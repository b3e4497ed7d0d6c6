//! The data for a guest, with what reports need to know about it.

use crate::dataset::{LoadedTable, RowLines};
use crate::model::{FailedItem, UnknownKeys};
use crate::output::MiniBatchData;

/// A mini-batch, ready for the guest.
#[derive(Debug)]
pub struct LoadedMiniBatch<'a> {
    /// The data for `run`.
    pub data: MiniBatchData<'a>,
    /// The input's name.
    pub dataset: &'a str,
    /// The number of items in `data`.
    pub items: u64,
    /// Records that were left out of `data` because they do not fit the schema.
    pub rejected_count: u64,
    /// The first of these records.
    pub(super) rejected: Vec<FailedItem>,
    /// Records with keys for which there is no column; `None` if there are no such records, or if they are
    /// not counted.
    pub(super) unknown_keys: Option<UnknownKeys>,
    /// The file that a text table comes from, by the name that reports use.
    pub(super) table_file: String,
    /// The line numbers of a text table's rows in their files.
    pub(super) lines: Option<RowLines<'a>>,
    /// For other tables: which rows of which files the table consists of, in order.
    pub(super) file_rows: Vec<FileRows>,
}

/// Consecutive rows of one file that are part of a table.
#[derive(Debug)]
pub(super) struct FileRows {
    /// The file, by the name that reports use.
    pub(super) item: String,
    /// The number of the first row in the file, from 0.
    pub(super) first: u64,
    pub(super) count: u64,
}

impl<'a> LoadedMiniBatch<'a> {
    /// Data without rejected records.
    pub fn new(data: MiniBatchData<'a>, dataset: &'a str, items: u64) -> Self {
        let rejected = Vec::new();
        let table_file = String::new();
        let file_rows = Vec::new();
        Self {
            data,
            dataset,
            items,
            rejected_count: 0,
            rejected,
            unknown_keys: None,
            table_file,
            lines: None,
            file_rows,
        }
    }

    /// The data of a text table.
    pub(super) fn table(table: LoadedTable<'a>, dataset: &'a str, table_file: String) -> Self {
        Self {
            data: MiniBatchData::Table(table.ipc.pieces()),
            dataset,
            items: table.rows,
            rejected_count: table.rejected_count,
            rejected: table.rejected,
            unknown_keys: table.unknown_keys,
            table_file,
            lines: Some(table.lines),
            file_rows: Vec::new(),
        }
    }

    /// The name of an item in reports.
    pub(super) fn item_name(&self, index: usize) -> &str {
        match self.data {
            MiniBatchData::Files(paths) => paths.get(index).map_or("", String::as_str),
            _ => self.file_row(index).map_or(&self.table_file, |(item, _)| item),
        }
    }

    /// The number of a table's row, from 1: in the row's file if `file_rows` is known, otherwise in the
    /// table.
    pub(super) fn row_number(&self, index: usize) -> u64 {
        self.file_row(index).map_or(index as u64, |(_, row)| row).saturating_add(1)
    }

    /// The file of a table's row, and the row's index in it; `None` for text tables.
    fn file_row(&self, index: usize) -> Option<(&str, u64)> {
        let mut rest = index as u64;
        for part in &self.file_rows {
            if rest < part.count {
                return Some((&part.item, part.first.saturating_add(rest)));
            }
            rest -= part.count;
        }
        None
    }
}
