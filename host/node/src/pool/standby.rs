//! What is started before it is known what exactly for.

use super::confine::{Room, room};
use super::launch::Program;
use super::nursery::Nursery;
use super::pipes::Pipes;
use crate::model::OsSandbox;
use std::path::Path;
use std::thread::{self, ThreadId};

/// Processes that start while a job is looked at, as starting takes longer than that: the one that workers are
/// forked from, and a planner. They know nothing of the job, and end with this value, or with the thread that
/// made it, unless a [`Pool`](super::Pool) takes them over.
#[derive(Debug)]
pub struct Standby {
    nursery: Nursery,
    planner: Option<Pipes>,
    thread: ThreadId,
    /// Where workers are put: looked for before there are other processes. Given back last.
    room: Room,
}

impl Standby {
    /// Starts them, of the `sandmill` binary. Where that cannot be, they are started when they are needed, and it
    /// is told then.
    pub fn start(program: &Path, mode: OsSandbox) -> Self {
        Self::with_program(&Program::sandmill(program), mode)
    }

    /// As [`Self::start`], of another program.
    pub(super) fn with_program(program: &Program, mode: OsSandbox) -> Self {
        let room = room(mode);
        let mut nursery = Nursery::default();
        nursery.begin(program);
        let planner = nursery.call_planner();
        Self { nursery, planner, thread: thread::current().id(), room }
    }

    /// The processes, if they live as long as this thread does.
    pub(super) fn take(self) -> Option<(Nursery, Option<Pipes>, Room)> {
        let Self { nursery, planner, thread, room } = self;
        (thread == thread::current().id()).then_some((nursery, planner, room))
    }
}
