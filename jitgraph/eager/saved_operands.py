"""Which operands and results PyTorch saves for the gradient of an op: those that a write makes unfit for backward.

They are those that the derived gradient reads, unless PyTorch's formula for that op is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from jitgraph.dtypes import is_inexact
from jitgraph.eager.kernels import DTypes, Half, SizePattern, backward_graph, exact, forward_graph
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType


class Saved(NamedTuple):
    """Numbers of operands and results.

    ``is_readable``: where their elements are others, the gradient here is the one of these, if ``reads_results`` with
    results that are computed again. ``moves``: the op only moves elements, or is the form in which another takes them.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_readable: bool
    reads_results: bool
    moves: bool = False

    def fits(self, present: Any, value: Any) -> bool:
        """Whether the gradient can read this in the place of that."""
        return self.is_readable and present.type == value.type


def saved(op: Op, attrs: Attrs, inputs: Sequence[Any]) -> Saved:
    """What PyTorch would save of ``op`` on these values, for those of them that require a gradient."""
    dtypes = tuple([value.dtype for value in inputs])
    shapes = tuple([value.shape for value in inputs])
    return of_types(op, attrs, dtypes, shapes, tuple([n for n, value in enumerate(inputs) if value.record is not None]))


def of_types(op: Op, attrs: Attrs, dtypes: DTypes, shapes: Any, wrt: tuple[int, ...]) -> Saved:
    """The same by the types of the operands, for those numbered in ``wrt``."""
    key = (op, exact(attrs), dtypes, shapes, wrt)
    known = _known.get(key)
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        known = _known[key] = _saved(op, attrs, dtypes, shapes, wrt)
    return known


_known: Final[dict[Any, Saved]] = {}
_MOST: Final = 1024


def _saved(op: Op, attrs: Attrs, dtypes: DTypes, shapes: Any, wrt: tuple[int, ...]) -> Saved:
    if "fused_op" in op.traits:
        return _of_steps(op, attrs, dtypes, shapes, wrt)
    read = _read(op, attrs, dtypes, shapes, wrt)
    rule = _OF_PYTORCH.get(op.name)
    due = read if rule is None else rule(wrt, len(dtypes))
    computes_again = not due[1] and bool(read[1])
    is_readable = (computes_again and set(read[0]) <= set(due[0])) or due == read
    return Saved(*due, is_readable and op.name not in _WITH_HIDDEN_RESULTS, computes_again, _moves(op))


def _of_steps(op: Op, attrs: Attrs, dtypes: DTypes, shapes: Any, wrt: tuple[int, ...]) -> Saved:
    """What is saved by an op that stands for several, each of which saves for itself."""
    graph = forward_graph(op, dtypes, SizePattern(shapes, attrs, shapes))
    positions = {value: number for number, value in enumerate(graph.inputs)}
    active = {graph.inputs[number] for number in wrt}
    inputs: set[int] = set()
    outputs: set[int] = set()
    steps: list[Saved] = []
    for node in graph.nodes:
        if "nondifferentiable" in node.op.traits or active.isdisjoint(node.inputs):
            continue
        active.update([value for value in node.outputs if is_inexact(value.dtype)])
        if _moves(node.op) and len(node.inputs) == 1:  # of an operand, which is saved itself
            positions.update({node.output: positions[node.inputs[0]]} if node.inputs[0] in positions else {})
            continue
        own = tuple([number for number, value in enumerate(node.inputs) if value in active])
        types = tuple([value.dtype for value in node.inputs]), tuple([value.shape for value in node.inputs])
        steps.append(_saved(node.op, node.attrs, *types, own))
        inputs.update([positions[node.inputs[n]] for n in steps[-1].inputs if node.inputs[n] in positions])
        results = [node.outputs[number] for number in steps[-1].outputs]
        outputs.update([number for number, value in enumerate(graph.outputs) if value in results])
    again = any(step.reads_results for step in steps)
    is_readable = len(steps) == 1 and steps[0].is_readable
    return Saved(tuple(sorted(inputs)), tuple(sorted(outputs)), is_readable, again)


def _moves(op: Op) -> bool:
    return op.kind == "movement" or op.name == "cast"


Positions = tuple[tuple[int, ...], tuple[int, ...]]


def _read(op: Op, attrs: Attrs, dtypes: DTypes, shapes: Any, wrt: tuple[int, ...]) -> Positions:
    """The operands and the results whose elements the gradient here reads."""
    pattern = SizePattern(shapes, attrs, shapes)
    types = [value.type for value in forward_graph(op, dtypes, pattern).outputs]
    seeds = tuple(
        [number for number, type in enumerate(types) if isinstance(type, TensorType) and is_inexact(type.dtype)]
    )
    graph = backward_graph(op, dtypes, pattern, Half(wrt, seeds))
    producers = {output: node for node in graph.nodes for output in node.outputs}
    reached, waiting = set(), list(graph.outputs)
    while waiting:
        value = waiting.pop()
        if value not in reached:
            reached.add(value)
            waiting += producers[value].inputs if value in producers else ()
    count = len(dtypes)
    outputs = graph.inputs[count : count + len(types)] if op.vjp is not None else ()
    return _numbers(graph.inputs[:count], reached), _numbers(outputs, reached)


def _numbers(values: Sequence[Any], reached: set[Any]) -> tuple[int, ...]:
    return tuple([number for number, value in enumerate(values) if value in reached])


# ----------------------------------------------------------------------
# Where PyTorch's formula (derivatives.yaml) reads something else.

Rule = Callable[[tuple[int, ...], int], Positions]
"""From the numbers of the operands that require a gradient, and how many operands there are."""


def _nothing(wrt: tuple[int, ...], count: int) -> Positions:
    return (), ()


def _result(wrt: tuple[int, ...], count: int) -> Positions:
    return (), (0,)


def _operand(wrt: tuple[int, ...], count: int) -> Positions:
    return (0,), ()


def _operand_and_result(wrt: tuple[int, ...], count: int) -> Positions:
    return (0,), (0,)


def _operands(wrt: tuple[int, ...], count: int) -> Positions:
    return tuple(range(count)), ()


def _two_operands(wrt: tuple[int, ...], count: int) -> Positions:
    return (0, 1), ()


def _quotient(wrt: tuple[int, ...], count: int) -> Positions:
    return (0, 1) if 1 in wrt else (1,), ()


def _labels(wrt: tuple[int, ...], count: int) -> Positions:
    return tuple(range(1, count)) if 0 in wrt else (), ()


def _length(wrt: tuple[int, ...], count: int) -> Positions:
    return wrt, (0,)


_OF_PYTORCH: Final[dict[str, Rule]] = {
    **dict.fromkeys(
        (
            *("exp", "exp2", "expm1", "reciprocal", "relu", "rsqrt", "sigmoid", "sqrt", "tan", "tanh"),
            *("log_softmax", "masked_softmax", "softmax"),
        ),
        _result,
    ),
    **dict.fromkeys(("avg_pool2d", "elu", "erfinv", "log_sigmoid", "max_pool2d", "var"), _operand),
    **dict.fromkeys(("cumprod", "logsumexp", "reduce_prod", "std"), _operand_and_result),
    **dict.fromkeys(("attention", "l1_loss"), _nothing),
    **dict.fromkeys(("conv", "conv_nd", "conv_transpose_nd"), _two_operands),
    "cross_entropy": _labels,
    "layer_norm": _operands,
    "div": _quotient,
    "hypot": _length,
}

_WITH_HIDDEN_RESULTS: Final = frozenset(
    {"attention", "batch_norm_train", "cross_entropy", "layer_norm", "log_sigmoid", "max_pool2d"}
)
"""Ops of which PyTorch also saves what no program sees, and no write changes: means, places of maxima."""
