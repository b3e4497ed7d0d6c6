//! Mini-batches that read what the leader's planner has written: grouped rows, and texts that it has unpacked. The nodes
//! fetch this from the job's store.

use crate::cluster::{Cluster, sorted};
use crate::stored::{assert_nothing_left, cluster, rows, run_job_with_kills};
use sandmill_tests::{Running, Server, TestJob, guest, python};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// How many groups the rows have.
const GROUPS: usize = 40;
/// How many rows each file has.
const ROWS: usize = 200;

/// Rows with keys and numbers.
fn csv(first: usize) -> String {
    let mut text = "key,number\n".to_owned();
    for number in first..first + ROWS {
        writeln!(text, "k{},{number}", number * 7 % GROUPS).unwrap();
    }
    text
}

/// Packs files of a folder with gzip or zstd, as their endings say.
fn pack(job: &TestJob, names: &[&str]) {
    let script = "import gzip, pyarrow, sys\n\
                  for path in sys.argv[1:]:\n\
                  \x20   data = open(path, 'rb').read()\n\
                  \x20   zstd = pyarrow.Codec('zstd')\n\
                  \x20   packed = gzip.compress(data) if path.endswith('.gz') else zstd.compress(data, asbytes=True)\n\
                  \x20   open(path, 'wb').write(packed)\n";
    let paths = names.iter().map(|name| job.path(&format!("in/{name}")));
    let packed = Command::new(python()).args(["-c", script]).args(paths).status().unwrap();
    assert!(packed.success());
}

/// A job over four files, two of which are packed. Each row of its results has all rows of its mini-batch.
fn job(lines: &str) -> TestJob {
    let job = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{rows: {{path: in, format: csv}}}}\nprocess_count_per_node: 2\n\
         arguments: [--groups, --nap, '300']\n{lines}"
    ));
    let names = ["a.csv", "b.csv.gz", "c.csv.zst", "d.csv"];
    let job = (0..)
        .zip(names)
        .fold(job, |job, (number, name)| job.file(&format!("in/{name}"), csv(number * ROWS)));
    pack(&job, &names[1..3]);
    job
}

/// The lines of a job whose results and log are in this bucket.
fn in_bucket(moto: &Server, bucket: &str, lines: &str) -> TestJob {
    moto.put(&format!("/{bucket}"), "");
    let stores = format!("output: s3://{bucket}/results\njob_store: s3://{bucket}/jobs");
    moto.opened_for(job(&format!("{stores}\n{lines}")))
}

/// What a job with these lines gives on one machine.
#[track_caller]
fn expected(lines: &str) -> Vec<String> {
    let lines = lines.replace("node_count: 3\n", "").replace("node_count: 2\n", "");
    let ran = job(&lines).run(&["--set", "arguments=[--groups]"]);
    ran.exits_with(0);
    ran.sorted_output()
}

const KEYED: &str = "node_count: 3\npartition_keys: [key]\n";
const CUT: &str = "node_count: 3\nmini_batch_size: 20 rows\n";

/// A job with these lines loses an agent and its leader, and gives what it gives on one machine.
#[track_caller]
fn assert_survives(lines: &str) {
    let moto = Server::moto();
    let _cluster = run_job_with_kills(&moto, &in_bucket(&moto, "box", lines));
    let found = sorted(&rows(&moto));
    assert_eq!(found.len(), 4 * ROWS);
    assert_eq!(found, expected(lines));
    assert_nothing_left(&moto);
}

#[test]
fn grouped_rows_survive_the_loss_of_an_agent_and_of_the_leader() {
    assert_survives(KEYED);
}

#[test]
fn packed_texts_survive_the_loss_of_an_agent_and_of_the_leader() {
    assert_survives(CUT);
}

/// Packed files that are grouped by their folders, together with others.
#[test]
fn packed_files_are_grouped_with_others() {
    let moto = Server::moto();
    moto.put("/box", "");
    let lines = "node_count: 2\npartition_keys: [half]\n";
    let with_folders = |lines: &str| {
        let job = moto.opened_for(job(lines));
        for (number, name) in ["a.csv", "b.csv.gz", "c.csv.zst", "d.csv"].iter().enumerate() {
            let folder = job.path(&format!("in/half={}", number / 2));
            fs::create_dir_all(&folder).unwrap();
            fs::rename(job.path(&format!("in/{name}")), folder.join(name)).unwrap();
        }
        job
    };
    let alone = with_folders("partition_keys: [half]").run(&[]);
    alone.exits_with(0);
    let stores = "output: s3://box/results\njob_store: s3://box/jobs";
    let mut cluster = cluster(&moto);
    cluster.start_agents(2);
    let ran = cluster.run(with_folders(&format!("{stores}\n{lines}")), "leader");
    ran.exits_with(0);
    assert_eq!(sorted(&rows(&moto)), alone.sorted_output(), "{ran}");
}

/// Starts a job without nodes, and waits until the store has what its mini-batches read.
fn planned(moto: &Server, cluster: &Cluster, lines: &str) -> (Running, Vec<String>) {
    let job = in_bucket(moto, "box", lines);
    let mut running = cluster.start(job, "leader", &["--no-takeover"]);
    let spilled = || {
        let mut names = moto.names("box", "jobs/");
        names.retain(|name| name.contains("/spill/"));
        names
    };
    running.until("rows are in the store", |_| !spilled().is_empty());
    (running, spilled())
}

/// Waits for the end of a job of which some mini-batches cannot be read. All rows of the others must be right.
fn with_failures(
    (moto, cluster): (&Server, &mut Cluster),
    running: Running,
    lines: &str,
    reason: &str,
) {
    cluster.start_agents(2);
    let ran = running.wait();
    ran.exits_with(0).says("could not fetch the input of mini-batch");
    let failed = ran.text("leader/logs/failed_items.csv");
    assert!(failed.contains(reason), "{failed}");
    let (found, all) = (sorted(&rows(moto)), expected(lines));
    assert!(found.len() < all.len() && found.iter().all(|row| all.contains(row)), "{ran}");
}

/// Bytes in the store that are not what the leader has written are never read as rows.
#[test]
fn damaged_rows_in_the_store_are_noticed() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    let lines = format!("{KEYED}error_threshold: -1\n");
    let (running, spilled) = planned(&moto, &cluster, &lines);
    for name in &spilled {
        let mut content = moto.get_bytes(&format!("/box/{name}"));
        // A number of the first group becomes another one.
        let digit = content.iter().position(u8::is_ascii_digit).unwrap();
        content[digit] ^= 1;
        moto.put(&format!("/box/{name}"), content);
    }
    let reason = "is not what the leader has written";
    with_failures((&moto, &mut cluster), running, &lines, reason);
}

#[test]
fn rows_that_are_missing_in_the_store_are_noticed() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    let lines = format!("{CUT}error_threshold: -1\n");
    let (running, spilled) = planned(&moto, &cluster, &lines);
    moto.delete(&format!("/box/{}", spilled[0]));
    with_failures((&moto, &mut cluster), running, &lines, "is missing in the job store");
}

/// The same with folders that the machines share.
#[test]
fn grouped_rows_and_packed_texts_in_shared_folders() {
    for lines in [KEYED, CUT] {
        let mut cluster = Cluster::new();
        let job = job(&format!("output: shared/out\njob_store: shared/jobs\n{lines}"));
        fs::create_dir_all(job.path("shared/jobs")).unwrap();
        cluster.start_agents(3);
        let mut running = cluster.start(job, "leader", &["--no-takeover"]);
        let note = "note: node 1 (";
        running.until("node 1 works", |running| running.stderr_so_far().contains(note));
        cluster.agent_of(&running, 1).kill();
        let ran = running.wait();
        ran.exits_with(0);
        let found = sorted(&ran.text("shared/out/parallel_run_step.txt"));
        assert_eq!(found, expected(lines), "{ran}");
        for run in fs::read_dir(ran.dir().join("shared/jobs/test")).unwrap().flatten() {
            let left = fs::read_dir(run.path().join("spill")).into_iter().flatten().flatten();
            let left = left.flat_map(|leader| fs::read_dir(leader.path()).unwrap());
            assert_eq!(left.count(), 0, "{ran}");
        }
    }
}
