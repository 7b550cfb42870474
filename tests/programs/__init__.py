"""Random programs for property tests, drawn by hypothesis as source text or as steps."""

from __future__ import annotations

from collections.abc import Iterable


def indented(lines: Iterable[str]) -> list[str]:
    """The lines of a block that stands one level deeper."""
    return [f"    {line}" for line in lines]
