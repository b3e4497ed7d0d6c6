//! Jobs on several machines whose inputs, side inputs and results are in S3, on moto's server. The nodes fetch the objects
//! by themselves. The job's store is a folder that the machines share.

use crate::cluster::{Cluster, sorted};
use crate::signers::Signer;
use sandmill_tests::{Ran, Running, Server, TestJob, guest};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How many objects the input of a job has.
const OBJECTS: usize = 60;
/// How long a test waits for something at most.
const PATIENCE: Duration = Duration::from_secs(120);
/// A fail point in the leader's environment kills it there.
const FAIL_POINT: &str = "SANDMILL_FAIL_POINT";

/// The environment variables with which a process uses the server as its S3 store. Its cache has this size, in a folder of
/// its own.
fn environment(moto: &Server, cluster: &Cluster, name: &str, size: &str) -> Vec<(String, String)> {
    let folder = cluster.path(&format!("{name}-objects"));
    let datastores =
        format!("cache: {{folder: {}, size: {size}}}\ndatastores: {{}}\n", folder.display());
    let variables = [
        ("AWS_ENDPOINT_URL", moto.url()),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "hushhush-key".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("SANDMILL_DATASTORES", cluster.file(name, &datastores)),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Starts agents whose caches have this size.
fn start_agents(cluster: &mut Cluster, moto: &Server, count: usize, size: &str) {
    for _ in 0..count {
        let name = format!("stores-{}.yaml", cluster.count());
        let variables = environment(moto, cluster, &name, size);
        cluster.add_agent(&[], &variables);
    }
}

/// A store with the objects `in/0.txt` and so on.
fn store(objects: usize) -> Server {
    let moto = Server::moto();
    moto.put("/box", "");
    for number in 0..objects {
        moto.put(&format!("/box/in/{number}.txt"), "x".repeat(number));
    }
    moto
}

/// A job with one row for each object, and results in the store.
fn job(moto: &Server, lines: &str) -> TestJob {
    job_of("hostile_files", moto, &format!("arguments: [--do, error, --on-batch, 9999]\n{lines}"))
}

/// As [`job`], and each mini-batch takes some time.
fn slow_job(moto: &Server) -> TestJob {
    job_of(
        "hostile_files",
        moto,
        "arguments: [--do, error, --on-batch, 9999, --nap, 150]\noutput: s3://box/results",
    )
}

fn job_of(entry_script: &str, moto: &Server, lines: &str) -> TestJob {
    let job = TestJob::new(&guest(entry_script)).yaml(&format!(
        "inputs: {{texts: 's3://box/in/'}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nnode_count: 2\n\
         job_store: shared/jobs\n{lines}"
    ));
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    moto.opened_for(job.datastores("1 MB", ""))
}

/// The rows of the objects but for these, sorted.
fn rows_but(objects: usize, missing: &[usize]) -> Vec<String> {
    let numbers = (0..objects).filter(|number| !missing.contains(number));
    let mut rows: Vec<String> = numbers.map(|number| format!("{number}.txt: {number}")).collect();
    rows.sort();
    rows
}

/// The rows in the store, sorted. `None` if they are not there.
fn results(moto: &Server) -> Option<Vec<String>> {
    let listed = moto.get("/box?list-type=2&prefix=results/");
    listed
        .contains("results/parallel_run_step.txt")
        .then(|| sorted(&moto.get("/box/results/parallel_run_step.txt")))
}

/// Waits until the results are in the store, and checks them.
#[track_caller]
fn until_complete(moto: &Server) {
    until("results are in the store", || results(moto).is_some());
    assert_eq!(results(moto), Some(rows_but(OBJECTS, &[])));
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// How many objects are in a cache folder.
fn cached(folder: &Path) -> usize {
    let slots = fs::read_dir(folder).into_iter().flatten().flatten();
    let data = slots.map(|slot| slot.path().join("data"));
    data.flat_map(|data| fs::read_dir(data).into_iter().flatten()).count()
}

#[test]
fn nodes_fetch_the_objects_of_their_mini_batches() {
    let moto = store(OBJECTS);
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let ran = cluster.run(job(&moto, "output: s3://box/results"), "leader");
    ran.exits_with(0).says("60 objects");
    assert_eq!(results(&moto), Some(rows_but(OBJECTS, &[])), "{ran}");
    // An empty object comes with the list, because it may stand for a folder.
    assert!(cached(&ran.dir().join("objects")) <= 1, "the leader needs no object");
    let objects: usize =
        (0..2).map(|n| cached(&cluster.path(&format!("stores-{n}.yaml-objects")))).sum();
    // A twin may fetch an object again.
    assert!((OBJECTS..=OBJECTS + 4).contains(&objects), "{objects} objects\n{ran}");
    // A resumed job finds that nothing has changed.
    let ran = cluster.run(ran.into_job(), "leader");
    ran.exits_with(0).says("nothing has changed");
}

/// A node dies, then the leader. An agent continues the job, and publishes the rows of an undisturbed run.
#[test]
fn a_node_and_the_leader_are_lost() {
    let moto = store(OBJECTS);
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 3, "1 MB");
    let mut running = cluster.start(slow_job(&moto), "leader", &[]);
    running.until("both nodes work", |running| {
        let said = running.stderr_so_far();
        said.contains("note: node 0 (") && said.contains("note: node 1 (")
    });
    until_saved(&mut running);
    cluster.agent_of(&running, 1).kill();
    running.until("the node is given up", |running| {
        running.stderr_so_far().contains("takes no part any longer")
    });
    running.kill_leader();
    cluster.until_one_says("leads the job test (", None);
    until_complete(&moto);
    drop(running);
}

/// Waits until some results are saved.
fn until_saved(running: &mut Running) {
    running.until("results are saved", |running| {
        let runs = fs::read_dir(running.dir().join("shared/jobs/test")).into_iter().flatten();
        runs.flatten().any(|run| {
            fs::read_dir(run.path().join("saved")).is_ok_and(|mut saved| saved.next().is_some())
        })
    });
}

/// A leader that dies after the job's end, but before its results are in the store, is replaced.
#[test]
fn results_are_published_by_another_machine() {
    let moto = store(OBJECTS);
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let job = job(&moto, "output: s3://box/results").env(FAIL_POINT, "finished");
    let running = cluster.start(job, "leader", &[]);
    until_complete(&moto);
    let ran = running.wait();
    assert_eq!(ran.code, -9, "{ran}");
}

/// A second machine continues the job of a lost leader, as soon as that one no longer shows that it is alive.
#[test]
fn a_standby_continues() {
    let moto = store(OBJECTS);
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let job = slow_job(&moto).env(FAIL_POINT, "results-saved:2");
    let first = cluster.start(job, "first", &["--no-takeover"]);
    let file = first.dir().join("job.yaml").display().to_string();
    let options = cluster.options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut words = vec!["run", &file, "--job-dir", "second", "--standby", "--no-takeover"];
    words.extend(options);
    // Workers of agents run in the folder of the first machine, until the second one is done.
    until("the first machine is lost", || {
        first.stderr_so_far().contains("takes part") && is_dead(&first)
    });
    let second = moto.opened_for(TestJob::empty().datastores("1 MB", "")).spawn(&words).wait();
    assert_eq!(second.code, 0, "{second}");
    second.says("continuing it here");
    until_complete(&moto);
    drop(first);
}

/// Whether the leader has ended.
fn is_dead(running: &Running) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", running.pid()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

/// Objects that change or vanish after the job was planned are failed items, as on one machine.
#[test]
fn objects_change_and_vanish() {
    let moto = store(8);
    let mut cluster = Cluster::new();
    let lines = "error_threshold: -1\noutput: s3://box/results";
    let mut running = cluster.start(job(&moto, lines), "leader", &[]);
    running
        .until("the objects are listed", |running| running.stderr_so_far().contains("8 objects, "));
    moto.delete("/box/in/3.txt");
    moto.put("/box/in/5.txt", "xxxyy");
    moto.put("/box/in/7.txt", "longer than before");
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(results(&moto), Some(rows_but(8, &[3, 5, 7])), "{ran}");
    let failed = ran.text("leader/logs/failed_items.csv");
    assert_eq!(failed.lines().count(), 1 + 3, "{failed}");
    let has = |name: &str, reason: &str| {
        let item = format!("/inputs/texts/{name},");
        failed.lines().any(|line| line.contains(&item) && line.contains(reason))
    };
    assert!(has("3.txt", "it does not exist"), "{failed}");
    assert!(has("5.txt", "it changed") && has("7.txt", "it changed"), "{failed}");
    assert!(!ran.stderr.contains("another node tries"), "{ran}");
}

/// A node whose cache has no room for an object leaves it to another node.
#[test]
fn another_node_fetches_what_one_cannot() {
    let moto = Server::moto();
    moto.put("/box", "");
    for number in 0..6 {
        moto.put(&format!("/box/in/{number}.txt"), "x".repeat(1_100_000 + number));
    }
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 1, "1 MB");
    start_agents(&mut cluster, &moto, 1, "20 MB");
    let lines = "error_threshold: -1\noutput: s3://box/results";
    let ran = cluster.run(job(&moto, lines), "leader");
    ran.exits_with(0).says("could not fetch /inputs/texts/");
    let expected: Vec<String> = (0..6).map(|n| format!("{n}.txt: {}", 1_100_000 + n)).collect();
    assert_eq!(results(&moto), Some(expected), "{ran}");

    // If two nodes fail, the items have failed.
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let ran = cluster.run(job(&moto, "error_threshold: -1\noutput: s3://box/others"), "leader");
    ran.exits_with(42);
    let failed = ran.text("leader/logs/failed_items.csv");
    assert_eq!(failed.matches("the cache has room for").count(), 6, "{failed}");
}

/// The caches are smaller than the input, so nodes remove objects that they no longer need.
#[test]
fn tables_are_larger_than_the_caches() {
    let moto = Server::moto();
    moto.put("/box", "");
    let rows =
        |table: usize| (0..100).map(move |row| format!("{table}-{row}-{}", "x".repeat(1000)));
    for table in 0..16 {
        let text: String = rows(table).map(|row| row + "\n").collect();
        moto.put(&format!("/box/in/{table:02}.csv"), format!("n\n{text}"));
    }
    let job = TestJob::new(&guest("echo_table")).yaml(
        "inputs: {t: {path: 's3://box/in/*.csv', format: csv}}\nmini_batch_size: 30 KB\n\
         process_count_per_node: 2\nnode_count: 2\narguments: [--rows]\n\
         output: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let ran = cluster.run(moto.opened_for(job.datastores("1 MB", "")), "leader");
    ran.exits_with(0);
    let mut expected: Vec<String> = (0..16).flat_map(rows).collect();
    expected.sort();
    assert_eq!(sorted(&ran.text("shared/out/parallel_run_step.txt")), expected, "{ran}");
}

/// A leader is lost when it has planned a table in the store. The next one, with an empty cache, does not fetch the objects
/// again that are planned.
#[test]
fn the_plan_of_a_table_in_the_store_is_continued() {
    const TABLES: usize = 40;
    let moto = Server::moto();
    moto.put("/box", "");
    // The columns come from the first megabyte.
    let padding = |table: usize| "x".repeat(if table == 0 { 100_000 } else { 1 });
    let rows = |table: usize| (0..20).map(move |row| format!("{table}-{row}-{}", padding(table)));
    for table in 0..TABLES {
        let text: String = rows(table).map(|row| row + "\n").collect();
        moto.put(&format!("/box/in/{table:02}.csv"), format!("n\n{text}"));
    }
    let job = TestJob::new(&guest("echo_table")).yaml(
        "inputs: {t: {path: 's3://box/in/*.csv', format: csv}}\nmini_batch_size: 5 rows\n\
         process_count_per_node: 2\nnode_count: 2\narguments: [--rows, --nap, '100']\n\
         output: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "10 MB");
    let job = moto.opened_for(job.datastores("10 MB", "")).env(FAIL_POINT, "journaled:30");
    let ran = cluster.start(job, "first", &["--no-takeover"]).wait();
    assert_eq!(ran.code, -9, "{ran}");
    let objects = ran.dir().join("objects");
    assert!(cached(&objects) > TABLES / 2, "the first leader has planned {}", cached(&objects));
    fs::remove_dir_all(&objects).unwrap();
    let ran = cluster.start(ran.into_job().env(FAIL_POINT, ""), "second", &[]).wait();
    ran.exits_with(0).says("continuing it here");
    assert!(cached(&objects) < TABLES / 2, "the next leader has fetched {}", cached(&objects));
    let mut expected: Vec<String> = (0..TABLES).flat_map(rows).collect();
    expected.sort();
    assert_eq!(sorted(&ran.text("shared/out/parallel_run_step.txt")), expected, "{ran}");
}

/// Rows that are grouped by a part of their objects' names.
#[test]
fn tables_are_grouped_by_their_names() {
    let moto = Server::moto();
    moto.put("/box", "");
    for day in 0..4 {
        for hour in 0..3 {
            moto.put(&format!("/box/in/{day}/{hour}.csv"), format!("n\n{day}{hour}\n"));
        }
    }
    let job = TestJob::new(&guest("echo_table")).yaml(
        "inputs: {t: {path: 's3://box/in/', format: csv, partition_format: '{day}/{hour}.csv'}}\n\
         partition_keys: [day]\nprocess_count_per_node: 1\nnode_count: 2\narguments: [--rows]\n\
         output: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let ran = cluster.run(moto.opened_for(job.datastores("1 MB", "")), "leader");
    ran.exits_with(0).says("mini-batches  4");
    assert_eq!(ran.text("shared/out/parallel_run_step.txt").lines().count(), 12, "{ran}");
}

/// Each machine has its own copy of a side input, and the leader finds that all copies are the same.
#[test]
fn side_inputs_come_from_the_store() {
    let moto = store(6);
    moto.put("/box/words/a.txt", "first");
    moto.put("/box/words/deep/b.txt", "second");
    let mut cluster = Cluster::new();
    start_agents(&mut cluster, &moto, 2, "1 MB");
    let lines = "side_inputs: {words: 's3://box/words/'}\noutput: s3://box/results";
    let ran = cluster.run(job(&moto, lines), "leader");
    ran.exits_with(0).says("note: node 0 (");
    assert_eq!(results(&moto), Some(rows_but(6, &[])), "{ran}");
}

/// A machine that may not open the inputs takes no part, and says why. The others run the job.
#[test]
fn machines_without_access_take_no_part() {
    let server = Server::objects(0);
    let url = server.url();
    let stores = |secret: &str| {
        format!(
            "datastores:\n  blobs:\n    type: azure\n    account: acc\n    container: blobs\n    endpoint: {url}/acc\n    \
             prefix: in\n    tenant_id: tenant\n    client_id: me\n    client_secret: {secret}\n    \
             authority_host: {url}\n"
        )
    };
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    let variables = |path: String| vec![("SANDMILL_DATASTORES".to_owned(), path)];
    let good = variables(cluster.file("good.yaml", &stores("hushhush-client-secret")));
    let wrong = variables(cluster.file("wrong.yaml", &stores("hushhush-of-another")));
    let none = variables(cluster.file("none.yaml", "datastores: {}\n"));
    let key = ada.public();
    let signer = |lines: &str| format!("signers:\n  ada: {{keys: ['{key}']{lines}}}\n");
    let with_policy =
        |name: &str, text: &str| vec!["--policy".to_owned(), cluster.file(name, text)];
    let job = TestJob::new(&guest("echo_files")).yaml(
        "inputs: {texts: {path: '*.txt', datastore: blobs}}\nmini_batch_size: 1\nprocess_count_per_node: 1\n\
         node_count: 2\noutput: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let job = job.env("SANDMILL_DATASTORES", &good[0].1);
    let mut running = cluster.start(job, "leader", &["--signing-key", &ada.file]);
    let machines = [
        (
            with_policy("other.yaml", &format!("datastores: [others]\n{}", signer(""))),
            &good,
            "the operator's policy allows only the datastores others",
        ),
        (
            with_policy(
                "narrow.yaml",
                &format!("datastores: [blobs, others]\n{}", signer(", datastores: [others]")),
            ),
            &good,
            "the operator's policy allows only the datastores others",
        ),
        (Vec::new(), &wrong, "using the credentials of datastore blobs"),
        (Vec::new(), &none, "none.yaml has no datastore \"blobs\""),
    ];
    for (number, (options, variables, why)) in machines.iter().enumerate() {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let agent = cluster.agent_with(10 + number, &options, variables);
        agent.until(why);
        running.until("the leader says why", |running| running.stderr_so_far().contains(why));
    }
    cluster.add_agent(&[], &good);
    let ran: Ran = running.wait();
    ran.exits_with(0);
    assert_eq!(
        sorted(&ran.text("shared/out/parallel_run_step.txt")),
        ["a-1.txt: 10", "b-2.txt: 20"]
    );
}
