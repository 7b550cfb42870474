"""Layers of ``torch.nn`` that are other forms of jitgraph's, and what stands beside them."""

# mypy: disable-error-code="misc, valid-type"

from __future__ import annotations

import math
from typing import Any

import jitgraph as jg
from jitgraph.nn import recurrent
from jitgraph.records import dataclass
from jitgraph.torch.nn.functional import own_forms
from jitgraph.torch.nn.module import Module, layer
from jitgraph.torch.tensors import adopted

RNNBase = recurrent._Recurrent  # for isinstance
RNNCellBase = recurrent._Cell


class Container(Module):
    """A module without a forward of its own, as old code has it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class CrossMapLRN2d(layer(jg.nn.LocalResponseNorm)):
    """``LocalResponseNorm`` of x[N, C, H, W] by its older name."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


class Hardtanh(layer(jg.nn.Hardtanh)):
    """x held between ``min_val`` and ``max_val``, which may be given by their older names."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        low = min_val if min_value is None else min_value
        super().__init__(low, max_val if max_value is None else max_value, inplace)


class Softmax(layer(jg.nn.Softmax)):
    """Softmax along ``dim``, or without one along the axis that old code means."""

    def forward(self, input: Any) -> Any:
        """``functional.softmax`` of input."""
        return own_forms.softmax(input, self.dim)


class LogSoftmax(layer(jg.nn.LogSoftmax)):
    """Logarithm of softmax along ``dim``, or without one along the axis that old code means."""

    def forward(self, input: Any) -> Any:
        """``functional.log_softmax`` of input."""
        return own_forms.log_softmax(input, self.dim)


class Softmin(layer(jg.nn.Softmin)):
    """softmax(-x) along ``dim``, or without one along the axis that old code means."""

    def forward(self, input: Any) -> Any:
        """``functional.softmin`` of input."""
        return own_forms.softmin(input, self.dim)


class MSELoss(layer(jg.nn.MSELoss)):
    """(x - target)^2."""

    def forward(self, input: Any, target: Any) -> Any:
        """``functional.mse_loss`` of input and target."""
        return own_forms.mse_loss(input, target, reduction=self.reduction)


class L1Loss(layer(jg.nn.L1Loss)):
    """|x - target|."""

    def forward(self, input: Any, target: Any) -> Any:
        """``functional.l1_loss`` of input and target."""
        return own_forms.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(layer(jg.nn.SmoothL1Loss)):
    """|x - target|, a square below ``beta``."""

    def forward(self, input: Any, target: Any) -> Any:
        """``functional.smooth_l1_loss`` of input and target."""
        return own_forms.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(layer(jg.nn.HuberLoss)):
    """A square below ``delta``, a line above."""

    def forward(self, input: Any, target: Any) -> Any:
        """``functional.huber_loss`` of input and target."""
        return own_forms.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(layer(jg.nn.KLDivLoss)):
    """Kullback-Leibler divergence."""

    def forward(self, input: Any, target: Any) -> Any:
        """``functional.kl_div`` of input and target."""
        return own_forms.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class DataParallel(Module):
    """``module`` as it is: one GPU, or the CPU, computes the whole batch. State dicts have the prefix "module."."""

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.device_ids, self.output_device, self.dim = module, device_ids or [], output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's choices for cutting the product of a LinearCrossEntropyLoss into pieces, which change nothing here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(Module):
    """Cross entropy of a linear layer's scores, [N, num_classes, *out_features], of x[N, in_features]."""

    linear: Any
    weight: Any

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.num_classes, self.out_features, self.reduction = num_classes, out_features, reduction
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.register_buffer("weight", weight)
        units = math.prod(out_features, start=num_classes)
        self.linear = layer(jg.nn.Linear)(in_features, units, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        loss = jg.nn.functional.linear_cross_entropy(
            input,
            jg.reshape(self.linear.weight, (*shape, -1)),
            target,
            linear_bias=None if bias is None else jg.reshape(bias, shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )
        return adopted(loss)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The keywords for functions that make tensors, of those that a module was given; TypeError for others."""
    given = dict(kwargs or {})
    result = dict(given.pop("factory_kwargs", {}))
    for name, value in given.items():
        if name not in ("device", "dtype", "memory_format"):
            raise TypeError(f"unexpected kwargs {name!r}")
        if name in result:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        result[name] = value
    return result
