//! The guest's output folder and its folder for temporary files: moves or removes the files of
//! mini-batches.
//!
//! The guest keeps the output folder open, so we cannot replace the folder: we move the files of a
//! mini-batch out of it. The files that `init` made stay, too. If a mini-batch has changed or
//! removed a file of `init`, the folder is spoiled: the next mini-batch needs a new `init`, which
//! makes the files again.

use crate::model::Failure;
use crate::output::{InitFiles, clear_files, clear_others, collect_files, empty_folder};
use rustix::fs::RawDir;
use sandmill_data::attempt::{host_fault, not_stored};
use std::fs::{self, File};
use std::io::{self, Seek};
use std::mem::MaybeUninit;
use std::path::PathBuf;

/// A worker's output folder.
#[derive(Debug)]
pub(super) struct OutputFolder {
    path: PathBuf,
    /// The open folder.
    handle: File,
    /// The files that `init` made.
    kept: InitFiles,
    is_spoiled: bool,
}

impl OutputFolder {
    /// Makes an empty folder.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        empty_folder(&path)?;
        let handle = File::open(&path)?;
        Ok(Self { path, handle, kept: InitFiles::default(), is_spoiled: false })
    }

    /// Empties the folder completely, before a new `init`.
    pub(super) fn reset(&mut self) -> Result<(), Failure> {
        self.kept = InitFiles::default();
        self.is_spoiled = false;
        empty_folder(&self.path).map_err(|e| host_fault("empty", &self.path, &e))
    }

    /// Records the files that `init` made.
    pub(super) fn keep_present(&mut self) -> Result<(), Failure> {
        if !self.is_empty()? {
            self.kept = InitFiles::scan(&self.path).map_err(|error| not_stored(&error))?;
        }
        Ok(())
    }

    /// Whether files of `init` have changed, so that a new `init` must follow.
    pub(super) fn is_spoiled(&self) -> bool {
        self.is_spoiled
    }

    /// Whether `init` made files, which every mini-batch may have changed.
    pub(super) fn keeps_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Moves a mini-batch's files to the folder `staged`, which is made only if there are files.
    /// Returns whether there were files. After a failure, the caller must [clear](Self::clear) the
    /// output folder.
    pub(super) fn stage_files(
        &mut self,
        staged: impl FnOnce() -> PathBuf,
    ) -> Result<bool, Failure> {
        if self.kept.is_empty() && self.is_empty()? {
            return Ok(false);
        }
        collect_files(&self.path, &self.kept, &staged()).map_err(|error| not_stored(&error))
    }

    /// Removes the files of a failed attempt.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        if self.kept.is_empty() && self.is_empty()? {
            return Ok(());
        }
        // If the following fails, we do not know the state of the folder.
        self.is_spoiled = true;
        let is_intact = clear_files(&self.path, &self.kept);
        let action = "remove a failed attempt's files from";
        self.is_spoiled = !is_intact.map_err(|e| host_fault(action, &self.path, &e))?;
        Ok(())
    }

    /// Lists the open folder, which is empty after nearly every mini-batch of most jobs. (Its modification
    /// time cannot show that: it is coarser than the duration of a mini-batch.)
    fn is_empty(&mut self) -> Result<bool, Failure> {
        self.holds_nothing().map_err(|e| host_fault("list", &self.path, &e))
    }

    fn holds_nothing(&mut self) -> io::Result<bool> {
        self.handle.rewind()?;
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut entries = RawDir::new(&self.handle, &mut buffer);
        while let Some(entry) = entries.next() {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The guest's folder for temporary files, if the guest has one. Files of `init` stay as long as the
/// instance. Files of a mini-batch are removed after the mini-batch.
#[derive(Debug, Default)]
pub(super) struct TemporaryFolder(Option<OutputFolder>);

impl TemporaryFolder {
    /// Makes an empty folder.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        OutputFolder::create(path).map(|folder| Self(Some(folder)))
    }

    /// Empties the folder, before a new `init`.
    pub(super) fn reset(&mut self) -> Result<(), Failure> {
        self.0.as_mut().map_or(Ok(()), OutputFolder::reset)
    }

    /// Records the files that `init` made.
    pub(super) fn keep_present(&mut self) -> Result<(), Failure> {
        self.0.as_mut().map_or(Ok(()), OutputFolder::keep_present)
    }

    /// Removes the files of a mini-batch. If the mini-batch changed files of `init`, the entry script has to
    /// cope with that.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let Some(folder) = &mut self.0 else { return Ok(()) };
        if folder.kept.is_empty() && folder.holds_nothing()? {
            return Ok(());
        }
        clear_others(&folder.path, &folder.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FailureKind;
    use std::os::unix::fs::MetadataExt;

    fn fixture() -> (tempfile::TempDir, OutputFolder, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let output = root.path().join("output");
        let staged = root.path().join("staged/0-1");
        fs::create_dir_all(output.join("of an earlier run")).unwrap();
        let folder = OutputFolder::create(output.clone()).unwrap();
        (root, folder, output, staged)
    }

    #[test]
    fn results_are_moved_and_the_folder_stays() {
        let (_root, mut folder, output, staged) = fixture();
        folder.keep_present().unwrap();
        assert!(!folder.stage_files(|| staged.clone()).unwrap());
        assert!(!staged.exists());
        let inode = fs::metadata(&output).unwrap().ino();
        fs::create_dir_all(output.join("deep/er")).unwrap();
        fs::write(output.join("deep/er/a"), "a").unwrap();
        assert!(folder.stage_files(|| staged.clone()).unwrap());
        assert_eq!(fs::read_to_string(staged.join("deep/er/a")).unwrap(), "a");
        assert_eq!(fs::read_dir(&output).unwrap().count(), 0);
        assert_eq!(fs::metadata(&output).unwrap().ino(), inode);
        assert!(!folder.stage_files(|| staged.clone()).unwrap());
        fs::write(output.join("b"), "b").unwrap();
        folder.clear().unwrap();
        assert!(!output.join("b").exists() && !folder.is_spoiled());
    }

    #[test]
    fn temporary_files_of_init_stay_even_if_changed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("temporary");
        let mut folder = TemporaryFolder::create(path.clone()).unwrap();
        fs::create_dir(path.join("cache")).unwrap();
        fs::write(path.join("cache/seen"), "1").unwrap();
        folder.keep_present().unwrap();
        fs::write(path.join("cache/seen"), "1 2").unwrap();
        fs::write(path.join("cache/more"), "").unwrap();
        fs::create_dir_all(path.join("own/folder")).unwrap();
        folder.clear().unwrap();
        assert_eq!(fs::read_to_string(path.join("cache/seen")).unwrap(), "1 2");
        assert!(!path.join("cache/more").exists() && !path.join("own").exists());
        // A mini-batch replaced a file of `init` with a folder, which counts as a file of the mini-batch.
        fs::remove_file(path.join("cache/seen")).unwrap();
        fs::create_dir(path.join("cache/seen")).unwrap();
        folder.clear().unwrap();
        assert!(!path.join("cache/seen").exists());
    }

    #[test]
    fn changed_output_of_init_spoils_the_folder() {
        let (_root, mut folder, output, staged) = fixture();
        for spoil in [
            &(|| fs::write(output.join("labels"), "xy").unwrap()) as &dyn Fn(),
            &|| fs::remove_file(output.join("labels")).unwrap(),
            &|| fs::remove_dir_all(output.join("made")).unwrap(),
        ] {
            folder.reset().unwrap();
            fs::create_dir(output.join("made")).unwrap();
            fs::write(output.join("labels"), "x").unwrap();
            folder.keep_present().unwrap();
            assert!(!folder.stage_files(|| staged.clone()).unwrap());
            folder.clear().unwrap();
            assert!(!folder.is_spoiled());
            fs::write(output.join("a"), "").unwrap();
            spoil();
            let error = folder.stage_files(|| staged.clone()).unwrap_err();
            assert_eq!(error.kind, FailureKind::BadOutput);
            assert!(!staged.exists(), "nothing of the attempt stays");
            folder.clear().unwrap();
            assert!(folder.is_spoiled());
        }
        folder.reset().unwrap();
        assert!(!folder.is_spoiled());
        assert_eq!(fs::read_dir(&output).unwrap().count(), 0);
    }
}
