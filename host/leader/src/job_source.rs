//! What other machines need of a job before they can run it: the texts from which it was read, and the files of its entry
//! script. They are objects of the job's store, named by digests. So no other machine needs the job file.

mod content;
mod files;

use crate::model::{ContentRef, JobText, is_inside, only_name};
use crate::protocol::node::{ComponentFile, ScriptFiles, SourceFiles};
use crate::spec::FetchedScript;
use content::{put, read};
use files::{extract, pack};
use sandmill_commit_log::{LogError, LogStore};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The version of these objects.
const VERSION: u32 = 1;
/// The most bytes of the texts of a job.
const MAX_TEXT_BYTES: u64 = 64 << 20;
/// The most bytes of a component.
const MAX_COMPONENT_BYTES: u64 = 1 << 30;
/// The most bytes of source files, with their names.
const MAX_SOURCE_BYTES: u64 = 1 << 30;

/// Why what other machines need of a job cannot be written or read. The texts are shown to users.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The store cannot be written.
    #[error("the job file and the entry script cannot be put into the job's store: {0}")]
    Store(#[from] LogError),
    /// The store cannot be read.
    #[error("the job file and the entry script cannot be read in the job's store: {0}")]
    Unreadable(#[source] io::Error),
    /// An object is missing, or is not what its name says.
    #[error(
        "the object {name} in the job's store {what}: remove the job's folder `sources` there, and start the job again"
    )]
    Wrong {
        /// The name of the object.
        name: String,
        /// What is wrong, as a verb with its object.
        what: &'static str,
    },
    /// The content is larger than it may be.
    #[error("the {what} of the job has {bytes} bytes, and may have at most {most}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The highest length.
        most: u64,
    },
    /// The content does not describe a job.
    #[error("what the job's store says of the job was not written by this version of Sandmill")]
    Malformed,
    /// A file on this machine cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has changed while it was read.
    #[error(
        "the files of the entry script change while they are copied to the job's store: start the job again"
    )]
    Changed,
}

impl SourceError {
    fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), source }
    }
}

/// What other machines need of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSource {
    version: u32,
    /// The texts of the job.
    pub text: JobText,
    component: Option<StoredComponent>,
    source: Option<StoredFiles>,
}

/// A component in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredComponent {
    /// The name under which it runs.
    name: String,
    content: ContentRef,
}

/// Source files in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredFiles {
    /// The script among them that a runtime loads.
    script: Option<PathBuf>,
    /// Whether they are those of the source folder. Otherwise they are those beside the script.
    is_folder: bool,
    content: ContentRef,
}

/// Puts what other machines need of a job into the job's store, unless the store has it. `script`: the files of the entry
/// script on this machine.
///
/// # Errors
/// If a file here cannot be read, or the store cannot be written.
pub fn put_source(
    store: &dyn LogStore,
    text: &JobText,
    script: &ScriptFiles,
) -> Result<ContentRef, SourceError> {
    let component = script.component.as_ref().map(|file| put_component(store, file)).transpose()?;
    let source = script.source.as_ref().map(|files| put_files(store, files)).transpose()?;
    let source = JobSource { version: VERSION, text: text.clone(), component, source };
    let bytes = serde_json::to_vec(&source).map_err(|_| SourceError::Malformed)?;
    put(store, ("job file", MAX_TEXT_BYTES), &mut |take| take(&bytes))
}

fn put_component(
    store: &dyn LogStore,
    file: &ComponentFile,
) -> Result<StoredComponent, SourceError> {
    let what = ("entry script", MAX_COMPONENT_BYTES);
    let content = put(store, what, &mut |take| files::pass_on(&file.path, take).map(drop))?;
    Ok(StoredComponent { name: file.name.clone(), content })
}

fn put_files(store: &dyn LogStore, source: &SourceFiles) -> Result<StoredFiles, SourceError> {
    let SourceFiles { folder, files, script, is_folder } = source;
    let what = ("source folder", MAX_SOURCE_BYTES);
    let content = put(store, what, &mut |take| pack(folder, files, take))?;
    Ok(StoredFiles { script: script.clone(), is_folder: *is_folder, content })
}

impl JobSource {
    /// Reads what other machines need of a job from the job's store.
    ///
    /// # Errors
    /// If the store cannot be read, or does not have this content.
    pub fn read(store: &dyn LogStore, content: &ContentRef) -> Result<Self, SourceError> {
        let mut bytes = Vec::new();
        read(store, ("job file", MAX_TEXT_BYTES), content, &mut |some| {
            bytes.extend_from_slice(some);
            Ok(())
        })?;
        let source: Self = serde_json::from_slice(&bytes).map_err(|_| SourceError::Malformed)?;
        if source.version == VERSION { Ok(source) } else { Err(SourceError::Malformed) }
    }

    /// The SHA-256 of the component, in hexadecimal. `None` if a runtime loads the script.
    pub fn component(&self) -> Option<String> {
        self.component.as_ref().map(|component| component.content.hex())
    }

    /// Fetches the files of the entry script into an empty folder of this machine.
    ///
    /// # Errors
    /// If the store cannot be read, does not have these files, or if the disk fails.
    pub fn fetch_script(
        &self,
        store: &dyn LogStore,
        folder: &Path,
    ) -> Result<FetchedScript, SourceError> {
        if !self.is_plausible() {
            return Err(SourceError::Malformed);
        }
        let mut fetched = FetchedScript::default();
        if let Some(StoredFiles { script, is_folder, content }) = &self.source {
            let packed = folder.join("packed");
            fetch(store, ("source folder", MAX_SOURCE_BYTES), content, &packed)?;
            let source = new_folder(folder, "source")?;
            extract(&packed, &source)?;
            std::fs::remove_file(&packed).map_err(|e| SourceError::file("remove", &packed, e))?;
            fetched.entry_script = script.as_ref().map(|script| source.join(script));
            let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_file());
            if fetched.entry_script.as_ref().is_some_and(|script| !is_file(script)) {
                return Err(SourceError::Malformed);
            }
            fetched.source_directory = is_folder.then_some(source);
        }
        if let Some(StoredComponent { name, content }) = &self.component {
            only_name(name.as_ref()).ok_or(SourceError::Malformed)?;
            let file = new_folder(folder, "component")?.join(name);
            fetch(store, ("entry script", MAX_COMPONENT_BYTES), content, &file)?;
            fetched.entry_script = Some(file);
        }
        Ok(fetched)
    }

    /// Whether the description is one that [`put_source`] writes. It may come from any user who can write to the store: it
    /// must not make a machine build a folder, or take files from elsewhere.
    fn is_plausible(&self) -> bool {
        let Some(StoredFiles { script, is_folder, .. }) = &self.source else { return true };
        match script {
            None => *is_folder,
            Some(script) => {
                let is_inner = is_inside(script) && (*is_folder || only_name(script).is_some());
                is_inner && self.component.is_none()
            }
        }
    }
}

fn new_folder(folder: &Path, name: &str) -> Result<PathBuf, SourceError> {
    let path = folder.join(name);
    let made = DirBuilder::new().mode(0o700).create(&path);
    made.map_err(|error| SourceError::file("make", &path, error))?;
    Ok(path)
}

/// Writes a content of the store to a new file.
fn fetch(
    store: &dyn LogStore,
    what: (&'static str, u64),
    content: &ContentRef,
    path: &Path,
) -> Result<(), SourceError> {
    let failed = |error| SourceError::file("write", path, error);
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(failed)?;
    read(store, what, content, &mut |bytes| file.write_all(bytes).map_err(failed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::hex;
    use sandmill_commit_log::{FolderStore, OBJECT_BYTES};
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    struct Place {
        dir: tempfile::TempDir,
        store: FolderStore,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = FolderStore::new(dir.path().canonicalize().unwrap().join("store/job"));
            Self { dir, store }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join(name)
        }

        fn write(&self, name: &str, content: impl AsRef<[u8]>) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        fn script(&self) -> ScriptFiles {
            let component =
                ComponentFile { path: self.path("a/built.wasm"), name: "s.wasm".into() };
            let source = SourceFiles {
                folder: self.path("src"),
                files: vec!["deep/b.py".into(), "s.py".into()],
                script: None,
                is_folder: true,
            };
            ScriptFiles { component: Some(component), source: Some(source) }
        }

        /// Puts a job with a component of two objects, and with two source files.
        fn put(&self) -> ContentRef {
            self.write("a/built.wasm", vec![b'w'; OBJECT_BYTES + 7]);
            self.write("src/deep/b.py", "b");
            self.write("src/s.py", "");
            put_source(&self.store, &text(), &self.script()).unwrap()
        }

        fn fetch(&self, content: &ContentRef, into: &str) -> Result<FetchedScript, SourceError> {
            fs::create_dir(self.path(into)).unwrap();
            let source = JobSource::read(&self.store, content)?;
            assert_eq!(source.text, text());
            source.fetch_script(&self.store, &self.path(into))
        }

        /// The objects in the store, with their content's length.
        fn objects(&self) -> Vec<(PathBuf, u64)> {
            let folders = fs::read_dir(self.path("store/job/sources")).unwrap().flatten();
            let files = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten());
            files.map(|file| (file.path(), file.metadata().unwrap().len())).collect()
        }
    }

    fn text() -> JobText {
        JobText { text: "name: x".to_owned(), ..JobText::default() }
    }

    #[test]
    fn another_machine_gets_the_same_files() {
        let place = Place::new();
        let content = place.put();
        let fetched = place.fetch(&content, "there").unwrap();
        let script = fetched.entry_script.unwrap();
        assert_eq!(script.file_name().unwrap(), "s.wasm");
        assert_eq!(fs::read(script).unwrap(), vec![b'w'; OBJECT_BYTES + 7]);
        let source = fetched.source_directory.unwrap();
        for name in ["deep/b.py", "s.py"] {
            let [here, there] = [place.path("src").join(name), source.join(name)]
                .map(|path| fs::metadata(path).unwrap());
            assert_eq!((here.mtime(), here.mtime_nsec()), (there.mtime(), there.mtime_nsec()));
        }
        assert_eq!(fs::read_to_string(source.join("deep/b.py")).unwrap(), "b");
        // Nothing is written twice.
        let objects = place.objects();
        assert_eq!(objects.len(), 4);
        assert_eq!(put_source(&place.store, &text(), &place.script()).unwrap(), content);
        assert_eq!(place.objects(), objects);
    }

    #[test]
    fn missing_changed_and_huge_objects_are_refused() {
        for what in ["is missing", "is not what its name says", "is longer than"] {
            for number in 0..4 {
                let place = Place::new();
                let content = place.put();
                let (object, length) = &place.objects()[number];
                match what {
                    "is missing" => fs::remove_file(object).unwrap(),
                    "is longer than" => {
                        File::options().write(true).open(object).unwrap().set_len(8 << 40).unwrap();
                    }
                    _ => fs::write(object, vec![b'x'; usize::try_from(*length).unwrap()]).unwrap(),
                }
                let error = place.fetch(&content, "there").unwrap_err().to_string();
                assert!(error.contains(what), "{error}");
            }
        }
    }

    #[test]
    fn a_hostile_description_is_refused() {
        let place = Place::new();
        let content = place.put();
        let source = JobSource::read(&place.store, &content).unwrap();
        fs::create_dir(place.path("there")).unwrap();
        for name in ["", "..", "../x", "/x", "a/b"] {
            let mut hostile = source.clone();
            hostile.component.as_mut().unwrap().name = name.to_owned();
            hostile.source = None;
            let error = hostile.fetch_script(&place.store, &place.path("there")).unwrap_err();
            assert!(matches!(error, SourceError::Malformed), "{name}: {error}");
        }
        let with = |component: bool, script: Option<&str>, is_folder: bool| {
            let mut hostile = source.clone();
            hostile.component = hostile.component.filter(|_| component);
            let files = hostile.source.as_mut().unwrap();
            files.script = script.map(PathBuf::from);
            files.is_folder = is_folder;
            hostile
        };
        let hostile = [
            // A folder, which would be built, and files of the machine.
            with(false, Some(""), true),
            with(false, Some("."), true),
            with(false, Some("deep"), true),
            with(false, Some("/etc/passwd"), true),
            with(false, Some("../component"), true),
            with(false, Some("missing.py"), true),
            // Not the script's own folder.
            with(false, Some("deep/b.py"), false),
            with(true, Some("s.py"), true),
            with(true, None, false),
        ];
        for (number, hostile) in hostile.iter().enumerate() {
            let folder = place.path(&format!("hostile-{number}"));
            fs::create_dir(&folder).unwrap();
            let error = hostile.fetch_script(&place.store, &folder).unwrap_err();
            assert!(matches!(error, SourceError::Malformed), "{hostile:?}: {error}");
        }
        let folder = place.path("good");
        fs::create_dir(&folder).unwrap();
        let good = with(false, Some("deep/b.py"), true).fetch_script(&place.store, &folder);
        assert_eq!(good.unwrap().entry_script, Some(folder.join("source/deep/b.py")));
        let huge = ContentRef { bytes: u64::MAX, ..content };
        let error = JobSource::read(&place.store, &huge).unwrap_err();
        assert!(matches!(error, SourceError::TooLarge { .. }), "{error}");
        let other = ContentRef { sha256: [7; 32], bytes: 3 };
        let error = JobSource::read(&place.store, &other).unwrap_err().to_string();
        assert!(
            error.contains(&format!("sources/{}/0 in the job's store is missing", hex([7; 32]))),
            "{error}"
        );
        for text in
            ["", "{}", "[1]", "{\"version\":2,\"text\":{\"text\":\"\",\"files\":{},\"names\":[]}}"]
        {
            let content = put(&place.store, ("x", 99), &mut |take| take(text.as_bytes())).unwrap();
            let error = JobSource::read(&place.store, &content).unwrap_err();
            assert!(matches!(error, SourceError::Malformed), "{text}: {error}");
        }
    }
}
