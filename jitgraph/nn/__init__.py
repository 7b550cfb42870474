"""Neural network modules, in PyTorch's names."""

from jitgraph.nn import functional, init, utils
from jitgraph.nn.containers import ModuleList, Sequential
from jitgraph.nn.layers import BatchNorm1d, BatchNorm2d, Conv2d, Embedding, LayerNorm, Linear
from jitgraph.nn.module import Module, Parameter
from jitgraph.nn.stateless import (
    GELU,
    AvgPool2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Identity,
    L1Loss,
    LeakyReLU,
    MaxPool2d,
    MSELoss,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)

__all__ = [
    "GELU",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "Parameter",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "functional",
    "init",
    "utils",
]
