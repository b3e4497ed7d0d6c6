"""`Model.get_model_path` for the models of the job."""

import os

_MODELS = "/models"


class Model:
    """A model of the job, by its name in the job file."""

    @staticmethod
    def get_model_path(model_name, version=None, _workspace=None):
        """The path of the model's file. If the model has several files, the path of its folder.

        Raises FileNotFoundError if the job has no such model.
        """
        folder = os.path.join(_MODELS, model_name)
        if not os.path.isdir(folder):
            known = sorted(os.listdir(_MODELS)) if os.path.isdir(_MODELS) else []
            models = f"it has: {', '.join(known)}" if known else "it has none"
            raise FileNotFoundError(
                f"the job has no model {model_name!r} ({models}); name it under `models:` of the job file"
            )
        files = os.listdir(folder)
        return os.path.join(folder, files[0]) if len(files) == 1 else folder
