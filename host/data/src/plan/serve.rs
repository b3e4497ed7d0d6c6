//! The planner process, and how it starts its helper processes. All of these processes build the
//! process wall before they open an input.

use super::groups::{format_of, positions};
use super::lockdown::lock_down;
use super::plan_with;
use super::shuffle::{self, Helper, ShuffleContext, ShuffleLimits};
use crate::model::Source;
use crate::protocol::{
    CutOptions, FrameError, MAX_FRAME, MayOpen, PlanRequest, encode, read_frame,
};
use crate::wall::{self, WallRole};
use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

/// Bytes of memory that the planner may write to. A folder of ten million files takes about two gigabytes.
const MEMORY_BYTES: u64 = 16 << 30;

/// The planner process: reads a [`PlanRequest`] from standard input and writes messages to standard output.
/// Fails if there is no valid request, if the requested wall cannot be built, or if the leader stops
/// listening. The process is killed when the thread that started it ends.
pub fn serve() -> io::Result<()> {
    wall::enter()?;
    let request: Option<PlanRequest> =
        read_frame(&mut io::stdin().lock(), &mut Vec::new()).map_err(io::Error::other)?;
    let Some(request) = request else {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "no plan was requested"));
    };
    // Behind the wall, this process cannot start other processes.
    let helpers = Mutex::new(helpers(&request)?);
    lock_down(
        WallRole::Planner,
        request.os_sandbox,
        request
            .sources
            .iter()
            .flat_map(|source| [Some(source.root.clone()), source.manifest.clone()])
            .flatten(),
        &request.spill,
        MEMORY_BYTES,
    )?;
    let next_helper = || {
        let helper = helpers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        helper.ok_or_else(|| io::Error::other("all helper processes have ended"))
    };
    let tools =
        ShuffleContext { request: &request, start: &next_helper, bounds: ShuffleLimits::default() };
    let next_answer = || {
        let answer = read_frame(&mut io::stdin().lock(), &mut Vec::new());
        let gone = || io::Error::new(ErrorKind::UnexpectedEof, "the leader no longer answers");
        answer.map_err(io::Error::other)?.ok_or_else(gone)
    };
    serve_request(tools, &next_answer, &mut io::stdout().lock())
}

/// Starts the processes that group rows, and spares for those that die. Returns an empty list if no rows are
/// grouped. Also makes the folder for spill files and unpacked texts, which must exist before the wall is
/// built.
fn helpers(request: &PlanRequest) -> io::Result<Vec<Helper>> {
    if matches!(request.cut, CutOptions::Tables { .. }) && !request.spill.as_os_str().is_empty() {
        // An error is reported when the folder is written to.
        let _ = std::fs::create_dir_all(&request.spill);
    }
    if !is_shuffled(request) {
        return Ok(Vec::new());
    }
    shuffle::start_processes(request)
}

/// Whether rows may have to be gathered from many files, because a key is not in the files' paths.
fn is_shuffled(request: &PlanRequest) -> bool {
    let keys = &request.partition_keys;
    let are_in_paths = |source: &Source| {
        let format = format_of(source).ok().flatten();
        format.is_some_and(|format| positions(&format, keys).is_ok())
    };
    matches!(request.cut, CutOptions::Tables { .. })
        && !keys.is_empty()
        && !request.sources.iter().all(are_in_paths)
}

pub(super) fn serve_request(
    tools: ShuffleContext<'_>,
    next_answer: &dyn Fn() -> io::Result<MayOpen>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    plan_with(tools, next_answer, &mut |message| {
        bytes.clear();
        match encode(&message, &mut bytes) {
            Ok(()) => {}
            Err(FrameError::Io(error)) => return Err(error),
            Err(error) => {
                let text = format!("the plan cannot be sent (at most {MAX_FRAME} bytes): {error}");
                return Err(io::Error::other(text));
            }
        }
        out.write_all(&bytes)?;
        out.flush()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceSize, TableInput};

    #[test]
    fn helpers_are_started_only_for_column_keys() {
        let source = |format: Option<&str>| Source {
            partition_format: format.map(str::to_owned),
            ..Source::new("one", "/data".into())
        };
        let shuffled = |sources: Vec<Source>, keys: &[&str], cut: Option<CutOptions>| {
            let inputs = vec![TableInput::default(); sources.len()];
            let csv =
                CutOptions::Tables { size: SliceSize::Bytes(1), inputs, full_inference: false };
            let partition_keys = keys.iter().map(|&key| key.to_owned()).collect();
            let request = PlanRequest::new(sources, cut.unwrap_or(csv));
            is_shuffled(&PlanRequest { partition_keys, ..request })
        };
        let by_path = || source(Some("{year}/{name}.csv"));
        assert!(!shuffled(vec![source(None)], &[], None));
        assert!(shuffled(vec![source(None)], &["k"], None));
        assert!(!shuffled(vec![by_path()], &["year"], None));
        assert!(shuffled(vec![by_path()], &["year", "k"], None));
        assert!(shuffled(vec![by_path(), source(None)], &["year"], None));
        assert!(!shuffled(vec![source(None)], &["k"], Some(CutOptions::Files { count: 1 })));
    }
}
