//! SQLite databases as tables.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, with the place")]

use insta::assert_snapshot;
use rusqlite::Connection;
use sandmill_tests::{Ran, TestJob, guest};
use std::fs;

/// Creates a database with `count` orders, with ids from `first` on.
fn orders(job: &TestJob, file: &str, first: i64, count: i64) {
    let path = job.path(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut database = Connection::open(path).unwrap();
    let transaction = database.transaction().unwrap();
    transaction.execute_batch("create table orders (id integer primary key, text text)").unwrap();
    for id in first..first + count {
        let text = format!("order {id}");
        transaction.execute("insert into orders values (?, ?)", (id, text)).unwrap();
    }
    transaction.commit().unwrap();
}

fn job() -> TestJob {
    TestJob::new(&guest("echo_table")).yaml(
        "inputs: {orders: {path: in, format: sqlite, query: 'select id from orders order by id'}}\n\
         process_count_per_node: 2\narguments: [--rows]",
    )
}

fn rows(ran: &Ran) -> Vec<i64> {
    let mut rows: Vec<i64> = ran.output().lines().map(|line| line.parse().unwrap()).collect();
    rows.sort_unstable();
    rows
}

/// Rule M3 (docs/parallel-run-step.md): the result of a query is never split, even if it is large.
#[test]
fn a_database_is_one_mini_batch() {
    let job = job().yaml("mini_batch_size: 3 rows\nos_sandbox: required");
    orders(&job, "in/a.sqlite", 0, 1000);
    orders(&job, "in/b.db", 1000, 7);
    orders(&job, "in/none.db", 0, 0);
    let ran = job.command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    assert_snapshot!(ran.redacted_stdout(), @"
    mini-batch  input       items  where
             0  orders       1000  a.sqlite, from row 1, about 8000 bytes
             1  orders          7  b.db, from row 1, about 56 bytes
    ");
    assert_snapshot!(ran.redacted(), @"
    note: mini_batch_size is 3 rows, but does not cut inputs of format sqlite (inputs.orders): the whole result of each database is one mini-batch
    note: columns of input orders: id int64
    note: [DIR]/in/none.db holds no rows and gives no mini-batch
    2 mini-batches, 1,007 items, 7.9 KiB; 2 workers; the results go to jobs/test/output
    ");
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    assert_eq!(rows(&ran), (0..1007).collect::<Vec<_>>());
    assert_eq!(ran.attempts("RUN_DONE").len(), 2, "{ran}");
}

/// An unreadable file fails only its own mini-batch. A failed row is reported with its number in the query's
/// result.
#[test]
fn databases_that_cannot_be_read_fail_alone() {
    let job = job();
    orders(&job, "in/a.sqlite", 0, 20);
    orders(&job, "in/d.sqlite", 0, 20);
    let good = fs::read(job.path("in/a.sqlite")).unwrap();
    let database = Connection::open(job.path("in/d.sqlite")).unwrap();
    database.execute_batch("drop table orders; create table bills (id)").unwrap();
    drop(database);
    let job = job
        .file("in/b.sqlite", "id,text\n1,one\n")
        .file("in/c.sqlite", &good[..good.len() / 2])
        // SQLite keeps these files next to a database. They are not read as databases.
        .file("in/a.sqlite-shm", vec![0; 32768])
        .file("in/a.sqlite-journal", "");
    let arguments = ["--set", "arguments=[--rows, --fail, '13']", "--set", "error_threshold=4"];
    let ran = job.run(&arguments);
    ran.exits_with(0);
    assert_eq!(rows(&ran), (0..20).filter(|id| *id != 13).collect::<Vec<_>>());
    let failed = ran.failed_items().replace(&ran.dir().display().to_string(), "[DIR]");
    let mut lines: Vec<_> = failed.lines().collect();
    lines[1..].sort_unstable();
    assert_snapshot!(lines.join("\n"), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    0,"/inputs/orders/a.sqlite, row 14",/inputs/orders/a.sqlite,,14,1,[WORKER],"""13"" is not wanted"
    1,/inputs/orders/b.sqlite,/inputs/orders/b.sqlite,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/in/b.sqlite is not sqlite, but text, possibly CSV: write format: csv; or name the files with a glob that leaves it out"
    2,/inputs/orders/c.sqlite,/inputs/orders/c.sqlite,,,1,[WORKER],the whole mini-batch (1 item): [DIR]/in/c.sqlite is a damaged database (database disk image is malformed); copy what can be read of it to a new one with sqlite3's command .recover
    3,/inputs/orders/d.sqlite,/inputs/orders/d.sqlite,,,1,[WORKER],the whole mini-batch (1 item): [DIR]/in/d.sqlite cannot be queried: no such table: orders; its tables are: bills
    "#);
}

#[test]
fn folders_of_databases_make_columns_and_groups() {
    let job = job();
    orders(&job, "in/k=a/1.sqlite", 0, 3);
    orders(&job, "in/k=b/1.sqlite", 3, 2);
    orders(&job, "in/k=a/2.sqlite", 5, 1);
    let ran = job.run(&[
        "--set",
        "partition_keys=[k]",
        "--set",
        "inputs.orders.query=select id from orders",
    ]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["0,a", "1,a", "2,a", "3,b", "4,b", "5,a"]);
    assert_eq!(ran.attempts("RUN_DONE").len(), 2, "{ran}");
}

/// A job is not resumed if its query has changed: the new query gives other rows, which would not
/// match the finished rows.
#[test]
fn a_job_is_not_resumed_with_another_query() {
    let job = job();
    orders(&job, "in/a.sqlite", 0, 3);
    let crashed = job.env("SANDMILL_FAIL_POINT", "end-committed").run(&[]);
    crashed.exits_with(-9);
    let job = crashed.into_job().env("SANDMILL_FAIL_POINT", "");
    let ran = job.run(&["--set", "inputs.orders.query=select 1 as id from orders"]);
    ran.exits_with(2).says("inputs.orders.query: was");
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    assert_eq!(rows(&ran), [0, 1, 2]);
}

/// A timeout of the job ends an endless query.
#[test]
fn an_endless_query_is_ended() {
    let job = job().yaml("first_task_creation_timeout: 3");
    orders(&job, "in/a.sqlite", 0, 3);
    let endless = "inputs.orders.query=with recursive n(i) as (select 1 union all select i + 1 from n) \
                   select count(*) as c from n";
    let ran = job.run(&["--set", endless]);
    ran.exits_with(42).says("first_task_creation_timeout");
}
