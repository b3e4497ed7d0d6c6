//! Objects that come when they are told to, by way of a process that says nothing itself.

use super::*;
use crate::dataset::{Found, ManifestWriter, STAND_IN_MODE};
use crate::model::{OsSandbox, StoreKind};
use crate::protocol::PROTOCOL_VERSION;
use crate::protocol::store::{Failed, StoreConfig, Task};
use crate::slot::{OPEN, manifest_path};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::UNIX_EPOCH;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Room for this many bytes.
const ROOM: u64 = 100;

struct Bench {
    dir: tempfile::TempDir,
    events: Sender<Event>,
    arrivals: UnboundedReceiver<Arrival>,
    thread: Option<JoinHandle<()>>,
    /// Of the objects that a manifest tells of.
    listed: HashMap<String, Found>,
}

impl Bench {
    /// A store of objects with so many bytes each.
    fn new(objects: &[(&str, u64)]) -> Self {
        Self::with(objects, &[])
    }

    /// The same, of which some have no stand-ins.
    fn with(objects: &[(&str, u64)], listed: &[(&str, u64)]) -> Self {
        Self::fetching("exec /bin/sleep 60", objects, listed)
    }

    /// The same with a process that does so.
    fn fetching(script: &str, objects: &[(&str, u64)], listed: &[(&str, u64)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in OPEN {
            fs::create_dir(at(folder)).unwrap();
        }
        for (name, bytes) in objects {
            let mut options = fs::File::options();
            let made = options.write(true).create_new(true).mode(STAND_IN_MODE);
            let file = at("data").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            made.open(file).unwrap().set_len(*bytes).unwrap();
        }
        let found = |length| Found { length, seconds: 1_700_000_000, nanos: 7 };
        let listed: HashMap<_, _> =
            listed.iter().map(|(name, bytes)| ((*name).to_owned(), found(*bytes))).collect();
        let mut manifest = ManifestWriter::new(at("part").join("manifest")).unwrap();
        for (name, found) in &listed {
            manifest.add(name, Ok(*found)).unwrap();
        }
        manifest.finish(&manifest_path(dir.path())).unwrap();
        fs::write(at("fetcher"), format!("#!/bin/sh\ncd '{}'\n{script}\n", dir.path().display()))
            .unwrap();
        fs::set_permissions(at("fetcher"), fs::Permissions::from_mode(0o700)).unwrap();
        let store = StoreConfig {
            kind: StoreKind::S3,
            container: "box".to_owned(),
            options: Vec::new(),
            credentials: String::new(),
        };
        let request = FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: OsSandbox::Off,
            store,
            prefix: String::new(),
            task: Task::Serve,
            shown: "s3://box/".to_owned(),
            folder: dir.path().to_owned(),
        };
        let lot = Lot { program: at("fetcher"), requests: vec![request], room: ROOM, evicts: true };
        let ((events, asked), (sender, arrivals)) = (channel(), unbounded_channel());
        let own = events.clone();
        let thread = Some(std::thread::spawn(move || run(lot, &asked, &own, sender)));
        Self { dir, events, arrivals, thread, listed }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    fn want(&self, number: u64, names: &[&str]) {
        let files = names.iter().map(|name| self.file(name)).collect();
        self.events.send(Event::Want(number, files)).unwrap();
    }

    fn release(&self, number: u64) {
        self.events.send(Event::Release(vec![number])).unwrap();
    }

    /// The object comes, or cannot be had.
    fn comes(&self, name: &str, failed: Option<&str>) {
        self.comes_by(1, name, failed);
    }

    /// The same by a later process.
    fn comes_by(&self, number: u64, name: &str, failed: Option<&str>) {
        if failed.is_none() {
            let listed = self.listed.get(name).copied();
            let found = listed.unwrap_or_else(|| (&self.file(name).metadata().unwrap()).into());
            let part = self.dir.path().join("part/fetched");
            fs::write(&part, vec![b'x'; found.length as usize]).unwrap();
            let file = fs::File::options().write(true).open(&part).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::new(found.seconds as u64, found.nanos))
                .unwrap();
            fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
            fs::rename(part, self.file(name)).unwrap();
        }
        let failed =
            failed.map(|text| Failed { kind: StoreErrorKind::Other, text: text.to_owned() });
        let brought = FromFetcher::Brought(name.to_owned(), failed);
        self.events.send(Event::Said(0, number, Some(Ok(brought)))).unwrap();
    }

    /// What is told next, but that something moves.
    fn next(&mut self) -> (u64, Vec<(u32, String)>) {
        loop {
            if let Arrival::Ready(number, failed) = self.arrivals.blocking_recv().unwrap() {
                return (number, failed);
            }
        }
    }

    /// All that is told before the end, and which of the objects are here then.
    fn end(mut self, names: &[&str]) -> (Vec<u64>, Vec<bool>) {
        self.events.send(Event::End).unwrap();
        self.thread.take().unwrap().join().unwrap();
        let mut told = Vec::new();
        while let Ok(arrival) = self.arrivals.try_recv() {
            if let Arrival::Ready(number, _) = arrival {
                told.push(number);
            }
        }
        let is_here = |name: &&str| !is_stand_in(&self.file(name).symlink_metadata().unwrap());
        (told, names.iter().map(is_here).collect())
    }
}

/// The planner moves on to what has no room before the mini-batches of the object before it are done.
#[test]
fn an_object_waits_until_the_one_before_it_is_not_needed() {
    let mut bench = Bench::new(&[("a", 60), ("b", 60)]);
    let (first, second) = (LOOKS, LOOKS + 1);
    bench.want(first, &["a"]);
    bench.comes("a", None);
    assert_eq!(bench.next(), (first, vec![]));
    bench.want(second, &["b"]);
    for number in [0, 1] {
        bench.want(number, &["a"]);
        assert_eq!(bench.next(), (number, vec![]), "it is here, and needs no room");
    }
    bench.release(first);
    bench.release(0);
    bench.release(1);
    bench.comes("b", None);
    assert_eq!(bench.next(), (second, vec![]));
    assert_eq!(bench.end(&["a", "b"]), (vec![], vec![false, true]));
}

/// Else what is fetched in advance would hold back what is here.
#[test]
fn what_is_here_does_not_wait_for_what_was_wanted_before_it() {
    let mut bench = Bench::new(&[("a", 30), ("b", 30), ("c", 30)]);
    bench.want(1, &["a"]);
    bench.want(2, &["b", "c"]);
    bench.want(3, &["c"]);
    bench.comes("c", None);
    assert_eq!(bench.next(), (3, vec![]));
    bench.comes("b", None);
    assert_eq!(bench.next(), (2, vec![]));
    bench.comes("a", None);
    assert_eq!(bench.next(), (1, vec![]));
    assert_eq!(bench.end(&["a"]), (vec![], vec![true]));
}

/// Else `b` would be kept by mini-batches that are not handed out before those of `a`, which have no room then.
#[test]
fn mini_batches_do_not_overtake_each_other() {
    let mut bench = Bench::new(&[("a", 60), ("b", 60)]);
    let look = LOOKS + 1;
    bench.want(look, &["b"]);
    bench.want(1, &["b"]);
    bench.comes("b", None);
    assert_eq!((bench.next().0, bench.next().0), (look, 1));
    bench.release(look);
    bench.want(2, &["a"]);
    bench.want(3, &["b"]);
    bench.release(1);
    bench.comes("a", None);
    assert_eq!(bench.next(), (2, vec![]));
    bench.release(2);
    bench.comes("b", None);
    assert_eq!(bench.next(), (3, vec![]));
    assert_eq!(bench.end(&["a", "b"]), (vec![], vec![false, true]));
}

/// A planner may be taken over by what it looks into.
#[test]
fn what_lies_outside_is_let_alone() {
    let mut bench = Bench::new(&[("a", 60)]);
    let secret = bench.dir.path().join("secret");
    fs::write(&secret, "of somebody").unwrap();
    for name in ["../secret", "sub/../../secret", "."] {
        bench.want(1, &[name]);
        assert_eq!(bench.next(), (1, vec![]));
        bench.release(1);
    }
    // By then all of it is done.
    bench.want(2, &[]);
    assert_eq!(bench.next(), (2, vec![]));
    assert_eq!(fs::read_to_string(secret).unwrap(), "of somebody");
}

/// As where the kernel ended it for want of memory.
#[test]
fn what_a_process_that_died_was_asked_for_is_asked_for_again() {
    let dies_once = "[ -e died ] || { touch died; exit 1; }; exec /bin/sleep 60";
    let mut bench = Bench::fetching(dies_once, &[("a", 20), ("b", 20), ("c", 20)], &[]);
    bench.want(1, &["a", "b"]);
    while !bench.dir.path().join("died").exists() {
        std::thread::yield_now();
    }
    // What is not asked for yet cannot come.
    bench.want(2, &["c"]);
    let mut told = Vec::new();
    while told.len() < 2 {
        for name in ["a", "b", "c"] {
            bench.comes_by(2, name, None);
        }
        while let Ok(arrival) = bench.arrivals.try_recv() {
            if let Arrival::Ready(number, failed) = arrival {
                told.push((number, failed));
            }
        }
    }
    told.sort_unstable();
    assert_eq!(told, [(1, vec![]), (2, vec![])]);
}

/// Who dies of each object fails each, and whoever wants more gets another process.
#[test]
fn a_process_that_always_dies_is_given_up() {
    let mut bench = Bench::fetching("echo died >> deaths; exit 1", &[("a", 20), ("b", 20)], &[]);
    for number in [1, 2] {
        bench.want(number, &["a", "b"]);
        let (told, failed) = bench.next();
        assert_eq!((told, failed.len()), (number, 2));
        assert!(failed[0].1.contains("the process that fetches"), "{failed:?}");
        bench.release(number);
    }
    let deaths = fs::read_to_string(bench.dir.path().join("deaths")).unwrap();
    assert_eq!(deaths.lines().count(), 6, "both together, then one by one, and all that twice");
}

/// No object is lost to a full disk, and no process is started again on it.
#[test]
fn a_full_disk_ends_fetching() {
    let started = "echo started >> started; exec /bin/sleep 60";
    let mut bench = Bench::fetching(started, &[("a", 60), ("b", 40)], &[]);
    bench.want(0, &["a"]);
    bench.want(1, &["b"]);
    let full = Failed { kind: StoreErrorKind::DiskFull, text: "no room".to_owned() };
    bench.events.send(Event::Said(0, 1, Some(Ok(FromFetcher::Failed(full))))).unwrap();
    bench.events.send(Event::Said(0, 1, None)).unwrap_or_default();
    bench.thread.take().unwrap().join().unwrap();
    assert_eq!(bench.arrivals.blocking_recv(), Some(Arrival::NoSpace("no room".to_owned())));
    assert_eq!(bench.arrivals.blocking_recv(), None);
    let started = fs::read_to_string(bench.dir.path().join("started")).unwrap_or_default();
    assert!(started.lines().count() <= 1, "{started}");
}

/// A manifest knows of it.
#[test]
fn what_is_listed_goes_without_a_trace() {
    let mut bench = Bench::with(&[], &[("sub/a", 60), ("sub/b", 60)]);
    for (number, name) in [(1, "sub/b"), (2, "sub/a"), (3, "sub/b")] {
        bench.want(number, &[name]);
        bench.comes(name, None);
        assert_eq!(bench.next(), (number, vec![]));
        assert!(bench.file(name).exists());
        // It is here.
        bench.want(number + 10, &[name]);
        assert_eq!(bench.next(), (number + 10, vec![]));
        bench.release(number);
        bench.release(number + 10);
    }
    bench.want(4, &["sub/none"]);
    let (_, failed) = bench.next();
    assert!(failed[0].1.contains("its place is not known"), "{failed:?}");
    for name in ["sub/a", "sub/b"] {
        assert!(!bench.file(name).exists(), "{name}");
    }
}

/// A process that fetches may be taken over by a store.
#[test]
fn what_links_lead_to_is_let_alone() {
    let mut bench = Bench::with(&[("stood/a", 30)], &[("listed/a", 30)]);
    let elsewhere = bench.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for (number, name) in [(1, "stood/a"), (2, "listed/a")] {
        bench.want(number, &[name]);
        bench.comes(name, None);
        assert_eq!(bench.next(), (number, vec![]));
        let folder = bench.file(name).parent().unwrap().to_owned();
        fs::rename(&folder, folder.with_extension("was")).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        fs::write(elsewhere.join("a"), "of somebody").unwrap();
        bench.release(number);
        // By then all of it is done.
        bench.want(9, &[]);
        assert_eq!(bench.next(), (9, vec![]));
        assert_eq!(fs::read_to_string(elsewhere.join("a")).unwrap(), "of somebody");
    }
}

#[test]
fn what_nobody_needs_any_more_goes_when_it_has_come() {
    let mut bench = Bench::new(&[("a", 60), ("b", 60), ("c", 30)]);
    bench.want(1, &["a"]);
    bench.want(2, &["c"]);
    bench.release(1);
    // Others need not wait for it, but for its room.
    bench.comes("c", None);
    assert_eq!(bench.next(), (2, vec![]));
    bench.want(3, &["b"]);
    bench.comes("a", None);
    bench.comes("b", None);
    assert_eq!(bench.next(), (3, vec![]));
    assert_eq!(bench.end(&["a", "b", "c"]), (vec![], vec![false, true, true]));
}

#[test]
fn what_was_not_asked_for_yet_may_be_released() {
    let mut bench = Bench::new(&[("a", 60), ("b", 60), ("c", 60)]);
    bench.want(1, &["a"]);
    bench.comes("a", None);
    assert_eq!(bench.next(), (1, vec![]));
    bench.want(2, &["b"]);
    bench.want(3, &["c"]);
    bench.release(2);
    bench.release(1);
    bench.comes("c", None);
    assert_eq!(bench.next(), (3, vec![]));
    assert_eq!(bench.end(&["a", "b", "c"]), (vec![], vec![false, false, true]));
}

#[test]
fn what_cannot_be_had_is_told_and_takes_no_room() {
    let mut bench = Bench::new(&[("a", 60), ("b", 60), ("large", 101)]);
    bench.want(1, &["a"]);
    bench.comes("a", Some("it broke"));
    assert_eq!(bench.next(), (1, vec![(0, "it broke".to_owned())]));
    bench.release(1);
    let (_, failed) = {
        bench.want(2, &["large"]);
        bench.next()
    };
    insta::assert_snapshot!(failed[0].1, @"it takes 101 bytes, and the cache has room for 100 bytes: raise cache.size in the file of datastores");
    bench.release(2);
    bench.want(3, &["a", "b"]);
    let (_, failed) = {
        bench.comes("a", None);
        bench.next()
    };
    insta::assert_snapshot!(failed[0].1, @"its mini-batch takes 120 bytes, and the cache has room for 100 bytes: raise cache.size in the file of datastores, or choose a smaller mini_batch_size");
    assert_eq!(failed.len(), 1);
}
