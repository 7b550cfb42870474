"""Groups that a graph has several times, such as the layers of a model: lowered once, and launched for each.

A lowering reads its group alone, and names buffers that others may take the places of. So equal groups, whose inputs
and outputs lie in buffers that are told apart in the same way, give the same launches of other buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from jitgraph.codegen.kernels.schedule import Launch
from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.families import lower_group
from jitgraph.codegen.lower.schedules.strategies import LoweringStrategies
from jitgraph.ir.types import TensorType
from jitgraph.passes.rewriter import has_effect
from jitgraph.records import NamedTuple


class _Lowered(NamedTuple):
    """What a group became: its launches, and its buffers, those of inputs and outputs first, then temporaries."""

    launches: tuple[Launch, ...]
    buffers: tuple[str, ...]
    temporaries: tuple[TensorType, ...]


class RepeatedGroups:
    """The groups of one schedule."""

    def __init__(self, builder: ScheduleBuilder, strategies: LoweringStrategies) -> None:
        self._builder = builder
        self._nests = strategies
        self._lowered: dict[tuple[Any, ...], _Lowered] = {}

    def lower(self, group: Group) -> None:
        """As ``families.lower_group``."""
        if not _can_be_repeated(group):
            lower_group(self._builder, group, self._nests)
            return
        storages = [*(group.inputs[value] for value in group.graph.inputs), *(storage for _, storage in group.outputs)]
        buffers = tuple(dict.fromkeys(storage.name for storage in storages))
        which = {value: number for number, value in enumerate(group.graph.outputs)}
        key = (
            group.graph.canonical,
            tuple([(buffers.index(storage.name), storage.type) for storage in storages]),
            tuple([which[value] for value, _ in group.outputs]),
            self._copied(group),
        )
        cached = self._lowered.get(key)
        if cached is not None:
            self._launch_again(cached, buffers)
        elif (lowered := self._first(group, buffers)) is not None:
            self._lowered[key] = lowered

    def _copied(self, group: Group) -> tuple[bool, ...]:
        """For a partial write, which inputs are the caller's, which it goes by (``lower/updating.py``)."""
        if not any(node.op.lowering in ("scatter", "dynamic_update_slice") for node in group.graph.nodes):
            return ()
        roles = (self._builder.buffers[group.inputs[value].name].role for value in group.graph.inputs)
        return tuple([role in ("input", "constant") for role in roles])

    def _first(self, group: Group, buffers: tuple[str, ...]) -> _Lowered | None:
        """Lower a group, and give what it became; None where that is more than launches and temporaries."""
        builder = self._builder
        steps, before, sites = len(builder.steps), len(builder.buffers), len(builder.sites.all)
        lower_group(builder, group, self._nests)
        fresh = list(islice(reversed(builder.buffers.values()), len(builder.buffers) - before))[::-1]
        appended = builder.steps[steps:]
        launches = tuple([step for step in appended if isinstance(step, Launch)])
        if len(launches) < len(appended) or len(builder.sites.all) > sites:
            return None
        temporaries = [buffer for buffer in fresh if buffer.role == "temporary"]
        names = (*buffers, *(buffer.name for buffer in temporaries))
        return _Lowered(launches, names, tuple([buffer.type for buffer in temporaries]))

    def _launch_again(self, lowered: _Lowered, buffers: Iterable[str]) -> None:
        builder = self._builder
        fresh = [builder.temporary(type).name for type in lowered.temporaries]
        renames = dict(zip(lowered.buffers, (*buffers, *fresh), strict=True))
        for launch in lowered.launches:  # constants stay where they are
            names = tuple([renames.get(name, name) for name in launch.buffers])
            builder.steps.append(Launch(launch.kernel, names, builder.location, builder.lines))


def _can_be_repeated(group: Group) -> bool:
    """Whether no error in it names a line of the user's, and no buffer is a slice of another."""
    if any(storage.slot is not None for storage in (*group.inputs.values(), *(output for _, output in group.outputs))):
        return False
    return not any(has_effect(node) or "bounds_checked" in node.op.traits for node in group.graph.nodes)
