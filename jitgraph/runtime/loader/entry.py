"""The entry: one native function with its signature, its arguments as dense arrays, and what a call needs."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.abi import (
    ARENA_TYPE,
    ASKED_TYPE,
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
    Block,
    Call,
    Host,
    function_address,
    libc,
)
from jitgraph.runtime.loader.errors import CHECK_KINDS, ArgumentError, JitgraphError
from jitgraph.runtime.loader.host import CallbackFunction, Guarded, Runtime, guarded_callback, process_runtime
from jitgraph.runtime.loader.image import Image
from jitgraph.runtime.loader.memory import allocator
from jitgraph.runtime.loader.signatures import Check, Signature, rebuild
from jitgraph.runtime.loader.specs import (
    INT64_MAX,
    Array,
    Constraint,
    Expression,
    Size,
    ValueSpec,
    default_of,
    dtype_named,
)
from jitgraph.runtime.loader.structures import OMITTED, flattened

# ----------------------------------------------------------------------
# What a caller passes, as dense arrays that native code can read.

_SCALAR_KINDS: Final = {"b": "b", "u": "iub", "i": "iub", "f": "fiub", "V": "fiub"}


def as_array(value: Any, spec: ValueSpec, dtype: np.dtype[Any], where: str) -> Array:
    """``value`` as a dense, aligned array of ``dtype``: borrowed where it is one already, else copied."""
    if not isinstance(value, np.ndarray):
        value = _converted(value, spec, dtype, where)
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"{where}: the mask of a masked array would be dropped; pass x.filled(value)")
    if type(value) is not np.ndarray:  # what a subclass says of its shape and dtype need not be so
        value = np.asarray(value)
    if value.dtype != dtype:
        if value.dtype.newbyteorder("=") != dtype:
            raise ArgumentError(
                f"{where}: expected {spec}, got {value.dtype.name}{list(value.shape)}; convert it with "
                f".astype({spec.dtype!r})"
            )
        value = value.astype(dtype)
    array: Array = value
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True, subok=False)
    return array


def _converted(value: Any, spec: ValueSpec, dtype: np.dtype[Any], where: str) -> Array:
    """A Python scalar, a nested list or an array of another library as an array; no value may change on the way."""
    if isinstance(value, np.generic):
        scalar: Array = np.array(value)
        return scalar
    if not isinstance(value, (bool, int, float, list, tuple)):
        return _handed_over(value, spec, where)
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise ArgumentError(f"{where}: expected {spec}, got a {type(value).__name__}: {error}") from None
    safe = array.size == 0 or array.dtype.kind in _SCALAR_KINDS.get(dtype.kind, "")
    if dtype.kind == "V" and array.dtype.kind in "biuf":
        safe = True
    with np.errstate(all="ignore"):
        cast = array.astype(dtype) if safe else array
    if not safe or (dtype.kind in "iu" and bool((cast.astype(object) != array.astype(object)).any())):
        raise ArgumentError(
            f"{where}: expected {spec}, got a {type(value).__name__} of {array.dtype.name} values that {spec.dtype} "
            "cannot hold; pass a NumPy array of that dtype"
        )
    return cast


def _handed_over(value: Any, spec: ValueSpec, where: str) -> Array:
    """The elements of an array of another library, over its own memory where that allows it."""
    kind = type(value)
    refusal: Exception | None = None
    if hasattr(kind, "__dlpack__"):
        try:
            shared: Array = np.from_dlpack(value)
            return shared
        except Exception as error:  # whatever the library raises where it does not hand the memory over
            refusal = error
    if hasattr(kind, "__array__") or hasattr(kind, "__array_interface__"):
        try:
            exported: Array = np.asanyarray(value)
            return exported
        except Exception as error:
            refusal = refusal or error
    expected = f"{where}: expected {spec}, got {kind.__name__}"
    if refusal is not None:
        raise ArgumentError(f"{expected}, which does not hand over its elements: {refusal}") from refusal
    alternative = f"its tensors one by one, such as {spec.name}=..." if isinstance(value, dict) else "a NumPy array"
    raise ArgumentError(f"{expected}; pass {alternative}")


READY_FLAGS: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
_DATA_OFFSET: Final = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address


def _address_by_field(array: Array) -> int:
    """The address of the first element: by NumPy's ABI the field behind the object header (``.ctypes`` takes 5 times
    as long, and a training step passes dozens of arrays)."""
    return _pointer_at(id(array) + _DATA_OFFSET).value or 0


def _address_by_attribute(array: Array) -> int:
    return int(array.ctypes.data)


_probe = np.zeros(2)
_direct = sys.implementation.name == "cpython" and _address_by_field(_probe[1:]) == _address_by_attribute(_probe[1:])
address_of = _address_by_field if _direct else _address_by_attribute
"""Where the first element of an array lies."""


def is_dense(array: Array) -> bool:
    """Whether native code can read ``array`` as it is: row-major without gaps, and aligned to its element."""
    return array.flags.num & READY_FLAGS == READY_FLAGS


def overlapping(arrays: Sequence[Array]) -> set[int]:
    """The indices of dense arrays that share memory with another one of them."""
    starts = [address_of(array) for array in arrays]
    shared: set[int] = set()
    reach, holder = -1, -1
    for start, index in sorted(zip(starts, range(len(arrays)), strict=True)):
        if start < reach and arrays[index].nbytes:
            shared |= {index, holder}
        if start + arrays[index].nbytes > reach:
            reach, holder = start + arrays[index].nbytes, index
    return shared


# ----------------------------------------------------------------------
# What a call needs: the plan that its shapes lead to, its record for native code, its workspace, its prints.


class ShapePlan:
    """What one set of argument shapes leads to."""

    __slots__ = ("arena_bytes", "dims", "dims_address", "makers", "outputs")

    def __init__(
        self,
        dims: ctypes.Array[ctypes.c_int64],
        outputs: tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...],
        arena_bytes: int,
        makers: tuple[Callable[[], Array], ...],
    ) -> None:
        """``outputs`` are shapes, dtypes and bytes; each call asks ``makers`` for uninitialised memory."""
        self.dims = dims
        self.dims_address = ctypes.addressof(dims)
        self.outputs = outputs
        self.arena_bytes = arena_bytes
        self.makers = makers

    def empty(self, output: int) -> Array:
        """Uninitialised memory for an output."""
        return self.makers[output]()


class BoundParameters:
    """The last parameters of an entry, checked and ready for any number of calls, with the plans of those calls."""

    __slots__ = ("addresses", "arrays", "left", "plans", "shapes")

    def __init__(self, left: int, arrays: Iterable[Array] = ()) -> None:
        """So many parameters are ``left`` to each call. The arrays are dense and aligned, and stay where they are."""
        self.left = left
        self.arrays = tuple(arrays)
        self.shapes = tuple([array.shape for array in self.arrays])
        self.addresses = tuple(map(address_of, self.arrays))
        self.plans: dict[tuple[tuple[int, ...], ...], ShapePlan] = {}  # by the shapes of the parameters before them


MOST_ARENA: Final = 4 << 20
"""Bytes of an arena that waits for the next call of the same code; larger ones serve other code meanwhile."""


class CallState:
    """A Call with its arena, reused from call to call."""

    __slots__ = ("address", "arena", "capacity", "error", "printer", "record")

    def __init__(self, threads: int = 0) -> None:
        """``threads`` limits those that take part in the call, this one included; 0 for no limit."""
        self.record = Call(threads=threads)
        self.error = self.record.error  # the same memory
        self.address = ctypes.addressof(self.record)
        self.arena: ctypes.Array[ctypes.c_char] | None = None
        self.capacity = 0
        self.printer: Printer | None = None

    def prepare(self, arena_bytes: int) -> None:
        """Make it ready for a call with a workspace of so many bytes."""
        record = self.record
        if arena_bytes > self.capacity:
            record.arena, self.arena, self.capacity = None, None, 0
            self.arena = allocator.lease(arena_bytes)
            self.capacity = ctypes.sizeof(self.arena)
            record.arena = ctypes.addressof(self.arena)
        record.arena_bytes = arena_bytes
        record.last_poll = 0
        self.error.code = 0

    def settle(self) -> None:
        """After a call: what its stacks took goes back, and so does an arena that others could use meanwhile."""
        if self.record.blocks:
            self.free_blocks()
        if self.capacity > MOST_ARENA:
            self.record.arena, self.arena, self.capacity = None, None, 0

    def free_blocks(self) -> None:
        """Free the blocks of the stacks that a call left behind."""
        block = self.record.blocks
        self.record.blocks = None
        while block:
            header = Block.from_address(block)
            block, base = header.next, header.base
            libc.free(base)


class Printer:
    """Prints what the native code of one call record asks for."""

    def __init__(self, record: Call, signature: Signature) -> None:
        self._record = record
        self._names = signature.dims
        self._sites = [
            (site, [(dtype_named(operand.dtype), parsed_sizes(operand.shape)) for operand in site.operands])
            for site in signature.prints
        ]
        self._sizes: Iterable[int] = ()
        self.calls = Guarded(self._print, CALLBACK_FAILED, 2)
        self._function = ASKED_TYPE(self.calls.ask)
        self._host = Host()

    def host(self, shared: Host, sizes: Iterable[int]) -> Host:
        """A host table like ``shared`` that prints here, for a call with these named sizes."""
        self._sizes = sizes
        ctypes.memmove(ctypes.addressof(self._host), ctypes.addressof(shared), ctypes.sizeof(Host))
        self._host.print = function_address(self._function)
        return self._host

    def _print(self) -> None:
        site, types = self._sites[self._record.print_site]
        dims = dict(zip(self._names, self._sizes, strict=False))
        addresses = (ctypes.c_void_p * len(types)).from_address(self._record.print_operands) if types else ()
        arrays = []
        for (dtype, sizes), address in zip(types, addresses, strict=True):
            shape = tuple(size if isinstance(size, int) else size.evaluate(dims) for size in sizes)
            array: Array = np.empty(shape, dtype)
            ctypes.memmove(address_of(array), address, array.nbytes)
            arrays.append(array)
        site.write(arrays)


def parsed_sizes(shape: Iterable[Size]) -> tuple[int | Expression, ...]:
    """The sizes of a shape, those that depend on the call ready to be evaluated."""
    return tuple(size if isinstance(size, int) else Expression(size) for size in shape)


def because_of(expression: Expression, dims: Mapping[str, int], origin: Mapping[str, str]) -> str:
    """Which sizes an expression got, and from where, in parentheses; empty where it names none."""
    facts = [f"{name} is {dims[name]} by {origin[name]}" for name in sorted(expression.names)]
    return f" ({', '.join(facts)})" if facts else ""


def bytes_of(shape: Iterable[int], dtype: np.dtype[Any], text: str) -> int:
    """Bytes of a dense array; ArgumentError, which calls it ``text``, where they leave 64 bits."""
    # Zero sizes count as one, as NumPy itself does, so that (0, 2**62, 4) is refused too.
    total = dtype.itemsize
    empty = False
    for size in shape:
        empty |= size == 0
        total *= max(size, 1)
    if total > INT64_MAX:
        raise ArgumentError(f"the result {text} with shape {list(shape)} leaves 64 bits")
    return 0 if empty else total


# ----------------------------------------------------------------------
# The entry: one native function with its signature.

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
        if self.signature.arguments is not None:
            leaves = flattened(self.signature.arguments, len(inputs), title, args, kwargs)
            return [self._or_default(spec, leaf) for spec, leaf in zip(inputs, leaves, strict=True)]
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
            else:
                values.append(self._or_default(spec, OMITTED))
        if left:
            raise ArgumentError(f"{title} has no argument {next(iter(left))!r}; it takes ({_listed(inputs)})")
        return values

    def _or_default(self, spec: ValueSpec, value: Any) -> Any:
        if value is not OMITTED:
            return value
        if spec.default is not None:
            return default_of(spec)
        title, inputs = self.signature.name, self.signature.inputs
        raise ArgumentError(f"{title}: the argument {spec} is missing; it takes ({_listed(inputs)})")

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
