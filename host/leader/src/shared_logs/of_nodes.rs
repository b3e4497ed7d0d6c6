//! The logs of nodes on other machines, while a job runs whose store is at an address: a node puts the new parts of its
//! logs into the store as chunks, and the leader copies them into its log tree.

use super::chunk::decode;
use super::fetching::write_piece;
use super::tails::Tails;
use crate::model::JobDir;
use std::path::Path;

/// The logs of a node, as the node sees them.
#[derive(Debug)]
pub struct NodeLogs {
    tails: Tails,
}

impl NodeLogs {
    /// Nothing of the log tree in this folder was copied yet.
    pub fn new(dir: &JobDir) -> Self {
        Self { tails: Tails::new(dir, true) }
    }

    /// A chunk with new parts of the logs, which then count as copied. Empty if nothing is new.
    pub fn next_chunk(&mut self) -> Vec<u8> {
        self.tails.next_chunk()
    }
}

/// Writes a chunk of a node's logs into a log tree. `may_write` says of which files the node may write parts.
///
/// # Errors
/// If the chunk cannot be understood, or the disk fails. A text for people.
pub fn write_node_logs(
    chunk: &[u8],
    logs: &Path,
    may_write: &dyn Fn(&Path) -> bool,
) -> Result<(), String> {
    for (piece, bytes) in decode(chunk)? {
        if may_write(piece.path.as_ref()) {
            write_piece(&piece, bytes, logs).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WorkerId;
    use std::fs;

    #[test]
    fn a_node_writes_only_what_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let [node, leader] = ["node", "leader"].map(|name| JobDir::new(dir.path().join(name)));
        for file in [node.script_stdout(WorkerId(3)), node.events()] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "text\n").unwrap();
        }
        let mut logs = NodeLogs::new(&node);
        let chunk = logs.next_chunk();
        assert!(logs.next_chunk().is_empty());
        let may_write = |path: &Path| path.starts_with("user");
        write_node_logs(&chunk, &leader.logs(), &may_write).unwrap();
        assert_eq!(fs::read(leader.script_stdout(WorkerId(3))).unwrap(), b"text\n");
        assert!(!leader.events().exists());
        assert!(write_node_logs(b"no chunk", &leader.logs(), &may_write).is_err());
    }
}
