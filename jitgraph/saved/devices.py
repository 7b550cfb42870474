"""From code that was compiled for a GPU to what a file holds of it."""

from __future__ import annotations

from typing import Any

from jitgraph.artifact import DeviceImage
from jitgraph.errors import JitgraphError
from jitgraph.ir.types import Constant
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.driver_functions import SLOTS
from jitgraph.runtime.loader.device_code import DeviceCode
from jitgraph.saved.entry import CONSTANT


def device_image(generation: str, program: Any, first: loader.Signature) -> tuple[DeviceImage, dict[str, Any]]:
    """The code of a ``CudaExecutable`` for a file, and its constants by their keys among the weights.

    ``first`` is the signature of the file's first target, which holds for all of them but for what their checks tell.
    JitgraphError where it does not.
    """
    same = first.but_with(checks=program.signature.checks, aliases=program.signature.aliases)
    if same != program.signature:
        raise JitgraphError(
            f"{program.signature.name} cannot be saved: its code for {generation} has another signature than that for "
            "the first target\n  hint: one file for each of these targets"
        )
    parts = program.parts
    constants = {CONSTANT + Constant(array).digest: array for array in parts.constants}
    keys = [CONSTANT + Constant(array).digest for array in parts.constants]
    code = DeviceCode(
        generation,
        "",
        "",
        parts.functions,
        tuple((key, constants[key].nbytes) for key in keys),
        tuple((symbol, SLOTS[symbol]) for symbol in parts.driver),
        program.signature.checks,
        parts.reports,
        parts.host_sizes,
    )
    return DeviceImage(program.image, parts.ptx, code), constants
