//! Processes that are started while the job is still being prepared.

use super::confine::{CgroupRoot, cgroup_root};
use super::launch::Program;
use super::pipes::Pipes;
use super::zygote::Zygote;
use crate::model::OsSandbox;
use std::path::Path;
use std::thread::{self, ThreadId};

/// The zygote, from which workers are forked, and a planner. They start while we prepare a job, because their
/// start takes longer than the preparation. They know nothing of the job. They end when this value is
/// dropped, or when the thread that made it ends, unless a [`Pool`](super::Pool) takes them over.
#[derive(Debug)]
pub struct PrestartedProcesses {
    zygote: Zygote,
    /// The pipes of the planner. `None` if the zygote could not be asked for a planner.
    planner: Option<Pipes>,
    /// The thread that started the processes.
    thread: ThreadId,
    /// Where cgroups can be made, found before there were other processes. Dropped last.
    cgroup_root: CgroupRoot,
}

impl PrestartedProcesses {
    /// Starts the processes from the `sandmill` binary. If that fails, processes are started later, when they
    /// are needed, and the error is reported then.
    pub fn start(program: &Path, mode: OsSandbox) -> Self {
        Self::with_program(&Program::sandmill(program), mode)
    }

    /// Like [`Self::start`], with another program.
    pub(super) fn with_program(program: &Program, mode: OsSandbox) -> Self {
        let cgroup_root = cgroup_root(mode);
        let mut zygote = Zygote::default();
        zygote.begin(program);
        let planner = zygote.request_planner();
        Self { zygote, planner, thread: thread::current().id(), cgroup_root }
    }

    /// Returns the processes. `None` if another thread than the current one started them, because they end
    /// with that thread.
    pub(super) fn into_parts(self) -> Option<(Zygote, Option<Pipes>, CgroupRoot)> {
        let Self { zygote, planner, thread, cgroup_root } = self;
        (thread == thread::current().id()).then_some((zygote, planner, cgroup_root))
    }
}
