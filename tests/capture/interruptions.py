"""Statements that leave a block before its end or come back to it: errors, context managers, generators."""

from __future__ import annotations

from tests.capture.rule import Rule
from tests.capture.syntax import form

_G = "G$n = $v"

INTERRUPTIONS: tuple[Rule, ...] = (
    form("error under a condition", "G$n", "G$n = 9", "G$n = 1", lines="if G$n > 5:\n    raise ValueError(G$n)"),
    form(
        "class with a base",
        "T$n().m()",
        "B$n.k = $v",
        lines="class T$n(B$n):\n    def m(self):\n        return super().k",
        state="class B$n:\n    k = 1",
    ),
    form("assert", "r$n", "G$n = 3", "G$n = 4", lines="assert G$n > 1, 'too small'\nr$n = G$n"),
    form(
        "failing assert",
        "r$n",
        _G,
        lines="try:\n    assert G$n > 1\n    r$n = 5\nexcept AssertionError as e$n:\n    r$n = len(e$n.args) + 6",
    ),
    form(
        "raise from",
        "r$n",
        _G,
        lines="""\
try:
    try:
        r$n = {2: 4}[G$n]
    except KeyError as e$n:
        raise ValueError(7) from e$n
except ValueError as e$n:
    r$n = e$n.args[0]""",
    ),
    form(
        "exception groups",
        "r$n",
        _G,
        lines="""\
r$n = 1
try:
    if G$n:
        raise ExceptionGroup('g', [ValueError(3)])
except* ValueError as e$n:
    r$n = e$n.exceptions[0].args[0]""",
    ),
    form(
        "finally with a return",
        "r$n",
        _G,
        lines="def inner$n():\n    try:\n        return G$n\n    finally:\n        G$n\nr$n = inner$n()",
    ),
    form(
        "with two managers",
        "r$n",
        _G,
        lines="""\
with contextlib.nullcontext(G$n) as q$n, contextlib.suppress(KeyError):
    r$n = q$n
    raise KeyError""",
    ),
    form(
        "with that passes an error on",
        "r$n",
        _G,
        lines="""\
r$n = 5
try:
    with contextlib.nullcontext():
        r$n = {2: 3}[G$n]
except KeyError:
    pass""",
    ),
    form(
        "while with else",
        "r$n",
        "G$n = 4",
        "G$n = 1",
        lines="r$n = 0\nwhile r$n < G$n:\n    r$n += 1\nelse:\n    r$n += 5",
    ),
    form(
        "nested loops with a break",
        "r$n",
        _G,
        lines="""\
r$n = 0
for i$n in range(3):
    for j$n in range(3):
        if j$n == G$n:
            break
        r$n += 1""",
    ),
    form(
        "generator that is sent to",
        "r$n",
        _G,
        lines="g$n = turn$n()\nnext(g$n)\nr$n = g$n.send(3)",
        state="G$n = 2\ndef turn$n():\n    got = yield 1\n    yield got * G$n",
    ),
    form(
        "generator that is thrown into",
        "r$n",
        _G,
        lines="g$n = turn$n()\nnext(g$n)\nr$n = g$n.throw(KeyError)",
        state="G$n = 2\ndef turn$n():\n    try:\n        yield 1\n    except KeyError:\n        yield G$n",
    ),
    form(
        "generator with a return",
        "r$n",
        _G,
        lines="r$n = list(outer$n())[-1]",
        state="G$n = 2\ndef turn$n():\n    yield 1\n    return G$n\ndef outer$n():\n    yield (yield from turn$n())",
    ),
    form(
        "coroutine run by hand",
        "r$n",
        _G,
        lines="try:\n    main$n().send(None)\nexcept StopIteration as e$n:\n    r$n = e$n.value",
        state="G$n = 2\nasync def step$n():\n    return G$n\nasync def main$n():\n    return await step$n()",
    ),
)
