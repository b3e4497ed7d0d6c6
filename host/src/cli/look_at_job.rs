//! The hidden command that reads a stranger's job file for a server, behind the wall.

use super::terminal::write_json_line;
use crate::load::this_machine;
use crate::model::OsSandbox;
use crate::spec::{
    self, JobSpec, LoadContext, NoRegistry, OperatorPolicy, SettingOrigin, SpecError, SpecErrors,
};
use crate::wall::{self, FolderRights, GrantedPath, ResourceLimits, Wall, WallRole};
use sandmill_server::{JobFileError, LookAnswer, LookQuestion, WorkerNeeds};
use std::io::{self, Read};
use std::path::Path;

/// The memory and processor time that reading a job file may take.
const MEMORY: u64 = 1 << 30;
const CPU_SECONDS: u64 = 15;
const OPEN_FILES: u64 = 64;

/// Reads a question from standard input, and writes the answer to standard output.
///
/// # Errors
/// If the question cannot be read, or the wall cannot be built.
pub(super) fn serve() -> io::Result<()> {
    wall::enter()?;
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let question: LookQuestion = serde_json::from_slice(&text)?;
    let policy = OperatorPolicy::load_for(&question.policy, Some(&question.tenant));
    let policy = policy.map_err(io::Error::other)?;
    let machine = this_machine();
    build_wall(&question, &policy)?;
    let (registrations, uploads) = (&NoRegistry, &[][..]);
    let context = LoadContext { policy: &policy, registrations, machine: &machine, uploads };
    let answer = match spec::load(&question.job_file, &question.settings, context) {
        Ok(spec) => answer(&spec),
        Err(errors) => LookAnswer::Errors(errors_of(&errors, &question.job_file)),
    };
    write_json_line(&serde_json::to_string(&answer)?)
}

fn build_wall(question: &LookQuestion, policy: &OperatorPolicy) -> io::Result<()> {
    let own = question.job_file.parent().map(|folder| GrantedPath::new(folder, FolderRights::Read));
    // The settings of a job may be in more files below the roots.
    let roots = policy.readable_roots();
    let roots = roots.into_iter().map(|root| GrantedPath::new(root, FolderRights::Read));
    let wall = Wall {
        role: WallRole::Planner,
        mode: policy.sandbox(OsSandbox::BestEffort),
        folders: own.into_iter().chain(roots).collect(),
        bounds: ResourceLimits {
            memory: Some(MEMORY),
            cpu_seconds: Some(CPU_SECONDS),
            largest_file: 0,
            open_files: OPEN_FILES,
        },
    };
    wall.build().map(|_| ()).map_err(io::Error::other)
}

fn answer(spec: &JobSpec) -> LookAnswer {
    LookAnswer::Job {
        name: spec.name.clone(),
        needs: WorkerNeeds {
            workers: spec.process_count,
            memory: spec.limits.memory.0,
            gpus: spec.gpus,
        },
        notices: spec.notices.clone(),
    }
}

fn errors_of(errors: &SpecErrors, job_file: &Path) -> Vec<JobFileError> {
    let folder = job_file.parent().map(|folder| format!("{}/", folder.display()));
    // The user does not know the folder in which the server keeps the job file.
    let shown = |text: &str| match &folder {
        Some(folder) => text.replace(folder, ""),
        None => text.to_owned(),
    };
    let error = |error: &SpecError| {
        let job_file = Some("job.yaml".to_owned());
        let number = |line: usize| u64::try_from(line).ok();
        let (file, line) = match &error.origin {
            SettingOrigin::File => (job_file, None),
            SettingOrigin::Line(line) => (job_file, number(*line)),
            SettingOrigin::In(file, line) => (Some(shown(file)), number(*line)),
            SettingOrigin::Set(_) => (None, None),
        };
        JobFileError { file, line, key: error.key.clone(), message: shown(&error.message) }
    };
    errors.errors.iter().map(error).collect()
}
