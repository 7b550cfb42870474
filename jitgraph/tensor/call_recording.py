"""What a call of a function of tensors and numbers does, as one op: found by recording the function on its operands.

A tensor is recorded as an input of a graph. So is a number, in the dtype in which the function takes it, as long as the
function does not look at it: what does, such as a power that is a square where the exponent is 2, is recorded with that
very number, and serves that number alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from jitgraph import errors
from jitgraph.dtypes import DType
from jitgraph.eager import fused_ops
from jitgraph.eager.dispatch.launches import Argument, ConstantArgument, NumberArgument
from jitgraph.eager.handle import Api, ValueHandle, class_of_tensors
from jitgraph.eager.kernels import open_shapes_of
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Attrs, Graph, Value
from jitgraph.ir.op import Op, OpenShape, has
from jitgraph.ir.types import TensorType
from jitgraph.runtime import shared
from jitgraph.runtime.dispatch_records import NUMBER_DTYPES


class OpCall(NamedTuple):
    """The one op that a call applies to those of its arguments that are no constants.

    ``carries_gradient``: the tape records it where an argument requires a gradient that does here.
    """

    op: Op
    attrs: Attrs
    arguments: tuple[Argument, ...]
    carries_gradient: bool


class CallMeaning(NamedTuple):
    """What calls like one do, None where no one op does it, and the arguments whose numbers it is for."""

    call: OpCall | None
    static: frozenset[int]


def record(function: Callable[..., Any], args: Sequence[Any], static: frozenset[int], api: Api = "") -> CallMeaning:
    """What ``function(*args)`` does for eager values and Python's ints and floats.

    ``static`` are the arguments known to be looked at; ``api`` is that of the tensors.
    """
    while True:
        try:
            graph, arguments = _graph(function, args, static, {}, api)
            operands = [p for p, argument in enumerate(arguments) if not isinstance(argument, ConstantArgument)]
            static |= frozenset(range(len(args))).difference(operands)
            found = _as_op(graph) or _with_named_sizes(function, args, static, graph, operands, api)
        except _LookedAt as number:
            static |= {number.position}
        except _REFUSALS:
            return CallMeaning(None, static)
        else:
            break
    if found is None:
        return CallMeaning(None, static)
    required = [isinstance(args[p], EagerValue) and args[p].record is not None for p in operands]
    return CallMeaning(OpCall(*found, arguments, fused_ops.carries_gradient(graph, required)), static)


def _as_op(graph: Graph) -> tuple[Op, Attrs] | None:
    """A graph as one op with its attributes, where its sizes need no names for that."""
    nodes, inputs = graph.nodes, graph.inputs
    if not nodes:
        raise NotRecordedError("it gives an argument")
    if len(nodes) == 1 and nodes[0].inputs == inputs and len(set(inputs)) == len(inputs):
        return nodes[0].op, nodes[0].attrs
    return fused_ops.elementwise_op(graph)


def _with_named_sizes(
    function: Callable[..., Any],
    args: Sequence[Any],
    static: frozenset[int],
    graph: Graph,
    operands: Sequence[int],
    api: Api,
) -> tuple[Op, Attrs] | None:
    """The graph that ``function`` records for sizes with names as one op, if it is the one of these very sizes."""
    shapes = open_shapes_of(tuple([value.shape for value in graph.inputs]))
    named, _ = _graph(function, args, static, dict(zip(operands, shapes, strict=True)), api)
    op = fused_ops.graph_op(named, graph)
    return None if op is None else (op, {})


def _graph(
    function: Callable[..., Any],
    args: Sequence[Any],
    static: frozenset[int],
    shapes: Mapping[int, OpenShape],
    api: Api,
) -> tuple[Graph, tuple[Argument, ...]]:
    """The graph of a call, and what its arguments are; ``shapes`` are those of tensors by position, where not theirs.

    Its inputs are in the order of the arguments.
    """
    builder = _Builder()
    make = class_of_tensors(api)._of
    numbers: dict[int, _Number] = {}
    tensors: dict[int, Value] = {}
    stand_ins: list[Any] = []
    for position, x in enumerate(args):
        if isinstance(x, EagerValue):
            shape = [Dim.name(n) if isinstance(n, str) else n for n in shapes.get(position, x.shape)]
            tensors[position] = builder.input(TensorType(x.dtype, tuple(shape)))
            stand_ins.append(make(tensors[position]))
        elif position in static:
            stand_ins.append(x)
        else:
            numbers[position] = _Number(builder, x.__class__, position)
            stand_ins.append(numbers[position])
    with (
        shared.PAUSED.inside(),  # a finaliser would have its ops recorded
        context.using(emitter=builder, constraints=builder.constraints, trace=CallTrace()),
    ):
        result = function(*stand_ins)
    if not isinstance(result, ValueHandle) or result._weak or result._value.__class__ is not Value:
        raise NotRecordedError("its result is no tensor")
    inputs: list[Value] = []
    arguments: list[Argument] = []
    for position, x in enumerate(args):
        number = numbers.get(position)
        if position in tensors:
            inputs.append(tensors[position])
            arguments.append(x.type)
        elif number is not None and number.operand is not None:
            inputs.append(number.operand)
            arguments.append(NumberArgument(x.__class__, number.operand.dtype))
        else:
            arguments.append(ConstantArgument(x))
    nodes, constraints = tuple(builder.nodes), tuple(builder.constraints)
    return Graph(tuple(inputs), nodes, (result._value,), constraints), tuple(arguments)


class NotRecordedError(Exception):
    """Why a call is no one op."""


class _LookedAt(Exception):
    """A number that is recorded as an input was looked at."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


_REFUSALS: Final = (
    NotRecordedError,
    errors.JitgraphError,
    errors.ArgumentError,
    AttributeError,  # these where a function of PyTorch's API looks at more than a symbolic tensor shows
    TypeError,
    ValueError,
    RuntimeError,
    IndexError,
)


class _Builder(GraphBuilder):
    """Records a few ops of the table, without effects."""

    def emit(self, op: Op, inputs: Sequence[Value], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Value, ...]:
        """Append one node; NotRecordedError where there are many, or for what no kernel of a call has."""
        if regions or op.effect != "none" or op.kind == "control" or op.lowering == "host" or not has(op):
            raise NotRecordedError(f"it applies {op.name}")
        if len(self.nodes) >= _MOST_NODES:
            raise NotRecordedError("it applies many ops")
        return super().emit(op, inputs, attrs, regions)


_MOST_NODES: Final = 12


class CallTrace:
    """What stands for the trace while a call is recorded: it knows the values of the call's own tensors alone."""

    takes_tape = False

    def read(self, handle: ValueHandle) -> Any:
        """The handle's value."""
        if handle._value.__class__ is not Value:
            raise NotRecordedError("it reads a tensor that is no argument")
        return handle._value

    def __getattr__(self, name: str) -> NoReturn:
        raise NotRecordedError(f"it asks a trace for {name}")


class _Number:
    """A Python number that a call takes, whichever it is; what asks which one it is records the call once more."""

    __slots__ = ("_builder", "_position", "kind", "operand")

    is_size = is_computed = False
    is_checked = True
    """Tables take it only where the dtype in which it is an operand holds it."""

    def __init__(self, builder: GraphBuilder, kind: type, position: int) -> None:
        self._builder = builder
        self._position = position
        self.kind = kind
        self.operand: Value | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """As ``isinstance`` sees it, an int or a float."""
        return self.kind

    def value_in(self, dtype: DType) -> Value:
        """The operand of rank 0 that it is."""
        if self.operand is None and dtype.name in NUMBER_DTYPES:
            self.operand = self._builder.input(TensorType(dtype, ()))
        if self.operand is None or self.operand.dtype != dtype:
            raise _LookedAt(self._position)
        return self.operand


def _look(number: Any, *_: Any) -> NoReturn:
    raise _LookedAt(number._position)


_LOOKS: Final = (
    "abs add and bool ceil complex divmod eq float floor floordiv format ge gt hash index int invert le lshift lt mod "
    "mul ne neg or pos pow radd rand rdivmod repr rfloordiv rlshift rmod rmul ror round rpow rrshift rshift rsub "
    "rtruediv rxor str sub truediv trunc xor"
)
for _name in _LOOKS.split():
    setattr(_Number, f"__{_name}__", _look)
