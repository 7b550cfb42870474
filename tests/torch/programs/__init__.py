"""Training programs as users of PyTorch write them: modules with a function ``run(torch, compile)`` of losses.

``torch`` is PyTorch or ``jitgraph.torch``; ``compile`` is ``torch.compile`` or leaves a function as it is. What is
random comes from NumPy, so that both libraries start from the same weights and see the same data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def eagerly(f: Any) -> Any:
    return f


Compile = Callable[[Any], Any]


def fill(torch: Any, module: Any, seed: int = 0) -> None:
    """Set all parameters to draws of NumPy: matrices scaled by what flows into them, weights of norms about 1."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            values = rng.standard_normal(tuple(p.shape))
            if p.dim() > 1:
                values *= (p.numel() / p.size(0)) ** -0.5
            else:
                values = 0.1 * values + (1 if name.endswith("weight") else 0)
            p.copy_(torch.from_numpy(values))


def digits(count: int, size: int = 8, classes: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy pictures of ``classes`` patterns (count, 1, size, size) as float32, and their labels."""
    rng = np.random.default_rng(seed)
    patterns = rng.random((classes, 1, size, size))
    labels = rng.integers(0, classes, count)
    pictures = np.clip(patterns[labels] + 0.1 * rng.standard_normal((count, 1, size, size)), 0, 1)
    return pictures.astype(np.float32), labels


def text(length: int, vocabulary: int = 20, seed: int = 0) -> np.ndarray:
    """Characters as numbers, each mostly the successor of the one before."""
    rng = np.random.default_rng(seed)
    jumps = np.where(rng.random(length) < 0.8, 1, rng.integers(0, vocabulary, length))
    return np.cumsum(jumps) % vocabulary
