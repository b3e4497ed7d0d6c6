"""Tests the package `sandmill` with the built program (`SANDMILL_BIN`), outside of a sandbox. Run by `make
test`."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "package/src"))

import pyarrow as pa  # noqa: E402

import sandmill  # noqa: E402

NAMES = "import os\ndef run(paths):\n    return [os.path.basename(path) for path in paths]\n"
TWICE = "def run(table):\n    return table.with_columns(twice=[2 * id for id in table['id']])\n"
JOB = "entry_script: score.py\ninputs: {texts: in/*.txt}\nprocess_count_per_node: 1\n"


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def write(self, **files):
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


class Jobs(InFolder):
    def setUp(self):
        super().setUp()
        self.write(score_py=NAMES, job_yaml=JOB, in__a_txt="1", in__b_txt="2")

    def test_a_job_runs_and_has_results(self):
        job = sandmill.run("job.yaml", quiet=True)
        self.assertEqual((job.state, job.name, job.was_reused), ("completed", "job", False))
        self.assertEqual(sorted(job.rows()), ["a.txt", "b.txt"])
        self.assertEqual(job.job_dir.resolve(), (self.folder / "jobs/job").resolve())
        self.assertEqual(job.result["items"]["total"], 2)
        self.assertEqual(sorted(job.to_pandas()["value"]), ["a.txt", "b.txt"])
        self.assertEqual(list(job.events())[-1]["kind"]["event"], "job_finished")
        self.assertTrue(sandmill.run("job.yaml", quiet=True).was_reused)

    def test_outputs_of_each_format_become_tables(self):
        self.write(score_py="import sandmill\ndef run(paths):\n    return sandmill.Table({'n': [len(p) for p in paths]})\n")
        for kind in ["parquet", "arrow", "csv", "jsonl"]:
            output = {"type": kind, "header": True} if kind == "csv" else {"type": kind}
            job = sandmill.run("job.yaml", job_dir=kind, settings={"output_format": output}, quiet=True)
            self.assertEqual(job.to_arrow()["n"].to_pylist(), [len("/inputs/texts/a.txt")] * 2, kind)
        with self.assertRaisesRegex(sandmill.SandmillError, "use to_arrow"):
            sandmill.run("job.yaml", job_dir="parquet", settings={"output_format": {"type": "parquet"}}, quiet=True).rows()

    def test_events_come_while_it_runs(self):
        with sandmill.start("job.yaml", quiet=True) as job:
            names = [event["kind"]["event"] for event in job.events()]
        self.assertEqual((names[0], names[-1]), ("job_started", "job_finished"))
        self.assertEqual(job.wait().state, "completed")

    def test_errors_have_sandmills_message(self):
        with self.assertRaises(sandmill.JobFailed) as caught:
            sandmill.run("job.yaml", settings={"mini_batch_sze": 3}, quiet=True)
        self.assertIn("did you mean mini_batch_size?", str(caught.exception))
        self.assertEqual((caught.exception.exit_code, caught.exception.job.state), (2, "refused"))
        self.write(score_py="def run(paths):\n    raise ValueError('no luck')\n")
        with self.assertRaisesRegex(sandmill.JobFailed, "no luck") as caught:
            sandmill.run("job.yaml", quiet=True)
        self.assertEqual((caught.exception.exit_code, caught.exception.job.state), (42, "failed"))
        self.assertTrue(caught.exception.job.job_dir.is_dir())

    def test_ctrl_c_cancels_the_job(self):
        self.write(score_py="import time\ndef run(paths):\n    time.sleep(2)\n    return ['x' for _ in paths]\n")
        script = "import sandmill\nsandmill.run('job.yaml', settings={'mini_batch_size': 1})\n"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "package/src")}
        running = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.kill)
        printed = ""
        while "job job: 1 worker" not in printed:
            line = running.stderr.readline()
            self.assertTrue(line, printed)
            printed += line
        running.send_signal(signal.SIGINT)
        rest = running.communicate(timeout=60)[1]
        self.assertIn("SIGTERM: running mini-batches are finished", rest)
        self.assertIn("KeyboardInterrupt", rest)
        self.assertEqual(sandmill.run("job.yaml", settings={"mini_batch_size": 1}, quiet=True).rows(), ["x", "x"])

    def test_a_missing_program_is_reported(self):
        environment = {"SANDMILL_BIN": "/nowhere/sandmill"}
        with unittest.mock.patch.dict(os.environ, environment):
            with self.assertRaisesRegex(sandmill.SandmillNotFound, "SANDMILL_BIN names /nowhere/sandmill"):
                sandmill.run("job.yaml")


class Udfs(InFolder):
    def setUp(self):
        super().setUp()
        self.write(twice_py=TWICE, bad_py="def run(table):\n    raise ValueError('no luck')\n")
        self.table = pa.table({"id": [1, 2, 3]})

    def test_tables_come_back_as_they_were_given(self):
        with sandmill.udf("twice.py", runtime="light") as twice:
            self.assertEqual(twice(self.table).to_pydict(), {"id": [1, 2, 3], "twice": [2, 4, 6]})
            self.assertEqual(twice(self.table.to_pandas())["twice"].tolist(), [2, 4, 6])
            batches = list(twice.map_in_arrow(self.table.to_batches(max_chunksize=2)))
            self.assertEqual([batch["twice"].to_pylist() for batch in batches], [[2, 4], [6]])
            self.assertEqual(twice(self.table.slice(0, 0)).num_rows, 0)
            # Other columns need another stream.
            wide = self.table.append_column("name", pa.array(["a", "b", "c"]))
            self.assertEqual(twice(wide).column_names, ["id", "name", "twice"])

    def test_chunks_are_one_mini_batch(self):
        self.write(count_py="def run(table):\n    return [len(table)]\n")
        chunks = pa.concat_tables([self.table, self.table])
        with sandmill.udf("count.py", runtime="light") as count:
            self.assertEqual(count(chunks).to_pydict(), {"value": ["6"]})

    def test_one_process_serves_all_copies_until_it_is_closed(self):
        self.write(calls_py="calls = 0\ndef run(table):\n    global calls\n    calls += 1\n    return [calls]\n")
        calls = sandmill.udf("calls.py", runtime="light")
        counted = [function(self.table)["value"].to_pylist() for function in (calls, pickle.loads(pickle.dumps(calls)))]
        self.assertEqual(counted, [["1"], ["2"]])
        calls.close()
        self.assertEqual(calls(self.table)["value"].to_pylist(), ["1"])
        calls.close()

    def test_a_failed_script_may_be_called_again(self):
        bad = sandmill.udf("bad.py", runtime="light")
        for _ in range(2):
            with self.assertRaisesRegex(sandmill.ScriptFailed, r"ValueError: no luck \(bad.py, line 2, in run\)"):
                bad(self.table)
        self.write(bad_py="def run(table):\n    return ['x']\ndef shutdown():\n    1 / 0\n")
        with self.assertRaises(FileNotFoundError):
            sandmill.udf("nowhere.py", runtime="light")
        with self.assertRaisesRegex(TypeError, 'batch_format="pyarrow"'):
            bad({"id": [1]})

    def test_a_call_that_takes_too_long_is_stopped(self):
        self.write(slow_py="def run(table):\n    while True: pass\n")
        with self.assertRaisesRegex(sandmill.ScriptFailed, "did not return within 1 s"):
            sandmill.udf("slow.py", runtime="light", timeout=1)(self.table)

    def test_an_interrupted_udf_starts_again(self):
        self.write(slow_py="import time\ndef run(table):\n    time.sleep(table['id'][0])\n    return ['x']\n")
        slow = sandmill.udf("slow.py", runtime="light")
        slow(pa.table({"id": [0]}))
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            slow(pa.table({"id": [50]}))
        self.assertEqual(slow(pa.table({"id": [0]})).num_rows, 1)
        slow.close()

    def test_no_process_outlives_python(self):
        script = "import sandmill, pyarrow, sys; print(sandmill.udf('twice.py', runtime='light')(pyarrow.table({'id': [1]})).num_rows)"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "package/src")}
        ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((ran.stdout, ran.stderr, ran.returncode), ("1\n", "", 0))


SCRIPT = """
import argparse, os, sandmill
from azureml_user.parallel_run import EntryScript
from azureml.core import Model

def init():
    global args, entry
    parser = argparse.ArgumentParser()
    parser.add_argument("--word")
    args = parser.parse_args()
    entry = EntryScript()
    entry.logger.info("of %s", entry.agent_name)
    open(os.path.join(entry.output_dir, "made"), "w").close()

def run(paths, context):
    print("printed")
    return [sandmill.Failed("no luck") if path.endswith("b.txt") else f"{args.word} {sandmill.read(path).decode()}" for path in paths]
"""


class Tried(InFolder):
    """`python -m sandmill.test`."""

    def command(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "package/src")}
        command = [sys.executable, "-m", "sandmill.test", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def test_a_script_runs_in_ordinary_python(self):
        self.write(score_py=SCRIPT, in__a_txt="1", in__b_txt="2")
        ran = self.command("score.py", "in/a.txt", "in/b.txt", "--arg=--word", "--arg=it")
        self.assertEqual((ran.stdout, ran.returncode), ("it 1\n", 0), ran.stderr)
        self.assertEqual(ran.stderr, "INFO of process000\nprinted\nitem 1 failed: no luck\n")

    def test_it_writes_the_rows_that_a_job_writes(self):
        table = "import sandmill, datetime\ndef run(table):\n    return table.with_columns(at=[datetime.datetime(2026, 1, 2, 3, 4, 5)] * len(table), x=[1e-05, None])\n"
        self.write(table_py=table, t_csv='id,name\n1,"a ""b"\n2,c\n')
        self.write(job_yaml="entry_script: table.py\ninputs: {t: {path: t.csv, format: csv}}\npython: {runtime: light}\nprocess_count_per_node: 1\n")
        ran = self.command("table.py", "t.csv", "--table")
        self.assertEqual(ran.stdout.splitlines(), sandmill.run("job.yaml", quiet=True).rows(), ran.stderr)

    def test_run_may_receive_a_dataframe(self):
        self.write(frame_py="def run(frame):\n    return frame.assign(twice=frame['id'] * 2)\n", t_csv="id\n1\n2\n")
        ran = self.command("frame.py", "t.csv", "--table", "--as", "pandas")
        self.assertEqual(ran.stdout, "1 2\n2 4\n", ran.stderr)

    def test_errors_are_reported(self):
        self.write(bad_py="def run(paths):\n    return None\n", worse_py="import nowhere\n")
        self.write(few_py="def run():\n    return []\n")
        for name, code, expected in [
            ("bad.py", 42, "error: run returned None (is there a return statement?)"),
            ("worse.py", 42, "error: ModuleNotFoundError: No module named 'nowhere' (worse.py, line 1"),
            ("few.py", 42, "error: `run` of few.py takes no argument, but receives the mini-batch"),
            ("none.py", 2, "error: there is no entry script none.py"),
        ]:
            ran = self.command(name)
            self.assertEqual((ran.stdout, ran.returncode), ("", code), ran.stderr)
            self.assertIn(expected, ran.stderr)

    def test_a_row_with_a_line_break_is_noted(self):
        self.write(broken_py="import sandmill\ndef run(paths):\n    return [sandmill.Failed('no'), 'a', 'b\\n\\n']\n")
        ran = self.command("broken.py")
        self.assertEqual((ran.stdout, ran.returncode), ("a\nb\n\n\n", 0), ran.stderr)
        self.assertIn("row 1 (counted from 0) holds a line break", ran.stderr)


if __name__ == "__main__":
    unittest.main()
