//! The format of a pack: the rows and files of finished attempts, which a node puts into the job's store before it
//! reports the attempts. A pack is one text of bytes, in several objects: an index with its length, then the rows in the
//! order of the reports, then the files in the order of the index.

use crate::bus::{StoredPack, decode_message, encode_message};
use crate::engine::{CreateObject, ObjectCutter};
use crate::model::{MiniBatchId, NodeId, WorkerId};
use crate::protocol::{NodeNews, NodeReport};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The longest index, in bytes.
const MAX_INDEX_BYTES: u64 = 256 << 20;
/// Folders of the log tree that have a folder for each node.
const LOG_FOLDERS: [&str; 5] =
    ["perf", "sys/node", "user/entry_script_log", "user/stdout", "user/stderr"];

/// A file or folder in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackEntry {
    pub(super) place: PackPlace,
    /// The path below the place.
    pub(super) path: PathBuf,
    pub(super) kind: EntryKind,
}

/// Where a file of a pack belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PackPlace {
    /// Among the files of an attempt, which wait to be published.
    Attempt(WorkerId, MiniBatchId, u32),
    /// Among the files that the worker's `init` and `shutdown` left.
    Worker(WorkerId),
    /// In the log tree.
    Logs,
}

/// What an entry of a pack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EntryKind {
    Folder,
    /// A file with this length in bytes.
    File(u64),
    /// A link, or a special file. Its content is not in the pack, because it cannot be published.
    Other,
}

/// The attempts of these reports that have rows, each with the worker. Their rows come in this order.
pub(super) fn with_rows(
    reports: &mut [NodeReport],
) -> impl Iterator<Item = (WorkerId, &mut crate::model::AttemptReport)> {
    reports.iter_mut().filter_map(|report| match report {
        NodeReport::News(NodeNews::Finished { worker, report, .. }) => {
            let has_rows = report.outcome.as_ref().is_ok_and(|segment| segment.length > 0);
            has_rows.then_some((*worker, &mut **report))
        }
        _ => None,
    })
}

/// The attempt that has succeeded, by this report.
pub(super) fn success_of(report: &NodeReport) -> Option<(MiniBatchId, u32)> {
    match report {
        NodeReport::News(NodeNews::Finished { report, .. }) => {
            report.outcome.is_ok().then_some((report.id, report.attempt))
        }
        _ => None,
    }
}

/// The worker that has ended normally, by this report. Its `init` and `shutdown` may have left files.
pub(super) fn ended_worker(report: &NodeReport) -> Option<WorkerId> {
    match report {
        NodeReport::WorkerDone(worker) => Some(*worker),
        _ => None,
    }
}

/// Those of these reports that decide what a pack has, in their order.
pub(super) fn with_results(reports: &[NodeReport]) -> Vec<NodeReport> {
    let has_results =
        |report: &&NodeReport| success_of(report).is_some() || ended_worker(report).is_some();
    reports.iter().filter(has_results).cloned().collect()
}

/// The places whose files belong to these reports.
pub(super) fn places_of(reports: &[NodeReport]) -> Vec<PackPlace> {
    let place = |report: &NodeReport| match report {
        NodeReport::News(NodeNews::Finished { worker, report, .. }) => {
            let has_files = report.outcome.is_ok() && report.has_files;
            has_files.then_some(PackPlace::Attempt(*worker, report.id, report.attempt))
        }
        NodeReport::WorkerDone(worker) => Some(PackPlace::Worker(*worker)),
        _ => None,
    };
    reports.iter().filter_map(place).collect()
}

/// Whether these reports speak of rows or files.
pub(super) fn have_results(reports: &[NodeReport]) -> bool {
    let has_rows = |report: &NodeReport| match report {
        NodeReport::News(NodeNews::Finished { report, .. }) => {
            report.outcome.as_ref().is_ok_and(|segment| segment.length > 0)
        }
        _ => false,
    };
    reports.iter().any(has_rows) || !places_of(reports).is_empty()
}

/// Whether a node may write a file at this path of the log tree.
pub(super) fn is_log_of(path: &Path, node: NodeId) -> bool {
    LOG_FOLDERS.iter().any(|folder| {
        let rest = path.strip_prefix(format!("{folder}/{node}"));
        rest.is_ok_and(|rest| !rest.as_os_str().is_empty())
    })
}

/// Writes the bytes of a pack to objects.
pub(super) struct PackWriter<'a, E> {
    create: &'a mut CreateObject<'a, E>,
    cutter: ObjectCutter,
    bytes: u64,
    digest: Sha256,
}

impl<'a, E> PackWriter<'a, E> {
    /// Writes the index.
    pub(super) fn begin(
        entries: &[PackEntry],
        create: &'a mut CreateObject<'a, E>,
    ) -> Result<Self, E> {
        let digest = Sha256::new();
        let mut writer = Self { create, cutter: ObjectCutter::default(), bytes: 0, digest };
        // Plain data always encodes. If it did not, the leader would refuse the pack.
        let index = encode_message(&entries).unwrap_or_default();
        writer.write(&(index.len() as u64).to_be_bytes())?;
        writer.write(&index)?;
        Ok(writer)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), E> {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        self.cutter.write(bytes, self.create)
    }

    /// Writes the last object. Returns what the report says of the pack.
    pub(super) fn end(self, number: u64) -> Result<StoredPack, E> {
        let objects = self.cutter.end(self.create)?;
        let sha256 = self.digest.finalize().into();
        Ok(StoredPack { number, objects, bytes: self.bytes, sha256 })
    }
}

/// Reads the index of a pack. Rows and files follow.
///
/// # Errors
/// If the pack cannot be read, or has no index.
pub(super) fn read_index(bytes: &mut dyn Read) -> io::Result<Vec<PackEntry>> {
    let mut length = [0; 8];
    bytes.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    let mut index = Vec::new();
    let read = bytes.take(length.min(MAX_INDEX_BYTES)).read_to_end(&mut index)?;
    if read as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode_message(&index).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::OBJECT_BYTES;
    use crate::model::is_inside;

    #[test]
    fn a_pack_is_divided_into_objects() {
        let mut objects: Vec<Vec<u8>> = Vec::new();
        let entries = [PackEntry {
            place: PackPlace::Worker(WorkerId(3)),
            path: "a/b".into(),
            kind: EntryKind::File(OBJECT_BYTES as u64),
        }];
        let mut create = |number: u32, bytes: &[u8]| {
            assert_eq!(number as usize, objects.len());
            objects.push(bytes.to_vec());
            Ok::<_, io::Error>(())
        };
        let mut writer = PackWriter::begin(&entries, &mut create).unwrap();
        writer.write(&vec![7; OBJECT_BYTES]).unwrap();
        let pack = writer.end(5).unwrap();
        assert_eq!((pack.number, pack.objects), (5, 2));
        assert_eq!(objects[0].len(), OBJECT_BYTES);
        let all = objects.concat();
        assert_eq!(all.len() as u64, pack.bytes);
        assert_eq!(<[u8; 32]>::from(Sha256::digest(&all)), pack.sha256);
        let mut bytes = &all[..];
        assert_eq!(read_index(&mut bytes).unwrap(), entries);
        assert!(bytes.len() == OBJECT_BYTES && bytes.iter().all(|byte| *byte == 7));
        for end in 0..20 {
            assert!(read_index(&mut &all[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_node_writes_logs_of_its_own_only() {
        let is_own = |path: &str| is_inside(path.as_ref()) && is_log_of(path.as_ref(), NodeId(3));
        for path in ["user/stdout/3/process300000.stdout.txt", "perf/3/a/b"] {
            assert!(is_own(path), "{path}");
        }
        for path in ["", "perf/3", "perf/30/a", "perf/3/../4/a", "/perf/3/a", "sys/events.jsonl"] {
            assert!(!is_own(path), "{path}");
        }
    }
}
