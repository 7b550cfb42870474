"""Activations as modules, on numbers with both signs, their bends and large ones among them."""

from __future__ import annotations

import numpy as np

from tests.models.case import LayerCase, normal

X = np.concatenate([normal(2, 6).ravel() * 3, [0.3, -0.3, 30.0, -30.0, 2.999, -2.999, 1e-8, -1e-8]]).reshape(4, 5)
IMAGE = normal(2, 3, 4, 4)

ROUGH = {"Hardsigmoid": 1e-7}  # where PyTorch rounds constants to float32, as CELU's alpha
PLAIN = [
    *("ReLU", "ReLU6", "Sigmoid", "LogSigmoid", "Tanh", "SiLU", "Softplus", "GELU", "LeakyReLU", "ELU", "SELU", "CELU"),
    *("Mish", "Hardsigmoid", "Hardswish", "Hardtanh", "Hardshrink", "Softshrink", "Softsign", "Tanhshrink"),
]

CASES = [
    *(
        LayerCase(name, lambda lib, name=name: getattr(lib.nn, name)(), (X,), tolerance=ROUGH.get(name, 1e-9))
        for name in PLAIN
    ),
    LayerCase("GELU, tanh", lambda lib: lib.nn.GELU("tanh"), (X,)),
    LayerCase("LeakyReLU, slope", lambda lib: lib.nn.LeakyReLU(0.3), (X,)),
    LayerCase("ELU, alpha", lambda lib: lib.nn.ELU(1.7), (X,)),
    LayerCase("CELU, alpha", lambda lib: lib.nn.CELU(0.6), (X,), tolerance=1e-7),
    LayerCase("Softplus, beta and threshold", lambda lib: lib.nn.Softplus(2.0, 3.0), (X,)),
    LayerCase("Hardtanh, bounds", lambda lib: lib.nn.Hardtanh(-2.0, 0.5), (X,)),
    LayerCase("Hardshrink, lambd", lambda lib: lib.nn.Hardshrink(1.5), (X,)),
    LayerCase("Softshrink, lambd", lambda lib: lib.nn.Softshrink(1.5), (X,)),
    LayerCase("Threshold", lambda lib: lib.nn.Threshold(0.1, 20.0), (X,)),
    LayerCase("PReLU", lambda lib: lib.nn.PReLU(), (X,)),
    LayerCase("PReLU, channels", lambda lib: lib.nn.PReLU(3, 0.4), (IMAGE,)),
    LayerCase("RReLU, evaluating", lambda lib: lib.nn.RReLU(), (X,), mode="eval"),
    LayerCase("GLU", lambda lib: lib.nn.GLU(0), (X,)),
    LayerCase("Softmax", lambda lib: lib.nn.Softmax(dim=1), (X,)),
    LayerCase("Softmin", lambda lib: lib.nn.Softmin(dim=0), (X,)),
    LayerCase("LogSoftmax", lambda lib: lib.nn.LogSoftmax(dim=-1), (X,)),
    LayerCase("Softmax2d", lambda lib: lib.nn.Softmax2d(), (IMAGE,)),
]
