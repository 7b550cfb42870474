"""A library ``libcuda.so.1`` whose functions are those of a table, for what is linked against the driver: pycuda."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from jitgraph.runtime.cuda.driver import FUNCTIONS, SLOTS

_C_TYPES = {"p": "void *", "i": "int ", "u": "unsigned ", "z": "unsigned long ", "s": "const char *"}
_NOT_SUPPORTED = 801
_STACK = """
static __thread void *stack[64];
static __thread int depth;

int cuCtxPushCurrent_v2(void *context) {
    int code = cuCtxGetCurrent(&stack[depth]);
    if (code || depth == 63) return code ? code : 1;
    depth++;
    return cuCtxSetCurrent(context);
}

int cuCtxPopCurrent_v2(void **context) {
    int code = cuCtxGetCurrent(context);
    if (code || !depth) return code ? code : 201;
    return cuCtxSetCurrent(stack[--depth]);
}
"""


def symbols_wanted(library: Path) -> list[str]:
    """The driver's functions that a library is linked against."""
    process = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True)
    return [name for line in process.stdout.splitlines() if (name := line.split()[-1]).startswith("cu")]


def build(folder: Path, wanted: Iterable[str], name: str = "libcuda.so.1") -> Path:
    """Compile the library, with functions that only refuse for all that is ``wanted`` beside the table.

    Once it is loaded under its ``name``, that is found in the whole process.
    """
    parts = [f"static void *table[{len(FUNCTIONS)}];", "void set_function(int slot, void *to) { table[slot] = to; }"]
    for symbol, letters in FUNCTIONS.items():
        taken = ", ".join(f"{_C_TYPES[letter]}a{i}" for i, letter in enumerate(letters)) or "void"
        inputs = ", ".join(f"a{i}" for i in range(len(letters)))
        parts.append(f"int {symbol}({taken}) {{ return ((int (*)({taken})) table[{SLOTS[symbol]}])({inputs}); }}")
    parts.append(_STACK)
    defined = {*FUNCTIONS, "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}
    parts += [f"int {symbol}(void) {{ return {_NOT_SUPPORTED}; }}" for symbol in sorted(set(wanted) - defined)]
    source, result = folder / "libcuda.c", folder / name
    source.write_text("\n".join(parts))
    subprocess.run(["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", result, source], check=True)
    return result


def loaded(path: Path, addresses: Mapping[str, int]) -> ctypes.CDLL:
    """Load the library into this process, where it then is ``libcuda.so.1``, over these functions."""
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    for symbol, slot in SLOTS.items():
        library.set_function(slot, ctypes.c_void_p(addresses[symbol]))
    return library
