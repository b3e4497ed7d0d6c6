//! Tracks which of a guest's files are in the log folder, and so stay after the call.

use std::collections::HashSet;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;

/// The guest's descriptors that lead into the log folder, and whether the guest created anything elsewhere.
pub(super) struct LogDescriptors {
    /// The guest path of the log folder.
    pub(super) folder: String,
    /// The handles of the descriptors. Handle numbers are reused, so every new handle updates this set.
    handles: HashSet<u32>,
    /// Whether the current or last call created files or folders outside of the log folder, or tried to.
    pub(super) made_elsewhere: bool,
}

impl LogDescriptors {
    /// Starts without handles. `folder` is the guest path of the log folder.
    pub(super) fn new(folder: &str) -> Self {
        Self { folder: folder.to_owned(), handles: HashSet::new(), made_elsewhere: false }
    }

    /// Starts a new call.
    pub(super) fn restart(&mut self) {
        self.made_elsewhere = false;
    }

    /// Whether the current or last call created files or folders outside of the log folder, or tried to.
    pub(super) fn has_made_elsewhere(&self) -> bool {
        self.made_elsewhere
    }

    /// Records whether a new handle leads into the log folder.
    pub(super) fn update(&mut self, handle: &Resource<Descriptor>, in_log_folder: bool) {
        if in_log_folder {
            self.handles.insert(handle.rep());
        } else {
            self.handles.remove(&handle.rep());
        }
    }

    /// Whether a handle leads into the log folder.
    pub(super) fn contains(&self, handle: &Resource<Descriptor>) -> bool {
        self.handles.contains(&handle.rep())
    }
}
