//! What a registry stores, and its errors.

use super::*;
use insta::assert_snapshot;
use rusqlite::Connection;
use sandmill_model::{Registered, RegisteredContent, RegisteredKind};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A folder for a registry.
struct RegistryFolder(tempfile::TempDir);

impl RegistryFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("data/registry.db")
    }

    fn open(&self) -> Result<Registry, RegistryError> {
        Registry::open_or_make(&self.file())
    }

    fn register(
        &self,
        name: &str,
        path: &str,
        may_exist: bool,
    ) -> Result<Registered, RegistryError> {
        let new = NewVersion {
            name: name.to_owned(),
            paths: vec![path.to_owned()],
            held: Some(RegisteredContent {
                files: 3,
                bytes: 4,
                newest: Some(jiff::Timestamp::UNIX_EPOCH),
            }),
            ..NewVersion::default()
        };
        self.open()?.register(RegisteredKind::Dataset, new, may_exist)
    }

    fn find(&self, name: &str) -> Result<Registered, RegistryError> {
        let name = name.parse().unwrap();
        self.open()?.find(RegisteredKind::Dataset, &name)
    }

    /// The error for a name that is not found.
    fn missing(&self, name: &str) -> String {
        self.describe(&self.find(name).unwrap_err())
    }

    fn describe(&self, error: &RegistryError) -> String {
        let dir = self.0.path().canonicalize().unwrap();
        let text = error.to_string().replace(dir.to_str().unwrap(), "/d");
        let user = super::place::user();
        let number = rustix::process::geteuid().as_raw().to_string();
        text.replace(&format!("by {user} at"), "by ada at")
            .replace(&format!("user {number}"), "user 7")
    }
}

#[test]
fn registered_versions_are_found_again() {
    let fixture = RegistryFolder::new();
    assert!(Registry::open(&fixture.file()).unwrap().is_none());
    let first = fixture.register("digits", "/data/1", false).unwrap();
    assert_eq!((first.version, first.title().as_str()), (1, "digits@1"));
    assert_eq!(fixture.register("digits", "/data/2", true).unwrap().version, 2);
    // A script may pass the flag the first time, too.
    assert_eq!(fixture.register("iris", "/data/i", true).unwrap().version, 1);
    assert_eq!(fixture.find("digits@1").unwrap(), first);
    assert_eq!(fixture.find("digits").unwrap().paths, ["/data/2"]);
    assert_eq!(fixture.find("digits@2").unwrap(), fixture.find("digits@latest").unwrap());
    let registry = Registry::open(&fixture.file()).unwrap().unwrap();
    let all = registry.all(RegisteredKind::Dataset).unwrap();
    assert_eq!(all.iter().map(Registered::title).collect::<Vec<_>>(), ["digits@2", "iris@1"]);
    assert_eq!(registry.all(RegisteredKind::Model).unwrap(), []);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(fixture.0.path().join("data")), 0o700);
}

#[test]
fn unknown_names_are_refused_with_suggestions() {
    let fixture = RegistryFolder::new();
    assert_snapshot!(fixture.missing("digits"), @r#"there is no registered dataset "digits"; `sandmill dataset list` lists the registered datasets, and `sandmill dataset register digits PATH` registers it"#);
    for name in ["digits", "digit", "Other"] {
        fixture.register(name, "/data/1", false).unwrap();
    }
    assert_snapshot!(fixture.missing("digist@3"), @r#"there is no registered dataset "digist"; did you mean one of digit, digits?"#);
    assert_snapshot!(fixture.missing("OTHER"), @r#"there is no registered dataset "OTHER"; did you mean Other?"#);
    assert_snapshot!(fixture.missing("digits@2"), @"dataset digits has no version 2; the only version is 1");
    fixture.register("digits", "/data/2", true).unwrap();
    assert_snapshot!(fixture.missing("digits@3"), @"dataset digits has no version 3; there are 1 to 2");
    let taken = fixture.describe(&fixture.register("digits", "/data/3", false).unwrap_err());
    let (before, rest) = taken.split_once(" at ").unwrap();
    let (_, after) = rest.split_once("Z: ").unwrap();
    assert_snapshot!(format!("{before} at [WHEN]: {after}"), @"dataset digits@2 is registered already, by ada at [WHEN]: /data/2; add --new-version to register it as version 3, or choose another name");
    assert_eq!(fixture.find("digits").unwrap().version, 2);
}

#[test]
fn the_number_of_a_removed_version_is_not_reused() {
    let fixture = RegistryFolder::new();
    let kind = RegisteredKind::Dataset;
    let remove = |name: &str| {
        let removed = fixture.open().unwrap().remove(kind, &name.parse().unwrap());
        removed.map(|all| all.iter().map(Registered::title).collect::<Vec<_>>().join(" "))
    };
    let titles = || {
        let all = fixture.open().unwrap().all_versions(kind).unwrap();
        all.iter().map(Registered::title).collect::<Vec<_>>().join(" ")
    };
    assert_snapshot!(fixture.describe(&remove("digits").unwrap_err()), @r#"there is no registered dataset "digits"; `sandmill dataset list` lists the registered datasets, and `sandmill dataset register digits PATH` registers it"#);
    for name in ["digits", "digits", "digits", "digits", "iris"] {
        fixture.register(name, "/data/1", true).unwrap();
    }
    assert_eq!(remove("digits@2").unwrap(), "digits@2");
    assert_eq!(titles(), "digits@1 digits@3 digits@4 iris@1");
    assert_snapshot!(fixture.describe(&remove("digits@2").unwrap_err()), @"dataset digits has no version 2; there are 1, 3 to 4");
    assert_snapshot!(fixture.missing("digits@5"), @"dataset digits has no version 5; there are 1, 3 to 4");
    assert_eq!(remove("digits@4").unwrap(), "digits@4");
    assert_eq!(fixture.find("digits").unwrap().version, 3);
    let all = fixture.open().unwrap().all(kind).unwrap();
    assert_eq!(all.iter().map(Registered::title).collect::<Vec<_>>(), ["digits@3", "iris@1"]);
    assert_eq!(fixture.register("digits", "/data/5", true).unwrap().version, 5);
    assert_eq!(remove("digits").unwrap(), "digits@1 digits@3 digits@5");
    assert!(fixture.missing("digits").starts_with("there is no"));
    assert_eq!(fixture.register("digits", "/data/6", false).unwrap().version, 6);
    assert_eq!(titles(), "digits@6 iris@1");
}

#[test]
fn other_files_are_refused() {
    let fixture = RegistryFolder::new();
    fs::create_dir(fixture.0.path().join("data")).unwrap();
    fs::write(fixture.file(), "x".repeat(5000)).unwrap();
    assert_snapshot!(fixture.describe(&fixture.open().unwrap_err()), @"the registry /d/data/registry.db is damaged (file is not a database): replace it with an intact copy, or move it away and register your datasets and models again");
    fs::write(fixture.file(), "").unwrap();
    assert!(fixture.missing("digits").starts_with("there is no"));
    let connection = Connection::open(fixture.file()).unwrap();
    connection.execute_batch("CREATE TABLE t (a); PRAGMA user_version = 1").unwrap();
    assert_snapshot!(fixture.describe(&fixture.open().unwrap_err()), @"/d/data/registry.db is a database, but not a registry of sandmill; name another file in SANDMILL_REGISTRY");
    fs::remove_file(fixture.file()).unwrap();
    fixture.register("digits", "/data/1", false).unwrap();
    let connection = Connection::open(fixture.file()).unwrap();
    connection.pragma_update(None, "user_version", 9).unwrap();
    assert_snapshot!(fixture.describe(&fixture.open().unwrap_err()), @"the registry /d/data/registry.db has format 9, and this version of sandmill knows 1: use a newer version, or name another file in SANDMILL_REGISTRY");
    connection.pragma_update(None, "user_version", 1).unwrap();
    connection.execute("UPDATE registered SET paths = 'no list'", []).unwrap();
    assert_snapshot!(fixture.missing("digits"), @"the registry /d/data/registry.db is damaged (Conversion error from type Text at index: 2, expected ident at line 1 column 2): replace it with an intact copy, or move it away and register your datasets and models again");
}

#[test]
fn files_writable_by_others_are_refused() {
    let fixture = RegistryFolder::new();
    fixture.register("digits", "/data/1", false).unwrap();
    let open_up = |path: PathBuf, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    open_up(fixture.file(), 0o666);
    assert_snapshot!(fixture.missing("digits"), @"the registry cannot be trusted: /d/data/registry.db can be written by other users (mode 666), so other users could decide what jobs read. Make it private with `chmod go-w`, or name another file in SANDMILL_REGISTRY");
    open_up(fixture.file(), 0o644);
    open_up(fixture.0.path().join("data"), 0o777);
    assert_snapshot!(fixture.missing("digits"), @"the registry cannot be trusted: /d/data can be written by other users (mode 777), so other users could decide what jobs read. Make it private with `chmod go-w`, or name another file in SANDMILL_REGISTRY");
    open_up(fixture.0.path().join("data"), 0o755);
    assert!(fixture.find("digits").is_ok());
}

/// Twenty threads register at the same time: no version is lost or duplicated.
#[test]
fn each_version_is_assigned_once() {
    let fixture = RegistryFolder::new();
    let mut versions: Vec<u64> = std::thread::scope(|scope| {
        let one = || fixture.register("digits", "/data/1", true).unwrap().version;
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    versions.sort_unstable();
    assert_eq!(versions, (1..=20).collect::<Vec<u64>>());
}
