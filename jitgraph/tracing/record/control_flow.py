"""Control flow on tensors: cond, while_loop and scan, over pytrees, eager and traced.

Eagerly they are plain Python control flow, so that the tape and a debugger see every step. In a trace each records one
op; tensors that a body reads from outside become its operands, and those it rebinds become its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops, tree
from jitgraph.errors import ShapeError, TraceError
from jitgraph.ir import context
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType, Type
from jitgraph.tensor import Tensor, lifting, scalars, tensor_of, wrap, wrap_as
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.region import Key, Region, adopt_written, handles_of, operands_of, watched, write_back
from jitgraph.tracing.record.trace import Trace
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tree import TreeDef

_AUTOCAST: Final = frozenset({dtypes.float16, dtypes.bfloat16, dtypes.float32})
"""The dtypes between which autocast casts."""


def cond(pred: TensorLike, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """``true_fn(*operands)`` where ``pred`` (a 0-d tensor or a Python bool) is nonzero, else ``false_fn(*operands)``.

    Both give the same structure, shapes and dtypes; ShapeError or TraceError where, in a trace, they do not. Where
    ``pred`` is a tensor, numbers in the result become 0-d tensors. The function gets new handles on the operands: what
    it writes into them changes no tensor outside.
    """
    trace = context.current().trace
    if isinstance(pred, bool | np.bool_):
        return (true_fn if pred else false_fn)(*_new_handles(operands))
    test = _predicate(pred)
    if trace is None:
        chosen, structure = _flattened(true_fn if bool(test) else false_fn, _new_handles(operands))
        return _new_handles(structure.unflatten([tensor_of(leaf) if _is_number(leaf) else leaf for leaf in chosen]))
    return record_cond(test, watched("cond", trace, true_fn), watched("cond", trace, false_fn), operands)


def record_cond(
    test: Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any]
) -> Any:
    """``cond`` in a trace; what the functions do to Python state is not looked at."""
    trace = context.current().trace
    leaves, structure = tree.flatten(tuple(operands))
    numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor | np.ndarray | np.generic)]
    values = [trace.own(lifting.value_of(leaves[i])) for i in numbers]
    regions, results = [], []
    for name, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        region = _region(name, trace, values)
        mine = list(leaves)
        for i, parameter in zip(numbers, region.parameters, strict=True):
            mine[i] = wrap_as(parameter, leaves[i])
        results.append(region.record(_flattened, function, structure.unflatten(mine)))
        regions.append(region)
    (left, shape), (right, other) = results
    if shape != other:
        raise TraceError(f"cond: true_fn gives {shape}, false_fn {other}", hint="return the same structure from both")
    tensor_indices = [
        i for i, pair in enumerate(zip(left, right, strict=True)) if any(_is_tensor(x) or _is_number(x) for x in pair)
    ]
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        if i not in tensor_indices and a != b:
            raise TraceError(
                f"cond: true_fn gives {a!r} where false_fn gives {b!r}; only tensors and numbers may differ"
            )
    written = handles_of(regions)
    outs = []
    for region, branch_leaves in zip(regions, (left, right), strict=True):
        results_of = [region.record(_output, region, branch_leaves[i]) for i in tensor_indices]
        outs.append(results_of + [region.read(handle) for handle in written])
    for a, b in zip(*outs, strict=True):
        if a.type != b.type:
            raise ShapeError(f"cond: true_fn gives {a.type} where false_fn gives {b.type}")
    keys, outer = operands_of(regions)
    graphs = [region.close(keys, [v.type for v in outer], out) for region, out in zip(regions, outs, strict=True)]
    outputs = _apply(trace, ops.cond, [test.value, *values, *outer], {}, graphs)
    write_back(trace, written, outputs[len(tensor_indices) :])
    final = list(left)
    for i, value in zip(tensor_indices, outputs[: len(tensor_indices)], strict=True):
        final[i] = wrap_as(value, left[i], right[i])
    return shape.unflatten(final)


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Repeat ``carry = body_fn(carry)`` while ``cond_fn(carry)`` is true; structure, shapes and dtypes stay.

    Python numbers in ``init`` become 0-d tensors; what ``cond_fn`` gives is 0-d, too. ShapeError for a carry that
    changes its shape or dtype.
    """
    trace = context.current().trace
    leaves, structure = _carry(init)
    if trace is None:
        carry, types = structure.unflatten(leaves), [leaf._static.type for leaf in leaves]
        while bool(_predicate(cond_fn(_new_handles(carry)))):
            after = _next_carry("while_loop", body_fn(_new_handles(carry)), structure, types)
            carry = structure.unflatten(after)
        return _new_handles(carry)
    return record_while(watched("while_loop", trace, cond_fn), watched("while_loop", trace, body_fn), leaves, structure)


def record_while(
    cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], leaves: Sequence[Tensor], structure: TreeDef
) -> Any:
    """``while_loop`` in a trace, for the leaves of a carry; what the functions do to Python state is not looked at."""
    trace = context.current().trace
    values = [trace.own(leaf.value) for leaf in leaves]
    types = [value.type for value in values]
    condition, body = _region("cond_fn", trace, values), _region("body_fn", trace, values)
    condition.repeats = body.repeats = True
    test = condition.record(lambda: _predicate(cond_fn(_wrapped(condition.parameters, structure, leaves))).value)
    if any(handle is not trace.order() for handle in condition.written()):
        raise TraceError("while_loop: cond_fn writes to a tensor from outside", hint="write to it in body_fn")
    if condition.written():
        return _while_it_prints(cond_fn, body_fn, structure.unflatten(leaves), types)

    def run() -> list[Any]:
        after = _next_carry("while_loop", body_fn(_wrapped(body.parameters, structure, leaves)), structure, types)
        return [leaf.value for leaf in after]

    after = body.record(run)
    written = body.written()
    carried: list[Key] = [("handle", id(handle)) for handle in written]
    for handle in written:
        body.states[id(handle)].value = body.own(body.read(handle))
        adopt_written(body, handle)
    keys, outer = operands_of([condition, body], carried)
    graphs = [
        condition.close(keys, [v.type for v in outer], [condition.own(test)]),
        body.close(keys, [v.type for v in outer], [*map(body.own, after), *map(body.read, written)]),
    ]
    attrs = {"num_carries": len(values) + len(written)}
    outputs = _apply(trace, ops.while_, [*values, *outer], attrs, graphs)
    write_back(trace, written, outputs[len(values) :])
    return _wrapped(outputs[: len(values)], structure, leaves)


def _while_it_prints(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any, types: list[Type]) -> Any:
    """A loop whose condition prints, which a region that gives a bool alone cannot order: it is asked before the loop
    and at the end of each turn."""
    structure = tree.flatten(init)[1]

    def ask(carry: Any) -> Tensor:
        return _predicate(cond_fn(carry))

    def turn(state: Any) -> Any:
        after = structure.unflatten(_next_carry("while_loop", body_fn(state[1]), structure, types))
        return ask(after), after

    return record_while(lambda state: state[0], turn, *tree.flatten((ask(init), init)))[1]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: Any = None, reverse: bool = False
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` for each slice x of ``xs`` along its first axis; the last carry and the stacked ys.

    ``xs`` may be None where ``length`` is given. With ``reverse`` the last slice comes first; y keeps its x's place.
    Tensors of ``xs`` are [n, ...], slices [...], those of the stacked ys [n, ...]. ShapeError for first axes that
    differ and for a carry that changes its shape or dtype, TraceError for a body that gives no pair.
    """
    trace = context.current().trace
    leaves, structure = _carry(init)
    items, shape = tree.flatten(xs)
    tensors = [tensor_of(item) for item in items]
    steps = _length(tensors, length)
    if trace is None:
        return _eager_scan(f, leaves, structure, tensors, shape, int(steps), reverse)
    return record_scan(watched("scan", trace, f), leaves, structure, tensors, shape, steps, reverse)


def record_scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    leaves: Sequence[Tensor],
    structure: TreeDef,
    tensors: Sequence[Tensor],
    shape: TreeDef,
    steps: Any,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """``scan`` in a trace, for leaves of a carry and of ``xs``; what ``f`` does to Python state is not looked at."""
    trace = context.current().trace
    values = [trace.own(leaf.value) for leaf in leaves]
    sliced = [trace.own(tensor.value) for tensor in tensors]
    types = [value.type for value in values]
    body = Region(
        "f",
        trace,
        [*types, *(TensorType(v.dtype, v.shape[1:]) for v in sliced)],
        [value.requires_grad for value in (*values, *sliced)],
    )
    body.repeats = True
    count = len(values)

    ys_leaves: list[Any] = []

    def run() -> tuple[list[Any], list[Any], TreeDef]:
        carry = _wrapped(body.parameters[:count], structure, leaves)
        x = _wrapped(body.parameters[count:], shape, tensors)
        after, ys, ys_structure = _split("scan", f(carry, x), structure, types)
        ys_leaves.extend(ys)
        return [leaf.value for leaf in after], [_output(body, y) for y in ys], ys_structure

    after, ys, ys_structure = body.record(run)
    written = body.written()
    for handle in written:
        adopt_written(body, handle)
    carried: list[Key] = [("handle", id(handle)) for handle in written]
    keys, outer = operands_of([body], carried)
    first = [*range(count), *range(count + len(sliced), count + len(sliced) + len(written))]
    graph = body.close(
        keys, [v.type for v in outer], [*map(body.own, after), *map(body.read, written), *map(body.own, ys)]
    )
    order = [*first, *(i for i in range(len(graph.inputs)) if i not in set(first))]
    operands = [*values, *sliced, *outer]
    graph = Graph(tuple(graph.inputs[i] for i in order), graph.nodes, graph.outputs, (), graph.name)
    attrs = {
        "num_carries": count + len(written),
        "num_xs": len(sliced),
        "length": trace.to_dim(steps),
        "reverse": bool(reverse),
    }
    outputs = _apply(trace, ops.scan, [operands[i] for i in order], attrs, [graph])
    write_back(trace, written, outputs[count : count + len(written)])
    stacked = outputs[count + len(written) :]
    return _wrapped(outputs[:count], structure, leaves), _wrapped(stacked, ys_structure, ys_leaves)


def _eager_scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    leaves: list[Tensor],
    structure: TreeDef,
    tensors: list[Tensor],
    shape: TreeDef,
    steps: int,
    reverse: bool,
) -> tuple[Any, Any]:
    types = [leaf._static.type for leaf in leaves]
    rows: list[list[Any]] = []
    ys_structure: TreeDef | None = None
    if steps == 0:
        return structure.unflatten(leaves), _empty_results(f, leaves, structure, tensors, shape)
    for i in reversed(range(steps)) if reverse else range(steps):
        carry = structure.unflatten(leaves)
        x = _wrapped([Tensor.__getitem__(tensor, i).value for tensor in tensors], shape, tensors)
        leaves, ys, ys_structure = _split("scan", f(_new_handles(carry), x), structure, types)
        rows.append([tensor_of(y) for y in ys])
    if reverse:
        rows.reverse()
    assert ys_structure is not None
    return _new_handles(structure.unflatten(leaves)), ys_structure.unflatten(
        [wrap_as(stack(list(column)).value, *column) for column in zip(*rows, strict=True)]
    )


def _empty_results(
    f: Callable[[Any, Any], tuple[Any, Any]],
    leaves: Sequence[Tensor],
    structure: TreeDef,
    tensors: list[Tensor],
    shape: TreeDef,
) -> Any:
    """The ys of a scan of no steps: their types are found by recording the body once."""
    root, types = Trace("scan"), [leaf._static.type for leaf in leaves]
    slices = [TensorType(t.dtype, t._static.type.shape[1:]) for t in tensors]
    body = Region("f", root, [*types, *slices], [False] * (len(types) + len(slices)))

    ys_leaves: list[Any] = []

    def run() -> tuple[list[Any], TreeDef]:
        carry = _wrapped(body.parameters[: len(types)], structure, leaves)
        row = _wrapped(body.parameters[len(types) :], shape, tensors)
        _, ys, ys_structure = _split("scan", f(carry, row), structure, types)
        ys_leaves.extend(ys)
        return [_output(body, y) for y in ys], ys_structure

    with context.using(emitter=root, trace=root, constraints=root.constraints):
        ys, ys_structure = body.record(run)
    body.ended = root.ended = True
    return _wrapped([lifting.constant(0, y.dtype, (0, *y.shape)) for y in ys], ys_structure, ys_leaves)


# --- pieces ---------------------------------------------------------------------------------------------------------


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor | np.ndarray | np.generic)


def _new_handles(values: Any) -> Any:
    """A tree whose tensors and arrays are new handles on the same values, as the bodies of recorded loops get them."""
    leaves, structure = tree.flatten(values)
    return structure.unflatten([wrap_as(lifting.value_of(leaf), leaf) if _is_tensor(leaf) else leaf for leaf in leaves])


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float)


def _predicate(pred: Any) -> Tensor:
    test = tensor_of(pred)
    if test.ndim != 0:
        raise ShapeError(f"a condition is a 0-d tensor, not one of shape {tuple(test.shape)}", hint="jg.any or jg.all")
    return test if dtypes.is_bool(test.dtype) else test != 0


def _carry(init: Any) -> tuple[list[Tensor], TreeDef]:
    leaves, structure = tree.flatten(init)
    tensors = []
    for leaf in leaves:
        if not _is_tensor(leaf) and not isinstance(leaf, bool | int | float):
            raise TraceError(f"a carry holds tensors and numbers, not {type(leaf).__name__}")
        tensors.append(wrap_as(lifting.value_of(leaf), *leaves) if scalars.is_scalar(leaf) else tensor_of(leaf))
    return tensors, structure


def _next_carry(name: str, carry: Any, structure: TreeDef, types: Sequence[Type]) -> list[Tensor]:
    """The leaves of the next carry; TraceError or ShapeError where they are not as those of the first."""
    paths, next_structure = tree.flatten_with_paths(carry)
    if next_structure != structure:
        raise TraceError(f"{name}: the carry starts as {structure} and becomes {next_structure}")
    result = []
    for (path, leaf), type in zip(paths, types, strict=True):
        assert isinstance(type, TensorType)
        value = lifting.value_of(leaf, type.dtype) if scalars.is_scalar(leaf) else lifting.value_of(leaf)
        if context.current().autocast is not None and {value.dtype, type.dtype} <= _AUTOCAST:
            value = lifting.cast(value, type.dtype)  # what products made of it; a carry has one dtype
            leaf = wrap_as(value, leaf)
        if value.type != type:
            raise ShapeError(
                f"{name}: {tree.path_text('carry', path)} starts as {type} and becomes {value.type}",
                hint="start with that dtype and shape, or cast with .astype(...)",
            )
        result.append(leaf if isinstance(leaf, Tensor) else wrap(value))
    return result


def _split(
    name: str, result: Any, structure: TreeDef, types: Sequence[Type]
) -> tuple[list[Tensor], list[Any], TreeDef]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TraceError(f"{name}: the body returns (carry, y), not {type(result).__name__}")
    ys, ys_structure = tree.flatten(result[1])
    return _next_carry(name, result[0], structure, types), ys, ys_structure


def _length(tensors: Sequence[Tensor], length: Any) -> Any:
    sizes = [tensor.shape[0] if tensor.ndim else None for tensor in tensors]
    if None in sizes:
        raise ShapeError("scan: every tensor in xs needs a first axis to go along")
    if length is None:
        if not sizes:
            raise ShapeError("scan: without xs, length must be given")
        length = sizes[0]
    for size in sizes:
        if size != length:
            raise ShapeError(f"scan: xs has sizes {', '.join(map(str, sizes))} on the first axis; length is {length}")
    return length


def _region(name: str, trace: Recorder, values: Sequence[TracedValue]) -> Region:
    return Region(name, trace, [value.type for value in values], [value.requires_grad for value in values])


def _flattened(function: Callable[..., Any], args: Sequence[Any]) -> tuple[list[Any], TreeDef]:
    return tree.flatten(function(*args))


def _output(region: Region, leaf: Any) -> TracedValue:
    if scalars.is_named_size(leaf):
        return region.size_value(leaf)
    return region.own(lifting.value_of(leaf))


def _wrapped(values: Sequence[Any], structure: TreeDef, examples: Sequence[Any]) -> Any:
    """A tree of new tensors on values, each of the API of its example."""
    return structure.unflatten([wrap_as(value, example) for value, example in zip(values, examples, strict=True)])


def _apply(
    trace: Recorder, op: Any, operands: Sequence[Any], attrs: dict[str, Any], graphs: Sequence[Graph]
) -> list[TracedValue]:
    return list(trace.emit(op, operands, attrs, graphs))
