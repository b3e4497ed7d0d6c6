//! What the leader knows about the files that its mini-batches read: objects of stores, and files in folders that the machines
//! share. A node gets this with each attempt. It fetches the objects, and compares the files with those that it has.

use crate::dataset::{FileVersion, Manifest, ManifestObject, OpenRoot};
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

    /// Whether a source is in a store.
    pub(crate) fn exist(&self) -> bool {
        self.sources.iter().any(|known| known.source.manifest.is_some())
    }

    /// Looks up the objects among the files of a mini-batch, each with the index of its source. Returns the positions of
    /// those that cannot be fetched, with the reasons.
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
    pub(super) fn add_to(&mut self, assignment: &mut Assignment) {
        let batch = &assignment.mini_batch;
        if batch.is_unfetched() {
            assignment.objects = Vec::new();
            return;
        }
        let known = self.known.get(&batch.id).map(Vec::as_slice).unwrap_or_default();
        let mut objects = known.to_vec();
        for (file, (source, name)) in (0..).zip(batch.reads()) {
            let Some(source) = self.sources.get_mut(source as usize) else { continue };
            objects.extend(source.version_of(name).map(|known| GrantedObject { file, known }));
        }
        objects.retain(|object| batch.why_unfetched(object.file).is_none());
        assignment.objects = objects;
    }

    /// Forgets the files of mini-batches that have ended.
    pub(super) fn forget(&mut self, ids: &[MiniBatchId]) {
        for id in ids {
            self.known.remove(id);
        }
    }
}

impl KnownSource {
    /// The version of a file in a shared folder now. `None` if the source is in a store.
    fn version_of(&mut self, name: &str) -> Option<ManifestObject> {
        if self.source.manifest.is_some() {
            return None;
        }
        let root = &self.source.root;
        let found = self.folder.get_or_insert_with(|| OpenRoot::open(root)).version_of(name);
        // The folder may have been mounted again.
        let found = found.or_else(|| {
            let again = OpenRoot::open(root);
            let found = again.version_of(name);
            self.folder = Some(again);
            found
        });
        Some(found.unwrap_or(FileVersion::MISSING).into())
    }

    /// What is known about an object, or why it cannot be fetched. `None` if the source is not in a store.
    fn find(&mut self, name: &str) -> Option<Result<ManifestObject, String>> {
        self.source.manifest.as_ref()?;
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
        let files = [(0, "a"), (1, "b"), (1, "a"), (1, "none"), (0, "missing"), (7, "a")];
        let failed = objects.find(MiniBatchId(4), &files);
        assert_eq!(failed.iter().map(|(file, _)| *file).collect::<Vec<_>>(), [1, 3]);
        let group = [(0, "a"), (1, "b"), (1, "a"), (1, "none"), (0, "missing")];
        let group = group.into_iter().map(|(source, file)| (source, [file].into()));
        let work = MiniBatchWork::FileGroup(group.collect());
        let mut assignment = Assignment {
            mini_batch: MiniBatch::new(MiniBatchId(4), 1, work),
            attempt: 1,
            is_last: false,
            objects: Vec::new(),
        };
        objects.add_to(&mut assignment);
        let known = |file, known| GrantedObject { file, known };
        let missing = ManifestObject::from(FileVersion::MISSING);
        assert_eq!(assignment.objects, [known(2, object), known(0, here), known(4, missing)]);
        // A file in a folder counts as it is when it is granted.
        fs::write(path("local/a"), "longer text").unwrap();
        objects.add_to(&mut assignment);
        assert_eq!(assignment.objects[1].known.found.length, 11);
        let here = assignment.objects[1].known;
        // A node could not fetch it.
        assignment.mini_batch.set_unfetched(vec![(2, "gone".to_owned())]);
        objects.add_to(&mut assignment);
        assert_eq!(assignment.objects, [known(0, here), known(4, missing)]);
        objects.forget(&[MiniBatchId(4)]);
        assignment.mini_batch.set_unfetched(Vec::new());
        objects.add_to(&mut assignment);
        assert_eq!(assignment.objects, [known(0, here), known(4, missing)]);
    }
}
