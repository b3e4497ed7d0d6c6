"""The part of MLflow that scripts of Azure's batch endpoints use: `load_model` for scikit-learn models.

There is no tracking, no registry, and no other flavour of models.
"""

from . import pyfunc, sklearn

__all__ = ["pyfunc", "sklearn"]
