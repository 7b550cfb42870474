"""ONNX models that installed packages ship: which are read, and equal ONNX Runtime eagerly, compiled, and saved.

    python -m tests.onnx.shipped_models [--only PATTERN] [--without-saving] [PATH ...]

PATHs are folders, wheels and files; without any, the folders of this Python's packages. Needs ONNX Runtime, whose
results with random inputs are the expected ones. Exits with 1 where a model that ONNX Runtime runs falls short.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import re
import site
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import jitgraph as jg
from jitgraph.runtime import loader

BATCHES: Final = (2, 1)
SIZES: Final = (320, 576, 512, 64, 4000, 16000, 224)
"""Sizes that named and unknown ones are tried with."""
INEXACT: Final = re.compile(r"onnx_asr/.*/whisper\d+\.onnx$")
"""Models for which ONNX Runtime's STFT is 1e-3 from what the package's own model by Conv gives, and ours is 1e-5."""
NOT_REAL: Final = re.compile(r"/onnx/backend/test/|/tests?/|/testdata/")
CLOSE: Final = 1e-4


class Shipped(NamedTuple):
    """A model by its name, and its bytes, or its path where its data may lie beside it."""

    name: str
    model: Path | bytes


class Report(NamedTuple):
    """What to say of a model, and whether it falls short of ONNX Runtime."""

    text: str
    falls_short: bool


def models_in(path: Path) -> Iterator[Shipped]:
    """The models at a path: a folder, a wheel, a file."""
    if path.is_dir():
        for inner in sorted(path.rglob("*")):
            if inner.suffix in (".onnx", ".whl") and inner.is_file() and not NOT_REAL.search(inner.as_posix()):
                yield from models_in(inner)
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for info in wheel.infolist():
                if info.filename.endswith(".onnx"):
                    yield Shipped(f"{path.name}/{info.filename}", wheel.read(info))
    else:
        yield Shipped(str(path), path)


def report_apart(shipped: Shipped, is_saved: bool = True) -> Report:
    """``report`` in a process of its own, as ONNX Runtime ends it where a size is too small for some models."""
    context = multiprocessing.get_context("fork")
    for least in (0, 1000):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_send, args=(sender, shipped, is_saved, least))
        child.start()
        sender.close()
        try:
            return Report(*receiver.recv())
        except EOFError:
            continue
        finally:
            child.join()
    return Report(f"the process ended with {child.exitcode}", True)


def _send(sender: Any, *how: Any) -> None:
    sender.send(tuple(report(*how)))


def report(shipped: Shipped, is_saved: bool = True, least: int = 0) -> Report:
    """A model beside ONNX Runtime, with inputs whose unknown sizes are at least ``least``."""
    try:
        session = session_of(shipped.model)
    except Exception as error:
        return Report(f"ONNX Runtime does not load it: {_line(error)}", False)
    arguments = arguments_of(session, least)
    if arguments is None:
        return Report("no inputs were found with which ONNX Runtime runs it", False)
    expected = session.run(None, arguments)
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arguments.items())
    try:
        module = jg.onnx.load(shipped.model)
    except Exception as error:
        return Report(f"does not load: {_line(error)}", True)
    parts, worst, falls_short = [], 0.0, False
    runs = {"eager": module.forward}
    if module.traced is not None:
        runs["compiled"] = module
        if is_saved:
            runs["saved"] = lambda *inputs: _saved(module, inputs)
    else:
        parts.append("node by node alone")
    for name, run in runs.items():
        start = time.perf_counter()
        try:
            with jg.no_grad():
                distance = distance_of(run(*arguments.values()), expected)
        except Exception as error:
            parts.append(f"{name}: {_line(error)}")
            falls_short = falls_short or name != "saved" or not isinstance(error, jg.errors.JitgraphError)
            continue
        worst = max(worst, distance)
        parts.append(f"{name} {distance:.0e} ({time.perf_counter() - start:.1f} s)")
    plain = session_of(shipped.model, is_optimised=False).run(None, arguments)
    close = max(CLOSE, 3 * distance_of(plain, expected), 2e-3 if INEXACT.search(shipped.name) else 0)
    return Report(f"{', '.join(parts)}; {shapes}", falls_short or not worst <= close)


def session_of(model: Path | bytes, threads: int = 1, is_optimised: bool = True) -> Any:
    """ONNX Runtime's session for a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not is_optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 4
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def arguments_of(session: Any, least: int = 0) -> dict[str, Any] | None:
    """Random inputs that ONNX Runtime takes; None where no tried size does."""
    inputs = session.get_inputs()
    for batch, size, largest in itertools.product(BATCHES, [size for size in SIZES if size >= least], (4, 1)):
        arguments = _arguments(inputs, batch, size, largest)
        try:
            session.run(None, arguments)
        except Exception:  # this size is not the model's
            continue
        return arguments
    return None


def _arguments(inputs: Sequence[Any], batch: int, size: int, largest: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    result: dict[str, Any] = {}
    for each in inputs:
        shape = tuple(
            own if isinstance(own, int) else _size(own, axis, each.shape, batch, size)
            for axis, own in enumerate(each.shape)
        )
        kind = each.type.removeprefix("tensor(").removesuffix(")")
        if kind in ("float", "double", "float16"):
            dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[kind]
            result[each.name] = (rng.standard_normal(shape) * 0.5).astype(dtype)
        elif kind == "bool":
            result[each.name] = np.ones(shape, bool)
        elif each.name == "sr":
            result[each.name] = np.full(shape, 16000, kind)
        elif "len" in each.name:
            result[each.name] = np.full(shape, size, kind)
        else:
            result[each.name] = rng.integers(1, largest + 1, shape).astype(kind)
    return result


def _size(name: str | None, axis: int, shape: Sequence[Any], batch: int, size: int) -> int:
    text = (name or "").lower()
    first = axis == 0 and len(shape) > 1 and "len" not in text
    return batch if "batch" in text or first or (name is None and len(shape) == 3) else size


def distance_of(results: Any, expected: Sequence[Any]) -> float:
    """The greatest difference from ONNX Runtime's results, beside 1 or their greatest number.

    What ONNX Runtime computes without its optimisations is that far from it, too, which says what rounding does.
    """
    own = results if isinstance(results, tuple | list) else (results,)
    if len(own) != len(expected):
        raise ValueError(f"{len(own)} results for {len(expected)}")
    worst = 0.0
    for result, other in zip(own, expected, strict=True):
        array = result if isinstance(result, np.ndarray) else np.asarray(result.detach().numpy())
        if array.shape != other.shape or array.dtype != other.dtype:
            raise ValueError(f"{array.dtype} {array.shape} for {other.dtype} {other.shape}")
        a, b = array.astype(np.float64), other.astype(np.float64)
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("nan")
        scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        with np.errstate(invalid="ignore"):
            gap = np.where((a == b) | np.isnan(b), 0.0, np.abs(a - b))
        worst = max(worst, float(gap.max(initial=0)) / scale)
    return worst


def _saved(module: Any, inputs: Sequence[Any]) -> Any:
    """The results of a file of the module that the loader alone reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.jg")
        jg.save(module, path, example_inputs=tuple(inputs))
        results = loader.load(path)(*inputs)
        return [np.array(each) for each in (results if isinstance(results, tuple | list) else (results,))]


def _line(error: Exception) -> str:
    notes = " ".join(getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]} {notes}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--without-saving", action="store_true")
    parser.add_argument("paths", nargs="*", type=Path)
    args = parser.parse_args()
    paths = args.paths or [Path(folder) for folder in site.getsitepackages()]
    count = short = 0
    for shipped in itertools.chain.from_iterable(map(models_in, paths)):
        if not re.search(args.only, shipped.name):
            continue
        own = report_apart(shipped, not args.without_saving)
        count, short = count + 1, short + own.falls_short
        print(f"{'SHORT ' if own.falls_short else ''}{shipped.name}: {own.text}", flush=True)
    print(f"{count} models, of which {short} fall short of ONNX Runtime")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
