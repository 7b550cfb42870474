"""Losses as modules; what they compute stands in ``functional``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


class _Loss(Module):
    """A function of ``functional``, by its name, of tensors and of settings: attributes with its keywords' names."""

    function: str
    settings: tuple[str, ...] = ("reduction",)

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(reduction, size_average, reduce)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return self._loss(input, target)

    def _loss(self, *operands: Tensor) -> Tensor:
        function: Callable[..., Tensor] = getattr(functional, type(self).function)
        return function(*operands, **{name: getattr(self, name) for name in self.settings})


class BCELoss(_Loss):
    """``functional.binary_cross_entropy`` of probabilities and targets."""

    function, settings = "binary_cross_entropy", ("weight", "reduction")
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

    function, settings = "kl_div", ("reduction", "log_target")

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

    function, settings = "poisson_nll_loss", ("log_input", "full", "eps", "reduction")

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

    function, settings = "gaussian_nll_loss", ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(input, target, var)


class HuberLoss(_Loss):
    """``functional.huber_loss`` of prediction and target."""

    function, settings = "huber_loss", ("reduction", "delta")

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

    function = "margin_ranking_loss"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(input1, input2, target)


class CosineEmbeddingLoss(_MarginLoss):
    """``functional.cosine_embedding_loss`` of two vectors and whether they are alike."""

    function = "cosine_embedding_loss"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return self._loss(input1, input2, target)


class HingeEmbeddingLoss(_MarginLoss):
    """``functional.hinge_embedding_loss`` of a distance and whether it should be small."""

    function = "hinge_embedding_loss"

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)


class SoftMarginLoss(_Loss):
    """``functional.soft_margin_loss`` of scores and signs."""

    function = "soft_margin_loss"


class MultiLabelMarginLoss(_Loss):
    """``functional.multilabel_margin_loss`` of scores and labels."""

    function = "multilabel_margin_loss"


class MultiLabelSoftMarginLoss(_Loss):
    """``functional.multilabel_soft_margin_loss`` of scores and which classes hold."""

    function, settings = "multilabel_soft_margin_loss", ("weight", "reduction")
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

    function, settings = "multi_margin_loss", ("p", "margin", "weight", "reduction")
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

    function, settings = "triplet_margin_loss", ("margin", "p", "eps", "swap", "reduction")

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

    function = "triplet_margin_with_distance_loss"
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

    function, settings = "ctc_loss", ("blank", "reduction", "zero_infinity")

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
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
