"""`load_model` for models of scikit-learn, with the one method that all models of MLflow have."""

from . import sklearn


class PyFuncModel:
    """A model: `predict`, and the model itself by `unwrap_python_model`."""

    def __init__(self, model):
        self._model = model

    def predict(self, data, params=None):
        """What the model predicts for a DataFrame or an array."""
        return self._model.predict(data)

    def get_raw_model(self):
        """The model of scikit-learn."""
        return self._model

    unwrap_python_model = get_raw_model


def load_model(model_uri, suppress_warnings=False, dst_path=None, model_config=None):
    """See `mlflow.sklearn.load_model`."""
    return PyFuncModel(sklearn.load_model(model_uri))
