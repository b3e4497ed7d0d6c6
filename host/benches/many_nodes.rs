//! Simulates many nodes of one job on this machine, to measure its leader. `benches/cluster.py` starts this program.
//!
//! Real are the leader, the broker, all messages, the reliable connection of each node ([`Link`]), the state machine of
//! each node ([`NodeMachine`]), and the rows: each attempt writes one into the part file of its worker. The file system
//! is synced before the attempt is reported, as nodes do.
//!
//! Simulated are the agents, the workers and the entry script: an attempt only waits. Workers never fail and are never
//! late. Several nodes share a thread, a connection to the broker and its syncs. The job is prepared once for all
//! nodes.

use rustix::fs::syncfs;
use sandmill::engine::{JobFile, node_request, settings, worker_dir};
use sandmill::model::{
    AttemptReport, CallStats, ItemCounts, JobDir, MiniBatchId, WorkerExit, WorkerId, random_name,
};
use sandmill::node::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};
use sandmill::node::{self, NodeOptions};
use sandmill::protocol::{
    Assignment, NodeNews, NodePolicy, NodeReport, Order, QueuePolicy, WorkersStanding,
};
use sandmill::spec::{self, JobSpec, LoadContext, MachineSize, NoRegistry};
use sandmill::{Cancel, Datastores, OperatorPolicy};
use sandmill_bus::{
    BUS_PROTOCOL, Broker, Bus, BusMessage, Channel, FromNode, JobForNode, Link, NodeBackends,
    OFFERS, Offer, Packet, ToNode, decode_message, queue, report_messages, to_leader, to_node,
};
use sandmill_files::PartFile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How often each link sends what is due. Real nodes do it at the exact time, which is at most 50 ms after a message
/// for an acknowledgement.
const LINK_INTERVAL: Duration = Duration::from_millis(20);

type Anything = Box<dyn Error + Send + Sync>;

/// Reports of nodes, by the node's index.
type ReportsOfNodes = Vec<(usize, Vec<NodeReport>)>;

/// A sync that runs, and the reports that wait for it.
struct Syncing {
    task: JoinHandle<io::Result<()>>,
    reports: ReportsOfNodes,
}

/// The command line.
struct Arguments {
    broker: Broker,
    /// The `sandmill` binary, which compiles the entry script.
    program: PathBuf,
    nodes: usize,
    /// How many seconds an attempt takes on average.
    seconds: f64,
    /// The time varies by this share.
    spread: f64,
    /// The number of connections, which the nodes share.
    connections: usize,
}

impl Arguments {
    /// How many seconds an attempt at this mini-batch takes.
    fn seconds_of(&self, id: MiniBatchId) -> f64 {
        // The golden ratio spreads the numbers evenly.
        let share = (0.618_033_988_75 * f64::from(u32::try_from(id.0).unwrap_or(u32::MAX))).fract();
        self.seconds * (1.0 + self.spread * (2.0 * share - 1.0))
    }
}

fn main() -> Result<(), Anything> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [url, program, nodes, seconds, spread, connections] = words.as_slice() else {
        println!(
            "usage: many_nodes BROKER SANDMILL NODES SECONDS SPREAD CONNECTIONS (see benches/cluster.py)"
        );
        return Ok(());
    };
    let arguments = Arc::new(Arguments {
        broker: Broker { url: url.clone(), credentials: None, root_certificate: None },
        program: program.into(),
        nodes: nodes.parse()?,
        seconds: seconds.parse()?,
        spread: spread.parse()?,
        connections: connections.parse()?,
    });
    let prepared = Arc::new(Mutex::new(None));
    let mut threads = Vec::new();
    for number in 0..arguments.connections {
        let arguments = arguments.clone();
        let prepared = prepared.clone();
        threads.push(thread::spawn(move || Machine::begin(number, &arguments, prepared)?.run()));
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

/// What a node finds when it prepares the job.
#[derive(Debug)]
struct Prepared {
    spec: JobSpec,
    folder: JobDir,
    component: String,
    settings: Vec<(String, String)>,
}

/// Prepares the job, as a node does.
fn prepare(asked: &JobForNode, arguments: &Arguments) -> Result<Prepared, Anything> {
    let machine = MachineSize { has_broker: true, ..MachineSize::default() };
    let policy = OperatorPolicy::default();
    let context = LoadContext {
        policy: &policy,
        registrations: &NoRegistry,
        machine: &machine,
        uploads: &[],
    };
    let spec = spec::load(&asked.job_file, &asked.overrides, context)?;
    let job_file = JobFile::new(&asked.job_file, &asked.overrides);
    let mut request = node_request(&spec, &job_file)?;
    let store = request.job_store.clone().ok_or("the job has no job_store")?;
    let folder = worker_dir(&store.join(&spec.name), &asked.run);
    request.job_dir = folder.root().to_owned();
    let options = NodeOptions {
        cache_dir: None,
        program: arguments.program.clone(),
        onnxruntime: None,
        cancel: Cancel::new(),
        datastores: Datastores::default(),
        policy,
    };
    let (found, _job) = node::prepare(spec.clone(), options, &request, &mut |_| {})?;
    let settings = settings(&spec, &found);
    Ok(Prepared { spec, folder, component: found.component, settings })
}

/// A thread with a connection to the broker, and the nodes that share it.
struct Machine {
    arguments: Arc<Arguments>,
    prepared: Arc<Mutex<Option<Arc<Prepared>>>>,
    bus: Bus,
    start: Instant,
    /// Empty until a leader has offered a job.
    nodes: Vec<SimulatedNode>,
    /// The nodes by their incarnations.
    by_name: HashMap<String, usize>,
    /// The number of nodes that will join.
    count: usize,
    /// When attempts end: the time, the node, and the worker.
    timers: BinaryHeap<Reverse<(Duration, usize, WorkerId)>>,
    /// Nodes that may have something to send.
    touched: BTreeSet<usize>,
    /// Reports that wait for the next sync.
    unsynced: ReportsOfNodes,
    syncing: Option<Syncing>,
    /// The folder whose file system is synced.
    folder: Option<Arc<File>>,
    flushed: Duration,
}

impl Machine {
    fn begin(
        number: usize,
        arguments: &Arc<Arguments>,
        prepared: Arc<Mutex<Option<Arc<Prepared>>>>,
    ) -> Result<Self, Anything> {
        let Arguments { nodes, connections, .. } = **arguments;
        let bus = Bus::connect(&arguments.broker, &format!("nodes-{number}"))?;
        bus.subscribe(OFFERS.to_owned())?;
        println!("ready");
        Ok(Self {
            arguments: arguments.clone(),
            prepared,
            bus,
            start: Instant::now(),
            nodes: Vec::new(),
            by_name: HashMap::new(),
            count: nodes / connections + usize::from(number < nodes % connections),
            timers: BinaryHeap::new(),
            touched: BTreeSet::new(),
            unsynced: Vec::new(),
            syncing: None,
            folder: None,
            flushed: Duration::ZERO,
        })
    }

    fn run(self) -> Result<(), Anything> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(Box::pin(self.drive()))
    }

    async fn drive(mut self) -> Result<(), Anything> {
        while self.nodes.is_empty() || !self.nodes.iter().all(|node| node.is_over) {
            let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
            let due = timer.unwrap_or(Duration::MAX).min(self.flushed + LINK_INTERVAL);
            tokio::select! {
                message = self.bus.next() => self.receive(&message)?,
                synced = next_synced(&mut self.syncing) => self.on_synced(synced)?,
                () = tokio::time::sleep_until((self.start + due).into()) => {}
            }
            while let Some(message) = self.bus.try_next() {
                self.receive(&message)?;
            }
            self.end_attempts()?;
            self.send();
        }
        // The last acknowledgements must arrive.
        self.bus.flush(Duration::from_secs(1));
        Ok(())
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn receive(&mut self, message: &BusMessage) -> Result<(), Anything> {
        if message.subject == OFFERS {
            let offer = decode_message(&message.payload)?;
            return if self.nodes.is_empty() { self.join(&offer) } else { Ok(()) };
        }
        let name = message.subject.rsplit('.').next().unwrap_or_default();
        let Some(index) = self.by_name.get(name).copied() else { return Ok(()) };
        let now = self.now();
        let node = &mut self.nodes[index];
        let Packet::Frame(frame) = node.channel.open(&message.payload)? else {
            return Err("the leader has given up a node".into());
        };
        for message in node.link.receive(frame, now)? {
            self.on_message(index, decode_message(&message)?)?;
        }
        self.touched.insert(index);
        Ok(())
    }

    /// All nodes of this thread begin to take part in the job.
    fn join(&mut self, offer: &Offer) -> Result<(), Anything> {
        for index in 0..self.count {
            let name = random_name();
            self.bus.subscribe(to_node(&name))?;
            let now = self.now();
            let mut node = SimulatedNode::new(&offer.leader, &name, now);
            node.send(&FromNode::Hello {
                name: format!("simulated-{name}"),
                protocol: BUS_PROTOCOL,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                may_lead: None,
                continues: None,
            });
            node.channel.publish_frames(&self.bus, &mut node.link, now);
            self.nodes.push(node);
            self.by_name.insert(name, index);
        }
        Ok(())
    }

    fn on_message(&mut self, index: usize, message: ToNode) -> Result<(), Anything> {
        let now = self.now();
        match message {
            ToNode::Accepted(asked) => {
                let prepared = self.prepared_for(&asked)?;
                let folder = prepared.folder.work();
                if self.folder.is_none() {
                    self.folder = Some(Arc::new(File::open(folder)?));
                }
                self.nodes[index].begin(&asked, &prepared)?;
            }
            ToNode::PartOfOrder(order) => self.nodes[index].parts.push(order),
            ToNode::Order(last) => {
                let parts = std::mem::take(&mut self.nodes[index].parts);
                for order in parts.into_iter().chain([last]) {
                    let timers = self.nodes[index].obey(order, now)?;
                    self.set_timers(index, timers);
                }
            }
            ToNode::Reclaimable { worker, id, attempt } => {
                if let Some(worker) = self.nodes[index].workers.get_mut(&worker) {
                    worker.part.reclaim((id, attempt));
                }
            }
            ToNode::Tables(_) | ToNode::Committed(_) => {}
            ToNode::Over => self.nodes[index].is_over = true,
            ToNode::Refused(reason) => return Err(reason.into()),
            ToNode::NotNeeded => return Err("the job has enough nodes".into()),
        }
        Ok(())
    }

    /// The prepared job, which all nodes share.
    fn prepared_for(&self, asked: &JobForNode) -> Result<Arc<Prepared>, Anything> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = &*prepared {
            return Ok(prepared.clone());
        }
        let found = Arc::new(prepare(asked, &self.arguments)?);
        Ok(prepared.insert(found).clone())
    }

    fn set_timers(&mut self, index: usize, begun: Vec<Begun>) {
        let now = self.now();
        for Begun { worker, id } in begun {
            let end = now + Duration::from_secs_f64(self.arguments.seconds_of(id));
            self.timers.push(Reverse((end, index, worker)));
        }
    }

    fn end_attempts(&mut self) -> Result<(), Anything> {
        while let Some(Reverse((at, index, worker))) = self.timers.peek().copied() {
            let now = self.now();
            if at > now {
                break;
            }
            self.timers.pop();
            let timers = self.nodes[index].end_attempt(worker, &self.arguments, now)?;
            self.set_timers(index, timers);
            self.touched.insert(index);
        }
        Ok(())
    }

    /// Sends what is due, and begins a sync if reports wait for one.
    fn send(&mut self) {
        let now = self.now();
        if now >= self.flushed + LINK_INTERVAL {
            self.flushed = now;
            self.touched.extend(0..self.nodes.len());
        }
        for index in std::mem::take(&mut self.touched) {
            let node = &mut self.nodes[index];
            if let Some(reports) = node.reports() {
                self.unsynced.push((index, reports));
            }
            node.channel.publish_frames(&self.bus, &mut node.link, now);
        }
        if let (None, false, Some(folder)) = (&self.syncing, self.unsynced.is_empty(), &self.folder)
        {
            let folder = folder.clone();
            let task = tokio::task::spawn_blocking(move || Ok(syncfs(&*folder)?));
            self.syncing = Some(Syncing { task, reports: std::mem::take(&mut self.unsynced) });
        }
    }

    fn on_synced(&mut self, synced: io::Result<()>) -> Result<(), Anything> {
        synced?;
        let ended = self.syncing.take();
        for (index, reports) in ended.map(|syncing| syncing.reports).unwrap_or_default() {
            let node = &mut self.nodes[index];
            node.is_syncing = false;
            node.send_reports(reports);
            self.touched.insert(index);
        }
        Ok(())
    }
}

async fn next_synced(syncing: &mut Option<Syncing>) -> io::Result<()> {
    match syncing {
        Some(Syncing { task, .. }) => task.await.map_err(io::Error::other)?,
        None => std::future::pending().await,
    }
}

/// The state of the workers, without what only the passing of time changes.
fn without_ages(standing: WorkersStanding) -> WorkersStanding {
    WorkersStanding { last_start: None, ..standing }
}

/// One node. What it does is what `nodes/job_part.rs` and `RunningJob` do with real workers.
struct SimulatedNode {
    link: Link,
    channel: Channel,
    /// `None` until the job is prepared.
    machine: Option<(NodeMachine, JobDir)>,
    workers: BTreeMap<WorkerId, SimulatedWorker>,
    outbox: Vec<NodeReport>,
    has_changed: bool,
    /// The first grants of an order whose rest has not arrived.
    parts: Vec<Order>,
    is_syncing: bool,
    is_over: bool,
}

/// An attempt that a worker has begun.
struct Begun {
    worker: WorkerId,
    id: MiniBatchId,
}

struct SimulatedWorker {
    part: PartFile,
    /// The attempt that runs, and the next ones.
    queue: VecDeque<Assignment>,
    /// Whether the worker ends after its queue.
    is_leaving: bool,
}

impl SimulatedNode {
    fn new(leader: &str, name: &str, now: Duration) -> Self {
        Self {
            link: Link::new(now),
            channel: Channel::new(to_leader(leader, name), None),
            machine: None,
            workers: BTreeMap::new(),
            outbox: Vec::new(),
            has_changed: false,
            parts: Vec::new(),
            is_syncing: false,
            is_over: false,
        }
    }

    fn send(&mut self, message: &FromNode) {
        queue(&mut self.link, message);
    }

    fn begin(&mut self, asked: &JobForNode, prepared: &Prepared) -> Result<(), Anything> {
        let Prepared { spec, folder, component, settings } = prepared;
        let proof = fs::read_to_string(folder.root().join("nodes").join(asked.node.to_string()))?;
        if proof != asked.proof {
            return Err("the leader has another store".into());
        }
        let policy = NodePolicy {
            workers: spec.process_count,
            run_timeout: spec.settings.run_invocation_timeout,
            load_timeout: spec.settings.task_overhead_timeout,
            gpus: Vec::new(),
            queues: QueuePolicy::OTHER_MACHINE,
        };
        let first = asked.node.first_worker().ok_or("the number of the node is too high")?;
        self.machine = Some((NodeMachine::new(policy, first), folder.clone()));
        self.send(&FromNode::Prepared {
            component: component.clone(),
            settings: settings.clone(),
            workers: spec.process_count,
            backends: NodeBackends::default(),
        });
        Ok(())
    }

    /// Carries out an order. Returns the attempts that workers have begun.
    fn obey(&mut self, order: Order, now: Duration) -> Result<Vec<Begun>, Anything> {
        let Some((machine, _)) = &mut self.machine else { return Ok(Vec::new()) };
        let before = without_ages(machine.standing());
        let outputs = machine.obey(order, now);
        // If the order changed nothing, an answer would lead to the same order again.
        self.has_changed |= without_ages(machine.standing()) != before;
        self.follow(outputs, now)
    }

    /// Ends the attempt that a worker runs. Returns the attempts that follow.
    fn end_attempt(
        &mut self,
        id: WorkerId,
        arguments: &Arguments,
        now: Duration,
    ) -> Result<Vec<Begun>, Anything> {
        let Some(worker) = self.workers.get_mut(&id) else { return Ok(Vec::new()) };
        let Some(Assignment { mini_batch, attempt, .. }) = worker.queue.pop_front() else {
            return Ok(Vec::new());
        };
        let seconds = arguments.seconds_of(mini_batch.id);
        let row = format!("{}\n", mini_batch.id);
        let segment = worker.part.append(row.as_bytes(), 1, (mini_batch.id, attempt))?;
        let items = ItemCounts::from_returned(mini_batch.planned_items(), 1);
        let report = AttemptReport {
            elapsed_seconds: seconds,
            run: CallStats { seconds, fuel: None },
            ..AttemptReport::new(mini_batch.id, attempt, mini_batch.stamp, items, Ok(segment))
        };
        let mut begun = self.handle(NodeMessage::Finished(id, Box::new(report)), now)?;
        begun.extend(self.start_next(id, now)?);
        Ok(begun)
    }

    /// Begins the next attempt in a worker's queue, or ends the worker if it was asked to end.
    fn start_next(&mut self, id: WorkerId, now: Duration) -> Result<Option<Begun>, Anything> {
        let Some(worker) = self.workers.get(&id) else { return Ok(None) };
        if let Some(next) = worker.queue.front() {
            let begun = Begun { worker: id, id: next.mini_batch.id };
            self.handle(NodeMessage::Started(id, begun.id), now)?;
            return Ok(Some(begun));
        }
        if worker.is_leaving {
            self.outbox.push(NodeReport::WorkerDone(id));
            self.exit(id, WorkerExit { code: Some(0), ..WorkerExit::default() }, now)?;
        }
        Ok(None)
    }

    fn exit(&mut self, id: WorkerId, exit: WorkerExit, now: Duration) -> Result<(), Anything> {
        self.workers.remove(&id);
        self.outbox.push(NodeReport::WorkerGone(id));
        self.handle(NodeMessage::Exited(id, exit), now).map(drop)
    }

    fn handle(&mut self, message: NodeMessage, now: Duration) -> Result<Vec<Begun>, Anything> {
        let Some((machine, _)) = &mut self.machine else { return Ok(Vec::new()) };
        let outputs = machine.handle(message, now);
        self.has_changed = true;
        self.follow(outputs, now)
    }

    /// Does what the state machine has decided. Returns the attempts that workers have begun.
    fn follow(&mut self, outputs: Vec<NodeOutput>, now: Duration) -> Result<Vec<Begun>, Anything> {
        let mut begun = Vec::new();
        let mut spawned = Vec::new();
        for output in outputs {
            match output {
                NodeOutput::Report(news) => self.outbox.push(NodeReport::News(news)),
                NodeOutput::Do(NodeAction::Spawn(id, _)) => spawned.push(id),
                NodeOutput::Do(action) => begun.extend(self.act(action, now)?),
            }
        }
        for id in spawned {
            let Some((_, folder)) = &self.machine else { continue };
            let part = PartFile::create(&folder.part_file(id), false)?;
            let worker = SimulatedWorker { part, queue: VecDeque::new(), is_leaving: false };
            self.workers.insert(id, worker);
            begun.extend(self.handle(NodeMessage::Spawned(id, std::process::id()), now)?);
            begun.extend(self.handle(NodeMessage::Ready(id, CallStats::default()), now)?);
        }
        Ok(begun)
    }

    fn act(&mut self, action: NodeAction, now: Duration) -> Result<Option<Begun>, Anything> {
        match action {
            NodeAction::Assign(id, assignment) => {
                let Some(worker) = self.workers.get_mut(&id) else { return Ok(None) };
                worker.queue.push_back(assignment);
                if worker.queue.len() == 1 {
                    return self.start_next(id, now);
                }
            }
            NodeAction::Shutdown(id) => {
                let Some(worker) = self.workers.get_mut(&id) else { return Ok(None) };
                worker.is_leaving = true;
                if worker.queue.is_empty() {
                    return self.start_next(id, now);
                }
            }
            NodeAction::Kill(id) => {
                self.exit(id, WorkerExit { signal: Some(9), ..WorkerExit::default() }, now)?;
            }
            // `follow` starts workers, workers never wait after a failure, and no objects are fetched.
            NodeAction::Spawn(..)
            | NodeAction::AssignFirst(..)
            | NodeAction::Withdraw(..)
            | NodeAction::GoOn(_) => {}
        }
        Ok(None)
    }

    /// Sends the collected reports, or returns them if they may be sent only after a sync.
    fn reports(&mut self) -> Option<Vec<NodeReport>> {
        let (machine, _) = self.machine.as_ref()?;
        if self.is_syncing {
            return None;
        }
        if std::mem::take(&mut self.has_changed) {
            self.outbox.push(NodeReport::News(NodeNews::Standing(machine.standing())));
        }
        let reports = std::mem::take(&mut self.outbox);
        let has_results = |report: &NodeReport| {
            let is_finished = matches!(report, NodeReport::News(NodeNews::Finished { .. }));
            is_finished || matches!(report, NodeReport::WorkerDone(_))
        };
        if reports.iter().any(has_results) {
            self.is_syncing = true;
            return Some(reports);
        }
        if !reports.is_empty() {
            self.send_reports(reports);
        }
        None
    }

    fn send_reports(&mut self, reports: Vec<NodeReport>) {
        for message in report_messages(reports) {
            self.send(&message);
        }
    }
}
