"""One random array program in every way of running it: ``python -m tests.programs.array_check SEED``."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg
from tests.programs.array_texts import Builder, Text, Value

WAYS = ("eager", "traced", "named sizes", "scripted", "vmap")


def compiled(source: str, module: Any, name: str) -> Callable[..., Any]:
    """The function of a text, whose lines can be looked up, as scripts do."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"m": module}
    exec(compile(source, name, "exec"), scope)
    return scope["program"]  # type: ignore[no-any-return]


def differs(actual: Any, value: Value) -> str | None:
    """How a result differs from NumPy's by more than its bound."""
    got, want = np.asarray(actual), value.array
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, NumPy has {want.dtype}{want.shape}"
    if value.bound is None:
        same = np.array_equal(got, want, equal_nan=got.dtype.kind in "fc")
    else:
        same = np.allclose(got, want, rtol=0, atol=value.bound, equal_nan=True)
    if not same:
        return f"{got.tolist()}, NumPy has {want.tolist()}"
    if got.dtype.kind == "f" and value.bound is None:
        zeros = got == 0
        if (np.signbit(got[zeros]) != np.signbit(want[zeros])).any():
            return f"zeros of another sign: {got.tolist()}, NumPy has {want.tolist()}"
    return None


def run(text: Text, way: str, lines: list[str] | None = None, results: list[Value] | None = None) -> str | None:
    """What is wrong with a program in one way; None for nothing."""
    wanted = text.results if results is None else results
    program = compiled(text.source(lines, wanted), jg, f"<array program {text.seed} {way}>")
    arguments = [jg.asarray(array) for array in text.arguments.values()]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if way == "vmap":
                return _batched(program, arguments, wanted)
            result = _called(program, way, arguments, text)
        except jg.JitgraphError as error:
            if way == "named sizes":
                return None  # which may be refused, never wrong
            return f"{type(error).__name__}: {error}"
    for have, value in zip(result, wanted, strict=True):
        if (problem := differs(have, value)) is not None:
            return f"{value.name}: {problem}"
    return None


def _called(program: Callable[..., Any], way: str, arguments: list[Any], text: Text) -> Any:
    if way == "eager":
        return program(*arguments)
    if way == "scripted":
        return jg.script(program)(*arguments)
    if way == "named sizes":
        first = {name: {0: "n"} for name, array in text.arguments.items() if array.ndim and array.shape[0] > 1}
        return jg.trace(program, dynamic_shapes=first)(*arguments)
    return jg.trace(program)(*arguments)


def _batched(program: Callable[..., Any], arguments: list[Any], results: list[Value]) -> str | None:
    """Two members at once against one after the other; the second one has its elements in another order."""
    members = [arguments, [jg.flip(x) for x in arguments]]
    single = [program(*member) for member in members]
    both = jg.vmap(program)(*(jg.stack(pair) for pair in zip(*members, strict=True)))
    for have, value, *each in zip(both, results, *single, strict=True):
        for number, want in enumerate(each):
            bound = value.bound if value.bound is None else 1e3 * value.bound
            problem = differs(have[number], Value(value.name, np.asarray(want), bound))
            if problem is not None:
                return f"{value.name}, member {number}: {problem}"
    return None


def failure(seed: int) -> tuple[str, str] | None:
    """The way and the problem of the first failure of a seed."""
    text = Builder(seed).build()
    if not text.results:
        return None
    for way in WAYS:
        if (problem := run(text, way)) is not None:
            return way, problem
    return None


def shortest(seed: int, actual: tuple[str, str]) -> str:
    """The failing program with lines left out that do not matter."""
    text, way = Builder(seed).build(), actual[0]
    results, lines, problem = text.results, list(text.lines), actual[1]
    for value in text.results:
        if (again := run(text, way, lines, [value])) is not None:
            results, problem = [value], again
            break
    for line in reversed(text.lines):
        name = line.partition(" = ")[0]
        rest = [other for other in lines if other != line]
        used = any(f"{name}" in _words(other.partition(" = ")[2]) for other in rest)
        if not used and name not in [value.name for value in results]:
            lines = rest
    shown = "\n".join(f"{name} = np.array({a.tolist()}, {str(a.dtype)!r})" for name, a in text.arguments.items())
    return f"seed {seed}, {way}: {problem}\n{shown}\n{text.source(lines, results)}"


def _words(expression: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in expression).split()


def main(seeds: list[str]) -> int:
    wrong = 0
    first, last = (int(seeds[0]), int(seeds[-1]) + 1) if seeds else (0, 1000)
    for seed in range(first, last):
        if (result := failure(seed)) is not None:
            wrong += 1
            print(shortest(seed, result), flush=True)
    print(f"{last - first} programs, {wrong} with a difference")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
