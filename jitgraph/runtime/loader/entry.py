"""The entry: one native function with its signature."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.abi import (
    ARENA_TYPE,
    CALLBACK_FAILED,
    CALLBACK_TYPE,
    CHECK_FAILED,
    CODE_NAMES,
    ENTRY_TYPE,
    INTERRUPTED,
    OK,
    OUT_OF_MEMORY,
    SIZE_OVERFLOW,
    SIZES_REFUSED,
    Host,
    function_address,
)
from jitgraph.runtime.loader.arguments import READY_FLAGS, address_of, as_array, overlapping
from jitgraph.runtime.loader.calls import (
    MOST_ARENA,
    BoundParameters,
    CallState,
    Printer,
    ShapePlan,
    because_of,
    bytes_of,
    parsed_sizes,
)
from jitgraph.runtime.loader.dtypes import Array, dtype_named
from jitgraph.runtime.loader.errors import CHECK_KINDS, ArgumentError, JitgraphError
from jitgraph.runtime.loader.guarded import CallbackFunction, guarded_callback
from jitgraph.runtime.loader.host import Runtime, process_runtime
from jitgraph.runtime.loader.image import Image
from jitgraph.runtime.loader.memory import allocator
from jitgraph.runtime.loader.signatures import Check, Signature, rebuild
from jitgraph.runtime.loader.sizes import Constraint
from jitgraph.runtime.loader.specs import ValueSpec, default_of

_MAX_PLANS: Final = 256


class Entry:
    """One native function with its signature: checks arguments, calls, raises what the code reported.

    It may be called from several threads at once, and from inside a call.
    """

    def __init__(
        self,
        image: Image,
        signature: Signature,
        *,
        runtime: Runtime | None = None,
        callback: CallbackFunction | None = None,
        threads: int = 0,
    ) -> None:
        """``callback(id, buffers, dims)`` serves the code's Python callbacks with the two addresses it was given.

        ``threads`` is how many of the runtime's threads take part in a call at most, the calling one included; 0 for
        no limit.
        """
        self.image = image
        self.signature = signature
        self.runtime = runtime or process_runtime
        self.address = image.export("entry")
        self._function = ENTRY_TYPE(self.address)
        arena = image.export("arena_bytes")
        self._arena_bytes = ARENA_TYPE(arena) if arena else None
        self._specs = tuple((spec, dtype_named(spec.dtype)) for spec in signature.parameters)
        self._dtypes = tuple([dtype for _, dtype in self._specs])
        self._shapes = tuple(parsed_sizes(spec.shape) for spec in signature.parameters)
        self._outputs = tuple((spec, dtype_named(spec.dtype), parsed_sizes(spec.shape)) for spec in signature.outputs)
        self._constraints = tuple(Constraint(text) for text in signature.constraints)
        self.pack = struct.Struct(f"{len(self._specs) + len(self._outputs)}P").pack
        """``buffers`` of the ABI from the addresses of parameters and outputs."""
        self._nothing = BoundParameters(len(self._specs))
        self._free: list[CallState] = []
        self._structure = signature.structure
        if self._structure is None:
            self._structure = signature.default_structure()
        self._raised: dict[int, BaseException] = {}
        self._host = self.runtime.host
        self._host_address = ctypes.addressof(self._host)
        self.is_parallel = bool(image.export("worker"))
        self.threads = threads
        self._callback: Any = None
        self._special = callback is not None or bool(signature.prints)
        if callback is not None:
            self._callback = CALLBACK_TYPE(guarded_callback(callback, self._raised))

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any] = MappingProxyType({})) -> list[Any]:
        """The user's inputs in order, from positional and named arguments and defaults."""
        inputs = self.signature.inputs
        title = self.signature.name
        if len(args) > len(inputs):
            raise ArgumentError(f"{title} takes {len(inputs)} arguments ({_listed(inputs)}), got {len(args)}")
        values: list[Any] = list(args)
        left = dict(kwargs)
        for spec in inputs[: len(args)]:
            if spec.name in left:
                raise ArgumentError(f"{title}: {spec.name!r} was given both by position and by name")
        for spec in inputs[len(args) :]:
            if spec.name in left:
                values.append(left.pop(spec.name))
            elif spec.default is not None:
                values.append(default_of(spec))
            else:
                raise ArgumentError(f"{title}: the argument {spec} is missing; it takes ({_listed(inputs)})")
        if left:
            raise ArgumentError(f"{title} has no argument {next(iter(left))!r}; it takes ({_listed(inputs)})")
        return values

    def hold(self, arrays: Sequence[Any]) -> BoundParameters:
        """The last parameters, such as a state, for many calls: what ``run`` checks of them is checked here, once."""
        left = len(self._specs) - len(arrays)
        return BoundParameters(left, [self._array(value, left + index) for index, value in enumerate(arrays)])

    def run(
        self, buffers: Sequence[Any], donate: Iterable[int] = (), bound: BoundParameters | None = None
    ) -> list[Array]:
        """The outputs for the parameters (inputs, then state) in ABI order, the last of which may be ``bound``.

        ``donate`` lists parameters whose memory an output that aliases them may take over: such an output is the
        donated array itself. Everything is checked before the native code is entered.
        """
        bound = bound or self._nothing
        if len(buffers) != bound.left:
            count, missing = len(self._specs), len(self._specs) - bound.left
            raise ArgumentError(f"{self.signature.name} takes {count} buffers, got {len(buffers) + missing}")
        arrays: list[Array] = []
        addresses, shapes = [], []
        for dtype, value in zip(self._dtypes, buffers):  # noqa: B905 (there may be more dtypes)
            if type(value) is not np.ndarray or value.dtype != dtype or value.flags.num & READY_FLAGS != READY_FLAGS:
                value = self._array(value, len(arrays))
            arrays.append(value)
            shapes.append(value.shape)
            addresses.append(address_of(value))
        key = tuple(shapes)
        plan = bound.plans.get(key) or self._planned(key, bound)
        addresses += bound.addresses
        results = []
        for make in plan.makers:
            result = make()
            results.append(result)
            addresses.append(address_of(result))
        if donate:
            self._take_over(results, [*arrays, *bound.arrays], buffers, frozenset(donate))
            addresses[len(self._specs) :] = map(address_of, results)
        self.call(plan, self.pack(*addresses))
        return results

    def _array(self, value: Any, index: int) -> Array:
        spec, dtype = self._specs[index]
        return as_array(value, spec, dtype, f"{self.signature.name}, argument {index} ({spec.name})")

    def plan(self, shapes: tuple[tuple[int, ...], ...]) -> ShapePlan:
        """What parameters of these shapes lead to; ArgumentError where they do not fit the signature."""
        return self._nothing.plans.get(shapes) or self._planned(shapes, self._nothing)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The result for the user's arguments, in the signature's structure; only for entries without state."""
        return self.result(self.run(self.arguments(args, kwargs)))

    def result(self, outputs: Sequence[Any]) -> Any:
        """The outputs in the structure that the function returned when it was saved."""
        structure = self._structure
        return outputs[structure] if type(structure) is int else rebuild(structure, outputs)

    def _take_over(
        self, results: list[Array], arrays: Sequence[Array], buffers: Sequence[Any], donate: frozenset[int]
    ) -> None:
        """Put donated arrays in place of the results that may share their memory; one that cannot be is left alone."""
        shared = overlapping(arrays)
        for output, parameter in self.signature.aliases:
            array = arrays[parameter]
            owned = parameter in donate and array is buffers[parameter] and array.flags.writeable
            if owned and parameter not in shared:
                results[output] = array

    def _vector(self, dims: Mapping[str, int]) -> ctypes.Array[ctypes.c_int64]:
        return (ctypes.c_int64 * max(1, len(self.signature.dims)))(*(dims[name] for name in self.signature.dims))

    def arena_bytes(self, dims: Mapping[str, int]) -> int:
        """The workspace of a call at these sizes: temporaries, and scratch memory of the calling thread."""
        arena = 0 if self._arena_bytes is None else int(self._arena_bytes(self._vector(dims)))
        if arena < 0:
            raise ArgumentError(f"{self.signature.name}: the workspace for the sizes {dims} leaves 64 bits")
        return arena

    def _planned(self, shapes: tuple[tuple[int, ...], ...], bound: BoundParameters) -> ShapePlan:
        dims = self._bind((*shapes, *bound.shapes))
        outputs = []
        for spec, dtype, sizes in self._outputs:
            shape = tuple(size if isinstance(size, int) else size.evaluate(dims) for size in sizes)
            if any(size < 0 for size in shape):
                raise ArgumentError(f"{self.signature.name}: the result {spec} would have the shape {list(shape)}")
            outputs.append((shape, dtype, bytes_of(shape, dtype, str(spec))))
        vector = self._vector(dims)
        arena = self.arena_bytes(dims)
        if len(bound.plans) >= _MAX_PLANS:
            bound.plans.clear()
        makers = tuple([allocator.maker(*output) for output in outputs])
        plan = bound.plans[shapes] = ShapePlan(vector, tuple(outputs), arena, makers)
        return plan

    def _bind(self, shapes: tuple[tuple[int, ...], ...]) -> dict[str, int]:
        """The named sizes that these shapes give; ArgumentError names the argument that does not fit."""
        name = self.signature.name
        known = set(self.signature.dims)
        dims: dict[str, int] = {}
        origin: dict[str, str] = {}
        for i, ((spec, _), shape) in enumerate(zip(self._specs, shapes, strict=True)):
            if len(shape) != len(spec.shape):
                raise ArgumentError(
                    f"{name}, argument {i} ({spec.name}): expected {spec} of rank {len(spec.shape)}, got the shape "
                    f"{list(shape)} of rank {len(shape)}"
                )
            for axis, (size, expected) in enumerate(zip(shape, spec.shape, strict=True)):
                if isinstance(expected, str) and expected in known and expected not in dims:
                    dims[expected] = size
                    origin[expected] = f"{spec.name}.shape[{axis}]"
        for i, ((spec, _), shape, sizes) in enumerate(zip(self._specs, shapes, self._shapes, strict=True)):
            for axis, (size, due) in enumerate(zip(shape, sizes, strict=True)):
                value = due if isinstance(due, int) else due.evaluate(dims)
                if size != value:
                    because = "" if isinstance(due, int) else f", which is {value}{because_of(due, dims, origin)}"
                    raise ArgumentError(
                        f"{name}, argument {i} ({spec.name}): expected {spec}{because}, but axis {axis} of its shape "
                        f"{list(shape)} is {size}"
                    )
        for constraint in self._constraints:
            if not constraint.evaluate(dims):
                because = because_of(constraint, dims, origin)
                raise ArgumentError(f"{name}: the sizes must satisfy {constraint.text}{because}")
        return dims

    def call(self, plan: ShapePlan, buffers: bytes) -> None:
        """Enter the native code with the packed addresses of parameters and outputs; raise what it reports.

        Nothing is checked: the caller knows that dtypes and the plan's shapes fit, that parameters are dense, outputs
        aligned to 64 bytes and writable, that an output has a parameter's address only by ``aliases``, and holds the
        arrays until this returns.
        """
        if self.is_parallel and not self.runtime.settled:
            self.runtime.attach(self.image)
        table, host = self._host, self._host_address
        try:
            call = self._free.pop()
        except IndexError:
            call = CallState(self.threads)
        try:
            call.prepare(plan.arena_bytes)
            if self._special:
                table = self.own_host(call, plan)
                host = ctypes.addressof(table)
            code = self._function(host, call.address, buffers, plan.dims_address)
            if code != OK:
                self.fail(code, call)
        finally:
            if call.record.blocks or call.capacity > MOST_ARENA:
                call.settle()
            self._free.append(call)

    @property
    def is_plain(self) -> bool:
        """Whether the code calls nothing of Python's."""
        return not self._special

    def own_host(self, call: CallState, plan: ShapePlan) -> Host:
        """The host of a call: one of its own for code with callbacks or prints."""
        table = self._host
        if self._callback is not None:
            table = Host.from_buffer_copy(table)
            table.callback = function_address(self._callback)
        if self.signature.prints:
            call.printer = call.printer or Printer(call.record, self.signature)
            table = call.printer.host(table, plan.dims)
        return table

    def fail(self, code: int, call: CallState) -> None:
        """Raise what the code of a call that failed stands for."""
        name = self.signature.name
        error = call.record.error
        if (raised := self.runtime.signals.raised()) is not None:
            raise raised
        if call.printer is not None and (raised := call.printer.calls.raised()) is not None:
            raise raised
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code == CALLBACK_FAILED and (raised := self._raised.pop(threading.get_ident(), None)) is not None:
            raise raised
        if code == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: the compiled code ran out of memory")
        if code == SIZE_OVERFLOW:
            raise ArgumentError(f"{name}: a size leaves 64 bits; use smaller arguments")
        if code == SIZES_REFUSED:
            conditions = (*self.signature.constraints, *(f"{size} >= 0" for size in self.signature.dims))
            known = 0 <= error.check_id < len(conditions)
            broken = conditions[error.check_id] if known else f"condition {error.check_id} of the compiled code"
            raise ArgumentError(f"{name}: the sizes must satisfy {broken}")
        if code == CHECK_FAILED and 0 <= error.check_id < len(self.signature.checks):
            raise check_error(self.signature.checks[error.check_id], error.index, error.bound)
        meaning = CODE_NAMES[code] if 0 <= code < len(CODE_NAMES) else "no known meaning"
        raise JitgraphError(f"{name}: the compiled code returned {code} ({meaning}), check {error.check_id}")


def check_error(check: Check, index: int, bound: int) -> BaseException:
    """The error of a check that failed, with the value and the bound that the code reported."""
    message = check.message.replace("{index}", str(index)).replace("{bound}", str(bound))
    return CHECK_KINDS[check.kind](message + (f"\n  at {check.location}" if check.location else ""))


def _listed(specs: Sequence[ValueSpec]) -> str:
    return ", ".join(map(str, specs))
