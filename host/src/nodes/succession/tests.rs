use super::*;
use crate::bus::BUS_PROTOCOL;
use std::collections::BTreeSet;

const RUN: &str = "run";

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// News of the leader that this agent has started.
fn news(epoch: u64, agent: Option<&str>, successors: &[&str]) -> Leads {
    Leads {
        protocol: BUS_PROTOCOL,
        version: "1".to_owned(),
        run: RUN.to_owned(),
        epoch,
        machine: "machine".to_owned(),
        agent: agent.map(str::to_owned),
        submission: None,
        job: JobToLead {
            job: "nightly".to_owned(),
            file: "/shared/nightly.yaml".into(),
            overrides: Vec::new(),
            store: "/shared/jobs/nightly".into(),
            source: None,
            node_timeout: seconds(10.0),
        },
        successors: Some(successors.iter().map(|&id| id.to_owned()).collect()),
    }
}

/// Lets time pass in small steps, and returns what the agent does, with the time.
fn pass(agent: &mut Succession, from: f64, to: f64, is_deaf: bool) -> Vec<(f64, Step)> {
    let mut done = Vec::new();
    let mut now = from;
    while now < to {
        done.extend(agent.tick(seconds(now), is_deaf, 10).into_iter().map(|step| (now, step)));
        now += 0.1;
    }
    done
}

fn start() -> Step {
    Step::Start(RUN.to_owned())
}

/// When the agent starts to lead, after the news of time 0. In tenths of a second.
fn starts(own: &str, successors: &[&str]) -> u32 {
    let mut agent = Succession::new(own.to_owned(), seconds(0.0));
    agent.hear(news(1, Some("x"), successors), seconds(0.0));
    let steps = pass(&mut agent, 0.0, 40.0, false);
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(steps[0].1, start());
    (0..400_u32).find(|tenths| (f64::from(*tenths) / 10.0 - steps[0].0).abs() < 0.05).unwrap()
}

#[test]
fn agents_have_their_turns() {
    let at = |own: &str| starts(own, &["a", "b"]);
    assert!((25..=26).contains(&at("a")), "{}", at("a"));
    assert!((45..=46).contains(&at("b")), "{}", at("b"));
    let others: BTreeSet<u32> = (0..20).map(|number| at(&format!("other-{number}"))).collect();
    assert!(others.iter().all(|at| (84..150).contains(at)), "{others:?}");
    assert!(others.len() >= 4, "not all of them begin at once: {others:?}");
}

#[test]
fn a_leader_that_speaks_is_not_replaced() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    for second in 0..20 {
        let now = f64::from(second) * 2.0;
        agent.hear(news(1, None, &["a"]), seconds(now));
        assert_eq!(pass(&mut agent, now, now + 2.0, false), []);
    }
    assert_eq!(agent.machine_of("/shared/jobs/nightly".as_ref(), seconds(40.0)), Some("machine"));
    assert_eq!(agent.machine_of("/shared/jobs/nightly".as_ref(), seconds(41.0)), None);
    assert_eq!(agent.machine_of("/shared/jobs/other".as_ref(), seconds(40.0)), None);
}

#[test]
fn silence_counts_only_while_the_agent_can_hear() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    agent.hear(news(1, None, &["a"]), seconds(0.0));
    assert_eq!(pass(&mut agent, 0.0, 30.0, true), []);
    assert_eq!(pass(&mut agent, 30.0, 32.0, false), []);
    assert_eq!(pass(&mut agent, 32.0, 33.0, false).len(), 1);
    // The agent itself was paused.
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    agent.hear(news(1, None, &["a"]), seconds(0.0));
    assert_eq!(pass(&mut agent, 0.0, 1.0, false), []);
    assert_eq!(pass(&mut agent, 60.0, 62.0, false), []);
    assert_eq!(pass(&mut agent, 62.0, 63.0, false).len(), 1);
}

#[test]
fn an_agent_stops_if_there_is_a_leader() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    agent.hear(news(1, None, &["a"]), seconds(0.0));
    assert_eq!(pass(&mut agent, 0.0, 4.0, false).len(), 1);
    // Another agent was faster, or the earlier leader has woken.
    for (now, epoch) in [(4.0, 2), (8.0, 2)] {
        agent.hear(news(epoch, Some("b"), &["a"]), seconds(now));
        let steps = pass(&mut agent, now, now + 4.0, false);
        let steps: Vec<Step> = steps.into_iter().map(|(_, step)| step).collect();
        assert_eq!(steps, [Step::Stop(RUN.to_owned()), start()]);
    }
    // Its own process leads now.
    agent.hear(news(3, Some("a"), &["b", "a"]), seconds(12.0));
    assert_eq!(pass(&mut agent, 12.0, 14.0, false), []);
    // Late news of an earlier leader mean nothing.
    agent.hear(news(2, Some("b"), &["a"]), seconds(14.0));
    let steps = pass(&mut agent, 14.0, 22.5, false);
    assert_eq!(steps.first().map(|(_, step)| step), Some(&Step::Kill(RUN.to_owned())));
    assert!(steps[0].0 >= 22.0, "{steps:?}");
}

#[test]
fn a_leader_whose_agent_says_that_it_is_gone_is_replaced_at_once() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    agent.hear(news(4, Some("b"), &["a", "b"]), seconds(0.0));
    agent.lose(RUN, 3, seconds(0.1));
    assert_eq!(pass(&mut agent, 0.1, 1.0, false), [], "that was an earlier one");
    agent.lose(RUN, 4, seconds(1.0));
    // What the leader has said before arrives late.
    agent.hear(news(4, Some("b"), &["a", "b"]), seconds(1.0));
    assert_eq!(pass(&mut agent, 1.0, 1.1, false), [(1.0, start())]);
}

#[test]
fn a_job_that_has_ended_is_forgotten() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    agent.hear(news(4, Some("b"), &["a"]), seconds(0.0));
    agent.end(RUN, 3);
    assert!(agent.job(RUN).is_some(), "an earlier leader does not decide");
    agent.end(RUN, 4);
    assert_eq!(pass(&mut agent, 0.0, 60.0, false), []);
    // A process of this agent finds that the job has ended.
    agent.hear(news(5, Some("b"), &["a"]), seconds(60.0));
    assert_eq!(pass(&mut agent, 60.0, 70.0, false).len(), 1);
    assert_eq!(agent.on_end(RUN, LeaderEnd::Orderly, seconds(70.0)), None);
    assert_eq!(pass(&mut agent, 70.0, 90.0, false), []);
}

#[test]
fn an_agent_whose_leaders_fail_tries_less_and_less_often() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    let mut now = 0.0;
    let mut pauses = Vec::new();
    agent.hear(news(0, None, &["a"]), seconds(now));
    for epoch in 1..9 {
        let steps = pass(&mut agent, now, now + 400.0, false);
        let [(at, Step::Start(_))] = &steps[..] else { panic!("{steps:?}") };
        pauses.push((at - now).round());
        now += 400.0;
        // It leads for a moment, and then crashes.
        agent.hear(news(epoch, Some("a"), &["a"]), seconds(now));
        assert_eq!(agent.on_end(RUN, LeaderEnd::Failed, seconds(now)), Some(epoch));
    }
    assert_eq!(pauses, [3.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0]);
}

#[test]
fn a_run_that_was_found_is_taken_over_unless_it_has_a_leader() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    let store = "/shared/jobs/nightly".as_ref();
    agent.find(news(0, None, &[]), seconds(0.0));
    assert_eq!(agent.machine_of(store, seconds(0.0)), None);
    let steps = pass(&mut agent, 0.0, 20.0, false);
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!((2.0..9.0).contains(&steps[0].0), "{steps:?}");
    // Its first leader has the epoch 0, too.
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    agent.find(news(0, None, &[]), seconds(0.0));
    agent.hear(news(0, Some("b"), &[]), seconds(0.5));
    assert_eq!(agent.machine_of(store, seconds(0.6)), Some("machine"));
    agent.find(news(0, None, &[]), seconds(1.0));
    assert_eq!(agent.machine_of(store, seconds(1.0)), Some("machine"), "it speaks for itself");
}

#[test]
fn nothing_is_started_without_room_or_permission() {
    let mut agent = Succession::new("a".to_owned(), seconds(0.0));
    agent.hear(news(1, None, &["a"]), seconds(0.0));
    for tenths in 0..100 {
        assert_eq!(agent.tick(seconds(f64::from(tenths) / 10.0), false, 0), []);
    }
    let steps = agent.tick(seconds(10.0), false, 1);
    assert_eq!(steps, [start()]);
    let private = Leads { run: "other".to_owned(), successors: None, ..news(1, None, &[]) };
    agent.hear(private, seconds(10.0));
    let steps = pass(&mut agent, 10.0, 60.0, false);
    assert!(steps.iter().all(|(_, step)| *step != Step::Start("other".to_owned())), "{steps:?}");
    assert!(agent.job("other").is_none());
}

/// A process that leads the run, or waits to lead it.
#[derive(Debug)]
struct Process {
    agent: usize,
    /// When it leads, unless it is ended before.
    leads_at: Duration,
    epoch: Option<u64>,
    is_alive: bool,
}

/// Agents, of which the one with the leader dies again and again, and a broker that delays and loses messages.
struct World {
    now: Duration,
    agents: Vec<(Succession, bool)>,
    processes: Vec<Process>,
    /// News on their way: when they arrive, and at which agent.
    news: Vec<(Duration, usize, Leads)>,
    random: u64,
    epoch: u64,
}

impl World {
    fn new(agents: usize, seed: u64) -> Self {
        let agent = |number: usize| (Succession::new(number.to_string(), Duration::ZERO), true);
        Self {
            now: Duration::ZERO,
            agents: (0..agents).map(agent).collect(),
            processes: Vec::new(),
            news: Vec::new(),
            random: seed,
            epoch: 0,
        }
    }

    /// A number below `limit`.
    fn random(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % limit
    }

    fn leader(&self) -> Option<usize> {
        let leads = |process: &Process| process.is_alive && process.epoch.is_some();
        self.processes.iter().position(leads)
    }

    /// A hundredth of a second passes.
    fn step(&mut self, is_broker_down: bool) {
        self.now += Duration::from_millis(10);
        let now = self.now;
        // The lock of the output folder lets only one process lead.
        if self.leader().is_none() {
            let ready = |process: &&mut Process| process.is_alive && process.leads_at <= now;
            if let Some(process) = self.processes.iter_mut().find(ready) {
                self.epoch += 1;
                process.epoch = Some(self.epoch);
            }
        }
        if let Some(leader) = self.leader()
            && now.as_millis().is_multiple_of(NEWS_INTERVAL.as_millis())
        {
            self.send_news(leader, is_broker_down);
        }
        let (due, later) = self.news.drain(..).partition(|(at, ..)| *at <= now);
        self.news = later;
        let due: Vec<_> = due;
        for (_, agent, leads) in due {
            self.agents[agent].0.hear(leads, now);
        }
        for agent in 0..self.agents.len() {
            if self.agents[agent].1 {
                let steps = self.agents[agent].0.tick(now, is_broker_down, 1);
                steps.into_iter().for_each(|step| self.act(agent, &step));
            }
        }
    }

    fn send_news(&mut self, leader: usize, is_broker_down: bool) {
        let Process { agent, epoch, .. } = self.processes[leader];
        let names: Vec<String> = (0..self.agents.len()).map(|number| number.to_string()).collect();
        let mut successors: Vec<&str> =
            names.iter().enumerate().filter(|(n, _)| *n != agent).map(|(_, n)| &**n).collect();
        successors.push(&names[agent]);
        let leads = news(epoch.unwrap(), Some(&names[agent]), &successors);
        for to in 0..self.agents.len() {
            if !is_broker_down && self.random(10) > 0 {
                let delay = Duration::from_millis(self.random(200));
                self.news.push((self.now + delay, to, leads.clone()));
            }
        }
    }

    fn act(&mut self, agent: usize, step: &Step) {
        match step {
            Step::Start(_) => {
                let takes = Duration::from_millis(300 + self.random(700));
                let leads_at = self.now + takes;
                self.processes.push(Process { agent, leads_at, epoch: None, is_alive: true });
            }
            Step::Stop(_) => {
                let waits = |process: &&mut Process| {
                    process.agent == agent && process.is_alive && process.epoch.is_none()
                };
                if let Some(process) = self.processes.iter_mut().find(waits) {
                    process.is_alive = false;
                }
            }
            Step::Kill(_) => panic!("the leader is never paused"),
        }
    }

    /// The agent's machine dies, with all of its processes.
    fn kill(&mut self, agent: usize) {
        self.agents[agent].1 = false;
        self.processes.retain(|process| process.agent != agent);
    }
}

/// Whichever machines die, the job soon has a leader again, as long as an agent lives. Without faults, and while the
/// broker is down, no agent takes over.
#[test]
fn a_job_has_a_leader_again_soon() {
    for seed in 0..80 {
        let mut world = World::new(4, seed);
        world.processes.push(Process {
            agent: 0,
            leads_at: Duration::ZERO,
            epoch: None,
            is_alive: true,
        });
        for alive in (1..=4).rev() {
            let is_broker_down = world.random(3) == 0;
            let begun = world.epoch.max(1);
            (0..1000).for_each(|_| world.step(false));
            if is_broker_down {
                (0..world.random(2000)).for_each(|_| world.step(true));
            }
            assert_eq!(world.epoch, begun, "seed {seed}: the leader was replaced");
            let waiting = world.processes.iter().filter(|process| process.is_alive).count();
            assert_eq!(waiting, 1, "seed {seed}: no other process waits");
            if alive == 1 {
                break;
            }
            (0..world.random(100)).for_each(|_| world.step(false));
            let leader = world.processes[world.leader().unwrap()].agent;
            world.kill(leader);
            let lost = world.now;
            while world.leader().is_none() {
                world.step(false);
                assert!(world.now - lost < seconds(12.0), "seed {seed}: no leader for too long");
            }
        }
    }
}
