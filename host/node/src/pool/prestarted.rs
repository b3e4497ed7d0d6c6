//! Processes that are started before the job is known in detail.

use super::confine::{CgroupRoot, cgroup_root};
use super::launch::Program;
use super::pipes::Pipes;
use super::zygote::Zygote;
use crate::model::OsSandbox;
use std::path::Path;
use std::thread::{self, ThreadId};

/// Processes that start while we inspect a job, because starting them takes longer than that: the one from
/// which workers are forked, and a planner. They know nothing of the job. They end with this value, or with
/// the thread that made it, unless a [`Pool`](super::Pool) takes them over.
#[derive(Debug)]
pub struct PrestartedProcesses {
    zygote: Zygote,
    planner: Option<Pipes>,
    thread: ThreadId,
    /// The place for cgroups, determined before there are other processes. Dropped last.
    cgroup_root: CgroupRoot,
}

impl PrestartedProcesses {
    /// Starts the processes from the `sandmill` binary. If that fails, they are started when they are needed,
    /// and the error is reported then.
    pub fn start(program: &Path, mode: OsSandbox) -> Self {
        Self::with_program(&Program::sandmill(program), mode)
    }

    /// Like [`Self::start`], with another program.
    pub(super) fn with_program(program: &Program, mode: OsSandbox) -> Self {
        let cgroup_root = cgroup_root(mode);
        let mut zygote = Zygote::default();
        zygote.begin(program);
        let planner = zygote.call_planner();
        Self { zygote, planner, thread: thread::current().id(), cgroup_root }
    }

    /// The processes. `None` if the current thread did not start them, as they end with the thread that did.
    pub(super) fn take(self) -> Option<(Zygote, Option<Pipes>, CgroupRoot)> {
        let Self { zygote, planner, thread, cgroup_root } = self;
        (thread == thread::current().id()).then_some((zygote, planner, cgroup_root))
    }
}
