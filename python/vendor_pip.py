"""pip without what runs code of packages: it installs wheels alone, whatever a package asks for. Run by `sandmill python vendor`."""

import sys

from pip._internal.cli.main import main
from pip._internal.distributions.sdist import SourceDistribution
from pip._internal.exceptions import InstallationError
from pip._internal.operations import prepare


def refuse(self, *_, **__):
    raise InstallationError(f"No matching distribution found for {self.req.name}")


def refuse_link(link, *_, **__):
    raise InstallationError(f"No matching distribution found for {link}")


# Packages may name sources, which pip builds even where it is told to take wheels alone.
for owner, name, guard in [(SourceDistribution, "prepare_distribution_metadata", refuse), (prepare, "unpack_vcs_link", refuse_link)]:
    getattr(owner, name)
    setattr(owner, name, guard)
sys.exit(main(sys.argv[1:]))
