"""A model as a shared library: ``loader.c`` compiled with the ``.jg`` file inside, and a header for both."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from jitgraph.errors import JitgraphError
from jitgraph.runtime.c_compiler import build_shared, c_compiler
from jitgraph.runtime.loader.artifact import Artifact
from jitgraph.standalone.c_library import loader_object
from jitgraph.standalone.c_text import HEADER

_SOURCE: Final = """#include "{name}.h"

__asm__(".pushsection .rodata, \\"a\\", @progbits\\n"
        ".balign 64\\n"
        ".hidden {name}_file\\n"
        ".globl {name}_file\\n"
        "{name}_file: .incbin \\"model.jg\\"\\n"
        ".hidden {name}_file_end\\n"
        ".globl {name}_file_end\\n"
        "{name}_file_end: .byte 0\\n"
        ".popsection\\n");

extern const unsigned char {name}_file[], {name}_file_end[];

jg_model *{name}_load(const char *device, jg_error *error) {{
    return jg_load_bytes({name}_file, (size_t)({name}_file_end - {name}_file), device, error);
}}
"""

_INTERFACE: Final = """/* The model {title} as a library. Link with lib{name}.so; loader.h says how a model is run. */

#ifndef JITGRAPH_MODEL_{upper}_H
#define JITGRAPH_MODEL_{upper}_H

#include "loader.h"

#ifdef __cplusplus
extern "C" {{
#endif

/* The model, on "cpu" (or NULL) or a GPU such as "cuda:0"; NULL on failure. jg_close frees it.
   Inputs: {inputs}.
   Outputs: {outputs}. */
jg_model *{name}_load(const char *device, jg_error *error);

#ifdef __cplusplus
}}
#endif

#endif
"""


def c_name(text: str) -> str:
    """A name in C for a text, such as that of a file."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "model"
    return f"m_{name}" if name[0].isdigit() else name


def write_shared_object(path: str | os.PathLike[str], folder: Path, name: str = "") -> list[Path]:
    """Write ``lib<name>.so``, ``<name>.h`` and ``loader.h`` into a folder, which is made; they need no other file.

    The library has the C loader's functions and ``<name>_load``; ``name`` is the file's, as C can write it.
    JitgraphError where there is no C compiler, or it fails; LoadError for a file that is not sound; OSError.
    """
    artifact = Artifact(path)
    signatures = artifact.signatures()
    signature = signatures["forward"] if "forward" in signatures else next(iter(signatures.values()))
    if c_compiler() is None:
        raise JitgraphError(
            "a shared library needs a C compiler, and there is none: cc, gcc or clang\n"
            "  hint: install one, or run the .jg file by loader.c, which python -m jitgraph loader DIR writes"
        )
    name = c_name(name or Path(os.fspath(path)).stem)
    folder.mkdir(parents=True, exist_ok=True)
    title = re.sub(r"[^ -~]|\*/", "?", Path(os.fspath(path)).name)
    inputs, outputs = (
        "; ".join(map(str, specs)).replace("*/", "* /") or "none" for specs in (signature.inputs, signature.results)
    )
    interface = _INTERFACE.format(name=name, upper=name.upper(), title=title, inputs=inputs, outputs=outputs)
    with tempfile.TemporaryDirectory() as scratch:
        build = Path(scratch)
        (build / "model.jg").write_bytes(Path(os.fspath(path)).read_bytes())
        (build / f"{name}.h").write_text(interface, encoding="utf-8")
        (build / f"{name}.c").write_text(_SOURCE.format(name=name), encoding="utf-8")
        library = build / f"lib{name}.so"
        sources = [loader_object(build), build / f"{name}.c"]
        said = build_shared(sources, library, "-O2", "-Wl,-Bsymbolic", f"-Wa,-I{build}", f"-I{build}")
        if said:
            raise JitgraphError(f"the C compiler fails: {said.splitlines()[0]}")
        written = [folder / library.name, folder / f"{name}.h", folder / HEADER]
        for target in written:
            target.write_bytes((build / target.name).read_bytes())
    return written
