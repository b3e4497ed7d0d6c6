//! Jobs that are signed, for agents whose policy names signers.

use crate::cluster::{Cluster, assert_complete, job};
use crate::hostile::offered;
use crate::sources::source_objects;
use sandmill_bus::{OFFERS, SigningKey};
use sandmill_model::SignerKey;
use sandmill_tests::{TestJob, guest};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A signer's key in a file.
pub(crate) struct Signer {
    pub(crate) key: SigningKey,
    pub(crate) file: String,
}

impl Signer {
    pub(crate) fn new(cluster: &Cluster, name: &str) -> Self {
        let text = SigningKey::new_text().unwrap();
        let file = cluster.file(&format!("{name}.key"), &text);
        Self { key: SigningKey::parse(&text).unwrap(), file }
    }

    pub(crate) fn public(&self) -> SignerKey {
        self.key.public()
    }
}

/// Starts agents that take part only in jobs of these signers.
pub(crate) fn start_agents(cluster: &mut Cluster, count: usize, signers: &[&Signer]) {
    let signers = signers.iter().enumerate();
    let lines: String = signers
        .map(|(number, signer)| format!("  signer{number}: {{keys: ['{}']}}\n", signer.public()))
        .collect();
    let policy = cluster.file("policy.yaml", &format!("signers:\n{lines}"));
    cluster.start_agents_with(count, &["--policy", &policy]);
}

/// An agent whose policy names a signer takes part in jobs of this signer, and in no others. It says what to do.
#[test]
fn an_agent_takes_part_only_in_jobs_of_its_signers() {
    let mut cluster = Cluster::new();
    let [ada, stranger] = ["ada", "stranger"].map(|name| Signer::new(&cluster, name));
    start_agents(&mut cluster, 2, &[&ada]);
    cluster.agent(0).until("waits for jobs of signer0");
    let unsigned = cluster.start(job(2, ""), "leader", &[]);
    let foreign = cluster.start(job(2, ""), "leader", &["--signing-key", &stranger.file]);
    let key = stranger.public();
    for number in 0..2 {
        let agent = cluster.agent(number);
        agent.until("takes no part in the job test: it is not signed, and the policy allows only jobs of signer0 (");
        agent.until(&format!(
            "takes no part in the job test: its signer is {key}, which the policy does not name ("
        ));
        agent.until(&format!("such as `NAME: {{keys: [\"{key}\"]}}`, and restart the agent"));
    }
    let job = job(2, "").env("SANDMILL_SIGNING_KEY", &ada.file);
    let ran = cluster.run(job, "leader");
    ran.exits_with(0);
    assert_complete(&ran);
    let state: serde_json::Value = serde_json::from_str(&ran.text("leader/job.json")).unwrap();
    assert_eq!(state["started_by"]["signer"], ada.public().to_string());
    for running in [unsigned, foreign] {
        assert!(!running.stderr_so_far().contains("takes part"), "{}", running.stderr_so_far());
    }
}

/// What the job's store has of a signed job is checked: nothing else runs.
#[test]
fn a_changed_store_is_refused() {
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    let mut ears = cluster.client();
    ears.subscribe(OFFERS.to_owned()).unwrap();
    let mut running = cluster.start(job(1, ""), "leader", &["--signing-key", &ada.file]);
    offered(&mut ears);
    // A component of the same length would run otherwise.
    let objects = source_objects(&running.dir().join("shared/jobs"));
    for object in &objects {
        let length = fs::read(object).unwrap().len();
        fs::write(object, vec![b' '; length]).unwrap();
    }
    start_agents(&mut cluster, 1, &[&ada]);
    cluster.agent(0).until("in the job's store is not what its name says");
    running.until("the leader says why", |running| {
        running.stderr_so_far().contains("is not what its name says")
    });
}

/// The narrower limits of a signer hold for the jobs of this signer.
#[test]
fn the_limits_of_a_signer_apply() {
    let mut cluster = Cluster::new();
    let [ada, bob] = ["ada", "bob"].map(|name| Signer::new(&cluster, name));
    let job = job(1, "");
    let [folder, scripts] = [job.dir(), guest("writes_files").parent().unwrap()]
        .map(|folder| folder.canonicalize().unwrap().display().to_string());
    fs::create_dir(job.path("in/ada")).unwrap();
    let policy = format!(
        "roots:\n  inputs: ['{folder}/in']\n  side_inputs: []\n  entry_scripts: ['{scripts}']\n  \
         outputs: ['{folder}/shared/out']\n  job_directories: []\n  job_stores: ['{folder}/shared/jobs']\n\
         signers:\n  ada: {{keys: ['{}'], roots: {{inputs: ['{folder}/in/ada']}}}}\n  bob: {{keys: ['{}']}}\n",
        ada.public(),
        bob.public()
    );
    fs::create_dir(job.path("shared/out")).unwrap();
    let policy = cluster.file("policy.yaml", &policy);
    cluster.start_agents_with(1, &["--policy", &policy]);
    let running = cluster.start(job, "leader", &["--signing-key", &ada.file]);
    cluster
        .agent(0)
        .until(&format!("the operator's policy allows inputs only below {folder}/in/ada"));
    let mut running = running;
    running.kill_leader();
    let ran = running.wait();
    // Another signer continues the job. The leader says so.
    let ran = cluster.start(ran.into_job(), "other", &["--signing-key", &bob.file]).wait();
    ran.exits_with(0);
    assert_complete(&ran);
    ran.says(&format!(
        "note: the last run of this job was signed with {}; this one is signed with {}",
        ada.public(),
        bob.public()
    ));
}

/// A submission is not signed, so an agent whose policy has signers does not lead it.
#[test]
fn an_agent_with_signers_leads_no_unsigned_jobs() {
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    start_agents(&mut cluster, 1, &[&ada]);
    cluster.agent(0).until("this machine leads no jobs, because its policy has signers");
    let job = job(1, "");
    let ran = cluster.submit(&job, &[]);
    assert_ne!(ran.code, 0, "{ran}");
    assert!(!cluster.agent(0).said().contains("has submitted"), "{}", cluster.agent(0).said());
    assert!(!job.path("shared/out").exists());
}

/// `sandmill signer` makes a key that only its owner can read, and never replaces a file.
#[test]
fn keys_of_signers_are_made_and_shown() {
    let made = TestJob::empty().command(&["signer", "new", "ada.key"]);
    made.exits_with(0);
    let public: SignerKey = made.stdout.trim().parse().unwrap();
    made.says(&format!("as in `signers: {{NAME: {{keys: [\"{public}\"]}}}}`"));
    let file = made.dir().join("ada.key");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(SigningKey::parse(&text).unwrap().public(), public);
    let again = made.into_job().command(&["signer", "new", "ada.key"]);
    again.exits_with(2).says("ada.key exists, and a new key replaces no file: name another file");
    assert_eq!(again.text("ada.key"), text);
    let shown = again.into_job().command(&["signer", "show", "ada.key"]);
    shown.exits_with(0);
    assert_eq!(shown.stdout.trim(), public.to_string());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let open = shown.into_job().command(&["signer", "show", "ada.key"]);
    open.exits_with(2).says("other users can read or change it (mode 640");
    let other = open.into_job().file("other.key", public.to_string());
    fs::set_permissions(other.path("other.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let broker = ["--broker", "nats://127.0.0.1:9", "--signing-key", "other.key"];
    let job = other
        .yaml("name: x\nentry_script: x.wasm\ninputs: {a: in}\njob_store: s\noutput: o")
        .file("x.wasm", "")
        .file("in/a", "");
    let refused = job.command(&[&["run", "job.yaml"], &broker[..]].concat());
    refused.exits_with(2).says("other.key is not a signing key");
}
