"""Random programs of views and writes through them: eager, traced and scripted they give what NumPy's arrays give.

``VIEW_PROGRAMS=2000`` in the environment runs so many of each kind.
"""

from __future__ import annotations

import itertools
import linecache
import os
import warnings
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from tests.programs import views

COUNT = int(os.environ.get("VIEW_PROGRAMS", "20"))
SHARE = 500  # programs of one test, so that processes share them
NATIVE = 25  # of so many programs one runs as native code; the interpreter runs the others
_numbers = itertools.count()


def define(text: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function of a text, which a script finds again."""
    file = f"<views {next(_numbers)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    namespace = dict(names)
    exec(compile(text, file, "exec"), namespace)
    function: Callable[..., Any] = namespace["f"]
    return function


def first(x: Any) -> Any:
    """A view that a compiled function gives out."""
    return x[0]


def turned(x: Any) -> Any:
    """Another one."""
    return x.permute(*reversed(range(x.ndim)))


def differing(writer: views.Writer, make: Callable[..., Any], n: Any) -> list[str]:
    """The names of results and arguments that are not NumPy's."""
    text, for_numpy = writer.texts()
    due = [np.array(y) for y in define(for_numpy, views.NAMES)(*views.inputs().values(), int(n))]
    xs = [torch.tensor(array) for array in views.inputs().values()]
    compiled = SimpleNamespace(first=torch.compile(first), turned=torch.compile(turned))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* was compiled for more than 8 kinds", RuntimeWarning)
        results = make(define(text, {"torch": torch, "compiled": compiled}))(*xs, n)
    pairs = zip(["total", *writer.names, *views.ARGUMENTS], [*results, *xs], due, strict=True)
    return [name for name, mine, array in pairs if not np.array_equal(mine.numpy(), array)]


@pytest.mark.parametrize("part", range(-(-COUNT // SHARE)))
@pytest.mark.parametrize("kind", ["trace", "script"])
def test_random_programs_give_what_numpy_gives(kind: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    covered: Counter[str] = Counter()
    n: Any = 3 if kind == "trace" else torch.tensor(3)
    for number in range(part * SHARE, min((part + 1) * SHARE, COUNT)):
        writer = views.Writer(number, staged=kind == "script")
        covered.update(writer.forms)
        monkeypatch.setenv("JITGRAPH_INTERPRET", "0" if number % NATIVE == NATIVE - 1 else "1")
        wrong = differing(writer, lambda f: f, n)
        assert not wrong, f"eager: {wrong} of program {number}\n{writer.texts()[0]}"
        try:
            wrong = differing(writer, getattr(jg, kind), n)
        except (jg.ScriptError, jg.TraceError) as error:
            refused = any(text in str(error) for text in ("of a view", "x.data = y", "of another one since"))
            assert refused, f"program {number}\n{writer.texts()[0]}"
            covered["refused"] += 1
            continue
        assert not wrong, f"{kind}: {wrong} of program {number}\n{writer.texts()[0]}"
    print(", ".join(f"{form} {count}" for form, count in covered.most_common()))
    assert covered["refused"] < 0.3 * COUNT + 3
