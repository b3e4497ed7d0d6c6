"""Tests jobs that are built as in ParallelRunStep's documentation, with the built program
(`SANDMILL_BIN`)."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "package/src"))

from sandmill import JobFailed  # noqa: E402
from sandmill.parallel_run import (  # noqa: E402
    Dataset,
    OutputFileDatasetConfig,
    ParallelRunConfig,
    ParallelRunStep,
    PipelineParameter,
)

SCRIPT = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--labels")
parser.add_argument("--word", default="")
args, _ = parser.parse_known_args()

def run(paths):
    label = open(os.path.join(args.labels, "label.txt")).read()
    return [f"{label} {args.word} {os.path.basename(path)} of {len(paths)}" for path in paths]
"""


def config(**changes):
    settings = {
        "environment": None,
        "entry_script": "score.py",
        "source_directory": "source",
        "error_threshold": 0,
        "output_action": "append_row",
        "compute_target": "cpu-cluster",
        "node_count": 2,
        "mini_batch_size": "1",
    }
    return ParallelRunConfig(**{**settings, **changes})


class Steps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        files = {"source/score.py": SCRIPT, "in/a.txt": "1", "in/b.txt": "2", "labels/label.txt": "it is", "t/t.csv": "id,x\n1,2\n3,4\n"}
        for name, text in files.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text)

    def test_a_step_of_the_documentation_runs(self):
        size = PipelineParameter(name="batch_size_param", default_value="1")
        labels = Dataset.File.from_files("labels").as_named_input("labels").as_mount("/tmp/6f7a/labels")
        output = OutputFileDatasetConfig(name="scores", destination="results")
        step = ParallelRunStep(
            name="score-texts",
            parallel_run_config=config(mini_batch_size=size, append_row_file_name="rows.txt"),
            inputs=[Dataset.File.from_files("in").as_named_input("texts")],
            side_inputs=[labels],
            output=output,
            arguments=["--labels", labels, "--word", PipelineParameter("word", "now")],
            allow_reuse=False,
        )
        job = step.run(quiet=True)
        self.assertEqual(sorted(job.rows()), ["it is now a.txt of 1", "it is now b.txt of 1"])
        self.assertEqual(job.output.resolve(), Path("results/rows.txt").resolve())
        again = step.run({"batch_size_param": "2", "word": "then"}, quiet=True, overwrite=True)
        self.assertEqual(sorted(again.rows()), ["it is then a.txt of 2", "it is then b.txt of 2"])
        with self.assertRaisesRegex(ValueError, "size is not a parameter of the step score-texts; it has: batch_size_param, word"):
            step.run({"size": 1})

    def test_run_receives_tables(self):
        Path("table.py").write_text("def run(table):\n    return [a + b for a, b in table.tuples()]\n")
        table = Dataset.Tabular.from_delimited_files("t/t.csv").as_named_input("t")
        alone = config(entry_script="table.py", source_directory=None, mini_batch_size="1KB")
        step = ParallelRunStep("add-up", alone, [table], settings={"output_format": "csv"})
        self.assertEqual(step.run(quiet=True).rows(), ["3", "7"])

    def test_a_saved_configuration_is_what_sandmill_reads(self):
        config().save_to_yaml("saved.yaml")
        saved = json.loads(Path("saved.yaml").read_text())["parallel_run_config"]
        self.assertEqual((saved["node_count"], saved["run_max_try"], saved["logging_level"]), (2, 3, "INFO"))

    def test_a_refused_job_raises(self):
        step = ParallelRunStep("score-texts", config(entry_script="none.py"), ["in"])
        with self.assertRaisesRegex(JobFailed, "none.py"):
            step.run(quiet=True)

    def test_documented_rules_hold(self):
        wrong = {
            "entry_script": (" ", "the path of a script"),
            "error_threshold": (-2, "at least -1"),
            "output_action": ("rows", "append_row or summary_only"),
            "node_count": (0, "at least 1"),
            "process_count_per_node": ("2", "at least 1"),
            "mini_batch_size": ("10kbmb", "a size such as 64KB or 1MB"),
            "logging_level": ("LOUD", "WARNING, INFO or DEBUG"),
            "run_invocation_timeout": (0, "above 0"),
            "run_max_try": (PipelineParameter("tries", 0), "at least 1"),
            "allowed_failed_count": (1.5, "at least -1"),
            "allowed_failed_percent": (101, "from 0 to 100"),
        }
        for name, (value, expected) in wrong.items():
            with self.assertRaisesRegex(ValueError, f"^{name}: expected .*{expected}"):
                config(**{name: value})
        with self.assertRaisesRegex(ValueError, "choose one"):
            config(partition_keys=["store"])
        with self.assertRaisesRegex(ValueError, "^partition_keys: expected a list of texts"):
            config(partition_keys=[1], mini_batch_size=None)
        files, table = Dataset.File.from_files("in"), Dataset.Tabular.from_parquet_files("t")
        steps = [
            ("A", [files], {}, "name: expected 3 to 32"),
            ("step", [], {}, "at least one"),
            ("step", "in", {}, "put the input into brackets"),
            ("step", [files, table], {}, "only files, or only tables"),
            ("step", [files], {"side_inputs": [table.as_named_input("t")]}, "t is a table"),
            ("step", [files.as_named_input("x"), files.as_named_input("x")], {}, "two are called x"),
        ]
        for name, inputs, more, expected in steps:
            with self.assertRaisesRegex(ValueError, expected):
                ParallelRunStep(name, config(), inputs, **more)
        step = ParallelRunStep("step", config(), [files], arguments=["--x", Dataset.File.from_files("labels")])
        with self.assertRaisesRegex(ValueError, "neither an input nor a side input"):
            step.job()


if __name__ == "__main__":
    unittest.main()
