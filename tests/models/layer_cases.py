"""Layers of ``nn``: linear, convolution, pooling, normalisation, embedding, shapes."""

from __future__ import annotations

from tests.models.case import LayerCase, normal

CASES = [
    LayerCase("Linear", lambda lib: lib.nn.Linear(3, 4), (normal(5, 3),)),
    LayerCase("BatchNorm1d", lambda lib: lib.nn.BatchNorm1d(3), (normal(5, 3),)),
]
