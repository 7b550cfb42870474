"""Families of array functions that load when one of theirs is first used, as a function of ``jg`` or as a method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jitgraph.runtime import imports
from jitgraph.tensor.tensor import Tensor

METHODS: Final[dict[str, str]] = {  # family -> its functions that are methods of Tensor, too
    "arithmetic": "addcdiv addcmul cbrt deg2rad divmod float_power fmod frac frexp ldexp lerp logaddexp2 modf rad2deg",
    "comparisons": ("allclose array_equal fmax fmin heaviside isclose iscomplex isneginf isposinf isreal nan_to_num"),
    "integers": "bitwise_count gcd lcm packbits unpackbits",
    "arrangement": (
        "diagonal_scatter dsplit fliplr flipud hsplit movedim narrow ravel rollaxis rot90 select_scatter "
        "slice_scatter swapdims tensor_split unflatten unfold vsplit"
    ),
    "cumulative": "cummax cummin cumprod cumsum cumulative_prod cumulative_sum",
    "bit_views": "view",
    "choosing": "append choose delete insert",
    "grid_numbers": "combinations digitize put unravel_index",
    "histograms": "histogramdd",
    "diagonals": "diag diag_embed diagflat diagonal",
    "distances": "cdist dist pdist renorm",
    "nan_aware": (
        "aminmax average nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar "
        "ptp std_mean var_mean"
    ),
    "ordering": (
        "bincount bucketize histc histogram kthvalue median mode msort nanmedian nanpercentile nanquantile "
        "percentile quantile"
    ),
    "sampled": "corrcoef cov interp logcumsumexp unwrap",
    "repeating": "repeat",
    "scattering": (
        "dynamic_slice dynamic_update_slice gather index_copy index_fill index_put index_reduce masked_scatter "
        "masked_select put_along_axis scatter scatter_add scatter_reduce segment_reduce segment_sum"
    ),
    "searching": "count_nonzero diff isin nonzero searchsorted",
    "sorted_orders": "argpartition partition topk",
    "sets": "unique unique_all unique_consecutive unique_counts unique_inverse unique_values",
}
FUNCTIONS: Final[dict[str, str]] = {  # family -> its functions that are no methods
    "arrangement": "atleast_1d atleast_2d atleast_3d column_stack dstack hstack vstack",
    "choosing": "apply_over_axes piecewise resize select",
    "grid_numbers": "cartesian_prod diag_indices indices ix_ ravel_multi_index tri",
    "histograms": "histogram2d",
    "sets": "intersect1d setdiff1d setxor1d union1d",
    "sorted_orders": "lexsort",
    "tapers": ("bartlett_window blackman_window geomspace hamming_window hann_window kaiser_window logspace"),
    "diagonals": "block_diag tril_indices triu_indices",
    "grids": "broadcast_shapes from_dlpack meshgrid",
    "ordering": "histogram_bin_edges",
    "sampled": "convolve correlate cumulative_trapezoid gradient trapezoid",
}
HOMES: Final = {
    name: family for table in (METHODS, FUNCTIONS) for family, names in table.items() for name in names.split()
}


def _load(name: str) -> Any:
    return getattr(imports.module(f"{__package__}.{HOMES[name]}"), name)


class ArrayFunctions(Mapping[str, Any]):
    """The array functions by their names: those that are there, and those that load when they are looked up."""

    def __init__(self, loaded: Mapping[str, Any]) -> None:
        self._loaded = dict(loaded)

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded and name in HOMES:
            self._loaded[name] = _load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._loaded, *HOMES)))

    def __len__(self) -> int:
        return len({*self._loaded, *HOMES})


class _LaterMethod:
    """What stands in Tensor for a method until its family is loaded, which puts the method itself there."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Tensor | None, owner: type[Tensor]) -> Any:
        _load(self.name)
        return getattr(owner if tensor is None else tensor, self.name)


def attach() -> None:
    """Give Tensor the methods of all families."""
    for names in METHODS.values():
        for name in names.split():
            setattr(Tensor, name, _LaterMethod(name))
