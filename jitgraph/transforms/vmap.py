"""vmap: a function of one sample as a function of many, eager and inside a trace.

The function is recorded once, for the types of one sample; its ops are then applied to all samples by their batching
rules (``passes/vmap.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from jitgraph import tree
from jitgraph.autograd import streams
from jitgraph.errors import JitgraphError, ShapeError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import StackType, TensorType
from jitgraph.ops.rules import same_dims
from jitgraph.passes.autodiff import expand_region_grads
from jitgraph.passes.batching import Lane, each, moved
from jitgraph.passes.vmap import Batcher
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.method import array_function
from jitgraph.tracing.record.values import TracedValue
from jitgraph.transforms.drawing import sequential_draws
from jitgraph.transforms.recording import Closed, at_once, own_value, tensor_type

Randomness: TypeAlias = Literal["error", "same", "different"]
Axes: TypeAlias = Any
"""An int, None, or a tree of these that an argument's own tree begins with."""

_HOW: Final = ("error", "same", "different")


@array_function
def vmap(
    function: Callable[..., Any],
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    *,
    axis_size: Any = None,
    randomness: Randomness = "error",
) -> Callable[..., Any]:
    """``function`` of one sample as a function of samples along an axis of its arguments, which are trees of tensors.

    ``in_axes`` is that axis (None: the same for all samples) for each positional argument, as a tuple, or for all of
    them; in place of an int a tree of the argument's structure. Keyword arguments have it in front. A module among the
    arguments has it in its parameters and buffers, where it is not None. ``out_axes`` says where results have it; None
    takes a result that is the same for all samples without one. ``axis_size`` is the number of samples where
    no argument has them. ``randomness`` says what random numbers do: "error" refuses them, "same" gives all samples the
    same, "different" each its own, those of a Python loop over the samples.

    What differs between samples cannot steer Python; ``jg.cond``, ``jg.while_loop``, ``jg.scan`` and ``@jg.script`` do.
    Floats have the bits of single calls, but for sums of products, whose order changes where samples become rows of one
    product. ShapeError for sizes that differ, JitgraphError for axes that do not fit the arguments.
    """
    if not callable(function):
        what = f"jg.vmap takes a function, not a {type(function).__name__}"
        raise JitgraphError(f"{what}\n  hint: jg.vmap(f)(x)")
    if isinstance(in_axes, Tensor | np.ndarray):
        what = "jg.vmap takes the function and the axes of its arguments, not the arguments"
        raise JitgraphError(f"{what}\n  hint: jg.vmap(f)(x)")
    if randomness not in _HOW:
        raise JitgraphError(f"vmap: randomness is one of {', '.join(map(repr, _HOW))}, not {randomness!r}")

    @functools.wraps(function, updated=())
    def batched(*args: Any, **kwargs: Any) -> Any:
        return at_once("vmap", lambda: _record(function, args, kwargs, in_axes, out_axes, axis_size, randomness))

    return batched


def _record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    in_axes: Axes,
    out_axes: Axes,
    axis_size: Any,
    randomness: Randomness,
) -> Any:
    trace = context.current().trace
    leaves, structure = tree.flatten((args, kwargs))
    axes = [*_axes_of_arguments(args, in_axes), *([0] * len(tree.flatten(kwargs)[0]))]
    sizes: list[tuple[str, DimLike]] = []
    samples: list[Lane] = []
    modules: list[tuple[Any, list[Tensor], int]] = []

    def take(x: Any, axis: int, what: str) -> Lane:
        value = own_value(x)
        shape = tensor_type(value).shape
        axis_index = axis + len(shape) if axis < 0 else axis
        if not 0 <= axis_index < len(shape):
            raise ShapeError(f"vmap: {what} has the shape {tuple(shape)}, which has no axis {axis}", hint="in_axes")
        sizes.append((what, shape[axis_index]))
        return Lane(moved(value, axis_index, 0), True)

    positions: list[int] = []
    for number, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        what = f"argument leaf {number}"
        if axis is not None and hasattr(type(leaf), "named_parameters"):
            tensors = [tensor for _, tensor in (*leaf.named_parameters(), *leaf.named_buffers())]
            samples += [take(tensor, axis, what) for tensor in tensors]
            modules.append((leaf, tensors, axis))
        elif axis is not None:
            samples.append(take(leaf, axis, what))
            positions.append(number)
    size = _size(sizes, None if axis_size is None else trace.to_dim(axis_size))
    types = [TensorType(s.value.dtype, tuple(s.value.shape[1:])) for s in samples]
    closed = Closed(getattr(function, "__name__", "vmap"), trace, types, [s.value.requires_grad for s in samples])
    parameters = closed.region.parameters
    rest = iter(parameters)
    new_leaves = list(leaves)
    for number, leaf in enumerate(leaves):
        for _, tensors, _axis in [entry for entry in modules if entry[0] is leaf]:
            for handle in tensors:
                state = closed.region.state_of(handle)
                state.value = state.initial = next(rest)
        if number in positions:
            new_leaves[number] = wrap(next(rest))
    call_args, call_kwargs = structure.unflatten(new_leaves)
    closed.record(lambda: function(*call_args, **call_kwargs))
    return _batched(closed, samples, size, out_axes, randomness)


def _batched(closed: Closed, samples: Sequence[Lane], size: DimLike, out_axes: Axes, randomness: Randomness) -> Any:
    trace = closed.trace
    graph = _differentiated(closed.graph, trace)
    batcher = Batcher(size)
    arguments = [*samples, *(Lane(value, False) for value in closed.outer)]
    count = len(closed.kept)
    drawn = [handle for handle in closed.written if streams.is_state(handle)]
    final = {}
    if drawn and randomness == "error":
        raise JitgraphError(
            "vmap: the function draws random numbers\n"
            '  hint: randomness="different" gives each sample its own, randomness="same" all of them the same'
        )
    if drawn and randomness == "different":
        for handle in drawn:
            state_index = len(samples) + closed.keys.index(("handle", id(handle)))
            output = graph.outputs[count + closed.written.index(handle)]
            arguments[state_index], final[id(handle)] = sequential_draws(batcher, graph, arguments, state_index, output)
    results = batcher.run(graph, arguments)
    for handle, sample in zip(closed.written, results[count:], strict=True):
        value = sample.value
        if id(handle) in final:
            value = final[id(handle)]
        elif sample.varies:
            raise UnsupportedOp(
                f"vmap: the function writes into a tensor from outside, of shape {tuple(handle.shape)}, what differs "
                "between samples",
                hint="return the value instead, or give the tensor as an argument with an axis of samples",
            )
        trace.write(handle, value)
    axes = _axes_of_results(closed, out_axes)
    return closed.rebuilt([_put(sample, axis, size) for sample, axis in zip(results[:count], axes, strict=True)])


def _differentiated(graph: Graph, trace: Any) -> Graph:
    """The region with its gradients written out; left to the batched graph where that needs stacks of residuals."""
    expanded = expand_region_grads(graph, trace.builder)
    stacks = (isinstance(value.type, StackType) for node in expanded.walk() for value in (*node.inputs, *node.outputs))
    return graph if any(stacks) else expanded


def _put(sample: Lane, axis: int | None, size: DimLike) -> TracedValue:
    value = sample.value
    if axis is None:
        if sample.varies:
            raise ShapeError(
                "vmap: out_axes is None for a result that differs between samples",
                hint="an int, the axis of the result along which samples stand",
            )
        return value  # type: ignore[no-any-return]
    value = each(sample, size).value
    axis_index = axis + len(value.shape) if axis < 0 else axis
    if not 0 <= axis_index < len(value.shape):
        raise ShapeError(
            f"vmap: out_axes is {axis} for a result with {len(value.shape)} axes, that of samples included"
        )
    return moved(value, 0, axis_index)  # type: ignore[no-any-return]


def _size(sizes: Sequence[tuple[str, DimLike]], axis_size: DimLike | None) -> DimLike:
    """The number of samples: ShapeError where arguments differ in it."""
    num_samples = axis_size
    for what, size in sizes:
        if num_samples is None:
            num_samples = size
        (num_samples,) = same_dims(f"vmap: {what} has {size} samples, others {num_samples}", (num_samples,), (size,))
    if num_samples is None:
        raise JitgraphError("vmap: no argument has an axis of samples\n  hint: in_axes=0, or axis_size=n")
    return num_samples


def _axes_of_arguments(args: tuple[Any, ...], in_axes: Axes) -> list[int | None]:
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple):
        if len(in_axes) != len(args):
            raise JitgraphError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} positional arguments")
        each_axes = list(in_axes)
    else:
        each_axes = [in_axes] * len(args)
    return [
        axis
        for number, (arg, axes) in enumerate(zip(args, each_axes, strict=True))
        for axis in _spread(axes, arg, f"in_axes of argument {number}")
    ]


def _axes_of_results(closed: Closed, out_axes: Axes) -> list[int | None]:
    result = closed.structure.unflatten(closed.leaves)
    every = _spread(out_axes, result, "out_axes")
    return [every[i] for i in closed.kept]


def _spread(axes: Axes, of: Any, what: str) -> list[int | None]:
    """An axis for each leaf of a tree, of a tree of axes that it begins with."""
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * len(tree.flatten(of)[0])
    container, own = tree.container_of(axes), tree.container_of(of)
    if container is None:
        raise JitgraphError(f"vmap: {what} is an int, None or a tree of these, not {axes!r}")
    below, parts = container.take_apart(axes), own.take_apart(of) if own is not None else None
    if parts is None or not _alike(axes, of) or below.steps != parts.steps:
        raise JitgraphError(f"vmap: {what}, {axes!r}, does not have the structure of {tree.flatten(of)[1]}")
    pairs = zip(below.children, parts.children, strict=True)
    return [axis for inner, child in pairs for axis in _spread(inner, child, what)]


def _alike(axes: Any, of: Any) -> bool:
    return type(axes) is type(of) or (isinstance(axes, tuple | list) and isinstance(of, tuple | list))
