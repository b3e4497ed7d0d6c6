//! Tests with crashes between any two steps. The output of a job must not depend on how often it was
//! interrupted.

use super::crash_world::{CrashDamage, CrashWorld, Layout, commit, segment};
use super::*;
use crate::commit::recover::recover;
use crate::fail_point;
use crate::model::{MiniBatchId, OnConflict, WorkerId};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;

const KINDS: [(Layout, OnConflict); 9] = [
    (Layout::File, OnConflict::Error),
    (Layout::Ordered, OnConflict::Error),
    (Layout::Parts, OnConflict::Error),
    (Layout::File, OnConflict::Append),
    (Layout::Ordered, OnConflict::Append),
    (Layout::Parts, OnConflict::Append),
    (Layout::File, OnConflict::Overwrite),
    (Layout::Ordered, OnConflict::Overwrite),
    (Layout::Parts, OnConflict::Overwrite),
];

/// The kinds of jobs with a commit log.
const LOGGED_KINDS: [(Layout, OnConflict); 12] = {
    let [a, b, c, d, e, f, g, h, i] = KINDS;
    let [j, k, l] = [OnConflict::Error, OnConflict::Append, OnConflict::Overwrite];
    let nowhere = Layout::Nowhere;
    [a, b, c, d, e, f, g, h, i, (nowhere, j), (nowhere, k), (nowhere, l)]
};

/// More than the number of fail points that an uninterrupted run passes.
const MAX_POINTS: u32 = 400;

#[test]
fn undisturbed_jobs_pass_every_fail_point() {
    let mut points = BTreeSet::new();
    for (layout, on_conflict) in KINDS {
        let mut world = CrashWorld::new(layout, on_conflict);
        points.extend(fail_point::passed_by(|| {
            world.run();
            world.check();
            // Resuming it once more changes nothing.
            world.run();
            world.check();
        }));
    }
    let points: Vec<_> = points.into_iter().collect();
    insta::assert_snapshot!(points.join("\n"), @"
    all-synced
    appended-files-synced
    file-appended
    file-moved
    file-replaced
    files-published
    files-replaced
    files-synced
    finished
    folder-published
    folder-removed
    held-appended
    journaled
    left-all-published
    left-journaled
    left-published
    lost-taken-out
    output-made
    output-named
    output-synced
    part-made
    parts-synced
    replacement-forgotten
    replacement-synced
    rows-appended
    rows-appending
    rows-copied
    ");
}

/// Calls `crashes_at` with the number of every `step`-th fail point, until it returns false: the job had no such
/// point.
fn at_points(step: usize, crashes_at: impl FnMut(&u32) -> bool) {
    let points = (1..MAX_POINTS).step_by(step).take_while(crashes_at).count() * step;
    assert!((30..MAX_POINTS as usize - step).contains(&points), "{points}");
}

/// One crash at every point, with and without the loss of unsynced data.
#[test]
fn a_crash_at_any_point_changes_nothing() {
    for (layout, on_conflict) in KINDS {
        // `:cut` simulates a power failure, which also loses unsynced data. That is the harder case, so
        // crashes without it are tried at fewer points.
        for (cut, step) in [("", 4), (":cut", 1)] {
            let crashed = |count: &u32| {
                let mut world = CrashWorld::new(layout, on_conflict);
                let at = format!("*:{count}{cut}");
                let crashed = fail_point::crash_at(&at, || world.run()).is_none();
                if crashed {
                    world.run();
                }
                world.check();
                crashed
            };
            at_points(step, crashed);
        }
    }
}

/// The machine is lost at any point. Another machine continues the job, from the commit log and the output,
/// and may be lost at its beginning.
#[test]
fn another_machine_continues_after_a_loss_at_any_point() {
    for (layout, on_conflict) in LOGGED_KINDS {
        for (again, step) in [(0, 1), (3, 7), (8, 7), (15, 7)] {
            let lost = |count: &u32| {
                let mut world = CrashWorld::with_store(layout, on_conflict);
                let lost = fail_point::crash_at(&format!("*:{count}"), || world.run()).is_none();
                if lost {
                    world.lose_machine();
                    let at = format!("*:{again}:cut");
                    if again == 0 || fail_point::crash_at(&at, || world.run()).is_none() {
                        world.lose_machine();
                        world.run();
                    }
                }
                world.check();
                lost
            };
            at_points(step, lost);
        }
    }
}

/// The machine is away, and another one continues the job. Then the other one is lost, and the first machine
/// is back, with its job directory: the journal and the files there are those of an earlier time.
#[test]
fn a_job_directory_that_returns_does_no_harm() {
    for (layout, on_conflict) in LOGGED_KINDS {
        for step in [5, 12, 25, 40, 60] {
            let parted = |count: &u32| {
                let mut world = CrashWorld::with_store(layout, on_conflict);
                let at = format!("*:{count}");
                let parted = fail_point::crash_at(&at, || world.run()).is_none();
                if parted {
                    world.part_with_machine();
                    let at = format!("*:{step}");
                    let _ = fail_point::crash_at(&at, || world.run());
                    world.machine_returns();
                    world.run();
                }
                world.check();
                parted
            };
            at_points(5, parted);
        }
    }
}

/// The machine stays. Its journal may be older than the commit log.
#[test]
fn a_crash_at_any_point_changes_nothing_with_a_commit_log() {
    for (layout, on_conflict) in LOGGED_KINDS {
        let crashed = |count: &u32| {
            let mut world = CrashWorld::with_store(layout, on_conflict);
            let at = format!("*:{count}:cut");
            let crashed = fail_point::crash_at(&at, || world.run()).is_none();
            if crashed {
                world.run();
            }
            world.check();
            crashed
        };
        at_points(3, crashed);
    }
}

/// Another process leads the job. The old leader notices it when it commits, and leaves the output as it is.
#[test]
fn a_leader_that_was_replaced_leaves_the_output_alone() {
    let world = CrashWorld::with_store(Layout::File, OnConflict::Error);
    let (mut old, _) = recover(world.target.clone(), world.journal(), false).unwrap();
    let worker = WorkerId(0);
    let rows = "a row\n".repeat(2);
    fs::write(world.target.worker_folders.job_dir().part_file(worker), &rows).unwrap();
    let request = |id: u64| {
        let segment = segment(6 * id, "a row\n");
        CommitRequest::Success(Success { id: MiniBatchId(id), segment, ..Success::sample() })
    };
    old.commit(vec![request(0)]).unwrap();
    old.copy(vec![request(1)]).unwrap();
    world.take_over();
    let error = old.commit(Vec::new()).unwrap_err();
    assert!(error.to_string().starts_with("another process leads the job now"), "{error}");
    old.give_up();
    assert_eq!(world.read("rows.txt"), rows);
}

/// A second crash, during the recovery from the first one.
#[test]
fn a_crash_while_recovering_changes_nothing() {
    for (layout, on_conflict) in KINDS {
        for first in (2..120).step_by(9) {
            for second in (1..12).step_by(2) {
                let mut world = CrashWorld::new(layout, on_conflict);
                if fail_point::crash_at(&format!("*:{first}:cut"), || world.run()).is_some() {
                    break;
                }
                if fail_point::crash_at(&format!("*:{second}"), || world.run()).is_none() {
                    world.run();
                }
                world.check();
            }
        }
    }
}

/// A worker's number is never used again, even if the files that the worker left at its end are the only
/// record of it. Found by fuzzing.
#[test]
fn worker_numbers_are_never_reused() {
    for first in (1..MAX_POINTS).step_by(3) {
        let mut world = CrashWorld::new(Layout::File, OnConflict::Append);
        // Workers with higher numbers complete the rest, or only end normally.
        if fail_point::crash_at(&format!("*:{first}"), || world.run()).is_some() {
            break;
        }
        world.run();
        let Some(&last) = world.last_workers.iter().max() else { continue };
        world.damage_steps.push(CrashDamage::RemoveOutput);
        world.damage();
        // All rows are lost, and the journal records that. Then the job is interrupted.
        drop(recover(world.target.clone(), world.journal(), false).unwrap());
        let (_, restored) = recover(world.target.clone(), world.journal(), false).unwrap();
        assert!(restored.next_worker > last.0, "{} and {last}", restored.next_worker);
    }
}

fn damages() -> impl Strategy<Value = CrashDamage> {
    let share = 0.0..1.0;
    prop_oneof![
        4 => (any::<usize>(), share.clone()).prop_map(|(n, share)| CrashDamage::CutPart(n, share)),
        1 => any::<usize>().prop_map(CrashDamage::RemovePart),
        1 => (any::<usize>(), share.clone()).prop_map(|(n, share)| CrashDamage::ChangePart(n, share)),
        2 => share.clone().prop_map(CrashDamage::CutOutput),
        2 => share.prop_map(CrashDamage::ChangeOutput),
        1 => Just(CrashDamage::RemoveOutput),
        1 => Just(CrashDamage::ExtendOutput),
    ]
}

#[test]
fn lost_rows_are_removed_with_their_files() {
    for (layout, on_conflict) in KINDS {
        let mut world = CrashWorld::new(layout, on_conflict);
        // All rows and files are committed. Then all copies of the second worker's rows are lost.
        assert!(fail_point::crash_at("left-all-published", || world.run()).is_none());
        fs::remove_file(world.target.worker_folders.job_dir().part_file(WorkerId(1))).unwrap();
        let output = world.target.output.join("rows.txt");
        if layout != Layout::Parts {
            let text = fs::read_to_string(&output).unwrap();
            fs::remove_file(&output).unwrap();
            fs::write(&output, text.replace("5 a", "5 x").replace("1 b", "1 y")).unwrap();
        }
        let (store, restored) = recover(world.target.clone(), world.journal(), false).unwrap();
        let gone: Vec<_> =
            (0..9).filter(|id| !restored.finished.contains(MiniBatchId(*id))).collect();
        assert_eq!(gone, [1, 5]);
        drop(store);
        world.run();
        world.check();
    }
}

/// One start cannot read some rows, and the next one can: for example, because a disk is mounted late. The
/// first start was about to remove the files of these rows, but was interrupted, so the files stay. Found by
/// fuzzing.
#[test]
fn rows_that_are_found_again_keep_their_files() {
    for (layout, on_conflict) in KINDS {
        let mut world = CrashWorld::new(layout, on_conflict);
        assert!(fail_point::crash_at("left-all-published", || world.run()).is_none());
        let output = world.target.output.join("rows.txt");
        let parts = world.target.worker_folders.job_dir().parts();
        let away = world.target.worker_folders.job_dir().root().join("away");
        let rows = fs::read(&output);
        drop(fs::remove_file(&output));
        fs::rename(&parts, &away).unwrap();
        fs::create_dir(&parts).unwrap();
        let target = world.target.clone();
        let crash = || recover(target, world.journal(), false).map(drop);
        assert_eq!(
            fail_point::crash_at("replacement-synced", crash),
            None,
            "{layout:?} {on_conflict:?}"
        );
        fs::remove_dir_all(&parts).unwrap();
        fs::rename(&away, &parts).unwrap();
        if let Ok(rows) = rows {
            fs::write(&output, rows).unwrap();
        }
        let (store, restored) = recover(world.target.clone(), world.journal(), false).unwrap();
        assert_eq!(restored.ended(), 9, "{layout:?} {on_conflict:?}");
        drop(store);
        world.run();
        world.check();
    }
}

/// The environment variable with the job directory of the child process in the next test.
const CHILD_FOLDER: &str = "SANDMILL_TEST_CRASH_CHILD";

/// Crashes of a real process: the child kills itself at the point in `SANDMILL_FAIL_POINT`.
#[test]
fn a_killed_process_is_recovered_from() {
    let layout = Layout::Ordered;
    let on_conflict = OnConflict::Append;
    if let Some(path) = std::env::var_os(CHILD_FOLDER) {
        return CrashWorld::in_folder(path.as_ref(), layout, on_conflict).run();
    }
    for at in ["files-synced", "journaled:2", "rows-appended:3:cut", "*:30:cut", "finished"] {
        let mut world = CrashWorld::new(layout, on_conflict);
        let name = "commit::committer::crash_tests::a_killed_process_is_recovered_from";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(CHILD_FOLDER, world.target.worker_folders.job_dir().root())
            .env("SANDMILL_FAIL_POINT", at)
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGKILL), "{at}: {child:?}");
        world.run();
        world.check();
    }
}

/// Each mini-batch costs a few hundredths of a millisecond. The time limits leave room for slow machines, but
/// an algorithm with quadratic cost exceeds them.
#[test]
fn a_hundred_thousand_mini_batches_cost_little() {
    for layout in Layout::ALL {
        let world = CrashWorld::new(layout, OnConflict::Error);
        let (mut store, _) = recover(world.target.clone(), world.journal(), false).unwrap();
        let rows = "a row\n".repeat(100_000);
        let worker = WorkerId(0);
        fs::write(world.target.worker_folders.job_dir().part_file(worker), &rows).unwrap();
        let request = |id: u64| {
            let segment = segment(6 * id, "a row\n");
            let success = Success { id: MiniBatchId(id), segment, stamp: id, ..Success::sample() };
            CommitRequest::Success(success)
        };
        let begun = Instant::now();
        for group in 0..200 {
            commit(&mut store, (group * 500..(group + 1) * 500).map(request).collect());
        }
        let committed = begun.elapsed();
        drop(store);
        let begun = Instant::now();
        let (_store, restored) = recover(world.target.clone(), world.journal(), false).unwrap();
        let recovered = begun.elapsed();
        eprintln!("{layout:?}: committed in {committed:?}, recovered in {recovered:?}");
        assert_eq!(restored.succeeded, 100_000);
        if layout != Layout::Parts {
            assert_eq!(world.read("rows.txt"), rows);
        }
        assert!(committed.as_secs() < 30 && recovered.as_secs() < 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..Default::default() })]

    /// Any number of crashes. Between them, part files and the output are damaged.
    #[test]
    fn damage_costs_time_and_no_rows(
        kind in 0..KINDS.len(),
        crashes in prop::collection::vec((1_u32..60, any::<bool>()), 1..5),
        damage in prop::collection::vec(damages(), 0..4),
    ) {
        let (layout, on_conflict) = KINDS[kind];
        let mut world = CrashWorld::new(layout, on_conflict);
        world.damage_steps = damage;
        for (count, cut) in crashes {
            let at = format!("*:{count}{}", if cut { ":cut" } else { "" });
            if fail_point::crash_at(&at, || world.run()).is_some() {
                world.check();
                return Ok(());
            }
            world.damage();
        }
        world.run();
        world.check();
    }
}
