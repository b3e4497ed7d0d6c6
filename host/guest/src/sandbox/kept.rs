//! Which of what a guest makes stays.

use std::collections::HashSet;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;

/// Which of a guest's descriptors lead into the log folder, and whether anything was made elsewhere.
pub(super) struct Kept {
    /// The guest's name of it.
    pub(super) folder: String,
    /// Handles. Each gets its place here when it is made, so that one that is used again is right.
    handles: HashSet<u32>,
    pub(super) made: bool,
}

impl Kept {
    /// None yet. `folder`: the guest's name of the log folder.
    pub(super) fn new(folder: &str) -> Self {
        Self { folder: folder.to_owned(), handles: HashSet::new(), made: false }
    }

    /// Begins a call.
    pub(super) fn restart(&mut self) {
        self.made = false;
    }

    /// Whether the running call, or the last one, made files or folders elsewhere, or tried to.
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
