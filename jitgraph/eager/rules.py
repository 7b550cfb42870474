"""How one op runs on operands of certain types: settled at the first such call, and looked up by those after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import is_float
from jitgraph.eager.kernels import EagerKernels, Half
from jitgraph.eager.launch import KernelCall, silently
from jitgraph.eager.native import same_memory
from jitgraph.eager.patterns import exact, is_pointwise
from jitgraph.eager.records import KernelRecord, OpRecord
from jitgraph.eager.value import EagerValue
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op
from jitgraph.ir.target import Target
from jitgraph.location import Location
from jitgraph.ops.rules import HALF
from jitgraph.runtime.loader import CHECK_KINDS

_CHECKED_ONCE: Final = frozenset({"elementwise", "reduce", "movement", "contraction", "indexing"})
_LOWERED_ALIKE: Final = frozenset({"cumulative", "full", "iota"})  # ops of other kinds
_MOST: Final = 4096


def is_ruled(op: Op) -> bool:
    """Whether an op has rules: it takes and gives tensors alone, and has no regions but that of a composite."""
    return op.kind in _CHECKED_ONCE or op.decompose is not None or op.lowering in _LOWERED_ALIKE


class EagerRule:
    """One op on operands of certain types; ``differentiable``: gradients may flow through it."""

    __slots__ = ("differentiable", "op")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.differentiable = "nondifferentiable" not in op.traits

    def run(self, inputs: Sequence[EagerValue], attrs: Attrs) -> tuple[EagerValue, ...]:
        """The outputs, without a tape."""
        raise NotImplementedError

    def record(self, inputs: Sequence[EagerValue], attrs: Attrs, arrays: tuple[Any, ...]) -> OpRecord:
        """What the tape keeps of a call."""
        return OpRecord(self.op, tuple(inputs), attrs, arrays)


class ByNumpy(EagerRule):
    """NumPy evaluates it."""

    __slots__ = ("_evaluate", "_ufunc")

    def __init__(self, op: Op, dtype: np.dtype[Any] | None) -> None:
        super().__init__(op)
        assert op.evaluate is not None
        self._evaluate = op.evaluate
        self._ufunc = op.ufunc if dtype not in HALF else None

    def run(self, inputs: Sequence[EagerValue], attrs: Attrs) -> tuple[EagerValue, ...]:
        arrays = [value.array for value in inputs]
        if self._ufunc is not None:
            result = silently(self._ufunc, *arrays)
            return (EagerValue(result if result.__class__ is np.ndarray else np.asarray(result)),)
        return tuple([EagerValue(x) for x in evaluated(self.op, self._evaluate, arrays, attrs)])


class ByKernel(EagerRule):
    """A kernel computes it, and another its gradient."""

    __slots__ = ("_gradients", "_kernels", "_launch", "_target")

    def __init__(self, op: Op, launch: KernelCall, kernels: EagerKernels, target: Target) -> None:
        super().__init__(op)
        self._launch = launch
        self._target = target
        self._kernels = kernels
        self._gradients: dict[Half, KernelCall] = {}

    def run(self, inputs: Sequence[EagerValue], attrs: Attrs) -> tuple[EagerValue, ...]:
        try:
            return tuple(self._launch(inputs))
        except JitgraphError:
            if self._launch.checks and self.op.decompose is not None:
                with context.using(grad_enabled=False):
                    self.op.decompose(*inputs, **attrs)  # fails with the very sizes and the user's line
            raise

    def record(self, inputs: Sequence[EagerValue], attrs: Attrs, arrays: tuple[Any, ...]) -> OpRecord:
        if self.op.reduction is not None:  # its gradient is its rule's: a sum's is a view
            return OpRecord(self.op, tuple(inputs), attrs, arrays)
        return KernelRecord(self.op, tuple(inputs), attrs, arrays, self._gradient)

    def _gradient(self, record: OpRecord, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        wrt = tuple([i for i, value in enumerate(inputs) if value.record is not None])
        half = Half(wrt, tuple([i for i, ct in enumerate(cotangents) if ct is not None]))
        launch = self._gradients.get(half) or self._first(half, record, inputs)
        read = [EagerValue(array) for array in record.arrays] if self.op.vjp is not None else ()
        found = launch([*inputs, *read, *[ct for ct in cotangents if ct is not None]])
        results: list[Any] = [None] * len(inputs)
        for number, value in zip(launch.given, found, strict=True):
            results[number] = value
        return results

    def _first(self, half: Half, record: OpRecord, inputs: Sequence[Any]) -> KernelCall:
        dtypes, shapes = types_of(inputs)
        prepared = self._kernels.prepare(self.op, dtypes, shapes, record.attrs, half, self._target)
        assert prepared is not None
        wanted = [shapes[number] for number in prepared.kernel.given]
        launch = self._gradients[half] = KernelCall(prepared, wanted)
        return launch


def types_of(values: Sequence[Any]) -> tuple[Any, tuple[tuple[int, ...], ...]]:
    """The dtypes and the shapes of values."""
    arrays = [value.array for value in values]
    return tuple([array.dtype for array in arrays]), tuple([array.shape for array in arrays])


def evaluated(op: Op, evaluate: Callable[..., Any], arrays: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
    """What NumPy makes of arrays: arrays that are none of these, and other kinds of value (tokens, stacks).

    The memory of a view is its operand's, and the operand alone knows whose that is.
    """
    try:
        result = evaluate(*arrays, **attrs)
    except JitgraphError as error:
        if op.effect != "check":
            raise
        raise type(error)(with_line(str(error))) from None
    except (IndexError, ValueError) as error:
        kind = "IndexError" if isinstance(error, IndexError) else "ValueError"
        raise CHECK_KINDS[kind](with_line(f"{op.name}: {error}")) from error
    results = result if isinstance(result, tuple) else (result,)
    for array in arrays:
        for found in results:
            if found is array and isinstance(array, np.ndarray):
                return tuple([x.view() if any(x is y for y in arrays) else x for x in results])
    return results


def with_line(message: str) -> str:
    """The message of a failed check, which names the user's line as it does in compiled code."""
    location = Location.of_user()
    return f"{message}\n  at {location}" if location is not None else message


class Rules:
    """The rules that were settled; no lock, as for the kernels. Flags are asked for when a rule is settled."""

    def __init__(self) -> None:
        self._rules: dict[tuple[Any, ...], EagerRule | None] = {}
        self._kernels = EagerKernels()

    def rule(self, op: Op, inputs: Sequence[EagerValue], attrs: Attrs) -> EagerRule | None:
        """How ``op``, which has rules, runs on these operands; None for op by op. Errors of its rule."""
        key: tuple[Any, ...]
        if attrs:
            key = (op, exact(attrs), *[(x.array.dtype, x.array.shape) for x in inputs])
        else:
            key = (op, *[(x.array.dtype, x.array.shape) for x in inputs])
        try:
            return self._rules[key]
        except KeyError:
            return self._settled(key, op, inputs, attrs)

    def _settled(self, key: tuple[Any, ...], op: Op, inputs: Sequence[EagerValue], attrs: Attrs) -> EagerRule | None:
        dtypes, shapes = types_of(inputs)
        outputs: list[tuple[int, ...]] | None = None
        if op.decompose is None:
            types: Any = op.output_types([value.type for value in inputs], attrs, ())
            outputs = [type.shape for type in types]
        elif is_pointwise(op) and len(set(shapes)) == 1:
            outputs = [shapes[0]]
        prepared = self._kernels.prepare(op, dtypes, shapes, attrs)
        made: EagerRule | None = None
        if prepared is not None:
            made = ByKernel(op, KernelCall(prepared, outputs), self._kernels, prepared.target)
        elif op.evaluate is not None:
            made = ByNumpy(op, dtypes[0] if dtypes else None)
        if len(self._rules) >= _MOST:
            self._rules.clear()
        self._rules[key] = made
        return made


def taped(record: OpRecord, outputs: tuple[EagerValue, ...]) -> tuple[EagerValue, ...]:
    """The outputs of a call as those of its record; gradients flow to floats alone.

    They are values of their own: a launch keeps its results, to write to them again, and must keep no tape.
    """
    made = []
    for number, value in enumerate(outputs):
        if is_float(value.dtype):
            value = same_memory(value, record, number)
        made.append(value)
    return tuple(made)
