"""The job's models. The host runs them on the CPU or a GPU, outside of the sandbox.

    from sandmill import models

    def init():
        global churn
        churn = models.load("churn")                  # a name under `models:` of the job file

    def run(mini_batch):
        features = [[float(row["age"]), float(row["income"])] for row in mini_batch]
        label = churn.run({"X": features})["label"]   # a Tensor
        return [str(value) for value in label.tolist()]
"""

from array import array
from math import prod

from . import _door

# The `array` code of each tensor type whose numbers Python has.
_ARRAY_CODES = {"fp32": "f", "fp64": "d", "u8": "B", "i32": "i", "i64": "q"}


class ModelError(Exception):
    """A model cannot be loaded or run. The text is the host's message."""


class Tensor:
    """A multi-dimensional array of numbers. `shape` is a tuple, and `values` is an `array` of the numbers in row-major
    order."""

    __slots__ = ("shape", "values")

    def __init__(self, shape, values):
        self.shape = tuple(shape)
        self.values = values
        if prod(self.shape) != len(values):
            raise ValueError(f"a tensor of shape {self.shape} has {prod(self.shape)} values, not {len(values)}")

    def __len__(self):
        return self.shape[0] if self.shape else 0

    def tolist(self):
        """The values as nested lists, one level for each dimension."""
        values = self.values.tolist()
        for size in reversed(self.shape[1:]):
            values = [values[start : start + size] for start in range(0, len(values), size)] if size else []
        return values if self.shape else values[0]

    def __repr__(self):
        return f"Tensor(shape={self.shape}, {self.values.typecode!r})"


class Port:
    """An input or an output of a model: `name`, `type` (such as "fp32"), and `shape`. In the shape, None stands
    for a size that may vary. `shape` itself is `None` if the model does not state it."""

    __slots__ = ("name", "type", "shape")

    def __init__(self, name, type, shape):
        self.name, self.type, self.shape = name, type, shape

    def __repr__(self):
        return f"Port({self.name!r}, {self.type}, {self.shape})"


class Model:
    """A loaded model. `inputs` and `outputs` are lists of `Port`s."""

    def __init__(self, name, inputs, outputs, compute):
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self._compute = compute

    def run(self, inputs):
        """Runs the model. `inputs`: a dict of names to tensors, numpy arrays, or nested lists of numbers. If
        the model has one input, you can pass its value without the dict. Returns a dict of names to tensors (in
        the science runtime, to numpy arrays).

        Raises ModelError with the host's message, and ValueError or TypeError for a value that cannot become
        a tensor.
        """
        if not isinstance(inputs, dict):
            if len(self.inputs) != 1:
                names = ", ".join(port.name for port in self.inputs)
                raise TypeError(f"model {self.name!r} has {len(self.inputs)} inputs: give a dict with {names}")
            inputs = {self.inputs[0].name: inputs}
        ports = {port.name: port for port in self.inputs}
        tensors = []
        for name, value in inputs.items():
            if name not in ports:
                raise ModelError(f"model {self.name!r} has no input {name!r}; it has: {', '.join(ports)}")
            tensors.append((name, ports[name].type, _tensor(name, value, ports[name])))
        return self._compute(tensors)

    def __repr__(self):
        return f"Model({self.name!r}, inputs={self.inputs}, outputs={self.outputs})"


def names():
    """The names of the job's models."""
    return _door.door.model_names()


def load(name):
    """Loads a model by its name in the job file. Call it in `init`, so that each worker loads the model once.

    Raises ModelError if the job has no model of this name, or if the model cannot be loaded.
    """
    return Model(name, *_door.door.load_model(name))


def code_of(type):
    """The `array` code of a tensor type. Raises ModelError if Python has no numbers for it."""
    try:
        return _ARRAY_CODES[type]
    except KeyError:
        raise ModelError(f"Python has no numbers for tensors of {type}; export the model with float32") from None


def _tensor(name, value, port):
    if isinstance(value, Tensor):
        return value
    code = code_of(port.type)
    if hasattr(value, "__array__"):
        # A numpy array, or an object that converts to one, such as a DataFrame or a Series.
        value = value.__array__()
        return Tensor(value.shape, value.astype(code, order="C", copy=False).reshape(-1))
    if isinstance(value, array):
        return Tensor((len(value),), value if value.typecode == code else array(code, value))
    shape, values = _flattened(name, value)
    if not values and port.shape:
        # An empty list does not show the other dimensions: take them from the model.
        shape += tuple(size or 0 for size in port.shape[len(shape) :])
    try:
        return Tensor(shape, array(code, values))
    except (TypeError, OverflowError) as error:
        raise TypeError(f"input {name!r} takes {port.type}: {error}") from None


def _flattened(name, value):
    """The shape of nested lists, and the numbers in them."""
    shape, values = (), [value]
    while values and isinstance(values[0], (list, tuple)):
        size = len(values[0])
        if any(not isinstance(row, (list, tuple)) or len(row) != size for row in values):
            raise ValueError(f"input {name!r}: its lists differ in length, or numbers are mixed with lists")
        shape += (size,)
        values = [item for row in values for item in row]
    return shape, values
