#!/usr/bin/env python3
"""Computes with the models of this folder in Python's onnxruntime. Tests compare their results with these.

    reference.py FOLDER     writes FOLDER/inputs/MODEL-N.tensors, the inputs of a batch of N, and prints what
                            tests/guests/examples/computes.rs should return for them
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).resolve().parent
BATCHES = (1, 7)
# The size of free dimensions other than the batch.
LENGTH = 5
NAMES = {"f2": "f16", "f4": "f32", "f8": "f64", "u1": "u8", "i4": "i32", "i8": "i64"}
KINDS = {
    "float16": "f2", "float": "f4", "double": "f8", "uint8": "u1", "int32": "i4", "int64": "i8",
}  # fmt: skip


def main():
    inputs = Path(sys.argv[1]) / "inputs"
    inputs.mkdir(parents=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for path in sorted(HERE.glob("*.onnx")):
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for count in BATCHES:
            name = f"{path.stem}-{count}"
            # Each computation gets different numbers, which are the same in each run.
            random = np.random.default_rng([count, *path.stem.encode()])
            given = {each.name: values(each, count, random) for each in session.get_inputs()}
            lines = [f"{key} {shown(value)}\n" for key, value in given.items()]
            (inputs / f"{name}.tensors").write_text("".join(lines))
            for output, value in zip(session.get_outputs(), session.run(None, given)):
                print(f"{name} {output.name} {shown(value)}")


def values(port, count, random):
    """Small numbers for an input. For f16, all their sums are exact."""
    shape = [count, *(each if isinstance(each, int) else LENGTH for each in port.shape[1:])]
    kind = KINDS[port.type.removeprefix("tensor(").removesuffix(")")]
    if kind == "f2":
        return (random.integers(0, 16, shape) / 4).astype(kind)
    if kind[0] == "f":
        return random.uniform(0, 4, shape).astype(kind)
    return random.integers(0, 16, shape).astype(kind)


def shown(value):
    kind = NAMES[value.dtype.str.lstrip("<|")]
    dimensions = "x".join(str(each) for each in value.shape or (1,))
    return f"{kind} {dimensions} {np.ascontiguousarray(value).tobytes().hex()}"


if __name__ == "__main__":
    main()
