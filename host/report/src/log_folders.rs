//! The folders that together have the log tree of a job.

use super::node_folders::nodes_in;
use crate::model::{JobDir, NodeId};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The folders that together have the log tree of a job. Usually this is the job directory. While other machines run
/// the workers, their logs are in the job's store. If several machines have led the job, each has its own logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFolders {
    /// The folders of the job's leaders, the latest one last.
    leaders: Vec<JobDir>,
    /// The folder of nodes on other machines. If it has a file, the same file of a leader is a copy of it.
    nodes: Option<JobDir>,
}

impl From<&JobDir> for LogFolders {
    fn from(dir: &JobDir) -> Self {
        Self { leaders: vec![dir.clone()], nodes: None }
    }
}

impl From<&LogFolders> for LogFolders {
    fn from(folders: &Self) -> Self {
        folders.clone()
    }
}

impl LogFolders {
    /// The logs of a job that these leaders have led, the latest one last, and the logs of nodes on other machines.
    pub fn new(leaders: Vec<JobDir>, nodes: Option<JobDir>) -> Self {
        Self { leaders, nodes }
    }

    /// The files with the events of the leaders, in order.
    pub(super) fn events(&self) -> impl Iterator<Item = PathBuf> {
        self.leaders.iter().map(JobDir::events)
    }

    /// All folders. Files of a later one replace copies of them in an earlier one.
    pub(super) fn all(&self) -> impl Iterator<Item = &JobDir> {
        self.leaders.iter().chain(&self.nodes)
    }

    /// Whether a file of this folder is a copy of a file of the nodes.
    pub(super) fn is_copy(&self, folder: &JobDir, path: &Path) -> bool {
        let Some(nodes) = self.nodes.as_ref().filter(|nodes| *nodes != folder) else {
            return false;
        };
        let inside = path.strip_prefix(folder.root());
        inside.is_ok_and(|inside| nodes.root().join(inside).exists())
    }

    /// The file with this path in a job directory, of the latest leader that has it. `None` if it is missing or empty
    /// in all folders.
    pub(super) fn find(&self, inside: &Path) -> Option<PathBuf> {
        let folders = self.nodes.iter().chain(self.leaders.iter().rev());
        let mut paths = folders.map(|folder| folder.root().join(inside));
        paths.find(|path| path.metadata().is_ok_and(|found| found.len() > 0))
    }

    /// The nodes that have a folder in this folder of the log tree, by number.
    pub(super) fn nodes_in(&self, folder: &str) -> io::Result<BTreeSet<NodeId>> {
        let mut found = BTreeSet::new();
        for dir in self.all() {
            found.extend(nodes_in(dir, folder)?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::follow::Follower;
    use super::super::history::History;
    use super::super::logs::{LogFilter, print_logs};
    use super::*;
    use crate::model::WorkerId;
    use crate::samples;
    use std::fs;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn printed(logs: &LogFolders) -> String {
        let mut out = Vec::new();
        print_logs(logs, &LogFilter::All, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The leader copies the nodes' logs at the end. Each line is shown once.
    #[test]
    fn a_copy_is_not_shown_beside_the_file_of_the_node() {
        let folder = tempfile::tempdir().unwrap();
        let [own, nodes] = ["job", "store"].map(|name| JobDir::new(folder.path().join(name)));
        let logs = LogFolders::new(vec![own.clone()], Some(nodes.clone()));
        let worker = WorkerId(100_000);
        write(&nodes.script_stdout(worker), "one\n");
        write(&own.worker_errors(worker), "failed\n");
        let mut follower = Follower::new(&logs, None);
        let mut new = |is_last| {
            let mut out = Vec::new();
            follower.print_new(is_last, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let both = "==> logs/user/stdout/1/process100000.stdout.txt <==\none\n\
                    ==> logs/user/error/1/process100000.txt <==\nfailed\n";
        assert_eq!((new(false).as_str(), printed(&logs).as_str()), (both, both));
        write(&own.script_stdout(worker), "one\n");
        write(&own.script_stdout(WorkerId(0)), "only here\n");
        let only_here = "==> logs/user/stdout/0/process000.stdout.txt <==\nonly here\n";
        assert_eq!(new(true), only_here);
        assert_eq!(printed(&logs), format!("{only_here}{both}"));
        // After the end, the store is not needed.
        fs::remove_dir_all(nodes.root()).unwrap();
        assert_eq!(printed(&logs), format!("{only_here}{both}"));
    }

    #[test]
    fn the_logs_of_several_leaders_are_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, third] =
            ["a", "b", "c"].map(|name| JobDir::new(folder.path().join(name)));
        let logs = LogFolders::new(vec![first.clone(), second.clone(), third.clone()], None);
        assert!(History::read(&logs).is_err(), "there are no events");
        let lines = |events: &[crate::event::Event]| {
            let lines = events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n");
            lines.collect::<String>()
        };
        let all = samples::job_again();
        let again = all
            .iter()
            .rposition(|event| matches!(event.kind, crate::event::EventKind::JobStarted { .. }));
        let (before, after) = all.split_at(again.unwrap());
        write(&first.events(), &lines(before));
        write(&third.events(), &lines(after));
        let history = History::read(&logs).unwrap();
        write(&first.events(), &lines(&all));
        let whole = History::read(&first).unwrap();
        assert_eq!((history.times_resumed, history.succeeded), (1, whole.succeeded));
        write(&first.script_stdout(WorkerId(0)), "first\n");
        write(&second.script_stdout(WorkerId(0)), "second\n");
        let head = "==> logs/user/stdout/0/process000.stdout.txt <==\n";
        assert_eq!(printed(&logs), format!("{head}first\n{head}second\n"));
        let inside = second.script_stdout(WorkerId(0));
        let found = logs.find(inside.strip_prefix(second.root()).unwrap());
        assert_eq!(found, Some(inside));
    }
}
