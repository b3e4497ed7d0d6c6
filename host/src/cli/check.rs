//! `sandmill check COMPONENT`: finds out whether a component keeps the contract, what it imports and, with
//! `--run`, what it returns.
//!
//! This process does not parse the component itself. One child process reads the component's names, another
//! compiles the component as for a job, and a third loads it and, with `--run`, runs it in the sandbox of a
//! worker.

use super::checked::{CapturedOutput, CheckedScript, FileKind, RunOutcome};
use super::error::ArgumentError;
use super::exit::Problem;
use super::refused;
use super::run::BackendArguments;
use super::tools::ToolSettings;
use crate::compile::{
    Cache, CompileError, Compiler, EntryFile, Instrumentation, build_guest_crate,
};
use crate::inference::{ModelVerdict, NamedLibrary, Probe};
use crate::model::{
    Feature, GUEST_INPUTS, GUEST_LOGS, GUEST_MODELS, GUEST_OUTPUT, GUEST_SIDE_INPUTS,
};
use crate::model::{
    InferenceSettings, JobDir, JobModel, Limits, Mount, OsSandbox, PythonRuntime, ScriptLanguage,
    printable,
};
use crate::node::trial::{TrialChild as TrialProcess, TrialError, TrialRequest, TrialSetup};
use crate::node::{self, NotBuilt};
use crate::opening::ScratchFolder;
use crate::spec::{ModelSpec, OperatorPolicy};
use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The maximum number of bytes that we show of each file that the entry script wrote to.
const SHOWN_BYTES: u64 = 64 << 10;

/// How to try an entry script.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct TrialArguments {
    /// Also runs the entry script: calls `init`, and `run` with these files as one mini-batch. The entry
    /// script runs in the sandbox, with only the arguments, folders and models that these options name.
    #[arg(long, value_name = "FILE", num_args = 0..)]
    run: Option<Vec<PathBuf>>,
    /// Runs the conformance kit: COMPONENT must be the kit's script, implemented in the language to check
    /// (see tests/kit in the sources).
    #[arg(long, conflicts_with = "run")]
    pub(super) kit: bool,
    /// Runtime of a Python script. auto means the one that has the packages which the script imports.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = runtime)]
    pub(super) runtime: PythonRuntime,
    #[command(flatten)]
    given: GivenArguments,
}

/// What an entry script gets if there is no job file.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct GivenArguments {
    /// An argument of the entry script; may be given many times.
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// A folder that the entry script sees at /side_inputs/NAME; may be given many times.
    #[arg(long = "side-input", value_name = "NAME=DIR", value_parser = pair)]
    side_inputs: Vec<(String, String)>,
    /// A model (an ONNX file, or a folder with one) that the entry script sees in /models/NAME; may be given
    /// many times.
    #[arg(long = "model", value_name = "NAME=PATH", value_parser = pair)]
    models: Vec<(String, String)>,
    /// An environment variable of the entry script; may be given many times.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    environment: Vec<(String, String)>,
    /// The maximum time for a run.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

impl TrialArguments {
    pub(super) fn with(
        files: Vec<PathBuf>,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
    ) -> Self {
        let given = GivenArguments { arguments, environment, ..GivenArguments::default() };
        Self { run: Some(files), given, ..Self::default() }
    }

    /// A trial without files.
    pub(super) fn without_files(given: GivenArguments) -> Self {
        Self { run: Some(Vec::new()), given, ..Self::default() }
    }

    /// An option that was given without --run but applies only to a run; `None` if there is none.
    pub(super) fn unused_option(&self) -> Option<&'static str> {
        let GivenArguments { arguments, side_inputs, models, environment, .. } = &self.given;
        let named = [
            ("--arg", arguments.is_empty()),
            ("--side-input", side_inputs.is_empty()),
            ("--model", models.is_empty()),
            ("--env", environment.is_empty()),
        ];
        let given = named.into_iter().find(|(_, is_empty)| !is_empty);
        given.filter(|_| self.run.is_none()).map(|(name, _)| name)
    }

    /// The files of the mini-batch.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.run.iter().flatten().map(PathBuf::as_path)
    }

    /// The folders of the side inputs.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.given.side_inputs.iter().map(|(_, folder)| Path::new(folder))
    }
}

/// Reads the name of a runtime.
pub(super) fn runtime(text: &str) -> Result<PythonRuntime, ArgumentError> {
    let found = PythonRuntime::ALL.into_iter().find(|runtime| runtime.name() == text);
    found.ok_or(ArgumentError::Runtime)
}

fn pair(text: &str) -> Result<(String, String), ArgumentError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !name.contains(['/', '\0']) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(ArgumentError::Pair),
    }
}

/// What to check, and how.
pub(super) struct CheckArguments<'a> {
    /// A component, a core module, the folder of a guest crate or of C sources, or a script.
    pub(super) path: &'a Path,
    /// Whether and how to run the entry script.
    pub(super) trial: &'a TrialArguments,
    /// The cache for compiled code. `None` means the default one.
    pub(super) cache: Option<&'a Path>,
    /// The sandmill binary, for child processes.
    pub(super) program: &'a Path,
    /// The sandbox that the child processes must get from the operating system.
    pub(super) os_sandbox: OsSandbox,
    /// Parses components in child processes.
    pub(super) compiler: &'a Compiler,
    pub(super) policy: &'a OperatorPolicy,
    /// The user's path of ONNX Runtime, for models.
    pub(super) onnxruntime: Option<NamedLibrary>,
}

impl<'a> CheckArguments<'a> {
    /// # Errors
    /// If the policy does not allow it.
    pub(super) fn new(
        path: &'a Path,
        trial: &'a TrialArguments,
        tools: &'a ToolSettings,
        backends: &BackendArguments,
    ) -> Result<Self, Problem> {
        let ToolSettings { config, policy, program, os_sandbox, compiler, cache } = tools;
        policy.check_trial(path, trial.files(), trial.folders()).map_err(refused)?;
        let onnxruntime = backends.onnxruntime(policy.file(), config);
        let (cache, os_sandbox) = (cache.as_deref(), *os_sandbox);
        Ok(Self { path, trial, cache, program, os_sandbox, compiler, policy, onnxruntime })
    }

    /// Whether the file is a script that a runtime loads.
    pub(super) fn is_script(&self) -> bool {
        ScriptLanguage::from_path(self.path).is_some() && !self.path.is_dir()
    }

    /// Returns the same check with another trial.
    pub(super) fn trying<'b>(&'b self, trial: &'b TrialArguments) -> CheckArguments<'b> {
        let &Self { path, cache, program, os_sandbox, compiler, policy, .. } = self;
        let onnxruntime = self.onnxruntime.clone();
        CheckArguments { path, trial, cache, program, os_sandbox, compiler, policy, onnxruntime }
    }

    /// The component: built from the folder, or the file itself.
    ///
    /// # Errors
    /// If the build fails.
    pub(super) fn component(&self, say: &mut dyn FnMut(&str)) -> Result<PathBuf, CompileError> {
        if self.path.is_dir() {
            build_guest_crate(self.path, self.cache, self.compiler, say)
        } else {
            Ok(self.path.to_owned())
        }
    }

    /// Whether the entry script is also run.
    pub(super) fn runs(&self) -> bool {
        self.trial.run.is_some()
    }
}

/// Checks a component. `say` receives the lines of a build.
///
/// # Errors
/// If the file cannot be read, is not WebAssembly, or does not build. Faults of the component itself are not
/// errors but part of the verdict.
pub(super) fn check(
    check: &CheckArguments<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<CheckedScript> {
    let path = check.component(say)?;
    let outline = check.compiler.outline(&path)?;
    let mut checked = CheckedScript::new(FileKind::Component, path);
    checked.bytes = Some(outline.bytes);
    let digest = EntryFile::open(&checked.path, check.compiler)?.digest().to_string();
    checked.sha256 = Some(digest);
    checked.takes = outline.takes;
    checked.describe(&outline.names);
    let cache = Cache::open(check.cache, check.compiler)?;
    let refused = |reason: String, mut checked: CheckedScript| {
        // `describe` has already listed refused imports as problems, and this reason would repeat them.
        if !checked.has_refused_imports() {
            checked.problems.push(reason);
        }
        Ok(checked.with_verdict())
    };
    let limits = check.policy.default_limits();
    let with = instrumentation(&limits);
    let compiled = match cache.prepare(&checked.path, with, say) {
        Ok(compiled) => compiled,
        Err(error) => return refused(error.to_string(), checked),
    };
    let scratch = ScratchFolder::create("check").context("no folder for the run can be created")?;
    let setup = trial_setup(check, limits, with, scratch.path(), say)?;
    let mut trial = TrialProcess::start(check.program, &compiled, &setup)?;
    match trial.functions().map_err(|error| explain(&scratch, error))? {
        Ok(functions) => {
            checked.functions = functions.iter().map(|it| printable(it).into_owned()).collect();
        }
        Err(reason) => return refused(printable(&reason.to_string()).into_owned(), checked),
    }
    if check.trial.run.is_some() {
        checked.run = Some(run(&mut trial, &scratch, time_limit(check))?);
    }
    Ok(checked.with_verdict())
}

/// The options with which the code is compiled.
pub(super) fn instrumentation(limits: &Limits) -> Instrumentation {
    Instrumentation { fuel: limits.fuel.is_some(), ..Instrumentation::default() }
}

/// The time limit of the run: `--timeout`, but at most what the policy allows.
pub(super) fn time_limit(check: &CheckArguments<'_>) -> Duration {
    let requested = Duration::from_secs(check.trial.given.timeout);
    check.policy.longest_call().map_or(requested, |most| requested.min(most))
}

/// The request to the child process: what to try, and how.
pub(super) fn trial_setup(
    check: &CheckArguments<'_>,
    limits: Limits,
    with: Instrumentation,
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<TrialSetup> {
    let trial = check.trial;
    if !node::has(Feature::Inference)
        && let Some((name, _)) = trial.given.models.first()
    {
        anyhow::bail!(NotBuilt::new(format!("--model gives {name}"), Feature::Inference));
    }
    let mut setup = TrialSetup {
        limits,
        arguments: arguments(trial),
        environment: trial.given.environment.clone(),
        inference: inference(check, say)?,
        ..TrialSetup::plain(scratch, check.os_sandbox, with, TrialRequest::Load)
    };
    if let Some(files) = &trial.run {
        let (mounts, items) = mounts(files, scratch)?;
        setup.mounts = mounts;
        setup.mounts.extend(side_inputs(trial)?);
        setup.models = models(check, &setup.limits, scratch)?;
        let has_onnxruntime = setup.inference.onnxruntime.is_some();
        check_models(check, &setup, has_onnxruntime, say)?;
        setup.mounts.extend(setup.models.iter().map(JobModel::mount));
        setup.wanted = TrialRequest::Run(items);
    }
    Ok(setup)
}

/// The outcome of the run, and its output.
pub(super) fn run(
    trial: &mut TrialProcess,
    scratch: &ScratchFolder,
    limit: Duration,
) -> anyhow::Result<RunOutcome> {
    let (reported, good) = match trial.ran(limit).map_err(|error| explain(scratch, error))? {
        Some((reported, good)) => (printable(&reported).into_owned(), good),
        None => (
            format!("stopped: it did not return within {} s (--timeout)\n", limit.as_secs_f64()),
            false,
        ),
    };
    Ok(RunOutcome { good, reported, written: captured_output(scratch) })
}

/// What the run printed and logged.
pub(super) fn captured_output(scratch: &ScratchFolder) -> CapturedOutput {
    let [stdout, stderr, log] = ["stdout", "stderr", "log"].map(|name| shown(scratch, name));
    CapturedOutput { stdout, stderr, log }
}

/// Returns the mounts, and the files' paths as the guest sees them. The mounts are the folders of the files,
/// read-only, and the folders that every entry script has.
fn mounts(files: &[PathBuf], scratch: &Path) -> anyhow::Result<(Vec<Mount>, Vec<String>)> {
    let mut mounts = Vec::new();
    for guest in [GUEST_OUTPUT, GUEST_LOGS] {
        let host = scratch.join(guest.trim_start_matches('/'));
        std::fs::create_dir(&host).context("no folder for the run can be created")?;
        mounts.push(Mount { host, guest: guest.to_owned(), writable: true });
    }
    let mut paths = Vec::new();
    for file in files {
        let real = file.canonicalize().with_context(|| file.display().to_string())?;
        let (Some(folder), Some(name)) = (real.parent(), real.file_name().and_then(|n| n.to_str()))
        else {
            anyhow::bail!("{}: its name is not valid UTF-8", file.display());
        };
        let known = mounts.iter().find(|mount| mount.host == folder);
        let guest = match known {
            Some(mount) => mount.guest.clone(),
            None => {
                let guest = format!("{GUEST_INPUTS}/items/{}", mounts.len() - 2);
                let host = folder.to_owned();
                mounts.push(Mount { host, guest: guest.clone(), writable: false });
                guest
            }
        };
        paths.push(format!("{guest}/{name}"));
    }
    Ok((mounts, paths))
}

/// The program name and the arguments of the entry script. References to side inputs and models become
/// the folders that the guest sees, as in a job file.
fn arguments(trial: &TrialArguments) -> Vec<String> {
    let groups = [
        ("side_inputs", GUEST_SIDE_INPUTS, &trial.given.side_inputs),
        ("models", GUEST_MODELS, &trial.given.models),
    ];
    let expand = |argument: &String| {
        let mut text = argument.clone();
        for (group, place, given) in groups {
            for (name, _) in given {
                let reference = format!("${{{{{group}.{name}}}}}");
                text = text.replace(&reference, &format!("{place}/{name}"));
            }
        }
        text
    };
    let given = trial.given.arguments.iter().map(expand);
    std::iter::once("entry-script".to_owned()).chain(given).collect()
}

fn side_inputs(trial: &TrialArguments) -> anyhow::Result<Vec<Mount>> {
    let mount = |(name, folder): &(String, String)| {
        let host = Path::new(folder);
        let host = host.canonicalize().map_err(|e| anyhow::anyhow!("{folder}: {e}"))?;
        anyhow::ensure!(host.is_dir(), "{folder} is a file; a side input is a folder");
        Ok(Mount { host, guest: format!("{GUEST_SIDE_INPUTS}/{name}"), writable: false })
    };
    trial.given.side_inputs.iter().map(mount).collect()
}

/// Returns the models. A model that is a single file is put into the scratch folder.
fn models(
    check: &CheckArguments<'_>,
    limits: &Limits,
    scratch: &Path,
) -> anyhow::Result<Vec<JobModel>> {
    let model = |(name, path): &(String, String)| ModelSpec::at(name, Path::new(path));
    let models: Result<Vec<_>, _> = check.trial.given.models.iter().map(model).collect();
    let models = models.map_err(|error| anyhow::anyhow!("--model: {error}"))?;
    check.policy.check_models(&models)?;
    Ok(node::give_models(&models, limits.models, &JobDir::new(scratch))?)
}

/// Checks the models before the entry script loads them, as for a job. `say` receives notes.
fn check_models(
    check: &CheckArguments<'_>,
    setup: &TrialSetup,
    has_onnxruntime: bool,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let probe = probe(check);
    for JobModel { name, host, file, .. } in &setup.models {
        let verdict = probe.judge(Some(host), &host.join(file), setup.limits.models.0);
        let Ok(ModelVerdict { not_by_tract, left_out }) = verdict else { continue };
        if let Some(why) = not_by_tract.filter(|_| !has_onnxruntime) {
            anyhow::bail!("model {name}: {why}");
        }
        for what in left_out {
            say(&format!("note: model {name}: its output {what}"));
        }
    }
    Ok(())
}

fn probe(check: &CheckArguments<'_>) -> Probe {
    let program = check.program.to_owned();
    Probe { program, os_sandbox: check.os_sandbox, cuda: Vec::new() }
}

/// Returns the backends for models besides tract. Each is tested first, as for a job.
fn inference(
    check: &CheckArguments<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<InferenceSettings> {
    let mut settings = InferenceSettings::default();
    let named = check.onnxruntime.as_ref().filter(|_| !check.trial.given.models.is_empty());
    let Some(named) = named else { return Ok(settings) };
    match probe(check).named(named) {
        Ok((library, _)) => settings.onnxruntime = Some(library),
        Err(why) if named.by_option() => anyhow::bail!(why),
        Err(why) => say(&format!("note: tract is used instead of onnxruntime: {why}")),
    }
    Ok(settings)
}

/// Adds the child's stderr to an error.
pub(super) fn explain(scratch: &ScratchFolder, error: TrialError) -> anyhow::Error {
    match shown(scratch, "worker") {
        text if text.is_empty() => error.into(),
        text => anyhow::anyhow!("{error}; its output:\n{text}"),
    }
}

/// Returns the start of one of the files that the run wrote, for display. Opens it with care, because the
/// component may have put a link or a fifo there.
pub(super) fn shown(scratch: &ScratchFolder, name: &str) -> String {
    let mut bytes = Vec::new();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let read = rustix::fs::open(scratch.path().join(name), flags, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|file| File::from(file).take(SHOWN_BYTES + 1).read_to_end(&mut bytes));
    let cut = read.is_ok_and(|read| read as u64 > SHOWN_BYTES);
    let text = String::from_utf8_lossy(&bytes);
    let text = printable(text.trim_end()).into_owned();
    if cut { format!("{text}\n(cut after {SHOWN_BYTES} bytes)") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_component_is_an_error() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("entry.py");
        std::fs::write(&path, "def run(batch):\n  pass\n").expect("writes");
        let arguments = CheckArguments {
            path: &path,
            trial: &TrialArguments::default(),
            cache: None,
            program: Path::new("/nonexistent"),
            os_sandbox: OsSandbox::Off,
            compiler: &Compiler::here(),
            policy: &OperatorPolicy::default(),
            onnxruntime: None,
        };
        let error = check(&arguments, &mut |_| {}).expect_err("Python source");
        assert!(format!("{error:#}").contains("it is Python source"), "{error:#}");
    }
}
