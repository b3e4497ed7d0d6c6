//! Several leaders, one log, and a store that loses replies, fails, and reports conflicts that do not exist.

use super::commit_log::{CommitLog, LogFolder, Replay};
use super::error::LogError;
use super::job_logs::{JobLogs, RunLog};
use super::log_store::LogStore;
use super::record::Writer;
use jiff::Timestamp;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

/// What the store does with a request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The request is carried out, but its reply is lost.
    LostReply,
    /// The request is not carried out.
    Failed,
    /// The request to create an object is answered with a conflict, and not carried out.
    FalseConflict,
    /// The request to create an object is carried out only after the next request of any leader.
    Late,
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault = prop_oneof![
        6 => Just(Fault::None),
        2 => Just(Fault::LostReply),
        2 => Just(Fault::Failed),
        1 => Just(Fault::FalseConflict),
        1 => Just(Fault::Late),
    ];
    prop::collection::vec(fault, 0..200)
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<String, Vec<u8>>,
    faults: Vec<Fault>,
    late: Option<(String, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct FaultyStore(Mutex<Inner>);

impl FaultyStore {
    fn with(faults: Vec<Fault>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner { faults, ..Inner::default() })))
    }

    /// From now on, the store works.
    fn heal(&self) {
        self.0.lock().unwrap().faults.clear();
    }
}

impl Inner {
    /// Carries out the late request, if there is one, and returns the fault of this request.
    fn fault(&mut self) -> Fault {
        if let Some((name, bytes)) = self.late.take() {
            self.objects.entry(name).or_insert(bytes);
        }
        self.faults.pop().unwrap_or(Fault::None)
    }
}

impl LogStore for FaultyStore {
    fn make_folder(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let mut inner = self.0.lock().unwrap();
        let fault = inner.fault();
        match fault {
            Fault::Failed => return Err(io::Error::other("failed")),
            Fault::FalseConflict => return Ok(false),
            Fault::Late => {
                inner.late = Some((name.to_owned(), bytes.to_owned()));
                return Err(io::Error::other("timed out"));
            }
            Fault::None | Fault::LostReply => {}
        }
        let is_new = !inner.objects.contains_key(name);
        if is_new {
            inner.objects.insert(name.to_owned(), bytes.to_owned());
        }
        match fault {
            Fault::LostReply => Err(io::Error::other("lost")),
            _ => Ok(is_new),
        }
    }

    fn make_durable(&self, _name: &str) -> io::Result<()> {
        match self.0.lock().unwrap().fault() {
            Fault::Failed => Err(io::Error::other("failed")),
            _ => Ok(()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().objects.remove(name);
        Ok(())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut inner = self.0.lock().unwrap();
        match inner.fault() {
            Fault::None | Fault::FalseConflict => Ok(inner.objects.get(name).cloned()),
            _ => Err(io::Error::other("failed")),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let inner = self.0.lock().unwrap();
        let prefix = format!("{folder}/");
        let names = inner.objects.keys().filter_map(|name| name.strip_prefix(&prefix));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let inner = self.0.lock().unwrap();
        let prefix = format!("{folder}/");
        let names = inner.objects.keys().filter_map(|name| name.strip_prefix(&prefix));
        let folders = names.filter_map(|name| Some(name.split_once('/')?.0.to_owned()));
        Ok(folders.collect::<BTreeSet<_>>().into_iter().collect())
    }
}

fn writer(leader: usize) -> Writer {
    Writer { host: format!("host{leader}"), pid: leader as u32, since: Timestamp::UNIX_EPOCH }
}

fn log(store: &Arc<FaultyStore>, next: u64) -> CommitLog {
    CommitLog::new(LogFolder { store: store.clone(), prefix: String::new() }, next)
}

/// All records of the log, as texts.
fn records(store: &Arc<FaultyStore>) -> Vec<String> {
    let mut records = Vec::new();
    let folder = LogFolder { store: store.clone(), prefix: String::new() };
    folder
        .replay::<LogError>(&mut |replay| {
            if let Replay::Record { record, .. } = replay {
                records.push(String::from_utf8(record.payload.clone()).unwrap());
            }
            Ok(())
        })
        .unwrap();
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Leaders append in turns. Each one that fails is replaced by a new one, which reads the log first. An
    /// append that succeeded is in the log once. One that was fenced is not in the log. Other failed appends
    /// may be in the log, at most once.
    #[test]
    fn what_was_appended_is_in_the_log_once(
        faults in faults(),
        turns in prop::collection::vec(0..3usize, 1..60),
    ) {
        let store = FaultyStore::with(faults);
        let mut leaders: Vec<Option<CommitLog>> = vec![None, None, None];
        let (mut succeeded, mut fenced, mut unknown) = (vec![], vec![], vec![]);
        for (turn, leader) in turns.into_iter().enumerate() {
            let slot = &mut leaders[leader];
            if slot.is_none() {
                let folder = LogFolder { store: store.clone(), prefix: String::new() };
                let Ok(next) = folder.replay::<LogError>(&mut |_| Ok(())) else { continue };
                *slot = Some(log(&store, next).without_pauses(writer(leader)));
            }
            let text = format!("{turn} by {leader}");
            let appended = slot.as_mut().unwrap().append(text.as_bytes());
            match appended {
                Ok(position) => succeeded.push((position.number, text)),
                Err(LogError::Fenced { by, .. }) => {
                    prop_assert_ne!(by, writer(leader), "no leader fences itself");
                    fenced.push(text);
                    *slot = None;
                }
                Err(_) => {
                    unknown.push(text);
                    *slot = None;
                }
            }
        }
        store.heal();
        // This request lets the late one through.
        let _ = store.read("x");
        let records = records(&store);
        for (number, text) in &succeeded {
            prop_assert_eq!(&records[*number as usize], text);
        }
        for text in &records {
            prop_assert_eq!(records.iter().filter(|other| *other == text).count(), 1);
            prop_assert!(!fenced.contains(text));
        }
        let known = succeeded.len()..=succeeded.len() + unknown.len();
        prop_assert!(known.contains(&records.len()));
    }
}

#[test]
fn an_old_leader_is_fenced_and_stays_out() {
    let store = FaultyStore::with(Vec::new());
    let mut old = log(&store, 0).without_pauses(writer(1));
    old.append(b"a").unwrap();
    let mut new = log(&store, 1).without_pauses(writer(2));
    assert_eq!(new.append(b"take over").unwrap().number, 1);
    match old.append(b"b") {
        Err(LogError::Fenced { number: 1, by }) => assert_eq!(by, writer(2)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(old.append(b"c"), Err(LogError::Closed)));
    new.append(b"d").unwrap();
    assert_eq!(records(&store), ["a", "take over", "d"]);
}

#[test]
fn a_replay_begins_with_the_latest_intact_snapshot() {
    let store = FaultyStore::with(Vec::new());
    let mut log = log(&store, 0).without_pauses(writer(1));
    for number in 0..5 {
        log.append(format!("{number}").as_bytes()).unwrap();
        let state = format!("up to {number}").into_bytes();
        log.write_snapshot::<LogError>(|| Ok(state)).unwrap();
    }
    log.append(b"5").unwrap();
    let replayed = || {
        let mut replayed = Vec::new();
        let folder = LogFolder { store: store.clone(), prefix: String::new() };
        let next = folder.replay::<LogError>(&mut |replay| {
            replayed.push(match replay {
                Replay::Snapshot { payload, .. } => String::from_utf8_lossy(payload).into_owned(),
                Replay::Record { record, .. } => {
                    String::from_utf8_lossy(&record.payload).into_owned()
                }
            });
            Ok(())
        });
        (replayed, next)
    };
    let (read, next) = replayed();
    assert_eq!((read, next.unwrap()), (vec!["up to 4".into(), "5".into()], 6));
    // Old snapshots are removed.
    assert_eq!(store.list("snapshot").unwrap().len(), 2);
    // A damaged snapshot is not used.
    let damage = |name: &str| {
        let mut inner = store.0.lock().unwrap();
        inner.objects.get_mut(name).unwrap().pop();
    };
    damage("snapshot/00000000000000000004");
    let (read, next) = replayed();
    assert_eq!(read, ["up to 3", "4", "5"]);
    assert_eq!(next.unwrap(), 6);
    // A damaged record ends the replay with an error, and so does a missing one.
    damage("log/00000000000000000005");
    assert!(matches!(replayed().1, Err(LogError::Damaged { .. })));
    log.append(b"6").unwrap();
    store.0.lock().unwrap().objects.remove("log/00000000000000000005");
    assert!(matches!(replayed().1, Err(LogError::Missing { .. })));
}

/// Starts the job over, as the run `id`.
fn start_over(logs: &JobLogs, id: &str) -> CommitLog {
    let runs = logs.runs_begun().unwrap();
    logs.supersede(&runs, b"over").unwrap();
    logs.announce(&runs, id).unwrap();
    logs.begin(id, b"begin").unwrap().0
}

fn latest(logs: &JobLogs) -> Option<RunLog> {
    logs.latest(&logs.runs_begun().unwrap())
}

#[test]
fn a_run_that_starts_over_has_a_log_of_its_own() {
    let store = FaultyStore::with(Vec::new());
    let logs = JobLogs::new(store);
    assert!(latest(&logs).is_none());
    let mut first = start_over(&logs, "a-1");
    first.append(b"more").unwrap();
    start_over(&logs, "b-1");
    let run = latest(&logs).unwrap();
    assert_eq!(run.id(), "b-1");
    assert_eq!(run.replay::<LogError>(&mut |_| Ok(())).unwrap().next(), 1);
    assert!(matches!(first.append(b"late"), Err(LogError::Fenced { number: 2, .. })));
}

/// A leader is paused between its entry in the list of runs and record 0 of its log. Meanwhile, the job is
/// started over.
#[test]
fn a_run_that_has_not_begun_its_log_is_fenced_too() {
    let store = FaultyStore::with(Vec::new());
    let logs = JobLogs::new(store.clone());
    let runs = LogFolder { store: store.clone(), prefix: "runs/".into() };
    CommitLog::new(runs, 0).append(b"a-1").unwrap();
    assert!(latest(&logs).is_none());
    start_over(&logs, "b-1");
    let folder = LogFolder { store, prefix: "a-1/".into() };
    assert!(matches!(CommitLog::new(folder, 0).append(b"begin"), Err(LogError::Fenced { .. })));
}

/// A leader was killed between both records. Its job continues, and begins the log.
#[test]
fn a_run_can_begin_its_log_later() {
    let store = FaultyStore::with(Vec::new());
    let logs = JobLogs::new(store.clone());
    let runs = LogFolder { store, prefix: "runs/".into() };
    CommitLog::new(runs, 0).append(b"a-1").unwrap();
    let runs = logs.runs_begun().unwrap();
    assert!(runs.awaits("a-1") && !runs.awaits("b-1"));
    logs.announce(&runs, "a-1").unwrap();
    logs.begin("a-1", b"begin").unwrap();
    let runs = logs.runs_begun().unwrap();
    assert!(!runs.awaits("a-1") && runs.is_last("a-1"));
}

/// Of two processes that read the same list, one begins. The other one does not end the log of the first.
#[test]
fn two_runs_that_begin_at_once_do_not_harm_each_other() {
    let store = FaultyStore::with(Vec::new());
    let logs = JobLogs::new(store.clone());
    let seen = logs.runs_begun().unwrap();
    let mut first = start_over(&logs, "a-1");
    logs.supersede(&seen, b"over").unwrap();
    assert!(matches!(logs.announce(&seen, "b-1"), Err(LogError::Fenced { .. })));
    first.append(b"goes on").unwrap();
    // The first one had not begun its log yet when the list was read.
    let runs = LogFolder { store, prefix: "runs/".into() };
    CommitLog::new(runs, 1).append(b"c-1").unwrap();
    let seen = logs.runs_begun().unwrap();
    logs.begin("c-1", b"begin").unwrap();
    assert!(matches!(logs.supersede(&seen, b"over"), Err(LogError::Fenced { .. })));
}

#[test]
fn a_damaged_log_can_be_superseded() {
    let store = FaultyStore::with(Vec::new());
    let logs = JobLogs::new(store.clone());
    let mut log = start_over(&logs, "a-1");
    log.append(b"1").unwrap();
    log.append(b"2").unwrap();
    let damage = |name: &str| store.0.lock().unwrap().objects.get_mut(name).unwrap().pop();
    damage("a-1/log/00000000000000000000");
    damage("a-1/log/00000000000000000001");
    start_over(&logs, "b-1");
    assert!(matches!(log.check(), Err(LogError::Fenced { number: 3, .. })));
    assert!(!log.is_open());
    assert_eq!(latest(&logs).unwrap().id(), "b-1");
}

/// A leader that has nothing to append notices another one, but not that the store fails for a moment.
#[test]
fn a_leader_can_watch_its_log() {
    let store = FaultyStore::with(Vec::new());
    let mut first = log(&store, 0).without_pauses(writer(1));
    first.append(b"a").unwrap();
    store.0.lock().unwrap().faults = vec![Fault::Failed];
    first.watch().unwrap();
    first.watch().unwrap();
    assert!(first.is_open());
    log(&store, 1).without_pauses(writer(2)).append(b"b").unwrap();
    assert!(matches!(first.watch(), Err(LogError::Fenced { number: 1, .. })));
    assert!(!first.is_open());
}

/// The store refuses to make a record durable. Then the append fails, although the record may be in the log.
#[test]
fn a_record_that_is_not_durable_fails_the_append() {
    // The last fault is the first one: the reply of `create` is lost, the object is read, and the sync fails.
    let faults = [Fault::Failed, Fault::None, Fault::LostReply];
    let store = FaultyStore::with(faults.repeat(6));
    let mut log = log(&store, 0).without_pauses(writer(1));
    assert!(matches!(log.append(b"a"), Err(LogError::Unavailable { .. })));
    assert!(!log.is_open());
}
