//! The tests send the fetcher's reports themselves. The fetcher process is a shell script that reports
//! nothing.

use super::*;
use crate::cache_dir::{WRITABLE_FOLDERS, manifest_path};
use crate::dataset::{FileVersion, ManifestWriter};
use crate::fetch_all::MissingObject;
use crate::model::to_usize;
use crate::protocol::store::Failed;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::UNIX_EPOCH;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

#[path = "known_objects_tests.rs"]
mod known_objects_tests;

/// The cache has room for this many bytes.
const ROOM: u64 = 100;
/// A process that reports nothing.
const SILENT: &str = "exec /bin/sleep 60";
/// A process that reports nothing, and writes its requests to a file.
const LOGS_REQUESTS: &str = "/bin/cat > asked";

/// The positions and reasons of objects that could not be fetched.
fn pairs(failed: Vec<UnfetchedObject>) -> Vec<(u32, String)> {
    failed.into_iter().map(|object| (object.file, object.reason)).collect()
}

struct PrefetchFixture {
    dir: tempfile::TempDir,
    events: Sender<StoreEvent>,
    arrivals: UnboundedReceiver<StagingReport>,
    thread: Option<JoinHandle<()>>,
    /// The objects in the manifest.
    listed: HashMap<String, ManifestObject>,
    progress: Arc<FetchProgress>,
}

impl PrefetchFixture {
    /// A store whose objects have these lengths in bytes.
    fn new(objects: &[(&str, u64)]) -> Self {
        Self::fetching(SILENT, objects)
    }

    /// Like [`new`](Self::new), with a fetcher process that runs this script.
    fn fetching(script: &str, objects: &[(&str, u64)]) -> Self {
        Self::over(tempfile::tempdir().unwrap(), script, objects, false)
    }

    /// Like [`fetching`](Self::fetching), and all objects are fetched.
    fn fetching_all(script: &str, objects: &[(&str, u64)]) -> Self {
        Self::over(tempfile::tempdir().unwrap(), script, objects, true)
    }

    /// Like the functions above, in a folder that an earlier job may have used.
    fn over(
        dir: tempfile::TempDir,
        script: &str,
        objects: &[(&str, u64)],
        fetches_all: bool,
    ) -> Self {
        let at = |name: &str| dir.path().join(name);
        for folder in WRITABLE_FOLDERS {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let object = |length| FileVersion { length, ..FileVersion::sample() }.into();
        let listed: HashMap<_, _> =
            objects.iter().map(|(name, bytes)| ((*name).to_owned(), object(*bytes))).collect();
        let mut manifest = ManifestWriter::new(at("part").join("manifest")).unwrap();
        for (name, object) in &listed {
            manifest.add(name, Ok(*object)).unwrap();
        }
        manifest.finish(&manifest_path(dir.path())).unwrap();
        fs::write(at("fetcher"), format!("#!/bin/sh\ncd '{}'\n{script}\n", dir.path().display()))
            .unwrap();
        fs::set_permissions(at("fetcher"), fs::Permissions::from_mode(0o700)).unwrap();
        let request =
            FetchRequest { shown: "s3://box/".to_owned(), ..FetchRequest::sample(dir.path()) };
        let (room, evicts) = if fetches_all { (u64::MAX, false) } else { (ROOM, true) };
        let program = at("fetcher");
        let requests = vec![request];
        let plan = FetchPlan { program, requests, room, evicts, keeps: false, fetches_all };
        let (events, receiver) = channel();
        let (sender, arrivals) = unbounded_channel();
        let fetcher_events = events.clone();
        let progress = Arc::new(FetchProgress::default());
        let thread_progress = Arc::clone(&progress);
        let thread = Some(std::thread::spawn(move || {
            run(plan, &receiver, &fetcher_events, sender, thread_progress);
        }));
        Self { dir, events, arrivals, thread, listed, progress }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    fn want(&self, number: u64, names: &[&str]) {
        let files = names.iter().map(|name| self.file(name)).collect();
        self.events.send(StoreEvent::Want(number, files)).unwrap();
    }

    fn release(&self, number: u64) {
        self.events.send(StoreEvent::Release(vec![number])).unwrap();
    }

    /// Reports that the object has arrived, or that it failed.
    fn comes(&self, name: &str, failed: Option<&str>) {
        self.comes_by(1, name, failed);
    }

    /// Like [`comes`](Self::comes), from the process with this number.
    fn comes_by(&self, number: u64, name: &str, failed: Option<&str>) {
        if failed.is_none() {
            let found = self.listed[name].found;
            let part = self.dir.path().join("part/fetched");
            fs::write(&part, vec![b'x'; to_usize(found.length)]).unwrap();
            let file = fs::File::options().write(true).open(&part).unwrap();
            file.set_modified(
                UNIX_EPOCH + Duration::new(found.seconds.cast_unsigned(), found.nanos),
            )
            .unwrap();
            fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
            fs::rename(part, self.file(name)).unwrap();
        }
        let failed =
            failed.map(|text| Failed { kind: StoreErrorKind::Other, text: text.to_owned() });
        let downloaded = FromFetcher::Downloaded(name.to_owned(), failed);
        self.events.send(StoreEvent::Reported(0, number, Some(Ok(downloaded)))).unwrap();
    }

    /// The next report that is not about progress.
    fn next(&mut self) -> (u64, Vec<(u32, String)>) {
        loop {
            if let StagingReport::Ready(number, failed) = self.arrivals.blocking_recv().unwrap() {
                return (number, pairs(failed));
            }
        }
    }

    /// Ends the thread. Returns the requests that were reported until then, and which of the objects are
    /// here.
    fn end(mut self, names: &[&str]) -> (Vec<u64>, Vec<bool>) {
        self.events.send(StoreEvent::End).unwrap();
        self.thread.take().unwrap().join().unwrap();
        let mut reported = Vec::new();
        while let Ok(arrival) = self.arrivals.try_recv() {
            if let StagingReport::Ready(number, _) = arrival {
                reported.push(number);
            }
        }
        let is_here = |name: &&str| self.file(name).symlink_metadata().is_ok();
        (reported, names.iter().map(is_here).collect())
    }
}

/// The planner asks for `b` while the mini-batches of `a` are not done, so there is no room for `b` yet.
#[test]
fn an_object_waits_until_the_cache_has_room() {
    let mut bench = PrefetchFixture::new(&[("a", 60), ("b", 60)]);
    let first = PLANNER_REQUESTS;
    let second = PLANNER_REQUESTS + 1;
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

/// Prefetches must not delay a request whose objects are already coming.
#[test]
fn a_cached_object_does_not_wait_for_earlier_requests() {
    let mut bench = PrefetchFixture::new(&[("a", 30), ("b", 30), ("c", 30)]);
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

/// If later mini-batches got `b` first, they would keep `b`, wait for the earlier mini-batches of `a`, and
/// leave these no room.
#[test]
fn mini_batches_get_objects_in_request_order() {
    let mut bench = PrefetchFixture::new(&[("a", 60), ("b", 60)]);
    let planner_request = PLANNER_REQUESTS + 1;
    bench.want(planner_request, &["b"]);
    bench.want(1, &["b"]);
    bench.comes("b", None);
    assert_eq!((bench.next().0, bench.next().0), (planner_request, 1));
    bench.release(planner_request);
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

/// A planner may be compromised by the files that it reads.
#[test]
fn files_outside_the_cache_are_not_touched() {
    let mut bench = PrefetchFixture::new(&[("a", 60)]);
    let secret = bench.dir.path().join("secret");
    fs::write(&secret, "another user's").unwrap();
    for name in ["../secret", "sub/../../secret", "."] {
        bench.want(1, &[name]);
        assert_eq!(bench.next(), (1, vec![]));
        bench.release(1);
    }
    // Once this is answered, all earlier events have been handled.
    bench.want(2, &[]);
    assert_eq!(bench.next(), (2, vec![]));
    assert_eq!(fs::read_to_string(secret).unwrap(), "another user's");
}

/// For example, the kernel's OOM killer may end a process.
#[test]
fn requests_of_a_dead_process_are_sent_again() {
    let dies_once = "[ -e died ] || { touch died; exit 1; }; exec /bin/sleep 60";
    let mut bench = PrefetchFixture::fetching(dies_once, &[("a", 20), ("b", 20), ("c", 20)]);
    bench.want(1, &["a", "b"]);
    while !bench.dir.path().join("died").exists() {
        std::thread::yield_now();
    }
    // An object cannot arrive before it is requested.
    bench.want(2, &["c"]);
    let mut reported = Vec::new();
    while reported.len() < 2 {
        for name in ["a", "b", "c"] {
            bench.comes_by(2, name, None);
        }
        while let Ok(arrival) = bench.arrivals.try_recv() {
            if let StagingReport::Ready(number, failed) = arrival {
                reported.push((number, pairs(failed)));
            }
        }
    }
    reported.sort_unstable();
    assert_eq!(reported, [(1, vec![]), (2, vec![])]);
}

/// If every object kills the process, every object fails. A later request gets a new process.
#[test]
fn requests_fail_if_the_process_always_dies() {
    let mut bench =
        PrefetchFixture::fetching("echo died >> deaths; exit 1", &[("a", 20), ("b", 20)]);
    for number in [1, 2] {
        bench.want(number, &["a", "b"]);
        let (reported, failed) = bench.next();
        assert_eq!((reported, failed.len()), (number, 2));
        assert!(failed[0].1.contains("the process that fetches"), "{failed:?}");
        bench.release(number);
    }
    let deaths = fs::read_to_string(bench.dir.path().join("deaths")).unwrap();
    assert_eq!(deaths.lines().count(), 6, "both together, then one by one, and all that twice");
}

/// If the disk is full, no object counts as failed, and no new process is started.
#[test]
fn a_full_disk_ends_fetching() {
    let started = "echo started >> started; exec /bin/sleep 60";
    let mut bench = PrefetchFixture::fetching(started, &[("a", 60), ("b", 40)]);
    bench.want(0, &["a"]);
    bench.want(1, &["b"]);
    let full = Failed { kind: StoreErrorKind::DiskFull, text: "no room".to_owned() };
    bench.events.send(StoreEvent::Reported(0, 1, Some(Ok(FromFetcher::Failed(full))))).unwrap();
    bench.events.send(StoreEvent::Reported(0, 1, None)).unwrap_or_default();
    bench.thread.take().unwrap().join().unwrap();
    assert_eq!(bench.arrivals.blocking_recv(), Some(StagingReport::NoSpace("no room".to_owned())));
    assert_eq!(bench.arrivals.blocking_recv(), None);
    let started = fs::read_to_string(bench.dir.path().join("started")).unwrap_or_default();
    assert!(started.lines().count() <= 1, "{started}");
}

/// An evicted object is still in the manifest, so it can be fetched again.
#[test]
fn released_objects_are_evicted() {
    let mut bench = PrefetchFixture::new(&[("sub/a", 60), ("sub/b", 60)]);
    for (number, name) in [(1, "sub/b"), (2, "sub/a"), (3, "sub/b")] {
        bench.want(number, &[name]);
        bench.comes(name, None);
        assert_eq!(bench.next(), (number, vec![]));
        assert!(bench.file(name).exists());
        // It is still here.
        bench.want(number + 10, &[name]);
        assert_eq!(bench.next(), (number + 10, vec![]));
        bench.release(number);
        bench.release(number + 10);
    }
    bench.want(4, &["sub/none"]);
    let (_, failed) = bench.next();
    insta::assert_snapshot!(failed[0].1, @"it is not in the list of the store's objects");
    for name in ["sub/a", "sub/b"] {
        assert!(!bench.file(name).exists(), "{name}");
    }
}

/// A fetcher process may be compromised by a store.
#[test]
fn targets_of_links_are_not_touched() {
    let mut bench = PrefetchFixture::new(&[("one/a", 30), ("other/a", 30)]);
    let elsewhere = bench.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for (number, name) in [(1, "one/a"), (2, "other/a")] {
        bench.want(number, &[name]);
        bench.comes(name, None);
        assert_eq!(bench.next(), (number, vec![]));
        let folder = bench.file(name).parent().unwrap().to_owned();
        fs::rename(&folder, folder.with_extension("was")).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        fs::write(elsewhere.join("a"), "another user's").unwrap();
        bench.release(number);
        // Once this is answered, all earlier events have been handled.
        bench.want(9, &[]);
        assert_eq!(bench.next(), (9, vec![]));
        assert_eq!(fs::read_to_string(elsewhere.join("a")).unwrap(), "another user's");
    }
}

#[test]
fn an_object_released_before_it_arrives_is_evicted() {
    let mut bench = PrefetchFixture::new(&[("a", 60), ("b", 60), ("c", 30)]);
    bench.want(1, &["a"]);
    bench.want(2, &["c"]);
    bench.release(1);
    // The second request does not wait for `a`. The third request waits for the room that `a`
    // takes.
    bench.comes("c", None);
    assert_eq!(bench.next(), (2, vec![]));
    bench.want(3, &["b"]);
    bench.comes("a", None);
    bench.comes("b", None);
    assert_eq!(bench.next(), (3, vec![]));
    assert_eq!(bench.end(&["a", "b", "c"]), (vec![], vec![false, true, true]));
}

#[test]
fn a_waiting_request_can_be_released() {
    let mut bench = PrefetchFixture::new(&[("a", 60), ("b", 60), ("c", 60)]);
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
fn a_failed_object_is_reported_and_takes_no_room() {
    let mut bench = PrefetchFixture::new(&[("a", 60), ("b", 60), ("large", 101)]);
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

impl PrefetchFixture {
    /// Waits until the object is requested, then reports that it has arrived or failed.
    fn comes_as_asked(&self, name: &str, failed: Option<&str>) {
        let asked = self.dir.path().join("asked");
        let is_it = |bytes: &[u8]| bytes == name.as_bytes();
        while !fs::read(&asked).is_ok_and(|asked| asked.windows(name.len()).any(is_it)) {
            std::thread::yield_now();
        }
        self.comes(name, failed);
    }

    /// Waits until all objects have been fetched.
    fn waits_for_all(&self) {
        while !self.progress.is_done() {
            std::thread::yield_now();
        }
    }
}

/// There are more objects than are requested at the same time. The planner asks for some objects before they
/// arrive, and for others afterwards.
#[test]
fn all_objects_are_fetched_in_order_requested_ones_first() {
    let names: Vec<_> = (0..3 * MAX_OPEN_REQUESTS).map(|index| format!("sub/{index:03}")).collect();
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), 3)).collect();
    let mut bench = PrefetchFixture::fetching_all(LOGS_REQUESTS, &objects);
    let last = names.last().unwrap();
    bench.want(PLANNER_REQUESTS, &[last]);
    bench.comes_as_asked(last, None);
    assert_eq!(bench.next(), (PLANNER_REQUESTS, vec![]), "the objects before it have not arrived");
    bench.want(PLANNER_REQUESTS + 1, &[&names[0]]);
    for name in &names[..names.len() - 1] {
        bench.comes_as_asked(name, None);
    }
    assert_eq!(bench.next(), (PLANNER_REQUESTS + 1, vec![]));
    bench.waits_for_all();
    assert_eq!(bench.progress.so_far(), (names.len() as u64, 3 * names.len() as u64));
    assert!(bench.progress.take_missing().is_none());
    bench.want(PLANNER_REQUESTS + 2, &[&names[1], "sub/none", last]);
    let (number, failed) = bench.next();
    assert_eq!((number, failed.len(), failed[0].0), (PLANNER_REQUESTS + 2, 1, 1));
    bench.release(PLANNER_REQUESTS);
    bench.release(PLANNER_REQUESTS + 1);
    bench.release(PLANNER_REQUESTS + 2);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert!(bench.end(&names).1.into_iter().all(|is_here| is_here), "all objects stay");
}

/// Every request gets the same answer, and nothing is fetched again.
#[test]
fn one_failed_object_does_not_fail_the_rest() {
    let objects = ["sub/a", "sub/b", "sub/c", "sub/d"].map(|name| (name, 3));
    let mut bench = PrefetchFixture::fetching_all(LOGS_REQUESTS, &objects);
    bench.comes_as_asked("sub/d", Some("it fell"));
    bench.comes_as_asked("sub/b", Some("it broke"));
    bench.comes_as_asked("sub/c", None);
    for number in [PLANNER_REQUESTS, PLANNER_REQUESTS + 1] {
        bench.want(number, &["sub/b"]);
        assert_eq!(bench.next(), (number, vec![(0, "it broke".to_owned())]));
        bench.release(number);
    }
    bench.comes_as_asked("sub/a", None);
    bench.waits_for_all();
    assert_eq!(bench.progress.so_far(), (4, 6));
    let Some(MissingObject::Object(file, reason)) = bench.progress.take_missing() else { panic!() };
    assert_eq!((file, reason.as_str()), (bench.file("sub/b"), "it broke"), "the first one");
    assert_eq!(bench.end(&["sub/a", "sub/b", "sub/c"]), (vec![], vec![true, false, true]));
}

#[test]
fn a_dead_process_is_replaced_when_fetching_all() {
    let dies_once = "[ -e died ] || { touch died; exit 1; }; exec /bin/sleep 60";
    let mut bench = PrefetchFixture::fetching_all(dies_once, &[("a", 3), ("b", 3), ("c", 3)]);
    bench.want(PLANNER_REQUESTS, &["c"]);
    while !bench.dir.path().join("died").exists() {
        std::thread::yield_now();
    }
    while !bench.progress.is_done() {
        // An object cannot arrive before it is requested.
        for name in ["a", "b", "c"] {
            bench.comes_by(2, name, None);
        }
    }
    assert_eq!(bench.next(), (PLANNER_REQUESTS, vec![]));
    assert!(bench.progress.take_missing().is_none());
}

/// A million objects must not start a process each.
#[test]
fn all_remaining_objects_fail_if_the_process_always_dies() {
    let names: Vec<_> = (0..2 * MAX_OPEN_REQUESTS).map(|index| index.to_string()).collect();
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), 3)).collect();
    let mut bench = PrefetchFixture::fetching_all("echo died >> deaths; exit 1", &objects);
    bench.waits_for_all();
    let Some(MissingObject::Rest(error)) = bench.progress.take_missing() else { panic!() };
    assert_eq!(error.kind(), StoreErrorKind::Process);
    bench.want(PLANNER_REQUESTS, &["0", names.last().unwrap()]);
    let (_, failed) = bench.next();
    assert_eq!(failed.len(), 2);
    assert!(failed[1].1.contains("the process that fetches"), "{failed:?}");
    let deaths = fs::read_to_string(bench.dir.path().join("deaths")).unwrap();
    assert!(deaths.lines().count() < MAX_OPEN_REQUESTS, "{deaths}");
}

/// Objects of an earlier job are not fetched again. The manifest may come from a compromised process: a name
/// that leads out of the folder is ignored.
#[test]
fn objects_that_are_already_here_are_not_fetched() {
    let objects = [("sub/a", 3), ("../secret", 3), ("/etc/passwd", 3), ("b/../../c", 3)];
    let first = PrefetchFixture::fetching_all(LOGS_REQUESTS, &objects);
    first.comes_as_asked("sub/a", None);
    first.waits_for_all();
    assert_eq!(first.progress.so_far(), (1, 3));
    first.events.send(StoreEvent::End).unwrap();
    first.thread.unwrap().join().unwrap();
    let second = PrefetchFixture::over(first.dir, "touch started; exit 1", &objects, true);
    second.waits_for_all();
    assert_eq!(second.progress.so_far(), (0, 0));
    assert!(second.progress.take_missing().is_none());
    assert!(!second.dir.path().join("started").exists());
}
