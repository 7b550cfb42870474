"""``torch.nn.utils.parametrizations``: weight_norm, spectral_norm and orthogonal."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.nn.utils import parametrizations
from jitgraph.nn.utils.parametrizations import orthogonal as orthogonal
from jitgraph.nn.utils.parametrizations import weight_norm as weight_norm


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a parameter by its largest singular value; ``dim`` is 1 for transposed convolutions, else 0."""
    return parametrizations.spectral_norm(module, name, n_power_iterations, eps, rows_axis(module, dim))


def rows_axis(module: Any, dim: int | None) -> int:
    """The axis of a weight that counts as that of rows."""
    transposed = (jg.nn.ConvTranspose1d, jg.nn.ConvTranspose2d, jg.nn.ConvTranspose3d)
    return int(isinstance(module, transposed)) if dim is None else dim
