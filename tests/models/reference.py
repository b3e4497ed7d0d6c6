#!/usr/bin/env python3
"""Runs the models in this folder with Python's onnxruntime. Tests compare Sandmill's results with what this program
prints.

    reference.py FOLDER     writes FOLDER/inputs/MODEL-N.tensors, the inputs for a batch of N items, and prints
                            the rows that tests/guests/examples/computes.rs should return for these inputs
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

MODELS = Path(__file__).resolve().parent
BATCH_SIZES = (1, 7)
# The size of dimensions that may vary, other than the batch.
VARIABLE_SIZE = 5
# The names of types: the name in computes.rs for each type code of numpy.
TYPE_NAMES = {"f2": "f16", "f4": "f32", "f8": "f64", "u1": "u8", "i4": "i32", "i8": "i64"}
# The names of types: numpy's type code for each name in ONNX.
NUMPY_TYPES = {
    "float16": "f2", "float": "f4", "double": "f8", "uint8": "u1", "int32": "i4", "int64": "i8",
}  # fmt: skip


def main():
    inputs = Path(sys.argv[1]) / "inputs"
    inputs.mkdir(parents=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for path in sorted(MODELS.glob("*.onnx")):
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for count in BATCH_SIZES:
            name = f"{path.stem}-{count}"
            # The numbers differ for each model and batch size, but are the same in each run of this program.
            random = np.random.default_rng([count, *path.stem.encode()])
            arrays = {port.name: values(port, count, random) for port in session.get_inputs()}
            lines = [f"{key} {as_text(value)}\n" for key, value in arrays.items()]
            (inputs / f"{name}.tensors").write_text("".join(lines))
            for output, value in zip(session.get_outputs(), session.run(None, arrays)):
                print(f"{name} {output.name} {as_text(value)}")


def values(port, count, random):
    """Small random numbers for an input. For f16, all sums of these numbers are exact."""
    shape = [count, *(size if isinstance(size, int) else VARIABLE_SIZE for size in port.shape[1:])]
    kind = NUMPY_TYPES[port.type.removeprefix("tensor(").removesuffix(")")]
    if kind == "f2":
        return (random.integers(0, 16, shape) / 4).astype(kind)
    if kind[0] == "f":
        return random.uniform(0, 4, shape).astype(kind)
    return random.integers(0, 16, shape).astype(kind)


def as_text(value):
    kind = TYPE_NAMES[value.dtype.str.lstrip("<|")]
    dimensions = "x".join(str(size) for size in value.shape or (1,))
    return f"{kind} {dimensions} {np.ascontiguousarray(value).tobytes().hex()}"


if __name__ == "__main__":
    main()
