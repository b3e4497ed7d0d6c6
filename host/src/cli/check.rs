//! `sandmill check COMPONENT`: does it keep the contract, what would it need, and, if asked, what
//! does it return.
//!
//! This process looks into nothing: a child reads the component's names, one compiles it as for a job,
//! and one loads it and, with `--run`, runs it behind the walls of a worker.

use super::checked::{Checked, Kind, Ran, Written};
use super::error::ArgumentError;
use super::exit::Problem;
use super::refused;
use super::run::BackendArguments;
use super::tools::Tools;
use crate::compile::{
    Cache, CompileError, Compiler, EntryFile, Instrumentation, build_guest_crate,
};
use crate::inference::{Judged, NamedLibrary, Probe};
use crate::model::{
    Feature, GUEST_INPUTS, GUEST_LOGS, GUEST_MODELS, GUEST_OUTPUT, GUEST_SIDE_INPUTS,
};
use crate::model::{
    InferenceSettings, JobDir, Limits, Model, Mount, OsSandbox, ScriptLanguage, printable,
};
use crate::node::trial::{Asked, Trial as TrialProcess, TrialError, Wanted};
use crate::node::{self, NotBuilt};
use crate::opening::Scratch;
use crate::spec::{ModelSpec, OperatorPolicy};
use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are shown of each file that it wrote to.
const SHOWN_BYTES: u64 = 64 << 10;

/// How to try out an entry script.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Trial {
    /// Also runs it: `init`, and `run` on these files as one mini-batch. It runs in the sandbox and
    /// gets what these options give, nothing else.
    #[arg(long, value_name = "FILE", num_args = 0..)]
    run: Option<Vec<PathBuf>>,
    /// Checks whether its language keeps the contract, by a script that each language implements: tests/kit in the
    /// sources says which.
    #[arg(long, conflicts_with = "run")]
    pub(super) kit: bool,
    #[command(flatten)]
    given: Given,
}

/// What an entry script is given where no job file says it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Given {
    /// An argument of the entry script; may be given many times.
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// A folder that the entry script sees at /side_inputs/NAME; may be given many times.
    #[arg(long = "side-input", value_name = "NAME=DIR", value_parser = pair)]
    side_inputs: Vec<(String, String)>,
    /// A model: an ONNX file, or a folder with one, that the entry script sees in /models/NAME; may be given many
    /// times.
    #[arg(long = "model", value_name = "NAME=PATH", value_parser = pair)]
    models: Vec<(String, String)>,
    /// An environment variable of the entry script; may be given many times.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    environment: Vec<(String, String)>,
    /// The longest that a run may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

impl Trial {
    /// One with these files, arguments and environment.
    pub(super) fn with(
        files: Vec<PathBuf>,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
    ) -> Self {
        let given = Given { arguments, environment, ..Given::default() };
        Self { run: Some(files), kit: false, given }
    }

    /// One that is given no files.
    pub(super) fn of(given: Given) -> Self {
        Self { run: Some(Vec::new()), kit: false, given }
    }

    /// What is given without --run, which alone uses it.
    pub(super) fn needless(&self) -> Option<&'static str> {
        let Given { arguments, side_inputs, models, environment, .. } = &self.given;
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

fn pair(text: &str) -> Result<(String, String), ArgumentError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !name.contains(['/', '\0']) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(ArgumentError::Pair),
    }
}

/// What to check, and how.
pub(super) struct Check<'a> {
    /// A component, a core module, or a guest crate's folder.
    pub(super) path: &'a Path,
    /// Whether and how to run it.
    pub(super) trial: &'a Trial,
    /// Where compiled code is kept, if not in the usual place.
    pub(super) cache: Option<&'a Path>,
    /// The sandmill binary, for child processes.
    pub(super) program: &'a Path,
    /// How much of the process wall must stand around them.
    pub(super) os_sandbox: OsSandbox,
    /// Who looks into components.
    pub(super) compiler: &'a Compiler,
    /// What the operator lets it use.
    pub(super) policy: &'a OperatorPolicy,
    /// Where ONNX Runtime is said to be, for models.
    pub(super) onnxruntime: Option<NamedLibrary>,
}

impl<'a> Check<'a> {
    /// # Errors
    /// What the policy does not allow.
    pub(super) fn of(
        path: &'a Path,
        trial: &'a Trial,
        tools: &'a Tools,
        backends: &BackendArguments,
    ) -> Result<Self, Problem> {
        let Tools { config, policy, program, os_sandbox, compiler, cache } = tools;
        policy.check_trial(path, trial.files(), trial.folders()).map_err(refused)?;
        let onnxruntime = backends.onnxruntime(policy.file(), config);
        let (cache, os_sandbox) = (cache.as_deref(), *os_sandbox);
        Ok(Self { path, trial, cache, program, os_sandbox, compiler, policy, onnxruntime })
    }

    /// Whether it is a script that a runtime loads.
    pub(super) fn is_script(&self) -> bool {
        ScriptLanguage::of(self.path).is_some() && !self.path.is_dir()
    }

    /// The same component, tried in another way.
    pub(super) fn trying<'b>(&'b self, trial: &'b Trial) -> Check<'b> {
        let &Self { path, cache, program, os_sandbox, compiler, policy, .. } = self;
        let onnxruntime = self.onnxruntime.clone();
        Check { path, trial, cache, program, os_sandbox, compiler, policy, onnxruntime }
    }

    /// The component: what is built of a folder, else the file that is named.
    ///
    /// # Errors
    /// If it does not build.
    pub(super) fn component(&self, say: &mut dyn FnMut(&str)) -> Result<PathBuf, CompileError> {
        if self.path.is_dir() {
            build_guest_crate(self.path, self.cache, self.compiler, say)
        } else {
            Ok(self.path.to_owned())
        }
    }

    /// Whether it is run, too.
    pub(super) fn runs(&self) -> bool {
        self.trial.run.is_some()
    }
}

/// Checks a component. `say` gets the lines of a build.
///
/// # Errors
/// If the file cannot be read, is no WebAssembly, or does not build; what is wrong with a component
/// as such is a verdict.
pub(super) fn check(check: &Check<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Checked> {
    let path = check.component(say)?;
    let outline = check.compiler.outline(&path)?;
    let mut checked = Checked::new(Kind::Component, path);
    checked.bytes = Some(outline.bytes);
    let digest = EntryFile::open(&checked.path, check.compiler)?.digest().to_string();
    checked.sha256 = Some(digest);
    checked.takes = outline.takes;
    checked.describe(&outline.names);
    let cache = Cache::open(check.cache, check.compiler)?;
    let refused = |reason: String, mut checked: Checked| {
        // The compiler refuses such imports as well; they are problems already.
        if !checked.imports_what_is_refused() {
            checked.problems.push(reason);
        }
        Ok(checked.judged())
    };
    let limits = check.policy.default_limits();
    let with = instrumentation(&limits);
    let compiled = match cache.prepare(&checked.path, with, say) {
        Ok(compiled) => compiled,
        Err(error) => return refused(error.to_string(), checked),
    };
    let scratch = Scratch::create("check").context("no folder for the run can be made")?;
    let asked = asked(check, limits, with, scratch.path(), say)?;
    let mut trial = TrialProcess::start(check.program, &compiled, &asked)?;
    match trial.functions().map_err(|error| explain(&scratch, error))? {
        Ok(functions) => {
            checked.functions = functions.iter().map(|it| printable(it).into_owned()).collect();
        }
        Err(reason) => return refused(printable(&reason.to_string()).into_owned(), checked),
    }
    if check.trial.run.is_some() {
        checked.run = Some(run(&mut trial, &scratch, longest(check))?);
    }
    Ok(checked.judged())
}

/// How the code of what is tried is compiled.
pub(super) fn instrumentation(limits: &Limits) -> Instrumentation {
    Instrumentation { fuel: limits.fuel.is_some(), ..Instrumentation::default() }
}

/// How long the run may take.
pub(super) fn longest(check: &Check<'_>) -> Duration {
    let asked = Duration::from_secs(check.trial.given.timeout);
    check.policy.longest_call().map_or(asked, |most| asked.min(most))
}

/// What the child is to try.
pub(super) fn asked(
    check: &Check<'_>,
    limits: Limits,
    with: Instrumentation,
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Asked> {
    let trial = check.trial;
    if !node::has(Feature::Inference)
        && let Some((name, _)) = trial.given.models.first()
    {
        anyhow::bail!(NotBuilt::new(format!("--model gives {name}"), Feature::Inference));
    }
    let mut asked = Asked {
        limits,
        arguments: arguments(trial),
        environment: trial.given.environment.clone(),
        inference: inference(check, say)?,
        ..Asked::plain(scratch, check.os_sandbox, with, Wanted::Load)
    };
    if let Some(files) = &trial.run {
        let (mounts, items) = mounts(files, scratch)?;
        asked.mounts = mounts;
        asked.mounts.extend(side_inputs(trial)?);
        asked.models = models(check, &asked.limits, scratch)?;
        let has_onnxruntime = asked.inference.onnxruntime.is_some();
        judge(check, &asked, has_onnxruntime, say)?;
        asked.mounts.extend(asked.models.iter().map(Model::mount));
        asked.wanted = Wanted::Run(items);
    }
    Ok(asked)
}

/// What came of the run, and what was written meanwhile.
pub(super) fn run(
    trial: &mut TrialProcess,
    scratch: &Scratch,
    limit: Duration,
) -> anyhow::Result<Ran> {
    let (told, good) = match trial.ran(limit).map_err(|error| explain(scratch, error))? {
        Some((told, good)) => (printable(&told).into_owned(), good),
        None => {
            (format!("stopped: not done within {} s (--timeout)\n", limit.as_secs_f64()), false)
        }
    };
    Ok(Ran { good, told, written: written(scratch) })
}

/// What was printed and logged meanwhile.
pub(super) fn written(scratch: &Scratch) -> Written {
    let [stdout, stderr, log] = ["stdout", "stderr", "log"].map(|name| shown(scratch, name));
    Written { stdout, stderr, log }
}

/// The folders that hold the files, read-only, and the folders that every entry script has; and the
/// files' paths as the guest sees them.
fn mounts(files: &[PathBuf], scratch: &Path) -> anyhow::Result<(Vec<Mount>, Vec<String>)> {
    let mut mounts = Vec::new();
    for guest in [GUEST_OUTPUT, GUEST_LOGS] {
        let host = scratch.join(guest.trim_start_matches('/'));
        std::fs::create_dir(&host).context("no folder for the run can be made")?;
        mounts.push(Mount { host, guest: guest.to_owned(), writable: true });
    }
    let mut paths = Vec::new();
    for file in files {
        let real = file.canonicalize().with_context(|| file.display().to_string())?;
        let (Some(folder), Some(name)) = (real.parent(), real.file_name().and_then(|n| n.to_str()))
        else {
            anyhow::bail!("{}: its name is no valid UTF-8", file.display());
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

/// The arguments behind the program's name. References to side inputs and models stand for their
/// folders, as in a job file.
fn arguments(trial: &Trial) -> Vec<String> {
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

fn side_inputs(trial: &Trial) -> anyhow::Result<Vec<Mount>> {
    let mount = |(name, folder): &(String, String)| {
        let host = Path::new(folder);
        let host = host.canonicalize().map_err(|e| anyhow::anyhow!("{folder}: {e}"))?;
        anyhow::ensure!(host.is_dir(), "{folder} is a file; a side input is a folder");
        Ok(Mount { host, guest: format!("{GUEST_SIDE_INPUTS}/{name}"), writable: false })
    };
    trial.given.side_inputs.iter().map(mount).collect()
}

/// The models, below the scratch folder where they are single files.
fn models(check: &Check<'_>, limits: &Limits, scratch: &Path) -> anyhow::Result<Vec<Model>> {
    let model = |(name, path): &(String, String)| ModelSpec::at(name, Path::new(path));
    let models: Result<Vec<_>, _> = check.trial.given.models.iter().map(model).collect();
    let models = models.map_err(|error| anyhow::anyhow!("--model: {error}"))?;
    check.policy.check_models(&models)?;
    Ok(node::give_models(&models, limits.models, &JobDir::new(scratch))?)
}

/// Looks at the models before the entry script does, as for a job.
fn judge(
    check: &Check<'_>,
    asked: &Asked,
    has_onnxruntime: bool,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let probe = probe(check);
    for Model { name, host, file, .. } in &asked.models {
        let judged = probe.judge(Some(host), &host.join(file), asked.limits.models.0);
        let Ok(Judged { not_by_tract, left_out }) = judged else { continue };
        if let Some(why) = not_by_tract.filter(|_| !has_onnxruntime) {
            anyhow::bail!("model {name}: {why}");
        }
        for what in left_out {
            say(&format!("note: model {name}: its output {what}"));
        }
    }
    Ok(())
}

fn probe(check: &Check<'_>) -> Probe {
    let program = check.program.to_owned();
    Probe { program, os_sandbox: check.os_sandbox, cuda: Vec::new() }
}

/// What computes with models, beside tract: tried out first, as for a job.
fn inference(check: &Check<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<InferenceSettings> {
    let mut settings = InferenceSettings::default();
    let named = check.onnxruntime.as_ref().filter(|_| !check.trial.given.models.is_empty());
    let Some(named) = named else { return Ok(settings) };
    match probe(check).named(named) {
        Ok((library, _)) => settings.onnxruntime = Some(library),
        Err(why) if named.by_option() => anyhow::bail!(why),
        Err(why) => say(&format!("note: onnxruntime is not used, but tract: {why}")),
    }
    Ok(settings)
}

/// Adds what the child said of its end.
pub(super) fn explain(scratch: &Scratch, error: TrialError) -> anyhow::Error {
    match shown(scratch, "worker") {
        text if text.is_empty() => error.into(),
        text => anyhow::anyhow!("{error}; what it said:\n{text}"),
    }
}

/// The start of what was written to one of its files, so that it can be shown. The component that was tried may have
/// put a link there, or a fifo.
pub(super) fn shown(scratch: &Scratch, name: &str) -> String {
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
    fn a_file_that_is_no_component_is_an_error() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("entry.py");
        std::fs::write(&path, "def run(batch):\n  pass\n").expect("writes");
        let asked = Check {
            path: &path,
            trial: &Trial::default(),
            cache: None,
            program: Path::new("/nonexistent"),
            os_sandbox: OsSandbox::Off,
            compiler: &Compiler::here(),
            policy: &OperatorPolicy::default(),
            onnxruntime: None,
        };
        let error = check(&asked, &mut |_| {}).expect_err("Python source");
        assert!(format!("{error:#}").contains("it is Python source"), "{error:#}");
    }
}
