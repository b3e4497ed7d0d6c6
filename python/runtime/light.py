"""The light runtime: CPython and its standard library. componentize-py compiles this module to a component.

componentize-py runs this module and keeps a snapshot of its memory. A script can import only the modules that
are in the snapshot, so this module imports all that a script may need.
"""

import contextlib
import importlib
import os
import pkgutil
import sys
import warnings
from array import array

import azureml.core
import azureml_user.parallel_run
from componentize_py_types import Err, Ok
from sandmill import _arrow, _door, _entry, _results, models
from sandmill._table import Table
from wit_world import exports
from wit_world.imports import graph, host, models as host_models
from wit_world.imports.host import LogLevel
from wit_world.imports.models import Dimension_Fixed
from wit_world.imports.tensor import Tensor as HostTensor, TensorType
from wit_world.imports.types import (
    MiniBatch_Files,
    MiniBatch_Table,
    Results_Outcomes,
    Results_Rows,
    Results_Table,
)

# Programs, tests, toys and graphical interfaces: they are large, and scripts do not need them.
_LEFT_OUT = {
    "antigravity", "ensurepip", "idlelib", "pydoc_data", "test", "this", "tkinter", "turtle", "turtledemo", "venv",
}  # fmt: skip


def _import_all():
    """Imports all modules of the standard library that work in this sandbox. Returns the names of all imported
    modules."""
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        if name.startswith("__"):
            continue
        module = _import_or_none(name)
        for submodule in pkgutil.walk_packages(getattr(module, "__path__", []), name + ".", onerror=lambda _: None):
            if "__main__" not in submodule.name and ".test" not in submodule.name:
                _import_or_none(submodule.name)
    return frozenset(sys.modules)


def _is_available(module, name):
    if module not in _AVAILABLE:
        return False
    return name is None or hasattr(sys.modules[module], name) or f"{module}.{name}" in _AVAILABLE


def _import_or_none(name):
    try:
        return importlib.import_module(name)
    except BaseException:  # a module may fail in any way in this sandbox
        return None


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _AVAILABLE = _import_all()


_TENSOR_TYPES = {kind.name.lower(): kind for kind in TensorType}


class _Door(_door.Door):
    agent_name = staticmethod(host.agent_name)
    node_id = staticmethod(host.node_id)
    log_dir = staticmethod(host.log_dir)
    output_dir = staticmethod(host.output_dir)
    source_dir = staticmethod(host.source_dir)

    def log(self, level, text):
        host.log(LogLevel(_door.level_of(level)), _results.valid(text))

    def read(self, path):
        try:
            return host.read(os.fspath(path))
        except Err as error:
            raise OSError(error.value) from None


    model_names = staticmethod(host_models.names)

    def load_model(self, name):
        try:
            described = host_models.describe(name)
            context = graph.load_by_name(name).init_execution_context()
        except Err as error:
            raise models.ModelError(_reason(error)) from None
        inputs, outputs = ([_port(port) for port in ports] for ports in (described.inputs, described.outputs))
        return inputs, outputs, lambda inputs: _compute(context, inputs)


def _compute(context, inputs):
    tensors = [
        (name, HostTensor(list(tensor.shape), _TENSOR_TYPES[kind], tensor.values.tobytes()))
        for name, kind, tensor in inputs
    ]
    try:
        outputs = context.compute(tensors)
    except Err as error:
        raise models.ModelError(_reason(error)) from None
    return {name: _tensor(tensor) for name, tensor in outputs}


def _tensor(tensor):
    values = array(models.code_of(tensor.ty().name.lower()))
    values.frombytes(tensor.data())
    return models.Tensor(tensor.dimensions(), values)


def _port(port):
    # If tensors do not have the type, `port.ty` holds the name that the type has in the model's file.
    kind = port.ty.value
    shape = port.shape
    if shape is not None:
        shape = tuple(size.value if isinstance(size, Dimension_Fixed) else None for size in shape)
    return models.Port(port.name, kind.name.lower() if isinstance(kind, TensorType) else kind, shape)


def _reason(error):
    """The host's message. An error of wasi:nn is an object with a method that returns the message."""
    return error.value if isinstance(error.value, str) else error.value.data()


class Entry(exports.Entry):
    script = _entry.Entry()

    def init(self):
        # The host's settings for this runtime, which the script does not see.
        settings = os.environ.pop("SANDMILL_PYTHON", "{}")
        _door.door = _Door()
        with _errors_for_host():
            self.script.init(sys.argv[0], settings, _is_available)

    def run(self, batch, context):
        arguments = (context.id, context.dataset, context.attempt, context.partition_key_value)
        with _errors_for_host():
            return self.script.run(lambda: _converted_batch(batch), arguments, _results_of)

    def shutdown(self):
        self.script.shutdown()


@contextlib.contextmanager
def _errors_for_host():
    """Passes the text of a `Refused` to the host."""
    try:
        yield
    except _entry.Refused as error:
        raise Err(str(error)) from None


def _converted_batch(batch):
    if isinstance(batch, MiniBatch_Files):
        return batch.value
    if isinstance(batch, MiniBatch_Table):
        return Table(_arrow.read(batch.value))
    return None


def _results_of(result):
    columns = _results.table_of(result)
    if columns is not None:
        return Results_Table(_arrow.write(columns))
    rows = _results.rows_of(result)
    if any(isinstance(row, _results.Failed) for row in rows):
        return Results_Outcomes([
            Err(row.reason) if isinstance(row, _results.Failed) else Ok(row) for row in rows
        ])
    return Results_Rows(rows)
