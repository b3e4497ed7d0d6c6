//! Numbers of nodes, and the proof that a machine has the job's store. Each number is a file in the store, which is
//! created only if it is absent. So no two leaders ever give out the same number.

use crate::model::{JobDir, NodeId};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

/// The file of a number, in the folder of the workers' files.
fn path(folder: &JobDir, node: NodeId) -> PathBuf {
    folder.root().join("nodes").join(node.to_string())
}

/// Takes the lowest number from `from` on that no node has had, and writes the proof into its file.
///
/// # Errors
/// If the store cannot be written, or if there are no more numbers.
pub(super) fn take_number(folder: &JobDir, from: u32, proof: &str) -> io::Result<NodeId> {
    fs::create_dir_all(folder.root().join("nodes"))?;
    for number in from.. {
        let node = NodeId(number);
        if node.first_worker().is_none() {
            break;
        }
        match OpenOptions::new().write(true).create_new(true).open(path(folder, node)) {
            Ok(mut file) => {
                file.write_all(proof.as_bytes())?;
                file.sync_all()?;
                return Ok(node);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("the job has had too many nodes"))
}

/// Whether this machine sees the proof in the file of the number.
///
/// # Errors
/// If the file cannot be read. It is missing if the machines do not share the folder.
pub(super) fn is_shared(folder: &JobDir, node: NodeId, proof: &str) -> io::Result<bool> {
    Ok(fs::read_to_string(path(folder, node))? == proof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_out_twice() {
        let dir = tempfile::tempdir().unwrap();
        let folder = JobDir::new(dir.path());
        assert_eq!(take_number(&folder, 0, "a").unwrap(), NodeId(0));
        assert_eq!(take_number(&folder, 0, "b").unwrap(), NodeId(1));
        assert_eq!(take_number(&folder, 2, "c").unwrap(), NodeId(2));
        assert!(is_shared(&folder, NodeId(1), "b").unwrap());
        assert!(!is_shared(&folder, NodeId(1), "a").unwrap());
        assert!(is_shared(&folder, NodeId(7), "a").is_err());
    }
}
