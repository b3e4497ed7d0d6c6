//! Tracks which of a guest's files stay after the call.

use std::collections::HashSet;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;

/// The guest's descriptors that lead into the log folder, and whether the guest created anything elsewhere.
pub(super) struct LogDescriptors {
    /// The guest path of the log folder.
    pub(super) folder: String,
    /// The handles of these descriptors. Handle numbers are reused, so every new handle updates this set.
    handles: HashSet<u32>,
    pub(super) made: bool,
}

impl LogDescriptors {
    /// Starts without handles. `folder` is the guest path of the log folder.
    pub(super) fn new(folder: &str) -> Self {
        Self { folder: folder.to_owned(), handles: HashSet::new(), made: false }
    }

    /// Starts a new call.
    pub(super) fn restart(&mut self) {
        self.made = false;
    }

    /// Whether the current or last call created files or folders elsewhere, or tried to.
    pub(super) fn made(&self) -> bool {
        self.made
    }

    pub(super) fn note(&mut self, handle: &Resource<Descriptor>, stays: bool) {
        if stays {
            self.handles.insert(handle.rep());
        } else {
            self.handles.remove(&handle.rep());
        }
    }

    pub(super) fn holds(&self, handle: &Resource<Descriptor>) -> bool {
        self.handles.contains(&handle.rep())
    }
}
