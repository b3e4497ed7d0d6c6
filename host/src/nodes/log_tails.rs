//! The logs of nodes whose job store is at an address, while the job runs: a thread of the node puts the new parts into
//! the store, and a thread of the leader copies them from there. At its end, a node puts its whole log tree into a pack.

use super::pack::is_log_of;
use crate::engine::{LogStore, NodeLogs, write_node_logs};
use crate::model::{JobDir, NodeId};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// The most chunks of a node that are copied at a time.
const MAX_CHUNKS: usize = 16;
/// The begin of the name of a chunk.
const CHUNK: &str = "log-";

/// The name of a chunk. `folder`: that of the node's rows.
fn chunk_name(folder: &str, number: u64) -> String {
    format!("{folder}/{CHUNK}{number:020}")
}

/// The thread of a node. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct LogTailing {
    _stop: mpsc::Sender<()>,
}

impl LogTailing {
    /// Starts the thread. `None` if there can be none: then the logs come at the node's end.
    pub(super) fn start(store: Arc<dyn LogStore>, folder: String, dir: &JobDir) -> Option<Self> {
        let mut logs = NodeLogs::new(dir);
        let (stop, stopped) = mpsc::channel::<()>();
        let tail = move || {
            let mut number = 0;
            let mut chunk = Vec::new();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                for _ in 0..MAX_CHUNKS {
                    if chunk.is_empty() {
                        chunk = logs.next_chunk();
                    }
                    // If the store fails, the next round tries again. The object may exist then.
                    if chunk.is_empty()
                        || store.create(&chunk_name(&folder, number), &chunk).is_err()
                    {
                        break;
                    }
                    chunk.clear();
                    number += 1;
                }
            }
        };
        thread::Builder::new().name("log-tailing".to_owned()).spawn(tail).ok()?;
        Some(Self { _stop: stop })
    }
}

/// The logs of all nodes of a leader.
#[derive(Debug)]
pub(super) struct NodeTails {
    nodes: Arc<Mutex<Tailed>>,
    _stop: mpsc::Sender<()>,
}

/// By the folders of their rows.
type Tailed = BTreeMap<String, Arc<Mutex<TailedNode>>>;

#[derive(Debug)]
struct TailedNode {
    node: NodeId,
    /// The number of the next chunk. `None` if an earlier leader has removed the first ones.
    next: Option<u64>,
    /// Whether the node's whole log tree is here, or will be.
    is_complete: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NodeTails {
    /// Starts the thread that copies the logs into this log tree.
    pub(super) fn start(store: Arc<dyn LogStore>, dir: JobDir) -> Self {
        let nodes = Arc::new(Mutex::new(Tailed::new()));
        let (stop, stopped) = mpsc::channel::<()>();
        let tailed = nodes.clone();
        let copy = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = lock(&tailed).clone();
                for (folder, node) in now {
                    copy_chunks(&*store, &folder, &mut lock(&node), &dir);
                }
            }
        };
        // Without a thread, the logs come when the nodes end.
        let _ = thread::Builder::new().name("node-logs".to_owned()).spawn(copy);
        Self { nodes, _stop: stop }
    }

    /// Copies the logs of this node from now on. `continues`: whether an earlier leader has copied some of them.
    pub(super) fn add(&self, folder: String, node: NodeId, continues: bool) {
        let next = (!continues).then_some(0);
        let tailed = TailedNode { node, next, is_complete: false };
        lock(&self.nodes).insert(folder, Arc::new(Mutex::new(tailed)));
    }

    /// Copies nothing more of this node, because its whole log tree comes.
    pub(super) fn complete(&self, folder: &str) {
        let node = lock(&self.nodes).remove(folder);
        if let Some(node) = node {
            lock(&node).is_complete = true;
        }
    }
}

fn copy_chunks(store: &dyn LogStore, folder: &str, tailed: &mut TailedNode, dir: &JobDir) {
    let TailedNode { node, next, is_complete } = tailed;
    if *is_complete {
        return;
    }
    let Some(first) = next.or_else(|| first_chunk(store, folder)) else { return };
    for number in (first..).take(MAX_CHUNKS) {
        let name = chunk_name(folder, number);
        *next = Some(number);
        let Ok(Some(chunk)) = store.read(&name) else { return };
        // What cannot be written now comes with the whole log tree.
        let _ = write_node_logs(&chunk, &dir.logs(), &|path| is_log_of(path, *node));
        let _ = store.remove(&name);
        *next = Some(number + 1);
    }
}

/// The number of the first chunk that is in the store.
fn first_chunk(store: &dyn LogStore, folder: &str) -> Option<u64> {
    let names = store.list(folder).ok()?;
    names.iter().filter_map(|name| name.strip_prefix(CHUNK)?.parse().ok()).min()
}
