use super::*;
use crate::{FrameBuffer, MAX_FRAME, encode};
use proptest::prelude::*;
use sandmill_model::{
    FailedItem, FailureKind, MiniBatchId, OsSandbox, Segment, StoredBytes, StoredSpill,
};

proptest! {
    #[test]
    fn stays_below_agrees_with_the_path_components(path in "(/|\\.|\\.\\.|a|\0){0,6}") {
        let down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let by_parts = Path::new(&path).components().all(down) && !path.contains('\0');
        prop_assert_eq!(stays_below(&path), by_parts);
    }
}

const RESULTS: ByteSize = ByteSize(1000);

fn report() -> AttemptReport {
    AttemptReport {
        elapsed_seconds: 0.5,
        process_seconds: 0.25,
        bytes_read: None,
        run: CallStats { seconds: 0.1, fuel: Some(u64::MAX) },
        ..AttemptReport::sample()
    }
}

fn finished(change: impl FnOnce(&mut AttemptReport)) -> Option<String> {
    let mut report = report();
    change(&mut report);
    error(FromWorker::Finished(Box::new(report)).check(RESULTS))
}

fn error(checked: Checked) -> Option<String> {
    checked.err().map(|error| error.to_string())
}

fn failed(message: usize, detail: usize) -> Failure {
    Failure::new(FailureKind::Trap, "x".repeat(message)).with_detail("x".repeat(detail))
}

fn item(item: usize, reason: usize) -> FailedItem {
    let text = |length| "x".repeat(length);
    FailedItem { item: text(item), reason: text(reason), ..FailedItem::sample() }
}

#[test]
fn impossible_messages_of_a_worker_are_refused() {
    assert_eq!(finished(|_| ()), None);
    assert_eq!(finished(|r| r.failed_items = vec![item(4096, 2003); 1000]), None);
    assert_eq!(finished(|r| r.outcome = Err(failed(4003, (64 << 10) + 3))), None);
    for time in [f64::NAN, f64::INFINITY, -0.1, 1e300] {
        let wrong = Some("a message exceeds its limits: an impossible time".to_owned());
        assert_eq!(finished(|r| r.elapsed_seconds = time), wrong);
        assert_eq!(finished(|r| r.process_seconds = time), wrong);
        assert_eq!(finished(|r| r.run.seconds = time), wrong);
        let init = CallStats { seconds: time, fuel: None };
        assert_eq!(
            error(FromWorker::Ready { init, wall: WallState::default() }.check(RESULTS)),
            wrong
        );
    }
    let rows = |length| Ok(Segment { length, ..Segment::sample() });
    assert_eq!(finished(|r| r.outcome = rows(1000)), None);
    let many = "a message exceeds its limits: more rows than limits.results allows";
    for length in [1001, u64::MAX] {
        assert_eq!(finished(|r| r.outcome = rows(length)).as_deref(), Some(many));
    }
    let long = Some("a message exceeds its limits: a long text".to_owned());
    assert_eq!(finished(|r| r.outcome = Err(failed(10_000, 0))), long);
    assert_eq!(finished(|r| r.outcome = Err(failed(0, 1 << 20))), long);
    assert_eq!(finished(|r| r.failed_items = vec![item(1 << 20, 0)]), long);
    assert_eq!(finished(|r| r.failed_items = vec![item(0, 5000)]), long);
    assert_eq!(error(FromWorker::InitFailed { failure: failed(10_000, 0) }.check(RESULTS)), long);
    let wall = WallState { active: vec!["x".repeat(5000)], ..WallState::default() };
    assert_eq!(error(FromWorker::Ready { init: CallStats::default(), wall }.check(RESULTS)), long);
    assert!(finished(|r| r.header = Some("x".repeat(4 << 20).as_str().into())).is_some());
}

#[test]
fn impossible_messages_of_a_planner_are_refused() {
    let check = |work| {
        error(FromPlanner::MiniBatches(vec![MiniBatch::new(MiniBatchId(0), 0, work)]).check())
    };
    let files = |name: &str| check(MiniBatchWork::Files(["a/b", name].into()));
    assert_eq!(files("a/b..c"), None);
    for outside in ["../a", "/etc/passwd", "a/../../b", "a\0b"] {
        assert!(files(outside).is_some(), "{outside:?}");
        assert!(check(MiniBatchWork::FileGroup(vec![(7, [outside].into())])).is_some());
    }
    let opening = |file: &str, next: Vec<String>| {
        let mut message = FromPlanner::opening(file, true);
        if let FromPlanner::Opening { next: reported, .. } = &mut message {
            *reported = next;
        }
        error(message.check())
    };
    assert_eq!(opening("a/b", vec!["c".into(); 16]), None);
    assert!(opening("../a", vec![]).is_some() && opening("a", vec!["/b".into()]).is_some());
    assert!(opening("a", vec!["c".into(); 1000]).is_some());
    let slice = |offset, length, rows| TextSlice {
        file: "t.csv".into(),
        offset,
        length,
        rows,
        ..TextSlice::sample()
    };
    assert_eq!(check(MiniBatchWork::Text(slice(10, 20, 20))), None);
    assert!(check(MiniBatchWork::Text(slice(10, 20, 21))).is_some());
    assert!(check(MiniBatchWork::Text(slice(u64::MAX, 20, 1))).is_some());
    // The sum of these counts is more than 64 bits hold.
    let most = MAX_POSITION - 1;
    assert!(check(MiniBatchWork::TextGroup(vec![(0, slice(0, most, most)); 40])).is_some());
    assert!(error(FromPlanner::Notice("x".repeat(1 << 20)).check()).is_some());
}

/// An element takes few bytes in a message but many in memory, so the length of lists is limited.
/// The nodes would fetch other rows, or run without files.
#[test]
fn a_planner_cannot_say_what_only_the_leader_knows() {
    let plain = || MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Files(["a"].into()));
    let check = |batch| error(FromPlanner::MiniBatches(vec![batch]).check());
    assert_eq!(check(plain()), None);
    let parts = StoredBytes { epoch: 1, object: 0, offset: 0, length: 1, sha256: [0; 32] };
    let spill = Some(Box::new(StoredSpill { parts, names: None }));
    assert!(check(MiniBatch { spill, ..plain() }).is_some());
    assert!(check(MiniBatch { unfetched: vec![(0, "gone".to_owned())], ..plain() }).is_some());
}

#[test]
fn long_lists_are_refused_while_decoding() {
    let refused = |bytes: &[u8]| {
        let mut frames = FrameBuffer::default();
        frames.push(bytes);
        frames.next_message::<FromWorker>().unwrap_err().to_string()
    };
    let mut bytes = Vec::new();
    let many = AttemptReport { failed_items: vec![item(0, 0); 1001], ..report() };
    encode(&FromWorker::Finished(Box::new(many)), &mut bytes).unwrap();
    assert!(refused(&bytes).contains("cannot be decoded"));
    let mut bytes = Vec::new();
    let wall = WallState {
        mode: OsSandbox::Off,
        active: vec![String::new(); MAX_FRAME / 2],
        missing: Vec::new(),
    };
    let message = FromWorker::Ready { init: CallStats::default(), wall };
    encode(&message, &mut bytes).unwrap();
    assert!(refused(&bytes).contains("cannot be decoded"));
}

#[test]
fn a_planner_asks_for_one_file_at_a_time() {
    let opening = |file: String| FromPlanner::opening(file, true);
    let question = PlannerQuestion::default();
    question.on_report(&FromPlanner::Closed).unwrap();
    question.on_report(&opening("a".to_owned())).unwrap();
    question.on_report(&FromPlanner::Notice("looks".to_owned())).unwrap();
    question.on_report(&FromPlanner::opening("c", false)).unwrap();
    assert!(question.is_open());
    let error = question.on_report(&opening("b".to_owned())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a message exceeds its limits: a question before the answer to the previous question"
    );
    question.answer();
    assert!(!question.is_open());
    question.on_report(&opening("b".to_owned())).unwrap();
    assert!(opening("x".repeat(MAX_PATH_BYTES + 1)).check().is_err());
}
