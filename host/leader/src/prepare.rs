//! From a checked job to one that can run: the machine asked for all that the job needs, the job directory claimed. The
//! claim comes last, so that a mistake in what comes before leaves no trace.

use super::ClaimError;
use super::claim::{Wanted, hold, resolve};
use super::job::Prepared;
use super::job_state::JobState;
use super::nodes::{JobOnNode as _, Node};
use super::options::LeaderOptions;
use super::prepare_error::PrepareError;
use super::taking_up::Ready;
use crate::model::{JobDir, OutputAction};
use crate::protocol::node::Prepare;
use crate::spec::JobSpec;
use std::path::{Path, PathBuf};

/// Prepares a job on a node. `say` gets lines for people about what takes time.
///
/// Where the job was run before and not completed, it is taken up, and refused if something changed
/// that decides its rows; where it was completed, its result is reused if nothing changed.
///
/// # Errors
/// If the job cannot begin.
pub fn prepare<N: Node>(
    spec: JobSpec,
    options: &LeaderOptions,
    node: N,
    say: &mut dyn FnMut(&str),
) -> Result<Prepared<N::Job>, PrepareError<N::Error>> {
    let spec = with_earlier_name(spec, options)?;
    let ask = places(&spec, options)?;
    let (found, node) = node.prepare(&ask, say).map_err(PrepareError::Node)?;
    let job_dir = JobDir::new(&ask.job_dir);
    let output_file = (spec.worker.output_action == OutputAction::AppendRow)
        .then_some(spec.append_row_file_name.as_str());
    let wanted = Wanted { name: &spec.name, output: ask.output.as_deref(), output_file };
    let held = hold(&job_dir, wanted)?;
    let mut ready = Ready { spec, found, node, job_dir, parent: ask.parent };
    match held.earlier().cloned() {
        Some(earlier) if !options.overwrite => {
            ready.node.await_objects(say);
            ready.go_on(held, &earlier, options, say)
        }
        _ => ready.begin(held, options, say),
    }
}

/// The job with the output file's name that an earlier version gave it, if the directory holds such a job.
fn with_earlier_name(mut spec: JobSpec, options: &LeaderOptions) -> Result<JobSpec, ClaimError> {
    if options.overwrite || spec.earlier_file_name.is_none() {
        return Ok(spec);
    }
    let earlier = JobState::read(&JobDir::new(&options.job_dir))?;
    let earlier = earlier.and_then(|state| state.output_file);
    if let Some(name) = earlier.filter(|name| spec.earlier_file_name.as_ref() == Some(name)) {
        let passed = spec.arguments.iter_mut().skip(spec.own_arguments);
        passed.filter(|it| **it == spec.append_row_file_name).for_each(|it| it.clone_from(&name));
        spec.append_row_file_name = name;
    }
    Ok(spec)
}

/// The paths that the leader writes to, resolved once: what the operator's policy is held against is what is opened.
fn places(spec: &JobSpec, options: &LeaderOptions) -> Result<Prepare, ClaimError> {
    Ok(Prepare {
        output: spec.output.as_deref().map(resolve).transpose()?,
        parent: spec.parent.as_ref().map(|parent| resolve(&parent.folder)).transpose()?,
        job_dir: resolve(&absolute(&options.job_dir))?,
        job_file: options.job_file.as_ref().map(|file| file.path.clone()),
        begins: options.overwrite || !JobDir::new(&options.job_dir).state_file().exists(),
    })
}

/// Child processes have other working folders, so that every path they get is absolute.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
