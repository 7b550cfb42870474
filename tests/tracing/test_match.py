"""The check of a call: layouts, sizes with names, numbers that vary, relations, and sources that are read once."""

from __future__ import annotations

import itertools
import types
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.ir.dims import Dim
from jitgraph.tracing.call.code import call_code, first_failing
from jitgraph.tracing.call.plan import Handle, Input
from jitgraph.tracing.guards.guard import Guard, Layout, Objects, Relation, Varies
from jitgraph.tracing.guards.source import Source
from tests.tracing.plans import check_of, plan_of

X, Y = Source("argument", 0, "x"), Source("argument", 1, "y")
N = Dim.name("n")
F4 = np.dtype("f4")


def tensor(*shape: int, dtype: str = "f4", grad: bool = False) -> jg.Tensor:
    result = jg.asarray(np.zeros(shape, dtype))
    return result.requires_grad_() if grad else result


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_a_layout_is_dtype_rank_and_sizes(kind: Any) -> None:
    def given(*shape: int, dtype: str = "f4") -> Any:
        return tensor(*shape, dtype=dtype) if kind == "tensor" else np.zeros(shape, dtype)

    for shape in ((2, 3), (N, 3), (3, N), (N, N), (N, 2 * N)):
        check = check_of([Guard(X, Layout(kind, F4, shape))], Objects())
        for sizes in itertools.product((0, 1, 2, 3, 4), repeat=2):
            n = next((s for s, size in zip(sizes, shape, strict=True) if size is N or size == N), 0)
            due = sizes == tuple(size if isinstance(size, int) else n if size == N else 2 * n for size in shape)
            assert check(given(*sizes)) == due, (shape, sizes)
        assert not check(given(2, 3, dtype="f8")) and not check(given(2)) and not check(2)
        assert not check(np.zeros((2, 3), "f4") if kind == "tensor" else tensor(2, 3))


def test_a_layout_says_whether_a_gradient_is_asked_for() -> None:
    for flag in (False, True):
        check = check_of([Guard(X, Layout("tensor", F4, (2,), flag))], Objects())
        assert check(tensor(2, grad=flag)) and not check(tensor(2, grad=not flag))


def test_a_masked_array_is_no_array() -> None:
    check = check_of([Guard(X, Layout("array", F4, (2,)))], Objects())
    assert check(np.zeros(2, "f4")) and not check(np.ma.masked_array(np.zeros(2, "f4")))


def test_differences_are_named() -> None:
    layout = Layout("tensor", F4, (N, 3))
    words = {
        "a NumPy array": layout.mismatch(np.zeros(2)).replace("this ndarray", "a NumPy array"),
        "dtype float64": layout.mismatch(tensor(2, 3, dtype="f8")),
        "rank 1": layout.mismatch(tensor(2)),
        "size 4 on axis 1, not 3": layout.mismatch(tensor(2, 4)),
        "requires a gradient": layout.mismatch(tensor(2, 3, grad=True)),
    }
    for word, text in words.items():
        assert word in text


def test_sizes_have_to_do_with_each_other() -> None:
    guards = [
        Guard(X, Layout("tensor", F4, (N,))),
        Guard(Y, Layout("tensor", F4, (N + 1,))),
        Guard(None, Relation("sizes", "n_n >= 2", "n >= 2")),
    ]
    check = check_of(guards, Objects())
    for a, b in itertools.product(range(5), repeat=2):
        assert check(tensor(a), tensor(b)) == (b == a + 1 and a >= 2)
    failing = first_failing(plan_of(guards, Objects()), None, (tensor(1), tensor(2)))
    assert failing is not None and str(failing) == "n >= 2"


def test_numbers_that_vary() -> None:
    guards = [
        Guard(X, Varies("int", 0)),
        Guard(Y, Varies("float", 1)),
        Guard(None, Relation("numbers", "same_float((n0 * n1), 3.0)", "x * y == 3.0")),
    ]
    check = check_of(guards, Objects())
    assert check(2, 1.5) and check(3, 1.0) and not check(2, 1.0) and not check(2.0, 1.5) and not check(True, 3.0)
    assert not check(2, float("nan")) and not check(10**400, 1.0), "an error is a difference"


def test_a_source_is_read_once_and_known_objects_not_at_all() -> None:
    reads: list[str] = []

    class Node:
        def __init__(self, **argument: Any) -> None:
            self.__dict__.update(argument)

        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("__"):
                reads.append(name)
            return object.__getattribute__(self, name)

    leaf = Node(a=1, b=2)
    root = Node(leaf=leaf)
    objects = Objects()
    source = Source("object", objects.number(root), "root").then("attribute", "leaf")
    guards = [Guard(source.then("attribute", name), objects.value(value)) for name, value in (("a", 1), ("b", 2))]
    assert check_of(guards, objects)()
    reads.clear()
    match = call_code(plan_of(guards, objects), None).match
    assert match(()) is not None and reads == ["leaf", "a", "b"]
    reads.clear()
    match = call_code(plan_of([Guard(source, objects.same(leaf)), *guards], objects), None).match
    assert match(()) is not None and reads == ["leaf", "a", "b"]
    root.leaf = Node(a=1, b=2)
    assert match(()) is None, "the identity of the object on the way is held"


def test_handles_operands_and_what_else_a_call_needs() -> None:
    objects, box = Objects(), types.SimpleNamespace(w=tensor(3), rate=0.5, array=np.ones(2))
    root = Source("object", objects.number(box), "box")
    w, rate, array = (root.then("attribute", name) for name in ("w", "rate", "array"))
    guards = [
        Guard(X, Layout("tensor", F4, (2,))),
        Guard(Y, Varies("int", 0)),
        Guard(w, Layout("tensor", F4, (3,))),
        Guard(array, Layout("array", np.dtype("f8"), (2,))),
        Guard(rate, objects.kind(float)),
    ]
    handles = tuple(Handle(source, "", None, False) for source in (X, w))
    inputs = (
        Input("handle", 1),
        Input("handle", 0),
        Input("array", array),
        Input("float", rate),
        Input("number", ("(n0 + 1)", F4)),
    )
    plan = plan_of(guards, objects, handles=handles, inputs=inputs)
    match = call_code(plan, None).match
    x = tensor(2)
    for n in (1, 5):
        box.rate = n / 2
        matched = match((x, n))
        assert matched is not None
        arguments, operands, extra = matched
        assert arguments == (x, box.w) and extra == (n,)
        assert operands[0] is box.w._value and operands[1] is x._value
        assert [value.array.tolist() for value in operands[2:]] == [[1.0, 1.0], n / 2, n + 1]
    box.rate = 1
    assert match((x, 1)) is None and str(first_failing(plan, None, (x, 1))) == "box.rate is a float"
