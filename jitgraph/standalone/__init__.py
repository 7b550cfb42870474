"""The standalone loaders: each is one file, or two in C, that is written from its parts in ``runtime``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jitgraph.standalone.c_text import HEADER, MAIN, c_loader
from jitgraph.standalone.python_text import python_loader

_RUNTIME: Final = Path(__file__).parent.parent / "runtime"


def write_loaders(folder: Path) -> list[Path]:
    """Write ``loader.py``, ``loader.c`` and ``loader.h`` into a folder, which is made; OSError where it cannot be."""
    texts = {
        "loader.py": python_loader(_RUNTIME / "loader"),
        MAIN: c_loader(_RUNTIME / "loader_c"),
        HEADER: (_RUNTIME / "loader_c" / HEADER).read_text(encoding="utf-8"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]
