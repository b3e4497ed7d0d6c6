//! Compares the inputs on this machine with those of the leader's machine, if each machine has a copy of its own.

use super::error::NodeError;
use super::staging::Staged;
use crate::dataset::{DatasetError, SourceListing};
use crate::model::{JobInput, Source, hex};
use crate::protocol::node::{LocalInput, PrepareRequest};
use crate::spec::{JobSpec, JobStorePlace};
use sha2::{Digest, Sha256};
use std::os::unix::fs::MetadataExt;

/// Finds what the inputs on this machine consist of, or compares it with what the leader has found. Jobs whose store is a
/// folder have their inputs in shared folders, so there is nothing to compare.
///
/// # Errors
/// If the inputs cannot be listed, or differ from those of the leader.
pub(super) fn compare_inputs(
    spec: &JobSpec,
    staged: &mut Staged,
    ask: &PrepareRequest,
) -> Result<(), NodeError> {
    match &ask.listed {
        Some(listed) if listed.local.is_empty() => Ok(()),
        Some(listed) => {
            let found = find(spec, &staged.sources)?;
            let is_same = |input: &&LocalInput| !found.contains(input);
            let different = listed.local.iter().filter(is_same);
            let names: Vec<&str> = different.map(|input| input.name.as_str()).collect();
            if names.is_empty() { Ok(()) } else { Err(NodeError::OtherFiles(names.join(", "))) }
        }
        None => {
            let is_elsewhere = spec.job_store.as_ref().and_then(JobStorePlace::address).is_some();
            if ask.has_remote_workers && is_elsewhere {
                staged.listed.local = find(spec, &staged.sources)?;
            }
            Ok(())
        }
    }
}

/// The inputs that are on this machine.
fn find(spec: &JobSpec, sources: &[Source]) -> Result<Vec<LocalInput>, DatasetError> {
    let is_local = |input: &&JobInput| input.addresses().next().is_none();
    let local = spec.inputs.iter().filter(is_local).map(|input| {
        let mut digest = Sha256::new();
        for source in sources.iter().filter(|source| source.dataset == input.name) {
            add_files(source, &mut digest)?;
        }
        Ok(LocalInput { name: input.name.clone(), files: hex(digest.finalize()) })
    });
    local.collect()
}

/// Adds the names, lengths and times of a source's files.
fn add_files(source: &Source, digest: &mut Sha256) -> Result<(), DatasetError> {
    let mut listing = SourceListing::new(source)?;
    while let Some(file) = listing.next_file()? {
        digest.update(&file);
        digest.update([0]);
        // A file that has just vanished is reported by the worker.
        if let Ok(found) = source.root.join(&file).metadata() {
            for number in [found.size().cast_signed(), found.mtime(), found.mtime_nsec()] {
                digest.update(number.to_le_bytes());
            }
        }
    }
    digest.update([0]);
    Ok(())
}
