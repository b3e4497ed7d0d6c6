//! Rules of ParallelRunStep and of Sandmill in the science runtime.

use crate::{cache, files, is_installed, make, table, text};
use insta::assert_snapshot;
use sandmill_tests::{TestJob, root};
use std::path::Path;

const TWO_ROWS: &str = "a,b\n1,x\n2,y\n";

/// Rules E6, E7 (docs/parallel-run-step.md): `run` receives a table as a DataFrame, and may return a list, an
/// array, a Series or a DataFrame. `init` and `shutdown` are optional.
#[test]
fn all_results_of_parallel_run_step_are_accepted() {
    if !is_installed() {
        return;
    }
    let script = "import numpy as np, pandas as pd, sandmill
from azureml_user.parallel_run import EntryScript
def init():
    EntryScript().logger.info('init of %s', EntryScript().agent_name)
def run(mini_batch, context):
    kind = context.partition_key_value['kind']
    values = {
        'list': ['a', 1, 2.5, None],
        'array': np.array([1.5, 2.0]),
        'series': pd.Series(['s', 't']),
        'frame': mini_batch.assign(c=[0.5]),
        'none': pd.DataFrame(),
        'table': sandmill.Table({'x': [1, None]}),
        'failed': [sandmill.Failed('bad row')],
    }
    return values[kind]
def shutdown():
    print('shutdown')
";
    let kinds = ["list", "array", "series", "frame", "none", "table", "failed"];
    let csv: String = kinds.map(|kind| format!("{kind},7\n")).concat();
    let job = TestJob::new(Path::new("score.py"))
        .file("score.py", script)
        .file("t.csv", format!("kind,n\n{csv}"))
        .yaml("inputs: {t: {path: t.csv, format: csv}}\npartition_keys: [kind]\nprocess_count_per_node: 1\nerror_threshold: -1")
        .env("SANDMILL_CACHE_DIR", &text(&cache()));
    let ran = job.run(&[]);
    ran.exits_with(0);
    let mut rows = ran.sorted_output();
    rows.dedup();
    assert_snapshot!(rows.join("\n"), @r#"
    ""
    1
    1.5
    2.0
    2.5
    None
    a
    frame 7 0.5
    s
    t
    "#);
    assert!(ran.log("user/entry_script_log/0/process000.log.txt").contains("init of process000"));
    assert!(ran.log("user/stdout/0/process000.stdout.txt").ends_with("shutdown\n"));
}

/// The runtime is a snapshot, which includes the states of the random number generators of Python and numpy.
/// So each worker must seed both generators.
#[test]
fn workers_have_different_random_numbers() {
    if !is_installed() {
        return;
    }
    let script = "import random, time
import numpy as np
def run(mini_batch):
    time.sleep(0.3)
    return [f'{random.random()} {np.random.rand()}' for _ in range(len(mini_batch))]
";
    let ran = table(script, TWO_ROWS).run(&["--set", "mini_batch_size=1 rows"]);
    ran.exits_with(0);
    let rows = ran.sorted_output();
    let numbers: Vec<(&str, &str)> = rows.iter().filter_map(|row| row.split_once(' ')).collect();
    assert!(numbers[0].0 != numbers[1].0 && numbers[0].1 != numbers[1].1, "{rows:?}");
}

/// A script sees the job's folders, not the folders that existed when the snapshot was made.
#[test]
fn folders_of_the_job_are_seen() {
    if !is_installed() {
        return;
    }
    let script = "import os, tempfile
import pandas as pd
def init():
    global kept
    kept = tempfile.mkdtemp()
    open(os.path.join(kept, 'a'), 'w').write('kept')
def run(mini_batch):
    names = os.listdir('/tmp')
    with open('/tmp/mine', 'w') as file:
        file.write('x')
    side = open('/tmp/side/s.txt').read() + open('/side_inputs/other/o.txt').read()
    return [f'{os.path.basename(path)} {side} {len(names)} {os.listdir(kept)}' for path in mini_batch]
";
    let job = files(script)
        .file("in/a.txt", "")
        .file("in/b.txt", "")
        .file("in/c.txt", "")
        .file("s/s.txt", "s")
        .file("o/o.txt", "o")
        .yaml("side_inputs:\n  side: {path: s, mount_path: /tmp/side}\n  other: o");
    let ran = job.run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt so 1 ['a']\nb.txt so 1 ['a']\nc.txt so 1 ['a']\n");
    assert!(!ran.has("job/work/process000/tmp/mine"));
}

/// `auto` chooses a runtime that has the script's imports.
#[test]
fn the_runtime_follows_from_the_imports() {
    if !is_installed() {
        return;
    }
    let chosen = |script: &str| {
        let job = files(script).file("in/a.txt", "");
        job.command(&["check", "source/score.py"]).redacted_stdout()
    };
    let reports = [
        "import json\ndef run(mini_batch):\n    return mini_batch\n",
        "import numpy\ndef run(mini_batch):\n    return mini_batch\n",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\ndef run(mini_batch):\n    return mini_batch\n",
        "import pandas\ndef run(frame):\n    frame['a'][0] = 1\n    return frame\n",
        "import pandas, torch\nfrom sklearn.nowhere import x\ndef run(mini_batch):\n    return mini_batch\n",
    ]
    .map(chosen)
    .join("\n");
    assert_snapshot!(reports, @r#"
    source/score.py, for the light runtime
    It can be run: all modules that it imports are available.
    source/score.py, for the science runtime
    It can be run: all modules that it imports are available.
    source/score.py, for the science runtime
    It can be run: all modules that it imports are available.
    source/score.py, for the science runtime
    note: score.py, line 3: if this assigns to a part of a DataFrame, such as frame["a"][0] = 1, it no longer changes the DataFrame in pandas 3; write frame.loc[0, "a"] = 1
    It can be run: all modules that it imports are available.
    source/score.py
    score.py, line 1: imports torch, which the science runtime does not have: export the model to ONNX, name it under `models:`, and call it with sandmill.models (docs/entry-scripts.md)
    score.py, line 2: imports sklearn.nowhere, which the science runtime does not have: the runtime's version of the package does not have this module
    It cannot be run.
    "#);
}

/// The processes that run scripts have other current folders than the command, and refuse links.
#[test]
fn the_path_of_the_cache_may_be_relative_and_have_links() {
    if !is_installed() {
        return;
    }
    let script = "import numpy\ndef run(mini_batch):\n    return [len(mini_batch)]\n";
    let job = files(script).file("in/a.txt", "").env("SANDMILL_CACHE_DIR", "cache");
    std::os::unix::fs::symlink(cache(), job.dir().join("cache")).expect("links");
    assert_eq!(job.run(&[]).exits_with(0).output(), "1\n");
}

/// A script passes arrays to models, and gets arrays. The host runs the models, outside the script's sandbox.
#[test]
fn models_take_and_return_arrays() {
    if !is_installed() {
        return;
    }
    let script = "import numpy as np
from sandmill import models
def init():
    global iris
    iris = models.load('iris')
    print(models.names(), iris.inputs, iris.outputs)
    for wrong in ['other', {'nope': [[1.0]]}, {'X': np.ones((1, 2))}]:
        try:
            iris.run(wrong) if isinstance(wrong, dict) else models.load(wrong)
        except Exception as error:
            print(f'{type(error).__name__}: {error}')
def run(mini_batch):
    outputs = iris.run(mini_batch[['a', 'b', 'c', 'd']])
    labels, scores = outputs['label'], outputs['probabilities']
    assert isinstance(scores, np.ndarray) and scores.dtype == np.float32 and scores.shape == (len(mini_batch), 3)
    return mini_batch[['id']].assign(label=labels, score=scores.max(axis=1).round(3))
";
    let model = root().join("tests/models/logistic_regression.onnx");
    let ran = table(script, "id,a,b,c,d\n1,5.1,3.5,1.4,0.2\n2,6.3,3.3,6.0,2.5\n")
        .yaml(&format!("models: {{iris: {}}}", model.display()))
        .run(&["--set", "process_count_per_node=1"]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @"
    1 0 0.982
    2 2 0.996
    ");
    assert_snapshot!(ran.log("user/stdout/0/process000.stdout.txt"), @r#"
    ['iris'] [Port('X', fp32, (None, 4))] [Port('label', i64, (None,)), Port('probabilities', fp32, (None, 3))]
    ModelError: there is no model "other"; the job's models are "iris"
    ModelError: model 'iris' has no input 'nope'; it has: X
    ModelError: input "X": expected f32 [?, 4], got f32 [1, 2]
    "#);
}

/// The profile has Python's functions, and can be read with `pstats`.
#[test]
fn a_profile_shows_python_functions() {
    if !is_installed() {
        return;
    }
    let script = "import pandas\ndef counted(x):\n    return x\ndef run(mini_batch):\n    return [counted(1) for _ in range(len(mini_batch))]\n";
    let ran = table(script, TWO_ROWS).yaml("profiling_module: cProfile").run(&[]);
    ran.exits_with(0);
    let job = ran.into_job();
    make(
        &job,
        "import pstats
stats = pstats.Stats('job/logs/user/entry_script_log/0/files/process000.profile')
assert any(name == 'counted' for _, _, name in stats.stats), stats.stats",
    );
}
