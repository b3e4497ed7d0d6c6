"""Runs an entry script in ordinary CPython, as ParallelRunStep does. Tests compare the science runtime's rows with
the rows that this prints.

    python native.py SCRIPT files FILE...          one mini-batch of all files
    python native.py SCRIPT table FILE.csv ROWS    mini-batches of ROWS rows
    python native.py SCRIPT groups FILE.csv A,B    a mini-batch for each combination of values of the columns A and B
"""

import importlib.util
import os
import sys
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[2] / "python/runtime"
sys.path.insert(0, str(RUNTIME))

script, kind, *rest = sys.argv[1:]
sys.argv = [script]
sys.path.insert(0, os.path.dirname(script))
os.chdir(os.path.dirname(script))
spec = importlib.util.spec_from_file_location("score", script)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if hasattr(module, "init"):
    module.init()


def show(result):
    if hasattr(result, "to_csv"):
        print(result.to_csv(sep=" ", header=False, index=False), end="")
    else:
        for row in result:
            print(row)


if kind == "files":
    show(module.run(rest))
else:
    import pandas as pd

    file, size = rest
    table = pd.read_csv(file)
    if kind == "groups":
        parts = [part for _, part in table.groupby(size.split(","))]
    else:
        parts = [table.iloc[start : start + int(size)] for start in range(0, len(table), int(size))]
    for part in parts:
        show(module.run(part.reset_index(drop=True)))
