"""The part of MLflow that scripts of batch endpoints use: models of scikit-learn, loaded from their folders.

Nothing of MLflow itself is here: no tracking, no registry, no other flavours.
"""

from . import pyfunc, sklearn

__all__ = ["pyfunc", "sklearn"]
