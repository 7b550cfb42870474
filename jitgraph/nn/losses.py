"""Losses as modules."""

from __future__ import annotations

from jitgraph.nn import functional
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor


class NLLLoss(Module):
    """``functional.nll_loss`` of log probabilities and class numbers; ``weight`` is a number for each class."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss."""
        return functional.nll_loss(
            scores, labels, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(NLLLoss):
    """``functional.cross_entropy`` of logits and class numbers; ``weight`` is a number for each class."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss."""
        return functional.cross_entropy(
            scores,
            labels,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class MSELoss(Module):
    """``functional.mse_loss`` of prediction and target."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.mse_loss(prediction, target, reduction=self.reduction)


class L1Loss(MSELoss):
    """``functional.l1_loss`` of prediction and target."""

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.l1_loss(prediction, target, reduction=self.reduction)


class SmoothL1Loss(Module):
    """``functional.smooth_l1_loss`` of prediction and target."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__()
        self.reduction, self.beta = reduction, beta

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.smooth_l1_loss(prediction, target, reduction=self.reduction, beta=self.beta)


class BCEWithLogitsLoss(Module):
    """``functional.binary_cross_entropy_with_logits`` of logits and targets between 0 and 1."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return functional.binary_cross_entropy_with_logits(
            logits, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
