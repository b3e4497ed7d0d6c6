//! Prepares a checked job on this machine: finds inputs, builds and compiles the entry script, and checks
//! models. Writes nothing to the job directory.

use super::backends::{self, find_onnxruntime, judge_models, weigh_models};
use super::content::content_digest;
use super::error::NodeError;
use super::features;
use super::gpus::LeasedGpus;
use super::job::{NodeJob, NodeRole};
use super::local_inputs::compare_inputs;
use super::models::{InspectedModel, inspect, model_paths};
use super::options::NodeOptions;
use super::overlap::refuse_overlap;
use super::python::{self, Chooser};
use super::real_paths::{RealPaths, resolve};
use super::script_files::script_files;
use super::setup;
use super::staging::stage;
use crate::compile::{
    AcceptedKind, Cache, Compiled, Compiler, EntryFile, Instrumentation, build_guest_crate,
};
use crate::inference::{TRACT_VERSION, has_inference};
use crate::machine_slots::MachineSlots;
use crate::model::{Backend, InputKind, JobDir, OutputLayout};
use crate::pool::PrestartedProcesses;
use crate::protocol::node::{
    NodeFindings, PrepareRequest, PreparedBackend, PreparedModel, ScriptFiles,
};
use crate::runtimes;
use crate::spec::{JobSpec, JobStorePlace, LoadedScript, ModelSpec};
use crate::wall;
use std::path::{Path, PathBuf};

/// Prepares a job on this machine. `say` gets lines for the user about slow steps.
///
/// # Errors
/// If the machine lacks something that the job needs, if its policy forbids the job, or if the job is
/// cancelled.
pub fn prepare(
    spec: JobSpec,
    options: NodeOptions,
    ask: &PrepareRequest,
    say: &mut dyn FnMut(&str),
) -> Result<(NodeFindings, NodeJob), NodeError> {
    features::check(&spec)?;
    // Before any input is downloaded, because the downloading process needs the wall, too.
    wall::check(spec.worker.os_sandbox)?;
    let prestarted = prestart(&spec, &options, ask.begins);
    let mut staged = stage(&spec, &options, (ask.listed.as_ref(), ask.has_remote_workers), say)?;
    compare_inputs(&spec, &mut staged, ask)?;
    let mut real = RealPaths::find(&spec, &staged)?;
    let job_dir = JobDir::new(&ask.job_dir);
    let mut checked = real.apply_to(&spec, &staged, ask.output.as_deref(), ask.parent.as_deref());
    if let Some(store) = &ask.job_store {
        checked.job_store = Some(JobStorePlace::Folder(store.clone()));
    }
    // On a node of another machine, the directory is in the job's store, which is checked, too.
    let is_in_store = ask.job_store.as_ref().is_some_and(|store| job_dir.root().starts_with(store));
    let own_dir = (!is_in_store && !ask.is_own_dir).then_some(&job_dir);
    options.policy.check(&checked, &staged.sources, own_dir)?;
    refuse_overlap(&spec, &staged, job_dir.root())?;
    let script = FoundScript::find(&spec, &options, &mut real, say)?;
    let inspected_models = inspect(&staged.models, spec.limits.models, &options.cancel)?;
    let policy = options.policy.for_job(checked.job_store.as_ref(), &spec.name);
    policy.check_model_places(model_paths(&staged.models, &inspected_models))?;
    let mut notices = weigh_models(&spec, &staged.models, &options)?;
    refuse_cancelled(&options)?;
    // The entry script may read its models as files without running them.
    let runs_models = !staged.models.is_empty() && script.may_run_models(&spec)?;
    let ReadyComponent { path: entry_script, component, library, runtime, notices: script_notices } =
        script.compile(&spec, &options, &real, say)?;
    notices.extend(script_notices);
    let mut found = find_onnxruntime(&spec, &options)?;
    notices.extend(found.notice.take());
    if runs_models {
        let has_onnxruntime = found.onnxruntime.is_some();
        notices.extend(judge_models(&spec, &staged.models, &options, has_onnxruntime)?);
    }
    let mut inference = spec.inference.clone();
    inference.onnxruntime = found.onnxruntime.as_ref().map(|(library, _)| library.clone());
    let budget = setup::budget(&spec, &staged.models, &inference);
    let slots =
        MachineSlots::open(&options.policy.machine(), budget.total(), &spec.settings.tenant)?;
    let is_in_parts = spec.output_format.layout == OutputLayout::Parts;
    let keeps_rows = spec.settings.ordered || is_in_parts;
    let job = NodeJob {
        spec,
        options,
        real,
        entry_script,
        staged,
        inference,
        component,
        library,
        inspected_models,
        budget,
        spill: job_dir.spill(),
        job_dir,
        role: NodeRole::Plans,
        keeps_rows,
        slots,
        prestarted,
        gpus: LeasedGpus::default(),
    };
    Ok((describe(&job, found, ask, (runtime, notices))?, job))
}

/// Finds the files of a job's entry script. Builds it first if the job names a guest crate. Compiles nothing. `say` gets
/// lines for the user about slow steps.
///
/// # Errors
/// If the entry script cannot be found or built, or is not the one that the job expects.
pub fn find_script(
    spec: &JobSpec,
    options: &NodeOptions,
    job_file: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<ScriptFiles, NodeError> {
    let mut real = RealPaths::of_script(spec)?;
    let script = FoundScript::find(spec, options, &mut real, say)?;
    let job_file = job_file.and_then(|path| path.canonicalize().ok());
    script_files(spec, &real, &script.path, job_file.as_deref())
}

/// The reply to the leader.
fn describe(
    job: &NodeJob,
    found: backends::FoundBackends,
    ask: &PrepareRequest,
    (runtime, notices): (Option<String>, Vec<String>),
) -> Result<NodeFindings, NodeError> {
    let NodeJob { spec, real, staged, inspected_models, component, budget, .. } = job;
    let job_file = ask.job_file.as_ref().and_then(|path| path.canonicalize().ok());
    let digest = |folder: &Path| content_digest(folder, job_file.as_deref());
    let model = |(model, inspected): (&ModelSpec, &InspectedModel)| PreparedModel {
        name: model.name.clone(),
        file: model.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        sha256: inspected.sha256.clone(),
        folder: model.folder.as_deref().map(digest),
    };
    let source_directory = match &real.source_directory {
        Some(folder) => Some(digest(folder)),
        None if spec.script.is_some() => Some(python::content_digest(&real.entry_script)?),
        None => None,
    };
    let script = match ask.has_remote_workers {
        true => script_files(spec, real, &job.entry_script, job_file.as_deref())?,
        false => ScriptFiles::default(),
    };
    Ok(NodeFindings {
        component: component.digest.clone(),
        sources: staged.sources.clone(),
        side_inputs: staged.side_inputs.iter().map(|mount| digest(&mount.host)).collect(),
        source_directory,
        models: staged.models.iter().zip(inspected_models).map(model).collect(),
        backends: usable_backends(job, found),
        budget: budget.total().0,
        runtime,
        notices,
        listed: staged.listed.clone(),
        script,
    })
}

fn usable_backends(job: &NodeJob, found: backends::FoundBackends) -> Vec<PreparedBackend> {
    if !has_inference(&job.staged.models, &job.inference) {
        return Vec::new();
    }
    let version = Some(TRACT_VERSION.to_owned());
    let tract = PreparedBackend { backend: Backend::Tract, version, library: None };
    let onnxruntime = found.onnxruntime.map(|(library, version)| PreparedBackend {
        backend: Backend::OnnxRuntime,
        version,
        library: Some(library),
    });
    std::iter::once(tract).chain(onnxruntime).collect()
}

/// The entry script. Its digest is the one that the job expects.
struct FoundScript {
    /// The path in the job file, or of the component that was built from the crate there, or that was fetched.
    path: PathBuf,
    file: EntryFile,
    compiler: Compiler,
}

impl FoundScript {
    /// Finds the entry script. Builds it if the job names a guest crate.
    fn find(
        spec: &JobSpec,
        options: &NodeOptions,
        real: &mut RealPaths,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, NodeError> {
        let cancel = options.cancel.clone();
        let compiler = Compiler::new(&options.program, spec.worker.os_sandbox)
            .stopping(move || cancel.reason().is_some());
        let fetched = spec.fetched.entry_script.clone();
        let mut path = fetched.unwrap_or_else(|| spec.entry_script.clone());
        if path.is_dir() {
            path = build_guest_crate(&path, options.cache_dir.as_deref(), &compiler, say)?;
            real.entry_script = resolve(&path)?;
        }
        let file = EntryFile::open_at_its_path(&real.entry_script, &compiler)?;
        // We check the digest before the compiler reads the script.
        check_digest(spec, &path, file.digest())?;
        Ok(Self { path, file, compiler })
    }

    /// Whether the entry script may run models. The runtimes of Python and JavaScript scripts may.
    fn may_run_models(&self, spec: &JobSpec) -> Result<bool, NodeError> {
        Ok(spec.script.is_some() || self.compiler.outline(&self.path)?.names.compute_with_models())
    }

    /// Compiles the entry script, or chooses the runtime of a script.
    fn compile(
        self,
        spec: &JobSpec,
        options: &NodeOptions,
        real: &RealPaths,
        say: &mut dyn FnMut(&str),
    ) -> Result<ReadyComponent, NodeError> {
        if let Some(script) = &spec.script {
            return python_script(script, &self.compiler, spec, options, real, say);
        }
        let cache = Cache::open(options.cache_dir.as_deref(), &self.compiler)?;
        let component = cache.prepare_file(self.file, instrumentation(spec), say);
        refuse_cancelled(options)?;
        let component = component?;
        refuse_misfit(spec, &self.path, component.takes)?;
        Ok(ReadyComponent {
            path: self.path,
            component,
            library: None,
            runtime: None,
            notices: Vec::new(),
        })
    }
}

/// The code that runs a job.
struct ReadyComponent {
    /// The entry script, or the runtime that loads it.
    path: PathBuf,
    component: Compiled,
    /// The folder with the runtime's library. `None` if there is none.
    library: Option<PathBuf>,
    /// A description of the runtime for the user. `None` if the entry script is a component.
    runtime: Option<String>,
    /// Notices for the user, one line each.
    notices: Vec<String>,
}

/// Chooses the runtime of a script, and checks the script's imports. Fails if a needed package is missing.
fn python_script(
    script: &LoadedScript,
    compiler: &Compiler,
    spec: &JobSpec,
    options: &NodeOptions,
    real: &RealPaths,
    say: &mut dyn FnMut(&str),
) -> Result<ReadyComponent, NodeError> {
    let chooser = Chooser {
        program: &options.program,
        cache_dir: options.cache_dir.as_deref(),
        compiler,
        with: instrumentation(spec),
        limits: &spec.limits,
        os_sandbox: spec.worker.os_sandbox,
        setting: python::RuntimeSetting::JobFile,
    };
    let script_to_run = python::ScriptToRun {
        path: &real.entry_script,
        guest: &script.guest,
        source: real.source_directory.as_deref(),
        gets_tables: matches!(spec.input_kind, InputKind::Tables { .. }),
        requirements: script.requirements.as_ref(),
    };
    let chosen = chooser.choose(script_to_run, script.runtime, say)?;
    refuse_cancelled(options)?;
    let runtime = Some(runtimes::describe(chosen.runtime));
    let python::Chosen { component: path, compiled: component, library, notices, .. } = chosen;
    Ok(ReadyComponent { path, component, library, runtime, notices })
}

/// Starts processes in advance if the job will run and its workers can be forked.
fn prestart(spec: &JobSpec, options: &NodeOptions, will_run: bool) -> Option<PrestartedProcesses> {
    let can_fork = spec.gpus == 0 && spec.models.is_empty();
    (will_run && can_fork)
        .then(|| PrestartedProcesses::start(&options.program, spec.worker.os_sandbox))
}

fn refuse_cancelled(options: &NodeOptions) -> Result<(), NodeError> {
    options.cancel.reason().map_or(Ok(()), |reason| Err(NodeError::Cancelled(reason)))
}

/// Fails if the entry script takes another kind of mini-batch than the job has. A script that declares no
/// kind may take any kind.
fn refuse_misfit(
    spec: &JobSpec,
    path: &Path,
    takes: Option<AcceptedKind>,
) -> Result<(), NodeError> {
    let given = AcceptedKind::given_by(&spec.input_kind);
    match takes {
        Some(takes) if takes != given => {
            Err(NodeError::Misfit { path: path.to_owned(), takes, given })
        }
        _ => Ok(()),
    }
}

fn instrumentation(spec: &JobSpec) -> Instrumentation {
    Instrumentation {
        fuel: spec.limits.fuel.is_some(),
        profile: spec.worker.profiling_module.is_some(),
        deterministic: spec.worker.deterministic,
    }
}

fn check_digest(spec: &JobSpec, path: &Path, found: &str) -> Result<(), NodeError> {
    match &spec.entry_script_digest {
        Some(expected) if *expected != found => Err(NodeError::Digest {
            path: path.to_owned(),
            found: found.to_owned(),
            expected: expected.clone(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use insta::assert_snapshot;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    /// The error for a job with these lines in a folder with `in/a.txt` and `model/`.
    fn refused(lines: &str, job_dir: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        refused_in(dir.path(), lines, job_dir.as_ref())
    }

    fn refused_in(folder: &Path, lines: &str, job_dir: &OsStr) -> String {
        for name in ["in", "model"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("in/a.txt"), "a").unwrap();
        let entry = folder.join("entry.wasm");
        fs::write(&entry, "no entry script").unwrap();
        let job = folder.join("job.yaml");
        fs::write(&job, format!("name: x\nentry_script: {}\n{lines}\n", entry.display())).unwrap();
        let spec = spec::load_plain(&job, &[]).map_err(|errors| errors.to_string()).unwrap();
        let cache_dir = Some(folder.join("cache"));
        let options = NodeOptions { cache_dir, ..NodeOptions::for_program("/nonexistent") };
        let resolved = |path: &Path| resolve(path).unwrap();
        let ask = PrepareRequest {
            output: spec.output.as_deref().map(resolved),
            ..PrepareRequest::sample(resolved(&folder.join(job_dir)))
        };
        let error = prepare(spec, options, &ask, &mut |_| {}).err().unwrap();
        assert!(!ask.job_dir.exists(), "{error}");
        let real_folder = folder.canonicalize().unwrap();
        let text = error.to_string().replace(real_folder.to_str().unwrap_or("/none"), "/d");
        let above = real_folder.parent().and_then(Path::to_str).unwrap_or("/none");
        text.replace(&format!("{above}/jobs"), "/above/jobs")
    }

    #[test]
    fn folders_to_read_may_not_overlap_folders_to_write() {
        let side = "inputs: {a: in}\nside_inputs: {s: model}";
        assert_snapshot!(refused("inputs: {a: .}", "jobs/x"), @"input 'a' and the job directory /d/jobs/x overlap, so the job would read what it writes: choose another job directory with --job-dir, or narrow the input (e.g. data/*.png)");
        assert_snapshot!(refused(side, "model/jobs/x"), @"the side input at /side_inputs/s and the job directory /d/model/jobs/x overlap, so the job would read what it writes: choose another job directory, e.g. with --job-dir '/d/jobs/x'");
        assert_snapshot!(refused(&format!("{side}\noutput: model/out"), "jobs/x"), @"the side input at /side_inputs/s and the output folder /d/model/out overlap, so the job would read what it writes: name another folder for `output`");
        assert_snapshot!(refused("inputs: {a: in}\nsource_directory: .", "jobs/x"), @"source_directory and the job directory /d/jobs/x overlap, so the job would read what it writes: choose another job directory, e.g. with --job-dir '/above/jobs/x'");
        // With these lines, only the entry script is wrong.
        for lines in [side, "inputs: {a: '*/*.txt'}", "inputs: {a: in}\nsource_directory: model"] {
            let error = refused(lines, "jobs/x");
            assert!(error.contains("entry.wasm"), "{lines}: {error}");
        }
    }

    #[test]
    fn paths_that_are_not_utf8_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let job_dir = OsStr::from_bytes(b"jobs-\xFF");
        let error = refused_in(dir.path(), "inputs: {a: in}", job_dir);
        assert_snapshot!(error, @r#"the path of the job directory is not UTF-8: "/d/jobs-\xFF"; rename the folder, or use another"#);
        // A link leads to a folder whose name is not UTF-8.
        let odd = dir.path().join(OsStr::from_bytes(b"odd-\xFF"));
        fs::create_dir(&odd).unwrap();
        std::os::unix::fs::symlink(&odd, dir.path().join("link")).unwrap();
        for lines in ["inputs: {a: in}\noutput: link", "inputs: {a: in}\nside_inputs: {s: link}"] {
            let error = refused_in(dir.path(), lines, "jobs".as_ref());
            assert!(error.contains("is not UTF-8"), "{error}");
        }
    }
}
