"""``trace``: a function that is recorded once for each kind of call, compiled, and then run as native code."""

from __future__ import annotations

import functools
import inspect
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack, overload
from weakref import WeakSet

import numpy as np

from jitgraph import config
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import DeviceError, TraceError
from jitgraph.ir import context
from jitgraph.ir.constraints import bind_sizes
from jitgraph.ir.context import Context
from jitgraph.ir.graph import Graph
from jitgraph.location import Location
from jitgraph.once import cached_property
from jitgraph.records import NamedTuple
from jitgraph.runtime import disk_cache, forks, imports, shared
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.compile_events import WATCHERS, tell
from jitgraph.runtime.cpython.native_fields import class_with_native_fields
from jitgraph.tensor import lifting, wrap
from jitgraph.tracing.call import backend, native
from jitgraph.tracing.call.arguments import Arguments, Binder, LeafKey, TensorSpec, shapes_by_name
from jitgraph.tracing.call.options import OptionKwargs, Options, bytes_of
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.call.specialisation import Cause, Retrace, Specialisation
from jitgraph.tracing.call.undo_log import UndoLog

if TYPE_CHECKING:
    from jitgraph.tracing.cache.traces import TraceEntry
    from jitgraph.tracing.record.recording import Recording

# ----------------------------------------------------------------------
# What ``f.cache_info()`` tells: the calls of a traced function by what served them.


class _Counts(NamedTuple):
    hits: int
    misses: int
    currsize: int


class CacheInfo(_Counts):
    """Calls served by a specialisation that was there, those that made one, and specialisations held now.

    Of the ``misses``, ``traces`` found trace and code in the compile cache on disk, ``code`` were recorded and found
    their code there, and ``compiled`` were recorded and compiled.
    """

    traces: int = 0
    code: int = 0
    compiled: int = 0


class Origins:
    """Where new specialisations came from."""

    def __init__(self) -> None:
        self.traces = 0
        self.code = 0
        self.compiled = 0

    def count(self, *, traced: bool, forward: Any) -> None:
        """One more: recorded, or found as a trace, with the code ``forward``."""
        if not traced:
            self.traces += 1
        elif getattr(forward, "is_found", False):
            self.code += 1
        else:
            self.compiled += 1

    def info(self, hits: int, misses: int, currsize: int) -> CacheInfo:
        """All counts together."""
        cache_info = CacheInfo(hits, misses, currsize)
        vars(cache_info).update(vars(self))
        return cache_info


# ----------------------------------------------------------------------
# A traced function as a method.


class BoundFunction:
    """A traced function as a method of an object."""

    def __init__(self, function: TracedFunction, instance: object) -> None:
        self.function = function
        self.instance = instance
        self.__wrapped__ = function.__wrapped__.__get__(instance)
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __reduce__(self) -> Any:
        return BoundFunction, (self.function, self.instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """As ``TracedFunction.lower``."""
        return self.function.lower(self.instance, *args, **kwargs)

    def cache_info(self) -> CacheInfo:
        """As ``TracedFunction.cache_info``, of all instances together."""
        return self.function.cache_info()

    def cache_clear(self) -> None:
        """As ``TracedFunction.cache_clear``."""
        self.function.cache_clear()

    @property
    def ledger(self) -> list[Retrace]:
        """The ledger of all instances together."""
        return self.function.ledger


# ----------------------------------------------------------------------
# ``trace``: a function that is recorded once for each kind of call, compiled, and then run as native code.

MAX_SPECIALISATIONS: Final = 8
LONGEST_LEDGER: Final = 1000
"""Retraces that a function remembers: one that is recorded anew at each call would fill the memory."""

ALIVE: Final[WeakSet[TracedFunction]] = WeakSet()
"""The traced functions that there are, whose calls a report on a run counts."""


if TYPE_CHECKING:

    class _FunctionFields:
        pass
else:
    _FunctionFields = class_with_native_fields("FunctionWords", *[""] * len(layout.FUNCTION_WORDS))


class TracedFunction(_FunctionFields):
    """A traced function; called like the function itself.

    Warm calls go by the words that it begins with, past Python (``native/``); what is declined there comes to
    ``__call__``.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self, function: Callable[..., Any], options: Options, static_names: Sequence[str], static_numbers: Sequence[int]
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__dict__.update(  # but for what would hide this class's own, such as the recording of a traced function
            {name: value for name, value in getattr(function, "__dict__", {}).items() if not hasattr(type(self), name)}
        )
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__wrapped__ = function
        self.options = options
        self.ledger: list[Retrace] = []
        self._binder = Binder(function, static_names, static_numbers)
        self._plain_count = self._binder.plain_count  # so many positional arguments are the parameters as they are
        self._specialisations: tuple[Specialisation, ...] = ()
        self._hits = 0
        self._misses = 0
        self._origins = Origins()
        self._found: list[Arguments] = []  # calls whose traces were on disk, which the recording has not seen
        self._warned = False
        self._warned_unguarded = False
        self._bounded = options.max_bytes is not None
        self._lock = forks.lock()
        self.native = native.NativeCalls(self, self._binder)
        ALIVE.add(self)

    def __repr__(self) -> str:
        return f"<traced {getattr(self.__wrapped__, '__qualname__', self.__wrapped__)}>"

    def _repr_html_(self) -> str:
        with imports.importing():
            from jitgraph.tracing.report.html import function_html  # here: for notebooks alone
        return function_html(self)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return BoundFunction(self, instance)

    def __reduce__(self) -> Any:
        """For pickle and copy: by name where that leads here, else the function with its options, yet to be traced."""
        if _by_name(self.__module__, self.__qualname__) is self:
            return self.__qualname__
        return TracedFunction, self._made_of

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As ``__reduce__``, and what the name leads to may also be a plain function, which pickle finds by its name.

        So cloudpickle may take it along by value where it takes functions so, such as those of ``__main__``.
        """
        reduced = self.__reduce__()
        return (self.restore, ()) if isinstance(reduced, str) and protocol >= 4 else reduced

    @property
    def _made_of(self) -> tuple[Any, ...]:
        return self.__wrapped__, self.options, tuple(sorted(self._binder.static)), ()

    def with_shapes(self, dynamic_shapes: Mapping[str, Any], function: Any = None) -> TracedFunction:
        """This function, or ``function`` with its options, with these names for sizes: yet to be traced."""
        wrapped, old, static, numbers = self._made_of
        shapes = shapes_by_name(dynamic_shapes)
        options = Options(shapes, old.strict, old.verify, old.threads, old.max_bytes, old.fastmath)
        return TracedFunction(wrapped if function is None else function, options, static, numbers)

    def with_hints(self) -> TracedFunction:
        """This function, whose names for sizes hold as far as it takes them: yet to be traced."""
        wrapped, options, static, numbers = self._made_of
        return TracedFunction(wrapped, replace(options, shapes_are_hints=True), static, numbers)

    @cached_property
    def restore(self) -> Callable[[], TracedFunction]:
        """Gives this function where its name leads to it, else one made anew."""
        made_of, module, name = self._made_of, self.__module__, self.__qualname__

        def restore() -> TracedFunction:
            current = _by_name(module, name)
            known = isinstance(current, TracedFunction) and current.__wrapped__ is made_of[0]
            return current if known else TracedFunction(*made_of)

        restore.__module__, restore.__qualname__ = module, f"{name}.restore"
        return restore

    # --- the call ---------------------------------------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        ambient = context.current()
        if ambient.trace is not None:
            return self.__wrapped__(*args, **kwargs)  # inside another trace it is a part of that one
        values = args if len(args) == self._plain_count and not kwargs else self._binder.bind(args, kwargs)
        known = self._specialisations
        for specialisation in known:
            if specialisation.ambient is not ambient and specialisation.ambient.fingerprint != ambient.fingerprint:
                continue
            match = specialisation.match(values)
            if match is not None:
                self._hits += 1
                if specialisation is not known[0]:
                    self._use(specialisation)
                if self._bounded:
                    self._check_contract(specialisation, match[1])
                if self.native.refused is None and ambient.profile is None and specialisation.plan.device == CPU:
                    self.native.note(specialisation, values, match[1])
                return specialisation.run(match)
        if ambient.anomaly or config.DISABLE_JIT.is_on():
            return self._eager(values)
        return self._miss(values, ambient)

    def _use(self, specialisation: Specialisation) -> None:
        """Put a specialisation first: the last one is the least recently used."""
        with self._lock:
            rest = tuple(known for known in self._specialisations if known is not specialisation)
            if len(rest) < len(self._specialisations):
                self._specialisations = (specialisation, *rest)

    def _eager(self, values: Sequence[Any]) -> Any:
        """Plain eager Python; NumPy arguments become tensors as they do in a trace."""
        if WATCHERS:
            tell(lambda watcher: watcher.ran_eagerly(self))
        with imports.importing():
            from jitgraph.tracing.record.argument_mutation import changes, containers_of, watch  # here: seldom needed
            from jitgraph.tracing.record.recording import rebuilt
        arguments = self._binder.describe(values)
        leaves = [wrap(lifting.value_of(leaf)) if isinstance(leaf, np.ndarray) else leaf for leaf in arguments.leaves]
        wrapped_args = rebuilt(arguments, leaves, values)
        containers, own_containers = (
            containers_of(arguments.structure.children, tree, self._binder.names) for tree in (wrapped_args, values)
        )
        log = UndoLog()
        watch(containers, log)
        args, kwargs = self._binder.unbind(wrapped_args)
        with shared.DEEPER.inside():
            result = self.__wrapped__(*args, **kwargs)
        for container, own in zip(containers, own_containers, strict=True):
            for _, change in changes([container], log) if container.value is not own.value else ():
                change.apply(own.value)
        return result

    def _miss(self, values: tuple[Any, ...], ambient: Context) -> Any:
        with self._lock:
            specialisation = match = None
            fresh = False
            for known in self._specialisations:  # another thread may have made it meanwhile
                if known.ambient.fingerprint == ambient.fingerprint and (match := known.match(values)) is not None:
                    specialisation = known
                    self._hits += 1
                    break
            if specialisation is None:
                specialisation, fresh = self._specialise(values, ambient), True
                match = specialisation.match(values)
                if match is None:
                    raise TraceError(
                        f"what the trace of {self.__name__} assumes does not hold right after it: "
                        f"{self.mismatch(specialisation, values)}",
                        hint="the function changes Python state on which it depends; keep that state in tensors",
                    )
        assert match is not None
        self._check_contract(specialisation, match[1])
        if self.options.verify and fresh:
            return self._verified(specialisation, values)
        return specialisation.run(match)

    def _specialise(self, values: tuple[Any, ...], ambient: Context) -> Specialisation:
        begin = time.perf_counter()
        try:
            return self._new_specialisation(values, ambient)
        except BaseException as error:
            if WATCHERS:
                location, failure = Location.of_user(), error
                tell(lambda watcher: watcher.failed(self, location, begin, failure))
            raise

    def _new_specialisation(self, values: tuple[Any, ...], ambient: Context) -> Specialisation:
        arguments = self._binder.describe(values)
        if any(isinstance(leaf, TensorSpec) for leaf in arguments.leaves):
            what = f"{self.__name__} is called with a TensorSpec, which has no value"
            raise TraceError(what, hint="f.lower(spec) records for it; a call takes tensors and arrays")
        cause = self._cause(arguments, values, ambient)
        profile, ambient = ambient.profile, context.unprofiled(ambient)
        start = time.perf_counter()
        entry = self._entry_of(arguments, values, ambient)
        specialisation = cached = entry.find() if entry is not None else None
        if specialisation is None:
            record = self.recording.plan  # imported out here, as it lasts
        with shared.PAUSED.inside():  # a collection would look through what is made and dropped here, time and again
            if specialisation is None:
                plan, keys = record(arguments, values, self._specialisations, self._found)
                function, structure = self.__wrapped__, arguments.structure
                specialisation = Specialisation(function, structure, keys, plan, ambient, self.compile)
            else:
                self._found.append(arguments._replace(leaves=()))
        # A collection here takes what the recording left; the compiler, imported next, is then old for the collector.
        traced = time.perf_counter()
        forward = specialisation.forward  # compiled now, under the lock
        done = time.perf_counter()
        location = Location.of_user()
        retrace = Retrace(location, cause, 1e3 * (traced - start), 1e3 * (done - traced))
        self.ledger.append(retrace)
        if profile is not None:
            profile.specialised(self.__name__, location, start, traced, done)
        if WATCHERS:
            was_stored = cached is not None
            tell(lambda watcher: watcher.specialised(self, specialisation, retrace, start, was_stored=was_stored))
        del self.ledger[:-LONGEST_LEDGER]
        self._misses += 1
        self._origins.count(traced=cached is None, forward=forward)
        if entry is not None and cached is None:
            with imports.importing():
                from jitgraph.tracing.cache import storing  # here: a process that finds all traces stores none
            storing.store(entry, specialisation)
        if specialisation.plan.unguarded:
            self._warn_once(specialisation.plan.unguarded[0])
            return specialisation  # serves this call alone
        retained = (specialisation, *self._by_use())
        if len(retained) > MAX_SPECIALISATIONS:
            retained = retained[:MAX_SPECIALISATIONS]
            self.native.retain(retained)
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"{self.__name__} was compiled for more than {MAX_SPECIALISATIONS} kinds of calls; the least "
                    f"recently used ones are dropped. The last time: {cause.text}. jg.explain(f, ...) shows the ledger",
                    RuntimeWarning,
                    stacklevel=5,
                )
        self._specialisations = retained
        return specialisation

    def _entry_of(self, arguments: Arguments, values: Sequence[Any], ambient: Context) -> TraceEntry | None:
        """Where the disk has the traces of a call that no specialisation here fits; None where none would do."""
        cache = disk_cache.current()
        if cache is None:
            return None
        with imports.importing():
            from jitgraph.tracing.cache import traces  # here: without a cache nothing is looked up
        call = traces.NewCall(self.__wrapped__, self.__name__, self.options, arguments, values, ambient)
        return traces.folder_of(cache, call)

    def _cause(self, arguments: Arguments, values: Sequence[Any], ambient: Context) -> Cause:
        """Why no specialisation fits a call."""
        if not self._specialisations:
            return Cause("the first call", "first call")
        from jitgraph.tracing.report.retrace_reason import cause  # here: few functions are recorded again

        return cause(self._specialisations, arguments, values, ambient)

    @cached_property
    def recording(self) -> Recording:
        """Makes plans of this function."""
        with imports.importing():
            from jitgraph.tracing.record.recording import Recording  # here: a process that finds all traces has none
        options = self.options
        shapes, hints = options.dynamic_shapes, options.shapes_are_hints
        return Recording(self.__wrapped__, self.__name__, self._binder, shapes, options.strict, hints)

    def _by_use(self) -> tuple[Specialisation, ...]:
        """The specialisations, those that native calls have used since the last look first."""
        used = self.native.used()
        return tuple(sorted(self._specialisations, key=lambda known: id(known) not in used))

    def _warn_once(self, what: str) -> None:
        """Say that each call is recorded anew, as no guard sees something on which the function depends."""
        if not self._warned_unguarded:
            self._warned_unguarded = True
            warnings.warn(
                f"each call of {self.__name__} is recorded anew, as it depends on what cannot be guarded: {what}. "
                "Pass it as an argument, or read it by plain attributes and items; strict=True makes this an error",
                RuntimeWarning,
                stacklevel=6,
            )

    def compile(self, graph: Graph, donate: Sequence[tuple[int, int]] = (), device: str = CPU) -> backend.Runnable:
        """Code for a graph under this function's options."""
        options = self.options
        if device != CPU:
            return backend.device_program(graph, device, donate=donate, fastmath=options.fastmath)
        return backend.compile_graph(graph, donate=donate, fastmath=options.fastmath, threads=options.threads)

    def _check_contract(self, specialisation: Specialisation, operands: Sequence[EagerValue]) -> None:
        """TraceError where a call would need more memory for temporaries and outputs than ``max_bytes`` allows."""
        limit = self.options.max_bytes
        if limit is None:
            return
        graph = specialisation.plan.graph
        sizes = bind_sizes([value.type for value in graph.inputs], [operand.shape for operand in operands])
        needed = backend.workspace_bytes(specialisation.forward, sizes) + backend.output_bytes(graph, sizes)
        if needed > limit:
            raise TraceError(
                f"{self.__name__} needs {needed} bytes for arena and outputs, more than max_bytes={limit}",
                hint="smaller arguments, or a larger max_bytes",
            )

    def _verified(self, specialisation: Specialisation, values: tuple[Any, ...]) -> Any:
        from jitgraph.tracing.record.argument_mutation import containers_of
        from jitgraph.tracing.record.recording import rebuilt
        from jitgraph.tracing.report.verification import run_verified

        arguments = self._binder.describe(values)
        leaves = [
            wrap(lifting.value_of(leaf)) if isinstance(leaf, np.ndarray) else leaf for leaf in arguments.leaves
        ]  # as in the trace, where an array is a tensor: NumPy's own arithmetic applies no ops
        args, kwargs = self._binder.unbind(rebuilt(arguments, leaves, values))
        containers = containers_of(specialisation.structure.children, values, self._binder.names)
        return run_verified(self, specialisation, values, lambda: self.__wrapped__(*args, **kwargs), containers)

    @property
    def plans(self) -> tuple[CallPlan, ...]:
        """The plans of the specialisations held now, the last used first."""
        return tuple(specialisation.plan for specialisation in self._specialisations)

    # --- the public face --------------------------------------------------------------------------------------------

    def cache_info(self) -> CacheInfo:
        """Hits, misses (new specialisations) and the number of specialisations held.

        ``traces``, ``code`` and ``compiled`` of the result say how many misses found all in the compile cache, were
        recorded and found their code there, and were compiled.
        """
        return self._origins.info(self._hits + self.native.hits, self._misses, len(self._specialisations))

    def cache_clear(self) -> None:
        """Forget every specialisation, the ledger and the counts."""
        with self._lock:
            self._specialisations = ()
            self.__dict__.pop("recording", None)
            self._found.clear()
            self.ledger.clear()
            self._hits = self._misses = 0
            self.native.clear()
            self._origins = Origins()
            self._warned = self._warned_unguarded = False

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter."""
        return self._binder.bind(args, kwargs)

    def describe(self, values: Sequence[Any]) -> Arguments:
        """Bound arguments taken apart."""
        return self._binder.describe(values)

    def fitted(self, values: Sequence[Any], keys: Sequence[LeafKey]) -> tuple[Any, ...]:
        """Bound arguments with arrays as tensors, or the other way round, where ``keys`` asks for it."""
        from jitgraph.tracing.report.lowered import fitted

        arguments = self.describe(values)
        return fitted(arguments, keys) if len(arguments.keys) == len(keys) else tuple(values)

    def mismatch(self, specialisation: Specialisation, values: Sequence[Any]) -> str:
        """In what bound arguments, or the state now, differ from what a specialisation assumes."""
        from jitgraph.tracing.report.retrace_reason import mismatch

        return mismatch(specialisation, self.describe(values), values).text

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """The program for these arguments (tensors, arrays, or ``jg.TensorSpec``) without running it."""
        from jitgraph.tracing.report.lowered import lower

        return lower(self, args, kwargs)


native.enable_vectorcall(TracedFunction)


def _by_name(module: str, name: str) -> Any:
    """What stands in ``module`` under a dotted name, or None."""
    obj: Any = sys.modules.get(module)
    for part in name.split("."):
        obj = getattr(obj, part, None)
    return obj


@overload
def trace(function: Callable[..., Any], **options: Unpack[OptionKwargs]) -> Any: ...
@overload
def trace(**options: Unpack[OptionKwargs]) -> Callable[[Callable[..., Any]], Any]: ...
def trace(
    function: Callable[..., Any] | None = None,
    *arguments: Any,
    dynamic_shapes: Mapping[str, Any] | None = None,
    static_argnames: Sequence[str] = (),
    static_argnums: Sequence[int] = (),
    fastmath: bool = False,
    device: str | None = None,
    strict: bool = False,
    verify: bool = False,
    threads: int | None = None,
    max_bytes: int | str | None = None,
) -> Any:
    """A function that is recorded, compiled and run as native code; ``@jg.trace`` or ``@jg.trace(...)``.

    dynamic_shapes: names for sizes, ``{"x": {0: "batch"}}``. static_argnames, static_argnums: arguments that are part
    of the key by value. strict: what cannot be guarded is an error. verify: each new one is compared with eager.
    threads, max_bytes: at most so many threads, and so many bytes of arena and outputs. device: None or "cpu", else
    DeviceError; a trace runs on the device of the tensors that it reads.
    """
    if arguments:
        raise TraceError(
            "jg.trace takes the function alone; it is recorded when it is called", hint="jg.trace(function)(x)"
        )
    if function is not None and not callable(function):
        raise TraceError(
            f"jg.trace takes a function, not {type(function).__name__}", hint="write @jg.trace above a def"
        )
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TraceError(
            f"{getattr(function, '__name__', 'the function')} gives its results one by one, or later; "
            "a traced function returns them all",
            hint="return a list, or trace the function that it calls",
        )
    if device not in (None, "cpu"):
        raise DeviceError(
            f"device {device!r} is not available", hint="leave it out: a trace runs where the tensors lie that it reads"
        )
    if threads is not None and not (isinstance(threads, int) and threads >= 1):
        raise TraceError(f"threads={threads!r}; a number of at least one is needed")
    options = Options(shapes_by_name(dynamic_shapes), strict, verify, threads, bytes_of(max_bytes), fastmath)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    if function is None:
        return lambda f: TracedFunction(f, options, names, numbers)
    return TracedFunction(function, options, names, numbers)


def traced(function: Callable[..., Any]) -> TracedFunction | BoundFunction:
    """``function`` where it is traced, what runs where it comes from a file, and a trace of anything else."""
    if isinstance(function, TracedFunction | BoundFunction):
        return function
    behind = getattr(type(function), "_traced", None)
    traced_function: TracedFunction = trace(function) if behind is None else behind(function)
    return traced_function
