"""The seam to the compiler: a graph becomes something that runs on arrays, within the limits that the user set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from jitgraph.ir import dims
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.runtime import disk_cache, imports
from jitgraph.runtime.executable import Executable

if TYPE_CHECKING:
    from jitgraph.code_cache import CodeEntry
    from jitgraph.tracing.cache.traces import CachedGraph


class Runnable(Protocol):
    """Compiled code: arrays of the graph's inputs in, arrays of its outputs out."""

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[Any]:
        """The outputs; ``donate`` lists inputs whose memory an output that aliases them may take over."""
        ...


class Bounded(Executable):
    """A compiled graph in whose calls at most so many threads take part."""

    def __init__(self, executable: Any, threads: int) -> None:
        super().__init__(
            executable.image,
            executable.signature,
            llvm_ir=lambda: executable.llvm_ir,
            asm=lambda: executable.asm,
            stages=lambda: executable.stages,
            runtime=executable.entry.runtime,
            callback=executable.callback,
            target=executable.target,
            threads=threads,
        )
        self.is_found = executable.is_found


def _compiler() -> Any:
    """The compiler, which loads on the first compilation."""
    with imports.importing():
        from jitgraph import compiler
    return compiler


def _code_cache() -> Any:
    with imports.importing():
        from jitgraph import code_cache
    return code_cache


@lru_cache(maxsize=1)
def _process_cache() -> Any:
    """What traced functions of this process have compiled: two that record equal graphs share the code."""
    return _compiler().Cache()


def compile_graph(
    graph: Graph, *, donate: Sequence[tuple[int, int]] = (), fastmath: bool = False, threads: int | None = None
) -> Runnable:
    """Code for this machine; ``donate`` holds pairs (output, input) that may share memory."""
    runnable: Runnable = _compiler().compile(graph, donate=tuple(donate), fastmath=fastmath, cache=_process_cache())
    if threads is not None and isinstance(runnable, Executable):
        return Bounded(runnable, threads)
    return runnable


def device_program(
    graph: Graph, device: str, *, donate: Sequence[tuple[int, int]] = (), fastmath: bool = False
) -> Runnable:
    """Code for the GPU of this name; ``donate`` holds pairs (output, input) that may share memory."""
    with imports.importing():
        from jitgraph.eager.device_emitter import program_for  # here: most processes have no GPU
        from jitgraph.runtime.cuda.streams import device_named
    program: Runnable = program_for(graph, device_named(device), donate=donate, fastmath=fastmath)
    return program


def find_code(
    keys: tuple[str, str],
    graph: CachedGraph,
    *,
    donate: Sequence[tuple[int, int]] = (),
    fastmath: bool = False,
    threads: int | None = None,
) -> Runnable | None:
    """The code of a kept graph, whose places in the cache on disk are known; None where it is not there any more."""
    cache = disk_cache.current()
    if cache is None:
        return None
    entry = _code_cache().CodeEntry(cache, graph.name, *keys)
    runnable: Runnable | None = _compiler().find(entry, lambda: graph.graph, donate=tuple(donate), fastmath=fastmath)
    return Bounded(runnable, threads) if runnable is not None and threads is not None else runnable


def code_entry(graph: Graph, donate: Sequence[tuple[int, int]], fastmath: bool) -> CodeEntry | None:
    """The place of a graph's code in the cache on disk; None where it is not kept there."""
    target = replace(Target.host(), fastmath=fastmath)
    entry: CodeEntry | None = _code_cache().entry_of(graph, target, tuple(donate))
    return entry


def aliases(runnable: Runnable) -> tuple[tuple[int, int], ...]:
    """The pairs (output, input) that may indeed share memory."""
    signature = getattr(runnable, "signature", None)
    return () if signature is None else tuple(signature.aliases)


def arena_bytes(runnable: Runnable, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes of temporaries with the memory plan and without; (0, 0) where nothing was planned."""
    plan = getattr(getattr(runnable, "stages", None), "plan", None)
    if plan is None:
        return 0, 0
    return dims.evaluate(plan.arena_bytes, sizes), dims.evaluate(plan.unplanned, sizes)


def workspace_bytes(runnable: Runnable, sizes: Mapping[str, int]) -> int:
    """Bytes that a call needs beside its inputs and outputs; 0 where nothing is compiled."""
    return runnable.entry.arena_bytes(sizes) if isinstance(runnable, Executable) else 0


def output_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Bytes of a graph's outputs."""
    return sum(tensor_bytes(value.type, sizes) for value in graph.outputs)


def tensor_bytes(type: Any, sizes: Mapping[str, int]) -> int:
    """Bytes of a value; 0 for tokens and stacks."""
    if not isinstance(type, TensorType):
        return 0
    return dims.evaluate(type.size, sizes) * type.dtype.itemsize
