"""Times and sizes as people read them."""

from __future__ import annotations


def bytes_text(count: int) -> str:
    """A number of bytes in the largest unit that leaves it at 1 or more."""
    for unit, letters in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {letters}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """A time in the largest unit that leaves it at 1 or more, with three digits."""
    if seconds >= 100:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
    for unit, letters in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {letters}"
    return f"{seconds * 1e6:.3g} us"
