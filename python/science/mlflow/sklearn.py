"""`load_model` for folders that `mlflow.sklearn.save_model` wrote."""

import importlib
import os

import yaml


class MlflowException(Exception):
    """A folder does not contain a model, or the runtime cannot load the model."""


def load_model(model_uri, dst_path=None):
    """Loads the scikit-learn model in a folder. `model_uri`: the folder's path in the sandbox, such as
    the path of a side input or the result of `Model.get_model_path`.

    Loading unpickles the model, which runs code of the model's author in the sandbox. Raises MlflowException.
    """
    folder = model_uri.removeprefix("file://")
    mlmodel = _read_mlmodel(folder)
    flavors = mlmodel.get("flavors") or {}
    flavor = flavors.get("sklearn")
    if flavor is None:
        known = ", ".join(sorted(flavors)) or "none"
        raise MlflowException(
            f"{folder} contains a model of the flavours {known}, and this runtime loads only the flavour sklearn. Export the model to ONNX, "
            "name it under `models:`, and run it with sandmill.models"
        )
    path = os.path.join(folder, flavor.get("pickled_model", "model.pkl"))
    module = "cloudpickle" if flavor.get("serialization_format") == "cloudpickle" else "pickle"
    try:
        with open(path, "rb") as file:
            return importlib.import_module(module).load(file)
    except FileNotFoundError:
        raise MlflowException(f"{folder} has no {os.path.basename(path)}, which its MLmodel names") from None
    except Exception as error:
        version = flavor.get("sklearn_version", "unknown")
        own_version = importlib.import_module("sklearn").__version__
        raise MlflowException(
            f"{path} was saved with scikit-learn {version} and this runtime has {own_version}, which cannot read it: "
            f"{type(error).__name__}: {error}. Save the model again with scikit-learn {own_version}, or export it to ONNX"
        ) from error


def _read_mlmodel(folder):
    if not os.path.isdir(folder):
        raise MlflowException(f"there is no folder {folder}; name the path of a model's folder in the sandbox")
    try:
        with open(os.path.join(folder, "MLmodel")) as file:
            mlmodel = yaml.safe_load(file)
    except FileNotFoundError:
        raise MlflowException(f"{folder} is not an MLflow folder: it has no file MLmodel") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise MlflowException(f"{folder}/MLmodel cannot be read: {error}") from None
    if not isinstance(mlmodel, dict):
        raise MlflowException(f"{folder}/MLmodel does not describe a model")
    return mlmodel
