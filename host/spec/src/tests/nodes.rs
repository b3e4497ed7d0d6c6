//! Tests of `node_count`, and of what a job with a broker needs.

use super::{LEAST, SpecFixture, describe, errors, job, job_with, version2};
use crate::JobSpec;

/// The smallest job file that may run with a broker.
const SHARED: &str =
    "entry_script: script.wasm\ninputs: {images: data}\noutput: results\njob_store: stores\n";

/// What a job with a broker needs besides the settings of an Azure file.
const SHARED_FOLDERS: [(&str, &str); 2] = [("output", "results"), ("job_store", "stores")];

fn job_with_broker(text: &str, set: &[(&str, &str)]) -> JobSpec {
    let spec = SpecFixture::new().load_with_broker(text, set);
    spec.unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors_with_broker(text: &str, set: &[(&str, &str)]) -> String {
    SpecFixture::new().load_with_broker(text, set).expect_err("the job file has errors")
}

/// The lines about the number of nodes.
fn notes_of_nodes(spec: &JobSpec) -> String {
    let notes = describe(spec);
    let notes: Vec<&str> = notes.lines().filter(|line| line.contains("_count: ")).collect();
    notes.join("\n")
}

/// C5: without a broker, a job runs on one machine.
#[test]
fn a_job_without_a_broker_has_one_node() {
    assert_eq!(job(LEAST).node_count, 1);
    assert_eq!(job(&format!("{LEAST}node_count: 1\n")).node_count, 1);
    insta::assert_snapshot!(errors(&format!("{LEAST}node_count: 4\n")), @"job.yaml:3: node_count: found 4; without a broker, a job runs on this machine only: leave node_count out, or connect machines by a broker (--broker URL; see docs/nodes.md)");
    insta::assert_snapshot!(errors(&format!("{LEAST}node_count: 1001\n")), @"job.yaml:3: node_count: found 1001; without a broker, a job runs on this machine only: leave node_count out, or connect machines by a broker (--broker URL; see docs/nodes.md)");
    insta::assert_snapshot!(errors(&format!("{LEAST}node_count: 0\n")), @"job.yaml:3: node_count: found 0; expected a whole number of machines from 1 to 1000 (e.g. 4)");
}

/// C5: with a broker, the number of the file is used.
#[test]
fn a_job_with_a_broker_has_the_nodes_of_its_file() {
    for (text, count) in [("", 1), ("node_count: 1\n", 1), ("node_count: 1000\n", 1000)] {
        let spec = job_with_broker(&format!("{SHARED}{text}"), &[]);
        assert_eq!(spec.node_count, count, "{text}");
        assert!(spec.notices.is_empty(), "{:?}", spec.notices);
    }
    assert_eq!(job_with_broker(SHARED, &[("node_count", "4")]).node_count, 4);
    insta::assert_snapshot!(errors_with_broker(&format!("{SHARED}node_count: 1001\n"), &[]), @"job.yaml:5: node_count: found 1001; expected a whole number of machines from 1 to 1000 (e.g. 4)");
    insta::assert_snapshot!(errors_with_broker(SHARED, &[("node_count", "0")]), @"--set node_count: found 0; expected a whole number of machines from 1 to 1000 (e.g. 4)");
}

const SAVED: &str = "parallel_run_config:\n  entry_script: script.wasm\n  node_count: 4\n\
                     inputs: {images: data}\n";

/// C5: version 1.
#[test]
fn nodes_of_a_saved_file() {
    let spec = job(SAVED);
    assert_eq!(spec.node_count, 1);
    insta::assert_snapshot!(notes_of_nodes(&spec), @"node_count: the file asks for 4 nodes; the job runs on this machine only, with process_count_per_node workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)");
    let spec = job_with_broker(SAVED, &SHARED_FOLDERS);
    assert_eq!(spec.node_count, 4);
    assert_eq!(notes_of_nodes(&spec), "");
    let too_many = SAVED.replace("node_count: 4", "node_count: 1001");
    insta::assert_snapshot!(errors_with_broker(&too_many, &SHARED_FOLDERS), @"job.yaml:3: node_count: found 1001; expected a whole number of machines from 1 to 1000 (e.g. 4)");
    assert_eq!(job(&too_many).node_count, 1, "Azure's compute is ignored without a broker");
}

/// C5, C29: version 2.
#[test]
fn nodes_of_a_version_2_file() {
    let with = |text: &str| format!("{}{text}", version2::LEAST);
    for text in ["resources: {instance_count: 3}\n", "instance_count: 3\n"] {
        let spec = job(&with(text));
        assert_eq!(spec.node_count, 1);
        assert!(notes_of_nodes(&spec).contains("the file asks for 3 nodes"), "{text}");
        let spec = job_with_broker(&with(text), &SHARED_FOLDERS);
        assert_eq!(spec.node_count, 3);
        assert_eq!(notes_of_nodes(&spec), "");
    }
    let shared = |text: &str| errors_with_broker(&with(text), &SHARED_FOLDERS);
    insta::assert_snapshot!(shared("resources: {instance_count: 0}\n"), @"job.yaml:6: resources.instance_count: found 0; expected a whole number of machines from 1 to 1000 (e.g. 4)");
    insta::assert_snapshot!(shared("resources: {instance_count: 1001}\n"), @"job.yaml:6: resources.instance_count: found 1001; expected a whole number of machines from 1 to 1000 (e.g. 4)");
    insta::assert_snapshot!(shared("instance_count: 99999999999\n"), @"job.yaml:6: instance_count: found 99999999999; expected a whole number of machines from 1 to 1000 (e.g. 4)");
}

/// C5: -1 means all nodes of a cluster. A broker has no such number, so the job gets one node.
#[test]
fn all_nodes_of_a_cluster_are_one_node() {
    let all = format!("{}resources: {{instance_count: -1}}\n", version2::LEAST);
    insta::assert_snapshot!(notes_of_nodes(&job(&all)), @"resources.instance_count: the file asks for all nodes of a cluster; the job runs on this machine only, with max_concurrency_per_instance workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)");
    let spec = job_with_broker(&all, &SHARED_FOLDERS);
    assert_eq!(spec.node_count, 1);
    insta::assert_snapshot!(notes_of_nodes(&spec), @"resources.instance_count: the file asks for all nodes of a cluster; the job runs on 1 machine: to use more, give their number by --set node_count=4");
    // The command line wins, as the notice says.
    for key in ["node_count", "resources.instance_count"] {
        let set = [SHARED_FOLDERS[0], SHARED_FOLDERS[1], (key, "4")];
        let spec = job_with_broker(&all, &set);
        assert_eq!((spec.node_count, notes_of_nodes(&spec).as_str()), (4, ""), "{key}");
    }
    assert_eq!(notes_of_nodes(&job_with(&all, &[("node_count", "1")])), "");
}

#[test]
fn a_job_with_a_broker_needs_a_job_store() {
    insta::assert_snapshot!(errors_with_broker(LEAST, &[]), @"job.yaml: job_store: missing; with a broker, a job needs it: set job_store to the path of a folder that all machines share, or to an address in a store");
    insta::assert_snapshot!(errors_with_broker(&format!("{LEAST}node_count: 2\n"), &[]), @"job.yaml:3: node_count: with a broker, a job needs job_store: set job_store to the path of a folder that all machines share, or to an address in a store");
    insta::assert_snapshot!(errors_with_broker(LEAST, &[("node_count", "2")]), @"--set node_count: with a broker, a job needs job_store: set job_store to the path of a folder that all machines share, or to an address in a store");
    insta::assert_snapshot!(errors_with_broker(SAVED, &[]), @"job.yaml:3: node_count: with a broker, a job needs job_store: set job_store to the path of a folder that all machines share, or to an address in a store");
    let version_2 = format!("{}resources: {{instance_count: 3}}\n", version2::LEAST);
    insta::assert_snapshot!(errors_with_broker(&version_2, &[]), @"job.yaml:6: resources.instance_count: with a broker, a job needs job_store: set job_store to the path of a folder that all machines share, or to an address in a store");
    // A wrong job store has an error of its own.
    insta::assert_snapshot!(errors_with_broker(&format!("{LEAST}output: results\njob_store: []\n"), &[]), @"job.yaml:4: job_store: found a list; expected a path to a folder, or an address in a store");
}

/// Inputs, side inputs, models, results and the commit log may be in stores.
#[test]
fn a_job_with_a_broker_may_use_stores() {
    let stored = r#"
entry_script: script.wasm
inputs:
  images: {path: "s3://bucket/images/*.csv", format: csv}
  more: {paths: ["https://example.org/a.csv", "https://example.org/b.csv"], format: csv}
  nightly: {path: a.csv, datastore: nightly, format: csv}
side_inputs:
  labels: az://container/labels
  local: weights
models:
  digits: {path: "gs://bucket/digits.onnx"}
output: s3://bucket/results
"#;
    let spec = job_with_broker(&format!("{stored}job_store: stores\n"), &[]);
    assert_eq!(spec.addresses().len(), 7);
    insta::assert_snapshot!(errors_with_broker(stored, &[]), @"job.yaml: job_store: missing; with a broker, a job needs it: set job_store to the path of a folder that all machines share, or to an address in a store");
    let spec = job_with_broker(&format!("{stored}job_store: s3://bucket/jobs\n"), &[]);
    assert_eq!(spec.addresses().len(), 8);
    let both = [("output", "s3://bucket/results"), ("job_store", "s3://bucket/jobs")];
    assert!(SpecFixture::new().load_with_broker(SHARED, &both).is_ok());
    let keyed =
        "entry_script: script.wasm\ninputs: {t: {path: a.csv, format: csv}}\npartition_keys: [a]\n";
    assert!(SpecFixture::new().load_with_broker(keyed, &both).is_ok());
}

#[test]
fn copies_for_a_parent_need_a_job_without_a_broker() {
    let parent = format!("{SHARED}parent: jobs/up\ncopy_logs_to_parent: true\n");
    assert!(SpecFixture::new().load(&parent, &[]).is_ok());
    insta::assert_snapshot!(errors_with_broker(&parent, &[]), @"job.yaml:5: parent: copies for a parent job are not yet possible with a broker: remove parent, copy_logs_to_parent and push_metrics_to_parent");
    // Without these copies, a parent has no effect.
    let spec = job_with_broker(&parent, &[("copy_logs_to_parent", "false")]);
    assert_eq!(spec.parent, None);
}
