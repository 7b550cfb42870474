"""If, Loop and Scan: Python's on host values, jitgraph's own control flow on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import Tensor
from jitgraph.tensor import functions as fn
from jitgraph.tracing.record.control_flow import cond, scan, while_loop

_UNROLLED = 64
"""So many iterations at most are recorded one by one where a loop has sequences or host values."""


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _decided(condition: Any) -> Any:
    """A condition as a Python bool where it is known, else as a tensor of rank 0."""
    if isinstance(condition, Tensor):
        return fn.reshape(condition, ()) if values.is_recording() else bool(values.one(values.host(condition)))
    return bool(values.one(condition))


def _all_tensors(results: Any) -> tuple[Any, ...]:
    if any(isinstance(value, list) or value is None for value in results):
        raise UnsupportedOp(
            "a branch or a loop on a tensor's value gives a sequence or an optional",
            hint="module.forward(...) computes node by node, where sequences have any length",
        )
    return tuple(values.tensor(value) for value in results)


@define("If", raw=True)
def if_else(condition: Any, then_branch: Any, else_branch: Any) -> Any:
    decided = _decided(condition)
    if isinstance(decided, bool):
        return (then_branch if decided else else_branch)()
    return cond(decided, lambda: _all_tensors(then_branch()), lambda: _all_tensors(else_branch()))


@define("Loop", raw=True)
def loop(count: Any = None, condition: Any = None, *carried: Any, body: Any, outputs: Any = ()) -> Any:
    limit = None if count is None or (isinstance(count, np.ndarray) and not count.size) else count
    before = True if condition is None or (isinstance(condition, np.ndarray) and not condition.size) else condition
    states = len(carried)
    scanned = len(body.routine.outputs) - 1 - states
    stays_host = not values.is_recording() or (
        not _is_tensor(limit) and not _is_tensor(before) and _is_unrolled(limit, before, body, carried)
    )
    if stays_host:
        return _in_python(limit, before, carried, scanned, body)
    first = _all_tensors(carried)
    if _runs_to_the_end(body) and not _is_tensor(before) and limit is not None and not _is_tensor(limit):
        if not _decided(before):
            return _in_python(np.array(0), before, carried, scanned, body)

        def every(carry: Any, i: Any) -> Any:
            _, *results = body(i, np.array(True), *carry)
            own = _all_tensors(results)
            return own[:states], own[states:]

        carry, rows = scan(every, first, fn.arange(values.one(limit), dtype=dtypes.int64))
        return (*carry, *rows)
    if scanned:
        raise UnsupportedOp("a Loop whose number of iterations depends on tensors and that collects values")
    bound = fn.asarray(np.iinfo(np.int64).max) if limit is None else fn.reshape(values.tensor(limit), ())

    def is_on(carry: Any) -> Any:
        return fn.logical_and(carry[1], fn.less(carry[0], bound))

    def advance(carry: Any) -> Any:
        again, *results = body(carry[0], carry[1], *carry[2])
        return carry[0] + 1, fn.reshape(values.tensor(again), ()), _all_tensors(results)

    live = fn.asarray(before) if isinstance(before, bool) else fn.reshape(values.tensor(before), ())
    return while_loop(is_on, advance, (fn.zeros((), dtype=dtypes.int64), live, first))[2]


def _runs_to_the_end(body: Any) -> bool:
    """Whether a body never ends its loop: its condition is a constant that is true, or the condition that it got."""
    graph = body.routine.graph
    name = graph.outputs[0]
    producers = {output: node for node in graph.nodes for output in node.outputs}
    while name in producers and producers[name].op == "Identity" and not producers[name].domain:
        name = producers[name].inputs[0]
    if name == graph.inputs[1]:
        return True
    constant = body.routine.constants.get(name)
    return isinstance(constant, np.ndarray) and constant.size == 1 and bool(constant.reshape(-1)[0])


def _is_unrolled(limit: Any, before: Any, body: Any, carried: Any) -> bool:
    """Whether a loop is recorded iteration by iteration: it is short, and carries what no tensor is."""
    others = any(not _is_tensor(value) for value in carried)
    if limit is None or not _runs_to_the_end(body):
        return False
    number = values.one(limit)
    return others and type(number) is int and number <= _UNROLLED


def _in_python(limit: Any, before: Any, carried: Any, scanned: int, body: Any) -> Any:
    states, rows = list(carried), [list[Any]() for _ in range(scanned)]
    most = None if limit is None else values.one(values.host(limit, "the number of iterations"))
    live = before if isinstance(before, bool) else bool(values.one(values.host(before, "the condition of a loop")))
    i = 0
    while live and (most is None or i < most):
        again, *results = body(np.array(i, np.int64), np.array(live), *states)
        states, fresh = results[: len(states)], results[len(states) :]
        for own, value in zip(rows, fresh, strict=True):
            own.append(values.tensor(value))
        live = bool(values.one(values.host(again, "the condition of a loop")))
        i += 1
    return (*states, *[fn.stack(own, axis=0) if own else _nothing(body, j) for j, own in enumerate(rows)])


def _nothing(body: Any, number: int) -> Any:
    """What a loop without iterations has collected: no slices, of the shape that the model says."""
    routine = body.routine
    scanned = len(routine.outputs) - len(routine.inputs) + 1
    kind = routine.graph.types[routine.outputs[len(routine.outputs) - scanned + number]]
    shape = tuple(size if isinstance(size, int) else 0 for size in kind.shape or ())
    return fn.zeros((0, *shape), dtype=kind.dtype or np.float32)


@define("Scan", since=9, raw=True)
def scan_of(
    *operands: Any,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_axes: Any = None,
    scan_output_directions: Any = None,
    outputs: Any = (),
) -> Any:
    states = len(operands) - num_scan_inputs
    first = _all_tensors(operands[:states])
    rows = []
    for i, x in enumerate(_all_tensors(operands[states:])):
        axis = scan_input_axes[i] if scan_input_axes else 0
        row = fn.moveaxis(x, axis, 0) if axis else x
        rows.append(fn.flip(row, axis=0) if scan_input_directions and scan_input_directions[i] else row)

    def every(carry: Any, row: Any) -> Any:
        results = _all_tensors(body(*carry, *row))
        return results[:states], results[states:]

    carry, collected = scan(every, first, tuple(rows))
    results = []
    for i, y in enumerate(collected):
        own = fn.flip(y, axis=0) if scan_output_directions and scan_output_directions[i] else y
        axis = scan_output_axes[i] if scan_output_axes else 0
        results.append(fn.moveaxis(own, 0, axis) if axis else own)
    return (*carry, *results)


@define("Scan", raw=True)
def scan_of_batches(lengths: Any, *operands: Any, body: Any, num_scan_inputs: int, directions: Any = None) -> Any:
    if lengths is not None:
        raise UnsupportedOp("Scan of version 8 with lengths of sequences")
    batch = operands[0].shape[0]
    results = [
        scan_of(
            *[values.tensor(x)[i] for x in operands],
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for i in range(batch)
    ]
    return tuple(fn.stack(list(column), axis=0) for column in zip(*results, strict=True))
