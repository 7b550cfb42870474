"""What of jitgraph works on this machine, and why the rest does not."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph import config
from jitgraph.compiler import compile
from jitgraph.errors import DeviceError, JitgraphError
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target
from jitgraph.runtime import disk_cache, imports, loader
from jitgraph.runtime.c_compiler import c_compiler
from jitgraph.runtime.cuda.devices import devices

WORKS: Final = "works"
ABSENT: Final = "absent"
FAILS: Final = "fails"

_CODE: Final = "graph @f(%x: f32[n]) -> f32[n] {\n  %0: f32[n] = tanh(%x)\n  return %0\n}"
_OPTIONAL: Final = {
    "onnx": "reading and writing ONNX models",
    "torch": "jg.from_torch of modules, torch.compile(backend='jitgraph')",
    "PIL": "images as inputs of the command line",
    "networkx": "Graph.to_networkx()",
    "numba": "jg.elementwise by numba, jg.native_function in njit code",
    "pycuda": "contexts and streams that are pycuda's",
    "typer": "the command line",
    "rich": "the command line",
}
_DISTRIBUTIONS: Final = {"PIL": "pillow"}


class Diagnosis(NamedTuple):
    """What was looked at, whether it works, is absent or fails, what there is, and what to do about it."""

    what: str
    outcome: str
    text: str
    hint: str = ""


def diagnose() -> Iterator[Diagnosis]:
    """Look at versions, processor, compiler, caches, GPUs, C compilers, optional libraries and flags, in this order."""
    yield Diagnosis("jitgraph", WORKS, f"{_version('jitgraph')}, Python {sys.version.split()[0]}, {sys.executable}")
    versions = ", ".join(f"{name} {_version(name)}" for name in ("numpy", "llvmlite", "ml_dtypes", "safetensors"))
    yield Diagnosis("libraries", WORKS, versions)
    yield from _processor()
    yield _native_code()
    yield _cache()
    yield from _gpus()
    compiler = c_compiler()
    hint = "" if compiler else "install cc, gcc or clang; loader.c and export --so need one, jitgraph does not"
    yield Diagnosis("C compiler", WORKS if compiler else ABSENT, compiler or "none", hint)
    for name, purpose in _OPTIONAL.items():
        distribution = _DISTRIBUTIONS.get(name, name)
        version = _version(distribution)
        hint = "" if version else f"pip install {distribution}"
        yield Diagnosis(distribution, WORKS if version else ABSENT, f"{version or 'not installed'}: {purpose}", hint)
    for flag in config.FLAGS:
        if flag.raw() is not None:
            yield Diagnosis(flag.name, WORKS, repr(flag.raw()))


def _version(distribution: str) -> str:
    """The version of an installed distribution; empty where there is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> Iterator[Diagnosis]:
    levels = loader.cpu_levels()
    if not levels:
        yield Diagnosis("processor", FAILS, loader.lacking(), "JITGRAPH_INTERPRET=1 runs graphs with NumPy, slowly")
        return
    try:
        yield Diagnosis("processor", WORKS, f"{Target.host().name}; it runs {', '.join(levels)}")
        used, available = loader.process_runtime.threads, loader.processors()
        yield Diagnosis("threads", WORKS, f"{used} of {available} processors that this process may use")
    except (JitgraphError, ValueError) as error:
        yield Diagnosis("processor", FAILS, str(error), "unset the variable that the message names")


def _native_code() -> Diagnosis:
    """Whether a function of one op compiles, and gives the interpreter's bits."""
    imports.module("jitgraph.ops")
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    try:
        executable = compile(parse(_CODE))
        actual = np.asarray(executable(x))
    except Exception as error:  # whatever is broken is what is asked for
        return Diagnosis(
            "compiler", FAILS, f"{type(error).__name__}: {error}", "pip install --force-reinstall llvmlite"
        )
    if not np.allclose(actual, np.tanh(x), atol=1e-6):
        return Diagnosis(
            "compiler", FAILS, "tanh of 9 numbers is wrong", "report this with the output of doctor --json"
        )
    is_interpreted = config.INTERPRET.is_on()
    return Diagnosis("compiler", WORKS, "JITGRAPH_INTERPRET is on: graphs run with NumPy" if is_interpreted else "LLVM")


def _cache() -> Diagnosis:
    folder = disk_cache.folder()
    cache = disk_cache.current()
    if folder is None or cache is None:
        return Diagnosis("cache", ABSENT, "turned off: each process compiles anew", "unset JITGRAPH_CACHE_DIR")
    if refused := cache.refused():
        return Diagnosis("cache", FAILS, f"{folder}: {refused}", f"chmod 700 {folder}, or set JITGRAPH_CACHE_DIR")
    info = cache.info()
    return Diagnosis(
        "cache", WORKS, f"{folder}: {info.entries} entries, {info.bytes / 1e6:.1f} of {info.limit / 1e6:.0f} MB"
    )


def _gpus() -> Iterator[Diagnosis]:
    registry = devices()
    try:
        driver: Any = registry.driver
    except DeviceError as error:
        yield Diagnosis("GPU", ABSENT, getattr(error, "message", str(error)), error.hint or "")
        return
    if not registry.count:
        yield Diagnosis("GPU", ABSENT, f"{driver.name} has no device that this process can use")
        return
    yield Diagnosis("CUDA driver", WORKS, f"{driver.name}, CUDA {'.'.join(map(str, driver.version()))}")
    from jitgraph import cuda

    for ordinal in range(registry.count):
        try:
            properties = cuda.get_device_properties(ordinal)
        except JitgraphError as error:
            yield Diagnosis(f"cuda:{ordinal}", FAILS, str(error))
            continue
        text = f"{properties.name}, sm_{properties.major}{properties.minor}, {properties.total_memory / 2**30:.0f} GiB"
        yield Diagnosis(f"cuda:{ordinal}", WORKS, text)
        library = registry.device(ordinal).products
        hint = "" if library else "pip install jitgraph[cuda]: large products in any order are faster"
        yield Diagnosis(f"cuBLAS on cuda:{ordinal}", WORKS if library else ABSENT, "found" if library else "none", hint)


def works(findings: list[Diagnosis]) -> bool:
    """Whether nothing fails; what is absent is nobody's fault."""
    return all(finding.outcome != FAILS for finding in findings)
