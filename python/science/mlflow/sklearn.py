"""`load_model` for folders that `mlflow.sklearn.save_model` wrote."""

import importlib
import os

import yaml


class MlflowException(Exception):
    """A folder is not a model, or has a model that cannot be loaded here."""


def load_model(model_uri, dst_path=None):
    """Loads the scikit-learn model in a folder. `model_uri`: its path in the sandbox, such as that of a side
    input or of `Model.get_model_path`.

    Loading unpickles the model, which runs code of the model's author in the sandbox. Raises MlflowException
    with the reason in words.
    """
    folder = model_uri.removeprefix("file://")
    described = _described(folder)
    flavors = described.get("flavors") or {}
    flavor = flavors.get("sklearn")
    if flavor is None:
        known = ", ".join(sorted(flavors)) or "none"
        raise MlflowException(
            f"{folder} holds a model of the flavours {known}; here only sklearn can be loaded. Export the model to ONNX, "
            "name it under `models:`, and call it by sandmill.models"
        )
    path = os.path.join(folder, flavor.get("pickled_model", "model.pkl"))
    name = "cloudpickle" if flavor.get("serialization_format") == "cloudpickle" else "pickle"
    try:
        with open(path, "rb") as file:
            return importlib.import_module(name).load(file)
    except FileNotFoundError:
        raise MlflowException(f"{folder} has no {os.path.basename(path)}, which its MLmodel names") from None
    except Exception as error:
        version = flavor.get("sklearn_version", "unknown")
        here = importlib.import_module("sklearn").__version__
        raise MlflowException(
            f"{path} was saved with scikit-learn {version} and cannot be read by {here}, which is here: "
            f"{type(error).__name__}: {error}. Save it again with that version, or export it to ONNX"
        ) from error


def _described(folder):
    if not os.path.isdir(folder):
        raise MlflowException(f"there is no folder {folder}; name the path of a model's folder in the sandbox")
    try:
        with open(os.path.join(folder, "MLmodel")) as file:
            described = yaml.safe_load(file)
    except FileNotFoundError:
        raise MlflowException(f"{folder} is not an MLflow folder: it has no file MLmodel") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise MlflowException(f"{folder}/MLmodel cannot be read: {error}") from None
    if not isinstance(described, dict):
        raise MlflowException(f"{folder}/MLmodel describes no model")
    return described
