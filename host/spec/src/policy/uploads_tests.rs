use super::tests::{JOB, PolicyFixture, ROOTS};
use crate::JobSpec;
use crate::model::Source;
use std::fs;
use std::os::unix::fs::symlink;

/// A policy with job stores, and a job that reads this input.
fn job(fixture: &PolicyFixture, input: &str) -> Result<JobSpec, String> {
    let roots = format!("{ROOTS}  job_stores: ['[dir]/stores']\n");
    let text = format!("{JOB}output: out\njob_store: stores\n");
    let set = [("inputs.a.path", input)];
    fixture.job(&roots, &text, &set).map_err(|errors| errors.to_string())
}

#[test]
fn only_uploaded_data_of_the_job_is_allowed() {
    let fixture = PolicyFixture::new();
    let digest = "0f".repeat(32);
    for name in ["x/uploads", "x/sources", "other/uploads"] {
        fs::create_dir_all(fixture.base.join("stores").join(name).join(&digest)).unwrap();
    }
    let uploads = fixture.base.join("stores/x/uploads");
    symlink(fixture.base.join("outside"), uploads.join("ab".repeat(32))).unwrap();
    symlink(fixture.base.join("outside"), uploads.join(&digest).join("link")).unwrap();
    let own = format!("stores/x/uploads/{digest}");
    for allowed in [own.clone(), format!("{own}/**"), format!("{own}/a.csv")] {
        let spec = job(&fixture, &allowed).unwrap();
        assert_eq!(spec.name, "x", "{allowed}");
    }
    for refused in [
        format!("stores/other/uploads/{digest}"),
        format!("stores/x/sources/{digest}"),
        "stores/x/uploads".to_owned(),
        "stores/x/uploads/*/a.csv".to_owned(),
        "stores/x".to_owned(),
        format!("stores/x/uploads/{}", "ab".repeat(32)),
        format!("{own}/link"),
        format!("{own}/../../sources"),
    ] {
        let error = job(&fixture, &refused).unwrap_err();
        assert!(error.contains("the operator's policy allows inputs only below in"), "{error}");
    }
    // The same just before the job begins. The output cannot be there.
    let spec = job(&fixture, "in").unwrap();
    let policy = fixture.policy(&format!("{ROOTS}  job_stores: ['[dir]/stores']\n")).unwrap();
    let source = Source::new("a", uploads.join(&digest));
    let spec = JobSpec { output: Some(uploads.join(&digest)), ..spec };
    let error = policy.check(&spec, &[source], None).unwrap_err().to_string();
    assert!(error.contains("output: ") && !error.contains("input 'a'"), "{error}");
}
