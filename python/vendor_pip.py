"""Runs pip so that it cannot execute code of packages: it installs only wheels, even if a package asks for a
source. `sandmill python vendor` runs this."""

import sys

from pip._internal.cli.main import main
from pip._internal.distributions.sdist import SourceDistribution
from pip._internal.exceptions import InstallationError
from pip._internal.operations import prepare


def refuse(self, *_, **__):
    raise InstallationError(f"No matching distribution found for {self.req.name}")


def refuse_link(link, *_, **__):
    raise InstallationError(f"No matching distribution found for {link}")


# A package may depend on a source by its address. pip builds such a source even if it must use only wheels.
for owner, name, guard in [(SourceDistribution, "prepare_distribution_metadata", refuse), (prepare, "unpack_vcs_link", refuse_link)]:
    getattr(owner, name)
    setattr(owner, name, guard)
sys.exit(main(sys.argv[1:]))
