"""Recording a call: the function runs once under a trace, with named sizes where its arguments varied before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from jitgraph import tree
from jitgraph.errors import (
    InternalError,
    JitgraphError,
    NumberError,
    ScriptError,
    ShapeError,
    TraceError,
    UnsupportedOp,
    noting,
)
from jitgraph.ir import context, dims
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.dims import Dim
from jitgraph.ir.fault import write_report
from jitgraph.ir.types import TensorType
from jitgraph.location import Location, located, location_of_frame, raised_at
from jitgraph.runtime import forks, shared
from jitgraph.tracing.call.arguments import Arguments, Binder, LeafKey, Static, TensorSpec, sources_of
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.capture import Capture
from jitgraph.tracing.guards.guard import Objects
from jitgraph.tracing.guards.source import Slot, Source, World
from jitgraph.tracing.record import printing
from jitgraph.tracing.record.argument_mutation import aliases, changes, containers_of, watch
from jitgraph.tracing.record.planning import Planning, RecordedCall
from jitgraph.tracing.record.trace import Trace
from jitgraph.tracing.symbolic.number import EndOfRecording, PinnedNumber
from jitgraph.tracing.symbolic.numbers import SizeOrigin
from jitgraph.tracing.symbolic.sizes import Family, Position, SizeConflictError, named_keys
from jitgraph.tracing.symbolic.varying import Varying, stand_in

# ----------------------------------------------------------------------
# Faults of jitgraph's own while it records: exceptions that neither the user's code nor a refusal raised.

_OF_THE_CALL: Final = (JitgraphError, MemoryError, RecursionError, Warning)


def may_be_fault(error: BaseException) -> bool:
    """Whether code of this package raised an exception that is no refusal.

    It raises what Python would, too, where a script does what Python would; then the numbers themselves raise it again.
    """
    if not isinstance(error, Exception) or isinstance(error, _OF_THE_CALL):
        return False
    if (trace := raised_at(error)) is None:
        return False
    raised_in = str(trace.tb_frame.f_globals.get("__name__"))
    return raised_in.partition(".")[0] == "jitgraph"


def is_fault(error: BaseException) -> bool:
    """Whether an assertion of this package does not hold, which no code of the user's can mean."""
    return isinstance(error, AssertionError) and may_be_fault(error)


def internal_error(name: str, error: BaseException) -> InternalError:
    """The error for a fault in the recording of the function ``name``, with a file that tells about it."""
    report = write_report([f"failed to record {name}"], "", error, ".txt", "the traceback")
    return InternalError(
        f"jitgraph failed to record {name}: {type(error).__name__}: {str(error).strip()}",
        location=_user_line(error),
        hint=f"the fault is jitgraph's; {report}; with its numbers in static_argnames, or under "
        "JITGRAPH_DISABLE_JIT=1, the function may run",
    )


def _user_line(error: BaseException) -> Location | None:
    trace = raised_at(error)
    return None if trace is None else located(location_of_frame(trace.tb_frame))


# ----------------------------------------------------------------------
# Recording a call: the function runs once under a trace, with named sizes where its arguments varied before.

MOST_FAMILIES: Final = 256
"""Kinds of arguments of which a function remembers which sizes varied."""


class Recording:
    """Makes programs of one function; remembers for each kind of arguments which sizes varied."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        binder: Binder,
        dynamic_shapes: Mapping[str, Mapping[int, str]],
        strict: bool,
        shapes_are_hints: bool = False,
    ) -> None:
        self.function = function
        self.name = name
        self.binder = binder
        self.dynamic_shapes = dynamic_shapes
        self.strict = strict
        self.shapes_are_hints = shapes_are_hints
        self.families: dict[Any, Family] = {}

    def plan(
        self,
        arguments: Arguments,
        values: Sequence[Any],
        known: Sequence[Specialisation] = (),
        cached: list[Arguments] | None = None,
    ) -> tuple[CallPlan, tuple[LeafKey, ...]]:
        """Record the call; sizes that varied are named, and a name that cannot be one is given up.

        ``cached`` are earlier calls that were not recorded, as their traces were on disk; they are taken from the list.
        Python numbers whose values differ from those in the specialisations ``known`` are read at each call, where
        Python itself does not need them. Code that takes no name for a size is recorded once more with the size itself.
        """
        varying = Varying.of(known, arguments, values, self._sources(arguments))
        while cached:
            self._note(cached.pop(0))
        family = self._note(arguments)
        pinned = dict(family.pinned)
        failed: BaseException | None = None
        while True:
            keys, sizes, positions = named_keys(arguments, family, self.dynamic_shapes, self.shapes_are_hints)
            keys = varying.keys(keys, arguments)
            declared = frozenset(sizes) - positions.keys()
            pins: list[PinnedNumber] = []
            try:
                plan = self.record(arguments, keys, values, sizes, declared, pins, tuple(varying.places.values()))
            except SizeConflictError as conflict:
                for name in conflict.names & positions.keys():
                    family.pin(positions[name], conflict.location)
                if not conflict.names & positions.keys():
                    raise
                continue
            except (
                Exception,
                EndOfRecording,
            ) as error:  # perhaps code that takes no stand-in: once more with the numbers themselves
                if is_fault(error):
                    raise internal_error(self.name, error) from error
                failed = failed or (error if not pins and may_be_fault(error) else None)
                if pins:
                    _pin_sizes(pins, family, positions)
                    varying.hold(pins)
                elif varying:
                    varying.hold_all(error)
                elif positions:
                    for size_positions in positions.values():
                        family.pin(size_positions, getattr(error, "location", None))
                else:
                    family.pinned = pinned
                    raise
                continue
            if failed is not None:  # the numbers themselves do not raise it: the function is not at fault
                raise internal_error(self.name, failed) from failed
            _pin_sizes(pins, family, positions)
            if varying.settle(plan, World(self.function, values, plan.objects), arguments):
                continue
            for name, location in _pinned(plan):
                if name in positions:
                    family.pin(positions[name], location)
            return replace(plan, pinned=tuple(varying.held.values())), keys

    def _note(self, arguments: Arguments) -> Family:
        """Remember the sizes of a call; the family that it belongs to."""
        family = self.families.setdefault(Family.key(arguments), Family())
        if len(self.families) > MOST_FAMILIES:
            del self.families[next(iter(self.families))]
        family.note(arguments)
        return family

    def _sources(self, arguments: Arguments) -> tuple[Source, ...]:
        return sources_of(arguments, self.binder.names, Objects()).leaves

    def portable(
        self,
        arguments: Arguments,
        symbolic_keys: Sequence[LeafKey],
        values: Sequence[Any],
        sizes: Mapping[str, int] | None,
        declared: frozenset[str],
    ) -> tuple[CallPlan, tuple[LeafKey, ...]]:
        """Record the call for where no Python runs: a float that Python needs is held to its value."""
        varying = Varying(arguments, self._sources(arguments))
        failed: BaseException | None = None
        while True:
            keys = varying.keys(symbolic_keys, arguments)
            pins: list[PinnedNumber] = []
            try:
                plan = self.record(arguments, keys, values, sizes, declared, pins, portable=True)
            except (Exception, EndOfRecording) as error:
                if is_fault(error):
                    raise internal_error(self.name, error) from error
                failed = failed or (error if not pins and may_be_fault(error) else None)
                if pins:
                    varying.hold(pins)
                elif varying:
                    varying.hold_all(error)
                else:
                    raise
                continue
            if failed is not None:
                raise internal_error(self.name, failed) from failed
            if not plan.pinned:
                return replace(plan, pinned=tuple(varying.held.values())), keys
            varying.hold(pins)

    def record(
        self,
        arguments: Arguments,
        keys: Sequence[LeafKey],
        values: Sequence[Any],
        sizes: Mapping[str, int] | None,
        declared: frozenset[str],
        pins: list[PinnedNumber],
        varying: Sequence[Slot] = (),
        *,
        portable: bool = False,
    ) -> CallPlan:
        """One trace, with the arguments' sizes as in ``keys``; whatever the function changed is put back.

        The Python numbers at the places ``varying`` are read at each call. ``pins`` gets those that the function needs
        themselves, also where it fails.
        """
        for leaf, text in zip(arguments.leaves, arguments.texts, strict=True):
            impure.refuse_iterator(leaf.value if isinstance(leaf, Static) else leaf, text, None)
        capture = self._capture(arguments, keys, values)
        trace = Trace(self.name, capture, sizes, declared, portable=portable)
        trace.numbers.sizes = _size_origins(keys, arguments.texts)
        leaves = [
            _traced_leaf(trace, *item)
            for item in zip(range(len(keys)), arguments.leaves, keys, arguments.texts, strict=True)
        ]
        traced = rebuilt(arguments, leaves, values)
        containers = containers_of(arguments.structure.children, traced, self.binder.names)
        originals = containers_of(arguments.structure.children, values, self.binder.names)
        twice = aliases(containers) != aliases(originals)
        capture.reads.know_arguments((container.value, container.text) for container in containers)
        args, keywords = self.binder.unbind(traced)

        watch(containers, capture.effects.log)
        try:
            with forks.unfinished(capture.effects.undo), shared.DEEPER.inside(), shared.PAUSED.inside():
                stand_in(varying, trace.numbers, capture.effects.log)
                with context.using(emitter=trace, trace=trace, constraints=trace.constraints):
                    with noting() as noted, printing.intercepting():
                        try:
                            result = capture.call(self.function, *args, **keywords)
                        except Exception as error:
                            _raise_refused_before(error, noted)
                            raise
                    _raise_refusal(noted, shapes=trace.constraints.denied)
                    call = RecordedCall(self.function, self.binder.names, arguments, keys)
                    plan = Planning(trace, call, containers, originals).plan(result)
                    changed = next(changes(containers, capture.effects.log), None)
        finally:
            pins += trace.numbers.held.values()
            capture.effects.undo()
            trace.ended = True
        if twice and changed is not None:
            raise TraceError(
                f"{self.name} changes {changed[1].text(changed[0].text)}, and a container stands more than once among "
                "the arguments",
                hint="pass each container once, or return the new value instead",
            )
        self._check_strict(plan)
        return plan

    def _capture(self, arguments: Arguments, keys: Sequence[LeafKey], values: Sequence[Any]) -> Capture:
        """What watches the Python state beside a trace of these arguments."""
        known = [leaf for leaf, key in zip(arguments.leaves, keys, strict=True) if key.kind == "identity"]
        arrays = [leaf for leaf in arguments.leaves if isinstance(leaf, np.ndarray)]
        capture = Capture([self.function], known, arrays)
        capture.stand_in(printing.traced_print, printing.BUILTIN_PRINT)
        return capture

    def _check_strict(self, plan: CallPlan) -> None:
        if self.strict and plan.unguarded:
            raise TraceError(
                f"under strict=True, {self.name} depends on what cannot be guarded: {plan.unguarded[0]}",
                hint="pass it as an argument, or read it by plain attributes and items",
            )


def _raise_refusal(noted: Sequence[JitgraphError], *, shapes: bool) -> None:
    """Raise what the function was refused and caught: eagerly it is not refused, so it would go another way.

    Shapes that do not fit are an error eagerly, too; they count where it was the names of sizes that did not fit.
    """
    kinds = (TraceError, ScriptError, UnsupportedOp, SizeConflictError, *([ShapeError, NumberError] if shapes else []))
    for error in noted:
        if isinstance(error, kinds):
            raise error


def _pin_sizes(pins: Sequence[PinnedNumber], family: Family, positions: Mapping[str, Sequence[Position]]) -> None:
    """Name the sizes no more that a recording had to hold."""
    for origin, _, location in pins:
        if origin.axis >= 0:
            position = origin.leaf, origin.axis
            family.pin(
                next(
                    (size_positions for size_positions in positions.values() if position in size_positions), [position]
                ),
                location,
            )


def _raise_refused_before(error: Exception, noted: Sequence[JitgraphError]) -> None:
    """Raise the refusal from which an error followed: NumPy raises its own where an element is refused."""
    if isinstance(error, JitgraphError):
        return
    followed: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in followed:
        followed.append(cause)
        cause = cause.__cause__ or cause.__context__
    _raise_refusal([refusal for refusal in noted if refusal in followed], shapes=False)


def _pinned(plan: CallPlan) -> list[tuple[str, Location | None]]:
    """Names that the program's constraints hold to one int, with the line that did it."""
    known = Constraints(plan.graph.constraints)
    lines = {relation.shown: location for relation, location in plan.relations("sizes")}
    pinned = []
    for name in plan.sizes:
        if isinstance(known.reduce(Dim.name(name)), int):
            about = [c for c in plan.graph.constraints if name in dims.names(c.left) | dims.names(c.right)]
            pinned.append((name, lines[str(about[0])] if about else None))
    return pinned


def _size_origins(keys: Sequence[LeafKey], texts: Sequence[str]) -> dict[str, SizeOrigin]:
    """For each named size, the first place among the arguments where a call has it."""
    origins: dict[str, SizeOrigin] = {}
    for leaf, key in enumerate(keys):
        for axis, size in enumerate(key.shape):
            name = size.as_name if isinstance(size, Dim) else None
            if name is not None:
                origins.setdefault(name, SizeOrigin(leaf, axis, f"{texts[leaf]}.shape[{axis}]"))
    return origins


def _traced_leaf(trace: Trace, number: int, leaf: Any, key: LeafKey, text: str) -> Any:
    """What stands in the function's arguments for a leaf while it is traced."""
    match key.kind:
        case "tensor":
            type = TensorType(key.dtype, key.shape)
            if isinstance(leaf, TensorSpec):
                return trace.spec_handle(number, text, type)
            if key.first == number:
                trace.argument_handle(leaf, number, text, type)
            return leaf
        case "array":
            return trace.argument_array(number, text, TensorType(key.dtype, key.shape))
        case "float":
            symbolic = trace.numbers.at_leaf(number, text, leaf)
            if trace.numbers.portable:
                trace.argument_float(trace.numbers.origins[-1])
            return symbolic
        case "number":
            return trace.numbers.at_leaf(number, text, leaf)
    return leaf.value if isinstance(leaf, Static) else leaf


def rebuilt(arguments: Arguments, leaves: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The arguments with traced leaves; a container in which nothing was replaced is the caller's own object."""
    args, position = [], 0
    for child, value in zip(arguments.structure.children, values, strict=True):
        mine = leaves[position : position + child.leaves]
        original_leaves = arguments.leaves[position : position + child.leaves]
        position += child.leaves
        if isinstance(value, Static):
            args.append(value.value)
        elif all(a is b for a, b in zip(mine, original_leaves, strict=True)):
            args.append(value)
        else:
            args.append(_with_attributes(child.unflatten(mine), value))
    return args


def _with_attributes(copy: Any, original: Any) -> Any:
    """``copy``, which was rebuilt from the tree ``original``, with the attributes that are no part of the tree, too."""
    container = tree.container_of(original)
    if container is not None:
        for name, value in getattr(original, "__dict__", {}).items():
            if name not in vars(copy):
                object.__setattr__(copy, name, value)
        for left, right in zip(
            container.take_apart(copy).children, container.take_apart(original).children, strict=True
        ):
            _with_attributes(left, right)
    return copy
