"""The C compiler of this machine, for what users build of the C loader; jitgraph itself needs none."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_NAMES: Final = ("cc", "gcc", "clang")


def c_compiler() -> str | None:
    """The path of the first of cc, gcc and clang; None where there is none."""
    import shutil  # here: most processes compile no C

    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def build_shared(sources: Sequence[Path], target: Path, *flags: str) -> str:
    """Compile C sources to a shared library; what the compiler says where it cannot, or nothing.

    FileNotFoundError where there is no compiler.
    """
    compiler = c_compiler()
    if compiler is None:
        raise FileNotFoundError(f"there is no C compiler: none of {', '.join(_NAMES)} is on the PATH")
    command = [compiler, "-std=gnu11", *flags, "-shared", "-fPIC", *map(str, sources), "-lpthread", "-ldl"]
    done = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or f"{compiler} ends with {done.returncode}")
