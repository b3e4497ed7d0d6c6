//! A broker, agents, and jobs for them.

use rustix::process::{Pid, Signal, kill_process};
use sandmill_bus::Bus;
use sandmill_tests::{Broker, Ran, Running, TestJob, guest, root, sandmill};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A broker with agents. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) broker: Broker,
    /// The broker's address for leaders, and that for agents.
    urls: [String; 2],
    agents: Vec<Agent>,
    /// More environment variables of agents.
    environment: Vec<(String, String)>,
    /// The folder of the agents' logs and settings.
    folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
}

impl Cluster {
    /// A broker without agents.
    pub(crate) fn new() -> Self {
        Self::on(Broker::start())
    }

    /// As [`new`](Self::new), with this broker.
    pub(crate) fn on(broker: Broker) -> Self {
        let urls = [broker.url(), broker.url()];
        Self::with_logins(broker, urls)
    }

    /// A broker without agents. `urls`: its address for leaders, and that for agents.
    pub(crate) fn with_logins(broker: Broker, urls: [String; 2]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { broker, urls, agents: Vec::new(), environment: Vec::new(), folder }
    }

    /// As [`new`](Self::new), with agents that have these environment variables, too.
    pub(crate) fn with_environment(environment: Vec<(String, String)>) -> Self {
        Self { environment, ..Self::new() }
    }

    /// Starts an agent that logs in as this user.
    pub(crate) fn agent_as(&self, user: &str, number: usize) -> Agent {
        let url = self.broker.url_for(user, "...");
        Agent::start(&url, self.folder.path(), number, &[], &self.environment)
    }

    /// Starts an agent that reaches the broker at this address, which is none of those that the cluster counts.
    pub(crate) fn agent_at(&self, url: &str, number: usize) -> Agent {
        Agent::start(url, self.folder.path(), number, &[], &[])
    }

    /// Starts an agent with more options, which is none of those that the cluster counts.
    pub(crate) fn other_agent(&self, number: usize, options: &[&str]) -> Agent {
        self.agent_with(number, options, &self.environment)
    }

    /// Adds an agent for which another folder is at this path. If this user cannot mount folders, prints that the test is
    /// skipped, and returns false.
    pub(crate) fn add_agent_with_folder(&mut self, path: &Path, other: &Path) -> bool {
        let [path, other] = [path, other].map(|path| path.to_str().unwrap());
        let mount = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let starter = ["unshare", "--mount", "sh", "-c", mount, "sh", other, path];
        let can = Command::new(starter[0]).args(&starter[1..]).arg("true").output();
        if !can.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this user cannot mount folders");
            return false;
        }
        let (folder, number) = (self.folder.path(), self.agents.len());
        let agent =
            Agent::start_by(&starter, &self.urls[1], (folder, number), &[], &self.environment);
        agent.until("waits for jobs");
        self.agents.push(agent);
        true
    }

    /// As [`other_agent`](Self::other_agent), with these environment variables.
    pub(crate) fn agent_with(
        &self,
        number: usize,
        options: &[&str],
        environment: &[(String, String)],
    ) -> Agent {
        Agent::start(&self.urls[1], self.folder.path(), number, options, environment)
    }

    /// Adds an agent to those that the cluster counts, and waits until it listens to offers.
    pub(crate) fn add_agent(&mut self, options: &[&str], environment: &[(String, String)]) {
        let agent = self.agent_with(self.agents.len(), options, environment);
        agent.until("waits for jobs");
        self.agents.push(agent);
    }

    /// How many agents were started.
    pub(crate) fn count(&self) -> usize {
        self.agents.len()
    }

    /// A path in the folder of the agents' settings.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of the job directories of the agent with this number.
    pub(crate) fn folder_of_leaders(&self, number: usize) -> String {
        let folder = self.folder.path().join(format!("machine-{number}-jobs"));
        fs::create_dir_all(&folder).unwrap();
        folder.canonicalize().unwrap().display().to_string()
    }

    /// Writes a file into the folder of the agents' settings. Only its owner can read it. Returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Starts agents, and waits until they listen to offers.
    pub(crate) fn start_agents(&mut self, count: usize) {
        self.start_agents_with(count, &[]);
    }

    /// As [`start_agents`](Self::start_agents), with more options.
    pub(crate) fn start_agents_with(&mut self, count: usize, options: &[&str]) {
        let first = self.agents.len();
        for number in first..first + count {
            let agent = self.other_agent(number, options);
            self.agents.push(agent);
        }
        for agent in &self.agents[first..] {
            agent.until("waits for jobs");
        }
    }

    /// The agent with this name: `machine-0`, and so on.
    pub(crate) fn agent(&mut self, number: usize) -> &mut Agent {
        &mut self.agents[number]
    }

    /// The agent that runs the workers of this node of a job.
    pub(crate) fn agent_of(&mut self, job: &Running, node: u32) -> &mut Agent {
        let said = job.stderr_so_far();
        let marker = format!("note: node {node} (machine-");
        let number = said.split(&marker).nth(1).and_then(|rest| rest.split(')').next());
        let number: usize = number.unwrap().parse().unwrap();
        &mut self.agents[number]
    }

    /// The node of a job whose workers this agent runs.
    pub(crate) fn node_on(&self, job: &Running, agent: usize) -> u32 {
        let said = job.stderr_so_far();
        let (before, _) = said.split_once(&format!(" (machine-{agent}) takes part")).unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Submits the job in this folder, which stays here. Waits until the command ends.
    pub(crate) fn submit(&self, job: &TestJob, more: &[&str]) -> Ran {
        let file = job.path("job.yaml").display().to_string();
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let environment = self.environment.iter();
        let command = environment.fold(TestJob::empty(), |job, (name, value)| job.env(name, value));
        command.command(&[&["run", &file, "--detach"], &*options, more].concat())
    }

    /// Waits until one of the agents says this about a job that it leads. Returns the agent's number. Ignores the
    /// agent `but`.
    #[track_caller]
    pub(crate) fn until_one_says(&self, text: &str, but: Option<usize>) -> usize {
        let begun = Instant::now();
        loop {
            let mut others = (0..self.agents.len()).filter(|number| Some(*number) != but);
            if let Some(number) = others.find(|number| self.agents[*number].said().contains(text)) {
                return number;
            }
            let said: String = self.agents.iter().map(Agent::said).collect();
            assert!(begun.elapsed() < Duration::from_secs(60), "not said: {text}\n{said}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until agents have said this so many times, all together.
    #[track_caller]
    pub(crate) fn until_said(&self, text: &str, times: usize) {
        let begun = Instant::now();
        loop {
            let said: String = self.agents.iter().map(Agent::said).collect();
            if said.matches(text).count() >= times {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "not said: {text}\n{said}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A connection of a client that is not an agent.
    pub(crate) fn client(&self) -> Bus {
        client_at(self.broker.url())
    }

    /// The log tree of the only job that the agent with this number has led.
    pub(crate) fn jobs_of(&self, number: usize) -> PathBuf {
        let root = self.folder.path().join(format!("machine-{number}-jobs"));
        let folders = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
        folders.map(|folder| folder.join("logs")).find(|logs| logs.is_dir()).unwrap()
    }

    /// The options of `sandmill run` for this broker. Nodes are lost after two seconds.
    pub(crate) fn options(&self) -> [String; 4] {
        ["--broker".to_owned(), self.urls[0].clone(), "--node-timeout".to_owned(), "2".to_owned()]
    }

    /// Starts the job on the machine with this job directory.
    pub(crate) fn start(&self, job: TestJob, machine: &str, more: &[&str]) -> Running {
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        job.spawn(&[&["run", "job.yaml", "--job-dir", machine], &*options, more].concat())
    }

    pub(crate) fn run(&self, job: TestJob, machine: &str) -> Ran {
        self.start(job, machine, &[]).wait()
    }
}

/// A broker with the configuration in the docs, and a login `all` without limits.
pub(crate) fn broker_of_the_docs() -> Broker {
    let docs = std::fs::read_to_string(root().join("docs/nodes.md")).unwrap();
    let (_, config) = docs.split_once("# nats-server.conf").unwrap();
    let (config, _) = config.split_once("```").unwrap();
    let (_, config) = config.split_once('\n').unwrap();
    let with_all = config.replacen("users = [", "users = [{user: all, password: \"...\"}", 1);
    assert_ne!(config, with_all);
    Broker::start_with(&with_all)
}

/// A connection to the broker at this address.
pub(crate) fn client_at(url: String) -> Bus {
    let broker = sandmill_bus::Broker { url, credentials: None, root_certificate: None };
    Bus::connect(&broker, "client").unwrap()
}

impl Agent {
    /// Starts an agent. Its log continues that of an earlier agent with this number in this folder.
    pub(crate) fn start(
        url: &str,
        folder: &Path,
        number: usize,
        options: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        Self::start_by(&[], url, (folder, number), options, environment)
    }

    /// As [`start`](Self::start). `starter`: the words before the command, which start it in another way.
    fn start_by(
        starter: &[&str],
        url: &str,
        (folder, number): (&Path, usize),
        options: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let name = format!("machine-{number}");
        let log = folder.join(format!("{name}.log"));
        let program = [starter, &[sandmill().to_str().unwrap()]].concat();
        let child = Command::new(program[0])
            .args(&program[1..])
            .args(["node", "--broker", url, "--name", &name])
            .args(options)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            // Not the job's folder: an agent knows only what the leader names.
            .current_dir("/")
            .env("SANDMILL_CACHE_DIR", root().join("target/test-cache"))
            .env("SANDMILL_REGISTRY", folder.join("registry/registry.db"))
            .env("XDG_CONFIG_HOME", folder.join("config-home"))
            .env("SANDMILL_JOBS_ROOT", folder.join(format!("{name}-jobs")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, log }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the agent has said this.
    #[track_caller]
    pub(crate) fn until(&self, text: &str) {
        let begun = Instant::now();
        while !self.said().contains(text) {
            assert!(begun.elapsed() < Duration::from_secs(60), "not said: {text}\n{}", self.said());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The processes of this agent that lead jobs, or are about to.
    pub(crate) fn leaders(&self) -> Vec<Pid> {
        self.children(|command| command.contains("lead-job"))
    }

    /// The processes of this agent that run entry scripts, and those from which they are forked.
    pub(crate) fn workers(&self) -> Vec<Pid> {
        self.children(|command| command.contains("worker"))
    }

    /// The children of this agent whose command line is meant.
    fn children(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Pid> {
        let children = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(") ")?;
            let mut fields = rest.split(' ');
            let is_dead = fields.next() == Some("Z");
            let is_child = fields.next() == Some(&self.child.id().to_string());
            if is_dead || !is_child {
                return None;
            }
            let command = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            is_meant(&command).then(|| Pid::from_raw(pid)).flatten()
        });
        children.collect()
    }

    /// Sends a signal to the only process of this agent that leads a job.
    #[track_caller]
    pub(crate) fn signal_leader(&self, signal: Signal) {
        let leaders = self.leaders();
        let [leader] = leaders[..] else { panic!("{leaders:?}: {}", self.said()) };
        kill_process(leader, signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // An agent that has already ended needs no cleanup.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the process has not ended.
pub(crate) fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// How many files the job has.
pub(crate) const FILES: usize = 60;

/// A job with rows and files for this many nodes, one file a mini-batch.
pub(crate) fn job(nodes: u32, lines: &str) -> TestJob {
    job_of(FILES, nodes, lines)
}

/// As [`job`], with another number of files.
pub(crate) fn job_of(files: usize, nodes: u32, lines: &str) -> TestJob {
    let job = TestJob::new(&guest("writes_files")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 1\n\
         node_count: {nodes}\noutput: shared/out\njob_store: shared/jobs\n{lines}"
    ));
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    (0..files).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// The rows that the job has.
pub(crate) fn expected_rows() -> Vec<String> {
    rows_of(FILES)
}

/// The rows that the job has, in the order of the names of its files.
pub(crate) fn expected_rows_in_order() -> Vec<String> {
    let mut expected = expected_rows();
    expected.sort_by_key(|row| row.split(':').next().map(str::to_owned));
    expected
}

/// The rows in the parts of the output, sorted.
#[track_caller]
pub(crate) fn rows_of_parts(ran: &Ran) -> Vec<String> {
    let mut rows = String::new();
    for part in fs::read_dir(ran.dir().join("shared/out/parallel_run_step")).unwrap() {
        rows += &fs::read_to_string(part.unwrap().path()).unwrap();
    }
    sorted(&rows)
}

/// The rows of a job with this many files, sorted.
pub(crate) fn rows_of(files: usize) -> Vec<String> {
    let mut rows: Vec<String> = (0..files).map(|n| format!("{n}.txt: {n}")).collect();
    rows.sort();
    rows
}

/// The lines of a text, sorted.
pub(crate) fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The rows in the output file, sorted.
#[track_caller]
pub(crate) fn rows(ran: &Ran) -> Vec<String> {
    sorted(&ran.text("shared/out/parallel_run_step.txt"))
}

/// Fails if the output does not have each row and each file of the entry script.
#[track_caller]
pub(crate) fn assert_complete(ran: &Ran) {
    assert_eq!(rows(ran), expected_rows(), "{ran}");
    assert_files(ran);
}

/// Fails if the output does not have each file of the entry script, with its content.
#[track_caller]
pub(crate) fn assert_files(ran: &Ran) {
    for number in 0..FILES {
        assert_eq!(ran.text(&format!("shared/out/{number}.txt.out")), number.to_string(), "{ran}");
    }
}
