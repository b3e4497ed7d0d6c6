//! From a checked job to one that can run: inputs found, entry script built and compiled, job
//! directory claimed. The claim comes last, so that a mistake in what comes before leaves no trace.

use super::ClaimError;
use super::backends::{find_onnxruntime, weigh_models};
use super::cancel::Cancel;
use super::claim::{Wanted, hold, resolve};
use super::job::Job;
use super::job_state::JobFile;
use super::models::{self, ModelError};
use super::real_paths::RealPaths;
use super::setup;
use super::staging::{stage, wait_for};
use super::taking_up::{Ready, Reused};
use crate::compile::{
    Cache, CompileError, Compiler, EntryFile, Instrumentation, build_guest_crate,
};
use crate::dataset::{self, DatasetError};
use crate::inference::NamedLibrary;
use crate::journal::JournalError;
use crate::model::{JobDir, OutputAction, Source};
use crate::pool::Standby;
use crate::spec::{Datastores, JobSpec, OperatorPolicy, SpecErrors};
use crate::store::StoreError;
use crate::turns::{Turns, TurnsError};
use crate::wall::{self, WallError};
use std::path::{Path, PathBuf};

/// Where and how to run a job. Begin with [`Options::new`].
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// The job directory; made if it is not there.
    pub job_dir: PathBuf,
    /// The folder for compiled components; none means the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// The `sandmill` binary, for child processes.
    pub program: PathBuf,
    /// Whether to begin anew where the job was run before; its results are removed first.
    pub overwrite: bool,
    /// Whether the result of an earlier run may be taken instead, if nothing changed since and the
    /// job file does not forbid it (`allow_reuse`).
    pub reuse: bool,
    /// Where the job comes from, for `sandmill resume`; none if no job file says all of it.
    pub job_file: Option<JobFile>,
    /// Where ONNX Runtime's library is, for jobs with models; none if it is not known.
    pub onnxruntime: Option<NamedLibrary>,
    /// Ends the preparation as well as the job; to be given to [`run`](super::run), too.
    pub cancel: Cancel,
    /// The stores that inputs may name, with what leads into them.
    pub datastores: Datastores,
    /// What the operator of this machine lets jobs do; all unless given. The job file is to be loaded
    /// [under it](crate::load_under), too, so that defaults keep to it.
    pub policy: OperatorPolicy,
}

impl Options {
    /// Options with a job directory and the `sandmill` binary; the rest as it mostly is.
    pub fn new(job_dir: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        let (job_dir, program) = (job_dir.into(), program.into());
        let (cache_dir, job_file, onnxruntime) = (None, None, None);
        let cancel = Cancel::new();
        let policy = OperatorPolicy::default();
        Self {
            job_dir,
            cache_dir,
            program,
            overwrite: false,
            reuse: true,
            job_file,
            onnxruntime,
            cancel,
            datastores: Datastores::default(),
            policy,
        }
    }
}

/// What came of preparing a job.
#[derive(Debug)]
pub enum Prepared {
    /// It can run; perhaps from where it was interrupted.
    Job(Box<Job>),
    /// It was run before, and nothing has changed since: this is the result.
    Reused(Box<Reused>),
}

/// Why a job cannot begin. No mini-batch ran. A guest crate may have been built and an entry script
/// compiled, both kept for the next time, and folders may have been made.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// An input is not there, or is not what it should be.
    #[error(transparent)]
    Input(#[from] DatasetError),
    /// An input lies in a store, and cannot be had from there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operator's policy does not allow it.
    #[error(transparent)]
    Policy(#[from] SpecErrors),
    /// The operator's caps for all jobs of the machine leave no room for this one.
    #[error(transparent)]
    Turns(#[from] TurnsError),
    /// The job would read what it writes, or overwrite what it reads.
    #[error(
        "{reader} and {what} {} are in each other's way, as the job would read what it writes: \
         {advice}",
        folder.display()
    )]
    Overlap {
        /// What is read, as in "input 'texts'".
        reader: String,
        /// "the job directory" or "the output folder".
        what: &'static str,
        /// That folder.
        folder: PathBuf,
        /// What to do.
        advice: String,
    },
    /// A path that child processes could not be told.
    #[error("the path of {what} is not UTF-8: {path:?}; rename the folder, or use another")]
    NotUtf8 {
        /// Whose path, as in "the job directory".
        what: String,
        /// The path.
        path: PathBuf,
    },
    /// The entry script cannot be built, or is no entry script.
    #[error(transparent)]
    EntryScript(#[from] CompileError),
    /// The entry script is not the one that the job file pins.
    #[error(
        "{path} has the SHA-256 {found}, but entry_script_digest is {expected}: it is not the \
         component that this job was made for; put the right one there, or change the pin"
    )]
    Digest {
        /// The component.
        path: PathBuf,
        /// What it has.
        found: String,
        /// What the job file says.
        expected: String,
    },
    /// A model is not there, or not the one that is meant.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The job directory or the output folder is taken or cannot be used, or holds an earlier run
    /// that cannot be taken up.
    #[error(transparent)]
    JobDir(#[from] ClaimError),
    /// The journal of an earlier run cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What is to compute with the job's models is not there.
    #[error("{0}")]
    Backend(String),
    /// The inputs could not be compared with what an earlier run saw.
    #[error("{0}")]
    Inputs(String),
    /// The job insists on a wall that this machine cannot build.
    #[error(transparent)]
    Wall(#[from] WallError),
    /// Somebody asked for the end before the job began. Holds the reason.
    #[error("{0}: the job was not begun, and what there is of it is as it was")]
    Cancelled(String),
}

/// Prepares a job. `say` gets lines for people about what takes time.
///
/// Where the job was run before and not completed, it is taken up, and refused if something changed
/// that decides its rows; where it was completed, its result is reused if nothing changed.
pub fn prepare(
    mut spec: JobSpec,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Result<Prepared, PrepareError> {
    // Before any input is fetched, as the process that does is behind the wall, too.
    wall::check(spec.os_sandbox)?;
    let standby = stand_by(&spec, options);
    let (sources, objects) = stage(&mut spec, options, say)?;
    let mut real = RealPaths::find(&spec, &absolute(&options.job_dir))?;
    let root = real.job_dir.clone();
    options.policy.check(&real.of(&spec), &sources, Some(&JobDir::new(&root)))?;
    refuse_overlap(&spec, &sources, &root)?;
    let cancel = options.cancel.clone();
    let compiler = Compiler::new(&options.program, spec.os_sandbox)
        .stopping(move || cancel.reason().is_some());
    if spec.entry_script.is_dir() {
        spec.entry_script = build_guest_crate(&spec.entry_script, &compiler, say)?;
        real.entry_script = resolve(&spec.entry_script)?;
    }
    let script = EntryFile::open_at_its_path(&real.entry_script, &compiler)?;
    // Before the compiler sees it.
    check_digest(&spec, script.digest())?;
    let models = models::look(&spec.models, spec.limits.models, &options.cancel)?;
    options.policy.check_model_places(models::places(&spec.models, &models))?;
    weigh_models(&mut spec, options)?;
    refuse_cancelled(options)?;
    let cache = Cache::open(options.cache_dir.as_deref(), &compiler)?;
    let component = cache.prepare_file(script, instrumentation(&spec), say);
    refuse_cancelled(options)?;
    let component = component?;
    find_onnxruntime(&mut spec, options)?;
    let job_dir = JobDir::new(&root);
    let share = setup::monitor(&spec, &job_dir).budget.total();
    let turns = Turns::open(&options.policy.machine(), share, &spec.tenant)?;
    let output_file = (spec.output_action == OutputAction::AppendRow)
        .then_some(spec.append_row_file_name.as_str());
    let wanted = Wanted { name: &spec.name, output: real.output.as_deref(), output_file };
    let held = hold(&job_dir, wanted)?;
    let ready = Ready { spec, real, sources, objects, component, models, job_dir, turns, standby };
    match held.earlier().cloned() {
        Some(earlier) if !options.overwrite => {
            wait_for(&ready.objects, options, say);
            ready.go_on(held, &earlier, options, say)
        }
        _ => ready.begin(held, options, say),
    }
}

/// Starts what the job will need, if it begins here and its workers are alike.
fn stand_by(spec: &JobSpec, options: &Options) -> Option<Standby> {
    let begins = options.overwrite || !JobDir::new(&options.job_dir).state_file().exists();
    let alike = spec.gpus == 0 && spec.models.is_empty();
    (begins && alike).then(|| Standby::start(&options.program, spec.os_sandbox))
}

fn refuse_cancelled(options: &Options) -> Result<(), PrepareError> {
    options.cancel.reason().map_or(Ok(()), |reason| Err(PrepareError::Cancelled(reason)))
}

fn instrumentation(spec: &JobSpec) -> Instrumentation {
    Instrumentation {
        fuel: spec.limits.fuel.is_some(),
        profile: spec.profile,
        deterministic: spec.deterministic,
    }
}

fn check_digest(spec: &JobSpec, found: &str) -> Result<(), PrepareError> {
    match &spec.entry_script_digest {
        Some(expected) if *expected != found => Err(PrepareError::Digest {
            path: spec.entry_script.clone(),
            found: found.to_owned(),
            expected: expected.clone(),
        }),
        _ => Ok(()),
    }
}

/// Nothing that is read may take in what the job writes, or lie where it would be removed. And no
/// path of either may be one that messages and `job.json` cannot hold.
fn refuse_overlap(spec: &JobSpec, sources: &[Source], job_dir: &Path) -> Result<(), PrepareError> {
    let mut places = vec![("the job directory", utf8("the job directory", job_dir)?)];
    if let Some(output) = &spec.output {
        places.push(("the output folder", utf8("the output folder", output)?));
    }
    let refused = |reader: String, what, folder: &PathBuf, advice| {
        Err(PrepareError::Overlap { reader, what, folder: folder.clone(), advice })
    };
    for source in sources {
        for (what, folder) in &places {
            if source.root.starts_with(folder) || dataset::reaches(source, folder)? {
                let advice = match *what {
                    "the output folder" => "name another folder for `output`",
                    _ => "name another place with --job-dir, or narrow the input (e.g. data/*.png)",
                };
                let reader = format!("input '{}'", source.dataset);
                return refused(reader, what, folder, advice.to_owned());
            }
        }
    }
    for (reader, path) in shown_whole(spec) {
        let shown = utf8(&reader, path)?;
        for (what, folder) in &places {
            if shown.starts_with(folder) || folder.starts_with(&shown) {
                let advice = match *what {
                    "the output folder" => "name another folder for `output`".to_owned(),
                    _ => format!("name another place, {}", place_beside(&shown, &spec.name)),
                };
                return refused(reader, what, folder, advice);
            }
        }
    }
    Ok(())
}

/// How to name a job directory that does not lie in the folder: beside it.
fn place_beside(folder: &Path, job: &str) -> String {
    let beside = folder.parent().unwrap_or(Path::new("/")).join("jobs").join(job);
    format!("as by --job-dir '{}'", beside.display().to_string().replace('\'', r"'\''"))
}

/// The folders, beside the inputs, that the entry script sees with all that is in them, and models that
/// are single files.
fn shown_whole(spec: &JobSpec) -> impl Iterator<Item = (String, &Path)> {
    let side_inputs = spec.side_inputs.iter();
    let side_inputs = side_inputs
        .map(|mount| (format!("the side input at {}", mount.guest), mount.host.as_path()));
    let source = spec.source_directory.as_deref();
    let models = spec.models.iter().map(|model| {
        let path = model.folder.as_deref().unwrap_or(&model.file);
        (format!("model {}", model.name), path)
    });
    side_inputs.chain(source.map(|path| ("source_directory".to_owned(), path))).chain(models)
}

/// The path without links. Fails if it, or what it leads to, is not UTF-8.
fn utf8(what: &str, path: &Path) -> Result<PathBuf, PrepareError> {
    let resolved = resolve(path)?;
    for path in [path, &resolved] {
        if path.to_str().is_none() {
            return Err(PrepareError::NotUtf8 { what: what.to_owned(), path: path.to_owned() });
        }
    }
    Ok(resolved)
}

/// Child processes have other working folders, so that every path they get is absolute.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use insta::assert_snapshot;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    /// What is said of a job with these lines in a folder with `in/a.txt` and `model/`.
    fn refused(lines: &str, job_dir: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        refused_in(dir.path(), lines, job_dir.as_ref())
    }

    fn refused_in(folder: &Path, lines: &str, job_dir: &OsStr) -> String {
        for made in ["in", "model"] {
            fs::create_dir_all(folder.join(made)).unwrap();
        }
        fs::write(folder.join("in/a.txt"), "a").unwrap();
        let entry = folder.join("entry.wasm");
        fs::write(&entry, "no entry script").unwrap();
        let job = folder.join("job.yaml");
        fs::write(&job, format!("name: x\nentry_script: {}\n{lines}\n", entry.display())).unwrap();
        let spec = spec::load_plain(&job, &[]).map_err(|errors| errors.to_string()).unwrap();
        let mut options = Options::new(folder.join(job_dir), "/nonexistent");
        options.cache_dir = Some(folder.join("cache"));
        let error = prepare(spec, &options, &mut |_| {}).err().unwrap();
        assert!(!options.job_dir.exists(), "{error}");
        let resolved = folder.canonicalize().unwrap();
        let text = error.to_string().replace(resolved.to_str().unwrap_or("/none"), "/d");
        let above = resolved.parent().and_then(Path::to_str).unwrap_or("/none");
        text.replace(&format!("{above}/jobs"), "/above/jobs")
    }

    #[test]
    fn nothing_that_is_read_takes_in_what_is_written() {
        let side = "inputs: {a: in}\nside_inputs: {s: model}";
        assert_snapshot!(refused("inputs: {a: .}", "jobs/x"), @"input 'a' and the job directory /d/jobs/x are in each other's way, as the job would read what it writes: name another place with --job-dir, or narrow the input (e.g. data/*.png)");
        assert_snapshot!(refused(side, "model/jobs/x"), @"the side input at /side_inputs/s and the job directory /d/model/jobs/x are in each other's way, as the job would read what it writes: name another place, as by --job-dir '/d/jobs/x'");
        assert_snapshot!(refused(&format!("{side}\noutput: model/out"), "jobs/x"), @"the side input at /side_inputs/s and the output folder /d/model/out are in each other's way, as the job would read what it writes: name another folder for `output`");
        assert_snapshot!(refused("inputs: {a: in}\nsource_directory: .", "jobs/x"), @"source_directory and the job directory /d/jobs/x are in each other's way, as the job would read what it writes: name another place, as by --job-dir '/above/jobs/x'");
        // Only the entry script is wrong with these.
        for lines in [side, "inputs: {a: '*/*.txt'}", "inputs: {a: in}\nsource_directory: model"] {
            let error = refused(lines, "jobs/x");
            assert!(error.contains("entry.wasm"), "{lines}: {error}");
        }
    }

    #[test]
    fn paths_that_no_message_holds_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let job_dir = OsStr::from_bytes(b"jobs-\xFF");
        let error = refused_in(dir.path(), "inputs: {a: in}", job_dir);
        assert_snapshot!(error, @r#"the path of the job directory is not UTF-8: "/d/jobs-\xFF"; rename the folder, or use another"#);
        // Links lead into a folder whose name is no text.
        let odd = dir.path().join(OsStr::from_bytes(b"odd-\xFF"));
        fs::create_dir(&odd).unwrap();
        std::os::unix::fs::symlink(&odd, dir.path().join("link")).unwrap();
        for lines in ["inputs: {a: in}\noutput: link", "inputs: {a: in}\nside_inputs: {s: link}"] {
            let error = refused_in(dir.path(), lines, "jobs".as_ref());
            assert!(error.contains("is not UTF-8"), "{error}");
        }
    }
}
