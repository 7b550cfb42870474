"""Losses as modules."""

from __future__ import annotations

from jitgraph.nn import functional
from jitgraph.nn.functional.arguments import reduction_of
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor


class NLLLoss(Module):
    """``functional.nll_loss`` of log probabilities and class numbers; ``weight`` is a number for each class."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction_of(reduction, size_average, reduce)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(NLLLoss):
    """``functional.cross_entropy`` of logits and class numbers; ``weight`` is a number for each class."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class MSELoss(Module):
    """``functional.mse_loss`` of prediction and target."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(reduction, size_average, reduce)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.mse_loss(input, target, reduction=self.reduction)


class L1Loss(MSELoss):
    """``functional.l1_loss`` of prediction and target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Module):
    """``functional.smooth_l1_loss`` of prediction and target."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__()
        self.reduction, self.beta = reduction_of(reduction, size_average, reduce), beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class BCEWithLogitsLoss(Module):
    """``functional.binary_cross_entropy_with_logits`` of logits and targets between 0 and 1."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.reduction = reduction_of(reduction, size_average, reduce)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
