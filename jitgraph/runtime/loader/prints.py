"""What a program prints: texts, and its operands in their styles and formats."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

from jitgraph.runtime.loader.dtypes import Array, dtype_named
from jitgraph.runtime.loader.errors import LoadError
from jitgraph.runtime.loader.json_objects import Json, get_typed
from jitgraph.runtime.loader.records import FrozenRecord
from jitgraph.runtime.loader.specs import ValueSpec

PRINT_STYLES: Final = ("array", "tensor", "leaf", "number")
"""How an operand of a print looks: as NumPy prints it, as a tensor does, as a tensor that requires a gradient does, as
the Python number does that the 0-d operand holds."""

_CONVERSIONS: Final = ("", "r", "s")
_STREAMS: Final = ("stdout", "stderr")
_MAX_FORM: Final = 64


class PrintOperand(ValueSpec):
    """A tensor that is printed: ``conversion`` and ``form`` are what stands in braces, as in ``{!r:>20}``."""

    style: str = "array"
    conversion: str = ""
    form: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {**super().to_json(), "style": self.style, "conversion": self.conversion, "form": self.form}

    @staticmethod
    def from_json(source: Json, where: str) -> PrintOperand:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        plain = ValueSpec.from_json(source, where)
        style, conversion, form = (get_typed(source, key, str, where) for key in ("style", "conversion", "form"))
        return PrintOperand(plain.name, plain.dtype, plain.shape, style=style, conversion=conversion, form=form)


class Print(FrozenRecord):
    """A print inside the native code: the texts before, between and behind its operands, and where they go."""

    texts: tuple[str, ...]
    operands: tuple[PrintOperand, ...] = ()
    stream: str = "stdout"
    flush: bool = False
    location: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        operands = [operand.to_json() for operand in self.operands]
        return {**vars(self), "texts": list(self.texts), "operands": operands}

    @staticmethod
    def from_json(source: Json, where: str) -> Print:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        texts = get_typed(source, "texts", list, where)
        if not all(isinstance(text, str) for text in texts):
            raise LoadError(f"{where}: 'texts' holds something that is not a text")
        return Print(
            texts=tuple(texts),
            operands=tuple(
                PrintOperand.from_json(operand, where) for operand in get_typed(source, "operands", list, where)
            ),
            stream=get_typed(source, "stream", str, where),
            flush=get_typed(source, "flush", bool, where),
            location=get_typed(source, "location", str, where),
        )

    def verify(self, where: str) -> None:
        """LoadError where the parts do not fit together."""
        if len(self.texts) != len(self.operands) + 1 or self.stream not in _STREAMS:
            raise LoadError(f"{where}: {len(self.texts)} texts around {len(self.operands)} operands to {self.stream!r}")
        for operand in self.operands:
            if dtype_named(operand.dtype).kind == "c":
                raise LoadError(f"{where}: {operand.dtype} of {operand.name!r:.80} is not printed")
            if operand.style not in PRINT_STYLES or operand.conversion not in _CONVERSIONS:
                raise LoadError(f"{where}: {operand!r:.120} has no known style or conversion")
            as_array = operand.shape and not operand.conversion
            number = operand.shape and operand.style == "number"
            if len(operand.form) > _MAX_FORM or (operand.form and as_array) or number:
                raise LoadError(f"{where}: the format {operand.form!r:.80} of a tensor of rank {len(operand.shape)}")

    def write(self, arrays: Sequence[Array]) -> None:
        """Write the text for these values of the operands to where ``print`` would write it now."""
        stream = sys.stderr if self.stream == "stderr" else sys.stdout
        parts = [self.texts[0]]
        for operand, array, text in zip(self.operands, arrays, self.texts[1:], strict=True):
            parts += [print_text(array, operand), text]
        if stream is None:  # a process without a console
            return
        stream.write("".join(parts))
        if self.flush:
            stream.flush()


def tensor_text(array: Array, dtype: str, requires_grad: bool = False) -> str:
    """How a tensor prints."""
    text = np.array2string(array, separator=", ", prefix="Tensor(")
    return f"Tensor({text}, dtype={dtype}{', requires_grad=True' if requires_grad else ''})"


def print_text(array: Array, operand: PrintOperand) -> str:
    """The text of one operand; ValueError for a format that does not fit its value."""
    if array.dtype == np.uint16 and operand.dtype == "bfloat16":  # the same bits, where ml_dtypes is not installed
        array = (array.astype(np.uint32) << 16).view(np.float32).reshape(array.shape)
    if operand.style == "number":
        text = repr(array.item())
    elif operand.style == "array":
        text = np.array2string(array, threshold=1000)
    else:
        text = tensor_text(array, operand.dtype, operand.style == "leaf")
    if operand.form and not operand.conversion:
        return format(array.item(), operand.form)
    return format(text, operand.form)
