"""Neural network modules, in PyTorch's names."""

from typing import Any

from jitgraph import migration_hints
from jitgraph.nn import functional, init, utils
from jitgraph.nn.containers import ModuleList, Sequential
from jitgraph.nn.layers import Conv1d, Conv2d, Conv3d, Embedding, Linear
from jitgraph.nn.losses import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss, SmoothL1Loss
from jitgraph.nn.module import Module, Parameter
from jitgraph.nn.normalization import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm
from jitgraph.nn.stateless import (
    ELU,
    GELU,
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    Dropout,
    Flatten,
    Identity,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    MaxPool1d,
    MaxPool2d,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)

__all__ = [
    "ELU",
    "GELU",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Tanh",
    "functional",
    "init",
    "utils",
]


def __getattr__(name: str) -> Any:
    hint = migration_hints.advice(name, migration_hints.NN, migration_hints.PLANNED_NN)
    raise AttributeError(f"module 'jitgraph.nn' has no attribute {name!r}{hint}")
