"""The warning where a float64 operand, as NumPy makes them by default, has a float32 parameter computed in float64.

It is raised where dtypes are promoted, which calls whose dtypes agree never reach, and in traces while they are
recorded. Two plain tensors promote as documented and are no mistake; a parameter says in which precision a model
computes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import PrecisionWarning
from jitgraph.ir import context
from jitgraph.location import MODULE_CALLS, Location, located, location_of_frame

_registries: Final[dict[str, dict[Any, Any]]] = {}  # of each file, what ``warnings`` remembers to have shown


def check(operands: Sequence[Any], common: DType) -> None:
    """A PrecisionWarning where one of the operands is a parameter narrower than the common dtype, which is double."""
    for operand in operands:
        if getattr(operand, "_is_parameter", False) and (narrow := operand.dtype) not in dtypes.DOUBLE:
            _warn(narrow, common)
            return


def _warn(narrow: DType, common: DType) -> None:
    location, model = _outermost_call()
    if location is None:
        return
    trace = context.current().trace
    if trace is not None:
        trace.require_recording(f"it warns of {common.name}", location)
    warnings.warn_explicit(
        f"{narrow.name} parameters{model and f' of {model}'} meet {common.name}, in which they and all that follows "
        f"are computed: convert what goes in, x.astype(jg.{narrow.name}) (NumPy's arrays and scalars are float64 by "
        "default), or the model, model.double()",
        PrecisionWarning,
        location.file,
        location.line,
        registry=_registries.setdefault(location.file, {}),
    )


def _outermost_call() -> tuple[Location | None, str]:
    """The user's line that calls the outermost module, and the module's class; the innermost line where none is called.

    So all layers of a model that one line calls warn as one.
    """
    frame: FrameType | None = sys._getframe(1)
    outermost: FrameType | None = None
    while frame is not None:
        if id(frame.f_code) in MODULE_CALLS:
            outermost = frame
        frame = frame.f_back
    if outermost is None:
        return Location.of_user(), ""
    return located(location_of_frame(outermost)), type(outermost.f_locals["self"]).__name__
