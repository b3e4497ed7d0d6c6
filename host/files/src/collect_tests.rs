//! What a guest may leave in its folder, and what reaches the staged folder.

use super::*;
use std::io::Write;
use std::os::unix::fs::symlink;

struct CollectFixture {
    _root: tempfile::TempDir,
    folder: PathBuf,
    staged: PathBuf,
}

fn folders() -> CollectFixture {
    folders_in(tempfile::tempdir().unwrap())
}

fn folders_in(root: tempfile::TempDir) -> CollectFixture {
    let folder = root.path().join("output");
    let staged = root.path().join("staged/0-1");
    fs::create_dir(&folder).unwrap();
    CollectFixture { _root: root, folder, staged }
}

impl CollectFixture {
    fn collect(&self, kept: &InitFiles) -> Result<bool, OutputError> {
        collect_files(&self.folder, kept, &self.staged)
    }

    fn refused(&self) -> String {
        let error = self.collect(&InitFiles::default()).unwrap_err();
        assert!(error.is_guest_fault(), "{error}");
        assert!(!self.staged.exists());
        error.to_string()
    }
}

#[test]
fn open_files_of_a_guest_cannot_change_staged_files() {
    let folders = folders();
    let inner = folders.folder.join("inner");
    fs::create_dir(&inner).unwrap();
    let held_folder = File::open(&inner).unwrap();
    let mut held = File::create(inner.join("held")).unwrap();
    held.write_all(b"first").unwrap();
    assert!(folders.collect(&InitFiles::default()).unwrap());
    held.write_all(b", and more").unwrap();
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let late = rustix::fs::openat(&held_folder, "late", flags, rustix::fs::Mode::RWXU);
    assert!(late.is_err(), "the folder that the guest holds open is removed");
    assert_eq!(fs::read_to_string(folders.staged.join("inner/held")).unwrap(), "first");
    assert_eq!(fs::read_dir(folders.staged.join("inner")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&folders.folder).unwrap().count(), 0);
}

#[test]
fn files_made_by_init_stay() {
    let folders = folders();
    let at = |name: &str| folders.folder.join(name);
    fs::create_dir_all(at("made/inner")).unwrap();
    fs::write(at("labels"), "x").unwrap();
    let kept = InitFiles::scan(&folders.folder).unwrap();
    assert!(!folders.collect(&kept).unwrap());
    fs::write(at("made/inner/a"), "a").unwrap();
    fs::create_dir(at("new")).unwrap();
    assert!(folders.collect(&kept).unwrap());
    assert_eq!(fs::read_to_string(folders.staged.join("made/inner/a")).unwrap(), "a");
    assert!(folders.staged.join("new").is_dir() && !folders.staged.join("labels").exists());
    assert!(at("made/inner").is_dir() && at("labels").is_file() && !at("new").exists());

    fs::write(at("made/b"), "b").unwrap();
    fs::write(at("c"), "c").unwrap();
    assert!(clear_files(&folders.folder, &kept).unwrap());
    assert!(!at("made/b").exists() && !at("c").exists() && at("made/inner").is_dir());

    fs::write(at("labels"), "xy").unwrap();
    insta::assert_snapshot!(folders.collect(&kept).unwrap_err(), @"run changed /output/labels, which init made: a result file belongs to the mini-batch that writes it, so write new files in run");
    assert!(!clear_files(&folders.folder, &kept).unwrap());
    let kept = InitFiles::scan(&folders.folder).unwrap();
    fs::remove_dir(at("made/inner")).unwrap();
    fs::write(at("d"), "").unwrap();
    insta::assert_snapshot!(folders.collect(&kept).unwrap_err(), @"run removed /output/made/inner, which init made for all mini-batches: leave it where it is");
    assert!(!folders.staged.exists(), "files that were copied before are removed");
    assert!(!clear_files(&folders.folder, &kept).unwrap());
}

#[test]
fn unpublishable_files_are_refused_at_once() {
    let case = |make: &dyn Fn(&Path)| {
        let folders = folders();
        fs::write(folders.folder.join("0"), "").unwrap();
        make(&folders.folder);
        folders.refused()
    };
    insta::assert_snapshot!(case(&|dir| symlink("/etc/passwd", dir.join("link")).unwrap()), @r#"the output "link" is a symbolic link: only ordinary files and folders are published, so write the data itself"#);
    insta::assert_snapshot!(case(&|dir| fs::hard_link(dir.join("0"), dir.join("1")).unwrap()), @r#"the output "0" is a hard link, one of several names of a file: only ordinary files and folders are published, so write the data itself"#);
    let deep = case(&|dir| fs::create_dir_all(dir.join("d/".repeat(70))).unwrap());
    assert!(deep.ends_with("is more than 64 folders deep: use fewer nested folders"), "{deep}");
    let name = format!("{}/", "n".repeat(250));
    let long = case(&|dir| fs::create_dir_all(dir.join(name.repeat(5))).unwrap());
    assert!(
        long.ends_with("its name makes a path of more than 1024 bytes: choose another name"),
        "{long}"
    );
}

#[test]
fn the_number_of_files_is_limited() {
    // In memory if possible: on a disk, this takes a minute.
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folders = folders_in(root.unwrap());
    for number in 0..=MAX_ENTRIES {
        File::create(folders.folder.join(number.to_string())).unwrap();
    }
    insta::assert_snapshot!(folders.refused(), @"more than 100000 files and folders are in the output folder: write fewer, larger files, or make mini_batch_size smaller");
    assert!(matches!(InitFiles::scan(&folders.folder), Err(OutputError::TooMany { .. })));
    assert!(clear_files(&folders.folder, &InitFiles::default()).unwrap());
    assert_eq!(fs::read_dir(&folders.folder).unwrap().count(), 0);
}
