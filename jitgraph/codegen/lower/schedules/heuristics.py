"""The heuristics of a target, as plain data: what its kernels store, split, tile and vectorise, and the sizes.

No bit of a result depends on any of it: where an order is part of a reduction's meaning, lowering keeps to it whatever
the heuristics say. ``schedules/cpu.py`` has the processor's answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from jitgraph.codegen.kernels.kernel import LoopKind
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.codegen.kernels.library_sizes import LibraryProducts

Independent: TypeAlias = Callable[[Sequence[DimLike]], list[LoopKind]]
"""The kinds of a nest of independent iterations over axes of these extents, outermost first; at most one is a vector,
and no parallel loop stands inside of it."""


@dataclass(frozen=True)
class RowMaterialisation:
    """Which values of a row a kernel keeps for its later loops instead of computing them again:
    ``lower/values.py``.

    Rows take at most ``most_bytes`` together; an element counts as ``lane_bytes`` where neighbouring rows are lanes. A
    value is kept from ``least_work`` on, in scalar ops: each is 1, or what ``work`` says.
    """

    most_bytes: int
    lane_bytes: int
    least_work: float
    work: Mapping[str, float]


@dataclass(frozen=True)
class SplitReductionSizes:
    """When few rows of many elements are cut into parts that are reduced in parallel (``lower/rows.py``).

    At most ``few_rows`` rows are few. Where a kept axis stands between reduced ones, a part is a whole run behind it,
    of ``least_run`` elements or more, if rows are not few or runs are at least ``many_runs``. Any other part has
    ``least_elements`` or more, of which columns of unknown number count as ``named_columns``, and an axis of known
    extent about ``max_splits`` parts. Where ``column_threads`` is given, a part of columns of known extent is as short
    as it may be for so many threads, each of which has a column of a part. Where sums go in any order parts may be
    ``folded``: each stores one value, not one for each slot. With ``one_pass`` the reductions of a group that have one
    order read what they share once. Neighbouring columns are merged ``tile`` at a time, as slots of one loop.
    """

    few_rows: int
    least_run: int
    many_runs: int
    least_elements: int
    max_splits: int
    named_columns: int
    column_threads: int | None
    folded: bool
    one_pass: bool
    tile: int | None


@dataclass(frozen=True)
class ColumnBlocks:
    """Parts of sums down columns that are read in the order of memory (``lower/rows.py``).

    They are for ``least_columns`` columns or more. An accumulator is loaded and stored once for ``rows_together`` rows.
    A part has ``chunks`` chunks of rows, a power of two: more, until it has ``least_elements``; fewer, where its
    accumulators would take more than ``most_bytes``, or where an axis that is long enough for ``min_splits`` parts
    would have fewer. An axis of known extent is cut into at most ``max_splits``.
    """

    least_columns: int
    rows_together: Literal[1, 2, 4, 8, 16]
    chunks: Literal[1, 2, 4, 8, 16, 32]
    least_elements: int
    most_bytes: int
    min_splits: int
    max_splits: int


@dataclass(frozen=True)
class TransposedSquares:
    """Squares in which buffers are transposed on the way through local ones (``lower/transposition.py``).

    One of ``sides`` is chosen for a nest. A nest has up to ``most`` reads across, and up to ``most_statements``
    statements, which may stand there three times.
    """

    sides: Sequence[int]
    most: int
    most_statements: int


@dataclass(frozen=True)
class SharedTiles:
    """Square tiles of ``side`` x ``side`` for transposed reads, in memory that threads share
    (``lower/loop_transforms.py``).

    A nest has up to ``most`` of them.
    """

    side: int
    most: int


@dataclass(frozen=True)
class SortSizes:
    """Rows of up to ``longest_merged`` elements are sorted by merging, others by digits of ``digit_bits`` bits."""

    longest_merged: int
    digit_bits: Literal[1, 2, 4, 8]


@dataclass(frozen=True)
class SortTiles:
    """Rows are sorted by launches: tiles of ``elements``, a power of four, in memory that threads share, then merges.

    (``lower/sorting.py``.)
    """

    elements: int


@dataclass(frozen=True)
class Scattering:
    """Updates at indices by launches of independent iterations (``lower/scattering.py``).

    Up to ``few`` updates are made one after another. Where sums keep their order, indices are sorted in tiles of
    ``tile``, a power of four; with ``any_order`` sums of floats go in any.
    """

    few: int
    tile: int
    any_order: bool


@dataclass(frozen=True)
class SplitK:
    """When a product of few elements over many steps is cut into parts of its steps (``lower/contraction.py``).

    Elements of a product are few where they make at most half of ``tiles`` tiles of ``side`` x ``side``; steps are many
    from ``least_steps`` on. There are then up to ``tiles`` tiles in all parts together.
    """

    side: int
    tiles: int
    least_steps: int


@dataclass(frozen=True)
class ImagesTogether:
    """When a convolution is one product over all its images, not one for each (``lower/contraction.py``).

    The output has up to ``most_places`` places, and the weight of a group ``least_channels`` channels of output or
    more, each of ``least_steps`` elements or of a number that is not known. An element has ``least_bytes`` or more.
    """

    most_places: int
    least_channels: int
    least_steps: int
    least_bytes: int


@dataclass(frozen=True)
class ConvolutionCopies:
    """When the operands of a convolution are copied into an order in which its contractions read runs of memory
    (``lower/convolution.py``).

    Runs of memory are columns of one contraction where a vector that is packed, of ``least_vector`` to ``vector``
    elements in one run, has ``least_uses`` multiply-adds or more; each of the others has a contraction of its own.
    A kernel that packing reads ``few_uses`` times or fewer, once for ``columns`` columns, is not worth a copy.
    A group has ``least_channels`` channels of output or more. Images are together where there are ``least_images`` or
    more, and fewer than ``least_places`` places along the last axis; others are by themselves where there are at least
    ``few_places``. Sums over large windows, as gradients of weights are, have ``least_steps`` steps or more, and a
    group of them ``least_sums`` sums for each place; they are cut into parts whose factors take ``part_bytes``, unless
    the sums of all parts would take more than ``most_sum_bytes``. Of groups of one channel up to
    ``most_unrolled_steps`` steps are written out.
    """

    vector: int
    least_vector: int
    least_uses: int
    columns: int
    few_uses: int
    least_channels: int
    least_images: int
    least_places: int
    few_places: int
    least_steps: int
    least_sums: int
    part_bytes: int
    most_sum_bytes: int
    most_unrolled_steps: int


@dataclass(frozen=True)
class IndexSetSplitting:
    """When a vector loop is cut where a condition of its lanes changes, or along a division:
    ``lower/loop_transforms.py``.

    A piece, or a run of lanes, has ``least`` iterations or more; all pieces have up to ``most_statements`` before those
    are left out that they need not.
    """

    least: int
    most_statements: int


@dataclass(frozen=True)
class Heuristics:
    """What the lowerings go by. Where one of them is None the target does no such thing.

    ``slot_bytes`` are the accumulators of a reduction whose order is free. Up to ``rows_in_chunks`` rows of a
    cumulative op are worked on in chunks (``lower/cumulative.py``), more of them one in each iteration. ``products``
    are cut by their steps; what becomes of those of a ``library`` is a nest of its own (``lower/contraction.py``). With
    ``random_blocks`` an iteration computes the elements that belong to a block of random words.
    """

    independent: Independent
    slot_bytes: int
    row_materialisation: RowMaterialisation | None
    split_reductions: SplitReductionSizes | None
    columns: ColumnBlocks | None
    squares: TransposedSquares | None
    tiles: SharedTiles | None
    sorting: SortSizes | SortTiles
    scattering: Scattering | None
    rows_in_chunks: int | None
    products: SplitK | None
    library: LibraryProducts | None
    images: ImagesTogether | None
    convolutions: ConvolutionCopies | None
    lane_cuts: IndexSetSplitting | None
    random_blocks: bool
