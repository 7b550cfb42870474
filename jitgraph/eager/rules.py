"""Which executor runs an op outside of traces: a property of the op, its dtypes and sizes, never of what ran before.

- A kernel, the trace's own code, runs what has bits of our own: products, float reductions, math functions, composites
  of floats, and elementwise ops that are no one ufunc; and what is fused for eager calls, and long sorts.
- NumPy evaluates what is exactly determined. A kernel of it has the same bits but for the sign and payload of a NaN, so
  either may run: the kernel where it is ready and goes past Python.
- Composites of anything else run op by op. A GPU runs what has an operand there.

Where there is no native code, or an operand is empty, the evaluation serves in place of a kernel, and composites run op
by op. Counts of calls say when code is asked for and paths are cached, not whose bits a result has. The rule for
operands of certain types is settled at the first such call, and looked up by those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from jitgraph import config
from jitgraph.dtypes import DTYPES, DType, is_inexact
from jitgraph.eager import placement
from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.start import native_runtime
from jitgraph.eager.kernels import DTypes, EagerKernels, Half, Prepared, common_shape, exact, is_pointwise
from jitgraph.eager.launch import KernelCall, silently
from jitgraph.eager.records import KernelRecord, OpRecord
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import DTypeError, HostAccessError, JitgraphError
from jitgraph.ir import context
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.ops.rules import HALF
from jitgraph.runtime.loader import CHECK_KINDS

_CHECKED_ONCE: Final = frozenset({"elementwise", "reduce", "movement", "contraction", "indexing"})
_LOWERED_ALIKE: Final = frozenset({"cumulative", "full", "iota", "sort"})  # ops of other kinds
_MOST: Final = 4096
_SMALL_VIEW: Final = 1 << 16
_OFTEN: Final = 64  # calls of a ufunc after which its kernel is asked for
_LONG_SORT: Final = 1 << 15  # elements, for which NumPy takes some milliseconds
_LONG_SEARCH: Final = 1 << 12  # numbers, for each of which there are some steps of several ops


def runs_kernel(op: Op, dtypes: DTypes, shapes: Sequence[tuple[int, ...]], attrs: Attrs) -> bool:
    """Whether an op on operands of these dtypes and shapes runs a kernel wherever there can be one."""
    return is_compiled(op, dtypes, attrs) or "fused_op" in op.traits or is_long(op, shapes)


def is_compiled(op: Op, dtypes: DTypes, attrs: Attrs) -> bool:
    """Whether an op on operands of these dtypes has the bits of a kernel."""
    if not any(map(is_inexact, dtypes)):
        return False
    if op.decompose is not None:
        return op.effect == "none" and "shape" not in attrs  # a kernel takes its sizes from operands
    if op.kind == "elementwise":
        return "approximated" in op.traits or (op.ufunc is None and "storage" not in op.traits)
    return op.kind in ("contraction", "reduce") or op.lowering == "cumulative"


def is_long(op: Op, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether NumPy takes so long for a sort, a search or a sliding sum that a kernel, with the same bits, pays."""
    if op.lowering == "search":
        return prod(shapes[1]) >= _LONG_SEARCH
    if op.lowering == "slide":
        return prod(shapes[0]) >= _LONG_SEARCH
    return op.lowering in ("sort", "first_positions", "ranked_positions") and prod(shapes[0]) >= _LONG_SORT


def may_multiply(op: Op) -> bool:
    """Whether an op may do as much work as a product of its operands."""
    return op.kind == "contraction" or op.decompose is not None


def gains_by_sizes(op: Op) -> bool:
    """Whether a kernel for known sizes may be much faster than one for named sizes: not where all axes are one."""
    return may_multiply(op) and not is_pointwise(op)


class _Ufuncs(dict[Op, Mapping[DType, Any]]):
    def __missing__(self, op: Op) -> Mapping[DType, Any]:
        by_dtype: dict[DType, Any] = {}
        is_whole = op.kind == "elementwise" and op.ufunc is not None and "approximated" not in op.traits
        for dtype in DTYPES if is_whole else ():
            try:
                op.output_types([TensorType(dtype, ())] * op.ufunc.nin, {}, ())
            except DTypeError:
                continue
            if dtype not in HALF:
                by_dtype[dtype] = op.ufunc
        self[op] = by_dtype
        return by_dtype


UFUNCS: Final = _Ufuncs()
"""The ufunc of an op for each dtype of operands for which it is all of the op's meaning, looked up on first demand."""


def is_ruled(op: Op) -> bool:
    """Whether an op has rules: it takes and gives tensors alone, and has no regions but that of a composite."""
    if "gradient_by_python" in op.traits:
        return False
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

    def record(self, inputs: tuple[EagerValue, ...], attrs: Attrs, outputs: tuple[EagerValue, ...]) -> OpRecord:
        """What the tape keeps of a call."""
        return OpRecord(self.op, inputs, attrs, outputs)


class ByNumpy(EagerRule):
    """NumPy evaluates it; a ufunc until a kernel of the same bits is ready, which calls that come back ask for."""

    __slots__ = ("_evaluate", "_is_view", "_kernel", "_kernels", "_served", "_ufunc")

    def __init__(self, op: Op, dtype: np.dtype[Any] | None, kernels: EagerKernels) -> None:
        super().__init__(op)
        assert op.evaluate is not None
        self._evaluate = op.evaluate
        self._ufunc: Any = None if dtype is None else UFUNCS[op].get(dtype)
        self._is_view = "view" in op.traits
        self._kernels = kernels
        self._kernel: ByKernel | None = None
        self._served = 0

    def run(self, inputs: Sequence[EagerValue], attrs: Attrs) -> tuple[EagerValue, ...]:
        if self._kernel is not None:
            return self._kernel.launch.run(*inputs)
        if self._ufunc is None:
            arrays = [value.array for value in inputs]
            results = tuple([EagerValue(x) for x in evaluated(self.op, self._evaluate, arrays, attrs)])
            return results if not self._is_view or not inputs[0].is_private() else tuple(map(dense, results))
        self._served += 1
        if self._served >= _OFTEN:
            self._ask_for_kernel(inputs)
        return self._by_ufunc(*inputs)

    def _by_ufunc(self, *inputs: EagerValue) -> tuple[EagerValue, ...]:
        result = silently(self._ufunc, *[value.array for value in inputs])
        return (EagerValue(result if result.__class__ is np.ndarray else np.asarray(result)),)

    def _ask_for_kernel(self, inputs: Sequence[EagerValue]) -> None:
        dtypes, shapes = types_of(inputs)
        self._served = 0
        if len(set(shapes)) != 1 or len(set(dtypes)) != 1 or dtypes[0].kind == "c":
            return
        try:
            if native_runtime() is None:
                return
            prepared = self._kernels.prepare(self.op, dtypes, shapes, {}, can_wait=True)
        except Unsupported:
            return
        if prepared is not None:
            launch = KernelCall(prepared, shapes[:1], multiplies=False, python=self._by_ufunc)
            launch.go_native(inputs)
            self._kernel = ByKernel(self.op, launch, gradient_by_kernel(self.op, dtypes, self._kernels, prepared))

    def record(self, inputs: tuple[EagerValue, ...], attrs: Attrs, outputs: tuple[EagerValue, ...]) -> OpRecord:
        if self._kernel is None:
            return OpRecord(self.op, inputs, attrs, outputs)
        return self._kernel.record(inputs, attrs, outputs)


def dense(view: EagerValue) -> EagerValue:
    """A small view as memory of its own: kernels, on the way back as well, would each make a copy of one with gaps."""
    array = view.array
    if array.flags.c_contiguous or array.nbytes > _SMALL_VIEW:
        return view
    return EagerValue(array.copy())


class KernelGradient:
    """The gradient of one op on operands of certain types by compiled code, a kernel for each half."""

    __slots__ = ("_kernels", "_launches", "_op", "_target")

    def __init__(self, op: Op, kernels: EagerKernels, target: Target) -> None:
        self._op = op
        self._kernels = kernels
        self._target = target
        self._launches: dict[Half, KernelCall] = {}

    def __call__(self, record: OpRecord, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        wrt = tuple([i for i, value in enumerate(inputs) if value.record is not None])
        half = Half(wrt, tuple([i for i, ct in enumerate(cotangents) if ct is not None]))
        launch = self._launches.get(half) or self._first(half, record, inputs)
        read = record.outputs if self._op.vjp is not None else ()
        gradients = launch.run(*inputs, *read, *[ct for ct in cotangents if ct is not None])
        if len(gradients) == len(inputs):
            return gradients
        results: list[Any] = [None] * len(inputs)
        for number, value in zip(launch.given, gradients, strict=True):
            results[number] = value
        return results

    def _first(self, half: Half, record: OpRecord, inputs: Sequence[Any]) -> KernelCall:
        dtypes, shapes = types_of(inputs)
        prepare = partial(self._kernels.prepare, self._op, dtypes, shapes, record.attrs, half, self._target)
        prepared = prepare()
        assert prepared is not None
        out_shapes = [shapes[number] for number in prepared.kernel.given]
        exact = partial(prepare, is_exact=True) if gains_by_sizes(self._op) else None
        launch = KernelCall(prepared, out_shapes, multiplies=may_multiply(self._op), exact=exact)
        self._launches[half] = launch
        return launch


class ByKernel(EagerRule):
    """A kernel computes it, and another its gradient, unless the op's own rule for that is as good."""

    __slots__ = ("_gradient", "launch")

    def __init__(self, op: Op, launch: KernelCall, gradient: KernelGradient | None) -> None:
        super().__init__(op)
        self.launch = launch
        self._gradient = gradient

    def run(self, inputs: Sequence[EagerValue], attrs: Attrs) -> tuple[EagerValue, ...]:
        try:
            return self.launch.run(*inputs)
        except HostAccessError:  # on a GPU, where the whole op runs
            raise
        except JitgraphError:
            if self.launch.checks and self.op.decompose is not None:
                with context.using(grad_enabled=False):
                    self.op.decompose(*inputs, **attrs)  # fails with the very sizes and the user's line
            raise

    def record(self, inputs: tuple[EagerValue, ...], attrs: Attrs, outputs: tuple[EagerValue, ...]) -> OpRecord:
        if self._gradient is None:
            return OpRecord(self.op, inputs, attrs, outputs)
        return KernelRecord(self.op, inputs, attrs, outputs, self._gradient)


def gradient_by_kernel(op: Op, dtypes: DTypes, kernels: EagerKernels, prepared: Prepared) -> KernelGradient | None:
    """The gradient of an op that this kernel computes; None where the op's rule serves as well."""
    return KernelGradient(op, kernels, prepared.target) if kernels.differentiates(op, dtypes) else None


class ByDevice(EagerRule):
    """A GPU, on which an operand lies, computes it and keeps its own tape."""

    __slots__ = ()

    def __init__(self, op: Op) -> None:
        super().__init__(op)
        self.differentiable = False

    def run(self, inputs: Sequence[Any], attrs: Attrs) -> tuple[Any, ...]:
        return placement.emit(self.op, inputs, attrs, ())


def types_of(values: Sequence[Any]) -> tuple[Any, tuple[tuple[int, ...], ...]]:
    """The dtypes and the shapes of values."""
    return tuple([value.dtype for value in values]), tuple([value.shape for value in values])


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
        if op.lowering == "host":  # what a user's function raises is the user's
            raise
        kind = "IndexError" if isinstance(error, IndexError) else "ValueError"
        raise CHECK_KINDS[kind](with_line(f"{op.name}: {error}")) from error
    results = result if isinstance(result, tuple) else (result,)
    for array in arrays:
        for output in results:
            if output is array and isinstance(array, np.ndarray):
                return tuple([x.view() if any(x is y for y in arrays) else x for x in results])
    return results


def with_line(message: str) -> str:
    """The message of a failed check, which names the user's line as it does in compiled code."""
    location = Location.of_user()
    return f"{message}\n  at {location}" if location is not None else message


class Rules:
    """The rules that were settled; no lock, as for the kernels.

    Flags are asked for when a rule is settled. What is settled while graphs are interpreted is not kept, as it would
    stay without kernels, which have other bits, when they are compiled again.
    """

    def __init__(self) -> None:
        self._rules: dict[tuple[Any, ...], tuple[EagerRule | None, Sequence[TensorType]]] = {}
        self._kernels = EagerKernels()

    def rule(self, op: Op, inputs: Sequence[EagerValue], attrs: Attrs, *, can_wait: bool = False) -> EagerRule | None:
        """How ``op``, which has rules, runs on these operands; None for op by op. Errors of its rule.

        ``can_wait``: Unsupported where its kernel is yet to be made.
        """
        types = [id(value.type) for value in inputs]  # one object for each type
        key = (op, exact(attrs), *types) if attrs else (op, *types)
        try:
            return self._rules[key][0]
        except KeyError:
            return self._settled(key, op, inputs, attrs, can_wait)

    def kernel(self, op: Op, inputs: Sequence[EagerValue], attrs: Attrs) -> ByKernel | None:
        """``op`` on these operands by a kernel, also where NumPy evaluates it to the same bits; None where none serves.

        Unsupported while its kernel is yet to be made.
        """
        if not is_ruled(op) or "shape" in attrs or placement.is_on_device(inputs):
            return None
        if any(value.dtype.kind == "c" for value in inputs):
            return None
        rule = self.rule(op, inputs, attrs, can_wait=True)
        if isinstance(rule, ByKernel):
            return rule
        return self._by_kernel(op, inputs, attrs, can_wait=True)

    def _settled(
        self, key: tuple[Any, ...], op: Op, inputs: Sequence[EagerValue], attrs: Attrs, can_wait: bool
    ) -> EagerRule | None:
        if placement.is_on_device(inputs):  # where it runs as a whole; a kernel of the CPU would be made for nothing
            return self._stored(key, ByDevice(op), inputs)
        rule: EagerRule | None = None
        if runs_kernel(op, *types_of(inputs), attrs):
            rule = self._by_kernel(op, inputs, attrs, can_wait=can_wait)
        elif op.decompose is None:
            op.output_types([value.type for value in inputs], attrs, ())
        if rule is None and op.evaluate is not None and op.decompose is None:
            rule = ByNumpy(op, inputs[0].dtype if inputs else None, self._kernels)
        return self._stored(key, rule, inputs)

    def _by_kernel(self, op: Op, inputs: Sequence[EagerValue], attrs: Attrs, *, can_wait: bool) -> ByKernel | None:
        dtypes, shapes = types_of(inputs)
        outputs: list[tuple[int, ...]] | None = None
        if op.decompose is None:
            types: Any = op.output_types([value.type for value in inputs], attrs, ())
            outputs = [type.shape for type in types]
        elif is_pointwise(op) and (common := common_shape(shapes)) is not None:
            outputs = [common]
        prepare = partial(self._kernels.prepare, op, dtypes, shapes, attrs)
        prepared = prepare(can_wait=can_wait)
        if prepared is None:
            return None
        exact = partial(prepare, target=prepared.target, is_exact=True) if gains_by_sizes(op) else None
        launch = KernelCall(prepared, outputs, multiplies=may_multiply(op), exact=exact)
        return ByKernel(op, launch, gradient_by_kernel(op, dtypes, self._kernels, prepared))

    def _stored(self, key: tuple[Any, ...], rule: EagerRule | None, inputs: Sequence[EagerValue]) -> EagerRule | None:
        if config.INTERPRET.is_on():
            return rule
        if len(self._rules) >= _MOST:
            self._rules.clear()
        self._rules[key] = rule, [value.type for value in inputs]  # which are kept, and so are their ids
        return rule


def taped(record: OpRecord, outputs: tuple[EagerValue, ...]) -> tuple[EagerValue, ...]:
    """The outputs of a call as those of its record; gradients flow to floats alone.

    They are values of their own: the record holds those of the call, and a launch may keep them to write to them again.
    """
    return tuple(
        [value.part_of(record, number) if is_inexact(value.dtype) else value for number, value in enumerate(outputs)]
    )
