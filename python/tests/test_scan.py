"""Tests the scan of a script's imports. Run by `make test`."""

import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from sandmill import _scan  # noqa: E402

HERE = {"os", "os.path", "json", "typing", "sandmill", "azureml.core", "azureml.core.model"}
NAMES = {("azureml.core", "Model"), ("azureml.core.model", "Model"), ("sandmill", "read")}


def is_here(module, name):
    return module in HERE and (name is None or (module, name) in NAMES or f"{module}.{name}" in HERE)


def scanned(script, **files):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "score.py"
        path.write_text(script)
        for name, text in files.items():
            file = Path(folder) / (name.replace("__", "/") + ".py").replace("init.py", "__init__.py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return _scan.scan(str(path), is_here)


def missing(script, **files):
    """For each missing import: (package, file, line, whether the script may work without it)."""
    found = scanned(script, **files)
    assert found["error"] is None, found
    return [(each["package"], each["file"], each["line"], each["guarded"]) for each in found["missing"]]


class Imports(unittest.TestCase):
    def test_each_way_to_import(self):
        script = "import os, numpy.linalg as la\nfrom os import path\nfrom torch import nn\nimport json, sandmill\nfrom azureml.core import Model\n"
        self.assertEqual(missing(script), [("numpy", "score.py", 1, False), ("torch", "score.py", 3, False)])

    def test_packages_that_the_runtime_has(self):
        packages = {"numpy", "pandas", "scipy"}
        script = "import os, numpy as np\nimport helper, torch, sandmill\ntry:\n    import scipy\nexcept ImportError: pass\n"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "score.py"
            path.write_text(script)
            path.with_name("helper.py").write_text("def f():\n    from pandas import DataFrame\n")
            found = _scan.scan(str(path), lambda module, name: is_here(module, name) or module in packages)
        self.assertEqual(found["packages"], ["numpy", "pandas", "sandmill", "scipy"])

    def test_packages_that_the_runtime_has_in_part(self):
        script = """
from azureml.core import Model, Run
from azureml.core import model
import azureml.core.model
from azureml.train.automl import runtime
import azureml.telemetry
from sandmill import read
"""
        names = [package for package, _, _, _ in missing(script)]
        self.assertEqual(names, ["azureml.core.Run", "azureml.train.automl", "azureml.telemetry"])

    def test_imports_that_a_script_can_do_without(self):
        script = """
try:
    import numpy
except ImportError:
    import array_like
try:
    import torch
except (ValueError, ModuleNotFoundError):
    pass
try:
    import scipy
except ValueError:
    pass
def run(files):
    import pandas
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import mypy
if files:
    import cv2
else:
    import pyarrow
with contextlib.suppress(ImportError):
    import ujson
with open("x"):
    import requests
try:
    import lxml
except* builtins.ImportError:
    pass
for _ in range(2):
    import tqdm
if __name__ == "__main__":
    import pytest
"""
        self.assertEqual(
            {package: guarded for package, _, _, guarded in missing(script)},
            {"numpy": True, "array_like": True, "torch": True, "scipy": False, "pandas": True, "cv2": True, "pyarrow": True, "ujson": True, "requests": False, "lxml": True, "tqdm": True},
        )

    def test_imports_of_modules_beside_the_script(self):
        found = missing(
            "import helper\nfrom parts import one\nfrom parts.two import thing\nimport loose.three\nimport parts.other\n",
            helper="import numpy\n",
            parts__init="from . import four\n",
            parts__one="from .two import x\nimport scipy\n",
            parts__two="from ..helper import y\n",
            parts__four="import torch\n",
            loose__three="import cv2\n",
        )
        self.assertEqual(
            {(package, file) for package, file, _, _ in found},
            {("numpy", "helper.py"), ("scipy", "parts/one.py"), ("torch", "parts/four.py"), ("cv2", "loose/three.py")},
        )

    def test_a_script_in_a_folder_of_the_source_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {
                "scripts/score.py": "import beside, torch\nfrom ns import mod\nimport ns\n",
                "scripts/beside.py": "import numpy\n",
                "ns/mod.py": "from . import other\n",
                "ns/other.py": "import scipy\n",
            }.items():
                (Path(folder) / name).parent.mkdir(exist_ok=True)
                (Path(folder) / name).write_text(text)
            with unittest.mock.patch("sandmill._folders._SOURCE", folder):
                found = _scan.scan(f"{folder}/scripts/score.py", is_here)
        self.assertEqual(
            [(each["package"], each["file"]) for each in found["missing"]],
            [("scipy", "ns/other.py"), ("numpy", "scripts/beside.py"), ("torch", "scripts/score.py")],
        )

    def test_a_module_counts_as_the_import_of_it(self):
        script = "try:\n    import fast\nexcept ImportError:\n    import slow\nimport needed\ndef f():\n    import both\nimport both\n"
        modules = {name: f"import {package}\n" for name, package in [("fast", "numba"), ("slow", "cffi"), ("needed", "torch"), ("both", "jax")]}
        self.assertEqual(
            {package: guarded for package, _, _, guarded in missing(script, **modules)},
            {"numba": True, "cffi": True, "torch": False, "jax": False},
        )

    def test_circles_of_modules_end(self):
        self.assertEqual(missing("import a\n", a="import b\n", b="import a\nimport score\n"), [])


class Vendored(unittest.TestCase):
    def test_packages_beside_the_script_have_dependencies(self):
        needs = '{"needs": ["numpy", "scikit-learn", "six"]}'
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "python_packages/rich").mkdir(parents=True)
            (root / "python_packages/one.py").write_text("")
            (root / "python_packages/sandmill.json").write_text(needs)
            (root / "score.py").write_text("import rich.table, one, two\ndef run(x): pass\n")
            found = _scan.scan(str(root / "score.py"), lambda module, name: module == "six")
        self.assertEqual(
            [(each["package"], each["file"]) for each in found["missing"]],
            [("numpy", "python_packages/sandmill.json"), ("sklearn", "python_packages/sandmill.json"), ("two", "score.py")],
        )


class Pandas3(unittest.TestCase):
    def test_lines_that_do_something_else_are_found(self):
        script = """import pandas as pd
def run(frame):
    frame["a"][0] = 1
    frame.loc[0]["a"] += 1
    frame["a"].fillna(0, inplace=True)
    texts = frame.select_dtypes(include=["object", "number"])
    if frame["a"].dtype == object or frame["a"].dtype == "O":
        pass
    frame.loc[0, "a"] = 1
    frame["b"] = frame["a"].fillna(0)
    frame.fillna(0, inplace=True)
    frame["a"].sort_values(inplace=False)
    return frame.select_dtypes("number")
"""
        found = [(each["line"], each["what"]) for each in scanned(script)["changed"]]
        expected = [(3, "chained"), (4, "chained"), (5, "inplace"), (6, "object"), (7, "object")]
        self.assertEqual(found, expected)
        # A dict of dicts is not a DataFrame.
        self.assertEqual(scanned("def run(x):\n    x['a']['b'] = 1\n")["changed"], [])


class Problems(unittest.TestCase):
    def test_scripts_that_cannot_be_parsed(self):
        for script, words in [
            ("def run(:\n", "score.py, line 1: SyntaxError"),
            ("x = '\\0'\nif x\n", "score.py, line 2: SyntaxError: expected ':'"),
            ("(" * 5000, "SyntaxError"),
            ("#" * (5 << 20), "more than 4 MB"),
            ("x = 1\0", "score.py: SyntaxError: source code string cannot contain null bytes"),
        ]:
            self.assertIn(words, scanned(script)["error"])

    def test_a_module_that_cannot_be_parsed(self):
        self.assertIn("helper.py, line 1: ", scanned("import helper\n", helper="a b\n")["error"])

    def test_run_must_be_a_function(self):
        for script in [
            "def run(x): pass", "run = lambda x: x", "from helper import run", "from helper import *",
            "run: object = print", "init, run = print, print", "def init():\n    global run\n    run = print",
            "def run(): pass\nrun = wrapped(run)", "def run(): pass\ndef run(x): pass", "globals()['run'] = print",
            "try:\n    def run(x): pass\nexcept* OSError: pass", "def run(*batches): pass", "def run(x, context, more=1, *, named=2): pass", "@decorated\ndef run(): pass",
            "import helper as run", "if True:\n    def run(x): pass", "try:\n    run = 1\nexcept: pass",
        ]:  # fmt: skip
            self.assertIsNone(scanned(script)["run"], script)
        for script, words in [
            ("x = 1", "is missing"), ("class run: pass", "is a class"), ("async def run(x): pass", "is async"),
            ("def main():\n    def run(x): pass", "is missing"), ("def run(): pass", "takes no argument"),
            ("def run(a, b, c): pass", "needs 3 arguments"), ("def run(x, *, named): pass", "needs an argument that is passed by name"),
        ]:  # fmt: skip
            self.assertIn(words, scanned(script)["run"], script)


if __name__ == "__main__":
    unittest.main()
