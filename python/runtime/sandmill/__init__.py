"""What a Python entry script can import from Sandmill, in addition to `azureml_user.parallel_run`."""

from . import models
from ._door import read
from ._results import Failed
from ._table import Table

__all__ = ["Failed", "Table", "models", "read"]
