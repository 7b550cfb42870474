"""A number that a script stages answers every operation of Python's int, float and bool as Python does."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree
from jitgraph.runtime.loader.errors import CheckError
from jitgraph.tracing.symbolic import numbers as numbers_of_traces
from tests.programs import numbers
from tests.programs.numbers import Operation
from tests.tracing.script.scripts import define

SAFE = {"i": 3, "j": 2, "f": 2.5, "g": 0.5, "b": True, "c": True}
KINDS = {"i": "int", "j": "int", "f": "float", "g": "float", "b": "bool", "c": "bool"}
HEAD = "import collections, functools, json, math, pickle\nimport numpy\nrandom_table = {1: 2}\n"


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    native = hasattr(request.node, "callspec") and request.node.callspec.params.get("native", False)
    monkeypatch.setenv("JITGRAPH_INTERPRET", "0" if native else "1")


def program(results: Sequence[str], operands: str, template: str = "    return ({}n,)\n") -> Callable[..., Any]:
    """A function of tensors, which it turns into the numbers that the expressions take."""
    lines = [f"    {name} = {KINDS[name]}(t_{name})\n" for name in operands]
    body = template.format("".join(f"({text}), " for text in results))
    return define(f"{HEAD}def program(n, {', '.join(f't_{name}' for name in operands)}):\n{''.join(lines)}{body}")


def tensors(values: dict[str, Any], n: int = 2) -> list[jg.Tensor]:
    outputs = [jg.asarray(np.array(x, np.int64 if type(x) is int else None)) for x in values.values()]
    return [jg.asarray(n), *outputs]


def leaves_int64(value: Any) -> bool:
    return any(type(x) is int and not -(2**63) <= x < 2**63 for x in tree.flatten(value)[0])


def same(mine: Any, due: Any, error: float) -> bool:
    (a, shape), (b, structure) = tree.flatten(mine), tree.flatten(due)
    if shape != structure or list(map(type, a)) != list(map(type, b)):
        return False
    for x, y in zip(a, b, strict=True):
        if isinstance(y, float) and math.isnan(y):
            if not math.isnan(x):
                return False
        elif isinstance(y, float) and error and math.isfinite(y) and y:
            if not math.isclose(x, y, rel_tol=error):
                return False
        elif x != y or (isinstance(y, float) and math.copysign(1, x) != math.copysign(1, y)):
            return False
    return True


def result_of(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    """The first result of a call, or its error."""
    try:
        return function(*tensors(values))[0]
    except Exception as error:
        return error


def judge(operation: Operation, due: Any, mine: Any) -> str:
    """What is wrong with an answer of a script, or nothing."""
    if isinstance(due, Exception):
        fits = isinstance(mine, type(due))
    elif leaves_int64(due):
        fits = isinstance(mine, OverflowError)
    elif isinstance(due, complex):
        fits = isinstance(mine, TypeError)
    elif isinstance(mine, Exception):
        fits = bool(operation.raises) and operation.raises in [kind.__name__ for kind in type(mine).__mro__]
        fits = fits and isinstance(mine, CheckError)
    else:
        fits = same(mine, due, operation.error)
    return "" if fits else f"{operation.text}: {mine!r:.200} where Python has {due!r:.200}"


def values_of(operands: str, small: bool) -> list[dict[str, Any]]:
    """Edge values for these names: all of one, and pairs and more of them at random."""
    ints = numbers.SMALL if small else numbers.INT_VALUES
    pools = {"i": ints, "j": ints, "f": numbers.FLOAT_VALUES, "g": numbers.FLOAT_VALUES}
    lists = [pools.get(name, (False, True)) for name in operands]
    every = list(itertools.product(*lists)) if len(operands) < 3 else []
    draw = random.Random(7)
    if not every:
        every = [tuple(draw.choice(pool) for pool in lists) for _ in range(80)]
    elif len(every) > 80:
        every = draw.sample(every, 80)
    return [dict(zip(operands, actual, strict=True)) for actual in every]


GROUPS = sorted({operation.operands for operation in numbers.OPERATIONS})


@pytest.mark.parametrize("operands", GROUPS)
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("native", [False, True])
def test_each_operation_on_edge_values(operands: str, small: bool, native: bool) -> None:
    """Those that never raise for these values share a program; the others have one each, which the interpreter runs."""
    operations = [x for x in numbers.OPERATIONS if x.operands == operands and numbers.is_small(x) is small]
    values = values_of(operands, small)
    due = {operation: [numbers.plain(operation.text, outputs) for outputs in values] for operation in operations}
    total = [
        operation
        for operation in operations
        if not operation.raises
        and not any(isinstance(x, Exception | complex) or leaves_int64(x) for x in due[operation])
    ]
    wrong = []
    together = jg.script(program([operation.text for operation in total], operands))
    for number, outputs in enumerate(values):
        results = together(*tensors(outputs))[:-1]
        for operation, mine in zip(total, results, strict=True):
            wrong.append(judge(operation, due[operation][number], mine))
    for operation in operations:
        if operation not in total and not native:
            alone = jg.script(program([operation.text], operands))
            for number, outputs in enumerate(values):
                answer = judge(operation, due[operation][number], result_of(alone, outputs))
                wrong.append(answer and f"{answer}, of {outputs}")
    outputs = [text for text in wrong if text]
    assert not outputs, "\n".join(outputs[:40])


IN_LOOPS_AND_BRANCHES = {
    "loop": "    r = ({0})\n    for _ in range(n):\n        r = ({0})\n    return r, n\n",
    "branch": "    if n > 1:\n        r = ({0})\n    else:\n        r = ({0})\n    return r, n\n",
    "nested": "    k = 0\n    r = ({0})\n    for _ in range(n):\n        if n > k:\n            while k < n:\n"
    "                r = ({0})\n                k += 1\n    return r, n\n",
    "after": "    {carried}for _ in range(n):\n        {moved}\n    if n > 5:\n        {moved}\n    return ({0}), n\n",
    "called": "    def inner({names}):\n        return ({0})\n    r = inner({names})\n    for _ in range(12):\n"
    "        r = inner({names})\n    return r, n\n",
}


@pytest.mark.parametrize("where", IN_LOOPS_AND_BRANCHES)
@pytest.mark.parametrize("operands", GROUPS)
@pytest.mark.parametrize("native", [False, True])
def test_operations_in_loops_and_branches_and_after_them(where: str, operands: str, native: bool) -> None:
    operations = [operation for operation in numbers.OPERATIONS if operation.operands == operands]
    safe = {name: SAFE[name] for name in operands}
    due = {operation: numbers.plain(operation.text, safe) for operation in operations}
    usable = [
        operation
        for operation in operations
        if not isinstance(due[operation], Exception | complex) and not leaves_int64(due[operation])
    ]
    moved = "; ".join(
        f"{name} = {name} {'and' if name in 'bc' else '+'} {name if name in 'bc' else '0'}" for name in operands
    )
    texts = "".join(f"({operation.text}), " for operation in usable)
    template = IN_LOOPS_AND_BRANCHES[where].replace("{carried}", "").replace("{moved}", moved)
    body = template.replace("{names}", ", ".join(operands)).replace("{0}", texts)
    lines = "".join(f"    {name} = {KINDS[name]}(t_{name})\n" for name in operands)
    result = define(f"{HEAD}def program(n, {', '.join(f't_{name}' for name in operands)}):\n{lines}{body}")
    results = jg.script(result)(*tensors(safe))[0]
    wrong = [
        answer
        for operation, mine in zip(usable, results, strict=True)
        if (answer := judge(operation, due[operation], mine))
    ]
    assert len(usable) > 3 and not wrong, "\n".join(wrong[:40])


def test_what_no_graph_computes_is_refused_at_its_line() -> None:
    wrong = []
    for text in numbers.REFUSED:
        result = program([text], "ijfgb")
        try:
            mine = jg.script(result)(*tensors({name: SAFE[name] for name in "ijfgb"}))
        except jg.ScriptError as error:
            if "hint:" not in str(error) or f"{result.__code__.co_filename.rpartition('/')[2]}:10" not in str(error):
                wrong.append(f"{text}: {error}")
        except Exception as error:
            wrong.append(f"{text}: {error!r}")
        else:
            wrong.append(f"{text}: {mine!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("compensates", [False, True])
def test_a_sum_of_floats_is_that_of_either_python(compensates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.12 on ``sum`` adds floats with a correction."""
    monkeypatch.setattr(numbers_of_traces, "COMPENSATES", compensates)
    total = jg.script(program(["sum([f] * 10)", "sum((1, f, 1e100, -1e100))"], "f"))(*tensors({"f": 0.1}))
    assert total[:-1] == ((1.0, 1.1) if compensates else (0.9999999999999999, 0.0))


LEAVING = {
    "k * 10": "k = k * 10",
    "k *= 9 + i": "k *= 9 + i",
    "k << i": "k = 1 + (k << i)",
    "math.factorial(i)": "k = (math.factorial(i) if i > 3 else 2)",
    "int(f)": "f = f * 1e10; k = int(f)",
    "\u00e4 - k": "\u00e4 = -(2**62) - 2**61; k = 2**62 - i; \u00e4 = \u00e4 - k",
}


@pytest.mark.parametrize("text", LEAVING)
def test_an_int_that_leaves_int64_is_named(text: str) -> None:
    head = "import math\ndef program(n):\n    k, f = 1, 1.0\n    for i in range(n):\n"
    function = define(f"{head}        {LEAVING[text]}\n    return k")
    with pytest.raises(OverflowError) as error:
        jg.script(function)(jg.asarray(80))
    assert str(error.value).splitlines()[0].endswith(f"leaves the range of int64: {text}")


def test_an_int_that_a_dtype_does_not_hold_is_named() -> None:
    function = define(
        "def program(x, n):\n    k = 1\n    for i in range(n):\n        k = k * 7\n        x = x + k\n    return x"
    )
    with pytest.raises(OverflowError, match=r"(?s)does not fit int8: x \+ k\n.*program_\d+\.py:5"):
        jg.script(function)(jg.ones(3, dtype=jg.int8), jg.asarray(4))


def test_quotients_that_lie_next_to_the_middle_of_two_doubles() -> None:
    """``a / b`` where the nearest double hangs on the last of 118 bits."""
    divide = jg.script(program(["i / j"], "ij"))
    draw, count = random.Random(3), 0
    while count < 40:
        b = draw.randrange(2**61 + 1, 2**63, 2)
        for middle in ((b - 1) // 2, (b + 1) // 2):
            a = middle * pow(2, -53, b) % b
            if 2 * a >= b:  # the quotient has its 53 bits behind the point
                values = {"i": a * draw.choice([1, -1]), "j": b}
                assert result_of(divide, values) == values["i"] / b
                count += 1
