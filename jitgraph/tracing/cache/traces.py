"""Traces on disk: what a file holds, where those of a call lie, and how one is taken in place of recording.
Of a cached plan, graphs are read when they are asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np

from jitgraph import code_cache, config, tree
from jitgraph.errors import GraphError, JitgraphError
from jitgraph.ir.context import Context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.location import Location
from jitgraph.once import cached_property
from jitgraph.records import NamedTuple, dataclass
from jitgraph.runtime import disk_cache, sources
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.loader import LoadError
from jitgraph.runtime.loader.json_objects import parse_json
from jitgraph.tracing.cache.codec import NotStorableError, Reading, Writing, codec_of, encoded, types_of
from jitgraph.tracing.cache.fingerprint import Fingerprinter, digest_of
from jitgraph.tracing.cache.lookup_paths import Finding, LookupPath, loaded_by_name
from jitgraph.tracing.call import backend
from jitgraph.tracing.call.arguments import Arguments, LeafKey, Static
from jitgraph.tracing.call.options import Options
from jitgraph.tracing.call.plan import CallPlan, Template
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.guards.plain import plain_of

if TYPE_CHECKING:
    from jitgraph.code_cache import CodeEntry
    from jitgraph.tracing.guards.guard import Guard

# ----------------------------------------------------------------------
# CachedPlan: a plan that an earlier process made, whose graphs are read when they are asked for.

# ----------------------------------------------------------------------
# Graphs of a cached trace: their text is read when the graph is asked for, and their code is found without it.

_INLINE = 1 << 62  # elements: constants stand in the text itself


def folder_here() -> str:
    """The folder from which errors tell where lines are."""
    try:
        return os.path.abspath(".")
    except OSError:  # it is gone
        return ""


@dataclass(frozen=True)
class CachedGraph:
    """A graph that is read when it is asked for, with the keys of its code in the cache.

    ``names`` are those of its values, ``locations`` those of its nodes; ``folder`` is where lines in errors begin.
    """

    text: str
    name: str
    output_count: int
    names: tuple[str | None, ...]
    locations: tuple[Location | None, ...]
    code: tuple[str, str] | None
    folder: str | None

    @classmethod
    def of(cls, graph: Graph, code: CodeEntry | None, folder: str | None) -> CachedGraph:
        """A graph as data."""
        from jitgraph.ir.printer import print_graph

        return cls(
            print_graph(graph, full=True, locations=False, inline=_INLINE),
            graph.name,
            len(graph.outputs),
            tuple([value.hint for value in _values(graph)]),
            tuple([node.location for node in graph.walk()]),
            None if code is None else (code.key, code.key_with_lines),
            folder,
        )

    @cached_property
    def graph(self) -> Graph:
        """The graph, verified; GraphError where the text holds none."""
        from jitgraph.ir.parser import parse
        from jitgraph.ir.verifier import verify

        parsed = parse(self.text)
        nodes, values = list(parsed.walk()), list(_values(parsed))
        counts = len(nodes), len(values), len(parsed.outputs)
        if counts != (len(self.locations), len(self.names), self.output_count):
            raise GraphError("a cached graph has another number of nodes than of lines")
        names = dict(zip(values, self.names, strict=True))
        annotated = _with(parsed, dict(zip(map(id, nodes), self.locations, strict=True)), names)
        verify(annotated)
        return replace(annotated, name=self.name)


def _values(graph: Graph) -> Iterator[Value]:
    """Every value of a graph where it is defined, those of regions too."""
    yield from graph.inputs
    for node in graph.nodes:
        for region in node.regions:
            yield from _values(region)
        yield from node.outputs


def _with(graph: Graph, locations: dict[int, Any], hints: dict[Value, str | None]) -> Graph:
    """The graph with these lines and names."""
    new_value_of: dict[Value, Value] = {}

    def values(old_values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple([new_value_of.setdefault(value, Value(value.type, hints[value])) for value in old_values])

    inputs = values(graph.inputs)
    nodes = []
    for node in graph.nodes:
        regions = tuple([_with(region, locations, hints) for region in node.regions])
        nodes.append(Node(node.op, values(node.inputs), node.attrs, values(node.outputs), regions, locations[id(node)]))
    return replace(graph, inputs=inputs, nodes=tuple(nodes), outputs=values(graph.outputs))


# ----------------------------------------------------------------------
# CachedPlan: a plan that an earlier process made.


class CachedPlan(CallPlan):
    """A plan whose graph is read when it is asked for."""

    __slots__ = ("_cached",)
    _cached: CachedGraph | Graph

    def __init__(self, graph: CachedGraph | Graph, **parts: Any) -> None:
        """``parts`` are other fields; those that are not stored have their defaults."""
        object.__setattr__(self, "_cached", graph)
        for known in fields(CallPlan)[1:]:
            object.__setattr__(self, known.name, parts.get(known.name, known.default))

    @property
    def graph(self) -> Graph:
        """The graph, verified; GraphError where there is none."""
        return self._cached.graph if isinstance(self._cached, CachedGraph) else self._cached

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._cached.name

    @property
    def output_count(self) -> int:
        """How many outputs the graph has."""
        return len(self._cached.outputs) if isinstance(self._cached, Graph) else self._cached.output_count


# ----------------------------------------------------------------------
# Traces on disk: what a file holds, where those of a call lie, and how one is taken in place of recording.

# ----------------------------------------------------------------------
# StoredTrace: all that a file of the cache holds of a recorded call, as records.

_UNSTORED: Final = frozenset({"graph", "unguarded", "bound", "objects", "device", "views"})
"""Fields of a plan that have their defaults in the plans that are stored, or stand beside the plan."""


class StoredKey(NamedTuple):
    """How the key of a leaf differs from that of the call for which the trace is looked up."""

    kind: Literal["number", "static float"] | None
    shape: tuple[DimLike, ...]


class CachedVjp(NamedTuple):
    """As ``passes.autodiff.Vjp``, of graphs that are read when they are compiled."""

    forward: CachedGraph
    backward: CachedGraph
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]
    seeds: tuple[int, ...]
    wrt: tuple[int, ...]


class StoredTrace(NamedTuple):
    """``plan`` has fields of a CallPlan by name, ``objects`` says where those of its table are found, ``fingerprint``
    what they, and ``classes``, the containers of results, were."""

    plan: dict[str, Any]
    objects: tuple[LookupPath, ...]
    fingerprint: Annotated[Any, "json"]
    keys: tuple[StoredKey, ...]
    graph: CachedGraph
    donate: tuple[tuple[int, int], ...]
    vjp: CachedVjp | None
    classes: tuple[type, ...]

    def packed(self) -> bytes:
        """The content of a file; NotStorableError where there can be none."""
        writing = Writing()
        plan = {name: codec.write(self.plan[name], writing) for name, codec in _plan_codecs().items()}
        rest = {name: codec.write(getattr(self, name), writing) for name, codec in _codecs().items()}
        return json.dumps({"plan": plan, **rest, "tables": writing.tables}, separators=(",", ":")).encode()

    @classmethod
    def unpacked(cls, content: bytes, class_named: Callable[[str, str], type]) -> StoredTrace:
        """What ``packed`` wrote; LoadError for anything else."""
        data = parse_json(content, "a trace")
        try:
            plan, counted = data["plan"], ("handles", "inputs", "fresh", "shared_templates")
            counts = {"objects": len(data["objects"]), **{name: len(plan[name]) for name in counted}}
            reading = Reading(data["tables"], counts, class_named)
            parts = {name: codec.read(plan[name], reading) for name, codec in _plan_codecs().items()}
            return cls._make([parts, *[codec.read(data[name], reading) for name, codec in _codecs().items()]])
        except (KeyError, TypeError) as error:
            raise LoadError(f"a trace lacks {error}") from None


def plan_parts(plan: CallPlan) -> dict[str, Any]:
    """The fields of a plan that are stored."""
    return {name: getattr(plan, name) for name in _plan_codecs()}


def classes_of(plan: CallPlan) -> tuple[type, ...]:
    """The classes of the containers in what a call gives and writes."""
    templates = (plan.result, *plan.shared_templates, *(effect.value for effect in plan.effects))
    pending = [template.structure for template in templates if isinstance(template, Template)]
    classes: dict[type, None] = {}
    while pending:
        structure = pending.pop()
        if structure.kind is not None:
            classes[structure.kind] = None
            pending += structure.children
    return tuple(classes)


@cache
def _plan_codecs() -> dict[str, Any]:
    return {name: codec_of(kind) for name, kind in types_of(CallPlan).items() if name not in _UNSTORED}


@cache
def _codecs() -> dict[str, Any]:
    return {name: codec_of(kind) for name, kind in types_of(StoredTrace).items() if name != "plan"}


# ----------------------------------------------------------------------
# Traces on disk: where those of a call lie, and how one is found and taken in place of recording.
#
# A key has what a call can be told by before anything is recorded: the function by module, name and code, the kinds of
# its arguments, the ambient context, the options, and jitgraph's own sources. What lies there holds nothing alive: the
# objects of the plan are found in this process, described and compared with what the recording met, and then the plan's
# own check decides, as for any specialisation. Where anything is otherwise, the function is recorded.

MOST: Final = 4
"""Traces of one key: of functions that are called alike in several states, such as before and after training."""

_NOT_THERE: Final = (LookupError, TypeError, ValueError, AttributeError, NotStorableError, JitgraphError, SyntaxError)
"""What finding an object may raise where this process, or the entry, is another than it should be."""


class NewCall(NamedTuple):
    """A call that no specialisation of this process fits."""

    function: Callable[..., Any]
    name: str
    options: Options
    arguments: Arguments
    values: Sequence[Any]
    ambient: Context


class TraceEntry:
    """Where the traces of a kind of calls lie in the cache on disk, there or yet to be written."""

    def __init__(self, cache: disk_cache.DiskCache, key: str, call: NewCall) -> None:
        self.cache = cache
        self.key = key
        self.call = call
        self.free: int | None = None  # the first number at which no entry is

    def entry(self, number: int) -> str:
        """The key of one of the entries."""
        return disk_cache.key_of(self.key, str(number))

    def find(self) -> Specialisation | None:
        """A trace that fits the call; None where there is none, or none fits."""
        for number in range(MOST):
            key = self.entry(number)
            content = self.cache.find(key, f"trace {number + 1} of {self.call.name}")
            if content is None:
                self.free = number if self.free is None else self.free
                return None
            try:
                specialisation = self._taken(StoredTrace.unpacked(content, _class_named))
            except LoadError as error:
                self.cache.remove(key, str(error))
                self.free = number if self.free is None else self.free
            except _NOT_THERE as error:
                config.log("cache", f"trace {number + 1} of {self.call.name}: not taken, {error}")
            else:
                return specialisation
        return None

    def _taken(self, trace: StoredTrace) -> Specialisation:
        """The specialisation of a trace; LookupError and the like where what it met is not here, or not the same."""
        call, graph = self.call, trace.graph
        finding = Finding(trace.objects, call.function, call.values)
        objects = finding.all()
        owners = owners_of_code(trace.plan["guards"], finding.world.find)
        if fingerprint(call.function, objects, trace.classes, owners)[0] != trace.fingerprint:
            raise LookupError("an object, a function or a class is another one")
        plan = CachedPlan(graph, objects=tuple(objects), **trace.plan)
        keys = _keys(call.arguments, trace.keys)
        specialisation = Specialisation(
            call.function, call.arguments.structure, keys, plan, call.ambient, Compiling(call.options)
        )
        if specialisation.match(tuple(call.values)) is None:
            raise LookupError("a guard does not hold")
        if trace.vjp is not None:
            specialisation.__dict__["vjp"] = trace.vjp
        elif specialisation.taped:
            raise LoadError("a trace has no halves for gradients")
        elif (code := specialisation.compile.find(graph, trace.donate)) is not None:  # type: ignore[attr-defined]
            specialisation.adopt(code)
        return specialisation


class Compiling:
    """Compiles graphs under the options of a function; those of a kept trace have their code on disk, as a rule."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __call__(self, graph: Any, donate: Sequence[tuple[int, int]] = (), device: str = CPU) -> backend.Runnable:
        assert device == CPU, "traces that run on a GPU are not kept"
        if isinstance(graph, CachedGraph):
            runnable = self.find(graph, donate)
            if runnable is not None:
                return runnable
            graph = graph.graph
        options = self._options
        return backend.compile_graph(graph, donate=donate, fastmath=options.fastmath, threads=options.threads)

    def find(self, graph: CachedGraph, donate: Sequence[tuple[int, int]]) -> backend.Runnable | None:
        """The code that is on disk; lines in its messages are told from the folder where it was made."""
        if config.INTERPRET.is_on() or graph.code is None or graph.folder not in (None, folder_here()):
            return None
        options = self._options
        return backend.find_code(graph.code, graph, donate=donate, fastmath=options.fastmath, threads=options.threads)


def folder_of(cache: disk_cache.DiskCache, call: NewCall) -> TraceEntry | None:
    """Where the traces of a call lie; None where none would do."""
    try:
        if reason := _unfit(call):
            raise NotStorableError(reason)
        return TraceEntry(cache, _key(call), call)
    except NotStorableError as error:
        config.log("cache", f"trace of {call.name}: not looked up, {error}")
        return None


def _unfit(call: NewCall) -> str:
    if any(key.device != CPU for key in call.arguments.keys):
        return "as a tensor lies on a GPU, for which no code is kept"
    if call.options.verify:
        return "as it is to be compared with eager"
    if call.ambient.random is not None:
        return "as a stream of random numbers of this process alone is in use"
    return code_cache.unfit_here()


def _key(call: NewCall) -> str:
    """What all calls that one trace may serve have in common; NotStorableError where no text tells it."""
    function, ambient = call.function, call.ambient
    code = getattr(function, "__code__", None)
    names = (
        call.name,
        getattr(function, "__module__", ""),
        getattr(function, "__qualname__", ""),
        type(function).__qualname__,
    )
    about = (
        [str(name) for name in names],
        digest_of(code) if code is not None else "",
        [_structure(call.arguments.structure), [_leaf(key) for key in call.arguments.keys]],
        [ambient.grad_enabled, ambient.anomaly, str(ambient.autocast), ambient.device, str(ambient.default_dtype)],
        repr([getattr(call.options, name) for name in Options.__slots__]),
        [config.TARGET_CPU.text(), str(sorted(np.geterr().items()))],
    )
    return disk_cache.key_of("trace", str(sources.OWN.digest), json.dumps(about))


def _structure(structure: tree.TreeDef) -> Any:
    """The containers of arguments by their classes and the names in them."""
    kind = structure.kind
    if kind is None:
        return None
    if structure.data is not None:
        raise NotStorableError(f"as a {kind.__qualname__} among the arguments is a registered container")
    steps = [[type(step).__name__, _plain(step[0])] for step in structure.steps]
    return [kind.__module__, kind.__qualname__, steps, [_structure(child) for child in structure.children]]


def _leaf(key: LeafKey) -> Any:
    dtype = None if key.dtype is None else encoded(key.dtype, np.dtype)
    return [key.kind, dtype, list(key.shape), key.requires_grad, key.first, _plain(key.value), key.api]


def _plain(value: Any) -> Any:
    plain = plain_of(value)
    return [type(value).__module__, type(value).__qualname__] if plain is None else encoded(plain)


def fingerprint(
    function: Any, objects: Sequence[Any], kinds: Sequence[type], owners: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """What the function, the table of objects, the classes of results and the functions entered are; and those of
    which each process has its own."""
    describing = Fingerprinter()
    described = [describing.of(function)]
    described += [None if type(value).__name__ == "Copied" else describing.of(value) for value in objects]
    described += [describing.of(value) for value in (*kinds, *owners)]
    return json.loads(json.dumps(described)), describing.met


def owners_of_code(guards: Sequence[Guard], find: Callable[[Any], Any]) -> list[Any]:
    """The functions whose code guards hold: their variables and globals are part of what they do."""
    step_sources = [guard.source for guard in guards if guard.source is not None and guard.source.steps]
    return [find(source.owner) for source in dict.fromkeys(step_sources) if source.steps[-1].kind == "code"]


def stored_keys(arguments: Arguments, keys: Sequence[LeafKey]) -> tuple[StoredKey, ...]:
    """How the keys of a specialisation differ from those of the call that it was recorded for."""
    pairs = zip(keys, arguments.keys, strict=True)
    return tuple([StoredKey(None if key.kind == own.kind else key.kind, key.shape) for key, own in pairs])  # type: ignore[arg-type]


def _keys(arguments: Arguments, stored: Sequence[StoredKey]) -> tuple[LeafKey, ...]:
    if len(stored) != len(arguments.keys):
        raise LoadError("a trace has another number of keys than the call of leaves")
    return tuple(map(_key_of, arguments.keys, arguments.leaves, stored))


def _key_of(own: LeafKey, leaf: Any, stored: StoredKey) -> LeafKey:
    if stored.kind == "number":
        return LeafKey("number")
    if stored.kind == "static float":
        return LeafKey("static float", value=leaf.value if isinstance(leaf, Static) else leaf)
    return own._replace(shape=stored.shape)


def _class_named(module: str, name: str) -> type:
    """The class of a module and a name; LookupError where it is not there any more."""
    kind = loaded_by_name(module, name)
    if not isinstance(kind, type):
        raise LookupError(f"the class {module}.{name}")
    return kind
