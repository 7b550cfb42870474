"""The way out of an operation of Python or NumPy that needs the value of a traced tensor, by the user's line."""

from __future__ import annotations

import dis
import linecache
import re
from typing import Final

from jitgraph.location import Location, user_location

OF_TRUTH: Final = "use @jg.script for an if or while on tensors, or jg.where"
"""For the truth of a tensor in a function that is no script."""

_OF_NUMBERS: Final = "write jg.exp for math.exp and the like, and compute with the tensor; call item() outside"
_BY_OPERATION: Final = {
    "bool()": OF_TRUTH,
    "float()": _OF_NUMBERS,
    "int()": _OF_NUMBERS,
    "complex()": _OF_NUMBERS,
    "item()": "compute with the tensor itself, or return it and call item() outside; in a @jg.script int(x) and "
    "float(x) are numbers",
    "tolist()": "compute with the tensor itself, or return it and call tolist() outside",
    "numpy()": "compute with the tensor itself, or return it and call numpy() outside",
    "use as an index": "a tensor or array is indexed by a tensor as jg.asarray(array)[i], a list of tensors as "
    "jg.stack(tensors)[i]; range(n) of a tensor is a loop in a @jg.script",
    "np.asarray": "compute with tensors: jg.asarray([x, 1.0]) or jg.stack([x, y]) for np.array([x, 1.0]), and jg's "
    "functions for NumPy's; call numpy() outside",
}
_OUTSIDE: Final = "do it outside of the traced function, with what that returns"
READ_OF_ARRAY: Final = "make the array a tensor: jg.asarray(array)[i] in place of array[i]"
"""For a NumPy array or a list that is indexed by a tensor."""

WRITE_TO_ARRAY: Final = (
    "write to a tensor: out = jg.zeros(shape) in place of np.zeros(shape), or out = jg.asarray(array); then "
    "out[i] = value"
)
"""For a NumPy array that takes a tensor as an element."""

_BY_INSTRUCTION: Final = {
    "BINARY_SUBSCR": READ_OF_ARRAY,
    "BINARY_SLICE": READ_OF_ARRAY,
    "STORE_SUBSCR": WRITE_TO_ARRAY,
    "STORE_SLICE": WRITE_TO_ARRAY,
}
_CONVERSIONS: Final = ("np.asarray", "use as an index", "float()", "int()", "complex()")


def replacement_of(operation: str) -> str:
    """What to write in place of an operation such as ``np.asarray``, which the user's innermost line asks for."""
    place = user_location()
    if place is not None and operation in _CONVERSIONS:
        code, instruction = place
        name = dis.opname[code.co_code[instruction]]
        if name in _BY_INSTRUCTION:
            return _BY_INSTRUCTION[name]
    return _BY_OPERATION.get(operation, _OUTSIDE)


def replacement_of_text(location: Location | None) -> str:
    """What to write in place of a text that is made of a traced tensor."""
    line = "" if location is None else linecache.getline(location.file, location.line)
    if re.search(r"\b(raise|assert)\b", line):
        return (
            "compiled code raises exceptions of fixed texts: leave the tensor out of the text, and print it before, "
            'jg.debug.print("x = {}", x)'
        )
    return (
        'let the print make the text: jg.debug.print("loss {}", loss) or print("loss", loss), not print(f"loss {loss}")'
    )
