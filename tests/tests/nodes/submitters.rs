//! A client of the broker that pretends to be `sandmill run --detach`, or a leader, and wants an agent to lead what it
//! must not.

use crate::cluster::{Cluster, assert_complete, job};
use sandmill_bus::{
    BUS_PROTOCOL, Bus, JobToLead, LEADS, LeadNews, Leads, SUBMITS, SourceToFetch, Submission,
    SubmitAnswer, SubmitState, ToAgent, decode_message, encode_message, publish, to_node,
};
use sandmill_leader::{folder_objects, put_source};
use sandmill_model::{JobText, random_name};
use sandmill_tests::{Ran, TestJob, guest};
use sandmill_wire::node::ScriptFiles;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// What is in a file that the agent can read, but the submitter cannot.
const SECRET: &str = "tiger-and-lion";

/// The agent says this if it starts a process for a submitted job.
const STARTS: &str = "a user has submitted the job";

struct Submitter {
    bus: Bus,
    /// The id of the only agent.
    agent: String,
}

impl Submitter {
    fn new(cluster: &Cluster) -> Self {
        let bus = cluster.client();
        bus.subscribe("sandmill.submitter.>".to_owned()).unwrap();
        let mut submitter = Self { bus, agent: String::new() };
        submitter.agent = submitter.agent_that_answers();
        submitter
    }

    /// Asks which agents can lead a job, and returns the one that answers. It has then handled all earlier messages of
    /// this client.
    fn agent_that_answers(&mut self) -> String {
        let id = random_name();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let question =
            Submission { protocol: BUS_PROTOCOL, version, id: id.clone(), store: "/x".into() };
        publish(&self.bus, SUBMITS, &question);
        let (agent, state) = self.answer_to(&id, |_| true);
        assert!(matches!(state, SubmitState::Willing { .. }), "{state:?}");
        agent
    }

    /// Waits for an answer to this submission.
    fn answer_to(
        &mut self,
        id: &str,
        pick: impl Fn(&SubmitState) -> bool,
    ) -> (String, SubmitState) {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(60), "no answer");
            let Some(message) = self.bus.try_next() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let parts: Vec<&str> = message.subject.split('.').collect();
            let Ok(answer) = decode_message::<SubmitAnswer>(&message.payload) else { continue };
            if parts[2] == id && pick(&answer.state) {
                return (parts[3].to_owned(), answer.state);
            }
        }
    }

    /// Asks the agent to lead a job. Does not wait.
    fn send(&self, id: &str, job: &JobToLead) {
        let job = Box::new(job.clone());
        let request =
            ToAgent::Lead { submission: id.to_owned(), job, overwrite: false, reuse: true };
        publish(&self.bus, &to_node(&self.agent), &request);
    }

    /// Asks the agent to lead a job, and returns the text with which the job's process ends.
    fn ask(&mut self, job: &JobToLead) -> String {
        let id = random_name();
        self.send(&id, job);
        let (_, state) = self.answer_to(&id, |state| !matches!(state, SubmitState::Starting));
        match state {
            SubmitState::Ended { code: Some(2), text } => text,
            other => panic!("{other:?}"),
        }
    }
}

/// A job whose job file has this text. Puts the text into the job store of `job`, as an honest submitter does.
fn job_with(job: &TestJob, text: &str) -> JobToLead {
    let store = job.path("shared/jobs").canonicalize().unwrap();
    let text = JobText { text: text.to_owned(), ..JobText::default() };
    let objects = folder_objects(&store, "forged").unwrap();
    let content = put_source(&*objects, &text, &ScriptFiles::default()).unwrap();
    let source =
        SourceToFetch { store: store.display().to_string(), tenant: "default".to_owned(), content };
    JobToLead {
        job: "forged".to_owned(),
        file: job.path("job.yaml"),
        overrides: Vec::new(),
        store: format!("/nowhere/{}", random_name()).into(),
        source: Some(source),
        node_timeout: Duration::from_secs(2),
    }
}

/// A job with the job file of `job`.
fn honest_job(job: &TestJob) -> JobToLead {
    job_with(job, &fs::read_to_string(job.path("job.yaml")).unwrap())
}

/// A job that its store does not have.
fn missing_job(job: &TestJob) -> JobToLead {
    let mut missing = honest_job(job);
    missing.source.as_mut().unwrap().content.sha256[0] ^= 1;
    missing
}

/// A cluster with one agent, which opens inputs only in `in`, and a job for it.
fn guarded() -> (Cluster, TestJob) {
    let job = job(1, "");
    fs::create_dir(job.path("shared/out")).unwrap();
    let scripts = guest("writes_files");
    let [folder, scripts] = [job.dir(), scripts.parent().unwrap()]
        .map(|folder| folder.canonicalize().unwrap().display().to_string());
    let mut cluster = Cluster::new();
    let leads = cluster.folder_of_leaders(0);
    let policy = format!(
        "roots:\n  inputs: ['{folder}/in']\n  side_inputs: []\n  entry_scripts: ['{scripts}']\n  \
         outputs: ['{folder}/shared/out']\n  job_directories: ['{leads}']\n  \
         job_stores: ['{folder}/shared/jobs']\n"
    );
    let policy = cluster.file("policy.yaml", &policy);
    cluster.start_agents_with(1, &["--policy", &policy]);
    (cluster, job)
}

/// The agent still leads what it may.
fn assert_leads(cluster: &mut Cluster, job: TestJob) {
    cluster.submit(&job, &[]).exits_with(0).says("leads it");
    cluster.agent(0).until("leads the job test no longer: exit status: 0");
    let ran: Ran = job.command(&["--version"]);
    assert_complete(&ran);
}

#[test]
fn malformed_submissions_start_nothing() {
    let (mut cluster, job) = guarded();
    let mut submitter = Submitter::new(&cluster);
    let node = to_node(&submitter.agent);
    for garbage in [&b""[..], b"\xff\xff\xff\xff", &[0; 1000], &[7; 900_000]] {
        for subject in [SUBMITS, LEADS, &node] {
            submitter.bus.publish(subject.to_owned(), garbage.to_vec());
        }
    }
    let honest = honest_job(&job);
    let cut = ToAgent::Lead {
        submission: random_name(),
        job: Box::new(honest.clone()),
        overwrite: false,
        reuse: true,
    };
    let cut = encode_message(&cut).unwrap();
    submitter.bus.publish(node, cut[..cut.len() / 2].to_vec());
    let long = "x".repeat(300);
    for name in ["", "..", "../x", "../../etc", "/x", "a/b", ".hidden", "a\0b", &long] {
        let named = JobToLead { job: name.to_owned(), ..honest.clone() };
        submitter.send(&random_name(), &named);
    }
    for file in ["job.yaml", "../job.yaml", "", "--help", "--set=name=x", "--job-dir=/x"] {
        submitter.send(&random_name(), &JobToLead { file: file.into(), ..honest.clone() });
    }
    // A path of the agent's machine instead of a content of the job's store.
    submitter.send(&random_name(), &JobToLead { source: None, ..honest.clone() });
    for id in ["", "../x", "sandmill.>", &long] {
        submitter.send(id, &honest);
    }
    submitter.agent_that_answers();
    let said = cluster.agent(0).said();
    assert!(!said.contains(STARTS), "{said}");
    assert!(cluster.agent(0).leaders().is_empty());
    assert_leads(&mut cluster, job);
}

/// The process that would lead the job refuses it. The answer has nothing of a text that is not a job file.
#[test]
fn what_the_policy_forbids_is_not_led() {
    let (mut cluster, job) = guarded();
    let job = job.file("elsewhere/a.txt", SECRET);
    let mut submitter = Submitter::new(&cluster);
    let text = submitter.ask(&job_with(&job, SECRET));
    assert!(text.contains("expected a map of settings"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    let text = submitter.ask(&missing_job(&job));
    assert!(text.contains("in the job's store is missing"), "{text}");
    let from = |store: String| {
        let mut job = honest_job(&job);
        job.source.as_mut().unwrap().store = store;
        job
    };
    let elsewhere = job.path("elsewhere").canonicalize().unwrap().display().to_string();
    for store in [elsewhere, "/".to_owned(), "s3://bucket/jobs".to_owned()] {
        let text = submitter.ask(&from(store));
        assert!(text.contains("the operator's policy allows"), "{text}");
    }
    let text = submitter.ask(&from("jobs".to_owned()));
    assert!(text.contains("neither an absolute path nor an address"), "{text}");
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    for overrides in [
        vec![set("inputs.texts.path", "elsewhere")],
        vec![set("inputs.texts.path", "in/../elsewhere")],
        vec![set("output", "elsewhere")],
        vec![set("job_store", "elsewhere")],
    ] {
        let text = submitter.ask(&JobToLead { overrides, ..honest_job(&job) });
        assert!(text.contains("the operator's policy allows"), "{text}");
    }
    // More than a command line can hold.
    let huge = vec![set("description", &"x".repeat(700_000)); 1];
    let text = submitter.ask(&JobToLead {
        overrides: [huge, vec![set("output", "elsewhere")]].concat(),
        ..honest_job(&job)
    });
    assert!(text.contains("output"), "{text}");
    assert_leads(&mut cluster, job);
}

/// A submission that is repeated starts one process. Many submissions do not start more processes than the agent may
/// have.
#[test]
fn a_flood_of_submissions_is_bounded() {
    let (mut cluster, job) = guarded();
    let mut submitter = Submitter::new(&cluster);
    let nowhere = missing_job(&job);
    let id = random_name();
    for _ in 0..200 {
        submitter.send(&id, &nowhere);
    }
    submitter.answer_to(&id, |state| matches!(state, SubmitState::Ended { .. }));
    submitter.agent_that_answers();
    assert_eq!(cluster.agent(0).said().matches(STARTS).count(), 1);
    let ids: Vec<String> = (0..40).map(|_| random_name()).collect();
    for id in &ids {
        submitter.send(id, &nowhere);
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let leaders = cluster.agent(0).leaders().len();
        assert!(leaders <= 16, "{leaders}");
    }
    assert_leads(&mut cluster, job);
}

/// Forged news of a leader that is then silent: the agent takes over, and leads nothing.
#[test]
fn forged_news_of_a_leader_make_no_leader() {
    let (mut cluster, job) = guarded();
    let submitter = Submitter::new(&cluster);
    let news = |run: &str, job: JobToLead| {
        let leads = Leads {
            protocol: BUS_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: run.to_owned(),
            epoch: 1,
            machine: "elsewhere".to_owned(),
            agent: None,
            submission: None,
            job,
            successors: Some(vec![submitter.agent.clone()]),
        };
        publish(&submitter.bus, LEADS, &LeadNews::Leads(Box::new(leads)));
    };
    let secret = job_with(&job, SECRET);
    news("20260101T000000Z-00000001", JobToLead { job: "../x".to_owned(), ..secret.clone() });
    news("20260101T000000Z-00000002", JobToLead { file: "--help".into(), ..secret.clone() });
    news("20260101T000000Z-00000003", secret);
    // The job exists, but this run does not.
    let real = JobToLead { job: "test".to_owned(), ..honest_job(&job) };
    news("20260101T000000Z-00000004", real);
    cluster.agent(0).until("cannot lead the job forged");
    let said = cluster.agent(0).said();
    assert!(!said.contains("../x") && !said.contains(SECRET), "{said}");
    assert_eq!(said.matches("the leader of the job forged is lost").count(), 1, "{said}");
    cluster.agent(0).until("the leader of the job test is lost, and this machine takes over");
    assert_eq!(fs::read_dir(job.path("shared/out")).unwrap().count(), 0);
}
