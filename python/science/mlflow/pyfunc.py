"""`load_model` for scikit-learn models. Returns an object with `predict`, as every model of MLflow has."""

from . import sklearn


class PyFuncModel:
    """A model with `predict`. `unwrap_python_model` returns the scikit-learn model."""

    def __init__(self, model):
        self._model = model

    def predict(self, data, params=None):
        """Predicts for a DataFrame or an array."""
        return self._model.predict(data)

    def get_raw_model(self):
        """The scikit-learn model."""
        return self._model

    unwrap_python_model = get_raw_model


def load_model(model_uri, suppress_warnings=False, dst_path=None, model_config=None):
    """See `mlflow.sklearn.load_model`."""
    return PyFuncModel(sklearn.load_model(model_uri))
