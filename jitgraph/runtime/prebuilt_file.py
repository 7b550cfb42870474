"""Where a wheel brings along what LLVM would have to be asked for: the objects of ``codegen/prebuilt.py``."""

from __future__ import annotations

import os
from typing import Final

PATH: Final = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "codegen", "cpu", "prebuilt.bin"
)


def is_there() -> bool:
    """Whether the package has the file, as one from a wheel does."""
    return os.path.exists(PATH)
