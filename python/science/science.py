"""The science runtime: CPython with numpy, pandas, scikit-learn and more, in one component with
`python/science/abi.py`.

The installation of the runtime imports this module once, and keeps a snapshot of the interpreter's memory.
Each worker starts from the snapshot. The host then runs the Python code `_init()`, `_run()` and `_stop()`.
"""

import builtins
import importlib.machinery
import os
import struct
import sys

import abi
import azureml.core
import azureml_user.parallel_run
import frames
import mlflow
import numpy
import pandas
import parquet
from sandmill import _arrow, _door, _entry, _results, models

_TYPES = ["fp16", "fp32", "fp64", "bf16", "u8", "i32", "i64"]


def _lines():
    with open(os.path.join(os.path.dirname(__file__), "imports.txt")) as lines:
        for line in lines:
            interface, name = line.split()
            yield f"{interface.partition('/')[2].partition('@')[0]} {name}"


_host = abi.Host(_lines())
_kept = abi.Kept()
_entry_script = _entry.Entry()


class _Door(_door.Door):
    def agent_name(self):
        return _host.text("host agent-name")

    def node_id(self):
        return _host.text("host node-id")

    def log_dir(self):
        return _host.text("host log-dir")

    def output_dir(self):
        return _host.text("host output-dir")

    def source_dir(self):
        is_there, *words = struct.unpack("<BxxxII", _host.returned(12, "host source-dir"))
        return abi.text(*words) if is_there else None

    def log(self, level, text):
        _host.given("host log", _door.level_of(level), _results.valid(text), 0)

    def read(self, path):
        failed, *data = struct.unpack("<BxxxII", _host.given("host read", os.fspath(path), 12))
        if failed:
            raise OSError(abi.text(*data))
        return abi.take(*data)

    def model_names(self):
        if not _host.has("models names"):
            return []
        return abi.texts(*struct.unpack("<II", _host.returned(8, "models names")))

    def load_model(self, name):
        if not _host.has("models describe"):
            raise models.ModelError("this build of Sandmill cannot compute with models")
        described = _host.given("models describe", name, 48)
        if described[0]:
            raise models.ModelError(abi.text(*struct.unpack_from("<II", described, 4)))
        for at in (4, 12, 20):
            abi.free(struct.unpack_from("<I", described, at)[0])
        ports = [_ports(*struct.unpack_from("<II", described, at)) for at in (32, 40)]
        graph = _handle(_host.given("graph load-by-name", name, 8))
        context = _handle(_host.returned(8, "graph [method]graph.init-execution-context", graph))
        return *ports, lambda inputs: _compute(context, inputs)


def _handle(result):
    failed, handle = struct.unpack("<BxxxI", result)
    if failed:
        raise models.ModelError(_reason(handle))
    return handle


def _reason(error):
    words = abi.text(*struct.unpack("<II", _host.returned(8, "errors [method]error.data", error)))
    _host.call("errors [resource-drop]error", error)
    return words


def _ports(address, count):
    return [_port(*port) for port in abi.pairs(address, count, "IIBxxxIIBxxxII")]


def _port(name, length, is_other, kind, kind_length, has_shape, sizes, rank):
    kind = abi.text(kind, kind_length) if is_other else _TYPES[kind & 0xFF]
    shape = tuple(_sizes(sizes, rank)) if has_shape else None
    return models.Port(abi.text(name, length), kind, shape)


def _sizes(address, count):
    for which, size, length in abi.pairs(address, count, "BxxxII"):
        if which == 1:
            abi.take(size, length)
        yield size if which == 0 else None


def _compute(context, inputs):
    kept = abi.Kept()
    try:
        given = [
            kept.named(name, _tensor(kept, kind, tensor)) for name, kind, tensor in inputs
        ]
        at = kept.put(b"".join(given))
        result = _host.returned(12, "inference [method]graph-execution-context.compute", context, at, len(given))
    finally:
        kept.free()
    failed, address, count = struct.unpack("<BxxxII", result)
    if failed:
        raise models.ModelError(_reason(address))
    return {abi.text(name, length): _array(handle) for name, length, handle in abi.pairs(address, count, "III")}


def _tensor(kept, kind, tensor):
    sizes = struct.pack(f"<{len(tensor.shape)}I", *tensor.shape)
    data = tensor.values.tobytes()
    return _host.call(
        "tensor [constructor]tensor", kept.put(sizes), len(tensor.shape), _TYPES.index(kind), kept.put(data), len(data)
    )


def _array(handle):
    shape = abi.take_list(_host.returned(8, "tensor [method]tensor.dimensions", handle), "I")
    kind = _TYPES[_host.call("tensor [method]tensor.ty", handle)]
    data = abi.take(*struct.unpack("<II", _host.returned(8, "tensor [method]tensor.data", handle)))
    _host.call("tensor [resource-drop]tensor", handle)
    return numpy.frombuffer(bytearray(data), models.code_of(kind)).reshape([size for (size,) in shape])


def _is_here(module, name):
    """Whether a module, or a name from it, can be imported. Finds the module without running it."""
    places, spec = None, None
    for part in module.split("."):
        whole = part if spec is None else f"{spec.name}.{part}"
        spec = _found(whole, places)
        if spec is None:
            return False
        places = spec.submodule_search_locations
    if name is None:
        return True
    # A name is given only for packages of which the runtime has a part. Importing those is safe.
    return hasattr(importlib.import_module(module), name) or _found(f"{module}.{name}", places) is not None


def _found(module, places):
    if module in sys.modules:
        return sys.modules[module].__spec__
    if module in sys.builtin_module_names:
        return importlib.machinery.BuiltinImporter.find_spec(module)
    return importlib.machinery.FrozenImporter.find_spec(module) or importlib.machinery.PathFinder.find_spec(module, places)


def _init():
    with _Answer():
        # The snapshot has the environment of the installation, not that of this worker.
        os.environ.clear()
        os.environ.update(_environment())
        sys.argv = abi.texts(*struct.unpack("<II", _host.returned(8, "environment get-arguments")))
        numpy.random.seed(int.from_bytes(os.urandom(4)))
        _door.door = _Door()
        # The host's settings for this runtime, which the script does not see.
        settings = os.environ.pop("SANDMILL_PYTHON", "{}")
        _entry_script.init(sys.argv[0], settings, _is_here)
        abi.give(_kept.put(bytes(16)))


def _environment():
    variables = abi.pairs(*struct.unpack("<II", _host.returned(8, "environment get-environment")), "IIII")
    return {abi.text(*variable[:2]): abi.text(*variable[2:]) for variable in variables}


def _run():
    with _Answer():
        (number, kind, data, length, dataset, dataset_length, attempt, keys, keys_length) = abi.peek(
            abi.parameters(), "QIIIIIIII"
        )
        keys = [(abi.text(*pair[:2]), abi.text(*pair[2:])) for pair in abi.pairs(keys, keys_length, "IIII")]
        context = (number, abi.text(dataset, dataset_length), attempt, keys)
        if kind == 0:
            batch = abi.texts(data, length)
            read = lambda: batch
        elif kind == 1:
            table = abi.take(data, length)
            read = lambda: frames.read(table)
        else:
            read = lambda: None
        abi.give(_entry_script.run(read, context, _results_of))


def _stop():
    with _Answer():
        _entry_script.shutdown()
        abi.give(_kept.put(bytes(16)))


def _results_of(result):
    """Stores `result::ok(results)`. Returns its address."""
    result = frames.plain(result)
    columns = _results.table_of(result)
    if columns is not None or isinstance(result, pandas.DataFrame):
        table = frames.write(result) if columns is None else _arrow.write(columns)
        return _kept.put(struct.pack("<IIII", 0, 2, _kept.put(table), len(table)))
    rows = _results.rows_of(result)
    if not any(isinstance(row, _results.Failed) for row in rows):
        return _kept.put(struct.pack("<IIII", 0, 0, _kept.strings(rows), len(rows)))
    outcomes = []
    for row in rows:
        failed = isinstance(row, _results.Failed)
        data = (row.reason if failed else row).encode()
        outcomes.append(struct.pack("<III", failed, _kept.put(data), len(data)))
    return _kept.put(struct.pack("<IIII", 0, 1, _kept.put(b"".join(outcomes)), len(rows)))


class _Answer:
    """The frame of a function of the contract: it returns what `abi.give` received, or the exception as an
    error."""

    def __enter__(self):
        _kept.free()

    def __exit__(self, kind, error, _):
        if isinstance(error, _entry.Refused):
            abi.give(_kept.failure(str(error)))
        elif error is not None:
            abi.give(_kept.failure(f"{kind.__name__}: {error}"))
        return True


parquet.install()

# The host runs its code in another namespace, which sees only builtins.
builtins._init, builtins._run, builtins._stop = _init, _run, _stop
