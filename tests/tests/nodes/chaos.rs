//! Everything dies at random: workers, agents, leaders and brokers, by SIGKILL and SIGSTOP, while jobs run one after
//! the other. The jobs must end soon after the last fault, with the results of an undisturbed run.
//!
//! `SANDMILL_CHAOS_SECONDS=600` sets how long there are faults. `SANDMILL_CHAOS_SEED=N` repeats the random decisions
//! of a run, but not its timing. `SANDMILL_CHAOS_RATE=3` makes three times as many faults. `SANDMILL_CHAOS_KEEP=FOLDER` keeps the files of a failed run in this new folder.

use crate::chaos_jobs::{ChaosJobs, name_of};
use crate::cluster::Agent;
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Brokers, Random, sandmill};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long there are faults, unless the environment says otherwise.
const SECONDS: u64 = 35;
/// After the last fault, the jobs must end within this time.
const END_WITHIN: Duration = Duration::from_secs(60);
/// A user continues a job that has no leader after this time.
const USER_PATIENCE: Duration = Duration::from_secs(20);
const AGENTS: usize = 4;
/// So many jobs run at the same time.
const AT_ONCE: usize = 2;

/// The kinds of faults, and how many milliseconds lie between two of them: at least, and at most.
const KINDS: [(Kind, u64, u64); 4] = [
    (Kind::Worker, 300, 2000),
    (Kind::Agent, 2000, 5000),
    (Kind::Leader, 5000, 15_000),
    (Kind::Broker, 15_000, 30_000),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Worker,
    Agent,
    Leader,
    Broker,
}

/// What shall happen to something that has failed.
#[derive(Clone, Copy, Debug)]
enum Repair {
    Continue(Pid),
    StartAgent(usize),
    ContinueBroker(usize),
    StartBroker(usize),
}

struct Chaos {
    random: Random,
    /// How many times more faults there are than usual.
    rate: u64,
    brokers: Brokers,
    agents: Vec<Option<Agent>>,
    /// Leaders that no agent has started.
    attached: Vec<Child>,
    jobs: ChaosJobs,
    /// The jobs that have not ended.
    running: BTreeSet<usize>,
    /// The jobs that users lead, with their files.
    of_users: BTreeMap<usize, String>,
    /// Since when these jobs have no leader.
    orphaned: BTreeMap<usize, Instant>,
    begun: Instant,
    /// When the next fault of each kind happens.
    due: BTreeMap<Kind, Instant>,
    repairs: Vec<(Instant, Repair)>,
    counts: BTreeMap<(Kind, bool), u32>,
    /// What happened.
    history: String,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let jobs = ChaosJobs::new();
        let brokers = Brokers::cluster(3);
        let mut random = Random(seed);
        let now = Instant::now();
        let due = KINDS.map(|(kind, least, most)| (kind, now + random.millis(least, most)));
        let mut chaos = Self {
            random,
            rate: setting("SANDMILL_CHAOS_RATE").unwrap_or(1),
            brokers,
            agents: Vec::new(),
            attached: Vec::new(),
            jobs,
            running: BTreeSet::new(),
            of_users: BTreeMap::new(),
            orphaned: BTreeMap::new(),
            begun: now,
            due: due.into(),
            repairs: Vec::new(),
            counts: BTreeMap::new(),
            history: format!("seed {seed}\n"),
        };
        chaos.agents = (0..AGENTS).map(|number| Some(chaos.start_agent(number))).collect();
        chaos.agents.iter().flatten().for_each(|agent| agent.until("waits for jobs"));
        chaos
    }

    fn start_agent(&self, number: usize) -> Agent {
        let store = self.jobs.store();
        Agent::start(&self.brokers.urls(), self.jobs.dir(), number, &["--store", &store], &[])
    }

    fn note(&mut self, what: &str) {
        let _ = writeln!(self.history, "{:7.2} s  {what}", self.begun.elapsed().as_secs_f32());
    }

    fn after(&mut self, from: u64, to: u64, repair: Repair) {
        let at = Instant::now() + self.random.millis(from, to);
        self.repairs.push((at, repair));
    }

    /// Does what is due. Waits for nothing else.
    fn step(&mut self, with_faults: bool) {
        let now = Instant::now();
        let (due, later) = self.repairs.drain(..).partition(|(at, _)| !with_faults || *at <= now);
        self.repairs = later;
        let due: Vec<(Instant, Repair)> = due;
        due.into_iter().for_each(|(_, repair)| self.repair(repair));
        for (kind, least, most) in KINDS {
            if with_faults && self.due[&kind] <= now {
                let next = now + self.random.millis(least / self.rate, most / self.rate);
                self.due.insert(kind, next);
                self.fail(kind);
            }
        }
        self.attached.retain_mut(|leader| leader.try_wait().unwrap().is_none());
    }

    fn repair(&mut self, repair: Repair) {
        self.note(&format!("{repair:?}"));
        match repair {
            // It may have ended.
            Repair::Continue(pid) => drop(kill_process(pid, Signal::CONT)),
            Repair::StartAgent(number) => self.agents[number] = Some(self.start_agent(number)),
            Repair::ContinueBroker(number) => self.brokers.servers[number].resume(),
            Repair::StartBroker(number) => self.brokers.start_again(number),
        }
    }

    fn fail(&mut self, kind: Kind) {
        let is_kill = self.random.below(2) == 0;
        let has_failed = match kind {
            Kind::Worker => {
                let workers: Vec<Pid> =
                    self.agents.iter().flatten().flat_map(Agent::workers).collect();
                self.fail_one(kind, &workers, is_kill, (100, 2000))
            }
            Kind::Leader => {
                let mut leaders: Vec<Pid> =
                    self.agents.iter().flatten().flat_map(Agent::leaders).collect();
                leaders.extend(self.attached.iter().map(Pid::from_child));
                self.fail_one(kind, &leaders, is_kill, (200, 6000))
            }
            Kind::Agent => self.fail_agent(is_kill),
            Kind::Broker => self.fail_broker(is_kill),
        };
        if has_failed {
            *self.counts.entry((kind, is_kill)).or_default() += 1;
        }
    }

    /// Kills or pauses one of these processes. Returns false if there is none.
    fn fail_one(&mut self, kind: Kind, all: &[Pid], is_kill: bool, pause: (u64, u64)) -> bool {
        if all.is_empty() {
            return false;
        }
        let pid = *self.random.one_of(all);
        self.note(&format!("{kind:?} {pid:?} {}", if is_kill { "killed" } else { "paused" }));
        if is_kill {
            return kill_process(pid, Signal::KILL).is_ok();
        }
        self.after(pause.0, pause.1, Repair::Continue(pid));
        kill_process(pid, Signal::STOP).is_ok()
    }

    fn fail_agent(&mut self, is_kill: bool) -> bool {
        let number = self.random.index(AGENTS);
        let Some(agent) = &mut self.agents[number] else { return false };
        let pid = agent.pid();
        if is_kill {
            agent.kill();
            self.agents[number] = None;
            self.after(200, 2000, Repair::StartAgent(number));
        } else {
            agent.signal(Signal::STOP);
            self.after(200, 4000, Repair::Continue(pid));
        }
        self.note(&format!("agent {number} {}", if is_kill { "killed" } else { "paused" }));
        true
    }

    /// Only one broker fails at a time.
    fn fail_broker(&mut self, is_kill: bool) -> bool {
        let is_broker =
            |repair: &Repair| matches!(repair, Repair::ContinueBroker(_) | Repair::StartBroker(_));
        if self.repairs.iter().any(|(_, repair)| is_broker(repair)) {
            return false;
        }
        let number = self.random.index(3);
        self.note(&format!("broker {number} {}", if is_kill { "killed" } else { "paused" }));
        if is_kill {
            self.brokers.kill(number);
            self.after(1000, 6000, Repair::StartBroker(number));
        } else {
            self.brokers.servers[number].pause();
            self.after(1000, 6000, Repair::ContinueBroker(number));
        }
        true
    }

    /// Begins another job: an agent leads it, or a process of its own.
    fn begin_job(&mut self) {
        let number = self.jobs.count;
        let nap = 100 + self.random.below(200);
        let file = self.jobs.add(nap);
        self.note(&format!("{} begins", name_of(number)));
        if self.random.below(3) == 0 {
            self.lead(&file, number);
            self.of_users.insert(number, file);
        } else {
            self.submit(&file, number);
        }
        self.running.insert(number);
    }

    fn leader_of(&self, file: &str, number: usize, more: &[&str]) -> Child {
        let name = name_of(number);
        let folder = self.jobs.dir();
        let log = folder.join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(sandmill());
        command.args(["run", file, "--broker", &self.brokers.urls(), "--node-timeout", "2"]);
        if more.is_empty() {
            command.arg("--job-dir").arg(folder.join(format!("{name}-leader")));
        }
        command.args(more).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("SANDMILL_CACHE_DIR", sandmill_tests::root().join("target/test-cache"));
        command.stderr(log).spawn().unwrap()
    }

    /// Leads a job in a process of its own. If the process dies before an agent knows the job, only the user can continue
    /// the job, by the same command.
    fn lead(&mut self, file: &str, number: usize) {
        let said = format!("offers to run workers of the job {}\n", name_of(number));
        let begun = Instant::now();
        let mut leader = None;
        while !self.agents.iter().flatten().any(|agent| agent.said().contains(&said)) {
            assert!(begun.elapsed() < END_WITHIN, "no agent knows the job\n{}", self.report());
            let runs = self.attached.iter().any(|process| Some(process.id()) == leader);
            if !runs {
                let process = self.leader_of(file, number, &[]);
                leader = Some(process.id());
                self.attached.push(process);
            }
            self.step(true);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Submits a job until it is led. An agent that was asked may have died.
    fn submit(&mut self, file: &str, number: usize) {
        let begun = Instant::now();
        loop {
            let mut submitter = self.leader_of(file, number, &["--detach"]);
            let status = loop {
                if let Some(status) = submitter.try_wait().unwrap() {
                    break status;
                }
                self.step(true);
                thread::sleep(Duration::from_millis(20));
            };
            // It may be led although the agent has died that knew of the submission.
            if status.code() == Some(0) || self.jobs.states().contains_key(&name_of(number)) {
                return;
            }
            assert!(begun.elapsed() < END_WITHIN, "no agent leads the job\n{}", self.report());
        }
    }

    /// Checks the jobs that have ended.
    fn look(&mut self) {
        let states = self.jobs.states();
        for number in self.running.clone() {
            let name = name_of(number);
            let state = states
                .get(&name)
                .map_or("unknown", |job| job["state"].as_str().unwrap_or("without a state"));
            match state {
                "completed" => {
                    self.note(&format!("{name} is complete"));
                    self.running.remove(&number);
                }
                "interrupted" => self.continue_job(number),
                "failed" | "cancelled" => panic!("{name} is {state}\n{}", self.report()),
                _ => drop(self.orphaned.remove(&number)),
            }
        }
    }

    /// If all agents have died that knew the job of a user, no agent continues it, but its user does.
    fn continue_job(&mut self, number: usize) {
        let Some(file) = self.of_users.get(&number).cloned() else { return };
        let since = *self.orphaned.entry(number).or_insert_with(Instant::now);
        if since.elapsed() > USER_PATIENCE {
            self.orphaned.remove(&number);
            self.note(&format!("the user continues {}", name_of(number)));
            let leader = self.leader_of(&file, number, &[]);
            self.attached.push(leader);
        }
    }

    /// What happened, and what everyone said.
    fn report(&self) -> String {
        let mut report = format!("{}{:#?}\n", self.history, self.jobs.states());
        let folders = fs::read_dir(self.jobs.dir()).unwrap().map(|entry| entry.unwrap().path());
        let of_leaders = folders.filter(|path| path.display().to_string().ends_with("-jobs"));
        for folder in of_leaders.chain([self.jobs.dir().to_owned()]) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "log") {
                    let text = fs::read_to_string(&path).unwrap();
                    let _ = writeln!(report, "--- {}\n{text}", path.display());
                }
            }
        }
        report
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        for (_, repair) in std::mem::take(&mut self.repairs) {
            if let Repair::Continue(pid) = repair {
                // It may have ended.
                let _ = kill_process(pid, Signal::CONT);
            }
        }
        for leader in &mut self.attached {
            // It may have ended.
            let _ = leader.kill();
            let _ = leader.wait();
        }
        if let (true, Some(keep)) = (thread::panicking(), std::env::var_os("SANDMILL_CHAOS_KEEP")) {
            // The agents still write there.
            let _ = fs::rename(self.jobs.dir(), keep);
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn jobs_survive_the_death_of_everything() {
    let seed = setting("SANDMILL_CHAOS_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    println!("SANDMILL_CHAOS_SEED={seed}");
    let seconds = Duration::from_secs(setting("SANDMILL_CHAOS_SECONDS").unwrap_or(SECONDS));
    let mut chaos = Chaos::new(seed);
    let begun = Instant::now();
    let mut look_at = begun;
    while begun.elapsed() < seconds {
        chaos.step(true);
        if look_at <= Instant::now() {
            look_at = Instant::now() + Duration::from_secs(1);
            chaos.look();
            if chaos.running.len() < AT_ONCE {
                chaos.begin_job();
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    chaos.step(false);
    chaos.note("the last fault");
    let last = Instant::now();
    while !chaos.running.is_empty() {
        assert!(last.elapsed() < END_WITHIN, "jobs do not end\n{}", chaos.report());
        chaos.step(false);
        chaos.look();
        thread::sleep(Duration::from_millis(500));
    }
    let faults: u32 = chaos.counts.values().sum();
    println!(
        "{faults} faults in {} jobs, which ended {:.1} s after the last one: {:?} (true: killed)",
        chaos.jobs.count,
        last.elapsed().as_secs_f32(),
        chaos.counts
    );
    for number in 0..chaos.jobs.count {
        chaos.jobs.check(number);
    }
    // Otherwise the test does not test anything.
    assert!(chaos.counts.len() >= 4 && faults > 10, "{faults} faults");
}
