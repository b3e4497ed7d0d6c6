from array import array
from collections.abc import Mapping, Sequence
from typing import Any

class ModelError(Exception): ...

class Tensor:
    shape: tuple[int, ...]
    values: array[Any]
    def __init__(self, shape: Sequence[int], values: array[Any]) -> None: ...
    def __len__(self) -> int: ...
    def tolist(self) -> Any: ...

class Port:
    name: str
    type: str
    shape: tuple[int | None, ...] | None
    def __init__(self, name: str, type: str, shape: tuple[int | None, ...] | None) -> None: ...

class Model:
    name: str
    inputs: list[Port]
    outputs: list[Port]
    def run(self, inputs: Mapping[str, Any] | Sequence[Any] | Tensor) -> dict[str, Tensor]: ...

def names() -> list[str]: ...
def load(name: str) -> Model: ...
