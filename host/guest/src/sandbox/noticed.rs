//! Records the state of a mini-batch's files when the guest reads them, through the host's `read` or WASI's
//! files. Where the guest itself calls `stat`, we need no further `stat` of the file after the call.

use crate::dataset::FileVersion;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::DescriptorStat;

/// The number of expected files that a search compares.
const LOOK_AHEAD: usize = 16;

/// The files of the current mini-batch.
#[derive(Debug, Default)]
pub(super) struct Noticed {
    /// The guest paths of the files.
    expected: Vec<String>,
    found: Vec<Option<FileVersion>>,
    /// The index at which the next search starts.
    next: usize,
    /// The start of the call, in seconds since 1970 and nanoseconds.
    since: (i64, u32),
    /// The guest paths of the preopened folders, by handle.
    folders: HashMap<u32, String>,
    /// The indexes of expected files that are open, by handle. Handle numbers are reused, so every new handle
    /// updates this map.
    open: HashMap<u32, usize>,
}

impl Noticed {
    /// Starts a mini-batch: from now on, records the state of these files when they are read.
    pub(super) fn start_mini_batch(&mut self, paths: &[String]) {
        self.expected.truncate(paths.len());
        for (known, path) in self.expected.iter_mut().zip(paths) {
            known.clone_from(path);
        }
        self.expected.extend_from_slice(&paths[self.expected.len()..]);
        self.found.clear();
        self.found.resize(paths.len(), None);
        self.next = 0;
        self.open.clear();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.since = (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos());
    }

    /// The state of each expected file when it was first inspected. `None` for files that were not inspected,
    /// or not in order.
    pub(super) fn found(&self) -> &[Option<FileVersion>] {
        &self.found
    }

    /// Records that the host's `read` read a file.
    pub(super) fn record_read(&mut self, path: &str, found: FileVersion) {
        if let Some(index) = find_next(&self.expected, &mut self.next, |known| known == path) {
            self.found[index] = Some(found);
        }
    }

    /// Records a preopened folder.
    pub(super) fn record_folder(&mut self, handle: u32, name: &str) {
        self.folders.insert(handle, name.to_owned());
    }

    /// The guest path of a preopened folder.
    pub(super) fn folder_name(&self, handle: u32) -> Option<&str> {
        self.folders.get(&handle).map(String::as_str)
    }

    /// Records that the guest opened a file or folder in a folder.
    pub(super) fn record_open(&mut self, folder: u32, path: &str, handle: u32) {
        self.open.remove(&handle);
        self.folders.remove(&handle);
        let Some(name) = self.folders.get(&folder) else { return };
        let expected = |known: &String| {
            let inside = known.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('/'));
            inside == Some(path)
        };
        if let Some(index) = find_next(&self.expected, &mut self.next, expected) {
            self.open.insert(handle, index);
        }
    }

    /// Records the result of a `stat` on an open file. A file that changed since the call began is not
    /// recorded, because the guest may have read another version.
    pub(super) fn record_stat(&mut self, handle: u32, stat: &DescriptorStat) {
        let Some(index) = self.open.get(&handle) else { return };
        let Some(time) = stat.data_modification_timestamp else { return };
        let Ok(seconds) = i64::try_from(time.seconds) else { return };
        let seen = FileVersion { length: stat.size, seconds, nanos: time.nanoseconds };
        if !seen.is_after(self.since) {
            self.found[*index].get_or_insert(seen);
        }
    }
}

/// Returns the index of the first match at or after `next`, and moves `next` past this index. Compares only a
/// few files: most guests read in order, and for other guests a longer search would cost more than a `stat`
/// after the call.
fn find_next(
    expected: &[String],
    next: &mut usize,
    fits: impl Fn(&String) -> bool,
) -> Option<usize> {
    let found = expected.iter().skip(*next).take(LOOK_AHEAD).position(fits)?;
    let index = *next + found;
    *next = index + 1;
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
    use wasmtime_wasi::p2::bindings::sync::filesystem::types::DescriptorType;

    fn found(length: u64) -> FileVersion {
        FileVersion { length, seconds: 0, nanos: 0 }
    }

    fn stat(size: u64) -> DescriptorStat {
        DescriptorStat {
            type_: DescriptorType::RegularFile,
            link_count: 1,
            size,
            data_access_timestamp: None,
            data_modification_timestamp: Some(Datetime { seconds: 0, nanoseconds: 0 }),
            status_change_timestamp: None,
        }
    }

    fn paths() -> Vec<String> {
        ["a", "b", "c"].map(|name| format!("/inputs/x/{name}")).into()
    }

    /// Rule C25 in docs/parallel-run-step.md: a job's result is reused if its settings and inputs are the
    /// same. So the recorded state must be that of the file that the guest read.
    #[test]
    fn the_first_state_of_each_file_is_recorded() {
        let mut noticed = Noticed::default();
        let paths = paths();
        noticed.start_mini_batch(&paths);
        for (path, length) in [("/else", 9), (&paths[0], 1), (&paths[0], 2), (&paths[2], 3)] {
            noticed.record_read(path, found(length));
        }
        noticed.record_read(&paths[1], found(4));
        assert_eq!(noticed.found(), [Some(found(1)), None, Some(found(3))], "the second is late");
        noticed.start_mini_batch(&paths[..2]);
        assert_eq!(noticed.found(), [None, None]);
        noticed.record_read(&paths[1], found(4));
        assert_eq!(noticed.found(), [None, Some(found(4))]);
    }

    /// Rule C25 again, for files that the guest reads through WASI.
    #[test]
    fn a_stat_on_an_open_file_is_recorded() {
        let mut noticed = Noticed::default();
        noticed.record_folder(3, "/inputs/x");
        noticed.start_mini_batch(&paths());
        noticed.record_open(3, "a", 7);
        noticed.record_stat(7, &stat(1));
        noticed.record_stat(7, &stat(2));
        // The handle is reused for another file.
        noticed.record_open(3, "else", 7);
        noticed.record_stat(7, &stat(3));
        // The same name in a folder that the guest opened itself.
        noticed.record_open(4, "b", 8);
        noticed.record_stat(8, &stat(4));
        // The handle of a preopened folder, which the guest has closed, is reused for another folder.
        noticed.record_folder(5, "/inputs/x");
        noticed.record_open(3, "sub", 5);
        noticed.record_open(5, "b", 8);
        noticed.record_stat(8, &stat(4));
        // The file has changed since the call began.
        noticed.record_open(3, "b", 8);
        let later = Some(Datetime { seconds: u64::from(u32::MAX), nanoseconds: 0 });
        noticed.record_stat(8, &DescriptorStat { data_modification_timestamp: later, ..stat(4) });
        noticed.record_open(3, "c", 9);
        assert_eq!(noticed.found(), [Some(found(1)), None, None], "no `stat` on the third");
        // Files that are still open do not count for a later mini-batch.
        noticed.start_mini_batch(&paths());
        noticed.record_stat(9, &stat(5));
        assert_eq!(noticed.found(), [None, None, None]);
    }
}
