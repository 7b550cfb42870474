"""Which files are jitgraph's own, and which of those hold state of the user's, as modules and optimisers do.

Packages that stand higher are registered when jitgraph is imported, ``jitgraph_testing`` when that is. Files are
compared by their real paths: a package may be reached through a link.
"""

from __future__ import annotations

import os
from typing import Final


class Folders:
    """Folders of code, of which some are registered."""

    def __init__(self, *folders: str) -> None:
        self._paths: tuple[str, ...] = ()
        self.add(*folders)

    def add(self, *folders: str) -> None:
        """Register folders."""
        self._paths += tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)

    def have(self, file: str) -> bool:
        """Whether a file of code lies in one of them."""
        return os.path.realpath(file).startswith(self._paths)


PACKAGE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
"""The folder of jitgraph as files of code name it, with a separator behind it."""

OWN: Final = Folders(PACKAGE)
"""Code that is jitgraph's: no error names a line in it as the user's, and traces follow none but what is below."""

STATEFUL: Final = Folders()
"""Code of jitgraph that holds state of the user's: traces follow it as they follow the user's."""

STATELESS: Final = Folders()
"""Code inside of that which reads its arguments alone: traces do not follow it."""

STAGED: Final = Folders()
"""Code whose control flow a script stages as it does the user's."""


def register_packages(*, stateful: tuple[str, ...], stateless: tuple[str, ...], staged: tuple[str, ...]) -> None:
    """Say which packages of jitgraph, by their paths in it, hold state, hold none, and are staged."""
    for folders, names in ((STATEFUL, stateful), (STATELESS, stateless), (STAGED, staged)):
        folders.add(*(os.path.join(PACKAGE, *name.split(".")) for name in names))
