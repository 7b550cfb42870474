"""Quantised tensors and the operators of ``quantized``: integers with a scale and a zero point, computed in floats.

An integer ``q`` stands for ``(q - zero_point) * scale``. Products are computed on the integers, which float32 has
exactly up to 2**24, then scaled and rounded to the result's integers, as PyTorch's back ends do: half to even, and
saturating. Source: PyTorch's "Quantization" notes, and B. Jacob et al., "Quantization and Training of Neural Networks
for Efficient Integer-Arithmetic-Only Inference", 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import jitgraph as jg
from jitgraph import tree
from jitgraph.nn import functional
from jitgraph.tensor import Tensor

_RANGES: Final = {"qint8": (-128, 127), "quint8": (0, 255), "qint32": (-(1 << 31), (1 << 31) - 1)}
_STORED: Final = {"qint8": jg.int8, "quint8": jg.uint8, "qint32": jg.int32}
_KINDS: Final = {12: "qint8", 13: "quint8", 14: "qint32"}
_SMALLEST_SCALE: Final = 6.1e-5


class QuantisedTensor:
    """Integers of type ``kind`` with ``scale`` and ``zero_point``; along ``axis`` one of each, where it is not None."""

    __slots__ = ("axis", "integers", "kind", "scale", "zero_point")

    def __init__(self, integers: Any, scale: Any, zero_point: Any, kind: str, axis: int | None = None) -> None:
        self.integers = integers
        self.scale = scale
        self.zero_point = zero_point
        self.kind = kind
        self.axis = axis

    @property
    def quantisation(self) -> str:
        """The type of the integers."""
        return self.kind

    @property
    def dtype(self) -> int:
        """PyTorch's number of the type."""
        return next(code for code, kind in _KINDS.items() if kind == self.kind)

    @property
    def shape(self) -> Any:
        """The sizes of the axes."""
        return self.integers.shape

    @property
    def device(self) -> Any:
        """Where the integers lie."""
        return self.integers.device

    def like(self, integers: Any) -> QuantisedTensor:
        """Other integers that stand for numbers as these do."""
        return QuantisedTensor(integers, self.scale, self.zero_point, self.kind, self.axis)

    def along(self, values: Any) -> Any:
        """A value for each channel, or one for all, in a shape that goes with the integers."""
        if self.axis is None:
            return values
        shape = [1] * self.integers.ndim
        shape[self.axis] = -1
        return jg.reshape(values, tuple(shape))

    def centred(self) -> Any:
        """The integers less their zero point, as float32."""
        zero = self.along(self.zero_point)
        return jg.astype(self.integers, jg.float32) - (zero if self.axis is None else jg.astype(zero, jg.float32))


def _taken_apart(q: QuantisedTensor) -> Any:
    if q.axis is None:
        return ("integers",), (q.integers,), (q.kind, None, q.scale, q.zero_point)
    return ("integers", "scale", "zero_point"), (q.integers, q.scale, q.zero_point), (q.kind, q.axis, None, None)


def _put_together(kind: type, steps: Any, children: Any, data: Any) -> QuantisedTensor:
    integers, *rest = children
    scale, zero_point = rest or data[2:]
    return QuantisedTensor(integers, scale, zero_point, data[0], data[1])


tree.register(QuantisedTensor, _taken_apart, _put_together)


class PackedLinear:
    """The weight and bias of a quantised linear layer."""

    def __init__(self, weight: Any, bias: Any) -> None:
        self.weight = weight
        self.bias = bias


class PackedConvolution:
    """The weight and bias of a quantised convolution, and how it goes along its input."""

    def __init__(self, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> None:
        self.weight = weight
        self.bias = bias
        self.options = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
        self.groups = groups


# ----------------------------------------------------------------------
# To integers and back.


def quantize_per_tensor(x: Any, scale: Any, zero_point: Any, dtype: int) -> QuantisedTensor:
    """Integers that stand for the elements of ``x``, half to even."""
    return _rounded(x / scale, zero_point, scale, _KINDS[dtype])


def _rounded(scaled: Any, zero_point: Any, scale: Any, kind: str) -> QuantisedTensor:
    low, high = _RANGES[kind]
    integers = jg.clip(jg.round(scaled) + zero_point, low, high)
    return QuantisedTensor(jg.astype(integers, _STORED[kind]), scale, zero_point, kind)


def quantize_per_channel(x: Any, scales: Any, zero_points: Any, axis: int, dtype: int) -> QuantisedTensor:
    """As ``quantize_per_tensor``, with a scale and a zero point for each position along ``axis``."""
    kind = _KINDS[dtype]
    empty = QuantisedTensor(x, scales, zero_points, kind, axis)
    low, high = _RANGES[kind]
    integers = jg.clip(jg.round(x / empty.along(scales)) + empty.along(zero_points), low, high)
    return empty.like(jg.astype(integers, _STORED[kind]))


def dequantize(x: Any) -> Any:
    """The numbers for which integers stand, as float32."""
    if not isinstance(x, QuantisedTensor):
        return x
    scale = x.along(x.scale)
    return x.centred() * (scale if x.axis is None else jg.astype(scale, jg.float32))


def q_scale(x: QuantisedTensor) -> Any:
    return x.scale


def q_zero_point(x: QuantisedTensor) -> Any:
    return x.zero_point


def int_repr(x: QuantisedTensor) -> Any:
    return x.integers


# ----------------------------------------------------------------------
# Linear layers.


def linear_prepack(weight: Any, bias: Any = None) -> PackedLinear:
    return PackedLinear(weight, bias)


linear_prepack_fp16 = linear_prepack


def linear_unpack(packed: PackedLinear) -> tuple[Any, Any]:
    return packed.weight, packed.bias


linear_unpack_fp16 = linear_unpack


def _dynamic_parameters(x: Any, reduce_range: bool) -> tuple[Any, Any, int]:
    """The scale and zero point by which the elements of ``x`` fit into 8 bits, or 7, and the greatest integer."""
    high = 127 if reduce_range else 255
    least, greatest = jg.minimum(jg.min(x), 0.0), jg.maximum(jg.max(x), 0.0)
    scale = (jg.astype(greatest, jg.float64) - jg.astype(least, jg.float64)) / high
    scale = jg.where(jg.astype(scale, jg.float32) == 0.0, 0.1, scale)
    scale = jg.where(scale < _SMALLEST_SCALE, _SMALLEST_SCALE, scale)
    from_least, from_greatest = -least / scale, high - greatest / scale
    initial = jg.where(jg.abs(least / scale) < high + jg.abs(greatest / scale), from_least, from_greatest)
    zero = jg.round(jg.clip(initial, 0.0, float(high)))
    return jg.astype(scale, jg.float32), jg.astype(zero, jg.float32), high


def linear_dynamic(x: Any, packed: PackedLinear, reduce_range: bool = False) -> Any:
    """A linear layer on integers to which ``x`` is rounded in the call; the result is in floats."""
    weight = packed.weight
    scale, zero, high = _dynamic_parameters(x, reduce_range)
    integers = jg.clip(jg.round(x / scale) + zero, 0.0, float(high)) - zero
    weight_scale = weight.scale if weight.axis is None else jg.astype(weight.scale, jg.float32)
    y = jg.matmul(integers, jg.matrix_transpose(weight.centred())) * (scale * weight_scale)
    return y if packed.bias is None else y + packed.bias


def linear_relu_dynamic(x: Any, packed: PackedLinear, reduce_range: bool = False) -> Any:
    return functional.relu(linear_dynamic(x, packed, reduce_range))


def linear_dynamic_fp16(x: Any, packed: PackedLinear) -> Any:
    """A linear layer whose weight was rounded to float16."""
    weight = jg.astype(jg.astype(packed.weight, jg.float16), jg.float32)
    return functional.linear(x, weight, packed.bias)


def _requantised(
    x: QuantisedTensor, packed: Any, sums: Any, channels: tuple[int, ...], scale: Any, zero_point: Any, relu: bool
) -> QuantisedTensor:
    """Sums of products of integers, with the bias, as integers of another scale."""
    weight_scale = packed.weight.scale
    if packed.weight.axis is not None:
        weight_scale = jg.reshape(jg.astype(weight_scale, jg.float32), channels)
    unit = x.scale * weight_scale
    if packed.bias is not None:
        sums = sums + jg.reshape(packed.bias, channels) / unit
    scaled = sums * (unit / scale)
    return _rounded(functional.relu(scaled) if relu else scaled, zero_point, scale, x.kind)


def linear(
    x: QuantisedTensor, packed: PackedLinear, scale: Any, zero_point: Any, *, relu: bool = False
) -> QuantisedTensor:
    """A linear layer on integers."""
    sums = jg.matmul(x.centred(), jg.matrix_transpose(packed.weight.centred()))
    return _requantised(x, packed, sums, (-1,), scale, zero_point, relu)


def linear_relu(x: QuantisedTensor, packed: PackedLinear, scale: Any, zero_point: Any) -> QuantisedTensor:
    return linear(x, packed, scale, zero_point, relu=True)


# ----------------------------------------------------------------------
# Convolutions.


def conv2d_prepack(weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> PackedConvolution:
    return PackedConvolution(weight, bias, stride, padding, dilation, groups)


conv1d_prepack = conv3d_prepack = conv2d_prepack


def conv2d_unpack(packed: PackedConvolution) -> tuple[Any, Any]:
    return packed.weight, packed.bias


conv1d_unpack = conv3d_unpack = conv2d_unpack
_CONVOLUTIONS: Final = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}


def conv2d(
    x: QuantisedTensor, packed: PackedConvolution, scale: Any, zero_point: Any, *, relu: bool = False
) -> QuantisedTensor:
    """A convolution on integers, in as many dimensions as the input has."""
    rank = len(x.shape)
    options = {name: value[-(rank - 2) :] for name, value in packed.options.items()}
    weight = packed.weight.centred()
    if weight.ndim > rank:  # that of one dimension is packed as one of two
        weight = jg.squeeze(weight, axis=2)
    sums = _CONVOLUTIONS[rank](x.centred(), weight, None, groups=packed.groups, **options)
    return _requantised(x, packed, sums, (-1, *[1] * (rank - 2)), scale, zero_point, relu)


conv1d = conv3d = conv2d


def conv2d_relu(x: QuantisedTensor, packed: PackedConvolution, scale: Any, zero_point: Any) -> QuantisedTensor:
    return conv2d(x, packed, scale, zero_point, relu=True)


conv1d_relu = conv3d_relu = conv2d_relu


# ----------------------------------------------------------------------
# Others.


def _pointwise(function: Callable[..., Any], relu: bool) -> Callable[..., Any]:
    def call(a: Any, b: Any, scale: Any, zero_point: Any) -> QuantisedTensor:
        y = function(dequantize(a), dequantize(b))
        return _rounded((functional.relu(y) if relu else y) / scale, zero_point, scale, a.kind)

    return call


add, add_relu = _pointwise(jg.add, False), _pointwise(jg.add, True)
mul, mul_relu = _pointwise(jg.multiply, False), _pointwise(jg.multiply, True)


def cat(tensors: Any, dim: int, scale: Any = None, zero_point: Any = None) -> QuantisedTensor:
    """Tensors one after the other, as integers of one scale."""
    first = tensors[0]
    scale = first.scale if scale is None else scale
    zero_point = first.zero_point if zero_point is None else zero_point
    return _rounded(jg.concat([*map(dequantize, tensors)], axis=dim) / scale, zero_point, scale, first.kind)


_OF_INTEGERS: Final = frozenset(
    {
        *(
            "reshape",
            "view",
            "flatten",
            "transpose",
            "permute",
            "squeeze",
            "unsqueeze",
            "slice",
            "select",
            "contiguous",
        ),
        *("clone", "max_pool2d", "max_pool1d", "t", "expand", "index_select", "size", "dim", "numel", "detach"),
    }
)  # operators that choose among elements
_OF_TENSORS: Final = {
    "quantize_per_tensor": quantize_per_tensor,
    "quantize_per_channel": quantize_per_channel,
    "dequantize": dequantize,
    "q_scale": q_scale,
    "q_zero_point": q_zero_point,
    "int_repr": int_repr,
}


OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    function: globals()[function]
    for function in (
        *(
            "add",
            "add_relu",
            "mul",
            "mul_relu",
            "cat",
            "linear",
            "linear_relu",
            "linear_dynamic",
            "linear_relu_dynamic",
        ),
        *("linear_dynamic_fp16", "linear_prepack", "linear_prepack_fp16", "linear_unpack", "linear_unpack_fp16"),
        *(f"conv{rank}d{form}" for rank in (1, 2, 3) for form in ("", "_relu", "_prepack", "_unpack")),
    )
}
"""The operators of ``quantized``."""


def on_quantised(name: str, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The operator ``aten::name``, whose function on other tensors is given, for quantised ones, too."""
    if name in _OF_TENSORS:
        return _OF_TENSORS[name]  # type: ignore[return-value]
    if function is None:
        return None

    def call(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        if isinstance(first, list) and first and isinstance(first[0], QuantisedTensor) and name == "cat":
            return cat(first, *args[1:])
        if not isinstance(first, QuantisedTensor):
            return function(*args, **kwargs)
        if name in ("relu", "relu_"):
            return first.like(jg.maximum(first.integers, jg.asarray(first.zero_point, dtype=first.integers.dtype)))
        if name in _OF_INTEGERS:
            result = function(first.integers, *args[1:], **kwargs)
            return first.like(result) if isinstance(result, Tensor) else result
        result = function(dequantize(first), *args[1:], **kwargs)
        return _rounded(result / first.scale, first.zero_point, first.scale, first.kind)

    return call
