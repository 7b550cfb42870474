"""The kernels that run single ops outside of traces, with a trace's bits, and the sizes that one kernel serves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jitgraph import config, errors
from jitgraph.dtypes import is_inexact
from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Attrs, Graph, Value
from jitgraph.ir.op import Op, OpenShape
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ops.rules import open_extent
from jitgraph.records import NamedTuple
from jitgraph.runtime import forks, imports, loader, shared
from jitgraph.runtime.compile_events import WATCHERS, tell
from jitgraph.runtime.loader.pool import can_start

if TYPE_CHECKING:
    import numpy as np

    from jitgraph.code_cache import CodeEntry
    from jitgraph.eager.number_operands import NumberOperands

# ----------------------------------------------------------------------
# Work that may be late: a thread does it while calls go on without, as they did before.

Task = Callable[[], None]


class Background:
    """Tasks by key, which one thread runs in order; it ends with the last of them, or with the program.

    A task is forgotten once it has run, so its errors are its own to keep. A fork's child, which has no such thread,
    starts one when a task is given again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[Hashable, Task] = {}
        self._lock: Any = forks.lock()
        self._thread: threading.Thread | None = None

    def run(self, key: Hashable, task: Task) -> None:
        """Let the thread run a task, unless it has one of this key to run, or runs it now."""
        with self._lock:
            self._tasks.setdefault(key, task)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name=self._name)
                if not can_start(self._thread):  # the next task tries again
                    self._thread = None

    def wait(self) -> None:
        """Return once no task is left."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        key: Hashable = _NOTHING
        while True:
            with self._lock:
                self._tasks.pop(key, None)
                if not self._tasks or not threading.main_thread().is_alive():  # the program ends, and waits for this
                    self._thread = None
                    return
                key, task = next(iter(self._tasks.items()))
            task()


_NOTHING: Final = object()


# ----------------------------------------------------------------------
# For which sizes one kernel serves: the shapes of an eager call with names in place of extents.
#
# An axis of one element is known, as it may be repeated or a product with a vector. Operands of a pointwise op are one
# row, beside which there may be numbers, and axes that a reduction keeps side by side are one axis.

Shapes: TypeAlias = "tuple[tuple[int, ...], ...]"


class SizePattern(NamedTuple):
    """What a kernel is compiled for: operands with these open shapes, under these attributes.

    ``shapes`` are the operands' extents as the kernel sees them.
    """

    open: tuple[OpenShape, ...]
    attrs: Attrs
    shapes: Shapes

    @property
    def known(self) -> SizePattern:
        """The same for these extents alone."""
        return SizePattern(self.shapes, self.attrs, self.shapes)


def is_pointwise(op: Op) -> bool:
    """Whether an element of the result depends on elements of the operands at the same index alone."""
    return op.kind == "elementwise" or "pointwise" in op.traits


def common_shape(shapes: Shapes) -> tuple[int, ...] | None:
    """The shape of all operands but numbers of rank 0, () where there are no others; None where shapes differ."""
    wide = {shape for shape in shapes if shape}
    return None if len(wide) > 1 else wide.pop() if wide else ()


def pattern_of(op: Op, shapes: Shapes, attrs: Attrs) -> SizePattern:
    """The pattern of a call; its shapes were not looked at, and need not fit each other."""
    common = common_shape(shapes) if is_pointwise(op) else None
    if common is not None:
        row = (prod(common),)
        rows = tuple([() if common and not shape else row for shape in shapes])
        return SizePattern(tuple([tuple([open_extent(n, "n") for n in each]) for each in rows]), attrs, rows)
    if op.kind == "reduce":
        return _reduction(shapes[0], attrs)
    if op.open_shapes is not None:
        return SizePattern(op.open_shapes(*shapes, **attrs), attrs, shapes)
    return SizePattern(open_shapes_of(shapes), attrs, shapes)


def open_shapes_of(shapes: Shapes) -> tuple[OpenShape, ...]:
    """Shapes with names for extents: of several operands one for each extent, as equal ones may have to be equal."""
    if len(shapes) == 1:
        return (tuple([open_extent(n, f"n{axis}") for axis, n in enumerate(shapes[0])]),)
    names: dict[int, str] = {}
    return tuple([tuple([open_extent(n, names.setdefault(n, f"n{len(names)}")) for n in shape]) for shape in shapes])


def _reduction(shape: tuple[int, ...], attrs: Attrs) -> SizePattern:
    """Neighbouring axes that are kept become one: the order of a reduction asks only which axis is the last."""
    key = "axes" if "axes" in attrs else "axis"
    raw_axes: Any = attrs[key]
    reduced = raw_axes if key == "axes" else (raw_axes,)
    extents: list[int] = []
    axes = []
    retained = False
    for axis, extent in enumerate(shape):
        if axis in reduced:
            axes.append(len(extents))
        if retained and axis not in reduced:
            extents[-1] *= extent
        else:
            extents.append(extent)
        retained = axis not in reduced
    open_shape = tuple([open_extent(extent, f"n{axis}") for axis, extent in enumerate(extents)])
    merged: dict[str, Any] = {**attrs, key: tuple(axes) if key == "axes" else axes[0]}
    return SizePattern((open_shape,), merged, (tuple(extents),))


def exact(attrs: Attrs) -> tuple[Any, ...]:
    """The attributes as a key that keeps apart what compares equal and is another: 1, 1.0 and True, and the zeros."""
    return tuple([(name, x, x.__class__) if x else (name, repr(x), x.__class__) for name, x in attrs.items()])


# ----------------------------------------------------------------------
# The kernels that run single ops outside of traces, with a trace's bits; which ops do, ``rules.py`` says.
#
# A kernel serves all sizes (``kernels.py``), and the compile cache keeps it for later processes. One that is no more
# than faster than an evaluation of the same bits is made by a thread, once it was asked for often.

DTypes: TypeAlias = "tuple[np.dtype[Any], ...]"

_MOST_KERNELS: Final = 512
_PATIENCE: Final = 7
"""Requests, which come after ever more calls, from which on a kernel that can wait is made: after some 200 calls."""
_REFUSALS: Final = (errors.JitgraphError, errors.ArgumentError)


class Half(NamedTuple):
    """The gradient of an op: for operands numbered in ``wrt`` from cotangents of the outputs numbered in ``seeds``."""

    wrt: tuple[int, ...]
    seeds: tuple[int, ...]


class OpKernel(NamedTuple):
    """Compiled code. Of a gradient, ``given`` numbers the operands for which it gives one.

    ``numbers`` are its last operands: what it computes for certain attributes alone (``number_operands.py``).
    """

    entry: loader.Entry
    given: tuple[int, ...]
    numbers: tuple[EagerValue, ...] = ()


class Prepared(NamedTuple):
    """A kernel with what these sizes lead to."""

    kernel: OpKernel
    plan: loader.ShapePlan
    target: Target


class EagerKernels:
    """Compiled kernels of single ops. No lock: two threads may make one twice, and a fork finds nothing held."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], OpKernel] = {}
        self._target: tuple[str, Target | None] | None = None
        self._with_numbers: dict[tuple[Any, ...], NumberOperands | None] = {}  # None once one kernel was asked for
        self._requests: dict[tuple[Any, ...], int] = {}  # of kernels that can wait
        self._background: Background | None = None

    def prepare(
        self,
        op: Op,
        dtypes: DTypes,
        shapes: tuple[tuple[int, ...], ...],
        attrs: Attrs,
        half: Half | None = None,
        target: Target | None = None,
        *,
        is_exact: bool = False,
        can_wait: bool = False,
    ) -> Prepared | None:
        """The code for ``op``, or for a half of its gradient, on operands of these types.

        ``target`` is what the op itself ran on, whose gradient it is, whatever the flags say meanwhile. ``is_exact``:
        for these sizes alone, None where that is refused. None where there is no native code, or an operand is empty.
        The op's rule is asked about the types where no kernel was made yet, and where this one does not take them: its
        errors are those of the op.
        ``can_wait``: Unsupported while neither this process nor the cache has the code, which a thread then makes.
        """
        if any(0 in shape for shape in shapes):
            return None
        target = target or self._native_target(op)
        if target is None:
            return None
        pattern = pattern_of(op, shapes, attrs)
        try:
            return self._prepared(op, dtypes, pattern.known if is_exact else pattern, half, target, can_wait)
        except _REFUSALS:
            if is_exact:
                return None
            actual = [TensorType(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=True)]
            op.output_types(actual, attrs, ())  # what is wrong with the operands themselves
            return self._prepared(op, dtypes, pattern.known, half, target)

    def differentiates(self, op: Op, dtypes: DTypes) -> bool:
        """Whether a kernel computes the gradient of an op that one computes.

        Not that of a reduction, whose rule makes a view, and of ufuncs where the rule only hands the cotangent on.
        """
        if op.reduction is not None:
            return False
        if op.kind != "elementwise" or op.ufunc is None or "approximated" in op.traits:
            return True
        if op.vjp is None or not any(map(is_inexact, dtypes)):
            return False
        shapes = ((2,),) * len(dtypes)
        graph = backward_graph(op, dtypes, SizePattern(shapes, {}, shapes), Half(tuple(range(len(dtypes))), (0,)))
        return any(value not in graph.inputs for value in graph.outputs)

    def _prepared(
        self, op: Op, dtypes: DTypes, pattern: SizePattern, half: Half | None, target: Target, can_wait: bool = False
    ) -> Prepared:
        key = (op, half, dtypes, pattern.open, target.name, exact(pattern.attrs))
        kernel = self._made.get(key)
        if kernel is None and (kernel := self._by_numbers(op, dtypes, pattern, half, target, can_wait)) is not None:
            self._store(key, kernel)
        if kernel is None and can_wait and not config.DISPATCH.raw():
            kernel = self._late(key, op, dtypes, pattern, half, target)
        if kernel is None:
            kernel = self._store(key, _profiled(op, lambda: _kernel(op, dtypes, pattern, half, target)))
        shapes = pattern.shapes
        if half is not None:
            shapes = self._with_outputs(op, dtypes, pattern, half, target)
        return Prepared(kernel, kernel.entry.plan((*shapes, *[()] * len(kernel.numbers))), target)

    def _by_numbers(
        self, op: Op, dtypes: DTypes, pattern: SizePattern, half: Half | None, target: Target, can_wait: bool
    ) -> OpKernel | None:
        """A kernel that has numbers among the attributes as operands; None where none is, or for the first numbers.

        Those are constants of their code, as in a trace: most programs have no others.
        """
        fixed = {name: attr for name, attr in pattern.attrs.items() if attr.__class__ not in (float, int)}
        if len(fixed) == len(pattern.attrs):
            return None
        family = (op, half, dtypes, pattern.open, target.name, exact(fixed), *pattern.attrs)
        if family not in self._with_numbers:
            if len(self._with_numbers) >= _MOST_KERNELS:
                self._with_numbers.clear()
            self._with_numbers[family] = None
            return None

        def build(attrs: Attrs) -> Graph:
            with shared.PAUSED.inside():  # a finaliser would have its ops recorded into the graph
                return _graph(op, dtypes, pattern._replace(attrs=attrs), half)

        known = self._with_numbers[family]
        if known is None:
            with imports.importing():
                from jitgraph.eager.number_operands import NumberOperands  # here, as most programs have one set each
            known = self._with_numbers[family] = NumberOperands(build, target)
        applied = known.apply(pattern.attrs)
        if applied is None:
            return None
        key = ("numbers", *family, applied.graph.canonical)
        kernel = self._made.get(key)
        if kernel is None and can_wait:
            return None
        if kernel is None:
            entry = _entry_of(op, dtypes, pattern._replace(attrs={"numbers": applied.graph.canonical}), half, target)
            make = lambda: _cached_kernel(entry) or _compiled(entry, lambda: applied.graph, target)
            kernel = self._store(key, _profiled(op, make))
        return kernel._replace(numbers=applied.numbers)

    def _store(self, key: tuple[Any, ...], kernel: OpKernel) -> OpKernel:
        if len(self._made) >= _MOST_KERNELS:
            self._made.clear()
        self._made[key] = kernel
        return kernel

    def _late(
        self, key: tuple[Any, ...], op: Op, dtypes: DTypes, pattern: SizePattern, half: Half | None, target: Target
    ) -> OpKernel | None:
        """The kernel if an earlier process made it, else Unsupported, for now; None where it cannot be made."""
        if len(self._requests) >= _MOST_KERNELS:
            self._requests.clear()
        requests = self._requests[key] = self._requests.get(key, 0) + 1
        if requests == 1:
            ready = _cached_kernel(_entry_of(op, dtypes, pattern, half, target))
            if ready is not None:
                return self._store(key, ready)
        if requests < 0:
            return None

        def make() -> None:
            try:
                self._store(key, _kernel(op, dtypes, pattern, half, target))
            except Exception:  # who asks next makes it at once, and gets the error
                self._requests[key] = _FAILED

        if requests >= _PATIENCE:
            self._thread().run(key, make)
        raise Unsupported("its kernel is yet to be made")

    def _thread(self) -> Background:
        if self._background is None:
            self._background = Background("jitgraph-kernels")
        return self._background

    def _with_outputs(
        self, op: Op, dtypes: DTypes, pattern: SizePattern, half: Half, target: Target
    ) -> tuple[tuple[int, ...], ...]:
        """The shapes that a gradient takes: of operands, of outputs where the rule reads them, of cotangents."""
        plan = self._prepared(op, dtypes, pattern, None, target).plan
        outputs = [shape for shape, _, _ in plan.outputs]
        read = outputs if op.vjp is not None else ()
        return (*pattern.shapes, *read, *(outputs[number] for number in half.seeds))

    def _native_target(self, op: Op) -> Target | None:
        """This machine's target; None where its code would be slower than NumPy, or there is none."""
        cpu = config.TARGET_CPU.text()
        if config.INTERPRET.is_on():
            return None
        if self._target is None or self._target[0] != cpu:
            try:
                self._target = cpu, Target.host()
            except (errors.CompileError, errors.DeviceError):
                self._target = cpu, None
        target = self._target[1]
        if target is None or not (target.fma or op.kind in ("elementwise", "reduce", "other")):
            return None
        return target


def _profiled(op: Op, make: Callable[[], OpKernel]) -> OpKernel:
    """The kernel that ``make`` gives; a profile is told what it took."""
    begin, profile = time.perf_counter_ns(), context.current().profile
    kernel = make()
    if profile is not None:
        profile.compiled_op(op.name, begin, time.perf_counter_ns())
    if WATCHERS:
        tell(lambda watcher: watcher.op_compiled(op.name, 1e-9 * begin))
    return kernel


def _entry_of(op: Op, dtypes: DTypes, pattern: SizePattern, half: Half | None, target: Target) -> CodeEntry | None:
    """Where the kernel is in the persistent cache; None where there is none."""
    with imports.importing():
        from jitgraph.code_cache import entry_of_op  # here, as ops that NumPy evaluates need no cache
        from jitgraph.runtime import disk_cache
    if disk_cache.current() is None:
        return None
    parts = (str(half), str(dtypes), str(pattern.open), str(exact(pattern.attrs)))
    return entry_of_op(op, target, parts)


def _cached_kernel(entry: CodeEntry | None) -> OpKernel | None:
    """The kernel that an earlier process made, if there is one."""
    cached = entry.find() if entry is not None else None
    return None if cached is None else _loaded(cached.image, cached.signature)


def _kernel(op: Op, dtypes: DTypes, pattern: SizePattern, half: Half | None, target: Target) -> OpKernel:
    """The kernel of an earlier process, or a new one."""
    entry = _entry_of(op, dtypes, pattern, half, target)
    return _cached_kernel(entry) or _compiled(entry, lambda: _graph(op, dtypes, pattern, half), target)


def _compiled(entry: CodeEntry | None, build: Callable[[], Graph], target: Target) -> OpKernel:
    """A new kernel of a graph, which the persistent cache keeps."""
    with imports.importing():
        from jitgraph import compilation  # here, as most kernels are in the cache
        from jitgraph.code_cache import Cached
    with shared.PAUSED.inside():  # a finaliser would have its ops recorded into the graph
        graph = build()
    compiled = compilation.compiled(graph, target, (), None)
    if entry is not None:
        entry.store(Cached(compiled.image, compiled.signature))
    return _loaded(compiled.image, compiled.signature)


def _loaded(image: bytes, signature: loader.Signature) -> OpKernel:
    _, _, numbers = signature.name.partition(_GRADIENT)
    operand_numbers = tuple(map(int, numbers.split("_"))) if numbers else ()
    return OpKernel(loader.Entry(loader.Image(image), signature), operand_numbers)


_FAILED: Final = -(1 << 62)
_GRADIENT: Final = "_gradient_by_"


def _inputs(builder: GraphBuilder, dtypes: DTypes, shapes: Sequence[OpenShape]) -> list[Value]:
    return [
        builder.input(TensorType(dtype, tuple(map(_dim, shape)))) for dtype, shape in zip(dtypes, shapes, strict=True)
    ]


def _dim(extent: int | str) -> DimLike:
    return Dim.name(extent) if isinstance(extent, str) else extent


def _graph(op: Op, dtypes: DTypes, pattern: SizePattern, half: Half | None) -> Graph:
    """What a kernel computes."""
    return forward_graph(op, dtypes, pattern) if half is None else backward_graph(op, dtypes, pattern, half)


def forward_graph(op: Op, dtypes: DTypes, pattern: SizePattern) -> Graph:
    from jitgraph.eager.fused_ops import applied  # here: only where a kernel is made

    builder = GraphBuilder()
    inputs = _inputs(builder, dtypes, pattern.open)
    return builder.graph(applied(builder, op, inputs, pattern.attrs), op.name)


def backward_graph(op: Op, dtypes: DTypes, pattern: SizePattern, half: Half) -> Graph:
    """The gradient as a trace computes it: by the rule of the op, or through what defines it, which runs again."""
    from jitgraph.eager.fused_ops import applied

    builder = GraphBuilder()
    inputs = _inputs(builder, dtypes, pattern.open)
    scratch = GraphBuilder()
    scratch.constraints = builder.constraints
    types = [value.type for value in applied(scratch, op, inputs, pattern.attrs)]
    if op.vjp is not None:
        outputs = tuple(builder.input(type) for type in types)
        seeds: list[Value | None] = [builder.input(t) if i in half.seeds else None for i, t in enumerate(types)]
        single = len(types) == 1
        with context.using(emitter=builder, constraints=builder.constraints):
            every = op.vjp(
                seeds[0] if single else tuple(seeds), outputs[0] if single else outputs, *inputs, **pattern.attrs
            )
        gradients = [every[number] for number in half.wrt]
    else:
        from jitgraph.passes.reverse import Reverse  # here: most ops have a rule

        cotangents = [builder.input(types[number]) for number in half.seeds]
        results = applied(builder, op, inputs, pattern.attrs)
        gradients = Reverse(builder).run([results[i] for i in half.seeds], cotangents, [inputs[i] for i in half.wrt])
    active_inputs = [number for number, value in zip(half.wrt, gradients, strict=True) if value is not None]
    name = op.name + _GRADIENT + "_".join(map(str, active_inputs))
    return builder.graph([value for value in gradients if value is not None], name)
