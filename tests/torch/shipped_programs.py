"""TorchScript archives and exported programs that installed packages ship: which are read, compute the same, are saved.

    python -m tests.torch.shipped_programs [PATH ...]

PATHs are folders, wheels and files; without any, the folders of this Python's packages. A line for each program says
whether it loads and, where PyTorch is installed, whether it computes what PyTorch does with arguments that it finds,
and whether ``jg.save`` writes a file that does so, too. Exits with 1 where a program that PyTorch runs falls short.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import logging
import site
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np

import jitgraph as jg
from jitgraph import tree
from jitgraph.foreign_files import of_members
from jitgraph.runtime import loader
from jitgraph.torch import jit

ENDINGS: Final = (".pt", ".pth", ".pt2", ".jit", ".ptl", ".ts", ".torchscript", ".torch", ".bin")
SHAPES: Final = ((1, 512), (1, 3, 64, 64), (512,), (1, 16000), (1, 80, 100), (1, 1, 64, 64), (1, 1, 16000), (4, 8), ())
"""Shapes that tensors of unknown meaning are tried with."""
NUMBERS: Final = {"int": (16000, 1), "float": (1.0,), "bool": (False,), "str": ("",)}
MOST_TRIES: Final = 64


class Shipped(NamedTuple):
    """A file that may be a program, and its bytes."""

    name: str
    kind: str
    data: bytes


def programs_in(path: Path) -> Iterator[Shipped]:
    """The programs at a path: a folder, a wheel, a file."""
    if path.is_dir():
        for inner in sorted(path.rglob("*")):
            if inner.suffix in (*ENDINGS, ".whl") and inner.is_file():
                yield from programs_in(inner)
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for info in wheel.infolist():
                if Path(info.filename).suffix in ENDINGS:
                    yield from _program(f"{path.name}/{info.filename}", io.BytesIO(wheel.read(info)))
    else:
        with path.open("rb") as file:
            yield from _program(str(path), file)


def _program(name: str, file: IO[bytes]) -> Iterator[Shipped]:
    if file.read(4) != b"PK\x03\x04":
        return
    with zipfile.ZipFile(file) as members:
        names = members.namelist()
    found = of_members(names)
    if found is None or (
        "TorchScript" not in found.text
        and "torch.export" not in found.text
        and not any(member.endswith("/model.json") for member in names)
    ):
        return
    file.seek(0)
    yield Shipped(name, "exported" if "torch.export" in found.text else "archive", file.read())


def report(program: Shipped) -> tuple[str, bool]:
    """What to say of a program, and whether it falls short of PyTorch."""
    theirs: Any = None
    if importlib.util.find_spec("torch") is not None:
        try:
            theirs = _pytorchs(program)
        except Exception as error:
            return f"PyTorch does not load it: {_line(error)}; {_loaded(program)}", False
    try:
        ours = _ours(program)
    except Exception as error:
        return f"does not load: {_line(error)}", True
    if theirs is None:
        return "loads", False
    arguments = _arguments(program, theirs)
    if arguments is None:
        return "loads; no arguments were found with which PyTorch runs it", False
    expected, again = (_plain(_without_gradients(_pytorchs(program), arguments)) for _ in range(2))
    if _distance(again, expected):
        return "loads; PyTorch's results are random", False
    arrays = _plain(arguments)
    try:
        with jg.no_grad():
            distance = _distance(ours(*_tensors(arrays)), expected)
    except Exception as error:
        return f"loads; does not run: {_line(error)}", True
    equal = f"equal to {distance:.0e}" if distance < 1e-3 else f"DIFFERS by {distance:.0e}"
    try:
        saved = _saved(program, arrays)
    except Exception as error:
        return f"loads, {equal}; is not saved: {_line(error)}", not isinstance(error, jg.errors.JitgraphError)
    as_file = "saved" if saved < 1e-3 else f"saved, and then DIFFERS by {saved:.0e}"
    return f"loads, {equal}, {as_file}", max(distance, saved) >= 1e-3


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"


def _loaded(program: Shipped) -> str:
    try:
        _ours(program)
    except Exception as error:
        return f"nor is it here: {_line(error)}"
    return "here it loads"


def _ours(program: Shipped) -> Any:
    if program.kind == "archive":
        return jit.load(io.BytesIO(program.data))
    with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
        file.write(program.data)
        file.flush()
        return jg.from_torch(file.name)


def _pytorchs(program: Shipped) -> Any:
    import torch

    if program.kind == "archive":
        return torch.jit.load(io.BytesIO(program.data), map_location="cpu").eval()
    return torch.export.load(io.BytesIO(program.data))


def _arguments(program: Shipped, theirs: Any) -> tuple[Any, ...] | None:
    """Arguments with which PyTorch runs a program."""
    import torch

    if program.kind == "exported":
        args, _ = theirs.example_inputs or ((), {})
        return tuple(args)
    kinds = [str(argument.type) for argument in theirs.forward.schema.arguments[1:] if not argument.has_default_value()]
    random = np.random.default_rng(0)
    choices: list[list[Any]] = []
    for kind in kinds:
        if kind in ("Tensor", "Optional[Tensor]"):
            arrays = [0.1 * random.standard_normal((*shape, 1), np.float32)[..., 0] for shape in SHAPES]
            floats = map(torch.tensor, arrays)
            choices.append([*floats, torch.ones(1, 8, dtype=torch.int64), torch.ones(8, dtype=torch.int64)])
        elif kind in NUMBERS:
            choices.append(list(NUMBERS[kind]))
        else:
            return None
    for args in itertools.islice(itertools.product(*choices), MOST_TRIES):
        try:
            _without_gradients(_pytorchs(program), args)
        except Exception:
            continue
        return args
    return None


def _without_gradients(function: Any, args: tuple[Any, ...]) -> Any:
    import torch

    args = tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)  # some are written to
    with torch.no_grad():
        return (function.module() if hasattr(function, "module_call_graph") else function)(*args)


def _plain(value: Any) -> Any:
    """Tensors of PyTorch as arrays, in containers too."""
    if hasattr(value, "detach"):
        return value.detach().numpy().copy()
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _distance(actual: Any, expected: Any) -> float:
    """The greatest difference in relation to the greatest number; infinity where shapes or counts differ."""
    own = [np.asarray(leaf.detach() if hasattr(leaf, "detach") else leaf) for leaf in tree.flatten(actual)[0]]
    theirs = [np.asarray(leaf) for leaf in tree.flatten(expected)[0]]
    if [a.shape for a in own] != [b.shape for b in theirs]:
        return float("inf")
    return max(
        (float(np.abs(a - b).max() / max(1e-6, np.abs(b).max())) for a, b in zip(own, theirs, strict=True) if b.size),
        default=0.0,
    )


def _saved(program: Shipped, arrays: tuple[Any, ...]) -> float:
    """How far a saved file is from the program, at its second call: the first makes the state that some have."""
    module, twin = _ours(program), _ours(program)
    with jg.no_grad(), tempfile.TemporaryDirectory() as folder:
        for each in (module, twin):
            each(*_tensors(arrays))
        function = jg.trace(module) if program.kind == "archive" else module
        jg.save(function, f"{folder}/model.jg", example_inputs=_tensors(arrays))
        saved = loader.load(f"{folder}/model.jg")
        leaves = [leaf for leaf in tree.flatten(arrays)[0] if isinstance(leaf, np.ndarray | float)]
        return _distance(saved(*leaves), twin(*_tensors(arrays)))


def _tensors(value: Any) -> Any:
    """Arrays as tensors of jitgraph, in containers too."""
    if isinstance(value, list | tuple):
        return tuple(map(_tensors, value))
    return jg.asarray(value) if isinstance(value, np.ndarray) else value


def main(paths: Sequence[str]) -> int:
    """Print a line for each program; 1 where one falls short."""
    warnings.simplefilter("ignore")
    logging.disable()  # PyTorch's words on files that it does not load
    folders = [Path(path) for path in paths or [*site.getsitepackages(), site.getusersitepackages()]]
    short = count = 0
    for program in itertools.chain.from_iterable(programs_in(path) for path in folders if path.exists()):
        text, falls_short = report(program)
        print(f"{program.name} ({program.kind}, {len(program.data) / 1e6:.1f} MB): {text}", flush=True)
        count, short = count + 1, short + falls_short
    print(f"{count} programs, {short} fall short")
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
