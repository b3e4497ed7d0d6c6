//! From a checked job to one that can run: the machine asked for all that the job needs, the job directory claimed. The
//! claim comes last, so that a mistake in what comes before leaves no trace.

use super::ClaimError;
use super::claim::{Wanted, hold, resolve};
use super::job::Job;
use super::job_state::JobFile;
use super::nodes::{JobOnNode as _, Node};
use super::taking_up::{Ready, Reused};
use crate::journal::JournalError;
use crate::model::{JobDir, OutputAction};
use crate::protocol::node::Prepare;
use crate::spec::JobSpec;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Where the leader keeps a job, and what it does with an earlier run.
#[derive(Clone, Debug)]
pub struct LeaderOptions {
    /// The job directory; made if it is not there.
    pub job_dir: PathBuf,
    /// Whether to begin anew where the job was run before; its results are removed first.
    pub overwrite: bool,
    /// Whether the result of an earlier run may be taken instead, if nothing changed since and the
    /// job file does not forbid it (`allow_reuse`).
    pub reuse: bool,
    /// Where the job comes from, for `sandmill resume`; none if no job file says all of it.
    pub job_file: Option<JobFile>,
    /// What the user should know beside what the job and the node tell, one line each.
    pub notices: Vec<String>,
}

/// What came of preparing a job on a node.
#[derive(Debug)]
pub enum Prepared<N> {
    /// It can run; perhaps from where it was interrupted.
    Job(Box<Job<N>>),
    /// It was run before, and nothing has changed since: this is the result.
    Reused(Box<Reused>),
}

/// Why a job cannot begin. No mini-batch ran. A guest crate may have been built and an entry script
/// compiled, both kept for the next time, and folders may have been made.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError<E: Error + 'static> {
    /// The job directory or the output folder is taken or cannot be used, or holds an earlier run
    /// that cannot be taken up.
    #[error(transparent)]
    JobDir(#[from] ClaimError),
    /// The journal of an earlier run cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The machine lacks something that the job needs, or does not allow it.
    #[error(transparent)]
    Node(E),
}

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
    let ask = places(&spec, options)?;
    let (found, node) = node.prepare(&ask, say).map_err(PrepareError::Node)?;
    let job_dir = JobDir::new(&ask.job_dir);
    let output_file = (spec.output_action == OutputAction::AppendRow)
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
