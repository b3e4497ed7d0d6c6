"""The few parts of `azureml.core` that scoring scripts use."""

from .model import Model

__all__ = ["Model"]
