"""Draws of gamma and Dirichlet numbers through which gradients reach the concentrations.

A gamma number x of concentration a moves with a so that its share P(a, x) of the distribution stays: dx/da is
-(dP/da) / density (implicit reparameterisation: Figurnov, Mohamed, Mnih 2018). dP/da is a central difference of the
regularised incomplete gamma function in float64.
"""

from __future__ import annotations

from typing import Any, Final

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch.tensors import adopted

_STEP: Final = 1e-4  # of the concentration: errors of its square


def standard_gamma(concentration: Any) -> Any:
    """Gamma numbers of rate 1, of the shape and dtype of the concentrations."""
    a = concentration.detach()
    drawn = adopted(jg.random.gamma(a, dtype=a.dtype)).to(a.device)
    x = drawn.clamp(min=torch.finfo(a.dtype).tiny)
    if not (concentration.requires_grad and torch.is_grad_enabled()):
        return x
    return x + (concentration - a) * _slope(a.double(), x.double()).to(a.dtype)


def _slope(a: Any, x: Any) -> Any:
    """dx/da of gamma numbers: x / a for small x, where P(a, x) is x**a / gamma(a + 1) and underflows."""
    step = a * _STEP
    share = (jg.special.gammainc(a + step, x) - jg.special.gammainc(a - step, x)) / (2 * step)
    log_density = (a - 1) * x.log() - x - torch.lgamma(a)
    slope = -share / log_density.exp()
    near_zero = x * (torch.digamma(a + 1) - x.log()) / a
    usable = torch.isfinite(slope) & (x > 1e-8)
    return adopted(jg.where(usable, slope, near_zero))


def dirichlet(concentration: Any) -> Any:
    """Numbers that sum to 1 along the last axis."""
    if not (concentration.requires_grad and torch.is_grad_enabled()):
        return adopted(jg.random.dirichlet(concentration.detach(), dtype=concentration.dtype))
    gammas = standard_gamma(concentration.double())
    return (gammas / gammas.sum(-1, keepdim=True)).to(concentration.dtype)
