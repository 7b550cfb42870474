"""Parts of sums down wide columns, read in the order in which they lie in memory.

Walking down one column after another would jump from row to row. Here a few rows at a time are added, all columns of
them, into the accumulators of their chunk, which stay in the caches; in the end the chunks of a part merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.reduction import combine, combiner, element_at, identity
from jitgraph.codegen.lower.row_group import Rows, store_at
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.heuristics import ColumnBlocks
from jitgraph.codegen.lower.storage import Storage
from jitgraph.codegen.lower.values import Evaluator
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ops.order import CHAIN


def span_of(form: Rows, blocks: ColumnBlocks, axis: int) -> int | None:
    """The rows of a part where ``reduce_splits`` is for a group whose reductions are cut along ``axis``, else None."""
    width = form.domain[-1]
    if not form.by_column or form.axes != (axis,) or not isinstance(width, int) or width < blocks.least_columns:
        return None
    each = sum(var.dtype.itemsize for node in form.reductions for var in identity(KernelRecorder(), node))
    most = blocks.most_bytes // (each * width) * CHAIN
    span = blocks.chunks * CHAIN
    while span * width < blocks.least_elements:
        span *= 2
    while span > max(most, CHAIN):
        span //= 2
    extent = form.domain[axis]
    while isinstance(extent, int) and extent < blocks.min_splits * span and span > CHAIN:
        if span // 2 * width < blocks.least_elements:
            break
        span //= 2
    few = not isinstance(extent, int) or extent // span <= blocks.max_splits  # what has no memory may have any extent
    return span if span <= most and few else None


def reduce_splits(
    form: Rows,
    axis: int,
    span: int,
    together: int,
    parts: DimLike,
    work: Mapping[Node, list[Storage]],
    values: Evaluator,
) -> None:
    """Store what each part of ``span`` rows makes into ``work``: [parts, kept axes, 1] for each accumulator.

    ``together`` rows are added at a time.
    """
    recorder = values.recorder
    *outer, width = (form.domain[dim] for dim in form.kept)
    assert isinstance(width, int)
    chunks = span // CHAIN
    extent = form.domain[axis]
    around: list[LoopKind] = ["parallel"] * (1 + len(outer))
    with recorder.loops(around, [parts, *outer]) as (part, *row):
        accumulators = {
            node: [recorder.local(storage.type.dtype, chunks * width) for storage in storages]
            for node, storages in work.items()
        }

        def add_rows(
            first: DimLike, chunk: DimLike, column: DimLike, *, fresh: bool = False, rest: bool = False
        ) -> None:
            """Add the rows from ``first`` on: all that go together, or the ``rest`` of the operand, which are fewer."""
            start: list[Var] = []
            for node, locals_ in accumulators.items():
                for local, init in zip(locals_, identity(recorder, node), strict=True):
                    start.append(init if fresh else recorder.load_local(local, chunk * width + column))

            def step(position: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                index = {**dict(zip(form.kept, (*row, column), strict=True)), axis: position}
                at = tuple(index[each] for each in range(len(form.domain)))
                following: list[Var] = []
                remaining = list(carried)
                for node, locals_ in accumulators.items():
                    old, remaining = tuple(remaining[: len(locals_)]), remaining[len(locals_) :]
                    following += combine(
                        node, ScalarOps(recorder, old[0].dtype), old, element_at(values, node, at, None)
                    )
                store_at(values, form.full, at)
                return tuple(following)

            if rest:
                ends = list(recorder.serial(extent, tuple(start), step, begin=first, span=together - 1))
            else:
                ends = list(recorder.serial(together, tuple(start), lambda row, carried: step(first + row, carried)))
            for locals_ in accumulators.values():
                for local in locals_:
                    recorder.store_local(local, chunk * width + column, ends.pop(0))

        def last_part() -> AbstractContextManager[DimLike]:
            """Once in the part in which the operand ends before the part does, and in no other."""
            return recorder.loop("serial", part + 1, begin=extent // span)

        full = extent // together  # times that all rows go together
        if extent % span != 0:
            with last_part(), recorder.loop("vector", chunks * width) as element:
                for node, locals_ in accumulators.items():
                    for local, init in zip(locals_, identity(recorder, node), strict=True):
                        recorder.store_local(local, element, init)
        with recorder.loop("serial", chunks) as chunk:
            begin = (part * chunks + chunk) * (CHAIN // together)
            with recorder.loop("serial", full, begin=begin, span=1) as group, recorder.loop("vector", width) as column:
                add_rows(group * together, chunk, column, fresh=True)
            others = recorder.loop("serial", full, begin=begin + 1, span=CHAIN // together - 1)
            with others as group, recorder.loop("vector", width) as column:
                add_rows(group * together, chunk, column)
        if extent % together != 0:
            with last_part(), recorder.loop("vector", width) as column:
                add_rows(full * together, extent % span // CHAIN, column, rest=True)
        with recorder.loop("vector", width) as column:
            for node, locals_ in accumulators.items():
                merged = recorder.reduce(
                    chunks,
                    identity(recorder, node),
                    lambda chunk, locals_=locals_: tuple(  # type: ignore[misc]
                        recorder.load_local(local, chunk * width + column) for local in locals_
                    ),
                    combiner(node),
                    1,
                    1,
                )
                for storage, var in zip(work[node], merged, strict=True):
                    recorder.store(storage, offset((part, *row, column, 0), storage.type.shape), var)
