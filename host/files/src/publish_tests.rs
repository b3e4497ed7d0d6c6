//! Which files are published, and which are refused.

use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

struct PublishFixture {
    _root: tempfile::TempDir,
    staged: PathBuf,
    output: PathBuf,
}

fn folders() -> PublishFixture {
    let root = tempfile::tempdir().unwrap();
    let staged = root.path().join("staged");
    let output = root.path().join("output");
    fs::create_dir_all(staged.join("a/b")).unwrap();
    fs::create_dir(&output).unwrap();
    fs::write(staged.join("one.txt"), "1").unwrap();
    fs::write(staged.join("a/b/two.txt"), "2").unwrap();
    PublishFixture { _root: root, staged, output }
}

/// The error, after a check that nothing was published.
fn refused(folders: &PublishFixture) -> OutputError {
    let error = publish_files(&folders.staged, &folders.output, &PublishRule::STRICT).unwrap_err();
    assert!(error.is_guest_fault(), "{error}");
    assert!(!folders.output.join("one.txt").exists());
    assert!(folders.staged.join("one.txt").exists());
    error
}

#[test]
fn files_move_and_folders_merge() {
    let PublishFixture { _root, staged, output } = folders();
    fs::create_dir(output.join("a")).unwrap();
    fs::write(output.join("a/old.txt"), "0").unwrap();
    assert_eq!(check_files(&staged, &output, &PublishRule::STRICT).unwrap().len(), 4);
    assert!(!output.join("one.txt").exists());
    assert_eq!(publish_files(&staged, &output, &PublishRule::STRICT).unwrap(), 2);
    assert_eq!(fs::read_to_string(output.join("one.txt")).unwrap(), "1");
    assert_eq!(fs::read_to_string(output.join("a/b/two.txt")).unwrap(), "2");
    assert_eq!(fs::read_to_string(output.join("a/old.txt")).unwrap(), "0");
    assert!(!staged.exists());
    assert_eq!(
        publish_files(&staged, &output, &PublishRule::STRICT).unwrap(),
        0,
        "a repetition is harmless"
    );
}

#[test]
fn existing_files_stay() {
    let folders = folders();
    fs::create_dir_all(folders.output.join("a/b")).unwrap();
    fs::write(folders.output.join("a/b/two.txt"), "old").unwrap();
    let text = refused(&folders).to_string();
    let text = text.replace(&folders.output.display().to_string(), "OUT");
    insta::assert_snapshot!(text, @r#"the output "a/b/two.txt" exists already in OUT: the file names of different mini-batches must differ (put the mini-batch's id or the item's name into them), or set output_files to append or overwrite"#);
    assert_eq!(fs::read_to_string(folders.output.join("a/b/two.txt")).unwrap(), "old");
}

#[test]
fn links_and_devices_are_refused() {
    let case = |make: &dyn Fn(&Path)| {
        let folders = folders();
        make(&folders.staged);
        refused(&folders).to_string()
    };
    insta::assert_snapshot!(case(&|dir| symlink("/etc/passwd", dir.join("a/link")).unwrap()), @r#"the output "a/link" is a symbolic link: only ordinary files and folders are published, so write the data itself"#);
    insta::assert_snapshot!(case(&|dir| symlink("a", dir.join("folder")).unwrap()), @r#"the output "folder" is a symbolic link: only ordinary files and folders are published, so write the data itself"#);
    insta::assert_snapshot!(case(&|dir| fs::hard_link(dir.join("a/b/two.txt"), dir.join("x")).unwrap()), @r#"the output "a/b/two.txt" is a hard link, one of several names of a file: only ordinary files and folders are published, so write the data itself"#);
    insta::assert_snapshot!(case(&|dir| rustix::fs::mknodat(CWD, dir.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap()), @r#"the output "pipe" is a named pipe: only ordinary files and folders are published, so write the data itself"#);
    insta::assert_snapshot!(case(&|dir| { std::os::unix::net::UnixListener::bind(dir.join("s")).unwrap(); }), @r#"the output "s" is a socket: only ordinary files and folders are published, so write the data itself"#);
    insta::assert_snapshot!(case(&|dir| fs::write(dir.join("a\nb"), "").unwrap()), @r#"the output "a\nb" cannot be published because its name holds a control character: choose another name"#);
    insta::assert_snapshot!(case(&|dir| fs::write(dir.join(OsStr::from_bytes(b"a\xff")), "").unwrap()), @r#"the output "a\xFF" cannot be published because its name is not UTF-8: choose another name"#);
    for name in ["a\u{202e}b", "a\u{200b}", "a\u{61c}", "\u{e0041}"] {
        let reported = case(&|dir| fs::write(dir.join(name), "").unwrap());
        assert!(
            reported.contains(
                "holds an invisible character, or one that changes the direction of a line"
            ),
            "{reported}"
        );
    }
    let case = |name: &str| case(&|dir| fs::write(dir.join(name), "").unwrap());
    insta::assert_snapshot!(case("-rf"), @r#"the output "-rf" cannot be published because its name begins with -, as options of commands do: choose another name"#);
    insta::assert_snapshot!(case("$(touch x)"), @r#"the output "$(touch x)" cannot be published because its name holds what a shell would run: choose another name"#);
    insta::assert_snapshot!(case(".Sandmill-x"), @r#"the output ".Sandmill-x" cannot be published because its name is reserved: choose another name"#);
}

/// On file systems that ignore case, these names would be the file for rows.
#[test]
fn the_rows_file_name_is_reserved_in_every_spelling() {
    for name in ["PARALLEL_RUN_STEP.TXT", "parallel_run_\u{17f}tep.txt", "Parallel_run_step.txt."] {
        let folders = folders();
        fs::write(folders.staged.join(name), "forged").unwrap();
        let reserved = [Some("parallel_run_step.txt"), None];
        let rule =
            PublishRule { on_conflict: OnConflict::Overwrite, reserved, ..PublishRule::STRICT };
        let error = publish_files(&folders.staged, &folders.output, &rule).unwrap_err();
        assert!(matches!(error, OutputError::Taken { .. }), "{error}");
    }
}

#[test]
fn too_deep_folders_are_refused() {
    let folders = folders();
    fs::create_dir_all(folders.staged.join("d/".repeat(70))).unwrap();
    assert!(matches!(refused(&folders), OutputError::TooDeep { .. }));
}

#[test]
fn a_link_in_the_output_folder_is_not_followed() {
    let folders = folders();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), folders.output.join("a")).unwrap();
    assert!(matches!(refused(&folders), OutputError::Exists { .. }));
}

#[test]
fn files_are_copied_between_file_systems() {
    let folders = folders();
    let from = open_folder(CWD, &folders.staged, OFlags::empty()).unwrap();
    let to = open_folder(CWD, &folders.output, OFlags::empty()).unwrap();
    fs::write(folders.output.join(".sandmill-partial"), "left over").unwrap();
    copy_over(from.as_fd(), to.as_fd(), c"one.txt", false).unwrap();
    assert_eq!(fs::read_to_string(folders.output.join("one.txt")).unwrap(), "1");
    assert!(!folders.staged.join("one.txt").exists());
    assert_eq!(fs::read_dir(&folders.output).unwrap().count(), 1);
    fs::write(folders.staged.join("one.txt"), "again").unwrap();
    copy_over(from.as_fd(), to.as_fd(), c"one.txt", false).unwrap_err();
    assert_eq!(fs::read_to_string(folders.output.join("one.txt")).unwrap(), "1");
}

#[test]
fn files_can_be_published_to_another_file_system() {
    let folders = folders();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    if fs::metadata(other.path()).unwrap().dev() == fs::metadata(&folders.staged).unwrap().dev() {
        return;
    }
    assert_eq!(publish_files(&folders.staged, other.path(), &PublishRule::STRICT).unwrap(), 2);
    assert_eq!(fs::read_to_string(other.path().join("a/b/two.txt")).unwrap(), "2");
}

/// The writer of a file may replace it after it was checked. Then the replacement is moved back.
#[test]
fn a_file_swapped_after_its_check_is_moved_back() {
    let folders = folders();
    let open = |path: &Path| open_folder(CWD, path, OFlags::NOFOLLOW).unwrap();
    let from = open(&folders.staged);
    let to = open(&folders.output);
    let mut publisher = Publisher::new(&folders.output, &PublishRule::STRICT, false);
    fs::hard_link(folders.staged.join("one.txt"), folders.staged.join("hard")).unwrap();
    symlink("/etc/passwd", folders.staged.join("link")).unwrap();
    for name in [c"link", c"hard", c"a"] {
        publisher.relative = name.to_str().unwrap().into();
        let error = publisher.transfer_file(&from, to.as_fd(), name, false).unwrap_err();
        assert!(matches!(error, OutputError::NotPublishable { .. }), "{error}");
        assert_eq!(fs::read_dir(&folders.output).unwrap().count(), 0);
        assert!(folders.staged.join(name.to_str().unwrap()).symlink_metadata().is_ok());
    }
}
