"""The module `sandmill.models`, as an entry script imports it."""

import sys

from ._shared import models

sys.modules[__name__] = models
