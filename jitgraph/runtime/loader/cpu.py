"""The processor's level: which of the targets in a file this machine runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jitgraph.runtime.loader.image import lacking_system

X86_LEVELS: Final[Mapping[str, frozenset[str]]] = {
    "x86-64-v2": frozenset(("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")),
    "x86-64-v3": frozenset(("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave")),
    "x86-64-v4": frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
}
"""What each psABI level adds to the one before, in the words of /proc/cpuinfo (pni is SSE3, abm has LZCNT)."""


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """The processor's flags as Linux lists them; empty where they cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except (FileNotFoundError, PermissionError):  # not what a signal handler raises, such as TimeoutError
        return frozenset()
    return frozenset()


def cpu_levels(flags: frozenset[str] | None = None) -> tuple[str, ...]:
    """The targets this machine runs, best first, such as ``("x86-64-v4", "x86-64-v3", "x86-64-v2")``.

    None where the system runs no native code (``lacking``) or does not say what the processor has.
    """
    if flags is None:
        flags = frozenset() if lacking_system() else cpu_flags()
    levels: list[str] = []
    for level, needed in X86_LEVELS.items():
        if not needed <= flags:
            break
        levels.insert(0, level)
    return tuple(levels)


def lacking() -> str:
    """What native code needs and this process lacks, in words; empty where it can run some."""
    if cpu_levels():
        return ""
    return lacking_system() or "native code needs a processor of x86-64-v3 or better, by the flags in /proc/cpuinfo"
