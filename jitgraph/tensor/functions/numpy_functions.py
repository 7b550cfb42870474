"""NumPy's functions and ufuncs of tensors, by NumPy's own parameters: ``np.concatenate``, ``np.sin``,
``np.add.reduce``.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.runtime import imports, stubs
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import where as choose
from jitgraph.tensor.functions.method import axis_of
from jitgraph.tensor.scalars import items
from jitgraph.tensor.tensor import Tensor, tensor_of, wrap

# ----------------------------------------------------------------------
# NumPy's ufuncs of tensors: ``np.sin(x)``, ``np.add(x, y, out=z)``, ``np.maximum.reduce(x)`` and their like.

_NAMES: Final = {
    "absolute": "abs",
    "fabs": "abs",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "power": "pow",
    "rint": "round",
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
}
_REDUCTIONS: Final = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
    "logaddexp": "logsumexp",
}
_RUNNING: Final = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
_DEFAULTS: Final = {"casting": "same_kind", "order": "K", "subok": True}


def function_named(name: str) -> Callable[..., Any]:
    """The array function of ``jg`` of this name."""
    function: Callable[..., Any] = getattr(imports.module("jitgraph.tensor.functions"), name)
    return function


def call(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a method of a ufunc gives; JitgraphError where no function of ``jg`` does the same."""
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    into, mask, dtype = (options.get(key) for key in ("out", "where", "dtype"))
    rest = {k: v for k, v in options.items() if k not in ("out", "where", "dtype") and _DEFAULTS.get(k, call) != v}
    target = None if dtype is None else dtypes.canonical(dtype)
    compute = _computation(ufunc.__name__, method)
    if compute is None or rest.pop("initial", None) is not None:
        hint = "x[i] = v, or jg.index_add" if method == "at" else f"{name}(np.asarray(x)) for an array"
        raise JitgraphError(f"{name} of a Tensor\n  hint: {hint}")
    if method != "__call__" and mask is not None and mask is not True:
        raise JitgraphError(f"{name} of a Tensor with where=\n  hint: jg.where(mask, x, neutral) first")
    return written_to(name, compute(inputs, target, rest), into, True if mask is None else mask)


def _computation(name: str, method: str) -> Callable[..., Any] | None:
    """The function of operands, dtype and further options that a method of the ufunc of this name is."""
    ours = _NAMES.get(name, name)
    function = function_named(ours) if ours in stubs.of("jitgraph.tensor.functions").homes else None
    if method == "__call__" and function is not None:
        return lambda xs, dtype, rest: function(*_in_dtype(xs, dtype), **rest)
    if method == "outer" and function is not None:
        return lambda xs, dtype, rest: _outer(function, *_in_dtype(xs, dtype), **rest)
    if method == "reduce" and name in _REDUCTIONS:
        return lambda xs, dtype, rest: _reduced(_REDUCTIONS[name], dtype, *xs, **rest)
    if method == "accumulate" and name in _RUNNING:
        return lambda xs, dtype, rest: _accumulated(_RUNNING[name], *_in_dtype(xs[:1], dtype), *xs[1:], **rest)
    return None


def _in_dtype(xs: Sequence[Any], dtype: dtypes.DType | None) -> list[Any]:
    """Operands in a dtype; as they are where none is asked for."""
    return [x if dtype is None else wrap(lifting.cast(lifting.value_of(x, dtype), dtype)) for x in xs]


def written_to(name: str, result: Any, into: Any, mask: Any = True) -> Any:
    """A result, written to the tensors given as ``out`` where there are any, in places where ``mask`` holds.

    JitgraphError for arrays as ``out``, for a mask without ``out``; DTypeError where numbers of that kind do not fit.
    """
    if isinstance(into, tuple):
        targets = into
    else:
        targets = (into,) if into is not None else ()
    if not any(target is not None for target in targets):
        if mask is not True:
            raise JitgraphError(f"{name} with where= and no out=\n  hint: jg.where(mask, f(x), y)")
        return result
    results = result if isinstance(result, tuple) else (result,)
    for target, value in zip(targets, results, strict=True):
        if target is None:
            continue
        if not isinstance(target, Tensor):
            raise JitgraphError(f"{name} of a Tensor into an array\n  hint: np.asarray(x) is an array, without a copy")
        if dtypes.kind_rank(value.dtype) > dtypes.kind_rank(target.dtype):
            raise DTypeError(f"{name}: {value.dtype.name} does not fit out= of {target.dtype.name}", hint="f(x).astype")
        if tuple(value.shape) != tuple(target.shape):
            value = function_named("broadcast_to")(value, target.shape)
        target[...] = value if mask is True else choose(mask, value, target)
    return into[0] if isinstance(into, tuple) and len(into) == 1 else into


def _outer(function: Callable[..., Any], x: Any, y: Any, **options: Any) -> Any:
    """The function of each element of x with each of y."""
    left, right = (wrap(lifting.value_of(operand)) for operand in (x, y))
    return function(left[(..., *[None] * right.ndim)], right, **options)


def _reduced(name: str, dtype: dtypes.DType | None, x: Any, axis: Any = 0, **options: Any) -> Any:
    if dtype is not None and name in ("sum", "prod"):
        return function_named(name)(x, axis, dtype=dtype, **options)
    (x,) = _in_dtype([x], dtype)
    return function_named(name)(x, axis, **options)


def _accumulated(name: str, x: Any, axis: int = 0) -> Any:
    value = wrap(lifting.value_of(x))
    result = function_named(name)(value, axis_of(axis, value.ndim, name))
    return result[0] if isinstance(result, tuple) else result


# ----------------------------------------------------------------------
# NumPy's functions of tensors, by NumPy's own parameters: ``np.concatenate``, ``np.mean``, ``np.split`` and so on.
#
# What such a function gives is a tensor, eagerly and in a trace, with the dtypes of ``jg``. A parameter that has no
# counterpart raises an error that names it.

_INSTEAD: Final = {
    "where": "jg.where(mask, x, neutral) first",
    "initial": "the initial value joined to x, or combined with the result",
    "order": "nothing; the memory layout of a tensor cannot be observed",
    "mode": "jg.clip of the indices first, or jg.remainder",
    "subok": "nothing",
    "like": "nothing",
}


def _plain(name: str, kwargs: dict[str, Any], ignored: Sequence[str] = ()) -> dict[str, Any]:
    """The parameters that were given; JitgraphError for one that no function of ``jg`` takes."""
    options = {}
    for key, value in kwargs.items():
        if value is np._NoValue or (value is None and key not in ("axis", "dtype")) or key in ignored:
            continue
        if key in _INSTEAD:
            raise JitgraphError(f"np.{name} of a Tensor takes no {key}=\n  hint: {_INSTEAD[key]}")
        options[key] = value
    return options


def _reduction(name: str, *, typed: bool = False) -> Callable[..., Any]:
    """A reduction; where ``typed``, the third parameter is the dtype, else that is ``out``."""

    def call(a: Any, axis: Any = None, *more: Any, **kwargs: Any) -> Any:
        order = ("dtype", "out", "keepdims") if typed else ("out", "keepdims")
        kwargs.update(zip(order, more, strict=False))
        into = kwargs.pop("out", None)
        options = _plain(name, kwargs)
        if options.get("dtype", 0) is None or name in ("all", "any", "max", "min"):
            options.pop("dtype", None)
        if name not in ("sum", "prod") and "dtype" in options:
            a = tensor_of(a).astype(options.pop("dtype"))
        if "ddof" in options:
            options["correction"] = options.pop("ddof")
        return written_to(f"np.{name}", function_named(name)(a, axis, **options), into)

    return call


def _searched(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = None, out: Any = None, **kwargs: Any) -> Any:
        return written_to(f"np.{name}", function_named(name)(a, axis, **_plain(name, kwargs)), out)

    return call


def _running(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        x = tensor_of(a)
        if axis is None:
            x, axis = x.reshape(-1), 0
        return written_to(f"np.{name}", function_named(name)(x, axis, dtype=dtype), out)

    return call


def _sorting(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        _plain(name, {"order": order})
        x = tensor_of(a)
        return function_named(name)(x.reshape(-1) if axis is None else x, -1 if axis is None else axis)

    return call


def _with_out(name: str, count: int) -> Callable[..., Any]:
    """A function of ``count`` positional arguments with the same meaning here, and ``out``."""

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        ordered, options = args[:count], _plain(name, kwargs, ("order", "subok", "copy"))
        return written_to(
            f"np.{name}", function_named(name)(*ordered, **options), out if len(args) == count else args[count]
        )

    return call


def _same(name: str) -> Callable[..., Any]:
    """A function that takes this package's parameters."""
    return lambda *args, **given: function_named(name)(*args, **_plain(name, given, ("subok",)))


def _like(name: str) -> Callable[..., Any]:
    """``zeros_like`` and its like: the dtype after the value, and perhaps another shape."""

    def call(a: Any, *more: Any, shape: Any = None, **kwargs: Any) -> Any:
        filler = more[:1] if name == "full_like" else ()
        rest = more[len(filler) :]
        if name == "full_like" and "fill_value" in kwargs:
            filler, rest = (kwargs.pop("fill_value"),), more
        kwargs.update(zip(("dtype", "order", "subok", "shape"), rest, strict=False))
        shape = kwargs.pop("shape", shape)
        options = _plain(name, kwargs, ("order", "subok"))
        if shape is None:
            return function_named(name)(a, *filler, **options)
        options.setdefault("dtype", tensor_of(a).dtype)
        return function_named(name.removesuffix("_like"))(shape, *filler, **options)

    return call


def _joined(arrays: Any, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Any:
    joined = function_named("concat")(list(arrays), axis)
    return written_to("np.concatenate", joined if dtype is None else joined.astype(dtype), out)


def _stacked(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Any:
    stacked = function_named("stack")(list(arrays), axis)
    return written_to("np.stack", stacked if dtype is None else stacked.astype(dtype), out)


def _beside(axis: int) -> Callable[..., Any]:
    """``vstack`` (axis 0), of which vectors are rows, and ``hstack`` (axis 1), which joins vectors."""

    def call(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
        xs = [x.reshape(1) if not x.ndim else x for x in map(tensor_of, tup)]
        if axis == 0:
            xs = [x[None, :] if x.ndim == 1 else x for x in xs]
        return _joined(xs, 0 if xs and xs[0].ndim == 1 else axis, dtype=dtype)

    return call


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Equal parts, so many, or parts between the listed places: NumPy's meaning."""
    x = tensor_of(ary)
    number = axis_of(axis, x.ndim, "split")
    if items(indices_or_sections) is None:
        count, size = operator.index(indices_or_sections), x.shape[number]
        if isinstance(size, int) and (count < 1 or size % count):
            raise ShapeError(f"np.split: {size} slices do not divide into {count} equal parts", hint="np.array_split")
    return _parts(x, indices_or_sections, number)


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x = tensor_of(ary)
    return _parts(x, indices_or_sections, axis_of(axis, x.ndim, "array_split"))


def _parts(x: Tensor, sections: Any, axis: int) -> list[Tensor]:
    size = x.shape[axis]
    cuts: list[int | None]
    if (indices := items(sections)) is not None:
        cuts = [None, *map(int, indices), None]
    elif not isinstance(size, int):
        chunks: list[Tensor] = function_named("chunk")(x, operator.index(sections), axis)
        return chunks
    else:
        count = operator.index(sections)
        if count < 1:
            raise ShapeError(f"np.split in {count} parts")
        each, longer = divmod(size, count)
        cuts = [i * each + min(i, longer) for i in range(count + 1)]
    lead = (slice(None),) * axis
    return [x[(*lead, slice(start, stop))].clone() for start, stop in itertools.pairwise(cuts)]


def _reshaped(a: Any, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    if order != "C":
        raise JitgraphError(f"np.reshape of a Tensor in order={order!r}\n  hint: x.mT before, row-major order after")
    return function_named("reshape")(a, shape if shape is not None else newshape)


def _transposed(a: Any, axes: Any = None) -> Any:
    x = tensor_of(a)
    return function_named("permute_dims")(x, axes if axes is not None else tuple(reversed(range(x.ndim))))


def _raveled(a: Any, order: str = "C") -> Any:
    return _reshaped(a, (-1,), order)


def _expanded(a: Any, axis: Any) -> Any:
    return function_named("expand_dims")(tensor_of(a), axis)


def _chosen(condition: Any, *branches: Any) -> Any:
    return function_named("where")(condition, *branches) if branches else function_named("nonzero")(condition)


def _clipped(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    low, high = kwargs.pop("min", a_min), kwargs.pop("max", a_max)
    _plain("clip", kwargs)
    bounds = [None if bound is np._NoValue else bound for bound in (low, high)]
    return written_to("np.clip", function_named("clip")(a, *bounds), out)


def _rounded(a: Any, decimals: int = 0, out: Any = None) -> Any:
    rounded = function_named("round")(tensor_of(a), decimals)
    return written_to("np.round", rounded, out)


def _taken(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    if mode != "raise":
        _plain("take", {"mode": mode})
    x = tensor_of(a)
    taken = function_named("take")(x.reshape(-1) if axis is None else x, indices, 0 if axis is None else axis)
    return written_to("np.take", taken, out)


def _dotted(a: Any, b: Any, out: Any = None) -> Any:
    x, y = tensor_of(a), tensor_of(b)
    if not x.ndim or not y.ndim:
        product: Any = x * y
    elif x.ndim <= 2 and y.ndim <= 2:
        product = x @ y
    else:
        product = function_named("tensordot")(x, y, ((-1,), (-2 if y.ndim > 1 else -1,)))
    return written_to("np.dot", product, out)


def _padded(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    x = tensor_of(array)
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if mode != "constant":
        raise JitgraphError(f"np.pad of a Tensor with mode={mode!r}\n  hint: np.pad(np.asarray(x), ...) for an array")
    filler = kwargs.pop("constant_values", 0)
    return function_named("pad")(x, tuple(map(tuple, widths)), filler, **_plain("pad", kwargs))


def _differences(a: Any, n: int = 1, axis: int = -1, **kwargs: Any) -> Any:
    return function_named("diff")(a, axis, n, **_plain("diff", kwargs))


def _copied(a: Any, order: str = "K", subok: bool = False) -> Any:
    return function_named("clone")(a)


def _flat_positions(a: Any) -> Any:
    return function_named("nonzero")(tensor_of(a).reshape(-1))[0]


def _found(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    return function_named("searchsorted")(a, v, side=side, sorter=sorter)


def _triangle(name: str) -> Callable[..., Any]:
    return lambda m, k=0: function_named(name)(m, k)


_SAME: Final = (
    *("broadcast_arrays", "flip", "isin", "matrix_transpose", "meshgrid", "moveaxis", "permute_dims", "roll"),
    *("squeeze", "swapaxes", "take_along_axis", "tensordot", "tile", "unique_all", "unique_counts"),
    *("unique_inverse", "unique_values", "unstack", "astype", "count_nonzero", "nonzero", "repeat"),
    *("atleast_1d", "atleast_2d", "atleast_3d", "column_stack", "convolve", "dsplit", "dstack", "fliplr", "flipud"),
    *("gradient", "hsplit", "interp", "isclose", "rollaxis", "rot90", "trapezoid", "vsplit"),
    *(
        "append",
        "apply_over_axes",
        "argpartition",
        "delete",
        "digitize",
        "insert",
        "intersect1d",
        "iscomplex",
        "isreal",
    ),
    *("ix_", "lexsort", "packbits", "partition", "piecewise", "ravel_multi_index", "resize", "select", "setdiff1d"),
    *("setxor1d", "union1d", "unpackbits", "unravel_index", "unwrap"),
)

_TYPED: Final = ("sum", "prod", "mean", "std", "var", "nansum", "nanmean", "nanstd", "nanvar")

_BY_NAME: Final[dict[str, Callable[..., Any]]] = {
    **{name: _same(name) for name in _SAME},
    **{name: _reduction(name, typed=True) for name in _TYPED},
    **{name: _reduction(name.removeprefix("a")) for name in ("amax", "amin", "max", "min")},
    **{name: _reduction(name) for name in ("all", "any", "nanmax", "nanmin", "ptp")},
    **{name: _searched(name) for name in ("argmax", "argmin")},
    **{name: _running(name) for name in ("cumsum", "cumprod")},
    **{name: _sorting(name) for name in ("sort", "argsort")},
    **{name: _like(name) for name in ("zeros_like", "ones_like", "empty_like", "full_like")},
    **{name: _triangle(name) for name in ("tril", "triu")},
    **dict.fromkeys(("concatenate", "concat"), _joined),
    **dict.fromkeys(("round", "around"), _rounded),
    "array_split": _array_split,
    "broadcast_to": lambda array, shape, subok=False: function_named("broadcast_to")(array, shape),
    "clip": _clipped,
    "copy": _copied,
    "diff": _differences,
    "dot": _dotted,
    "expand_dims": _expanded,
    "flatnonzero": _flat_positions,
    "hstack": _beside(1),
    "outer": _with_out("outer", 2),
    "pad": _padded,
    "ravel": _raveled,
    "reshape": _reshaped,
    "searchsorted": _found,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "split": _split,
    "stack": _stacked,
    "take": _taken,
    "transpose": _transposed,
    "vstack": _beside(0),
    "where": _chosen,
}

FORMS: Final = {getattr(np, name): form for name, form in _BY_NAME.items() if hasattr(np, name)}
"""By the function of NumPy what it is of tensors."""
