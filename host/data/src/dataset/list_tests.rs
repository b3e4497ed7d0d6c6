//! Tests which files belong to a source.

use super::*;
use crate::dataset::{FileVersion, ManifestWriter};
use insta::assert_snapshot;
use std::os::unix::fs::symlink;

struct ListFixture(tempfile::TempDir);

impl ListFixture {
    fn new(files: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for file in files {
            let path = tree.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        tree
    }

    fn root(&self) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join("in")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("in").join(path)
    }

    /// The files and the notices of a source.
    fn try_list(&self, pattern: Option<&str>) -> Result<(Vec<String>, Vec<String>), DatasetError> {
        self.list_by(SourceListing::new, pattern)
    }

    fn source(&self, pattern: Option<&str>) -> Source {
        Source { pattern: pattern.map(str::to_owned), ..Source::new("data", self.root()) }
    }

    fn list_by(
        &self,
        new: fn(&Source) -> Result<SourceListing, DatasetError>,
        pattern: Option<&str>,
    ) -> Result<(Vec<String>, Vec<String>), DatasetError> {
        let source = self.source(pattern);
        let clean = |text: String| {
            let base = self.root();
            text.replace(base.parent().unwrap().to_str().unwrap(), "/d")
        };
        let error = |error: DatasetError| DatasetError(clean(error.to_string()));
        let mut listing = new(&source).map_err(error)?;
        let mut files = Vec::new();
        while let Some(file) = listing.next_file().map_err(error)? {
            files.push(file);
        }
        Ok((files, listing.take_notices().into_iter().map(clean).collect()))
    }

    fn list(&self, pattern: Option<&str>) -> Vec<String> {
        let (files, notices) = self.try_list(pattern).unwrap();
        assert!(notices.is_empty(), "{notices:?}");
        files
    }

    fn error(&self, pattern: Option<&str>) -> String {
        self.try_list(pattern).unwrap_err().to_string()
    }

    /// The bad entries of the source, one per line, and the files of the source.
    fn bad_entries(&self, pattern: Option<&str>) -> (String, Vec<String>) {
        let mut listing = SourceListing::new(&self.source(pattern)).unwrap();
        let files: Vec<_> = std::iter::from_fn(|| listing.next_file().unwrap()).collect();
        let base = self.root();
        let base = base.parent().unwrap().to_str().unwrap();
        let bad = listing.take_bad();
        let notices = listing.take_notices();
        for entry in &bad {
            assert!(notices.iter().any(|notice| notice.ends_with(&entry.reason)), "{notices:?}");
        }
        let lines: Vec<_> =
            bad.iter().map(|entry| format!("{}: {}", entry.file, entry.reason)).collect();
        (lines.join("\n").replace(base, "/d"), files)
    }
}

#[test]
fn files_come_sorted_by_their_whole_path() {
    let tree = ListFixture::new(&["b.csv", "a/z", "a.csv", "a-b/c", "a/b/c", "A", ".hidden", "é"]);
    let files = tree.list(None);
    assert_eq!(files, [".hidden", "A", "a-b/c", "a.csv", "a/b/c", "a/z", "b.csv", "é"]);
    let mut sorted = files.clone();
    sorted.sort();
    assert_eq!(files, sorted);
}

#[test]
fn files_of_other_programs_beside_rows_are_skipped() {
    let names = ["_SUCCESS", "_k=1/a.csv", "_old/b.csv", "k=1/.a.csv.crc", "k=1/a.csv"];
    let tree = ListFixture::new(&names);
    let (files, notices) = tree.list_by(SourceListing::of_rows, None).unwrap();
    assert_eq!(files, ["_k=1/a.csv", "k=1/a.csv"]);
    assert_snapshot!(notices.join("\n"), @"input 'data': files and folders whose names begin with _ or . hold no rows and are left out, such as _SUCCESS; to read such a file, name it or use a glob");
    let (files, notices) = tree.list_by(SourceListing::of_rows, Some("_*")).unwrap();
    assert_eq!((files, notices.len()), (vec!["_SUCCESS".to_owned()], 0));
}

#[test]
fn a_peeked_file_is_still_the_next() {
    let tree = ListFixture::new(&["a.csv", "b.csv"]);
    let source = tree.source(None);
    let peeked = "a.csv";
    let mut listing = SourceListing::new(&source).unwrap();
    for _ in 0..2 {
        assert_eq!(listing.peek_file().unwrap(), Some(peeked));
    }
    let files = std::iter::from_fn(|| listing.next_file().unwrap());
    assert_eq!(files.collect::<Vec<_>>(), ["a.csv", "b.csv"]);
    assert_eq!(listing.peek_file().unwrap(), None);
}

/// If the listing finds a file in advance, it returns the notices that belong to the file only
/// together with the file. So a plan does not depend on how far the listing looks ahead.
#[test]
fn looking_ahead_changes_nothing() {
    let tree = ListFixture::new(&["a", "c", "e"]);
    symlink("nowhere", tree.path("b")).unwrap();
    symlink("nowhere", tree.path("d")).unwrap();
    let mut listing = SourceListing::new(&tree.source(None)).unwrap();
    listing.look_ahead(9);
    assert_eq!(listing.ahead().collect::<Vec<_>>(), ["a", "c", "e"]);
    assert_eq!(listing.next_file().unwrap().as_deref(), Some("a"));
    assert!(listing.take_bad().is_empty());
    assert_eq!(listing.next_file().unwrap().as_deref(), Some("c"));
    assert_eq!(listing.take_bad().len(), 1);
    assert_eq!(listing.next_file().unwrap().as_deref(), Some("e"));
    assert!(listing.take_bad()[0].reason.contains("is a broken link"));
    assert_eq!(listing.peek_file().unwrap(), None);
}

/// With a manifest, the files in the folder do not matter. An object that cannot be fetched is bad.
#[test]
fn objects_are_listed_only_by_their_manifest() {
    let tree = ListFixture::new(&["data/c", "data/other"]);
    fs::create_dir(tree.path("list")).unwrap();
    let mut manifest = ManifestWriter::new(tree.path("part")).unwrap();
    let object = FileVersion::sample();
    for name in ["a", "c", "sub/e"] {
        manifest.add(name, Ok(object.into())).unwrap();
    }
    manifest.add("b", Err("it broke".to_owned())).unwrap();
    manifest.finish(&tree.path("list/manifest")).unwrap();
    for (pattern, files) in
        [(None, vec!["a", "c", "sub/e"]), (Some("{a,b,c}"), vec!["a", "c"]), (Some("b"), vec![])]
    {
        let mut source = tree.source(pattern);
        source.manifest = Some(source.root.join("list/manifest"));
        source.root.push("data");
        let mut listing = SourceListing::new(&source).unwrap();
        let mut listed = Vec::new();
        while let Some(file) = listing.next_file().unwrap() {
            let bad = listing.take_bad();
            assert_eq!(bad.len(), usize::from(file == "c"), "{pattern:?}");
            listed.push(file);
        }
        assert_eq!(listed, files);
        assert_eq!(listing.take_bad().len(), usize::from(files.is_empty()));
        assert!(listing.take_notices().is_empty());
    }
    let mut source = tree.source(Some("other"));
    source.manifest = Some(source.root.join("list/manifest"));
    source.root.push("data");
    let error = SourceListing::new(&source).unwrap_err();
    assert_snapshot!(error, @"input 'data': the store has no other; check the address");
}

#[test]
fn globs_choose_files() {
    let tree = ListFixture::new(&["a.csv", "b.txt", "1/a.csv", "1/2/a.csv", "2/a.csv", "x[1].csv"]);
    assert_eq!(tree.list(Some("*.csv")), ["a.csv", "x[1].csv"]);
    assert_eq!(tree.list(Some("**/a.csv")), ["1/2/a.csv", "1/a.csv", "2/a.csv", "a.csv"]);
    assert_eq!(tree.list(Some("?/*.csv")), ["1/a.csv", "2/a.csv"]);
    assert_eq!(tree.list(Some("x[[]1[]].csv")), ["x[1].csv"]);
    assert_eq!(tree.list(Some("1/**")), ["1/2/a.csv", "1/a.csv"]);
    assert_eq!(tree.list(Some("{x[[]1[]].csv,a.csv}")), ["a.csv", "x[1].csv"]);
}

/// Row W10 of docs/parallel-run-step.md: if no file is found there is no item, and a notice reports that.
#[test]
fn a_source_without_files_is_reported() {
    let tree = ListFixture::new(&["a/b/c.txt"]);
    fs::create_dir(tree.path("empty")).unwrap();
    let describe = |pattern| {
        let (files, notices) = tree.try_list(pattern).unwrap();
        assert!(files.is_empty());
        notices.join("\n")
    };
    assert_snapshot!(describe(Some("*.csv")), @"input 'data': the glob /d/in/*.csv matches no file; check the path");
    assert_snapshot!(tree.error(Some("gone.csv")), @"input 'data': /d/in/gone.csv: No such file or directory (os error 2); check the path");
    assert_snapshot!(tree.error(Some("{a/b/c.txt,gone.csv}")), @"input 'data': /d/in/gone.csv: No such file or directory (os error 2); check the path");
    assert_snapshot!(describe(Some("{a,empty}")), @"input 'data': the list of 2 names in /d/in matches no file; check the path");
    fs::remove_dir_all(tree.path("a")).unwrap();
    assert_snapshot!(describe(None), @"input 'data': the folder /d/in holds no file");
}

#[test]
fn links_inside_are_followed_to_files() {
    let tree = ListFixture::new(&["a/x.csv"]);
    symlink("a/x.csv", tree.path("link.csv")).unwrap();
    symlink("a", tree.path("dir.csv")).unwrap();
    let (files, notices) = tree.try_list(None).unwrap();
    assert_eq!(files, ["a/x.csv", "link.csv"]);
    assert_eq!(notices.len(), 1);
    assert_snapshot!(notices[0], @"input 'data': /d/in/dir.csv is a link to a folder and is skipped; name that folder as a path of the input to include it");
    assert_eq!(tree.list(Some("l*")), ["link.csv"]);
    let (files, notices) = tree.try_list(Some("*/*.csv")).unwrap();
    assert_eq!((files.len(), notices.len()), (1, 1));
}

/// Only the bad links fail. The rest of the input is read.
#[test]
fn links_that_cannot_be_followed_fail_alone() {
    let tree = ListFixture::new(&["a.txt", "../out.csv", "../away/x.csv"]);
    symlink("../out.csv", tree.path("l1.csv")).unwrap();
    assert_eq!(tree.list(Some("*.txt")), ["a.txt"]);
    symlink("nowhere", tree.path("l2.csv")).unwrap();
    symlink(tree.root().join("a.txt"), tree.path("l3.csv")).unwrap();
    symlink("l4.csv", tree.path("l4.csv")).unwrap();
    symlink("../away", tree.path("l5.csv")).unwrap();
    let (bad, files) = tree.bad_entries(None);
    assert_eq!(files, ["a.txt"]);
    assert_snapshot!(bad, @"
    l1.csv: the link /d/in/l1.csv leads out of the folder, to /d/out.csv; copy that file into the folder, or name its folder as a path of the input
    l2.csv: /d/in/l2.csv is a broken link; remove or repair it
    l3.csv: /d/in/l3.csv links to /d/in/a.txt by an absolute path, which the entry script cannot follow; make it a relative link
    l4.csv: cannot follow /d/in/l4.csv: Too many levels of symbolic links (os error 40)
    l5.csv: /d/in/l5.csv is a link to a folder outside of the input (/d/away); name that folder as a path of the input to include it
    ");
    assert_eq!(tree.bad_entries(Some("l[23].csv")).0.lines().count(), 2);
}

#[test]
fn a_special_file_fails_alone() {
    let tree = ListFixture::new(&["a.txt"]);
    let _socket = std::os::unix::net::UnixListener::bind(tree.path("s")).unwrap();
    assert_eq!(tree.list(Some("*.txt")), ["a.txt"]);
    let (bad, files) = tree.bad_entries(None);
    assert_eq!(files, ["a.txt"]);
    assert_snapshot!(bad, @"s: /d/in/s is a device, fifo or socket, and an input has only files; move it away, or name the files with a glob that leaves it out");
}

#[test]
fn names_that_are_not_utf8_fail_alone() {
    let tree = ListFixture::new(&["a.txt"]);
    let name = std::ffi::OsStr::from_bytes(b"b\xFF.csv");
    fs::write(tree.path("").join(name), "x").unwrap();
    assert_eq!(tree.list(Some("*.txt")), ["a.txt"]);
    let (bad, files) = tree.bad_entries(None);
    assert_eq!(files, ["a.txt"]);
    assert_snapshot!(bad, @r#"b�.csv: the name "/d/in/b\xFF.csv" is not UTF-8; rename the file"#);
}

#[test]
fn folders_that_cannot_be_listed_fail_alone() {
    use std::os::unix::fs::PermissionsExt;
    let tree = ListFixture::new(&["a.txt", "b/c.txt", "d/e.txt"]);
    fs::set_permissions(tree.path("b"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(tree.path("b")).is_ok() {
        return eprintln!("skipped: this user may list every folder");
    }
    let (bad, files) = tree.bad_entries(None);
    assert_eq!(files, ["a.txt", "d/e.txt"]);
    assert_snapshot!(bad, @"b/: /d/in/b cannot be listed: Permission denied (os error 13)");
}

/// Files in a table's folder and below it are refused, even if a glob selects them. The files of the log are
/// not refused. A table from which no file is read is not refused.
#[test]
fn files_of_tables_with_a_log_are_refused() {
    let tree = ListFixture::new(&[
        "a/b.parquet",
        "ice/data/c=1/x.parquet",
        "ice/metadata/v1.metadata.json",
        "t/_delta_log/0.checkpoint.parquet",
        "t/day=1/x.parquet",
    ]);
    let refusing =
        |source: &Source| SourceListing::of_rows(source).map(SourceListing::refusing_tables);
    let refused = |pattern: Option<&str>| {
        let error = tree.list_by(refusing, pattern).err()?.to_string();
        error.find(" is a").map(|end| error[..end].to_owned())
    };
    let describe = |folder: &str| Some(format!("input 'data': /d/in{folder}"));
    assert_eq!(refused(None), describe("/ice"));
    assert_eq!(refused(Some("t/**/*.parquet")), describe("/t"));
    assert_eq!(refused(Some("t/*/x.parquet")), describe("/t"));
    assert_eq!(refused(Some("*/data/*/*.parquet")), describe("/ice"));
    for pattern in ["a/*.parquet", "*/b.parquet", "t/_delta_log/*.parquet", "ice/metadata/*"] {
        assert_eq!(refused(Some(pattern)), None, "{pattern}");
    }
}
