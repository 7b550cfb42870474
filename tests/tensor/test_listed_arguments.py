"""Axes, shapes, shifts and the like mean the same in every kind of sequence; one axis is an int of any kind."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.nn import functional as F

X = jg.asarray(np.random.default_rng(0).standard_normal((2, 3, 4)))
ROWS = jg.asarray(np.random.default_rng(1).standard_normal((3, 4)))
IMAGE = jg.asarray(np.random.default_rng(2).standard_normal((1, 2, 6, 6)))
WEIGHT = jg.asarray(np.random.default_rng(3).standard_normal((2, 2, 2, 2)))
ONES = jg.ones((1, 2, 1, 1, 3))
PICKS = jg.zeros((2, 3, 4), dtype=jg.int64)
PLACE = jg.asarray([0, 1])


class Size(tuple[int, ...]):
    """A tuple with a name of its own, as other libraries have for shapes."""


class Foreign:
    """An array of another library."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.asarray(numbers)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numbers


KINDS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "list": list,
    "Size": Size,
    "array": np.array,
    "int32 array": lambda given: np.array(given, np.int32),
    "list of NumPy ints": lambda given: [np.int32(each) for each in given],
    "tensor": jg.asarray,
    "list of 0-d tensors": lambda given: [jg.asarray(each) for each in given],
    "array of another library": Foreign,
    "range": lambda given: (
        range(given[0], given[-1] + (given[-1] > given[0] or -1), given[1] - given[0])
        if len(given) == 2 and given[0] != given[1]
        else list(given)
    ),
}


def over_axes(function: Callable[..., Any]) -> tuple[Callable[[Any], Any], tuple[int, ...]]:
    return (lambda axis: function(X, axis=axis)), (0, 2)


REDUCTIONS = [
    "all",
    "aminmax",
    "any",
    "average",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "prod",
    "ptp",
    "std",
    "std_mean",
    "sum",
    "var",
    "var_mean",
]
CREATING = ["empty", "ones", "zeros"]
DRAWING = [
    "cauchy",
    "exponential",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "normal",
    "rayleigh",
    "truncated_normal",
    "uniform",
    "rand",
    "randn",
]
TRANSFORMS = [
    "fft2",
    "fftn",
    "ifft2",
    "ifftn",
    "irfft2",
    "irfftn",
    "rfft2",
    "rfftn",
    "hfft2",
    "hfftn",
    "ihfft2",
    "ihfftn",
]

MANY: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    **{name: over_axes(getattr(jg, name)) for name in REDUCTIONS},
    **{f"{name} ": (lambda shape, name=name: getattr(jg, name)(shape), (2, 3)) for name in CREATING},
    **{f"random.{name}": (lambda shape, name=name: drawn(getattr(jg.random, name), shape), (2, 3)) for name in DRAWING},
    **{f"fft.{name}": (lambda axes, name=name: getattr(jg.fft, name)(X, axes=axes), (0, 1)) for name in TRANSFORMS},
    **{f"fft.{name} s": (lambda s, name=name: getattr(jg.fft, name)(X, s=s), (4, 6)) for name in TRANSFORMS},
    "fft.fftshift": (lambda axes: jg.fft.fftshift(X, axes), (0, 2)),
    "fft.ifftshift": (lambda axes: jg.fft.ifftshift(X, axes), (0, 2)),
    "linalg.vector_norm": (lambda axis: jg.linalg.vector_norm(X, axis=axis), (0, 2)),
    "linalg.norm": (lambda axis: jg.linalg.norm(X, 1, axis), (2, 0)),
    "apply_over_axes": (lambda axes: jg.apply_over_axes(jg.sum, X, axes), (0, 2)),
    "argpartition": (lambda kth: jg.argpartition(ROWS, kth), (1, 2)),
    "partition": (lambda kth: jg.partition(ROWS, kth), (1, 2)),
    "broadcast_to": (lambda shape: jg.broadcast_to(ROWS, shape), (2, 3, 4)),
    "dynamic_slice": (lambda starts: jg.dynamic_slice(ROWS, starts, (2, 2)), (1, 2)),
    "dynamic_slice sizes": (lambda sizes: jg.dynamic_slice(ROWS, (0, 0), sizes), (2, 1)),
    "dynamic_update_slice": (lambda starts: jg.dynamic_update_slice(ROWS, jg.zeros((1, 1)), starts), (1, 2)),
    "expand_dims": (lambda axis: jg.expand_dims(X, axis), (1, 2)),
    "flip": (lambda axis: jg.flip(X, axis), (0, 2)),
    "full": (lambda shape: jg.full(shape, 2.0), (2, 3)),
    "gradient": (lambda axis: jg.gradient(X, axis=axis), (0, 1)),
    "moveaxis": (lambda source: jg.moveaxis(X, source, (2, 0)), (0, 1)),
    "moveaxis to": (lambda destination: jg.moveaxis(X, (0, 1), destination), (2, 0)),
    "movedim": (lambda source: jg.movedim(X, source, (2, 0)), (0, 1)),
    "pad": (lambda widths: jg.pad(X, widths), (1, 2)),
    "pad each": (lambda widths: jg.pad(ROWS, [widths, widths]), (1, 2)),
    "permute_dims": (lambda axes: jg.permute_dims(X, axes), (2, 0, 1)),
    "ravel_multi_index": (lambda dims: jg.ravel_multi_index((PLACE, PLACE), dims), (2, 3)),
    "repeat": (lambda repeats: jg.repeat(X, repeats, 0), (1, 2)),
    "reshape": (lambda shape: jg.reshape(X, shape), (4, 6)),
    "resize": (lambda shape: jg.resize(X, shape), (2, 2)),
    "roll": (lambda shift: jg.roll(X, shift, (0, 1)), (1, 2)),
    "roll axes": (lambda axis: jg.roll(X, (1, 2), axis), (0, 1)),
    "rot90": (lambda axes: jg.rot90(X, 1, axes), (2, 0)),
    "split": (lambda sections: jg.split(X, sections, 2), (1, 3)),
    "squeeze": (lambda axis: jg.squeeze(ONES, axis), (2, 3)),
    "tensor_split": (lambda places: jg.tensor_split(X, places, 2), (1, 3)),
    "hsplit": (lambda places: jg.hsplit(X, places), (1, 2)),
    "vsplit": (lambda places: jg.vsplit(X, places), (0, 1)),
    "dsplit": (lambda places: jg.dsplit(X, places), (1, 3)),
    "tensordot": (lambda axes: jg.tensordot(X, X, (axes, (0, 1))), (0, 1)),
    "tensordot pair": (lambda axes: jg.tensordot(ROWS, ROWS, axes), (1, 1)),
    "tile": (lambda repetitions: jg.tile(X, repetitions), (1, 2)),
    "transpose": (lambda axes: jg.transpose(X, axes), (2, 0, 1)),
    "unflatten": (lambda sizes: jg.unflatten(X, 2, sizes), (2, -1)),
    "unravel_index": (lambda shape: jg.unravel_index(PLACE, shape), (2, 3)),
    "random.randint": (lambda shape: drawn(lambda shape: jg.random.randint(0, 9, shape), shape), (2, 3)),
    "random.bernoulli": (lambda shape: drawn(lambda shape: jg.random.bernoulli(0.5, shape), shape), (2, 3)),
    "nn.layer_norm": (lambda shape: F.layer_norm(X, shape), (3, 4)),
    "nn.rms_norm": (lambda shape: F.rms_norm(X, shape), (3, 4)),
    "nn.LayerNorm": (lambda shape: jg.nn.LayerNorm(shape)(X.astype(jg.float32)), (3, 4)),
    "nn.pad": (lambda pad: F.pad(X, pad), (1, 2)),
    "nn.ZeroPad2d": (lambda pad: jg.nn.ZeroPad2d(pad)(IMAGE), (1, 2, 0, 1)),
    "nn.conv2d": (lambda stride: F.conv2d(IMAGE, WEIGHT, stride=stride), (1, 2)),
    "nn.conv2d padding": (lambda padding: F.conv2d(IMAGE, WEIGHT, padding=padding), (0, 1)),
    "nn.conv2d dilation": (lambda dilation: F.conv2d(IMAGE, WEIGHT, dilation=dilation), (1, 2)),
    "nn.conv_transpose2d": (lambda stride: F.conv_transpose2d(IMAGE, WEIGHT, stride=stride), (1, 2)),
    "nn.max_pool2d": (lambda kernel: F.max_pool2d(IMAGE, kernel), (2, 3)),
    "nn.max_pool2d dilation": (lambda dilation: F.max_pool2d(IMAGE, 2, dilation=dilation), (1, 2)),
    "nn.avg_pool2d": (lambda kernel: F.avg_pool2d(IMAGE, kernel), (2, 3)),
    "nn.lp_pool2d": (lambda kernel: F.lp_pool2d(IMAGE, 2, kernel), (2, 3)),
    "nn.adaptive_avg_pool2d": (lambda size: F.adaptive_avg_pool2d(IMAGE, size), (2, 3)),
    "nn.adaptive_max_pool2d": (lambda size: F.adaptive_max_pool2d(IMAGE, size), (2, 3)),
    "nn.unfold": (lambda kernel: F.unfold(IMAGE, kernel), (2, 3)),
    "nn.interpolate": (lambda size: F.interpolate(IMAGE, size), (3, 4)),
    "nn.affine_grid": (lambda size: F.affine_grid(jg.ones((1, 2, 3)), size), (1, 2, 3, 4)),
}


def drawn(function: Callable[..., Any], shape: Any) -> Any:
    jg.random.seed(0)
    return function(shape)


def arrays_of(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [array for each in result for array in arrays_of(each)]
    return [result.detach().numpy()]


def same(left: Any, right: Any) -> bool:
    pairs = zip(arrays_of(left), arrays_of(right), strict=True)
    return all(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


@pytest.mark.parametrize("name", MANY)
def test_every_kind_of_sequence_means_what_a_tuple_does(name: str) -> None:
    function, inputs = MANY[name]
    if name.startswith("empty"):
        inputs = (0, 3)
    expected = function(inputs)
    for kind, make in KINDS.items():
        assert same(expected, function(make(inputs))), kind


@pytest.mark.parametrize(
    "name",
    ["reshape", "transpose", "permute_dims", "flip", "roll", "expand_dims", "squeeze", "sum", "moveaxis", "tile"],
)
def test_methods_and_traces_take_the_same_sequences(name: str) -> None:
    inputs, more = {
        "reshape": ((4, 6), ()),
        "transpose": ((2, 0, 1), ()),
        "permute_dims": ((2, 0, 1), ()),
        "flip": ((0, 2), ()),
        "roll": ((1, 2), ((0, 1),)),
        "expand_dims": ((0, 2), ()),
        "squeeze": ((0, 2), ()),
        "sum": ((0, 2), ()),
        "moveaxis": ((0, 1), ((2, 0),)),
        "tile": ((1, 2), ()),
    }[name]
    x = ONES if name == "squeeze" else X
    expected = getattr(x, name)(inputs, *more)
    for kind, make in KINDS.items():
        assert same(expected, getattr(x, name)(make(inputs), *more)), kind
        traced = jg.trace(lambda x, make=make: getattr(x, name)(make(inputs), *more))  # type: ignore[misc]
        if "tensor" not in kind:
            assert same(expected, traced(x)), kind
            continue
        with pytest.raises(jg.TraceError):  # what a traced tensor holds is known at the call alone
            traced(x)


ONE: dict[str, Callable[[Any], Any]] = {
    **{
        name: (lambda axis, name=name: getattr(jg, name)(X, axis=axis))  # type: ignore[misc]
        for name in [
            "argmax",
            "argmin",
            "argsort",
            "cummax",
            "cummin",
            "cumprod",
            "cumsum",
            "cumulative_prod",
            "cumulative_sum",
            "cumulative_trapezoid",
            "diff",
            "log_softmax",
            "logcumsumexp",
            "median",
            "mode",
            "nanargmax",
            "nanargmin",
            "nancumprod",
            "nancumsum",
            "nanmedian",
            "softmax",
            "sort",
            "trapezoid",
            "unstack",
            "unwrap",
        ]
    },
    **{
        f"fft.{name}": (lambda axis, name=name: getattr(jg.fft, name)(X, axis=axis))  # type: ignore[misc]
        for name in ["fft", "ifft", "irfft", "rfft", "hfft", "ihfft"]
    },
    "append": lambda axis: jg.append(X, X, axis=axis),
    "apply_along_axis": lambda axis: jg.apply_along_axis(jg.sum, axis, X),
    "chunk": lambda axis: jg.chunk(X, 3, axis),
    "concat": lambda axis: jg.concat([X, X], axis),
    "stack": lambda axis: jg.stack([X, X], axis),
    "delete": lambda axis: jg.delete(X, 0, axis),
    "insert": lambda axis: jg.insert(X, 0, 1.0, axis),
    "diagonal": lambda axis: jg.diagonal(X, 0, axis, 2),
    "diag_embed": lambda axis: jg.diag_embed(X, 0, axis, 3),
    "diagonal_scatter": lambda axis: jg.diagonal_scatter(X, jg.zeros((2, 3), dtype=jg.float64), 0, axis, 2),
    "flatten": lambda axis: jg.flatten(X, axis),
    "gather": lambda axis: jg.gather(X, axis, PICKS),
    "index_add": lambda axis: jg.index_add(X, axis, PLACE, X[:, :2]),
    "index_copy": lambda axis: jg.index_copy(X, axis, PLACE, X[:, :2]),
    "index_fill": lambda axis: jg.index_fill(X, axis, PLACE, 1.0),
    "index_reduce": lambda axis: jg.index_reduce(X, axis, PLACE, X[:, :2], "prod"),
    "index_select": lambda axis: jg.index_select(X, axis, PLACE),
    "kthvalue": lambda axis: jg.kthvalue(X, 1, axis),
    "lexsort": lambda axis: jg.lexsort([X, X], axis),
    "narrow": lambda axis: jg.narrow(X, axis, 0, 2),
    "packbits": lambda axis: jg.packbits(X > 0, axis),
    "unpackbits": lambda axis: jg.unpackbits((X > 0).astype(jg.uint8), axis),
    "percentile": lambda axis: jg.percentile(X, 30.0, axis),
    "quantile": lambda axis: jg.quantile(X, 0.3, axis),
    "nanpercentile": lambda axis: jg.nanpercentile(X, 30.0, axis),
    "nanquantile": lambda axis: jg.nanquantile(X, 0.3, axis),
    "put_along_axis": lambda axis: jg.put_along_axis(X, PICKS, X, axis),
    "take_along_axis": lambda axis: jg.take_along_axis(X, PICKS, axis),
    "take": lambda axis: jg.take(X, PLACE, axis),
    "renorm": lambda axis: jg.renorm(X, 2.0, axis, 1.0),
    "repeat one": lambda axis: jg.repeat(X, 2, axis),
    "rollaxis": lambda axis: jg.rollaxis(X, axis),
    "scatter": lambda axis: jg.scatter(X, axis, PICKS, X),
    "scatter_add": lambda axis: jg.scatter_add(X, axis, PICKS, X),
    "scatter_reduce": lambda axis: jg.scatter_reduce(X, axis, PICKS, X, "sum"),
    "segment_reduce": lambda axis: jg.segment_reduce(X, "sum", lengths=jg.asarray([1, 2]), axis=axis),
    "select_scatter": lambda axis: jg.select_scatter(X, X[:, 0], axis, 0),
    "slice_scatter": lambda axis: jg.slice_scatter(X, X[:, :1], axis, 0, 1),
    "split one": lambda axis: jg.split(X, 2, axis),
    "tensor_split one": lambda axis: jg.tensor_split(X, 2, axis),
    "swapaxes": lambda axis: jg.swapaxes(X, axis, 2),
    "swapdims": lambda axis: jg.swapdims(X, axis, 2),
    "topk": lambda axis: jg.topk(X, 1, axis),
    "unfold": lambda axis: jg.unfold(X, axis, 2, 1),
    "unflatten one": lambda axis: jg.unflatten(X, axis, (3, 1)),
    "unique": lambda axis: jg.unique(X, axis=axis),
    "unique_consecutive": lambda axis: jg.unique_consecutive(X, axis=axis),
    "unsqueeze": lambda axis: jg.unsqueeze(X, axis),
    "vecdot": lambda axis: jg.vecdot(X, X, axis=axis),
    "linalg.vecdot": lambda axis: jg.linalg.vecdot(X, X, axis=axis),
    "linalg.cross": lambda axis: jg.linalg.cross(X, X, axis=axis),
    "random.categorical": lambda axis: drawn(lambda axis: jg.random.categorical(X, axis), axis),
    "random.choice": lambda axis: drawn(lambda axis: jg.random.choice(X, 2, axis=axis), axis),
    "nn.cosine_similarity": lambda dim: F.cosine_similarity(X, X, dim),
    "nn.glu": lambda dim: F.glu(X[:, :2], dim),
    "nn.gumbel_softmax": lambda dim: drawn(lambda dim: F.gumbel_softmax(X, dim=dim), dim),
    "nn.normalize": lambda dim: F.normalize(X, dim=dim),
    "nn.softmax": lambda dim: F.softmax(X, dim),
    "nn.softmin": lambda dim: F.softmin(X, dim),
    "nn.log_softmax": lambda dim: F.log_softmax(X, dim),
    "special.softmax": lambda axis: jg.special.softmax(X, axis),
    "special.log_softmax": lambda axis: jg.special.log_softmax(X, axis),
}
LISTS_TOO = {"nn.cosine_similarity", "nn.normalize", "unsqueeze"}  # where a tuple has a meaning, too


@pytest.mark.parametrize("name", ONE)
def test_one_axis_is_an_int_of_any_kind_and_no_sequence(name: str) -> None:
    function = ONE[name]
    expected = function(1)
    for axis in (np.int64(1), np.int32(1), np.uint8(1), np.array(1), jg.asarray(1)):
        if isinstance(axis, jg.Tensor) and name in ("append", "concat", "stack"):  # it would be a tensor to join
            continue
        assert same(expected, function(axis)), type(axis)
    if name in LISTS_TOO:
        assert same(function((0, 1)), function([0, 1]))
        return
    for listed in ([1, 0], np.array([1, 0]), (1,), range(1, 2)):
        with pytest.raises(jg.JitgraphError, match=r"axis|axes"):
            function(listed)
    with pytest.raises(jg.JitgraphError, match="an axis is an int"):
        function(1.0)


NAMED = {"axis", "axes", "dim", "dims", "axis1", "shape", "sizes", "shift", "kth", "normalized_shape"}


def listing() -> Iterator[tuple[str, str]]:
    """The public functions that take axes, shapes and the like, by namespace and name."""
    spaces = {"": jg, "linalg.": jg.linalg, "fft.": jg.fft, "special.": jg.special, "nn.": F}
    for prefix, space in spaces.items():
        for name in space.__all__ if hasattr(space, "__all__") else dir(space):
            function = getattr(space, name)
            if name.startswith("_") or isinstance(function, type | types.ModuleType) or not callable(function):
                continue
            try:
                parameters = inspect.signature(function).parameters
            except ValueError:
                continue
            if NAMED & set(parameters):
                yield prefix, name


def test_no_function_with_axes_is_left_out() -> None:
    tested = {key.split(" ")[0].split(".")[-1] for key in (*MANY, *ONE)}
    missing = {prefix + name for prefix, name in listing() if name not in tested}
    assert missing <= {"concatenate", "poisson", "binomial"}, missing  # another name; a shape beside parameters


COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "a bound": lambda x, n: x[:n],
    "a bound at the end": lambda x, n: x[n:],
    "a step": lambda x, n: x[::n],
    "roll": jg.roll,
    "roll along an axis": lambda x, n: jg.roll(x, n, 0),
    "roll along two": lambda x, n: jg.roll(x[:, None], (1, n), (0, 1)),
    "kthvalue": lambda x, n: jg.kthvalue(x, n)[0],
    "fft": lambda x, n: jg.real(jg.fft.fft(x, n)),
    "rfft": lambda x, n: jg.real(jg.fft.rfft(x, n=n)),
    "pad": jg.pad,
    "chunk": lambda x, n: jg.chunk(x, n)[0],
    "repeat": jg.repeat,
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_an_integer(name: str) -> None:
    function, x = COUNTS[name], jg.arange(8) * 1.0
    match = "must be an integer, not float|an integer is needed, not float|cannot be interpreted as an integer"
    for n in (2.5, 2.0):
        for called in (function, jg.trace(lambda x, n: function(x, n))):
            with pytest.raises((jg.JitgraphError, TypeError), match=match):
                called(x, n)
        named = jg.trace(lambda x, n: function(x, n), dynamic_shapes={"x": {0: "m"}})
        with pytest.raises((jg.JitgraphError, TypeError), match=f"{match}|whose size m is a name|named size m"):
            named(x, n)
