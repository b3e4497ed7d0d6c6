//! What the guest sees as its output folder and its folder for temporary files, and what becomes of what it writes there.
//!
//! The guest holds the folder open, so the folder stays and what a mini-batch wrote leaves it. What
//! `init` made stays too. Should a mini-batch have changed or removed that, the folder is spoiled: the
//! mini-batches that follow need a new `init`, which makes it again.

use crate::model::Failure;
use crate::output::{Kept, clear_files, clear_others, collect_files, empty_folder};
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
    open: File,
    kept: Kept,
    spoiled: bool,
}

impl OutputFolder {
    /// Makes the folder, empty.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        empty_folder(&path)?;
        let open = File::open(&path)?;
        Ok(Self { path, open, kept: Kept::default(), spoiled: false })
    }

    /// Empties the folder altogether, before a new `init`.
    pub(super) fn reset(&mut self) -> Result<(), Failure> {
        self.kept = Kept::default();
        self.spoiled = false;
        empty_folder(&self.path).map_err(|e| host_fault("empty", &self.path, &e))
    }

    /// Notes what `init` made.
    pub(super) fn keep_present(&mut self) -> Result<(), Failure> {
        if !self.is_empty()? {
            self.kept = Kept::of(&self.path).map_err(|error| not_stored(&error))?;
        }
        Ok(())
    }

    /// Whether what `init` made is not as it was: a new `init` has to follow.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Whether `init` made anything, which every mini-batch may have changed.
    pub(super) fn keeps_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Copies what a mini-batch wrote to the folder `staged`, which is made only if there is
    /// anything. Returns whether there was. After a failure the folder is to be cleared.
    pub(super) fn take(&mut self, staged: impl FnOnce() -> PathBuf) -> Result<bool, Failure> {
        if self.kept.is_empty() && self.is_empty()? {
            return Ok(false);
        }
        collect_files(&self.path, &self.kept, &staged()).map_err(|error| not_stored(&error))
    }

    /// Removes what a failed attempt wrote.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        if self.kept.is_empty() && self.is_empty()? {
            return Ok(());
        }
        // Whatever happens now, a failure to look leaves it in doubt.
        self.spoiled = true;
        let intact = clear_files(&self.path, &self.kept);
        let what = "remove a failed attempt's files from";
        self.spoiled = !intact.map_err(|e| host_fault(what, &self.path, &e))?;
        Ok(())
    }

    /// One look at the open folder: it is empty after nearly every mini-batch of most jobs. (Its
    /// modification time would not do, being coarser than a mini-batch is long.)
    fn is_empty(&mut self) -> Result<bool, Failure> {
        self.holds_nothing().map_err(|e| host_fault("list", &self.path, &e))
    }

    fn holds_nothing(&mut self) -> io::Result<bool> {
        self.open.rewind()?;
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut entries = RawDir::new(&self.open, &mut buffer);
        while let Some(entry) = entries.next() {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The guest's folder for temporary files, if it has one. What `init` put there stays as long as the instance, what a
/// mini-batch put there goes with it.
#[derive(Debug, Default)]
pub(super) struct Temporary(Option<OutputFolder>);

impl Temporary {
    /// Makes the folder, empty.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        OutputFolder::create(path).map(|folder| Self(Some(folder)))
    }

    /// Empties it, before a new `init`.
    pub(super) fn reset(&mut self) -> Result<(), Failure> {
        self.0.as_mut().map_or(Ok(()), OutputFolder::reset)
    }

    /// Notes what `init` made.
    pub(super) fn keep_present(&mut self) -> Result<(), Failure> {
        self.0.as_mut().map_or(Ok(()), OutputFolder::keep_present)
    }

    /// Removes what a mini-batch made. What it changed of what `init` made is the script's own affair.
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
    fn files_leave_and_the_folder_stays() {
        let (_root, mut folder, output, staged) = fixture();
        folder.keep_present().unwrap();
        assert!(!folder.take(|| staged.clone()).unwrap());
        assert!(!staged.exists());
        let inode = fs::metadata(&output).unwrap().ino();
        fs::create_dir_all(output.join("deep/er")).unwrap();
        fs::write(output.join("deep/er/a"), "a").unwrap();
        assert!(folder.take(|| staged.clone()).unwrap());
        assert_eq!(fs::read_to_string(staged.join("deep/er/a")).unwrap(), "a");
        assert_eq!(fs::read_dir(&output).unwrap().count(), 0);
        assert_eq!(fs::metadata(&output).unwrap().ino(), inode);
        assert!(!folder.take(|| staged.clone()).unwrap());
        fs::write(output.join("b"), "b").unwrap();
        folder.clear().unwrap();
        assert!(!output.join("b").exists() && !folder.is_spoiled());
    }

    #[test]
    fn temporary_files_of_init_stay_though_a_mini_batch_changes_them() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("temporary");
        let mut folder = Temporary::create(path.clone()).unwrap();
        fs::create_dir(path.join("cache")).unwrap();
        fs::write(path.join("cache/seen"), "1").unwrap();
        folder.keep_present().unwrap();
        fs::write(path.join("cache/seen"), "1 2").unwrap();
        fs::write(path.join("cache/more"), "").unwrap();
        fs::create_dir_all(path.join("own/folder")).unwrap();
        folder.clear().unwrap();
        assert_eq!(fs::read_to_string(path.join("cache/seen")).unwrap(), "1 2");
        assert!(!path.join("cache/more").exists() && !path.join("own").exists());
        // A folder where `init` made a file is the mini-batch's own.
        fs::remove_file(path.join("cache/seen")).unwrap();
        fs::create_dir(path.join("cache/seen")).unwrap();
        folder.clear().unwrap();
        assert!(!path.join("cache/seen").exists());
    }

    #[test]
    fn what_init_made_is_made_again_after_a_change() {
        let (_root, mut folder, output, staged) = fixture();
        for harm in [
            &(|| fs::write(output.join("labels"), "xy").unwrap()) as &dyn Fn(),
            &|| fs::remove_file(output.join("labels")).unwrap(),
            &|| fs::remove_dir_all(output.join("made")).unwrap(),
        ] {
            folder.reset().unwrap();
            fs::create_dir(output.join("made")).unwrap();
            fs::write(output.join("labels"), "x").unwrap();
            folder.keep_present().unwrap();
            assert!(!folder.take(|| staged.clone()).unwrap());
            folder.clear().unwrap();
            assert!(!folder.is_spoiled());
            fs::write(output.join("a"), "").unwrap();
            harm();
            let error = folder.take(|| staged.clone()).unwrap_err();
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
