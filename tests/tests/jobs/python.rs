//! Entry scripts in Python, in the light runtime.

use insta::assert_snapshot;
use sandmill_tests::{TestJob, root};
use std::path::Path;
use std::process::Command;

/// A job for one worker over `a.txt`, `bb.txt` and `ccc.txt`, one file per mini-batch. `make python-light`
/// installs the runtime.
fn three_files(script: &str) -> TestJob {
    TestJob::new(Path::new("score.py"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .file("score.py", script)
        .file("in/a.txt", "1")
        .file("in/bb.txt", "22")
        .file("in/ccc.txt", "333")
}

/// Rules E2 to E5, E11, E12, E16 to E18 (docs/parallel-run-step.md): a script in the style of
/// ParallelRunStep's documentation.
const PARALLEL_RUN_STEP_SCRIPT: &str = r#"
import argparse, logging, os, sys
from azureml_user.parallel_run import EntryScript
import helper
from parts.names import shown

def init():
    global args, logger
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", default="")
    args, _ = parser.parse_known_args()
    entry_script = EntryScript()
    logger = entry_script.logger
    logger.info("init of %s with %s", entry_script.agent_name, args)
    logging.info("of the root logger")
    logging.debug("too verbose")
    assert EntryScript() is entry_script
    assert os.getcwd() == os.path.dirname(os.path.realpath(__file__)) == "/source", os.getcwd()
    assert open("parts/__init__.py").read() == ""
    assert sys.argv[0] == __file__ and sys.version.startswith("3.14.0 "), sys.version
    assert "SANDMILL_PYTHON" not in os.environ and os.environ["COLOUR"] == "red"
    with open(os.path.join(entry_script.log_dir, entry_script.agent_name + ".mine"), "w") as file:
        file.write("mine")

def run(mini_batch, context):
    print(f"mini-batch {context.minibatch_index} of {context.dataset_name}")
    return [f"{args.prefix}{shown(path)}: {helper.size(path)}" for path in mini_batch]

def shutdown():
    logger.info("shutdown")
"#;

#[test]
fn a_script_of_parallel_run_step_runs_unchanged() {
    let ran = three_files(PARALLEL_RUN_STEP_SCRIPT)
        .file("helper.py", "import os\ndef size(path):\n    return os.path.getsize(path)\n")
        .file("parts/__init__.py", "")
        .file("parts/names.py", "from os.path import basename as shown\n")
        .file("requirements.txt", "pandas==1.5.3\npython==3.8\n")
        .yaml(
            "arguments: [--prefix, '> ']\nenvironment_variables: {COLOUR: red}\n\
             python: {requirements: requirements.txt}",
        )
        .run(&[]);
    ran.exits_with(0)
        .says("requirements.txt asks for python 3.8, but the light runtime has 3.14.0");
    let result = ran.log("job_result.txt");
    let runtime = result.lines().find(|line| line.contains("runtime")).unwrap();
    assert!(runtime.contains("python-light-") && runtime.ends_with(": Python 3.14.0"), "{runtime}");
    assert_eq!(ran.output(), "> a.txt: 1\n> bb.txt: 2\n> ccc.txt: 3\n");
    let stdout = ran.log("user/stdout/0/process000.stdout.txt");
    let without_time = stdout.split_once("|INFO|root|").expect("a line of the root logger").1;
    assert_snapshot!(without_time, @"
    of the root logger
    mini-batch 0 of texts
    mini-batch 1 of texts
    mini-batch 2 of texts
    ");
    let log = ran.log("user/entry_script_log/0/process000.log.txt");
    assert!(log.contains("init of process000 with Namespace(prefix='> ')"), "{log}");
    assert!(log.trim_end().ends_with("shutdown"), "{log}");
    assert_eq!(ran.log("user/entry_script_log/0/files/process000.mine"), "mine");
}

/// Rule O1: elements of other types are converted with `str`. A single item may fail.
#[test]
fn rows_are_converted_with_str() {
    let script = "import sandmill\ndef run(mini_batch):\n    return (1.50, None, b'x', ('a', 1), sandmill.Failed('too old'))\n";
    let ran = three_files(script).file("in/d.txt", "").file("in/e.txt", "").run(&[
        "--set",
        "mini_batch_size=5",
        "--set",
        "error_threshold=1",
    ]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "1.5\nNone\nb'x'\n('a', 1)\n");
    assert!(ran.failed_items().contains("too old"), "{}", ran.failed_items());
}

/// The source folder is the current folder. A script in a subfolder imports from both folders.
#[test]
fn a_script_in_a_subfolder_of_the_source_folder_runs() {
    let script = "import beside, ns.mod, os
def run(mini_batch):
    assert os.getcwd() == '/source' and __file__ == '/source/scripts/score.py'
    return [open('prefix.txt').read() + beside.name(path) + ns.mod.END for path in mini_batch]
if __name__ == '__main__':
    import pytest
";
    let ran = three_files("")
        .yaml("source_directory: src")
        .file("src/scripts/score.py", script)
        .file("src/scripts/beside.py", "from os.path import basename as name\n")
        .file("src/ns/mod.py", "END = '.'\n")
        .file("src/prefix.txt", "> ")
        .run(&["--set", "entry_script=scripts/score.py"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "> a.txt.\n> bb.txt.\n> ccc.txt.\n");
    let ran = ran.into_job().file("src/ns/mod.py", "raise ValueError('no')\n").run(&[
        "--set",
        "entry_script=scripts/score.py",
        "--overwrite",
    ]);
    ran.exits_with(42).says("ValueError: no (ns/mod.py, line 1, in <module>)");
}

/// The script is refused before any worker starts. No job directory is left.
#[test]
fn a_script_that_cannot_run_is_refused_first() {
    let refused = |script: &str| {
        let ran = three_files(script).run(&[]);
        ran.exits_with(2);
        assert!(!ran.has("job/logs"), "the job began");
        ran.messages()
    };
    let missing_imports = "import numpy as np
import sklearn.linear_model
import ssl, helper
try:
    import torch
except ImportError:
    torch = None
from some_package import thing
def run(mini_batch):
    import requests
    return mini_batch
";
    let messages = [
        "def run(mini_batch):\n    return [1\n",
        "x = 1\n",
        "async def run(mini_batch):\n    return []\n",
        "class run:\n    pass\n",
        missing_imports,
    ]
    .map(refused)
    .join("\n");
    assert_snapshot!(messages, @"
    error: score.py, line 2: SyntaxError: '[' was never closed (in: return [1)
    error: `run` of score.py is missing; write `def run(mini_batch):`
    error: `run` of score.py is async; write `def run(mini_batch):` without async
    error: `run` of score.py is a class; write `def run(mini_batch):`
    error: score.py, line 1: imports numpy, which the light runtime does not have: use the science runtime, which has this package; write python: {runtime: science}, or add --set python.runtime=science
    error: score.py, line 2: imports sklearn, which the light runtime does not have: use the science runtime, which has this package; write python: {runtime: science}, or add --set python.runtime=science
    error: score.py, line 3: imports ssl, which the light runtime does not have: this module needs what a sandbox does not have, such as sockets, processes and threads; do without the module
    error: score.py, line 3: imports helper, which the light runtime does not have: put your own module next to the script, or install the package from PyPI, if it is pure Python: sandmill python vendor helper (some packages have another name on PyPI)
    error: score.py, line 8: imports some_package, which the light runtime does not have: put your own module next to the script, or install the package from PyPI, if it is pure Python: sandmill python vendor some_package (some packages have another name on PyPI)
    ");
}

/// The message begins with the error and the script's line number. The traceback follows, without
/// the lines of the runtime.
#[test]
fn errors_show_the_scripts_own_traceback() {
    let script = "def inner(path):
    raise ValueError('no number in\\n' + path)
def run(mini_batch):
    if mini_batch[0].endswith('a.txt'):
        return [inner(path) for path in mini_batch]
    if mini_batch[0].endswith('bb.txt'):
        import sys
        sys.exit(3)
    return {'a': 1}
";
    let ran = three_files(script).run(&["--set", "run_max_try=1", "--set", "error_threshold=-1"]);
    ran.exits_with(42);
    let errors = ran.log("user/error/0/process000.txt");
    let without_times = errors.lines().map(|line| match line.split_once("Z mini-batch") {
        Some((_, rest)) => format!("mini-batch{rest}\n"),
        None => format!("{line}\n"),
    });
    assert_snapshot!(without_times.collect::<String>(), @r#"
    mini-batch 0, attempt 1 (/inputs/texts/a.txt): script_error
    ValueError: no number in /inputs/texts/a.txt (score.py, line 2, in inner)
    Traceback (most recent call last):
      File "/source/score.py", line 5, in run
        return [inner(path) for path in mini_batch]
                ~~~~~^^^^^^
      File "/source/score.py", line 2, in inner
        raise ValueError('no number in\n' + path)
    ValueError: no number in
    /inputs/texts/a.txt

    mini-batch 1, attempt 1 (/inputs/texts/bb.txt): script_error
    SystemExit: the script ended itself with sys.exit(3); return, or raise an error (score.py, line 8, in run)
    Traceback (most recent call last):
      File "/source/score.py", line 8, in run
        sys.exit(3)
        ~~~~~~~~^^^
    SystemExit: 3

    mini-batch 2, attempt 1 (/inputs/texts/ccc.txt): script_error
    run returned a dict; it must return a list or a tuple with one row for each item, or a table
    "#);
}

#[test]
fn run_must_return_rows() {
    let script = "import os
def rows(): yield 1
def run(mini_batch):
    name = os.path.basename(mini_batch[0])
    if name == 'a.txt': return None
    if name == 'bb.txt': return rows()
    return ['\\ud800']
";
    let ran = three_files(script).run(&["--set", "run_max_try=1", "--set", "error_threshold=-1"]);
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @r#"
    job test: 1 worker
    mini-batch 0, attempt 1 ([WORKER]): run returned None (is there a return statement?); it must return a list or a tuple with one row for each item, or a table
    mini-batch 1, attempt 1 ([WORKER]): run returned a generator (collect what it yields: return list(...)); it must return a list or a tuple with one row for each item, or a table
    mini-batch 2, attempt 1 ([WORKER]): row 0 that run returned is not valid Unicode: '\\ud800'; decode file names and bytes with errors="replace"
    Job test failed after [TIME]: no item succeeded, so there is nothing to write
      first cause   run returned None (is there a return statement?); it must return a list or a tuple with one row for each item, or a table
      where         mini-batch 0, [WORKER]
      mini-batches  3, of which 3 failed
      items         3, of which 3 failed (see job/logs/failed_items.csv)
      read next     job/logs/user/error/0/[WORKER].txt
      what to do    fix the entry script as the first cause says; sandmill check COMPONENT --run FILE tries it on one file
      next command  sandmill explain job
    "#);
}

/// A Python script is in the same sandbox as other guests.
#[test]
fn nothing_outside_can_be_reached() {
    let script = "import os, random, socket, subprocess, tempfile, threading
def tried(what):
    try:
        return f'did: {what()}'
    except BaseException as error:
        return type(error).__name__
def run(mini_batch):
    return [
        tried(lambda: socket.create_connection(('127.0.0.1', 80), 1)),
        tried(lambda: subprocess.run(['/bin/true'])),
        tried(lambda: os.system('true')),
        tried(lambda: open('/etc/passwd')),
        tried(lambda: open('/source/score.py', 'a')),
        tried(lambda: os.listdir('/')),
        tried(lambda: threading.Thread(target=print).start()),
    ]
";
    let ran = three_files(script).run(&["--set", "mini_batch_size=3"]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @"
    gaierror
    OSError
    AttributeError
    FileNotFoundError
    PermissionError
    FileNotFoundError
    RuntimeError
    ");
}

/// Workers start from a snapshot of a running Python. Without a new seed, all workers would have the
/// same random numbers.
#[test]
fn workers_have_different_random_numbers() {
    let script = "import random, time, uuid
def run(mini_batch):
    time.sleep(0.2)
    return [f'{random.random()} {uuid.uuid4()}' for _ in mini_batch]
";
    let ran = three_files(script).run(&["--set", "process_count_per_node=3"]);
    ran.exits_with(0);
    let mut rows = ran.sorted_output();
    rows.dedup();
    assert_eq!(rows.len(), 3, "{rows:?}");
    let deterministic_output = || {
        let job = three_files(script).yaml("deterministic: true");
        job.run(&[]).output()
    };
    assert_eq!(deterministic_output(), deterministic_output());
}

/// The job makes a copy of the files in the folder of the script, so later changes do not affect
/// the running job. If the files have changed, a resume is refused.
#[test]
fn a_resume_with_changed_script_files_is_refused() {
    let job =
        three_files("import helper\ndef run(mini_batch):\n    return [helper.one(mini_batch)]\n")
            .file("helper.py", "def one(files):\n    return files[0]\n");
    let stopped = job.env("SANDMILL_FAIL_POINT", "end-committed").run(&[]);
    let job = stopped.into_job().env("SANDMILL_FAIL_POINT", "");
    let ran = job.file("helper.py", "def one(files):\n    return 'other'\n").run(&[]);
    ran.exits_with(2).says("the Python files beside entry_script");
}

#[test]
fn a_script_can_be_pinned() {
    let script = "def run(mini_batch):\n    return mini_batch\n";
    let ran = three_files(script)
        .yaml("entry_script_digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'")
        .run(&[]);
    ran.exits_with(2).says("score.py has the SHA-256");
}

/// With `runtime: light`, `run` receives a `sandmill.Table`. Without this setting, a table needs the science
/// runtime.
#[test]
fn tables_are_columns_of_python_values() {
    let job = |script: &str| {
        TestJob::new(Path::new("source/score.py"))
            .file("source/score.py", script)
            .file("t.csv", "id,name,score,day\n1,Ann,1.5,2024-01-31\n2,Bob,,2024-02-29\n")
            .yaml("inputs: {t: {path: t.csv, format: csv}}")
    };
    let new_columns = "def run(table):
    assert table.names == ['id', 'name', 'score', 'day'] and len(table) == 2
    doubled = [None if score is None else 2 * score for score in table['score']]
    return table.select('id', 'day').with_columns(double=doubled)
";
    let ran = job(new_columns).yaml("python: {runtime: light}\noutput_format: csv").run(&[]);
    ran.exits_with(0);
    assert_eq!(
        ran.text("job/output/parallel_run_step.csv"),
        "id,day,double\n1,2024-01-31,3.0\n2,2024-02-29,\n"
    );
    let rows = "def run(table):\n    return [f\"{row['name']} {row['score']}\" for row in table]\n";
    let ran = job(rows).yaml("python: {runtime: light}").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "Ann 1.5\nBob None\n");
    let ran = job(rows).run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.messages(), @"
    error: the input is a table, which a Python script gets as a pandas DataFrame, as in ParallelRunStep; pandas needs the science runtime, which is not installed on this machine; install it once: sandmill python install science
    If run takes a sandmill.Table instead, write python: {runtime: light}, or add --set python.runtime=light
    ");
    let ran = job("def run(table):\n    return table['age']\n")
        .yaml("python: {runtime: light}\nrun_max_try: 1")
        .run(&[]);
    ran.exits_with(42).says("KeyError: \"there is no column 'age'; there is: id, name, score, day\" (score.py, line 2, in run)");
}

#[test]
fn scripts_are_checked_before_they_are_run() {
    let script = "try:\n    import torch\nexcept ImportError:\n    torch = None\ndef run(mini_batch):\n    print('here')\n    return mini_batch\n";
    let ran = three_files(script).command(&["check", "score.py", "--run", "in/a.txt"]);
    ran.exits_with(0);
    assert_snapshot!(ran.redacted_stdout(), @"
    score.py, for the light runtime
    note: score.py, line 2: torch is not in the light runtime; if the script imports it, the import fails with ImportError
    It can be run: all modules that it imports are available.
    init ([TIME]): ok
    run ([TIME]): ok
    returned 1 row and 0 failed items
      /inputs/items/0/a.txt
    shutdown ([TIME]): ok
    stdout:
      here
    ");
    let ran = three_files("import pandas\n").command(&["check", "score.py"]);
    ran.exits_with(42);
    assert_snapshot!(ran.redacted_stdout(), @r#"
    score.py
    `run` of score.py is missing; write `def run(mini_batch):`
    score.py, line 1: imports pandas, which the light runtime does not have: use the science runtime, which has this package; add --runtime science, or in Python runtime="science" to sandmill.udf
    It cannot be run.
    "#);
    let ran = ran.into_job().command(&["check", "score.py", "--json"]);
    ran.exits_with(42);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["kind"], &report["good"]), (&"python_script".into(), &false.into()));
    assert!(report["problems"][0].as_str().unwrap().contains("imports pandas"), "{report}");
}

/// `vendor` installs packages from wheels without a network. The test makes these wheels.
#[test]
fn pure_python_packages_are_vendored_beside_the_script() {
    let make_wheels = "import zipfile
import os
os.makedirs('evil')
open('evil/pyproject.toml', 'w').write('[build-system]\\nrequires = []\\nbuild-backend = \\'backend\\'\\nbackend-path = [\\'.\\']\\n')
open('evil/backend.py', 'w').write(f'open({os.getcwd()!r} + \\'/ran\\', \\'w\\')\\n')
for name, module, tag in [('tiny', 'tiny.py', 'py3-none-any'), ('native', 'native.so', 'py3-none-any'), ('needy', 'needy.py', 'py3-none-any')]:
    with zipfile.ZipFile(f'wheels/{name}-1.0-{tag}.whl', 'w') as wheel:
        wheel.writestr(module, 'def answer():\\n    return 42\\n')
        needs = {'tiny': 'Requires-Dist: six', 'needy': f'Requires-Dist: evil @ file://{os.getcwd()}/evil'}.get(name, '')
        wheel.writestr(f'{name}-1.0.dist-info/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n{needs}\\n')
        wheel.writestr(f'{name}-1.0.dist-info/WHEEL', f'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: {tag}\\n')
        wheel.writestr(f'{name}-1.0.dist-info/RECORD', '')
";
    let venv = root().join("target/venv");
    let job = three_files("import tiny\ndef run(mini_batch):\n    return [tiny.answer()]\n")
        .file("wheels/made.txt", "")
        .env("VIRTUAL_ENV", venv.to_str().unwrap());
    let python = venv.join("bin/python");
    let made = Command::new(python).args(["-c", make_wheels]).current_dir(job.path("")).status();
    assert!(made.unwrap().success());
    let ran = job.command(&["python", "vendor", "native", "--from", "wheels"]);
    ran.exits_with(2).says("native.so is not available in pure Python");
    // To build such a package, pip would run the package's code without a sandbox.
    for refused in
        ["evil @ file:///tmp/evil", "./evil", "evil.tar.gz/x", "git+https://example.org/x"]
    {
        let ran = three_files("").env("VIRTUAL_ENV", venv.to_str().unwrap());
        ran.command(&["python", "vendor", refused]).exits_with(2).says("name only packages");
    }
    let ran = ran.into_job().command(&["python", "vendor", "needy", "--from", "wheels"]);
    ran.exits_with(2).says("evil is not available in pure Python");
    assert!(!ran.has("ran"), "the code of a dependency was run");
    let ran =
        ran.into_job().command(&["python", "vendor", "tiny", "pandas==1.5", "--from", "wheels"]);
    ran.exits_with(0).says("left out, because the science runtime has them: pandas==1.5");
    assert_eq!(ran.text("python_packages/sandmill.json"), "{\"needs\":[\"six\"]}\n");
    // The light runtime does not have `six`, which the package `tiny` needs.
    let ran = ran.into_job().run(&["--set", "python.runtime=light"]);
    ran.exits_with(2).says("sandmill.json, line 1: imports six");
    let ran = ran.into_job().file("python_packages/sandmill.json", "{\"needs\":[]}").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "42\n42\n42\n");
}

/// A job does not download the runtime: the message has the command that installs it.
#[test]
fn a_missing_runtime_is_reported_with_its_install_command() {
    let job = three_files("def run(mini_batch):\n    return mini_batch\n");
    let ran = job.env("SANDMILL_CACHE_DIR", "empty").run(&[]);
    ran.exits_with(2).says("install it once: sandmill python install light");
    let ran = ran
        .into_job()
        .file("nothing/here", "")
        .command(&["python", "install", "--from", "nothing"]);
    ran.exits_with(2).says("nor a wheel of componentize-py");
}

/// Python can import modules from the current folder, which may contain untrusted files.
#[test]
fn an_installation_runs_no_code_of_the_current_folder() {
    let hostile = "open('ran', 'w')\n";
    let names =
        ["pip/__init__.py", "pip/__main__.py", "componentize_py.py", "json.py", "typing.py"];
    let job = names.iter().fold(TestJob::empty(), |job, name| job.file(name, hostile));
    let job = job.file("wheels/here", "").env("SANDMILL_CACHE_DIR", "cache");
    let ran = job.command(&["python", "install", "--from", "wheels"]);
    ran.exits_with(2).says("nor a wheel of componentize-py");
    assert!(!ran.has("ran") && !ran.has("cache/ran"));
}
