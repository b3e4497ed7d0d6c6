"""The part of MLflow that scripts of batch endpoints use: it loads scikit-learn models from their folders.

It does not contain MLflow itself: there is no tracking, no registry, and no other flavour.
"""

from . import pyfunc, sklearn

__all__ = ["pyfunc", "sklearn"]
