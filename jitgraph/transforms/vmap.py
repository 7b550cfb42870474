"""vmap: a function of one sample as a function of many, eager and in a trace; NumPy's vectorize and
apply_along_axis.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from jitgraph import dtypes, ops, tree
from jitgraph.eager import streams
from jitgraph.errors import JitgraphError, ShapeError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import StackType, TensorType
from jitgraph.ops.rules import same_dims
from jitgraph.passes.autodiff import expand_region_grads
from jitgraph.passes.batching import Lane, each, moved
from jitgraph.passes.vmap import Batcher
from jitgraph.tensor import Tensor, lifting, wrap, wrap_as
from jitgraph.tensor.functions.manipulation import broadcast_to, moveaxis
from jitgraph.tensor.functions.method import array_function, axis_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tracing.record.values import TracedValue
from jitgraph.transforms.recording import Closed, at_once, own_value, tensor_type

# ----------------------------------------------------------------------
# Random numbers of samples: each begins where the one before it ended, as if they were run one after another.


def sequential_draws(
    batcher: Batcher, graph: Graph, arguments: Sequence[Lane], index: int, output: Value
) -> tuple[Lane, Any]:
    """The state with which each sample begins, and the one after the last: as if they were run one after another.

    UnsupportedOp where how much a sample draws depends on it.
    """
    (after,) = batcher.run(_leading_to(graph, output), arguments)
    if after.varies:
        raise UnsupportedOp(
            "vmap: how many random numbers are drawn differs between samples",
            hint='randomness="same", or draw them outside and give them as an argument',
        )
    before = arguments[index].value
    step = ops.sub(after.value, before)
    shape = (batcher.size, *before.shape)

    def spread(value: Any, axes: tuple[int, ...]) -> Any:
        return ops.broadcast(value, shape=shape, axes=axes)

    count = ops.cast(ops.iota(shape=(batcher.size,), axis=0, dtype=dtypes.int64), dtype=dtypes.uint64)
    states = ops.add(spread(before, (1,)), ops.mul(spread(count, (0,)), spread(step, (1,))))
    total = ops.cast(ops.full(shape=before.shape, value=batcher.size, dtype=dtypes.int64), dtype=dtypes.uint64)
    return Lane(states, True), ops.add(before, ops.mul(total, step))


def _leading_to(graph: Graph, output: Value) -> Graph:
    """The part of a graph that one of its outputs needs."""
    needed, nodes = {output}, list[Node]()
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    return replace(graph, nodes=tuple(reversed(nodes)), outputs=(output,))


# ----------------------------------------------------------------------
# vmap: a function of one sample as a function of many, eager and inside a trace.
#
# The function is recorded once, for the types of one sample; its ops are then applied to all samples by their batching
# rules (``passes/vmap.py``).

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
    """A function of one sample as a function of many, along an axis of its arguments, which are trees of tensors.

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
            new_leaves[number] = wrap_as(next(rest), leaf)
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


# ----------------------------------------------------------------------
# Functions of rows and of numbers, called along axes and over whole tensors by ``vmap``; NumPy's names.


@array_function
def apply_along_axis(function: Callable[..., Any], axis: int, x: TensorLike, *args: Any, **kwargs: Any) -> Any:
    """``function(row, *args, **kwargs)`` of every vector of x along ``axis``, which the results replace.

    All at once, by ``vmap``; gradients flow. Results may be numbers, which leave the axis out, or tensors of any rank.
    """
    tensor: Tensor = wrap_as(lifting.value_of(x), x)
    if not tensor.ndim:
        raise ShapeError("apply_along_axis of a number, which has no axis", hint="x.reshape(1)")
    number = axis_of(axis, tensor.ndim, "apply_along_axis")
    of_rows: Callable[..., Any] = lambda row: function(row, *args, **kwargs)
    for _ in range(tensor.ndim - 1):
        of_rows = vmap(of_rows)
    mapped = of_rows(moveaxis(tensor, number, -1))
    result = wrap(lifting.value_of(mapped)) if not isinstance(mapped, Tensor) else mapped
    lead, rank = tensor.ndim - 1, result.ndim
    order = [*range(number), *range(lead, rank), *range(number, lead)]
    return result if order == list(range(rank)) else result.permute_dims(tuple(order))


_NAME: Final = r"\s*\w+\s*"
_AXES: Final = rf"\(\s*(?:{_NAME}(?:,{_NAME})*)?\s*\)"
_SIGNATURE: Final = rf"\s*{_AXES}(?:\s*,\s*{_AXES})*\s*->\s*{_AXES}(?:\s*,\s*{_AXES})*\s*"


def _ranks(signature: str) -> tuple[list[list[str]], int]:
    """The names of the axes of each argument, and the number of results."""
    if not re.fullmatch(_SIGNATURE, signature):
        raise JitgraphError(f'vectorize: signature={signature!r} is not of the form "(n),(n,m)->(m)"')
    before, after = signature.split("->")
    arguments = [re.findall(r"\w+", axes) for axes in re.findall(r"\(([^)]*)\)", before)]
    return arguments, len(re.findall(r"\(", after))


@array_function
def vectorize(
    function: Callable[..., Any], *, signature: str | None = None, excluded: Iterable[int | str] = ()
) -> Callable[..., Any]:
    """A function of numbers as a function of tensors, which broadcast: ``vmap`` calls it once, for all elements.

    ``signature``, as "(n),(n)->()", says which arguments are vectors or matrices: axes before those broadcast.
    ``excluded`` arguments, by position or name, are passed on as they are, and keyword arguments are broadcast too.
    It differs from NumPy in that the function is recorded: Python steers by no element.
    """
    arguments = None if signature is None else _ranks(signature)[0]
    left_out = frozenset(excluded)

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        keys: list[Any] = [
            *(i for i in range(len(args)) if i not in left_out),
            *(name for name in kwargs if name not in left_out),
        ]
        if arguments is not None and len(keys) != len(arguments):
            raise JitgraphError(f"vectorize: {len(keys)} arguments for the signature {signature!r}")
        operands = [args[i] if isinstance(i, int) else kwargs[i] for i in keys]
        tensors: list[Tensor] = [wrap_as(lifting.value_of(x), x) for x in operands]
        cores = [0] * len(tensors) if arguments is None else [len(names) for names in arguments]
        outer = []
        for tensor, core in zip(tensors, cores, strict=True):
            if tensor.ndim < core:
                raise ShapeError(f"vectorize: {tensor.value.type} for {core} axes of the signature {signature!r}")
            outer.append(tensor.value.type.shape[: tensor.ndim - core])
        batch_shape = lifting.broadcast_shapes(*outer)
        spread = [
            broadcast_to(tensor, (*batch_shape, *tensor.value.type.shape[tensor.ndim - core :]))
            for tensor, core in zip(tensors, cores, strict=True)
        ]

        def of_one(*elements: Tensor) -> Any:
            by_key = dict(zip(keys, elements, strict=True))
            return function(
                *(by_key.get(i, arg) for i, arg in enumerate(args)), **{k: by_key.get(k, v) for k, v in kwargs.items()}
            )

        batched: Callable[..., Any] = of_one
        for _ in batch_shape:
            batched = vmap(batched)
        return batched(*spread)

    return call
