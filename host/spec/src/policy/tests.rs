//! Tests that load a policy file, and jobs to which it applies.

use super::{OperatorPolicy, amounts};
use crate::keys::{Key, KeyCeiling, KeyKind, policy};
use crate::model::{ByteSize, JobDir, Source};
use crate::{JobSpec, LoadContext, SpecErrors, load};
use insta::assert_snapshot;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A folder with `in/a.txt`, `weights/m.onnx`, `out`, `jobs`, `outside`, a component, a module and a crate.
pub(super) struct PolicyFixture {
    /// The folder's path, without links.
    pub(super) base: PathBuf,
    _dir: TempDir,
}

impl PolicyFixture {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["in", "weights", "out", "jobs", "outside", "src/guest"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        fs::write(base.join("in/a.txt"), "a").unwrap();
        fs::write(base.join("weights/m.onnx"), "m").unwrap();
        fs::write(base.join("outside/m.onnx"), "m").unwrap();
        fs::write(base.join("src/guest/Cargo.toml"), "").unwrap();
        fs::write(base.join("src/component.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
        fs::write(base.join("src/module.wasm"), b"\0asm\x01\0\0\0").unwrap();
        fs::write(base.join("outside/component.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
        std::os::unix::fs::symlink("../outside", base.join("in/link")).unwrap();
        Self { base, _dir: dir }
    }

    pub(super) fn policy(&self, text: &str) -> Result<OperatorPolicy, SpecErrors> {
        let path = self.base.join("policy.yaml");
        fs::write(&path, text.replace("[dir]", self.base.to_str().unwrap())).unwrap();
        OperatorPolicy::load(&path).map_err(|errors| self.redacted(errors))
    }

    pub(super) fn job(
        &self,
        policy: &str,
        job: &str,
        set: &[(&str, &str)],
    ) -> Result<JobSpec, SpecErrors> {
        let policy = self.policy(policy).unwrap();
        let path = self.base.join("job.yaml");
        fs::write(&path, job).unwrap();
        let set: Vec<(String, String)> =
            set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let spec = load(&path, &set, LoadContext::sample(&policy));
        spec.map_err(|errors| self.redacted(errors))
    }

    fn redacted(&self, mut errors: SpecErrors) -> SpecErrors {
        errors.file = self.redact(&errors.file);
        for error in &mut errors.errors {
            error.message = self.redact(&error.message);
        }
        errors
    }

    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.base.display()), "")
            .replace(self.base.to_str().unwrap(), ".")
    }
}

pub(super) const JOB: &str = "name: x\nentry_script: src/component.wasm\ninputs: {a: in}\n";

pub(super) const ROOTS: &str = "roots:\n  inputs: ['[dir]/in']\n  side_inputs: ['[dir]/weights']\n  \
                     entry_scripts: ['[dir]/src']\n  outputs: ['[dir]/out']\n  \
                     job_directories: ['[dir]/jobs']\n";

#[test]
fn a_job_above_ceilings_is_refused_with_all_errors() {
    let policy = "limits:\n  memory: 256 MB\n  fuel: 1000\n  files: 5\nprocess_count_per_node: 2\n\
                  run_invocation_timeout: 60\nos_sandbox: required\n";
    let job = format!(
        "{JOB}limits: {{memory: 1 GB,\n  fuel: 1001, files: 5}}\nrun_invocation_timeout: 61.5\n\
         os_sandbox: off\n"
    );
    let errors = PolicyFixture::new().job(policy, &job, &[("process_count_per_node", "3")]);
    assert_snapshot!(errors.unwrap_err(), @"
    job.yaml:4: limits.memory: found 1 GB, more than the operator's policy allows; ask for at most 256 MB (policy.yaml:2)
    job.yaml:5: limits.fuel: found 1001, more than the operator's policy allows; ask for at most 1000 (policy.yaml:3)
    job.yaml:6: run_invocation_timeout: found 61.5 seconds, more than the operator's policy allows; ask for at most 60 seconds (policy.yaml:6)
    job.yaml:7: os_sandbox: found off, less than the operator's policy requires; write required, or leave the key out (policy.yaml:7)
    --set process_count_per_node: found 3, more than the operator's policy allows; ask for at most 2 (policy.yaml:5)
    ");
}

#[test]
fn defaults_are_lowered_with_a_notice() {
    let policy = "limits: {memory: 256 MB, fuel: 1000, stack: 64 MB}\nprocess_count_per_node: 1\n\
                  progress_update_timeout: 60\nmachine: {workers: 1}\n";
    let spec =
        PolicyFixture::new().job(policy, &format!("{JOB}limits: {{fuel: 10}}\n"), &[]).unwrap();
    assert_eq!((spec.limits.memory, spec.limits.fuel), (ByteSize(256 << 20), Some(10)));
    assert_eq!(spec.limits.stack, ByteSize(1 << 20));
    assert_eq!((spec.process_count, spec.progress_update_timeout), (1, Duration::from_secs(60)));
    let has_notice = |key: &str| spec.notices.iter().any(|notice| notice.starts_with(key));
    assert!(has_notice("limits.memory: 256 MB by the operator's policy ("), "{:?}", spec.notices);
    assert!(has_notice("progress_update_timeout: 60 seconds"), "{:?}", spec.notices);
    assert!(!has_notice("limits.fuel") && !has_notice("limits.stack"), "{:?}", spec.notices);

    let spec = PolicyFixture::new().job(policy, JOB, &[]).unwrap();
    assert_eq!(spec.limits.fuel, Some(1000), "forced");
    let machine_only = "machine: {workers: 3}\n";
    let spec =
        PolicyFixture::new().job(machine_only, JOB, &[("process_count_per_node", "8")]).unwrap();
    assert_eq!(spec.process_count, 3);
    assert_eq!(spec.limits.memory, ByteSize(1 << 30));
}

/// If a deployment leaves a setting out, the job did not ask for Azure's default: the policy lowers the
/// default and does not refuse the job. The number of retries in a deployment does not count the first
/// attempt.
#[test]
fn deployment_defaults_are_lowered_and_errors_use_azure_names() {
    let policy = "run_max_try: 3\nrun_invocation_timeout: 20\n";
    let job = "endpoint_name: e\nname: x\ncode_configuration: {code: src, scoring_script: component.wasm}\n\
               inputs: {a: {type: uri_folder, path: in}}\n";
    let spec = PolicyFixture::new().job(policy, job, &[]).unwrap();
    assert_eq!(spec.settings.run_max_try, 3);
    assert_eq!(spec.settings.run_invocation_timeout, Duration::from_secs(20));
    let asks = format!("{job}settings: {{retry_settings: {{max_retries: 5}}}}\n");
    let errors = PolicyFixture::new().job(policy, &asks, &[]).unwrap_err();
    assert_snapshot!(errors, @"job.yaml:5: settings.retry_settings.max_retries: found 5, more than the operator's policy allows; ask for at most 2 (policy.yaml:1)");
    let errors = PolicyFixture::new().job(policy, job, &[("run_max_try", "6")]).unwrap_err();
    assert_snapshot!(errors, @"--set run_max_try: found 6, more than the operator's policy allows; ask for at most 3 (policy.yaml:1)");
}

#[test]
fn paths_of_a_job_must_be_below_the_roots() {
    let fixture = PolicyFixture::new();
    let good = format!("{JOB}side_inputs: {{w: weights}}\noutput: out/new\n");
    fixture.job(ROOTS, &good, &[]).unwrap();
    let bad = "name: x\nentry_script: outside/component.wasm\nsource_directory: .\n\
               inputs:\n  a: in/link\n  b: in/../outside\n  c: in/link/*.txt\n  d: in/*.txt\n\
               side_inputs:\n  s: /etc\n  t: weights/../in\noutput: out/../jobs\nparent: jobs\n\
               copy_logs_to_parent: true\n";
    assert_snapshot!(fixture.job(ROOTS, bad, &[]).unwrap_err(), @"
    job.yaml:2: entry_script: found outside/component.wasm; the operator's policy allows entry scripts and their source only below src (policy.yaml:4)
    job.yaml:3: source_directory: found .; the operator's policy allows entry scripts and their source only below src (policy.yaml:4)
    job.yaml:5: inputs.a.path: found in/link, which is outside; the operator's policy allows inputs only below in (policy.yaml:2)
    job.yaml:6: inputs.b.path: found in/../outside, which is outside; the operator's policy allows inputs only below in (policy.yaml:2)
    job.yaml:7: inputs.c.path: found in/link/, which is outside; the operator's policy allows inputs only below in (policy.yaml:2)
    job.yaml:10: side_inputs.s.path: found /etc; the operator's policy allows side inputs only below weights (policy.yaml:3)
    job.yaml:11: side_inputs.t.path: found weights/../in, which is in; the operator's policy allows side inputs only below weights (policy.yaml:3)
    job.yaml:12: output: found out/../jobs, which is jobs; the operator's policy allows outputs only below out (policy.yaml:5)
    job.yaml:13: parent: found jobs; the operator's policy allows outputs only below out (policy.yaml:5)
    ");
    // Each key must be present; [] means that no folder is allowed.
    assert_snapshot!(fixture.policy("roots:\n  inputs: [in, /nonexistent]\n").unwrap_err(), @r#"
    policy.yaml:1: roots.side_inputs: missing; name the folders, or write [] for none
    policy.yaml:1: roots.entry_scripts: missing; name the folders, or write [] for none
    policy.yaml:1: roots.outputs: missing; name the folders, or write [] for none
    policy.yaml:1: roots.job_directories: missing; name the folders, or write [] for none
    policy.yaml:2: roots.inputs[0]: found "in"; expected an absolute path to a folder
    policy.yaml:2: roots.inputs[1]: /nonexistent cannot be used: No such file or directory (os error 2); create the folder, or remove it from the list
    "#);
    let none = ROOTS.replace("['[dir]/weights']", "[]");
    let errors = fixture.job(&none, JOB, &[("side_inputs.s", "weights")]).unwrap_err();
    assert_snapshot!(errors, @"--set side_inputs.s: side_inputs.s.path: found weights; the operator's policy allows no side inputs (policy.yaml:3)");
}

/// Only inputs and outputs may overlap, because one job may read what another job wrote.
#[test]
fn roots_must_not_overlap_job_directories() {
    let fixture = PolicyFixture::new();
    fs::create_dir_all(fixture.base.join("jobs/deep")).unwrap();
    std::os::unix::fs::symlink("../jobs/deep", fixture.base.join("weights/link")).unwrap();
    let policy = |from: &str, to: &str| fixture.policy(&ROOTS.replace(from, to));
    policy("[dir]/in", "[dir]/out").unwrap();
    policy("['[dir]/weights']", "[]").unwrap();
    let jobs = "['[dir]/jobs']";
    let refused = [
        policy("[dir]/in", "[dir]/jobs"),
        policy("[dir]/out", "[dir]/jobs/deep"),
        policy("[dir]/weights", "[dir]/weights/link"),
        policy(jobs, "['[dir]/jobs/deep', '[dir]/src/guest']"),
        policy(jobs, "['[dir]/weights/link/../../src']"),
        policy(jobs, "['[dir]/jobs']\n  job_stores: ['[dir]/jobs/deep']"),
        policy(jobs, "['[dir]/jobs']\n  job_stores: ['[dir]/out']"),
    ];
    let reported = refused.map(|policy| policy.unwrap_err().to_string() + "\n").concat();
    assert_snapshot!(reported, @"
    policy.yaml:6: roots.job_directories[0]: jobs is the same folder as jobs of roots.inputs on line 2; job directories need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    policy.yaml:6: roots.job_directories[0]: jobs holds jobs/deep of roots.outputs on line 5; job directories need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    policy.yaml:6: roots.job_directories[0]: jobs holds jobs/deep of roots.side_inputs on line 3; job directories need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    policy.yaml:6: roots.job_directories[1]: src/guest is in src of roots.entry_scripts on line 4; job directories need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    policy.yaml:6: roots.job_directories[0]: src is the same folder as src of roots.entry_scripts on line 4; job directories need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    policy.yaml:7: roots.job_stores[0]: jobs/deep is in jobs of roots.job_directories on line 6; job stores need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    policy.yaml:7: roots.job_stores[0]: out is the same folder as out of roots.outputs on line 5; job stores need a separate folder, neither in another root nor around it, because other jobs must not read or write there: move one of the two (roots.inputs and roots.outputs may overlap)
    ");
}

/// Files that are read together with the job file must also be below the roots, because an error message
/// about such a file can reveal its content.
#[test]
fn files_beside_the_job_must_be_below_the_roots() {
    let fixture = PolicyFixture::new();
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, fixture.base.join(name)).unwrap();
    };
    fs::write(fixture.base.join("outside/secret"), "{\"secret\": 1}").unwrap();
    link("../outside/secret", "in/MLTable");
    link("../outside/secret", "src/parallel_run_step.settings.json");
    let azure = "type: parallel\nname: x\ninputs:\n  a: {type: mltable, path: in, mode: direct}\n\
                 input_data: ${{inputs.a}}\nmini_batch_size: '1'\noutputs: {o: {path: out}}\n\
                 task: {type: run_function, code: src, entry_script: component.wasm, \
                 append_row_to: '${{outputs.o}}'}\n";
    let errors = fixture.job(ROOTS, azure, &[]).unwrap_err();
    assert!(!errors.to_string().contains("\"secret\""), "{errors}");
    assert_snapshot!(errors, @"
    job.yaml:4: inputs.a.path: found in/MLTable, which is outside/secret; the operator's policy allows inputs only below in (policy.yaml:2)
    job.yaml:8: task.entry_script: found src/parallel_run_step.settings.json, which is outside/secret; the operator's policy allows entry scripts and their source only below src (policy.yaml:4)
    ");
}

/// The policy is checked again before the job begins: paths may have changed since the job file was read, and
/// some paths are not in the job file.
#[test]
fn a_job_is_checked_again_before_it_begins() {
    let fixture = PolicyFixture::new();
    let spec = fixture.job(ROOTS, &format!("{JOB}output: out\n"), &[]).unwrap();
    let policy = fixture.policy(ROOTS).unwrap();
    let check = |spec: &JobSpec, source: &Path, job_dir: &str| {
        let source = Source::new("a", source.to_owned());
        let checked = policy.check(spec, &[source], Some(&JobDir::new(fixture.base.join(job_dir))));
        checked.map_err(|errors| fixture.redact(&errors.to_string()))
    };
    check(&spec, &fixture.base.join("in"), "jobs/x").unwrap();
    std::os::unix::fs::symlink("/etc", fixture.base.join("out/link")).unwrap();
    let mut other = spec;
    other.output = Some(fixture.base.join("out/link"));
    other.limits.memory = ByteSize(2 << 30);
    let errors = check(&other, Path::new("/etc"), "jobs/../x").unwrap_err();
    assert_snapshot!(errors, @"
    policy.yaml: input 'a': found /etc; the operator's policy allows inputs only below in (policy.yaml:2)
    policy.yaml: output: found out/link, which is /etc; the operator's policy allows outputs only below out (policy.yaml:5)
    policy.yaml: --job-dir: found jobs/../x, which is x; the operator's policy allows job directories only below jobs (policy.yaml:6)
    ");
    let bounded = fixture.policy("limits: {memory: 1 GB}\n").unwrap();
    let errors = bounded.check(&other, &[], None).unwrap_err().to_string();
    assert!(errors.contains("limits.memory: found 2 GB, more than"), "{errors}");
}

#[test]
fn crates_and_modules_can_be_refused() {
    let fixture = PolicyFixture::new();
    let job = |policy: &str, script: &str| {
        let spec = fixture.job(policy, JOB, &[("entry_script", script)]);
        spec.map(|_| String::new()).unwrap_or_else(|errors| errors.to_string())
    };
    assert_snapshot!(job("gpus: 0", "src/guest"), @"--set entry_script: found src/guest, a guest crate; the operator's policy allows none, because its build scripts would run on this machine: build it elsewhere, and name the component (entry_script_crates, policy.yaml)");
    assert_eq!(job("entry_script_crates: true", "src/guest"), "");
    assert_eq!(job("gpus: 0", "src/module.wasm"), "");
    assert_snapshot!(job("entry_script_modules: false", "src/module.wasm"), @"--set entry_script: found src/module.wasm, a core module; the operator's policy allows none: make a component of it with `sandmill build` elsewhere, and name the component (entry_script_modules, policy.yaml:1)");
    assert_eq!(job("entry_script_modules: false", "src/component.wasm"), "");
}

#[test]
fn a_trial_obeys_the_policy() {
    let fixture = PolicyFixture::new();
    let text = format!("{ROOTS}limits: {{memory: 64 MB, fuel: 7}}\nrun_invocation_timeout: 5\n");
    let policy = fixture.policy(&text).unwrap();
    let path = |name: &str| fixture.base.join(name);
    let script = path("src/component.wasm");
    let file = path("in/a.txt");
    let side = path("weights");
    policy.check_trial(&script, [file.as_path()], [side.as_path()]).unwrap();
    let files = [path("in/link/component.wasm")];
    let refused =
        policy.check_trial(&path("outside"), files.iter().map(|f| &**f), [Path::new("/etc")]);
    assert_eq!(refused.unwrap_err().errors.len(), 4, "two about the entry script");
    let limits = policy.default_limits();
    assert_eq!((limits.memory, limits.fuel), (ByteSize(64 << 20), Some(7)));
    assert_eq!(limits.stack, ByteSize(1 << 20));
    assert_eq!(policy.longest_call(), Some(Duration::from_secs(5)));
}

#[test]
fn invalid_policy_files_are_refused() {
    let fixture = PolicyFixture::new();
    let wrong = |text: &str| fixture.policy(text).unwrap_err();
    assert_snapshot!(wrong("# nothing\n\n"), @"policy.yaml: is empty; a policy file needs at least one key");
    assert_snapshot!(wrong("- a\n"), @"policy.yaml:1: found a list; expected a map of settings (e.g. gpus: 0)");
    assert_snapshot!(wrong("limits: {memory: lots, memroy: 1}\nenvironment: x\nos_sandbox: strong\nmodels: [1, '', 'digits*']\nmachine: {workers: 0, directory: here}\nname: x\n"), @r#"
    policy.yaml:1: limits.memory: found "lots"; expected a size of at least 64 KB (e.g. 512 MB); units are KB, MB, GB and TB (powers of 1024), also written K or KiB
    policy.yaml:1: limits.memroy: unknown key; did you mean memory?
    policy.yaml:2: environment: unknown key; the known keys are limits, inference, process_count_per_node, gpus, run_max_try, run_invocation_timeout, task_overhead_timeout, progress_update_timeout, first_task_creation_timeout, os_sandbox, process_lists, roots, entry_script_crates, entry_script_modules, entry_script_stores, models, guest_models, datastores, store_roots, machine, signers
    policy.yaml:3: os_sandbox: found "strong"; expected required, best-effort or off
    policy.yaml:4: models[0]: found 1; expected a text (a number or a truth value in quotes)
    policy.yaml:4: models[1]: found an empty text; expected a name
    policy.yaml:4: models[2]: found "digits*", which is not a model's name; expected 1 to 64 letters of a-z and A-Z, digits, _, - and ., starting with a letter or a digit (e.g. digits)
    policy.yaml:5: machine.workers: found 0; expected a whole number of at least 1
    policy.yaml:5: machine.directory: found "here"; expected an absolute path to a folder (e.g. /dev/shm/sandmill)
    policy.yaml:6: name: unknown key
    "#);
    assert_snapshot!(wrong("gpus: 1\ngpus: 2\n"), @"policy.yaml:2: gpus: given twice; first on line 1");
    let gone = OperatorPolicy::load(&fixture.base.join("gone.yaml")).unwrap_err().to_string();
    assert_snapshot!(fixture.redact(&gone), @"gone.yaml: there is no such file");
    let folder = OperatorPolicy::load(&fixture.base.join("in")).unwrap_err().to_string();
    assert_snapshot!(fixture.redact(&folder), @"in: is a folder; name the policy file in it");
}

/// Every key of the table, and the keys of its groups.
fn keys() -> Vec<(String, &'static Key)> {
    let mut keys = Vec::new();
    for key in policy() {
        keys.push((key.name.to_owned(), key));
        if let KeyKind::Group(below) = key.kind {
            keys.extend(below.iter().map(|inner| (format!("{}.{}", key.name, inner.name), inner)));
        }
    }
    keys
}

/// A policy file with only this key.
fn example(path: &str, key: &Key) -> String {
    match path.split_once('.') {
        // The keys of `roots` must all be present.
        Some(("roots", _)) => ROOTS.to_owned(),
        None if path == "roots" => ROOTS.to_owned(),
        Some((group, name)) => format!("{group}: {{{name}: {}}}\n", key.example),
        None => format!("{path}: {}\n", key.example),
    }
}

#[test]
fn every_key_is_accepted_with_its_example_and_is_in_the_docs() {
    let fixture = PolicyFixture::new();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let docs = fs::read_to_string(docs).expect("the docs are there");
    for (path, key) in keys() {
        fixture.policy(&example(&path, key)).unwrap_or_else(|errors| panic!("{path}: {errors}"));
        assert!(docs.contains(&format!("`{path}`")), "`{path}` in docs/operators.md");
        assert!(!key.expected.is_empty() && !key.description.is_empty());
    }
}

#[test]
fn every_ceiling_is_applied_to_jobs() {
    let fixture = PolicyFixture::new();
    let mut spec = fixture.job("run_max_try: 9\n", JOB, &[]).unwrap();
    spec.gpus = 1;
    spec.inference.allow_guest_models = true;
    let slots = amounts::of_job(&mut spec);
    let capped_keys: BTreeSet<&str> = slots.into_iter().map(|(key, _)| key).collect();
    let mut given = BTreeSet::new();
    for (path, key) in keys() {
        let OperatorPolicy(Some(settings)) = fixture.policy(&example(&path, key)).unwrap() else {
            panic!("{path}: the policy has no settings");
        };
        given.extend(settings.ceilings.iter().map(|ceiling| ceiling.key));
    }
    assert_eq!(given, capped_keys);
    // The table of keys and the settings that have ceilings must agree.
    let limits = crate::keys::LIMITS.iter().map(|key| (format!("limits.{}", key.name), key));
    let all = crate::keys::JOB.iter().map(|key| (key.name.to_owned(), key)).chain(limits);
    let capped = all.filter(|(_, key)| !matches!(key.ceiling, KeyCeiling::No(_)));
    let capped = capped.map(|(name, _)| name);
    let inference_keys = ["inference.threads", "inference.gpu_memory"].map(str::to_owned);
    let listed: BTreeSet<String> = capped.chain(inference_keys).collect();
    assert_eq!(listed, capped_keys.into_iter().map(str::to_owned).collect());
}

#[test]
fn the_policy_in_the_docs_loads() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let docs = fs::read_to_string(docs).expect("the docs are there");
    let block = docs.split("```yaml\n").nth(1).and_then(|block| block.split("```").next());
    let block = block.expect("a policy file in the docs");
    // The folders of the example are not on this machine.
    let folder = |line: &str| {
        let below = if line.contains("job_directories") { "jobs" } else { "in" };
        line.split(": ").next().map(|key| format!("{key}: ['[dir]/{below}']"))
    };
    let lines: Vec<String> = block
        .lines()
        .map(|line| match line.contains("[/") {
            true => folder(line).unwrap_or_default(),
            false => line.to_owned(),
        })
        .collect();
    let policy = PolicyFixture::new().policy(&lines.join("\n")).unwrap();
    assert!(policy.machine().any());
}

/// A job's model is allowed only if the policy allows its name and its folder. A model that the
/// entry script loads from bytes is allowed only if the policy allows such models.
#[test]
fn only_models_that_the_policy_names_are_allowed() {
    let fixture = PolicyFixture::new();
    let models = "models: {a: weights/m.onnx, b: {path: weights/m.onnx}, c: outside}\ninference: \
                  {allow_guest_models: true}\nlimits: {models: 1 GB, tensors: 1 GB}\n";
    let refused = |policy: &str| fixture.job(policy, &format!("{JOB}{models}"), &[]).unwrap_err();
    assert_snapshot!(refused(&format!("{ROOTS}limits: {{models: 1 MB, tensors: 1 MB}}\n")), @r#"
    job.yaml:4: models.c.path: found outside; the operator's policy allows models only below weights (policy.yaml:3)
    job.yaml:4: models.a: found the model "a"; the operator's policy allows none (models, policy.yaml)
    job.yaml:4: models.b: found the model "b"; the operator's policy allows none (models, policy.yaml)
    job.yaml:5: inference.allow_guest_models: found true; the operator's policy does not allow models that the entry script loads from bytes (guest_models, policy.yaml)
    job.yaml:6: limits.models: found 1 GB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:7)
    job.yaml:6: limits.tensors: found 1 GB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:7)
    "#);
    assert_snapshot!(refused("models: [b, c]\nguest_models: false\n"), @r#"
    job.yaml:4: models.a: found the model "a"; the operator's policy allows only b, c (models, policy.yaml:1)
    job.yaml:5: inference.allow_guest_models: found true; the operator's policy does not allow models that the entry script loads from bytes (guest_models, policy.yaml:2)
    "#);
    let good = "models: [a, b, c]\nguest_models: true\n";
    let spec = fixture.job(good, &format!("{JOB}{models}"), &[]).unwrap();
    let policy = format!("{good}inference: {{threads: 1, gpu_memory: 1 GB}}\n");
    let asking = models.replace("models: true", "models: true, threads: 2, gpu_memory: 2 GB");
    let gpu = [("gpus", "1"), ("process_count_per_node", "1")];
    let above = fixture.job(&policy, &format!("{JOB}{asking}"), &gpu).unwrap_err();
    assert_snapshot!(above, @r"
    job.yaml:5: inference.threads: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:3)
    job.yaml:5: inference.gpu_memory: found 2 GB, more than the operator's policy allows; ask for at most 1 GB (policy.yaml:3)
    ");
    let lowered = fixture.job(&policy, &format!("{JOB}{models}"), &gpu).unwrap().inference;
    assert_eq!(lowered.gpu_memory, Some(ByteSize(1 << 30)));
    // With a single core, the default number of threads is not above the ceiling, so it is not lowered.
    assert!(lowered.threads.is_none_or(|threads| threads == 1));
    let none = fixture.job("inference: {threads: 1}\n", JOB, &[]).unwrap();
    assert_eq!(none.inference.threads, None);
    // A job that was loaded without a policy, or with another policy.
    let policy = fixture.policy(&format!("{ROOTS}models: [a]\n")).unwrap();
    let error = policy.check(&spec, &[], None).unwrap_err().to_string();
    assert_snapshot!(fixture.redact(&error), @r#"
    policy.yaml: models.c.path: found outside; the operator's policy allows models only below weights (policy.yaml:3)
    policy.yaml: models.b: found the model "b"; the operator's policy allows only a (models, policy.yaml:7)
    policy.yaml: models.c: found the model "c"; the operator's policy allows only a (models, policy.yaml:7)
    policy.yaml: inference.allow_guest_models: found true; the operator's policy does not allow models that the entry script loads from bytes (guest_models, policy.yaml)
    "#);
}

/// A model outside of the roots is refused before its path is inspected, and so is a version that is a link
/// out of the roots.
#[test]
fn models_must_be_below_the_roots() {
    let fixture = PolicyFixture::new();
    fs::create_dir(fixture.base.join("weights/versions")).unwrap();
    let link = fixture.base.join("weights/versions/3");
    std::os::unix::fs::symlink("../../outside", link).unwrap();
    let policy = format!("{ROOTS}models: [a, b]\n");
    let job = format!("{JOB}models: {{a: outside/nothing, b: weights/versions}}\n");
    assert_snapshot!(fixture.job(&policy, &job, &[]).unwrap_err(), @"
    job.yaml:4: models.a.path: found outside/nothing; the operator's policy allows models only below weights (policy.yaml:3)
    job.yaml:4: models.b.path: found weights/versions/3/m.onnx, which is outside/m.onnx; the operator's policy allows models only below weights (policy.yaml:3)
    ");
}

/// The messages for each setting above its ceiling, with and without a job file.
#[test]
fn every_ceiling_has_its_message() {
    let policy = "limits:
  {memory: 64 KB, stack: 64 KB, fuel: 1, read: 1, results: 1, row: 1, logs: 1, output: 1, files: 0,
   handles: 16, transfer: 1 MB, models: 1 MB, tensors: 1 MB, mini_batches: 1, reports: 1 MB,
   failures: 0, copies: 1, job_time: 1}
inference: {threads: 1, gpu_memory: 1 MB}
process_count_per_node: 1
gpus: 1
run_max_try: 1
run_invocation_timeout: 1
task_overhead_timeout: 1
progress_update_timeout: 1
first_task_creation_timeout: 1
guest_models: true
os_sandbox: best-effort
";
    let asks = format!(
        "{JOB}limits:
  {{memory: 1 MB, stack: 1 MB, fuel: 2, read: 2, results: 2, row: 2, logs: 2, output: 2, files: 1,
   handles: 17, transfer: 2 MB, models: 2 MB, tensors: 2 MB, mini_batches: 2, reports: 2 MB,
   failures: 1, copies: 2, job_time: 1.5}}
inference: {{threads: 2, gpu_memory: 2 MB, allow_guest_models: true}}
process_count_per_node: 2
gpus: 2
run_max_try: 2
run_invocation_timeout: 2
task_overhead_timeout: 2
progress_update_timeout: 2
first_task_creation_timeout: 2
os_sandbox: 'off'
"
    );
    let fixture = PolicyFixture::new();
    assert_snapshot!(fixture.job(policy, &asks, &[]).unwrap_err(), @"
    job.yaml:5: limits.memory: found 1 MB, more than the operator's policy allows; ask for at most 64 KB (policy.yaml:2)
    job.yaml:5: limits.stack: found 1 MB, more than the operator's policy allows; ask for at most 64 KB (policy.yaml:2)
    job.yaml:5: limits.fuel: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:2)
    job.yaml:5: limits.read: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    job.yaml:5: limits.results: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    job.yaml:5: limits.row: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    job.yaml:5: limits.logs: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    job.yaml:5: limits.output: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    job.yaml:5: limits.files: found 1, more than the operator's policy allows; ask for at most 0 (policy.yaml:2)
    job.yaml:6: limits.handles: found 17, more than the operator's policy allows; ask for at most 16 (policy.yaml:3)
    job.yaml:6: limits.transfer: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    job.yaml:6: limits.models: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    job.yaml:6: limits.tensors: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    job.yaml:6: limits.mini_batches: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:3)
    job.yaml:6: limits.reports: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    job.yaml:7: limits.failures: found 1, more than the operator's policy allows; ask for at most 0 (policy.yaml:4)
    job.yaml:7: limits.copies: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:4)
    job.yaml:7: limits.job_time: found 1.5 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:4)
    job.yaml:8: inference.threads: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:5)
    job.yaml:8: inference.gpu_memory: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:5)
    job.yaml:9: process_count_per_node: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:6)
    job.yaml:10: gpus: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:7)
    job.yaml:11: run_max_try: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:8)
    job.yaml:12: run_invocation_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:9)
    job.yaml:13: task_overhead_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:10)
    job.yaml:14: progress_update_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:11)
    job.yaml:15: first_task_creation_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:12)
    job.yaml:16: os_sandbox: found off, less than the operator's policy requires; write best-effort, or leave the key out (policy.yaml:14)
    ");
    let silent = format!("{JOB}inference: {{allow_guest_models: true}}\ngpus: 1\n");
    let notices = fixture.job(policy, &silent, &[]).unwrap().notices.join("\n");
    assert_snapshot!(fixture.redact(&notices), @"
    process_count_per_node is not given: 1 worker, which gets the GPU
    limits.memory: 64 KB by the operator's policy (policy.yaml:2)
    limits.stack: 64 KB by the operator's policy (policy.yaml:2)
    limits.fuel: 1 by the operator's policy (policy.yaml:2)
    limits.read: 1 bytes by the operator's policy (policy.yaml:2)
    limits.results: 1 bytes by the operator's policy (policy.yaml:2)
    limits.row: 1 bytes by the operator's policy (policy.yaml:2)
    limits.logs: 1 bytes by the operator's policy (policy.yaml:2)
    limits.output: 1 bytes by the operator's policy (policy.yaml:2)
    limits.files: 0 by the operator's policy (policy.yaml:2)
    limits.handles: 16 by the operator's policy (policy.yaml:3)
    limits.transfer: 1 MB by the operator's policy (policy.yaml:3)
    limits.models: 1 MB by the operator's policy (policy.yaml:3)
    limits.tensors: 1 MB by the operator's policy (policy.yaml:3)
    limits.mini_batches: 1 by the operator's policy (policy.yaml:3)
    limits.reports: 1 MB by the operator's policy (policy.yaml:3)
    limits.failures: 0 by the operator's policy (policy.yaml:4)
    limits.copies: 1 bytes by the operator's policy (policy.yaml:4)
    limits.job_time: 1 seconds by the operator's policy (policy.yaml:4)
    run_max_try: 1 by the operator's policy (policy.yaml:8)
    run_invocation_timeout: 1 seconds by the operator's policy (policy.yaml:9)
    task_overhead_timeout: 1 seconds by the operator's policy (policy.yaml:10)
    progress_update_timeout: 1 seconds by the operator's policy (policy.yaml:11)
    first_task_creation_timeout: 1 seconds by the operator's policy (policy.yaml:12)
    inference.threads: 1 by the operator's policy (policy.yaml:5)
    inference.gpu_memory: 1 MB by the operator's policy (policy.yaml:5)
    ");
    // Without a job file, all settings count as requested.
    let spec = fixture.job("os_sandbox: 'off'\nguest_models: true\n", &asks, &[]).unwrap();
    let refused = fixture.policy(policy).unwrap().check(&spec, &[], None).unwrap_err();
    assert_snapshot!(fixture.redacted(refused), @"
    policy.yaml: limits.memory: found 1 MB, more than the operator's policy allows; ask for at most 64 KB (policy.yaml:2)
    policy.yaml: limits.stack: found 1 MB, more than the operator's policy allows; ask for at most 64 KB (policy.yaml:2)
    policy.yaml: limits.fuel: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:2)
    policy.yaml: limits.read: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    policy.yaml: limits.results: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    policy.yaml: limits.row: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    policy.yaml: limits.logs: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    policy.yaml: limits.output: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:2)
    policy.yaml: limits.files: found 1, more than the operator's policy allows; ask for at most 0 (policy.yaml:2)
    policy.yaml: limits.handles: found 17, more than the operator's policy allows; ask for at most 16 (policy.yaml:3)
    policy.yaml: limits.transfer: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    policy.yaml: limits.models: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    policy.yaml: limits.tensors: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    policy.yaml: limits.mini_batches: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:3)
    policy.yaml: limits.reports: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:3)
    policy.yaml: limits.failures: found 1, more than the operator's policy allows; ask for at most 0 (policy.yaml:4)
    policy.yaml: limits.copies: found 2 bytes, more than the operator's policy allows; ask for at most 1 bytes (policy.yaml:4)
    policy.yaml: limits.job_time: found 1.5 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:4)
    policy.yaml: process_count_per_node: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:6)
    policy.yaml: gpus: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:7)
    policy.yaml: run_max_try: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:8)
    policy.yaml: run_invocation_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:9)
    policy.yaml: task_overhead_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:10)
    policy.yaml: progress_update_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:11)
    policy.yaml: first_task_creation_timeout: found 2 seconds, more than the operator's policy allows; ask for at most 1 seconds (policy.yaml:12)
    policy.yaml: inference.threads: found 2, more than the operator's policy allows; ask for at most 1 (policy.yaml:5)
    policy.yaml: inference.gpu_memory: found 2 MB, more than the operator's policy allows; ask for at most 1 MB (policy.yaml:5)
    policy.yaml: os_sandbox: found off, less than the operator's policy requires; write best-effort, or leave the key out (policy.yaml:14)
    ");
    let usual = fixture.policy("gpus: 0\n").unwrap();
    let raised = "limits: {mini_batches: 10000001, reports: 3 GB, failures: 1001}\n";
    assert_snapshot!(fixture.job("gpus: 0\n", &format!("{JOB}{raised}"), &[]).unwrap_err(), @"
    job.yaml:4: limits.mini_batches: found 10000001, more than the operator's policy allows; ask for at most 10000000 (policy.yaml)
    job.yaml:4: limits.reports: found 3 GB, more than the operator's policy allows; ask for at most 2 GB (policy.yaml)
    job.yaml:4: limits.failures: found 1001, more than the operator's policy allows; ask for at most 1000 (policy.yaml)
    ");
    assert_snapshot!(format!("{:?}", usual.default_limits()), @"Limits { memory: ByteSize(1073741824), stack: ByteSize(1048576), fuel: None, read: ByteSize(536870912), results: ByteSize(268435456), row: ByteSize(67108864), logs: ByteSize(268435456), output: ByteSize(17179869184), files: 10000, handles: 10000, transfer: ByteSize(134217728), models: ByteSize(1073741824), tensors: ByteSize(268435456) }");
}
