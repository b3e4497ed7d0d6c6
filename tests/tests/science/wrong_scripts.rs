//! Hostile or wrong scripts. Each fails with a clear message, and affects only its own mini-batch.

use crate::{files, is_installed};
use insta::assert_snapshot;

/// Runs a job over three files, one per mini-batch. The script executes the lines `first` only for the first
/// file. Returns the output, which should have rows for the other files only, and the message about the first
/// mini-batch.
fn output_and_message(first: &str) -> String {
    let script = format!(
        "import os, sys
import numpy as np, pandas as pd
def run(mini_batch):
    if mini_batch[0].endswith('a.txt'):
{first}
    return [os.path.basename(path) for path in mini_batch]
"
    );
    let job = ["a", "b", "c"]
        .iter()
        .fold(files(&script), |job, name| job.file(&format!("in/{name}.txt"), ""));
    let ran = job.run(&[
        "--set",
        "mini_batch_size=1",
        "--set",
        "run_max_try=1",
        "--set",
        "error_threshold=5",
        "--set",
        "limits.memory=400 MB",
        "--set",
        "run_invocation_timeout=20",
    ]);
    ran.exits_with(0);
    let messages = ran.messages();
    let line = messages.lines().find(|line| line.starts_with("mini-batch 0")).unwrap_or("nothing");
    format!("{} | {}", ran.output().replace('\n', " "), line)
}

#[test]
fn bad_scripts_fail_alone_with_clear_messages() {
    if !is_installed() {
        return;
    }
    let results = [
        "        return 7",
        "        return np.float64(2)",
        "        return {'a': 1}",
        "        sys.exit(3)",
        "        os._exit(0)",
        "        def deep(n): return deep(n + 1)\n        deep(0)",
        "        x = bytearray(1 << 30)",
        "        x = [np.ones(1 << 20) for _ in range(1000)]",
        "        sys.stdout.close(); os.close(2)",
        "        import _host; _host.call(b'\\x00\\x00\\x00\\x00\\xff\\xff\\xff\\xff\\x64\\x00\\x00\\x00')",
        "        import _host; _host.call(b'\\x04\\x00\\x00\\x00\\x07\\x00\\x00\\x00')",
        "        import science; science._init = science._return_value = None; science.abi.give = None",
        "        import builtins; del builtins._run",
        "        return pd.DataFrame({'a': ['\\ud800']})",
    ]
    .map(output_and_message)
    .join("\n");
    assert_snapshot!(results, @"
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): run returned an int; it must return a list or a tuple with one row for each item, or a table
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): run returned a float64; it must return a list or a tuple with one row for each item, or a table
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): run returned a dict; it must return a list or a tuple with one row for each item, or a table
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): SystemExit: the script ended itself with sys.exit(3); return, or raise an error (score.py, line 5, in run)
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): the entry script ended itself in run, with exit code 0: return an error instead
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): RecursionError: maximum recursion depth exceeded (score.py, line 5, in deep)
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): MemoryError (score.py, line 5, in run)
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): MemoryError: Unable to allocate 8.00 MiB for an array with shape (1048576,) and data type float64 (score.py, line 5, in run)
    a.txt b.txt c.txt  | nothing
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): the entry script trapped in run: out of bounds memory access (an invalid pointer, or too much recursion)
    a.txt b.txt c.txt  | nothing
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): the entry script trapped in run: wasm `unreachable` instruction executed (it aborted itself)
    a.txt c.txt  | nothing
    b.txt c.txt  | mini-batch 0, attempt 1 ([WORKER]): ValueError: column 'a' has a text that is not valid Unicode: 'utf-8' codec can't decode byte [ADDRESS] in position 0: invalid continuation byte
    ");
}

#[test]
fn nothing_outside_can_be_reached() {
    if !is_installed() {
        return;
    }
    let script = "import ctypes, os, pickle, socket, subprocess
import pandas as pd
def tried(what):
    try:
        return f'did: {what()}'
    except BaseException as error:
        return type(error).__name__
class Evil:
    def __reduce__(self):
        return os.system, ('touch /tmp/evil',)
def run(mini_batch):
    return [
        tried(lambda: socket.create_connection(('127.0.0.1', 80), 1)),
        tried(lambda: subprocess.run(['/bin/true'])),
        tried(lambda: os.system('true')),
        tried(lambda: ctypes.CDLL('libc.so.6')),
        tried(lambda: open('/etc/passwd')),
        tried(lambda: open('/usr/local/lib/python315.zip', 'ab')),
        tried(lambda: open('/source/score.py', 'a')),
        tried(lambda: open('/inputs/items/a.txt', 'a')),
        tried(lambda: pickle.loads(pickle.dumps(Evil()))),
        tried(lambda: pd.read_csv('https://localhost/x.csv')),
    ]
";
    let ran = files(script).file("in/a.txt", "").run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @"
    AttributeError
    OSError
    AttributeError
    OSError
    FileNotFoundError
    PermissionError
    PermissionError
    PermissionError
    AttributeError
    URLError
    ");
}
