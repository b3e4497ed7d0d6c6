"""The module `sandmill.models` that entry scripts import."""

import sys

from ._shared import models

sys.modules[__name__] = models
