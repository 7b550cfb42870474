"""The standalone loaders: each is one file, or two in C, that is written from its parts in ``runtime``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from jitgraph.standalone.python_text import python_loader

_RUNTIME: Final = Path(__file__).parent.parent / "runtime"


def write_loaders(folder: Path) -> list[Path]:
    """Write ``loader.py``, ``loader.c`` and ``loader.h`` into a folder, which is made; OSError where it cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / name for name in ("loader.py", "loader.c", "loader.h")]
    made[0].write_text(python_loader(_RUNTIME / "loader"), encoding="utf-8")
    for path in made[1:]:
        shutil.copyfile(_RUNTIME / path.name, path)
    return made
