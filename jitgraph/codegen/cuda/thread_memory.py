"""Memory of a thread or a team, in registers where indices are known, and the stack in it on which chunks merge as a
tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, least, memory_type, multiply, subtract
from jitgraph.dtypes import DType
from jitgraph.errors import CompileError
from jitgraph.ir.target import Target

# ----------------------------------------------------------------------
# Memory of a kernel's own: a thread's, which lies in registers where indices are known, and that of a team.

_ALIGNMENT = 16


class PrivateMemory:
    """What each thread has for itself: it stays for as long as the function runs."""

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Nothing is given back."""
        yield

    def private(self, env: Environment, dtype: DType, elements: int) -> LlvmScalar:
        """The address of memory of the thread's own for ``elements`` of ``dtype``."""
        address = env.function.alloca(memory_type(dtype), elements, _ALIGNMENT)
        return LlvmScalar(address.name, "ptr", dtype, 1)


class SharedMemory:
    """The shared memory of a kernel's blocks, of which each of ``teams`` has a part of its own."""

    def __init__(self, function: LlvmFunction, target: Target, teams: int) -> None:
        self.function, self.target, self.teams = function, target, teams
        self.bytes = 0
        self._count = 0

    def take(self, env: Environment, dtype: DType, elements: int, team: LlvmScalar) -> LlvmScalar:
        """The address of memory of team number ``team`` for ``elements``; CompileError where a block has no more."""
        each = elements * dtype.itemsize
        base = f"addrspacecast (ptr addrspace(3) {self.variable(env, each * self.teams)} to ptr)"
        offset = multiply(env, team, integer(each))
        if constant_of(offset) == 0:
            return LlvmScalar(base, "ptr", dtype, 1)
        return LlvmScalar(self.function.emit("ptr", f"getelementptr i8, ptr {base}, {offset}").name, "ptr", dtype, 1)

    @property
    def left(self) -> int:
        """Bytes that a block may still take."""
        return self.target.l1_bytes - self.bytes

    def variable(self, env: Environment, bytes: int, alignment: int = _ALIGNMENT) -> str:
        """The name of a variable of so many bytes; CompileError where a block has no more."""
        self.bytes += -(-bytes // alignment) * alignment
        if self.bytes > self.target.l1_bytes:
            raise CompileError(
                f"kernel {env.kernel.name} wants {self.bytes} bytes of shared memory; {self.target.l1_bytes} are there",
                hint="put it into a temporary buffer instead",
            )
        name = f"@shared_{bytes}_{alignment}_{self._count}"  # kernels use the same variables, each for itself
        self._count += 1
        type = f"[{bytes} x i8]"
        self.function.module.declare(f"{name} = internal addrspace(3) global {type} poison, align {alignment}")
        return name


# ----------------------------------------------------------------------
# The tree in which chunks merge (``kernel.Loop``, ``kernel.Contract``), as a stack in a thread's own memory.
#
# Before chunk t as many runs of chunks wait as t has bits, the longest at the bottom. Chunk t merges with those on top
# of it, as many as t ends in ones, and waits in their place; the last chunk merges with all.

Merge = Callable[[Sequence[LlvmScalar], Sequence[LlvmScalar]], list[LlvmScalar]]
"""Two sets of accumulators as one, the earlier ones on the left."""

Chunk = Callable[[LlvmScalar], list[LlvmScalar]]
"""The accumulators of a chunk, by its number."""

_INDEX_BITS: Final = 63


def merged(
    env: Environment,
    begin: LlvmScalar,
    end: LlvmScalar,
    init: Sequence[LlvmScalar],
    chunk: Chunk,
    merge: Merge,
    most: int | None = None,
) -> list[LlvmScalar]:
    """Chunks ``begin .. end`` as one, ``init`` where there are none; ``begin`` is a node's first chunk.

    There are ``most`` of them or fewer, where that is known.
    """
    function, s = env.function, env.ops
    known = constant_of(subtract(env, end, begin))
    most = most if known is None else known
    if most is not None and most <= 1:
        return loops.counted(env, begin, end, 1, init, lambda number, _: chunk(number))
    levels = _INDEX_BITS if most is None else most.bit_length()
    # The values of one type lie side by side, so that one address of a level serves all of them.
    kinds = {value.type: [other.type for other in init].count(value.type) for value in init}
    sizes = {value.type: value.dtype.itemsize for value in init}
    stacks = {type: function.alloca(type, levels * count, sizes[type]) for type, count in kinds.items()}

    def places(values: Sequence[LlvmScalar], at: LlvmScalar) -> list[str]:
        addresses, taken = [], dict.fromkeys(kinds, 0)
        for value in values:
            level = multiply(env, at, integer(kinds[value.type]))
            first = function.emit("ptr", f"getelementptr {value.type}, {stacks[value.type]}, {level}")
            addresses.append(function.emit("ptr", f"getelementptr {value.type}, {first}, i64 {taken[value.type]}").name)
            taken[value.type] += 1
        return addresses

    def step(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        values = chunk(number)
        here = subtract(env, number, begin)
        height = s.intrinsic("ctpop", here)
        ones = s.make(f"call i64 @llvm.cttz.i64({s.not_(here)}, i1 false)", here.dtype, 1)
        times = s.select(s.cmp("eq", add(env, number, integer(1)), end), height, ones)

        def absorb(done: LlvmScalar, right: list[LlvmScalar]) -> list[LlvmScalar]:
            at = subtract(env, subtract(env, height, integer(1)), done)
            left = [
                s.make(f"load {x.type}, ptr {address}, align {x.dtype.itemsize}", x.dtype, 1, x.type)
                for address, x in zip(places(right, at), right, strict=True)
            ]
            return merge(left, right)

        values = loops.counted(env, integer(0), times, 1, values, absorb)
        top = subtract(env, height, times)
        for address, x in zip(places(values, top), values, strict=True):
            function.do(f"store {x}, ptr {address}, align {x.dtype.itemsize}")
        return values

    return loops.counted(env, begin, end, 1, init, step)


def merged_in_runs(
    env: Environment,
    begin: LlvmScalar,
    end: LlvmScalar,
    wholes: LlvmScalar,
    init: Sequence[LlvmScalar],
    chunk: Chunk,
    whole: Chunk,
    merge: Merge,
    run: int,
    most: int | None = None,
    *,
    even: bool = False,
) -> list[LlvmScalar]:
    """As ``merged``, aligned runs of ``run`` chunks at once, a power of two: their loads wait for memory together.

    Chunks before number ``wholes`` have all of their steps, and ``whole`` gives their accumulators. ``even`` says that
    ``begin .. end`` is runs of such chunks alone.
    """
    function = env.function
    count = subtract(env, end, begin)
    known = constant_of(count)
    most = most if known is None else known
    if known is not None:
        nodes = integer(max(0, -(-known // run)))
    else:
        up = add(env, env.ops.max(count, integer(0)), integer(run - 1))
        nodes = env.ops.make(f"udiv {up}, {run}", count.dtype, 1)
    inside = least(env, end, wholes)

    def node(number: LlvmScalar) -> list[LlvmScalar]:
        first = add(env, begin, multiply(env, number, integer(run)))

        def together() -> list[LlvmScalar]:
            return neighbours([whole(add(env, first, integer(each))) for each in range(run)], merge)

        if even:
            return together()
        behind = add(env, first, integer(run))
        full, part, after = map(function.label, ("whole", "part", "after"))
        outside = function.known
        function.branch(env.ops.cmp("le", behind, inside).name, full, part)
        function.start_block(full, outside)
        all_chunks, one = together(), function.block
        function.jump(after)
        function.start_block(part, outside)
        some_chunks = merged(env, first, least(env, behind, end), init, chunk, merge, run)
        other = function.block
        function.jump(after)
        function.start_block(after, outside)
        return loops.joined(function, (one, all_chunks), (other, some_chunks))

    return merged(env, integer(0), nodes, init, node, merge, None if most is None else -(-most // run))


def neighbours(nodes: Sequence[Sequence[LlvmScalar]], merge: Merge) -> list[LlvmScalar]:
    """A power of two of neighbouring nodes of one height as one."""
    while len(nodes) > 1:
        nodes = [merge(left, right) for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
    return list(nodes[0])


def merged_chunks(
    env: Environment, parts: Sequence[Sequence[LlvmScalar]], count: LlvmScalar, merge: Merge
) -> list[LlvmScalar]:
    """The first ``count`` of ``parts``, at least one, as one; they are neighbouring nodes of one height."""
    distance, nodes = 1, [list(part) for part in parts]
    known = constant_of(count)
    while distance < len(parts):
        for left in range(0, len(parts) - distance, 2 * distance):
            right = left + distance
            if known is not None and right >= known:
                continue
            both = merge(nodes[left], nodes[right])
            if known is None:
                there = env.ops.cmp("gt", count, integer(right))
                both = [env.ops.select(there, x, y) for x, y in zip(both, nodes[left], strict=True)]
            nodes[left] = both
        distance *= 2
    return nodes[0]


def folded(slots: Sequence[Sequence[LlvmScalar]], merge: Merge) -> list[LlvmScalar]:
    """A power of two of slots, folded in halves."""
    while len(slots) > 1:
        half = len(slots) // 2
        slots = [merge(left, right) for left, right in zip(slots[:half], slots[half:], strict=True)]
    return list(slots[0])
