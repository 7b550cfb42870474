"""Layers that learn the number of their input features from their first call. Names and defaults as PyTorch.

Until then such a layer has no parameters, and who asks for them is told so. The call makes it the plain layer, class
included, in the dtype and on the device that ``to`` has asked for meanwhile; so does a state dict that is loaded.
"""

from __future__ import annotations

from typing import Any, ClassVar

from jitgraph.errors import JitgraphError, ShapeError, TraceError
from jitgraph.ir import context
from jitgraph.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Window
from jitgraph.nn.layers import Linear
from jitgraph.nn.module import Module
from jitgraph.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from jitgraph.tensor import Tensor
from jitgraph.tensor.lifting import value_of


class Uninitialized:
    """What stands for a parameter or buffer of a layer that was not called yet; JitgraphError for any use."""

    def __init__(self, layer: str) -> None:
        self._layer = layer

    def __repr__(self) -> str:
        return f"<uninitialized, of a {self._layer}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise JitgraphError(f"{name} of a {self._layer} that was not called yet\n  hint: call the model once first")


class Lazy(Module):
    """A layer that becomes ``becomes``, whose first argument its first call tells, with the arguments ``given``."""

    becomes: ClassVar[Any]

    def _begin(self, **settings: Any) -> None:
        """As the plain layer of no features, whose settings can be read, without parameters."""
        has_bias = settings.get("bias")
        self.becomes.__init__(self, 0, **(settings if has_bias is None else {**settings, "bias": False}))
        self._given, self._deferred = settings, []
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                vars(self)[name] = Uninitialized(type(self).__name__)
        if has_bias:
            vars(self)["bias"] = Uninitialized(type(self).__name__)

    def forward(self, /, *args: Any, **kwargs: Any) -> Any:
        """The plain layer's result, after this one has become it."""
        if not args and "input" not in kwargs:
            raise TypeError(f"{type(self).__name__}.forward() missing 1 required positional argument: 'input'")
        if context.current().trace is not None:
            raise TraceError(
                f"{type(self).__name__} has no parameters before its first call, and they cannot be made in a trace",
                hint="call the model once on a batch before it is traced",
            )
        self.materialize(self._features(tuple(value_of(args[0] if args else kwargs["input"]).type.shape)))
        return self.forward(*args, **kwargs)

    def reset_parameters(self) -> None:
        """Draw the parameters anew; nothing where there are none yet."""
        if self._deferred is None:
            super().reset_parameters()  # type: ignore[misc]  # of the plain layer

    def materialize(self, features: int) -> None:
        """Become the plain layer with so many input features."""
        targets, preserved = self._deferred or [], (self.training, self._hooks, self._persistence)
        settings = vars(self).pop("_given")
        del self._deferred
        self.__class__ = self.becomes
        self.__init__(features, **settings)  # type: ignore[misc]  # of the class that it is now
        self.training, self._hooks, self._persistence = (
            preserved[0],
            preserved[1],
            {**preserved[2], **self._persistence},
        )
        for target in targets:
            self.to(target)

    def materialize_from(self, state: Any, prefix: str) -> None:
        """Become the plain layer whose tensors a state dict has; nothing where it has none of them."""
        for name in ("weight", "running_mean"):
            tensor = state.get(prefix + name)
            if tensor is not None:
                self.materialize(self._features_of_weight(tuple(tensor.shape)))
                return

    def _features(self, shape: tuple[Any, ...]) -> int:
        """The number of features of an input of this shape."""
        raise NotImplementedError

    def _features_of_weight(self, shape: tuple[int, ...]) -> int:
        """The number of input features of a weight of this shape."""
        raise NotImplementedError

    def _channels(self, shape: tuple[Any, ...], spatial: int) -> int:
        """The channels of images of so many axes, of one or of several."""
        return self._axis(shape, -1 - spatial, (spatial + 1, spatial + 2))

    def _axis(self, shape: tuple[Any, ...], axis: int, ranks: tuple[int, ...]) -> int:
        if len(shape) not in ranks:
            expected = " or ".join(map(str, ranks))
            raise ShapeError(f"{type(self).__name__} takes x of {expected} axes, not of the shape {shape}")
        return int(shape[axis])


class LazyLinear(Lazy, Linear):
    """``Linear`` whose ``in_features`` is the last axis of its first input."""

    becomes = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        self._begin(out_features=out_features, bias=bias, device=device, dtype=dtype)

    def _features(self, shape: tuple[Any, ...]) -> int:
        return self._axis(shape, -1, (max(1, len(shape)),))

    def _features_of_weight(self, shape: tuple[int, ...]) -> int:
        return shape[1]


class _LazyNorm(Lazy):
    """A norm that takes ``num_features`` from its first input."""

    def _features_of_weight(self, shape: tuple[int, ...]) -> int:
        return shape[0]


class _LazyBatchNorm(_LazyNorm):
    ranks: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        self._begin(
            eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats, device=device,
            dtype=dtype, bias=bias,
        )  # fmt: skip

    def _features(self, shape: tuple[Any, ...]) -> int:
        return self._axis(shape, 1, self.ranks)


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    """``BatchNorm1d`` that takes ``num_features`` from its first input."""

    becomes = BatchNorm1d


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    """``BatchNorm2d`` that takes ``num_features`` from its first input."""

    becomes = BatchNorm2d


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    """``BatchNorm3d`` that takes ``num_features`` from its first input."""

    becomes = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    """An instance norm, which learns and averages unless told otherwise, where the plain ones do only if told."""

    spatial: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        self._begin(
            eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats, device=device,
            dtype=dtype, bias=bias,
        )  # fmt: skip

    def _features(self, shape: tuple[Any, ...]) -> int:
        return self._channels(shape, self.spatial)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """``InstanceNorm1d`` that takes ``num_features`` from its first input."""

    becomes = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """``InstanceNorm2d`` that takes ``num_features`` from its first input."""

    becomes = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """``InstanceNorm3d`` that takes ``num_features`` from its first input."""

    becomes = InstanceNorm3d


class _LazyConv(Lazy):
    """A convolution that takes ``in_channels`` from its first input."""

    spatial: Any
    groups: Any

    def __init__(
        self,
        out_channels: int,
        kernel_size: Window,
        stride: Window = 1,
        padding: Window | str = 0,
        dilation: Window = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._begin(
            out_channels=out_channels, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation,
            groups=groups, bias=bias, padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _features(self, shape: tuple[Any, ...]) -> int:
        return self._channels(shape, self.spatial)

    def _features_of_weight(self, shape: tuple[int, ...]) -> int:
        return int(shape[1] * self.groups)


class LazyConv1d(_LazyConv, Conv1d):
    """``Conv1d`` that takes ``in_channels`` from its first input."""

    becomes = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """``Conv2d`` that takes ``in_channels`` from its first input."""

    becomes = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """``Conv3d`` that takes ``in_channels`` from its first input."""

    becomes = Conv3d


class _LazyConvTranspose(_LazyConv):
    """A transposed convolution that takes ``in_channels`` from its first input."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Window,
        stride: Window = 1,
        padding: Window = 0,
        output_padding: Window = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Window = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._begin(
            out_channels=out_channels, kernel_size=kernel_size, stride=stride, padding=padding,
            output_padding=output_padding, groups=groups, bias=bias, dilation=dilation, padding_mode=padding_mode,
            device=device, dtype=dtype,
        )  # fmt: skip

    def _features_of_weight(self, shape: tuple[int, ...]) -> int:
        return shape[0]


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """``ConvTranspose1d`` that takes ``in_channels`` from its first input."""

    becomes = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """``ConvTranspose2d`` that takes ``in_channels`` from its first input."""

    becomes = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """``ConvTranspose3d`` that takes ``in_channels`` from its first input."""

    becomes = ConvTranspose3d
