//! In these tests, the planner is a shell script.

use super::*;
use crate::model::OsSandbox;
use crate::protocol::{CutOptions, FromPlanner, MayOpen, ObjectsToAsk, PlanRequest, encode};

fn request() -> PlanRequest {
    PlanRequest::new(vec![], CutOptions::Void { count: 3 })
}

impl PoolFixture {
    fn plan(&mut self, capacity: usize) -> mpsc::Receiver<FromPlanner> {
        let (sender, planner) = mpsc::channel(capacity);
        self.pool.plan(&request(), sender).unwrap();
        planner
    }
}

async fn next(planner: &mut mpsc::Receiver<FromPlanner>) -> Option<FromPlanner> {
    tokio::time::timeout(Duration::from_secs(20), planner.recv()).await.unwrap()
}

#[tokio::test]
async fn the_planner_gets_its_request_and_its_messages_arrive() {
    // The script saves the request byte for byte, and prints our messages.
    let dir = tempfile::tempdir().unwrap();
    let frames_at = dir.path().join("frames");
    let echo = dir.path().join("echo");
    let script = format!("cat >{}; cat {}", echo.display(), frames_at.display());
    let mut bench = PoolFixture::new(&script, 8);
    let messages = [FromPlanner::Tables(vec![]), FromPlanner::Finished];
    fs::write(&frames_at, frames(&messages)).unwrap();
    let mut planner = bench.plan(8);
    assert!(bench.pool.plan(&request(), mpsc::channel(1).0).is_err());
    for message in messages {
        assert_eq!(next(&mut planner).await, Some(message));
    }
    let mut received = FrameBuffer::default();
    received.push(&fs::read(echo).unwrap());
    assert_eq!(received.next_message().unwrap(), Some(request()));
    assert_eq!(next(&mut planner).await, None);
}

/// The prestarted process has failed, or the thread that started it has ended.
#[tokio::test]
async fn the_planner_is_started_if_it_cannot_be_forked() {
    let dir = tempfile::tempdir().unwrap();
    let frames_at = dir.path().join("frames");
    fs::write(&frames_at, frames(&[FromPlanner::Finished])).unwrap();
    for same_thread in [true, false] {
        let mut bench = PoolFixture::new(&format!("cat {}", frames_at.display()), 8);
        let gone = Program {
            path: "/bin/sh".into(),
            worker: vec!["-c".into(), "exit 5".into()],
            planner: Vec::new(),
            has_zygote: true,
        };
        let prestarted = match same_thread {
            true => PrestartedProcesses::with_program(&gone, OsSandbox::Off),
            false => {
                std::thread::spawn(move || PrestartedProcesses::with_program(&gone, OsSandbox::Off))
                    .join()
                    .unwrap()
            }
        };
        bench.pool.adopt(prestarted);
        let mut planner = bench.plan(8);
        assert_eq!(next(&mut planner).await, Some(FromPlanner::Finished));
        assert_eq!(next(&mut planner).await, None);
    }
}

#[tokio::test]
async fn the_planner_waits_for_the_leader() {
    let dir = tempfile::tempdir().unwrap();
    let frames_at = dir.path().join("frames");
    let done = dir.path().join("done");
    let script = format!("cat {}; touch {}", frames_at.display(), done.display());
    let mut bench = PoolFixture::new(&script, 1);
    let mut messages = vec![FromPlanner::Notice("n".repeat(10_000)); 100];
    messages.push(FromPlanner::Finished);
    fs::write(&frames_at, frames(&messages)).unwrap();
    let mut planner = bench.plan(1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!done.exists(), "a megabyte must not fit into pipe and channel");
    for message in messages {
        assert_eq!(next(&mut planner).await, Some(message));
    }
}

#[tokio::test]
async fn a_planner_that_crashes_is_explained() {
    let mut bench = PoolFixture::new("echo 'cannot open a.csv' >&2; kill -ABRT $$", 8);
    let Some(FromPlanner::Failed(text)) = next(&mut bench.plan(8)).await else { panic!() };
    insta::assert_snapshot!(text, @r"
    the planner process aborted (SIGABRT; it may have run out of its allowed memory) before it had planned all mini-batches; the end of what it printed:
    cannot open a.csv
    ");
}

/// The second planner reports which files it opens, and the third skips the deadly one.
#[tokio::test]
async fn a_file_that_kills_planners_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let batch = |id| MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Void);
    let first = vec![
        FromPlanner::Tables(vec![]),
        FromPlanner::Notice("a note".to_owned()),
        FromPlanner::MiniBatches(vec![batch(0)]),
    ];
    let open = |file: &str| FromPlanner::opening(file, false);
    let second = [first.clone(), vec![open("a.parquet"), open("b.parquet")]].concat();
    let third = [first[..2].to_vec(), vec![FromPlanner::MiniBatches(vec![batch(0), batch(1)])]];
    let third =
        [third.concat(), vec![FromPlanner::MiniBatches(vec![batch(2)]), FromPlanner::Finished]];
    for (name, messages) in [("0", first.clone()), ("1", second), ("2", third.concat())] {
        fs::write(at(name), frames(&messages)).unwrap();
    }
    let folder = dir.path().display();
    let script = format!(
        "cd {folder}; n=$(ls | grep -c request); cat > request$n; cat $n; \
         [ $n = 2 ] && exit 0; echo broken >&2; kill -KILL $$"
    );
    let mut bench = PoolFixture::new(&script, 8);
    let mut planner = bench.plan(8);
    let mut received = Vec::new();
    while let Some(message) = next(&mut planner).await {
        match message {
            FromPlanner::MiniBatches(batches) => received.extend(batches.iter().map(|it| it.id.0)),
            FromPlanner::Failed(text) => panic!("{text}"),
            _ => {}
        }
    }
    assert_eq!(received, [0, 1, 2]);
    let asked = |name: &str| {
        let mut received = FrameBuffer::default();
        received.push(&fs::read(at(name)).unwrap());
        received.next_message::<PlanRequest>().unwrap().unwrap()
    };
    assert_eq!(asked("request0"), request());
    assert!(asked("request1").reports_files && asked("request1").deadly.is_empty());
    let deadly = asked("request2").deadly;
    assert_eq!((deadly.len(), deadly[0].0, deadly[0].1.file.as_str()), (1, 0, "b.parquet"));
    insta::assert_snapshot!(deadly[0].1.reason, @"b.parquet cannot be read: the planner process was killed (signal 9; the machine may have run out of memory) while it read this file");
}

/// Mini-batches are never left out or delivered twice, even if planners differ.
#[tokio::test]
async fn a_replacement_planner_with_another_plan_fails_the_job() {
    let batch =
        |id, stamp| MiniBatch { stamp, ..MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Void) };
    let first = [batch(0, 7), batch(1, 8)];
    let finished = |batches: &[MiniBatch]| {
        vec![
            FromPlanner::Tables(vec![]),
            FromPlanner::MiniBatches(batches.to_vec()),
            FromPlanner::Finished,
        ]
    };
    for (second, is_same) in [
        (vec![batch(0, 7), batch(1, 8), batch(2, 9)], true),
        (vec![batch(0, 7), batch(1, 9), batch(2, 9)], false),
        (vec![batch(0, 6), batch(1, 8), batch(2, 9)], false),
        (vec![batch(0, 7)], false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("0"), frames(&finished(&first)[..2])).unwrap();
        fs::write(at("1"), frames(&finished(&second))).unwrap();
        let folder = dir.path().display();
        let script = format!(
            "cd {folder}; n=$(ls | grep -c request); cat > request$n; cat $n; \
             [ $n = 1 ] && exit 0; kill -KILL $$"
        );
        let mut bench = PoolFixture::new(&script, 8);
        let mut planner = bench.plan(8);
        let mut received = Vec::new();
        let mut failed = None;
        while let Some(message) = next(&mut planner).await {
            match message {
                FromPlanner::MiniBatches(batches) => {
                    received.extend(batches.iter().map(|it| it.id.0));
                }
                FromPlanner::Failed(text) => failed = Some(text),
                _ => {}
            }
        }
        let reported = "the planner process was killed (signal 9; the machine may have run out of memory), and its replacement \
                    made a different plan before it had planned all mini-batches";
        assert_eq!(failed.as_deref(), (!is_same).then_some(reported));
        assert_eq!(received, if is_same { vec![0, 1, 2] } else { vec![0, 1] });
    }
}

/// Answers follow the request, also for a planner that replaces another.
#[tokio::test]
async fn requests_of_a_planner_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let request = PlanRequest { asks: ObjectsToAsk::Each, ..request() };
    let answer = |file: &str| MayOpen { source: 0, file: file.to_owned(), unfetched: None };
    let open = |file: &str| FromPlanner::opening(file, true);
    fs::write(at("0"), frames(&[FromPlanner::Tables(vec![]), open("a")])).unwrap();
    fs::write(at("1"), frames(&[FromPlanner::Tables(vec![]), open("b")])).unwrap();
    fs::write(at("end"), frames(&[FromPlanner::Closed, FromPlanner::Finished])).unwrap();
    let mut answered = Vec::new();
    encode(&answer("b"), &mut answered).unwrap();
    let bytes = answered.len();
    let folder = dir.path().display();
    let mut request_bytes = Vec::new();
    for reports_files in [false, true] {
        let mut frame = Vec::new();
        encode(&PlanRequest { reports_files, ..request.clone() }, &mut frame).unwrap();
        request_bytes.push(frame.len());
    }
    let script = format!(
        "cd {folder}; n=$(ls | grep -c received); touch received$n; cat $n; \
         [ $n = 0 ] && dd bs=1 count={} of=answer0 2>/dev/null && kill -KILL $$; \
         dd bs=1 count={} of=answer1 2>/dev/null; cat end",
        request_bytes[0] + bytes,
        request_bytes[1] + bytes,
    );
    let mut bench = PoolFixture::new(&script, 8);
    let (sender, mut planner) = mpsc::channel(8);
    bench.pool.plan(&request, sender).unwrap();
    assert_eq!(next(&mut planner).await, Some(FromPlanner::Tables(vec![])));
    for file in ["a", "b"] {
        assert_eq!(next(&mut planner).await, Some(open(file)));
        bench.pool.answer(answer(file));
    }
    assert_eq!(next(&mut planner).await, Some(FromPlanner::Closed));
    assert_eq!(next(&mut planner).await, Some(FromPlanner::Finished));
    for (name, file) in [("answer0", "a"), ("answer1", "b")] {
        let mut received = FrameBuffer::default();
        received.push(&fs::read(at(name)).unwrap());
        let again: PlanRequest = received.next_message().unwrap().unwrap();
        assert_eq!(again.asks, ObjectsToAsk::Each);
        assert_eq!(received.next_message::<MayOpen>().unwrap(), Some(answer(file)));
    }
}

#[tokio::test]
async fn a_planner_that_exits_early_or_sends_garbage_fails() {
    let mut bench = PoolFixture::new("exit 0", 8);
    let Some(FromPlanner::Failed(text)) = next(&mut bench.plan(8)).await else { panic!() };
    insta::assert_snapshot!(text, @"the planner process ended with exit code 0 before it had planned all mini-batches");

    let mut bench = PoolFixture::new(r"printf '\001\000\000\000\377'; sleep 60", 8);
    let Some(FromPlanner::Failed(text)) = next(&mut bench.plan(8)).await else { panic!() };
    assert!(text.contains("sent something that is not a message"), "{text}");
}
