"""Functions with branches, loops and prints: small ones, of which each turn is a few launches."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgraph as jg
from jitgraph.ir.graph import Graph
from tests.codegen.cuda.programs import Program, floats, ints

nn = jg.nn.functional


def rnn(x: Any, h: Any, w: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jg.tanh(x + h @ w)
        return h, h * 2

    return jg.scan(step, h, x)


def newton(a: Any) -> Any:
    return jg.while_loop(lambda c: jg.max(jg.abs(c * c - a)) > 1e-5, lambda c: (c + a / c) * 0.5, a)


def shrink(x: Any) -> Any:
    def body(c: Any) -> Any:
        return jg.sin(c[0]) * 0.9, c[1] + 1

    y, count = jg.while_loop(lambda c: jg.sum(c[0] * c[0]) > 1.5, body, (x, jg.asarray(0)))
    return jg.sum(y) + count


def chosen(x: Any, least: Any) -> Any:
    return jg.cond(jg.sum(x) > least, lambda x: (x * 2, jg.sum(x)), lambda x: (x - 1, x[0, 0]), x)


def swapped(a: Any, b: Any, turns: Any) -> Any:
    return jg.while_loop(lambda c: c[2] < turns, lambda c: (c[1], c[0], c[2] + 1), (a, b, jg.asarray(0)))


def nested(x: Any) -> Any:
    def row(total: Any, row: Any) -> Any:
        def element(c: Any, v: Any) -> Any:
            return jg.cond(c > v, lambda c: c - v, lambda c: c + v * 0.5, c), c

        last, seen = jg.scan(element, total, row)
        return jg.while_loop(lambda c: c > 1.0, lambda c: c * 0.5, last), seen

    return jg.scan(row, jg.asarray(np.float32(0.25)), x)


def rows(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        c = nn.softmax(c + row, axis=-1)
        return c, jg.sum(c * c)

    return jg.scan(step, x[0], x)


def one_long_row(x: Any) -> Any:
    return jg.while_loop(lambda c: jg.sum(c) > 1.0, lambda c: c * 0.5, x)


def products(a: Any, b: Any) -> Any:
    """Where the memory plan has a product of the body at the place of the predicate."""
    return jg.while_loop(lambda c: jg.sum(c) > 1.0, lambda c: jg.abs(c @ b) @ b, a)


def powers(a: Any, b: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return (c @ b) @ a, jg.max(c)

    return jg.scan(step, a[:, :3] @ a[:3], None, length=3)


def printing(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = c + v
        jg.debug.print("c = {}", c)
        return c, c

    last, seen = jg.scan(step, x[0] * 0, x)
    jg.cond(jg.sum(last) > 0, lambda c: jg.debug.print("above {}", c), lambda c: jg.debug.print("below"), last)
    return seen


def taking(x: Any, index: Any) -> Any:
    def step(c: Any, i: Any) -> Any:
        return c * 2 + jg.take(x, i, axis=0), c

    return jg.scan(step, x[0] * 0, index)


def taking_while(x: Any, step: Any) -> Any:
    """Fails in the fourth of ever more turns where ``step`` is 2."""

    def body(c: Any) -> Any:
        return c[0] + jg.take(x, c[1], axis=0), c[1] + step

    return jg.while_loop(lambda c: c[1] >= 0, body, (x[0] * 0, jg.asarray(0)))


@jg.script
def writing(x: Any, table: Any) -> Any:
    """Elements and rows written in the carries' own memory, beside reads of their neighbours."""
    out, table = x * 1, table * 1
    for i in range(1, x.shape[0]):
        out[i], out[i - 1] = out[i - 1] * 0.5, out[i] + table[i, 2]
        if out[i] > 0:
            table[i] = table[i - 1] - out[i]
            table[i, 1:3] = table[i, 0:2] * 2
    return out, table


def exchanged(a: Any, b: Any, turns: Any) -> Any:
    """Carries that exchange their memory, in one branch too."""

    def body(c: Any) -> Any:
        a, b, i = c
        a, b = jg.cond(i % 3 == 1, lambda a, b: (b, a), lambda a, b: (a, b + 1), a, b)
        return b, a * 0.5 + b, i + 1

    return jg.while_loop(lambda c: c[2] < turns, body, (a, b, jg.asarray(0)))


def rotated(a: Any, x: Any) -> Any:
    """Four buffers go round, of which each turn reads one element, in a loop in a loop."""

    def row(c: Any, x: Any) -> Any:
        def element(c: Any, v: Any) -> Any:
            return (c[1], c[2], c[3], c[0]), c[0][1] + v

        return jg.scan(element, c, x)

    return jg.scan(row, (a, a + 1, a + 2, a + 3), x)


def _positive(*shape: int) -> Any:
    return jg.abs(floats(*shape)) + 1


PROGRAMS: dict[str, Program] = {
    "rnn": (rnn, (floats(5, 4, 8), floats(4, 8), floats(8, 8))),
    "gradient_of_rnn": (
        lambda w, x, h: jg.grad(lambda w: jg.sum(rnn(x, h, w)[1] ** 2))(w),
        (floats(8, 8), floats(5, 4, 8), floats(4, 8)),
    ),
    "newton": (newton, (_positive(6),)),
    "gradient_of_while": (jg.grad(shrink), (_positive(4),)),
    "true": (chosen, (floats(3, 4), jg.asarray(np.float32(-1e6)))),
    "false": (chosen, (floats(3, 4), jg.asarray(np.float32(1e6)))),
    "swapped": (swapped, (floats(4), floats(4) + 3, jg.asarray(5))),
    "no_turns_of_while": (swapped, (floats(4), floats(4) + 3, jg.asarray(0))),
    "no_turns_of_scan": (rnn, (floats(0, 4, 8), floats(4, 8), floats(8, 8))),
    "nested": (nested, (floats(3, 4),)),
    "rows": (rows, (floats(4, 5, 70),)),
    "one_long_row": (one_long_row, (_positive(3000),)),
    "products": (products, (_positive(5, 20), jg.abs(floats(20, 20)) * 0.02)),
    "powers": (powers, (floats(4, 800), floats(800, 4) * 0.01)),
    "printing": (printing, (floats(3, 2),)),
    "writing": (writing, (floats(5), floats(5, 70))),
    "exchanged": (exchanged, (floats(67), floats(67) + 3, jg.asarray(5))),
    "rotated": (rotated, (floats(65), floats(3, 5))),
    "taking": (taking, (floats(6, 3), ints(0, 6, 4))),
}


def traced(name: str) -> tuple[Graph, list[Any]]:
    """The graph of a program, and its arguments."""
    function, arguments = PROGRAMS[name]
    return jg.trace(function).lower(*arguments).graph, [argument.numpy() for argument in arguments]
