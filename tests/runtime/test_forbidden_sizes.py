"""Sizes that a graph's rules forbid are refused by every reader of a saved file, by name; and by the code itself.

A loop over the op table finds every op whose size rule has a condition: its samples are recorded with a name for every
extent, and the constraints that the rule records are what a call must not break.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compiler, dtypes, ir
from jitgraph.artifact import SavedEntry, write_artifact
from jitgraph.errors import DTypeError, GraphError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.printer import print_graph
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader.entry import ShapePlan
from tests.op_loop import NOT_COMPILED, require_same
from tests.runtime.c_library import CError, Library

Sizes = dict[str, int]


class Case(NamedTuple):
    """Samples of an op with names for their extents, in one graph, and the sizes that they have."""

    graph: Graph
    sizes: Sizes


@functools.cache
def case_of(name: str) -> Case | None:
    """The op's samples whose rule has a condition, one for each set of conditions; None where none has."""
    op = OPS[name]
    assert op.samples is not None
    samples = next((actual for dtype in (dtypes.float32, *dtypes.DTYPES) if (actual := op.samples(dtype))), ())
    builder, sizes, outputs, seen = GraphBuilder(), Sizes(), [], set()
    for sample in samples:
        try:
            alone = GraphBuilder()
            recorded(alone, op, sample, "x", {})
        except (ShapeError, DTypeError, GraphError):
            continue  # the rule takes no names there
        conditions = tuple(map(str, alone.constraints))
        own = dict(zip(names_in(alone), (extent for x in sample.inputs for extent in np.shape(x)), strict=True))
        if (
            conditions and conditions not in seen and not broken_by(list(alone.constraints), own)
        ):  # 1 stretches, a name not
            seen.add(conditions)
            outputs += recorded(builder, op, sample, f"s{len(seen)}x", sizes)
    return Case(builder.graph(outputs, name), sizes) if outputs else None


def names_in(builder: GraphBuilder) -> list[str]:
    return [str(extent) for value in builder.inputs for extent in value.shape]


def recorded(builder: GraphBuilder, op: Op, sample: Sample, prefix: str, sizes: Sizes) -> Sequence[Any]:
    """The op on inputs in which every extent has a name of its own."""
    inputs = []
    for number, array in enumerate(map(np.asarray, sample.inputs)):
        names = [f"{prefix}{number}_{axis}" for axis in range(array.ndim)]
        sizes |= dict(zip(names, array.shape, strict=True))
        inputs.append(builder.input(TensorType(array.dtype, tuple(map(Dim.name, names))), f"{prefix}{number}"))
    with context.using(emitter=builder, constraints=builder.constraints):
        return builder.emit(op, inputs, sample.attrs, sample.regions)


def names_of(constraint: SizeConstraint) -> list[str]:
    return sorted(dims.names(constraint.left) | dims.names(constraint.right))


def broken_by(constraints: Sequence[SizeConstraint], sizes: Sizes) -> list[str]:
    """The texts of the constraints that these sizes break."""
    return [str(constraint) for constraint in constraints if not constraint.holds(sizes)]


def forbidden(constraints: Sequence[SizeConstraint], sizes: Sizes) -> Iterator[Sizes]:
    """For each constraint the sizes that break it, where one of its names is 0, 1, or changes by one or two."""
    for constraint in constraints:
        for name in names_of(constraint):
            for size in sorted({0, 1, max(0, sizes[name] - 1), sizes[name] + 1, sizes[name] + 2}):
                other = {**sizes, name: size}
                if not constraint.holds(other):
                    yield other


def shapes_of(graph: Graph, sizes: Sizes) -> list[tuple[int, ...]]:
    return [tuple(dims.evaluate(extent, sizes) for extent in value.shape) for value in graph.inputs]


def arrays_of(graph: Graph, sizes: Sizes) -> list[Any]:
    pairs = zip(graph.inputs, shapes_of(graph, sizes), strict=True)
    return [np.ones(shape, value.dtype) for value, shape in pairs]


NAMES = [
    name
    for name, op in OPS.items()
    if name not in NOT_COMPILED and op.lowering != "host" and op.samples is not None and case_of(name) is not None
]


def save(graph: Graph, path: Path) -> loader.Entry:
    """The graph in a file as ``jg.save`` writes it; the compiled entry."""
    compiled = compiler.compile(graph)
    assert isinstance(compiled, Executable)
    signature = compiled.signature.but_with(name="forward")
    entry = SavedEntry(signature, print_graph(graph, full=True), {compiled.target.name: compiled.image})
    write_artifact(path, entries={"forward": entry}, weights={}, metadata={})
    return compiled.entry


def require_refusal(
    call: Callable[[], object], broken: Sequence[str], what: str, refusals: tuple[type[Exception], ...]
) -> None:
    """The call must raise an error that names one of the conditions, in whichever order its sides stand."""
    try:
        result = call()
    except refusals as error:
        assert any(text in str(error) for text in broken), f"{what}: {error} names none of {broken}"
    else:
        pytest.fail(f"{what}: {broken} is broken, but the result is {result}")


def test_the_table_has_conditions() -> None:
    assert len(NAMES) >= 50
    assert {"slice", "reshape", "concat", "conv", "max_pool2d", "pad", "dynamic_slice", "dot", "scan"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_reader_refuses_forbidden_sizes(
    name: str, tmp_path: Path, written_loader: Any, c_library: Library | None
) -> None:
    case = case_of(name)
    assert case is not None
    graph, path = case.graph, tmp_path / "model.jg"
    save(graph, path)
    readers: dict[str, Callable[..., Any]] = {"loader.py": written_loader.load(path), "jg.load": jg.load(path)}
    refusals = (jg.JitgraphError, written_loader.JitgraphError, CError)
    if c_library is not None:
        readers["loader.c"] = c_library.load(path)
    if name not in ("scatter_add", "scatter", "nll_loss", "cross_entropy"):  # whose ones may be no index
        for reader in readers.values():
            reader(*arrays_of(graph, case.sizes))
    tried = 0
    for sizes in forbidden(graph.constraints, case.sizes):
        broken, arrays = broken_by(graph.constraints, sizes), arrays_of(graph, sizes)
        for what, reader in readers.items():
            require_refusal(functools.partial(reader, *arrays), broken, f"{what} at {sizes}", refusals)
        tried += 1
    assert tried >= len(graph.constraints) / 2


@pytest.mark.parametrize("name", NAMES)
def test_the_native_code_verifies_its_own_conditions(name: str, tmp_path: Path) -> None:
    """Entered past every check of the loader, with buffers that have room for what it should not do."""
    case = case_of(name)
    assert case is not None
    entry = save(case.graph, tmp_path / "model.jg")
    plan = entry.plan(tuple(shapes_of(case.graph, case.sizes)))
    roomy = [np.zeros(1 << 14) for _ in (*entry.signature.parameters, *entry.signature.outputs)]
    buffers = entry.pack(*map(loader.address_of, roomy))
    order = entry.signature.dims
    below = ({**case.sizes, size: -1} for size in order)
    for sizes in (*forbidden(case.graph.constraints, case.sizes), *below):
        vector = (ctypes.c_int64 * len(order))(*[sizes[size] for size in order])
        broken = [*broken_by(case.graph.constraints, sizes), *[f"{s} >= 0" for s in order if sizes[s] < 0]]
        other = ShapePlan(vector, plan.outputs, 1 << 24, plan.makers)
        call = functools.partial(entry.call, other, buffers)
        require_refusal(call, broken, f"the entry at {sizes}", (jg.JitgraphError,))


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_with_a_condition_less_is_refused(name: str) -> None:
    """Where what is left does not imply it: tried over small sizes."""
    case = case_of(name)
    assert case is not None
    graph = case.graph
    for position, dropped in enumerate(graph.constraints):
        left = (*graph.constraints[:position], *graph.constraints[position + 1 :])
        names = names_of(dropped)
        related = [c for c in left if set(names_of(c)) & set(names)]
        every = sorted({*names, *(name for c in related for name in names_of(c))})
        tried = ({**case.sizes, **dict(zip(every, each, strict=True))} for each in product(range(7), repeat=len(every)))
        implied = len(every) <= 4 and all(dropped.holds(s) or broken_by(related, s) for s in tried)
        weak = Graph(graph.inputs, graph.nodes, graph.outputs, left, graph.name)
        if implied:
            continue
        try:
            ir.verify(weak)
        except GraphError:
            continue
        # Accepted: then it is no condition of memory (a composite runs by its region), and the code agrees with NumPy.
        assert OPS[name].kind == "composite", f"{name} without {dropped}"
        compiled = compiler.compile(weak)
        for sizes in forbidden([dropped], case.sizes):
            if not broken_by(left, sizes):
                arrays = arrays_of(weak, sizes)
                require_same(ir.interpret(weak, arrays), compiled.run(arrays), ulps=8)


# --- the same through what users write ------------------------------------------------------------------------------

F = jg.nn.functional
FUNCTIONS: Mapping[str, tuple[Callable[..., Any], tuple[int, ...], dict[int, str], Sequence[int]]] = {
    "slice": (lambda x: x[1:3] * 1, (5,), {0: "n"}, (0, 1, 2)),
    "index": (lambda x: x[4] + 1, (6, 2), {0: "n"}, (0, 1, 3, 4)),
    "last": (lambda x: x[-2] + 1, (6, 2), {0: "n"}, (0, 1)),
    "shift": (lambda x: x[2:] - x[:-2], (7,), {0: "n"}, (0, 1)),
    "reshape": (lambda x: x.reshape(3, 4) * 2, (12,), {0: "n"}, (0, 3, 11, 13, 24)),
    "stack": (lambda x: jg.stack([x, jg.ones((6,))]), (6,), {0: "n"}, (0, 1, 5, 7)),
    "concat": (lambda x: jg.concat([x, jg.ones((3, 4))], axis=1), (3, 2), {0: "n"}, (0, 1, 2, 4)),
    "conv": (lambda x: F.conv2d(x, jg.ones((2, 1, 3, 3))), (1, 1, 6, 6), {2: "h", 3: "w"}, (0, 1, 2)),
    "pool": (lambda x: F.max_pool2d(x, 3), (1, 1, 6, 6), {2: "h", 3: "w"}, (0, 1, 2)),
    "sum of two": (lambda x: x + jg.ones((4, 2)), (4, 2), {0: "n"}, (0, 1, 3, 5)),
    "product": (lambda x: x @ jg.ones((4, 2)), (3, 4), {1: "k"}, (0, 1, 3, 5)),
    "place": (lambda x: jg.argmax(x, axis=0), (4, 2), {0: "n"}, (0,)),
}


CUTS, RECORDED_ANEW = ("slice", "shift"), ("the function",)
"""Slices, which Python cuts at another side of the array's end there, and what can record that; files cannot."""


def interpreted(model: Any) -> Callable[..., Any]:
    """The model under JITGRAPH_INTERPRET=1."""

    def run(x: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JITGRAPH_INTERPRET", "1")
            return jg.trace(lambda x: model(x), dynamic_shapes={"x": {0: "any"}})(x)

    return run


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_users_write_is_refused_everywhere(
    name: str, tmp_path: Path, written_loader: Any, c_library: Library | None
) -> None:
    function, shape, dynamic, sizes = FUNCTIONS[name]
    traced = jg.trace(function, dynamic_shapes={"x": dynamic})
    path, example = tmp_path / "model.jg", np.ones(shape, np.float32)
    jg.save(traced, path, example_inputs=(example,))
    again = jg.load(path)
    readers: dict[str, Callable[..., Any]] = {
        "the function": traced, "its compiled code": traced.lower(example).compile(),
        "loader.py": written_loader.load(path),
        "jg.load": again, "jg.load, compiled": again.lower(example).compile(),
        "jg.load in a trace": jg.trace(lambda x: again(x), dynamic_shapes={"x": dynamic}),
        "jg.load, interpreted": interpreted(again),
    }  # fmt: skip
    if c_library is not None:
        readers["loader.c"] = c_library.load(path)
    for reader in readers.values():
        reader(example)
    for size in sizes:
        axis = next(iter(dynamic))
        arguments = np.ones((*shape[:axis], size, *shape[axis + 1 :]), np.float32)
        for what, reader in readers.items():
            if name in CUTS and what in RECORDED_ANEW:
                np.testing.assert_array_equal(reader(arguments).numpy(), function(jg.asarray(arguments)).numpy())
                continue
            with pytest.raises((jg.JitgraphError, written_loader.JitgraphError, CError, IndexError)) as raised:
                pytest.fail(f"{what} at {size}: {reader(arguments)}")
            named = re.search(rf"\b{re.escape(dynamic[axis])}\b", str(raised.value))
            assert named or str(size) in str(raised.value), f"{what} at {size}: {raised.value}"
