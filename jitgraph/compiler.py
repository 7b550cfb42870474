"""The compiler's entry point: ``compile(graph, target)`` returns executable code, cached or compiled now.

Compiled graphs are cached by canonical text, names, lines, target and flags in a ``Cache`` that the caller passes
in, and beyond the process in the persistent cache (``code_cache.py``). What neither has goes through the one pipeline
(``compilation.py``), which loads when it is first needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jitgraph import code_cache, config, ir
from jitgraph.code_cache import Donation, signature_of
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.runtime import forks, imports, loader
from jitgraph.runtime.executable import Executable

if TYPE_CHECKING:
    from jitgraph.codegen.backend import Backend


_ENTRY_BYTES, _NODE_BYTES = 10_000, 2_500
"""About what the graphs and kernels of an entry's stages take: for the entry, and for each node of its graph."""


class Interpreted:
    """A graph that the NumPy interpreter runs: under JITGRAPH_INTERPRET=1."""

    llvm_ir = ""
    asm = ""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.signature = signature_of(graph, None)

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[loader.Array]:
        """The outputs for these inputs, in arrays of their own; nothing is taken over."""
        return [array.copy() for array in ir.interpret(self.graph, buffers)]

    def __call__(self, *args: Any) -> Any:
        """The outputs for these inputs: one array, or a tuple."""
        outputs = self.run(args)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class Cache:
    """Compiled graphs of this process; safe to use from several threads.

    The key holds names and source lines too, which errors and the stages show. What was used least recently goes where
    the code, its texts and the stages that it went through together pass about ``limit`` bytes.
    """

    def __init__(self, limit: int = 128 << 20) -> None:
        self._made: OrderedDict[tuple[Any, ...], tuple[Executable, int]] = OrderedDict()
        self._limit = limit
        self._bytes = 0
        self._lock = forks.lock()

    @property
    def bytes(self) -> int:
        """About what all entries take."""
        return self._bytes

    def find(self, key: tuple[Any, ...]) -> Executable | None:
        """What was compiled for ``key``."""
        with self._lock:
            cached = self._made.get(key)
            if cached is None:
                return None
            self._made.move_to_end(key)
            return cached[0]

    def store(self, key: tuple[Any, ...], compiled: Executable, node_count: int) -> Executable:
        """Remember the code of a graph of ``node_count`` nodes; where another thread was faster, what it made."""
        size = compiled.code_bytes + _ENTRY_BYTES + _NODE_BYTES * node_count
        with self._lock:
            cached, _ = self._made.setdefault(key, (compiled, size))
            if cached is compiled:
                self._bytes += size
                while self._bytes > self._limit:
                    self._bytes -= self._made.popitem(last=False)[1][1]
            return cached

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._made.clear()
            self._bytes = 0


def _key(graph: Graph, *others: Any) -> tuple[Any, ...]:
    hints = tuple([value.hint for value in (*graph.inputs, *graph.outputs)])
    locations = tuple([node.location for node in graph.walk()])
    return (graph.canonical, graph.name, hints, locations, *others)


def compile(
    graph: Graph,
    target: Target | None = None,
    *,
    donate: Sequence[Donation] = (),
    fastmath: bool = False,
    cache: Cache | None = None,
    backend: Backend | None = None,
) -> Executable | Interpreted:
    """Native code for ``graph``, by default for this machine, and by the backend of the target.

    ``donate`` lists inputs whose memory outputs may take over, where the memory plan finds that safe. ``fastmath``
    allows contraction and reassociation. CompileError or UnsupportedOp where code cannot be had. Under
    JITGRAPH_INTERPRET=1 the result runs in the interpreter.
    """
    if config.INTERPRET.is_on():
        return Interpreted(_pipeline().without_gradients(graph))
    target = target or Target.host()
    target = replace(target, fastmath=target.fastmath or fastmath)
    if cache is None:
        return _compiled(graph, target, donate, backend)
    key = _key(graph, target, tuple(donate), config.VERIFY.is_on(), None if backend is None else backend.name)
    cached = cache.find(key)
    if cached is not None:
        return cached
    return cache.store(key, _compiled(graph, target, donate, backend), sum(1 for _ in graph.walk()))


def _compiled(graph: Graph, target: Target, donate: Sequence[Donation], backend: Backend | None) -> Executable:
    """What the persistent cache has, or else the pipeline makes; code of other backends is not kept."""
    entry = code_cache.entry_of(graph, target, donate) if backend is None else None
    cached = entry.find() if entry is not None else None
    if cached is not None:
        return _restored(cached, lambda: graph, target, donate)
    if backend is None and target.sm is None:
        imports.module("jitgraph.codegen.llvm.machine").start(target.name)  # while the pipeline is imported
    executable: Executable = _pipeline().compiled(graph, target, donate, backend)
    if entry is not None:
        entry.store(code_cache.Cached(executable.image, executable.signature, getattr(executable, "parts", None)))
    return executable


def find(
    entry: code_cache.CodeEntry, graph: Callable[[], Graph], *, donate: Sequence[Donation], fastmath: bool
) -> Executable | None:
    """What the persistent cache has at a place that is known, for this machine; ``graph`` gives the graph if needed."""
    cached = entry.find()
    target = Target.host()
    return None if cached is None else _restored(cached, graph, replace(target, fastmath=fastmath), donate)


def _restored(
    cached: code_cache.Cached, graph: Callable[[], Graph], target: Target, donate: Sequence[Donation]
) -> Executable:
    """Code of an earlier process; its stages and texts are made when they are asked for."""

    def stages() -> Any:
        return _pipeline().staged(graph(), target, donate)

    if cached.parts is not None:
        kind = imports.module("jitgraph.runtime.cuda.executable").CudaExecutable
        executable: Executable = kind(cached.image, cached.signature, cached.parts, target, stages)
    else:
        executable = Executable(
            cached.image,
            cached.signature,
            llvm_ir=lambda: _pipeline().compiled(graph(), target, donate, None).llvm_ir,
            asm=lambda: _pipeline().compiled(graph(), target, donate, None).asm,
            stages=stages,
            target=target,
        )
    executable.is_found = True
    return executable


def _pipeline() -> Any:
    """The pipeline with its passes and code generators, which most processes never need again."""
    with imports.importing():
        from jitgraph import compilation
    return compilation
