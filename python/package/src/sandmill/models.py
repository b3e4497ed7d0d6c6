"""Models, as an entry script has them: `import sandmill.models`."""

import sys

from ._shared import models

sys.modules[__name__] = models
