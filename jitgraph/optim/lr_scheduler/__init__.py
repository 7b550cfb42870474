"""Schedules of the learning rate, in PyTorch's names. Each ``step()`` sets ``lr`` of every parameter group.

A schedule's step may stand inside of a traced step: counters and rates are numbers that each call works out, so the
function is recorded once. What a user's own function asks of the epoch, and the parts of SequentialLR, are recorded
once for each answer.
"""

from jitgraph.optim.lr_scheduler.base import LRScheduler
from jitgraph.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from jitgraph.optim.lr_scheduler.cycles import CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from jitgraph.optim.lr_scheduler.decays import (
    ConstantLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from jitgraph.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
from jitgraph.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
