"""Errors of the loader, which are those of jitgraph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np


class JitgraphError(RuntimeError):
    """Every error of jitgraph derives from this."""


class LoadError(JitgraphError):
    """A file that is not a sound jitgraph artifact, or that this machine cannot run."""


class ArgumentError(JitgraphError, ValueError):
    """An argument whose dtype, rank or size the compiled function does not take."""


class CheckError(JitgraphError):
    """A check inside compiled code failed; the class raised also derives from the built-in error that it stands for."""


CHECK_KINDS: Final[Mapping[str, type[CheckError]]] = {
    kind.__name__: type(f"Check{kind.__name__}", (CheckError, kind), {"__module__": __name__, "__doc__": kind.__doc__})
    for kind in (
        ArithmeticError,
        AssertionError,
        FloatingPointError,
        IndexError,
        KeyError,
        np.linalg.LinAlgError,
        OverflowError,
        RuntimeError,
        TypeError,
        UnboundLocalError,
        ValueError,
        ZeroDivisionError,
    )
}
globals().update({kind.__name__: kind for kind in CHECK_KINDS.values()})  # pickle finds a class by its name
