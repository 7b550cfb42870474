"""What stands above a part in a joined file."""

from __future__ import annotations

from typing import Final

_WIDTH: Final = 120


def heading(begin: str, name: str, end: str = "") -> str:
    """A comment line that names a part."""
    return f"{begin} --- {name} ".ljust(_WIDTH - len(end), "-") + end
