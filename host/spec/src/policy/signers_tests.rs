use super::tests::{JOB, PolicyFixture, ROOTS};
use crate::model::SignerKey;
use crate::{LoadContext, OperatorPolicy, load};
use insta::assert_snapshot;
use std::fs;
use std::path::Path;

const ADA: SignerKey = SignerKey([1; 32]);
const BOB: SignerKey = SignerKey([2; 32]);

/// What a signer's policy says about a job file: its errors.
fn errors(fixture: &PolicyFixture, policy: &OperatorPolicy, job: &str) -> String {
    let path = fixture.base.join("job.yaml");
    fs::write(&path, job).unwrap();
    let loaded = load(&path, &[], LoadContext::sample(policy));
    loaded.map_or_else(|errors| fixture.redact(&errors.to_string()), |_| String::new())
}

#[test]
fn only_jobs_of_the_signers_are_allowed() {
    let fixture = PolicyFixture::new();
    let open = fixture.policy("gpus: 0\n").unwrap();
    assert_eq!(open.signers(), None);
    assert!(open.for_signer(None).is_ok() && open.for_signer(Some(BOB)).is_ok());
    let policy = fixture
        .policy(&format!(
            "gpus: 0\nsigners:\n  ada: {{keys: ['{ADA}']}}\n  carl:\n    keys: ['{}']\n",
            SignerKey([3; 32])
        ))
        .unwrap();
    assert_eq!(policy.signers(), Some(vec!["ada", "carl"]));
    assert!(policy.for_signer(Some(ADA)).is_ok());
    let refused = [None, Some(BOB)]
        .map(|signer| fixture.redact(&policy.for_signer(signer).unwrap_err().to_string()));
    assert_snapshot!(refused.join("\n"), @r#"
    it is not signed, and the policy allows only jobs of ada, carl (policy.yaml:2): start the job with --signing-key FILE, a key of one of them
    its signer is sandmill-signer:0202020202020202020202020202020202020202020202020202020202020202, which the policy does not name (policy.yaml:2): to allow jobs of this signer, add a line below signers, such as `NAME: {keys: ["sandmill-signer:0202020202020202020202020202020202020202020202020202020202020202"]}`, and restart the agent
    "#);
}

/// The limits of a signer replace those for all jobs, and only for the signer's jobs.
#[test]
fn a_signer_has_narrower_limits() {
    let fixture = PolicyFixture::new();
    for folder in ["in/ada", "stores/ada"] {
        fs::create_dir_all(fixture.base.join(folder)).unwrap();
    }
    let policy = fixture
        .policy(&format!(
            "{ROOTS}  job_stores: ['[dir]/stores']\nmodels: [m, n]\ndatastores: [a, b]\nsigners:\n  ada:\n    \
             keys: ['{ADA}']\n    roots: {{inputs: ['[dir]/in/ada'], job_stores: ['[dir]/stores/ada']}}\n    \
             models: [m]\n    datastores: [a]\n  bob: {{keys: ['{BOB}']}}\n"
        ))
        .unwrap();
    let job = format!(
        "{JOB}output: out\njob_store: stores\nmodels: {{n: weights/m.onnx}}\nside_inputs: {{s: {{path: 'datastore://b/x'}}}}\n"
    );
    let [ada, bob] = [ADA, BOB].map(|signer| policy.for_signer(Some(signer)).unwrap());
    assert_eq!(errors(&fixture, &bob, &job), errors(&fixture, &policy, &job));
    assert_snapshot!(errors(&fixture, &ada, &job), @r#"
    job.yaml:3: inputs.a.path: found in; the operator's policy allows inputs only below in/ada (policy.yaml:13)
    job.yaml:5: job_store: found stores; the operator's policy allows job stores only below stores/ada (policy.yaml:13)
    job.yaml:6: models.n: found the model "n"; the operator's policy allows only m (models, policy.yaml:14)
    job.yaml:7: side_inputs.s.path: found datastore://b/x; the operator's policy allows only the datastores a (datastores, policy.yaml:15)
    "#);
    let allowed = "name: x\nentry_script: src/component.wasm\ninputs: {a: in/ada}\noutput: out\n\
                   job_store: stores/ada/x\nmodels: {m: weights/m.onnx}\n";
    assert_eq!(errors(&fixture, &ada, allowed), "");
}

#[test]
fn wrong_signers_are_refused() {
    let fixture = PolicyFixture::new();
    let wrong = |text: &str| fixture.policy(text).unwrap_err();
    assert_snapshot!(wrong("signers: {}\n"), @"policy.yaml:1: signers: names no signer; add one, or leave the key out to allow all jobs");
    assert_snapshot!(wrong("signers: ada\n"), @r#"policy.yaml:1: signers: found "ada"; expected a map of names to signers (e.g. ada: {keys: [sandmill-signer:...]})"#);
    let secret = "sandmill-signing-key:".to_owned() + &"7".repeat(64);
    let errors = wrong(&format!(
        "signers:\n  Ada: {{}}\n  bob: {{keys: []}}\n  carl:\n    keys: ['{secret}', 'abc', '{ADA}']\n  dan: {{keys: ['{ADA}'], color: 1}}\n"
    ));
    assert!(!errors.to_string().contains(&"7".repeat(64)), "a private key is not shown");
    assert_snapshot!(errors, @r#"
    policy.yaml:2: signers.Ada: found "Ada"; expected 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit (e.g. nightly-digits)
    policy.yaml:2: signers.Ada.keys: found no key; list the signer's public keys, which `sandmill signer new` prints
    policy.yaml:3: signers.bob.keys: found no key; list the signer's public keys, which `sandmill signer new` prints
    policy.yaml:5: signers.carl.keys[0]: found another text: it is a private key, which must stay secret; `sandmill signer show FILE` prints the public key
    policy.yaml:5: signers.carl.keys[1]: found another text: a public key is sandmill-signer: and 64 hexadecimal digits, as `sandmill signer show FILE` prints it
    policy.yaml:6: signers.dan.keys[0]: is also a key of the signer carl
    policy.yaml:6: signers.dan.color: unknown key; the known keys are name, keys, roots, models, datastores, entry_script_stores, store_roots
    "#);
}

#[test]
fn the_limits_of_a_signer_must_be_narrower() {
    let fixture = PolicyFixture::new();
    let wrong = |text: &str| fixture.policy(text).unwrap_err();
    let signer = format!("keys: ['{ADA}']");
    assert_snapshot!(wrong(&format!(
        "{ROOTS}models: [m]\ndatastores: []\nsigners:\n  ada:\n    {signer}\n    models: [m, n]\n    datastores: [a]\n    \
         roots:\n      inputs: ['[dir]/in', '[dir]/weights']\n      job_stores: ['[dir]/outside']\n"
    )), @"
    policy.yaml:12: signers.ada.models: found n, which is not in models, the list for all jobs: add it there, or remove it here
    policy.yaml:13: signers.ada.datastores: found a, which is not in datastores, the list for all jobs: add it there, or remove it here
    policy.yaml:15: signers.ada.roots.inputs[1]: found weights, which is not below the folders for all jobs (in): name a folder below, or add this one to roots.inputs
    policy.yaml:16: signers.ada.roots.job_stores[0]: found outside, which is not below the folders for all jobs (none): name a folder below, or add this one to roots.job_stores
    ");
    // Without roots for all jobs, those of a signer must be complete, and must not overlap those of others.
    assert_snapshot!(wrong(&format!("signers: {{ada: {{{signer}, roots: {{inputs: []}}}}}}\n")), @"
    policy.yaml:1: signers.ada.roots.side_inputs: missing; name the folders, or write [] for none
    policy.yaml:1: signers.ada.roots.entry_scripts: missing; name the folders, or write [] for none
    policy.yaml:1: signers.ada.roots.outputs: missing; name the folders, or write [] for none
    policy.yaml:1: signers.ada.roots.job_directories: missing; name the folders, or write [] for none
    ");
    let of_signer = ROOTS.replace("\n  ", "\n      ").replace("roots:", "    roots:");
    let other = of_signer.replace("inputs: ['[dir]/in']", "inputs: ['[dir]/jobs']");
    let keys = |key| format!("    keys: ['{key}']\n");
    assert_snapshot!(wrong(&format!(
        "signers:\n  ada:\n{}{of_signer}  bob:\n{}{other}", keys(ADA), keys(BOB)
    )), @"
    policy.yaml:9: signers.ada.roots.job_directories[0]: jobs is the same folder as jobs of roots.inputs on line 13; job directories need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    policy.yaml:17: signers.bob.roots.job_directories[0]: jobs is the same folder as jobs of roots.inputs on line 13; job directories need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    ");
}

#[test]
fn the_signers_in_the_docs_load() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let docs = fs::read_to_string(docs).unwrap();
    let block = |begin: &str, fence: &str| {
        let (_, rest) = docs.split_once(begin).unwrap();
        let (_, rest) = rest.split_once(fence).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let text = block("## A policy file", "```yaml\n") + &block("### Signers", "```text\n");
    // The folders of the examples are not on this machine.
    let folder = |line: &str| {
        let below = if line.contains("job_directories") { "jobs" } else { "in" };
        line.split_once(": [/").map(|(key, _)| format!("{key}: ['[dir]/{below}']"))
    };
    let lines = text.lines().map(|line| folder(line).unwrap_or_else(|| line.to_owned()) + "\n");
    let policy = PolicyFixture::new().policy(&lines.collect::<String>()).unwrap();
    assert_eq!(policy.signers(), Some(vec!["ada", "nightly"]));
}

/// A signer with folders of its own gets entry scripts from job stores only if its own key says so.
#[test]
fn entry_scripts_from_stores_are_allowed_for_each_signer() {
    let fixture = PolicyFixture::new();
    let refused = |policy: &str, lines: &str| {
        let text = format!(
            "{ROOTS}entry_script_stores: {policy}\nsigners:\n  ada: {{keys: ['{ADA}']{lines}}}\n"
        );
        let policy = fixture.policy(&text)?;
        let ada = policy.for_signer(Some(ADA)).unwrap();
        Ok::<_, crate::SpecErrors>(ada.refusal_of_stored_scripts().is_some())
    };
    let roots = ", roots: {inputs: ['[dir]/in']}";
    assert!(!refused("true", "").unwrap());
    assert!(refused("true", roots).unwrap());
    assert!(!refused("true", &format!("{roots}, entry_script_stores: true")).unwrap());
    assert!(refused("true", ", entry_script_stores: false").unwrap());
    assert!(refused("false", "").unwrap());
    let error = refused("false", ", entry_script_stores: true").unwrap_err().to_string();
    assert!(error.contains("a signer's limits must be narrower"), "{error}");
}
