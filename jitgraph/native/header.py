"""The C header of a native function: how it is called, what it takes and gives, and the messages of its checks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from jitgraph.runtime.loader import Check, ValueSpec

_C_TYPES: Final = {
    "bool": "uint8_t (0 or 1)",
    "float16": "uint16_t (the bits)",
    "bfloat16": "uint16_t (the bits)",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}

_COMMON: Final = """#ifndef JITGRAPH_NATIVE
#define JITGRAPH_NATIVE

#include <stdint.h>

/* What a call that failed reports: the number of the check, and the index and bound that it compared. */
typedef struct jg_native_error {
    int32_t code, check;
    int64_t index, bound;
} jg_native_error;

/* Runs a function. inputs and outputs are addresses of dense, row-major arrays in the order of its header: inputs
   aligned to their elements, outputs to 64 bytes (others are filled by a copy), none of which overlaps another buffer.
   Nothing else is read or written. It neither keeps the addresses nor enters Python, takes no lock, and may run on
   any number of threads at once. error may be NULL; it is written where the call fails. 0 is success, 1 a failed check
   (outputs may hold anything then), 3 too little memory. */
typedef int32_t jg_native_call(void *data, void *const *inputs, void *const *outputs, jg_native_error *error);

#endif"""


def header_text(name: str, inputs: Sequence[ValueSpec], outputs: Sequence[ValueSpec], checks: Sequence[Check]) -> str:
    """The text; ``name`` becomes an identifier of C where it is none."""
    c_name = re.sub(r"\W", "_", name, flags=re.ASCII)
    c_name = f"f_{c_name}" if not c_name or c_name[0].isdigit() else c_name
    lines = [f"/* {c_name}: its address is the jg_native_call, data the pointer that goes first."]
    lines += ["   Both are valid while the FunctionPointer of Python lives."]
    for title, specs in (("inputs", inputs), ("outputs", outputs)):
        lines.append(f"   {title}:")
        lines += [f"     [{number}] {_described(spec)}" for number, spec in enumerate(specs)]
    lines[-1] += " */"
    upper = c_name.upper()
    constants = [
        f"enum {{ {upper}_INPUTS = {len(inputs)}, {upper}_OUTPUTS = {len(outputs)}, {upper}_CHECKS = {len(checks)} }};"
    ]
    if checks:
        texts = ",\n    ".join(_literal(f"{check.kind}: {check.message}") for check in checks)
        constants += [
            "",
            "/* What a failed check means; {index} and {bound} stand for those of the error. */",
            f"static const char *const {c_name}_checks[] = {{\n    {texts},\n}};",
        ]
    return "\n".join((_COMMON, "", *lines, *constants, ""))


def _described(spec: ValueSpec) -> str:
    sizes = "".join(f"[{size}]" for size in spec.shape)
    name = spec.name.encode("ascii", "replace").decode().replace("*/", "* /")
    return f"{_C_TYPES.get(spec.dtype, f'{spec.dtype}_t')} {name}{sizes}"


def _literal(text: str) -> str:
    """A string literal of C: JSON's with octal escapes for what is not ASCII."""
    plain = json.dumps(text, ensure_ascii=False)
    escaped = "".join(c if ord(c) < 128 else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in plain)
    return escaped.replace("\\u00", "\\x").replace("??", "?\\?")
