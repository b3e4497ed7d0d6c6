//! Partition keys: each combination of their values is one mini-batch.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, TestJob, guest};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

/// Six files with five pairs of user and genre.
fn songs() -> TestJob {
    let mut job = TestJob::new(&guest("surroundings")).yaml(
        "inputs: {songs: {path: songs, partition_format: '{user}/{season}/{genre}.wav'}}\n\
         partition_keys: [user, genre]\nprocess_count_per_node: 2",
    );
    for song in [
        "ann/winter/pop",
        "ann/summer/pop",
        "ann/summer/jazz",
        "bob/winter/pop",
        "bob/winter/folk",
        "cy/winter/pop",
    ] {
        job = job.file(&format!("songs/{song}.wav"), "");
    }
    job
}

/// Rules M4, C8, E15 in docs/parallel-run-step.md.
#[test]
fn files_are_grouped_by_their_paths() {
    let ran = songs().run(&[]);
    ran.exits_with(0).says("mini-batches  5\n");
    let rows: Vec<String> = ran
        .sorted_output()
        .iter()
        .map(|row| {
            let parts: Vec<_> = row.split('|').collect();
            [parts[0], parts[1], parts[4]].join(" ")
        })
        .collect();
    assert_snapshot!(rows.join("\n"), @r#"
    /inputs/songs/ann/summer/jazz.wav id=0 keys=[("user", "ann"), ("genre", "jazz")]
    /inputs/songs/ann/summer/pop.wav id=1 keys=[("user", "ann"), ("genre", "pop")]
    /inputs/songs/ann/winter/pop.wav id=1 keys=[("user", "ann"), ("genre", "pop")]
    /inputs/songs/bob/winter/folk.wav id=2 keys=[("user", "bob"), ("genre", "folk")]
    /inputs/songs/bob/winter/pop.wav id=3 keys=[("user", "bob"), ("genre", "pop")]
    /inputs/songs/cy/winter/pop.wav id=4 keys=[("user", "cy"), ("genre", "pop")]
    "#);
}

/// Rule M4: a template may begin with the folders before the first wildcard of a glob.
#[test]
fn files_of_a_glob_are_grouped_by_their_paths() {
    for template in ["{user}/{season}/{genre}.wav", "songs/{user}/{season}/{genre}.wav"] {
        let inputs =
            format!("inputs.songs={{path: songs/*/*/*.wav, partition_format: '{template}'}}");
        songs().run(&["--set", &inputs]).exits_with(0).says("mini-batches  5\n");
    }
}

/// Rules M4, C21: a mini-batch has the files of all paths of its input, and no file of another input.
#[test]
fn groups_span_all_paths_of_one_input() {
    let mut job = TestJob::new(&guest("surroundings")).yaml(
        "inputs:\n  one: {paths: [a, 'b/*/*.txt'], partition_format: '{k}/{file}'}\n\
         \x20 two: {path: a, partition_format: '{k}/{file}'}\n\
         partition_keys: [k]\nprocess_count_per_node: 2",
    );
    for file in ["a/x/1.txt", "a/y/2.txt", "b/x/3.txt", "b/x/4.txt", "b/x/5.other"] {
        job = job.file(file, "");
    }
    let ran = job.run(&[]);
    ran.exits_with(0).says("mini-batches  4\n");
    let rows: Vec<String> = ran
        .sorted_output()
        .iter()
        .map(|row| row.split('|').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_snapshot!(rows.join("\n"), @"
    /inputs/one/0/x/1.txt id=0
    /inputs/one/0/y/2.txt id=1
    /inputs/one/1/x/3.txt id=0
    /inputs/one/1/x/4.txt id=0
    /inputs/two/x/1.txt id=2
    /inputs/two/y/2.txt id=3
    ");
}

/// Rule M6.
#[test]
fn the_plan_shows_groups() {
    let ran = songs().command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    assert_snapshot!(ran.stdout, @"
    mini-batch  input      items  where
             0  songs          1  user=ann, genre=jazz: ann/summer/jazz.wav
             1  songs          2  user=ann, genre=pop: ann/summer/pop.wav .. ann/winter/pop.wav
             2  songs          1  user=bob, genre=folk: bob/winter/folk.wav
             3  songs          1  user=bob, genre=pop: bob/winter/pop.wav
             4  songs          1  user=cy, genre=pop: cy/winter/pop.wav
    ");
    let folders = sales("partition_keys: [region]").command(&["plan", "job.yaml"]);
    folders.exits_with(0);
    assert_snapshot!(folders.stdout, @"
    mini-batch  input      items  where
             0  sales          5  region=n: n/a.csv .. n/b.csv, 25 bytes
             1  sales          3  region=s: s/a.csv, 15 bytes
    ");
    let rows = sales_by_store().command(&["plan", "job.yaml"]);
    rows.exits_with(0);
    assert_snapshot!(rows.stdout, @"
    mini-batch  input      items  where
             0  sales          1  store=: rows of one group, 3 bytes
             1  sales          4  store=4: rows of one group, 21 bytes
             2  sales          2  store=5: rows of one group, 8 bytes
             3  sales          1  store=6,7: rows of one group, 8 bytes
    ");
    assert_snapshot!(rows.redacted(), @r#"
    note: columns of input sales: store string, x int64
    note: input sales: store is read as string (s/a.csv, line 2: "6,7" is not a valid int64); set schema to fix types (sandmill plan --write-schema prints one)
    note: all of input sales is read and its rows are grouped by store before its first mini-batch
    4 mini-batches, 8 items, 40 bytes; 2 workers; the results go to jobs/test/output
    "#);
}

/// A job over three CSV files in two folders.
fn sales(yaml: &str) -> TestJob {
    TestJob::new(&guest("returns_keys"))
        .file("sales/n/a.csv", "store,x\n4,1\n5,2\n4,3\n")
        .file("sales/n/b.csv", "store,x\n5,4\n4,oops,5\n")
        .file("sales/s/a.csv", "store,x\n\"6,7\",6\n,7\n4,8\n")
        .yaml(&format!(
            "inputs: {{sales: {{path: sales, format: csv, partition_format: '{{region}}'}}}}\n\
             error_threshold: -1\nprocess_count_per_node: 2\n{yaml}"
        ))
}

/// The same job without `partition_format`, partitioned by a column.
fn sales_by_store() -> TestJob {
    let job = sales("partition_keys: [store]");
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    job.file("job.yaml", text.replace(", partition_format: '{region}'", ""))
}

fn sorted(ran: &Ran) -> String {
    ran.sorted_output().join("\n")
}

/// Rules M5, C8.
#[test]
fn tables_are_grouped_by_folder() {
    let ran = sales("partition_keys: [region]").run(&[]);
    ran.exits_with(0);
    assert_snapshot!(sorted(&ran), @r#"
    0 [("region", "n")] 4,1,n
    0 [("region", "n")] 4,3,n
    0 [("region", "n")] 5,2,n
    0 [("region", "n")] 5,4,n
    1 [("region", "s")] -,7,s
    1 [("region", "s")] 4,8,s
    1 [("region", "s")] 6,7,6,s
    "#);
    assert!(!ran.has("job/spill"), "no rows were spilled");
}

/// Rules C8, E15: rows with the same key are collected from all files. Rows that do not match the columns are
/// reported with their line.
#[test]
fn tables_are_grouped_by_column() {
    let ran = sales_by_store().run(&[]);
    ran.exits_with(0).says("its rows are grouped by store before its first mini-batch");
    assert_snapshot!(sorted(&ran), @r#"
    0 [("store", "")] -,7
    1 [("store", "4")] 4,1
    1 [("store", "4")] 4,3
    1 [("store", "4")] 4,8
    2 [("store", "5")] 5,2
    2 [("store", "5")] 5,4
    3 [("store", "6,7")] 6,7,6
    "#);
    let failed = ran.failed_items();
    let failed: Vec<_> = failed.lines().skip(1).collect();
    assert_snapshot!(failed.join("\n"), @r#"1,"/inputs/sales/n/b.csv, line 3",/inputs/sales/n/b.csv,3,,1,[WORKER],"3 fields, but the table has 2 columns""#);
}

#[test]
fn an_unknown_key_column_is_reported_with_the_existing_ones() {
    let job = TestJob::new(&guest("returns_keys"))
        .file("in.csv", "store,x\n1,2\n")
        .yaml("inputs: {sales: {path: in.csv, format: csv}}\npartition_keys: [shop]");
    let ran = job.run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.messages(), @"
    job test: 2 workers
    Job test did not begin: input 'sales' has no column 'shop', which partition_keys names; its columns are: store, x
    ");
}

/// The ids and command lines of the child processes of `parent`.
fn children(parent: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent_in_stat = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        if parent_in_stat == Some(&parent.to_string()) {
            let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, command.replace('\0', " ").trim_end().to_owned()));
        }
    }
    found
}

#[test]
fn a_killed_shuffle_process_is_replaced() {
    const ROWS: u32 = 100_000;
    let table = slow_table(ROWS);
    let mut job = TestJob::new(&guest("returns_keys"))
        .file("in/a.csv", &table)
        .file("in/b.csv", &table)
        .yaml(
            "inputs: {rows: {path: in, format: csv}}\npartition_keys: [key]\n\
         process_count_per_node: 2",
        );
    job = job.file("in/c.csv", "key,x\n50,last\n");
    let mut running = job.start(&[]);
    let mut killed = BTreeSet::new();
    // The test kills only two processes, because a third kill might exhaust the attempts of one task.
    running.until("two processes of the shuffle were killed", |running| {
        let children_of_planner = running
            .children()
            .into_iter()
            .filter(|(_, command)| command.ends_with("plan-worker"))
            .flat_map(|(planner, _)| children(planner));
        for (pid, command) in children_of_planner {
            if command == "sandmill shuffle-worker" && killed.len() < 2 && killed.insert(pid) {
                let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
            }
        }
        killed.len() == 2
    });
    let ran = running.wait();
    ran.exits_with(0).says("mini-batches  51\n");
    let output = ran.output();
    let rows: BTreeSet<&str> = output.lines().collect();
    assert_eq!(output.lines().count(), 2 * ROWS as usize + 1);
    assert_eq!(rows.len(), ROWS as usize + 1);
}

/// A table that is so large that grouping its rows takes some time.
fn slow_table(rows: u32) -> String {
    let mut table = "key,x\n".to_owned();
    for row in 0..rows {
        let _ = writeln!(table, "{},{row} and some more text to read", row % 50);
    }
    table
}

/// A job that groups the rows of a table by the column `key`.
fn by_key(table: &str) -> TestJob {
    TestJob::new(&guest("returns_keys")).file("in/a.csv", table).yaml(
        "inputs: {rows: {path: in, format: csv}}\npartition_keys: [key]\n\
         process_count_per_node: 2\nerror_threshold: 0",
    )
}

#[test]
fn ctrl_c_while_planning_leaves_no_files() {
    let job = by_key(&slow_table(400_000)).file("tmp/.keep", "");
    let tmp = job.path("tmp");
    let spilled_files = || fs::read_dir(&tmp).unwrap().count() - 1;
    let mut running =
        job.env("TMPDIR", tmp.to_str().unwrap()).spawn(&["plan", "job.yaml", "--gpus", "1"]);
    running.until("rows are spilled", |_| spilled_files() == 1);
    running.interrupt();
    let ran = running.wait();
    ran.exits_with(130).says("Ctrl-C: nothing was run\n");
    assert!(!ran.stderr.contains("error"), "{ran}");
    assert_eq!(spilled_files(), 0, "{ran}");
}

/// Rule M9: if a resume is stopped while it compares the inputs, the job does not change.
#[test]
fn ctrl_c_while_inputs_are_compared_changes_nothing() {
    // This job fails. Below, a larger table with the same columns replaces its table.
    let ran = by_key("key,x\n1,two\n2\n").run(&[]);
    ran.exits_with(42);
    let before = (ran.text("job/job.json"), ran.log("sys/events.jsonl"), ran.output());
    let job = ran.into_job().file("in/a.csv", slow_table(400_000));
    // Remove the files that the failed job has left.
    fs::remove_dir_all(job.path("job/spill")).unwrap();
    let mut running = job.start_resume(&[]);
    running.until("the plan is made again", |running| {
        let spill = running.dir().join("job/spill");
        fs::read_dir(spill).is_ok_and(|entries| entries.count() > 0)
    });
    running.interrupt();
    let ran = running.wait();
    ran.exits_with(130).says("Ctrl-C: the job was not started, and its files are unchanged");
    let after = (ran.text("job/job.json"), ran.log("sys/events.jsonl"), ran.output());
    assert!(before == after && !ran.has("job/spill"), "{ran}");
}
