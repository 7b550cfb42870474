"""Programs that print: each a function and arguments, to be run in every way and compared by what it writes."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jitgraph as jg


class Program(NamedTuple):
    """A function that prints, with the arrays it takes; ``staged`` says that it needs ``jg.script``."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    staged: bool = False


X = np.array([1.5, -2.0, 10.25], np.float32)


def plain(x: Any) -> Any:
    print("start")
    y = x * 2
    print("y", y, 3, None, sep=" | ", end=" <-\n")
    print(x.sum(), [y, {"a": x}], (x.shape, x.dtype.name))
    print()
    print("braces {} {{}} {0}", end="\n\n")
    return y


def formats(x: Any) -> Any:
    total = x.sum()
    jg.debug.print("plain {} {}", x, total)
    jg.debug.print("{1} before {0}, again {0}", x, total)
    jg.debug.print("{total:.3f} {total:>12} {total:+e} {total:08.2f}|{0!r:>60}|{0!s:.6}|", x, total=total)
    jg.debug.print("{{literal}} {} {}", "text", 4)
    jg.debug.print("n = {:5d}", (x > 0).sum())
    return total


def dead(x: Any) -> Any:
    print("nobody needs", x * 3)
    return x


def branches(x: Any) -> Any:
    def positive(x: Any) -> Any:
        print("positive", x)

        def large(x: Any) -> Any:
            print("large")
            return x + 1

        def small(x: Any) -> Any:
            return x - 1

        y = jg.cond(x.sum() > 5, large, small, x)
        print("inner done", y)
        return y

    def negative(x: Any) -> Any:
        print("negative", -x)
        return -x

    y = jg.cond(x.sum() > 0, positive, negative, x)
    z = jg.cond(x.sum() > 0, negative, positive, x)
    print("done", y, z)
    return y + z


def loops(x: Any) -> Any:
    print("before")

    def asked(state: Any) -> Any:
        print("asked", state[0])
        return state[0] < 3

    def turn(state: Any) -> Any:
        i, y = state
        print("turn", i, y)

        def deeper(carry: Any, row: Any) -> Any:
            jg.debug.print("  deeper {} {}", carry, row)
            return carry + row, row * 2

        total, doubled = jg.scan(deeper, jg.zeros((), dtype=y.dtype), y)
        print("total", total)
        return i + 1, doubled

    i, y = jg.while_loop(asked, turn, (jg.asarray(0), x))
    print("after", i, y)
    return y


def quiet_parts(x: Any) -> Any:
    y = jg.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 2), (jg.asarray(0), x))[1]
    print("one", y)
    z = jg.scan(lambda c, v: (c + v, c), jg.zeros((), dtype=x.dtype), y)[1]
    print("two", z)
    return jg.sort(z)


def staged(x: Any) -> Any:
    i = 0
    while x.sum() < 100:
        if x[0] > 5:
            print("many", x)
        elif i > 0:
            print("some", x, end="!\n")
        else:
            print("first")
        x = x * 2
        i += 1
    for k in range(3):
        if x[k] < 0:
            print("negative at", k)
            continue
        print("row", k, x[k])
    for row in x:
        if row < 0 and x[0] > 0:
            print("stop")
            break
        print(row)
    return x


class Shout:
    def __format__(self, spec: str) -> str:
        return f"<{spec.upper()}>"


def texts(x: Any) -> Any:
    """Texts among the arguments of prints, of numbers that the graph computes."""
    total, width = 0, 7
    while x.sum() < 100 and total < 5:
        total += 1
        half = total / 2
        print(f"turn {total} of {{5}}: {half:.3f} {half!r:>{width}} {total + 1=} {total > 2}", x)
        print("i = " + str(total) + "," + f" {half:+e}|" + repr(half) + format(total, "04d") + "{}{}")
        print("{0:>5}|{h:8.2f}|{0!r}".format(total, h=half))  # noqa: UP032
        print("plain", f"{x.sum():.2f} {Shout():abc} {'text'!r} {[total, x[0]]}")
        print(f"row {'even' if len(x) % 2 == 0 else 'odd'}", sep="-", end=f"{3}.\n")
        jg.debug.print(f"step {total}: {{}} {{half:.1f}}", x[:1], half=half)
        if total > 2:
            print(f"{total}", "", f"{(total, half)}", f"{x}")
        x = x * 2
    return x


def large(x: Any) -> Any:
    y = x * 2 + 1
    print("rows", y.sum(axis=1)[:3], y)
    return y.sum()


def dtypes(*arrays: Any) -> Any:
    for array in arrays:
        print(array, array.dtype.name)
    return arrays[0]


def matrices(x: Any, y: Any) -> Any:
    print("x =", x)
    print(y, x[:, :1], x[:0])
    return x


def by_other_ways(x: Any) -> Any:
    """``print`` as an attribute and an item, under a name of its own, and imported."""
    from builtins import print as imported

    builtins.print("attribute", x)
    getattr(builtins, "print")("by name", x)  # noqa: B009 - as programs that look a function up
    vars(builtins)["print"]("item", x)
    own = print
    own("own name", x, x.sum())
    imported("imported", x)
    return x + 1


def in_a_branch(x: Any) -> Any:
    if x.sum() > 0:
        builtins.print("positive", x)
    return x


PROGRAMS = {
    "plain": Program(plain, (X,)),
    "lookups": Program(by_other_ways, (X,)),
    "branch": Program(in_a_branch, (X,), staged=True),
    "formats": Program(formats, (X,)),
    "dead": Program(dead, (X,)),
    "branches": Program(branches, (X,)),
    "other branches": Program(branches, (-X,)),
    "loops": Program(loops, (X,)),
    "quiet parts": Program(quiet_parts, (X,)),
    "staged": Program(staged, (np.array([1.5, -2.0, 2.25], np.float32),), staged=True),
    "texts": Program(texts, (np.array([1.5, -1.0, 10.25], np.float32),), staged=True),
    "large": Program(large, (np.arange(400_000, dtype=np.float64).reshape(400, 1000),)),
    "matrices": Program(matrices, (np.arange(12.0).reshape(3, 4) / 8, np.arange(24).reshape(2, 3, 4))),
    "dtypes": Program(
        dtypes,
        (
            np.array([True, False]),
            np.array([-128, 127], np.int8),
            np.array([2**64 - 1, 0], np.uint64),
            np.array(7, np.int32),
            np.array([0.1, 2.5], np.float16),
            np.array([1e-9, 1e20, np.nan, -np.inf]),
            np.array(False),
            np.zeros((0, 3), np.float32),
        ),
    ),
}


def to_errors(x: Any) -> Any:
    print("out", x)
    print("err", x, file=sys.stderr)
    print("out again", file=sys.stdout, flush=True)
    return x
