"""The C compiler of this machine, for what users build of the C loader; jitgraph itself needs none.

What is compiled of one source without further files is stored in the compile cache, as the C loader takes seconds.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jitgraph.runtime import disk_cache

_NAMES: Final = ("cc", "gcc", "clang")


def c_compiler() -> str | None:
    """The path of the first of cc, gcc and clang; None where there is none."""
    import shutil  # here: most processes compile no C

    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def build_shared(sources: Sequence[Path], target: Path, *flags: str) -> str:
    """Compile C sources, or objects, to a shared library; what the compiler says where it cannot, or nothing.

    FileNotFoundError where there is no compiler.
    """
    return _run(target, *flags, "-shared", *map(str, sources), "-lpthread", "-ldl")


def build_object(source: Path, headers: Sequence[Path], target: Path, *flags: str) -> str:
    """Compile a C source, which includes these headers of the same folder, to an object for a shared library.

    It is that of the compile cache where the same compiler made one of the same texts. What the compiler says where it
    cannot, or nothing; FileNotFoundError where there is no compiler.
    """
    compiler, cache = os.path.realpath(_required()), disk_cache.current()
    identity = f"{compiler} {os.path.getsize(compiler)} {os.path.getmtime(compiler)}"
    texts = [path.read_bytes() for path in (source, *headers)]
    key = disk_cache.key_of("C object", identity, " ".join(flags), *texts)
    stored = None if cache is None else cache.find(key, source.name)
    if stored is not None:
        target.write_bytes(stored)
        return ""
    said = _run(target, *flags, "-c", source.name, folder=source.parent)
    if cache is not None and not said:
        cache.store(key, target.read_bytes())
    return said


def _required() -> str:
    compiler = c_compiler()
    if compiler is None:
        raise FileNotFoundError(f"there is no C compiler: none of {', '.join(_NAMES)} is on the PATH")
    return compiler


def _run(target: Path, *words: str, folder: Path | None = None) -> str:
    compiler = _required()
    command = [compiler, "-std=gnu11", "-fPIC", *words, "-o", str(target.absolute())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or f"{compiler} ends with {done.returncode}")
