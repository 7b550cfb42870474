"""What stands above a part in a joined file."""

from __future__ import annotations

from typing import Final

_WIDTH: Final = 120


def heading(mark: str, name: str, text: str) -> str:
    """Comment lines after ``mark`` that name a part and say what its own text said."""
    title = f"{mark} --- {name} "
    lines = [f"{mark} {line}".rstrip() for line in text.strip().splitlines()]
    return "\n".join((title.ljust(_WIDTH, "-"), mark, *lines))
