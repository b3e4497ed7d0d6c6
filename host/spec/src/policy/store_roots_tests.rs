use super::tests::PolicyFixture;
use crate::model::SignerKey;
use crate::{LoadContext, OperatorPolicy, load};
use insta::assert_snapshot;
use std::fs;

const ADA: SignerKey = SignerKey([1; 32]);
const BOB: SignerKey = SignerKey([2; 32]);

const JOB: &str = "name: x\nentry_script: src/component.wasm\n";

/// What a policy says about a job file with these lines: its errors.
fn errors(fixture: &PolicyFixture, policy: &OperatorPolicy, lines: &str) -> String {
    let path = fixture.base.join("job.yaml");
    fs::write(&path, format!("{JOB}{lines}")).unwrap();
    let loaded = load(&path, &[], LoadContext::sample(policy));
    loaded.map_or_else(|errors| fixture.redact(&errors.to_string()) + "\n", |_| String::new())
}

/// Addresses below `store_roots` are allowed, also without a datastore. Each use has its own.
#[test]
fn objects_must_be_below_their_store_roots() {
    let fixture = PolicyFixture::new();
    let policy = fixture
        .policy(
            "datastores: [nightly]\nstore_roots:\n  inputs: [s3://box/in/, datastore://nightly/ada]\n  \
             outputs: [s3://box/out]\n",
        )
        .unwrap();
    let all = "inputs:\n  a: s3://box/in/*.csv\n  b: datastore://nightly/ada/x\noutput: s3://box/out/x/\n";
    assert_eq!(errors(&fixture, &policy, all), "");
    let refused = [
        "inputs:\n  a: s3://box/in*/x.csv\n",
        "inputs:\n  a: s3://box/in/a.csv\n  b: datastore://nightly/adam/\n",
        "inputs: {a: datastore://other/ada/}\n",
        "inputs: {a: s3://box/in/}\noutput: s3://box/in/\n",
        "inputs: {a: s3://box/in/}\nside_inputs: {words: s3://box/in/words/}\n",
        "inputs: {a: s3://box/in/}\nmodels: {m: s3://box/in/m.onnx}\n",
        "inputs: {a: s3://box/in/}\noutput: s3://box/out/x\njob_store: s3://box/out/jobs\nnode_count: 1\n",
    ];
    assert_snapshot!(refused.map(|lines| errors(&fixture, &policy, lines)).concat(), @r#"
    job.yaml:4: inputs.a.path: found s3://box/in*/x.csv; the operator's policy allows inputs in stores only below s3://box/in/, datastore://nightly/ada (store_roots.inputs, policy.yaml:3)
    job.yaml:5: inputs.b.path: found datastore://nightly/adam/; the operator's policy allows inputs in stores only below s3://box/in/, datastore://nightly/ada (store_roots.inputs, policy.yaml:3)
    job.yaml:3: inputs.a.path: found datastore://other/ada/; the operator's policy allows only the datastores nightly (datastores, policy.yaml:1)
    job.yaml:4: output: found s3://box/in/; the operator's policy allows outputs in stores only below s3://box/out (store_roots.outputs, policy.yaml:4)
    job.yaml:4: side_inputs.words.path: found s3://box/in/words/; the operator's policy allows no side inputs in stores (store_roots, policy.yaml:2)
    job.yaml:4: models.m: found the model "m"; the operator's policy allows none (models, policy.yaml)
    job.yaml:4: models.m.path: found s3://box/in/m.onnx; the operator's policy allows no models in stores (store_roots, policy.yaml:2)
    job.yaml:5: job_store: found s3://box/out/jobs; the operator's policy allows no job stores in stores (store_roots, policy.yaml:2)
    "#);
}

/// A job may read what its submitter has uploaded into its own folder of the job store, and nothing else there.
#[test]
fn uploaded_data_of_the_job_is_allowed() {
    let fixture = PolicyFixture::new();
    let policy = fixture
        .policy("store_roots:\n  job_stores: [s3://box/jobs/]\n  outputs: [s3://box/out/]\n")
        .unwrap();
    let digest = "0f".repeat(32);
    let errors = |input: &str| {
        let lines = "output: s3://box/out/x/\njob_store: s3://box/jobs/\n";
        errors(&fixture, &policy, &format!("inputs: {{a: '{input}'}}\n{lines}"))
    };
    for allowed in ["", "/**", "/a.csv"] {
        assert_eq!(errors(&format!("s3://box/jobs/x/uploads/{digest}{allowed}")), "");
    }
    for refused in [
        format!("s3://box/jobs/y/uploads/{digest}"),
        format!("s3://other/jobs/x/uploads/{digest}"),
        format!("s3://box/jobs/x/sources/{digest}"),
        "s3://box/jobs/x/uploads/*/a.csv".to_owned(),
        "s3://box/jobs/x/**".to_owned(),
    ] {
        assert!(errors(&refused).contains("allows no inputs in stores"), "{refused}");
    }
}

/// Without `store_roots`, datastores decide, as before.
#[test]
fn without_store_roots_the_datastores_decide() {
    let fixture = PolicyFixture::new();
    let policy = fixture.policy("datastores: [nightly]\n").unwrap();
    assert_eq!(errors(&fixture, &policy, "inputs: {a: datastore://nightly/any/}\n"), "");
    assert_snapshot!(errors(&fixture, &policy, "inputs: {a: s3://box/in/}\n"), @"job.yaml:3: inputs.a.path: found s3://box/in/; the operator's policy allows only the datastores nightly (datastores, policy.yaml:1)");
}

/// The store roots of a signer replace those for all jobs, only for the signer's jobs, and only for the uses that they name.
#[test]
fn a_signer_has_narrower_store_roots() {
    let fixture = PolicyFixture::new();
    let policy = fixture
        .policy(&format!(
            "store_roots:\n  inputs: [s3://box/]\n  outputs: [s3://box/out/]\nsigners:\n  \
             ada:\n    keys: ['{ADA}']\n    store_roots:\n      inputs: [s3://box/ada/]\n  bob: {{keys: ['{BOB}']}}\n"
        ))
        .unwrap();
    let lines = "inputs: {a: s3://box/bob/}\noutput: s3://box/out/x/\n";
    let ada = policy.for_signer(Some(ADA)).unwrap();
    let bob = policy.for_signer(Some(BOB)).unwrap();
    assert_eq!(errors(&fixture, &bob, lines), "");
    assert_snapshot!(errors(&fixture, &ada, lines), @"job.yaml:3: inputs.a.path: found s3://box/bob/; the operator's policy allows inputs in stores only below s3://box/ada/ (signers.ada.store_roots.inputs, policy.yaml:8)");
    let below = "inputs: {a: s3://box/ada/x/}\noutput: s3://box/out/x/\n";
    assert_eq!(errors(&fixture, &ada, below), "");
}

#[test]
fn wrong_store_roots_are_refused() {
    let fixture = PolicyFixture::new();
    let refused = |text: &str| fixture.policy(text).unwrap_err().to_string() + "\n";
    let wider = format!(
        "datastores: [nightly]\nstore_roots: {{inputs: [s3://box/in/]}}\nsigners:\n  ada:\n    keys: ['{ADA}']\n    \
         store_roots: {{inputs: [s3://box/], outputs: [s3://box/in/x/]}}\n"
    );
    let bare = format!(
        "datastores: [nightly]\nsigners:\n  ada:\n    keys: ['{ADA}']\n    \
         store_roots: {{inputs: [s3://box/, datastore://nightly/x/]}}\n"
    );
    let texts = [
        "store_roots: {inputs: [/srv/in, s3://box/*.csv, 's3://box/../x', datastore://nightly/x]}\n",
        "store_roots: {entry_scripts: [s3://box/]}\n",
        &wider,
        &bare,
    ];
    assert_snapshot!(texts.map(refused).concat(), @r#"
    policy.yaml:1: store_roots.inputs[0]: found no address; expected s3://bucket/path, az://container/path, gs://bucket/path, https://server/path or datastore://NAME/path
    policy.yaml:1: store_roots.inputs[1]: found s3://box/*.csv, which has a wildcard; name the folder before the wildcard
    policy.yaml:1: store_roots.inputs[2]: found an address with a part that servers may read as `..`, which leads out of its folder; name the folder itself
    policy.yaml:1: store_roots.inputs[3]: found datastore://nightly/x, whose datastore is not on the list of datastores: add nightly to datastores, or remove the address
    policy.yaml:1: store_roots.entry_scripts: unknown key; the known keys are inputs, side_inputs, outputs, job_stores
    policy.yaml:6: signers.ada.store_roots.inputs[0]: found s3://box/, which is not below the addresses for all jobs: name one below, or add this one to store_roots.inputs
    policy.yaml:6: signers.ada.store_roots.outputs[0]: found s3://box/in/x/, which is not below the addresses for all jobs: name one below, or add this one to store_roots.outputs
    policy.yaml:5: signers.ada.store_roots.inputs[0]: found s3://box/, and the policy has no store_roots for all jobs, so this must be an address in a datastore (datastore://NAME/...): define one, or give the policy store_roots for all uses
    "#);
}
