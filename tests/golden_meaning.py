"""What the golden files' texts mean: graphs are run before and after, gradients are held against differences.

So a wrong text is red however it came into the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.dtypes import is_bool, is_float
from jitgraph.ir import dims
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType, TokenType
from jitgraph.ops import stop_gradient
from jitgraph.ops.effects import Token
from jitgraph.ops.sampling import edges
from jitgraph.passes.autodiff import carries_gradient
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.differences import along
from tests.op_loop import as_stored
from tests.programs.arrays import assert_same

Numbers = Literal["ordinary", "positive", "edges"]


def sizes_of(graph: Graph) -> dict[str, int]:
    """Small numbers for the named sizes, which satisfy the graph's constraints."""
    names = sorted(
        {
            name
            for value in graph.inputs
            if isinstance(value.type, TensorType)
            for dim in value.shape
            for name in dims.names(dim)
        }
    )
    for numbers in itertools.product((5, 4, 3, 6, 8), repeat=len(names)):
        sizes = dict(zip(names, numbers, strict=True))
        if all(constraint.holds(sizes) for constraint in graph.constraints):
            return sizes
    raise AssertionError(f"no small sizes satisfy the constraints of {graph.name}")


def samples(graph: Graph, seed: int = 0, *, numbers: Numbers = "ordinary") -> list[Any]:
    """Arguments of ``graph``: small integers, and floats of about 1 of both signs, above 0, or the edge values."""
    rng = np.random.default_rng(seed)
    sizes = sizes_of(graph)
    results: list[Any] = []
    for value in graph.inputs:
        if isinstance(value.type, TokenType):
            results.append(Token())
            continue
        shape = tuple(dims.evaluate(dim, sizes) for dim in value.shape)
        if is_bool(value.dtype):
            array = rng.integers(0, 2, shape) == 1
        elif not is_float(value.dtype):
            array = rng.integers(0, 3, shape)
        elif numbers == "edges":
            array = rng.choice(edges(value.dtype), shape)
        else:
            signs = [1] if numbers == "positive" else [-1, 1]
            array = rng.uniform(0.25, 1.75, shape) * rng.choice(signs, shape)
        results.append(np.asarray(array).astype(value.dtype))
    return results


Outcome = tuple[type[Exception], str] | list[Any]


def outcome(run: Callable[..., Sequence[Any]], *arguments: Any, **options: Any) -> Outcome:
    """What a run gives: its tensors, or the error of a failed check."""
    try:
        return [array for array in run(*arguments, **options) if not isinstance(array, Token)]
    except (ValueError, IndexError) as error:
        return type(error), str(error)


def _stored_for(graph: Graph, arguments: list[Any]) -> list[Any]:
    """The arguments, complex ones as floats with a last axis of two where the graph takes these."""
    return [
        as_stored(x) if isinstance(value.type, TensorType) and value.dtype != x.dtype else x
        for value, x in zip(graph.inputs, arguments, strict=True)
    ]


def require_same_values(before: Graph, after: Graph, *, fastmath: bool = False) -> None:
    """Both graphs give the same for several arguments: the same bits, or to the bounds of inexact ops.

    Tokens are left out. Where the one raises, so does the other. Under fast math it holds about, for numbers above 0.
    """
    tensors = replace(after, outputs=tuple(value for value in after.outputs if isinstance(value.type, TensorType)))
    modes: tuple[Numbers, ...] = ("positive",) if fastmath else ("ordinary", "ordinary", "edges", "edges")
    for seed, numbers in enumerate(modes):
        arguments = samples(before, seed, numbers=numbers)
        kept = [x for x in arguments if len(after.inputs) == len(before.inputs) or not isinstance(x, Token)]
        wanted, actual = outcome(interpret, before, arguments), outcome(interpret, after, _stored_for(after, kept))
        if isinstance(wanted, list) and isinstance(actual, list):
            wanted = [as_stored(x) if have.dtype != x.dtype else x for x, have in zip(wanted, actual, strict=True)]
        if isinstance(wanted, tuple) or isinstance(actual, tuple):
            assert actual == wanted
        elif fastmath:
            for have, want in zip(actual, wanted, strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-5)
        else:
            assert_same(tensors, actual, wanted)


def require_same_schedule(graph: Graph, schedule: Schedule) -> None:
    """The slow executor of the schedule gives what the interpreter gives, with and without donated memory."""
    modes: tuple[Numbers, ...] = ("ordinary", "ordinary", "edges")
    for seed, numbers in enumerate(modes):
        arguments = samples(graph, seed, numbers=numbers)
        wanted = outcome(interpret, graph, arguments)
        for donate in (False, True):
            result = outcome(execute_schedule, schedule, arguments, donate=donate)
            if isinstance(wanted, tuple) or isinstance(result, tuple):
                assert isinstance(wanted, tuple) and isinstance(result, tuple), (wanted, result)
                assert result[0] is wanted[0]
                assert result[1].startswith(wanted[1])
            else:
                assert_same(graph, result, wanted)


def require_gradients(
    graph: Graph, seeds: Sequence[int], wrt: Sequence[int], pull: Callable[[list[Any], list[Any]], Sequence[Any]]
) -> None:
    """What ``pull(arguments, cotangents)`` gives for each input of ``wrt`` is the slope of the outputs ``seeds``."""
    rng = np.random.default_rng(7)
    for seed in range(2):
        arguments = samples(graph, seed)
        function, inputs = _stopped(replace(graph, outputs=tuple(graph.outputs[i] for i in seeds)), arguments)
        cotangents = [rng.uniform(0.5, 1.5, x.shape).astype(x.dtype) for x in interpret(function, inputs)]
        for i, gradient in zip(wrt, pull(arguments, cotangents), strict=True):
            direction = rng.uniform(0.5, 1.0, arguments[i].shape)
            slope = along(function, inputs, i, direction, cotangents)
            np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-6, atol=1e-7, err_msg=f"input {i}")


def _stopped(graph: Graph, arguments: list[Any]) -> tuple[Graph, list[Any]]:
    """The graph with what ``stop_gradient`` gives as further inputs, which do not move, and their values."""
    stops = [node for node in graph.nodes if node.op is stop_gradient]
    held = tuple(node.output for node in stops)
    nodes = tuple(node for node in graph.nodes if node not in stops)
    function = replace(graph, inputs=(*graph.inputs, *held), nodes=nodes)
    return function, [*arguments, *interpret(replace(graph, outputs=held), arguments)]


def require_tangents(graph: Graph, push: Callable[[list[Any], list[Any]], Sequence[Any]]) -> None:
    """What ``push(arguments, tangents)`` gives for each float output is its slope along the tangents."""
    rng = np.random.default_rng(7)
    floats = [i for i, value in enumerate(graph.inputs) if carries_gradient(value.type)]
    arguments = samples(graph)
    tangents = [rng.uniform(0.5, 1.0, arguments[i].shape) for i in floats]
    outputs = [value for value in graph.outputs if carries_gradient(value.type)]
    for output, pushed in zip(outputs, push(arguments, tangents), strict=True):
        weight = rng.uniform(0.5, 1.5, pushed.shape)
        function = replace(graph, outputs=(output,))
        slopes = [along(function, arguments, i, t, [weight]) for i, t in zip(floats, tangents, strict=True)]
        np.testing.assert_allclose(np.sum(pushed * weight), sum(slopes), rtol=1e-6, atol=1e-7)
