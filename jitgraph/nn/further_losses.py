"""Losses of distributions, margins and distances as modules; what they compute stands in ``functional``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.nn import functional
from jitgraph.nn.functional import ctc, further_losses
from jitgraph.nn.functional.arguments import reduction_of
from jitgraph.nn.losses import NLLLoss
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor


class _Loss(Module):
    """A function of tensors and of settings, which are attributes by the names of the function's keywords."""

    function: Callable[..., Tensor]
    settings: tuple[str, ...] = ("reduction",)

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(reduction, size_average, reduce)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return self._loss(input, target)

    def _loss(self, *operands: Tensor) -> Tensor:
        return type(self).function(*operands, **{name: getattr(self, name) for name in self.settings})


class BCELoss(_Loss):
    """``functional.binary_cross_entropy`` of probabilities and targets."""

    function, settings = functional.binary_cross_entropy, ("weight", "reduction")
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class KLDivLoss(_Loss):
    """``functional.kl_div`` of log probabilities and targets."""

    function, settings = further_losses.kl_div, ("reduction", "log_target")

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class PoissonNLLLoss(_Loss):
    """``functional.poisson_nll_loss`` of a rate and counts."""

    function, settings = further_losses.poisson_nll_loss, ("log_input", "full", "eps", "reduction")

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return self._loss(log_input, target)


class GaussianNLLLoss(_Loss):
    """``functional.gaussian_nll_loss`` of means, targets and variances."""

    function, settings = further_losses.gaussian_nll_loss, ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(input, target, var)


class HuberLoss(_Loss):
    """``functional.huber_loss`` of prediction and target."""

    function, settings = further_losses.huber_loss, ("reduction", "delta")

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta


class _MarginLoss(_Loss):
    """A loss with a margin."""

    settings = ("margin", "reduction")

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """``functional.margin_ranking_loss`` of two scores and which should be greater."""

    function = further_losses.margin_ranking_loss

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(input1, input2, target)


class CosineEmbeddingLoss(_MarginLoss):
    """``functional.cosine_embedding_loss`` of two vectors and whether they are alike."""

    function = further_losses.cosine_embedding_loss

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(input1, input2, target)


class HingeEmbeddingLoss(_MarginLoss):
    """``functional.hinge_embedding_loss`` of a distance and whether it should be small."""

    function = further_losses.hinge_embedding_loss

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)


class SoftMarginLoss(_Loss):
    """``functional.soft_margin_loss`` of scores and signs."""

    function = further_losses.soft_margin_loss


class MultiLabelMarginLoss(_Loss):
    """``functional.multilabel_margin_loss`` of scores and labels."""

    function = further_losses.multilabel_margin_loss


class MultiLabelSoftMarginLoss(_Loss):
    """``functional.multilabel_soft_margin_loss`` of scores and which classes hold."""

    function, settings = further_losses.multilabel_soft_margin_loss, ("weight", "reduction")
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MultiMarginLoss(_Loss):
    """``functional.multi_margin_loss`` of scores and class numbers."""

    function, settings = further_losses.multi_margin_loss, ("p", "margin", "weight", "reduction")
    weight: Tensor | None

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.p, self.margin = p, margin


class TripletMarginLoss(_Loss):
    """``functional.triplet_margin_loss`` of anchor, positive and negative."""

    function, settings = further_losses.triplet_margin_loss, ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss):
    """``functional.triplet_margin_with_distance_loss`` of anchor, positive and negative."""

    function = further_losses.triplet_margin_with_distance_loss
    settings = ("distance_function", "margin", "swap", "reduction")

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(anchor, positive, negative)


class CTCLoss(_Loss):
    """``functional.ctc_loss`` of log probabilities, targets and the lengths of both."""

    function, settings = ctc.ctc_loss, ("blank", "reduction", "zero_infinity")

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(log_probs, targets, input_lengths, target_lengths)


class NLLLoss2d(NLLLoss):
    """``NLLLoss`` of images, by PyTorch's older name."""


class CosineSimilarity(Module):
    """``functional.cosine_similarity`` of two tensors along ``dim``."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The cosines."""
        cosines: Any = functional.cosine_similarity(x1, x2, self.dim, self.eps)
        return cosines  # type: ignore[no-any-return]


class PairwiseDistance(Module):
    """``functional.pairwise_distance`` of two tensors."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The distances."""
        return further_losses.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
