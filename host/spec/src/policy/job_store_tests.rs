use super::tests::{JOB, PolicyFixture, ROOTS};
use insta::assert_snapshot;
use std::fs;

/// Without `roots.job_stores`, a policy with roots allows no `job_store`.
#[test]
fn a_job_store_must_be_below_its_roots() {
    let fixture = PolicyFixture::new();
    fs::create_dir(fixture.base.join("stores")).unwrap();
    let roots = format!("{ROOTS}  job_stores: ['[dir]/stores']\n");
    let job = |policy: &str, store: &str| {
        fixture.job(policy, &format!("{JOB}output: out\njob_store: {store}\n"), &[])
    };
    let refused = [job(ROOTS, "stores"), job(&roots, "out/x"), job(&roots, "stores/../in")];
    let reported = refused.map(|job| job.unwrap_err().to_string() + "\n").concat();
    assert_snapshot!(reported, @"
    job.yaml:5: job_store: found stores; the operator's policy allows no job stores (policy.yaml)
    job.yaml:5: job_store: found out/x; the operator's policy allows job stores only below stores (policy.yaml:7)
    job.yaml:5: job_store: found stores/../in, which is in; the operator's policy allows job stores only below stores (policy.yaml:7)
    ");
    assert!(job(&roots, "stores/deep").is_ok());
}
