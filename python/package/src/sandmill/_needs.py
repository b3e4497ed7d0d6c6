"""Imports pyarrow, which only tables need."""

from __future__ import annotations

from typing import Any


def pyarrow() -> Any:
    """The module pyarrow. If it is not installed, raises an ImportError that says what to do."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("tables need pyarrow, which this Python does not have: pip install pyarrow") from None
    return pyarrow
