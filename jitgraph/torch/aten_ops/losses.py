"""Losses. ATen's ``reduction`` is a number: 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import layer_forms


def mse_loss(self, target, reduction=1):
    return functional.mse_loss(self, target, reduction=layer_forms.REDUCTIONS[reduction])


def l1_loss(self, target, reduction=1):
    return functional.l1_loss(self, target, reduction=layer_forms.REDUCTIONS[reduction])


def smooth_l1_loss(self, target, reduction=1, beta=1.0):
    return functional.smooth_l1_loss(self, target, reduction=layer_forms.REDUCTIONS[reduction], beta=beta)


def huber_loss(self, target, reduction=1, delta=1.0):
    return functional.huber_loss(self, target, reduction=layer_forms.REDUCTIONS[reduction], delta=delta)


def soft_margin_loss(self, target, reduction=1):
    return functional.soft_margin_loss(self, target, reduction=layer_forms.REDUCTIONS[reduction])


def kl_div(self, target, reduction=1, *, log_target=False):
    return functional.kl_div(self, target, reduction=layer_forms.REDUCTIONS[reduction], log_target=log_target)


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    return functional.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=layer_forms.REDUCTIONS[reduction]
    )


def binary_cross_entropy(self, target, weight=None, reduction=1):
    return functional.binary_cross_entropy(self, target, weight, reduction=layer_forms.REDUCTIONS[reduction])


def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=1):
    return functional.binary_cross_entropy_with_logits(
        self, target, weight, reduction=layer_forms.REDUCTIONS[reduction], pos_weight=pos_weight
    )


def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    return functional.cross_entropy(
        self,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=layer_forms.REDUCTIONS[reduction],
        label_smoothing=label_smoothing,
    )


def nll_loss(self, target, weight=None, reduction=1, ignore_index=-100):
    return functional.nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=layer_forms.REDUCTIONS[reduction]
    )


nll_loss_nd = nll_loss
nll_loss2d = nll_loss


def nll_loss_forward(self, target, weight, reduction, ignore_index):
    chosen = fn.not_equal(target, ignore_index)
    weights = fn.astype(chosen, self.dtype)
    if weight is not None:
        weights = fn.multiply(weights, fn.take(weight, fn.where(chosen, target, 0), axis=0))
    total = fn.sum(weights) if reduction else fn.zeros((), dtype=self.dtype)
    return nll_loss(self, target, weight, reduction, ignore_index), total


nll_loss2d_forward = nll_loss_forward


def hinge_embedding_loss(self, target, margin=1.0, reduction=1):
    return functional.hinge_embedding_loss(self, target, margin, reduction=layer_forms.REDUCTIONS[reduction])


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    return functional.margin_ranking_loss(input1, input2, target, margin, reduction=layer_forms.REDUCTIONS[reduction])


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    return functional.cosine_embedding_loss(input1, input2, target, margin, reduction=layer_forms.REDUCTIONS[reduction])


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1):
    return functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=layer_forms.REDUCTIONS[reduction]
    )


def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=1):
    return functional.multi_margin_loss(self, target, p, margin, weight, reduction=layer_forms.REDUCTIONS[reduction])


def multilabel_margin_loss(self, target, reduction=1):
    return functional.multilabel_margin_loss(self, target, reduction=layer_forms.REDUCTIONS[reduction])


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    return functional.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, layer_forms.REDUCTIONS[reduction], zero_infinity
    )
