"""Packages that are needed for tables alone."""

from __future__ import annotations

from typing import Any


def pyarrow() -> Any:
    """The module pyarrow. Raises ImportError with what to do where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("tables need pyarrow, which this Python does not have: pip install pyarrow") from None
    return pyarrow
