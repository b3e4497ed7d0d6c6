//! `sandmill check COMPONENT`: does it keep the contract, what would it need, and, if asked, what
//! does it return.
//!
//! The component is compiled in a child process, as for a job. With `--run` it is then run in this
//! process: inside of the component sandbox, with default limits and a time-out, but without the second
//! wall of a worker process.

use crate::compile::{Cache, ImportVerdict, Instrumentation, Names};
use crate::compile::{build_guest_crate, componentize, judge_import, read_names};
use crate::model::{Failure, Limits, LoggingLevel, Mount, printable};
use crate::model::{GUEST_INPUTS, GUEST_LOGS, GUEST_OUTPUT, GUEST_SIDE_INPUTS, NODE_ID};
use crate::sandbox::{Context, Grants, Instance, MiniBatchData, guest_thread_stack};
use crate::sandbox::{Program, ResultSink, Seed};
use crate::spec::OperatorPolicy;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Rows that are shown.
const SHOWN: usize = 20;

/// How to try out an entry script.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Trial {
    /// Also runs it: `init`, and `run` on these files as one mini-batch. It runs in the sandbox and
    /// gets what these options give, nothing else.
    #[arg(long, value_name = "FILE", num_args = 0..)]
    run: Option<Vec<PathBuf>>,
    /// An argument of the entry script, with --run; may be given many times.
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true, requires = "run")]
    arguments: Vec<String>,
    /// A folder that the entry script sees at /side_inputs/NAME, with --run; may be given many
    /// times.
    #[arg(long = "side-input", value_name = "NAME=DIR", value_parser = pair, requires = "run")]
    side_inputs: Vec<(String, String)>,
    /// An environment variable of the entry script, with --run; may be given many times.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair, requires = "run")]
    environment: Vec<(String, String)>,
    /// The longest that --run may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

impl Trial {
    /// The files of the mini-batch.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.run.iter().flatten().map(PathBuf::as_path)
    }

    /// The folders of the side inputs.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.side_inputs.iter().map(|(_, folder)| Path::new(folder))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !name.contains(['/', '\0']) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
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
    /// The sandmill binary, for the child process that compiles.
    pub(super) program: &'a Path,
    /// What the operator lets it use.
    pub(super) policy: &'a OperatorPolicy,
}

/// What came of it.
pub(super) struct Verdict {
    /// The text to print, on several lines.
    pub(super) text: String,
    /// Whether the contract is kept and, if it was run, nothing failed.
    pub(super) good: bool,
}

/// Checks a component. `say` gets the lines of a build.
///
/// # Errors
/// If the file cannot be read, is no WebAssembly, or does not build; what is wrong with a component
/// as such is a verdict.
pub(super) fn check(check: &Check<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Verdict> {
    let path = if check.path.is_dir() {
        build_guest_crate(check.path, say)?
    } else {
        check.path.to_owned()
    };
    let at = || path.display().to_string();
    let bytes = std::fs::read(&path).map_err(|e| anyhow::anyhow!("{}: {e}", at()))?;
    let component = componentize(bytes).with_context(at)?;
    let names = read_names(&component).with_context(at)?;
    let mut text = format!("{}, {} bytes\n", path.display(), component.len());
    let _ = writeln!(text, "sha256:{}", Cache::digest(&path).with_context(at)?);
    drop(component);
    describe(&names, &mut text);
    let limits = check.policy.default_limits();
    let with = Instrumentation { fuel: limits.fuel.is_some(), ..Instrumentation::default() };
    let compiled = Cache::open(check.cache, check.program)?.prepare(&path, with, say);
    let loaded = compiled.map_err(|error| error.to_string()).and_then(|compiled| {
        Program::load(&compiled.file, with, &limits, None).map_err(|failure| failure.to_string())
    });
    let program = match loaded {
        Ok(program) => program,
        // Why they are refused has been said.
        Err(_) if refuses(&names) => {
            text.push_str("It does not keep the contract: it imports what is refused.\n");
            return Ok(Verdict { text, good: false });
        }
        Err(error) => {
            let _ = writeln!(text, "It does not keep the contract:\n{error}");
            return Ok(Verdict { text, good: false });
        }
    };
    let _ = writeln!(text, "Functions: {}", program.functions().join(", "));
    text.push_str("It keeps the contract.\n");
    let good = match &check.trial.run {
        Some(files) => run(program, files, (check.trial, limits, longest(check)), &mut text)?,
        None => true,
    };
    Ok(Verdict { text, good })
}

fn refuses(names: &Names) -> bool {
    names.imports.iter().any(|import| matches!(judge_import(import), ImportVerdict::Refused(_)))
}

/// Exports, and imports grouped by what they give.
fn describe(names: &Names, text: &mut String) {
    text.push_str("Exports:\n");
    for export in &names.exports {
        let _ = writeln!(text, "  {export}");
    }
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for import in &names.imports {
        let what = match judge_import(import) {
            ImportVerdict::Granted(what) => what.to_owned(),
            ImportVerdict::Refused(why) => format!("REFUSED: {why}"),
        };
        match groups.iter_mut().find(|(group, _)| *group == what) {
            Some((_, imports)) => imports.push(import),
            None => groups.push((what, vec![import])),
        }
    }
    text.push_str("Imports, and what they give it:\n");
    for (what, imports) in groups {
        let _ = writeln!(text, "  {what}\n    {}", imports.join("\n    "));
    }
}

/// How long the run may take.
fn longest(check: &Check<'_>) -> Duration {
    let asked = Duration::from_secs(check.trial.timeout);
    check.policy.longest_call().map_or(asked, |most| asked.min(most))
}

/// Runs `init`, `run` on the files, and `shutdown`; tells whether all went well.
fn run(
    program: Program,
    files: &[PathBuf],
    (trial, limits, longest): (&Trial, Limits, Duration),
    text: &mut String,
) -> anyhow::Result<bool> {
    let folder = Scratch::create().context("no folder for the run can be made")?;
    let (mut mounts, paths) = mounts(files, &folder.0)?;
    mounts.extend(side_inputs(trial)?);
    let grants = Grants {
        mounts,
        arguments: arguments(trial),
        environment: trial.environment.clone(),
        agent_name: "process000".into(),
        node_id: NODE_ID.to_string(),
        log_dir: GUEST_LOGS.into(),
        output_dir: GUEST_OUTPUT.into(),
        source_dir: None,
        gpu_index: None,
        logging_level: LoggingLevel::Debug,
        limits,
        seed: Seed::before_mini_batches(),
        stdout: folder.0.join("stdout"),
        stderr: folder.0.join("stderr"),
        log: folder.0.join("log"),
    };
    let (sender, ended) = mpsc::channel();
    let guest = std::thread::Builder::new()
        .stack_size(guest_thread_stack(&grants.limits))
        .spawn(move || {
            let mut text = String::new();
            let good = match program.instantiate(&grants) {
                Ok(mut instance) => call(&mut instance, &paths, &mut text),
                Err(failure) => report("starting", &Err(failure), &mut text),
            };
            // Nobody waits for it any more if it took too long.
            let _ = sender.send((text, good));
        });
    guest.context("no thread can be started")?;
    let good = match ended.recv_timeout(longest) {
        Ok((told, good)) => {
            text.push_str(&told);
            good
        }
        // The end of this process, which is near, is also the guest's.
        Err(RecvTimeoutError::Timeout) => {
            let _ =
                writeln!(text, "stopped: not done within {} s (--timeout)", longest.as_secs_f64());
            false
        }
        Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the run ended with a panic"),
    };
    for name in ["stdout", "stderr", "log"] {
        if let Ok(written) = std::fs::read(folder.0.join(name)) {
            let written = String::from_utf8_lossy(&written);
            let _ = writeln!(text, "{name}:\n  {}", written.trim_end().replace('\n', "\n  "));
        }
    }
    Ok(good)
}

fn call(instance: &mut Instance, paths: &[String], text: &mut String) -> bool {
    let (stats, result) = instance.init();
    if !report(&format!("init ({:.3} s)", stats.seconds), &result, text) {
        return false;
    }
    let data = if paths.is_empty() { MiniBatchData::Void } else { MiniBatchData::Files(paths) };
    let context = Context { id: 0, dataset: "", attempt: 1, partition_key_value: &[] };
    let mut returned = Returned::default();
    let (stats, result) = instance.run(data, &context, &mut returned);
    if !report(&format!("run ({:.3} s)", stats.seconds), &result, text) {
        if paths.is_empty() {
            text.push_str("It was given no items; name files behind --run if it needs them.\n");
        }
        return false;
    }
    returned.describe(text);
    let (stats, result) = instance.shutdown();
    report(&format!("shutdown ({:.3} s)", stats.seconds), &result, text)
}

fn report(what: &str, result: &Result<(), Failure>, text: &mut String) -> bool {
    match result {
        Ok(()) => {
            let _ = writeln!(text, "{what}: ok");
        }
        Err(failure) => {
            let _ = writeln!(text, "{what}: {}", printable(&failure.to_string()));
            for line in failure.detail.lines() {
                let _ = writeln!(text, "{}", printable(line));
            }
        }
    }
    result.is_ok()
}

/// `1` and `row` as `1 row`.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The start of what `run` returned.
#[derive(Default)]
struct Returned {
    lines: String,
    rows: usize,
    failed: usize,
    table: Option<usize>,
}

impl Returned {
    fn describe(&self, text: &mut String) {
        if let Some(bytes) = self.table {
            let _ = writeln!(text, "returned a table (Arrow IPC) of {bytes} bytes");
            return;
        }
        let (rows, failed) = (counted(self.rows, "row"), counted(self.failed, "failed item"));
        let _ = writeln!(text, "returned {rows} and {failed}");
        text.push_str(&self.lines);
        let more = (self.rows + self.failed).saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
    }

    fn line(&mut self, line: &str) {
        if self.rows + self.failed < SHOWN {
            let _ = writeln!(self.lines, "  {}", line.escape_debug());
        }
    }
}

impl ResultSink for Returned {
    fn row(&mut self, row: &str) {
        self.line(row);
        self.rows += 1;
    }

    fn failed(&mut self, index: usize, reason: &str) {
        self.line(&format!("item {index} failed: {reason}"));
        self.failed += 1;
    }

    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        self.table = Some(ipc.len());
        Ok(())
    }
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

/// The arguments behind the program's name. References to side inputs stand for their folders, as
/// in a job file.
fn arguments(trial: &Trial) -> Vec<String> {
    let expand = |argument: &String| {
        trial.side_inputs.iter().fold(argument.clone(), |text, (name, _)| {
            let reference = format!("${{{{side_inputs.{name}}}}}");
            text.replace(&reference, &format!("{GUEST_SIDE_INPUTS}/{name}"))
        })
    };
    let given = trial.arguments.iter().map(expand);
    std::iter::once("entry-script".to_owned()).chain(given).collect()
}

fn side_inputs(trial: &Trial) -> anyhow::Result<Vec<Mount>> {
    let mount = |(name, folder): &(String, String)| {
        let host = Path::new(folder);
        let host = host.canonicalize().map_err(|e| anyhow::anyhow!("{folder}: {e}"))?;
        anyhow::ensure!(host.is_dir(), "{folder} is a file; a side input is a folder");
        Ok(Mount { host, guest: format!("{GUEST_SIDE_INPUTS}/{name}"), writable: false })
    };
    trial.side_inputs.iter().map(mount).collect()
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("sandmill-check-{}", std::process::id()));
        // Fails if somebody else has made it, which is right.
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;
    use crate::model::FailureKind;

    #[test]
    fn imports_are_grouped_in_words() {
        let component = testing::component(
            "run-only",
            r#"(import "sandmill:entry/host@0.1.0" "read" (func (param i32 i32 i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
            RUN (i32.const 0))"#,
        );
        let mut names = read_names(&component).expect("reads");
        names.imports.push("wasi:nn/graph@0.2.0-rc-2024-10-28".into());
        let mut text = String::new();
        describe(&names, &mut text);
        insta::assert_snapshot!(text, @"
        Exports:
          sandmill:entry/entry-run@0.1.0
        Imports, and what they give it:
          its own names and folders, its log, whole input files
            sandmill:entry/host@0.1.0
          types only
            sandmill:entry/types@0.1.0
          ending itself
            wasi:cli/exit@0.2.12
          reading and writing what others give
            wasi:io/error@0.2.12
            wasi:io/streams@0.2.12
          writing to its log files
            wasi:cli/stderr@0.2.12
          REFUSED: it is for inference by the host, which this version of Sandmill does not have yet: run the model in the entry script itself, with its weights as a side input
            wasi:nn/graph@0.2.0-rc-2024-10-28
        ");
    }

    #[test]
    fn a_run_shows_what_came_back() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("a.txt");
        std::fs::write(&file, "text").expect("writes");
        // Returns the list of paths as rows.
        let echo = "RUN
            (i32.store8 (i32.const 16) (i32.const 0))
            (i32.store8 (i32.const 20) (i32.const 0))
            (i32.store (i32.const 24) (local.get $ptr))
            (i32.store (i32.const 28) (local.get $len))
            (i32.const 16))";
        let component = testing::component("run-only", echo);
        let code =
            crate::compile::compile_here(&component, Instrumentation::default()).expect("compiles");
        let with = Instrumentation::default();
        let program = Program::load(&code, with, &Limits::default(), None).expect("loads");
        let trial = Trial { timeout: 60, ..Trial::default() };
        let mut text = String::new();
        let how = (&trial, Limits::default(), Duration::from_secs(60));
        assert!(run(program, &[file.clone(), file], how, &mut text).expect("runs"));
        let text = text.replace(|c: char| c.is_ascii_digit(), "0");
        insta::assert_snapshot!(text, @"
        init (0.000 s): ok
        run (0.000 s): ok
        returned 0 rows and 0 failed items
          /inputs/items/0/a.txt
          /inputs/items/0/a.txt
        shutdown (0.000 s): ok
        ");
    }

    #[test]
    fn what_a_component_says_cannot_steer_the_terminal() {
        let mut failure = Failure::new(FailureKind::ScriptError, "no\u{1b}[2J");
        failure.detail = "stack\r\n  of\u{7} it\n".to_owned();
        let mut text = String::new();
        assert!(!report("init", &Err(failure), &mut text));
        assert_eq!(text, "init: no\u{fffd}[2J\nstack\n  of\u{fffd} it\n");
    }

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
            policy: &OperatorPolicy::default(),
        };
        let error = check(&asked, &mut |_| {}).err().expect("Python source");
        assert!(format!("{error:#}").contains("it is Python source"), "{error:#}");
    }
}
