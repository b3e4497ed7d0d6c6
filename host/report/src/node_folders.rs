//! The folders of nodes in the log tree. Some folders, such as `logs/sys/node`, have a folder for each node,
//! which is named with the node's number.

use crate::model::{JobDir, NodeId};
use std::fs;
use std::io::{self, ErrorKind};

/// The folder with the logs of worker processes.
const WORKER_LOGS: &str = "sys/node";

/// The nodes that have a folder in this folder of the log tree, by number. Empty if there is no such folder.
/// Skips other folders, files and links.
pub(super) fn nodes_in(dir: &JobDir, folder: &str) -> io::Result<Vec<NodeId>> {
    let entries = match fs::read_dir(dir.logs().join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut nodes = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let node = name.to_str().and_then(|name| name.parse().ok()).map(NodeId);
        let Some(node) = node.filter(|node| *node.to_string() == *name) else { continue };
        if entry.file_type()?.is_dir() {
            nodes.push(node);
        }
    }
    nodes.sort_unstable();
    Ok(nodes)
}

/// The folder with the logs of worker processes, as advice names it. If there are several nodes, this is the
/// folder with the folders of all nodes.
pub(super) fn worker_logs_folder(dir: &JobDir) -> String {
    match nodes_in(dir, WORKER_LOGS) {
        Ok(nodes) if nodes.len() > 1 => format!("logs/{WORKER_LOGS}"),
        _ => format!("logs/{WORKER_LOGS}/{}", NodeId::ONLY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_sorted_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        assert!(nodes_in(&dir, WORKER_LOGS).unwrap().is_empty());
        assert_eq!(worker_logs_folder(&dir), "logs/sys/node/0");
        let logs = dir.logs().join(WORKER_LOGS);
        for name in ["0", "07", "+7", "x", "4294967296"] {
            fs::create_dir_all(logs.join(name)).unwrap();
        }
        fs::write(logs.join("3"), "a file").unwrap();
        std::os::unix::fs::symlink("0", logs.join("4")).unwrap();
        assert_eq!(nodes_in(&dir, WORKER_LOGS).unwrap(), [NodeId(0)]);
        assert_eq!(worker_logs_folder(&dir), "logs/sys/node/0");
        for name in ["10", "2"] {
            fs::create_dir(logs.join(name)).unwrap();
        }
        assert_eq!(nodes_in(&dir, WORKER_LOGS).unwrap(), [NodeId(0), NodeId(2), NodeId(10)]);
        assert_eq!(worker_logs_folder(&dir), "logs/sys/node");
    }
}
