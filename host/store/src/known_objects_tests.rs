//! Objects without a manifest: requests say what is known about them.

use super::*;

impl PrefetchFixture {
    /// Like [`over`](Self::over), in a folder without a manifest: requests say what is known about their objects.
    fn keeping(dir: tempfile::TempDir, objects: &[(&str, u64)]) -> Self {
        let folder = dir.path().to_owned();
        let mut bench = Self::over(dir, SILENT, objects, false);
        bench.events.send(StoreEvent::End).unwrap();
        bench.thread.take().unwrap().join().unwrap();
        fs::remove_file(manifest_path(&folder)).unwrap();
        let request =
            FetchRequest { shown: "s3://box/".to_owned(), ..FetchRequest::sample(&folder) };
        let program = folder.join("fetcher");
        let plan = FetchPlan {
            program,
            requests: vec![request],
            room: ROOM,
            evicts: true,
            keeps: true,
            fetches_all: false,
        };
        let (events, receiver) = channel();
        let (sender, arrivals) = unbounded_channel();
        let fetcher_events = events.clone();
        let progress = Arc::new(FetchProgress::default());
        bench.thread = Some(std::thread::spawn(move || {
            run(plan, &receiver, &fetcher_events, sender, progress);
        }));
        Self { events, arrivals, ..bench }
    }

    fn want_known(&self, number: u64, names: &[&str]) {
        let objects = names.iter().map(|name| (self.file(name), self.listed[*name])).collect();
        self.events.send(StoreEvent::WantKnown(number, objects)).unwrap();
    }

    fn is_here(&self, name: &str) -> bool {
        self.file(name).symlink_metadata().is_ok()
    }
}

/// A node of another machine gets no manifest. It keeps objects until others need their room.
#[test]
fn known_objects_stay_until_others_need_their_room() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/old"), vec![b'o'; 30]).unwrap();
    let objects = [("a", 40), ("b", 40), ("c", 50), ("old", 30)];
    let mut bench = PrefetchFixture::keeping(dir, &objects);
    bench.want_known(1, &["a"]);
    bench.comes("a", None);
    assert_eq!(bench.next(), (1, vec![]));
    bench.release(1);
    // It is still here, so nothing is fetched. What an earlier job has left stays while there is room.
    bench.want_known(2, &["a"]);
    assert_eq!(bench.next(), (2, vec![]));
    assert!(bench.is_here("old"));
    bench.release(2);
    bench.want_known(3, &["b"]);
    bench.comes("b", None);
    assert_eq!(bench.next(), (3, vec![]));
    assert!(bench.is_here("a") && !bench.is_here("old"), "the leftover goes first");
    // There is room for "c" only without "a". "b" is needed.
    bench.want_known(4, &["c"]);
    bench.comes("c", None);
    assert_eq!(bench.next(), (4, vec![]));
    assert!(!bench.is_here("a") && bench.is_here("b"));
    // There is no room until one of them is released.
    bench.want_known(5, &["a"]);
    bench.release(3);
    bench.comes("a", None);
    assert_eq!(bench.next(), (5, vec![]));
    assert!(!bench.is_here("b"));
    assert_eq!(bench.end(&["a", "c"]), (vec![], vec![true, true]));
}

/// Whether another machine may fetch an object depends on the reason.
#[test]
fn a_missing_object_is_missing_everywhere() {
    let mut bench = PrefetchFixture::keeping(tempfile::tempdir().unwrap(), &[("a", 1), ("b", 1)]);
    bench.want_known(1, &["a", "b"]);
    for (name, kind) in [("a", StoreErrorKind::Denied), ("b", StoreErrorKind::NotFound)] {
        let failed = Some(Failed { kind, text: "why".to_owned() });
        let downloaded = FromFetcher::Downloaded(name.to_owned(), failed);
        bench.events.send(StoreEvent::Reported(0, 1, Some(Ok(downloaded)))).unwrap();
    }
    let StagingReport::Ready(1, failed) = bench.arrivals.blocking_recv().unwrap() else {
        panic!("the request is complete");
    };
    let found: Vec<_> = failed.iter().map(|object| (object.file, object.is_final)).collect();
    assert_eq!(found, [(0, false), (1, true)]);
    // A later request tries again.
    bench.release(1);
    bench.want_known(2, &["a"]);
    bench.comes("a", None);
    assert_eq!(bench.next(), (2, vec![]));
}

/// Two objects do not fit together. The second try must not wait for room that idle objects of the first one take.
#[test]
fn objects_that_never_fit_together_fail_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = PrefetchFixture::keeping(dir, &[("a", 60), ("b", 60)]);
    bench.want_known(1, &["a", "b"]);
    bench.comes("a", None);
    let failed = |report: Option<StagingReport>| {
        let Some(StagingReport::Ready(number, failed)) = report else {
            panic!("the request is complete");
        };
        (number, failed.iter().map(|object| object.file).collect::<Vec<_>>())
    };
    assert_eq!(failed(bench.arrivals.blocking_recv()), (1, vec![1]));
    bench.release(1);
    bench.want_known(2, &["a", "b"]);
    assert_eq!(failed(bench.arrivals.blocking_recv()), (2, vec![1]));
}
