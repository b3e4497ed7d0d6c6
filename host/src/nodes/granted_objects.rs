//! What the leader knows about the files that its mini-batches read: objects of stores, and files in folders that the machines
//! share. A node gets this with each attempt. It fetches the objects, and compares the files with those that it has.

use crate::dataset::{Manifest, ManifestObject, OpenRoot};
use crate::model::{MiniBatchId, Source};
use crate::protocol::{Assignment, GrantedObject};
use std::collections::HashMap;

/// The files of the mini-batches that have not ended.
#[derive(Debug)]
pub(crate) struct GrantedObjects {
    sources: Vec<KnownSource>,
    known: HashMap<MiniBatchId, Vec<GrantedObject>>,
}

#[derive(Debug)]
struct KnownSource {
    source: Source,
    /// `None` until it is opened.
    manifest: Option<Manifest>,
    /// The folder, if it is not in a store. `None` until it is opened.
    folder: Option<OpenRoot>,
}

impl GrantedObjects {
    /// The files of a job with these sources.
    pub(crate) fn new(sources: &[Source]) -> Self {
        let known =
            |source: &Source| KnownSource { source: source.clone(), manifest: None, folder: None };
        Self { sources: sources.iter().map(known).collect(), known: HashMap::new() }
    }

    /// Whether mini-batches read files.
    pub(crate) fn exist(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Looks up the files of a mini-batch, each with the index of its source. Returns the positions of those that cannot be
    /// fetched, with the reasons.
    pub(super) fn find(&mut self, id: MiniBatchId, files: &[(u32, &str)]) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        let mut failed = Vec::new();
        for (file, (source, name)) in (0..).zip(files) {
            let Some(source) = self.sources.get_mut(*source as usize) else { continue };
            match source.find(name) {
                None => {}
                Some(Ok(known)) => found.push(GrantedObject { file, known }),
                Some(Err(reason)) => failed.push((file, reason)),
            }
        }
        self.known.insert(id, found);
        failed
    }

    /// Adds to an attempt what is known about the files that its node must fetch or compare.
    pub(super) fn add_to(&self, assignment: &mut Assignment) {
        let batch = &assignment.mini_batch;
        let known = self.known.get(&batch.id).map(Vec::as_slice).unwrap_or_default();
        let is_open = |object: &&GrantedObject| batch.why_unfetched(object.file).is_none();
        let objects = if batch.is_unfetched() { &[] } else { known };
        assignment.objects = objects.iter().filter(is_open).copied().collect();
    }

    /// Forgets the files of mini-batches that have ended.
    pub(super) fn forget(&mut self, ids: &[MiniBatchId]) {
        for id in ids {
            self.known.remove(id);
        }
    }
}

impl KnownSource {
    /// What is known about a file, or why it cannot be fetched. `None` if a shared folder does not have it: then the worker
    /// reports what is wrong.
    fn find(&mut self, name: &str) -> Option<Result<ManifestObject, String>> {
        if self.source.manifest.is_none() {
            let folder = self.folder.get_or_insert_with(|| OpenRoot::open(&self.source.root));
            return folder.version_of(name).map(|found| Ok(found.into()));
        }
        let manifest = match self.manifest.take() {
            Some(manifest) => Ok(Some(manifest)),
            None => Manifest::open_source(&self.source),
        };
        let found = manifest.and_then(|manifest| match manifest {
            Some(manifest) => self.manifest.insert(manifest).find(name),
            None => Ok(None),
        });
        Some(match found {
            Ok(Some(record)) => record,
            Ok(None) => Err("it is not in the list of the store's objects".to_owned()),
            Err(error) => Err(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{FileVersion, ManifestWriter};
    use crate::model::{MiniBatch, MiniBatchWork};
    use std::fs;

    #[test]
    fn an_attempt_gets_what_the_manifest_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("list")).unwrap();
        let object = ManifestObject::from(FileVersion { length: 3, seconds: 1, nanos: 2 });
        let mut manifest = ManifestWriter::new(path("part")).unwrap();
        manifest.add("in/a", Ok(object)).unwrap();
        manifest.add("in/b", Err("it broke".to_owned())).unwrap();
        manifest.finish(&path("list/manifest")).unwrap();
        let stored = Source {
            manifest: Some(path("list/manifest")),
            ..Source::new("stored", path("data/in"))
        };
        fs::create_dir(path("local")).unwrap();
        fs::write(path("local/a"), "text").unwrap();
        let here = ManifestObject::from(FileVersion::from(&path("local/a").metadata().unwrap()));
        let mut objects = GrantedObjects::new(&[Source::new("local", path("local")), stored]);
        assert!(objects.exist());
        let files = [(0, "missing"), (1, "b"), (1, "a"), (1, "none"), (7, "a"), (0, "a")];
        let failed = objects.find(MiniBatchId(4), &files);
        assert_eq!(failed.iter().map(|(file, _)| *file).collect::<Vec<_>>(), [1, 3]);
        let work = MiniBatchWork::Files(["a", "b"].into());
        let mut assignment = Assignment {
            mini_batch: MiniBatch::new(MiniBatchId(4), 1, work),
            attempt: 1,
            is_last: false,
            objects: Vec::new(),
        };
        objects.add_to(&mut assignment);
        let known = |file, known| GrantedObject { file, known };
        assert_eq!(assignment.objects, [known(2, object), known(5, here)]);
        // A node could not fetch it.
        assignment.mini_batch.set_unfetched(vec![(2, "gone".to_owned())]);
        objects.add_to(&mut assignment);
        assert_eq!(assignment.objects, [known(5, here)]);
        objects.forget(&[MiniBatchId(4)]);
        assignment.mini_batch.set_unfetched(Vec::new());
        objects.add_to(&mut assignment);
        assert_eq!(assignment.objects, []);
    }
}
