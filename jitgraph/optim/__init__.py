"""Optimisers and learning rate schedules, in PyTorch's names."""

from typing import Any

from jitgraph import migration_hints
from jitgraph.optim import lr_scheduler, swa_utils
from jitgraph.optim.adadelta import Adadelta
from jitgraph.optim.adafactor import Adafactor
from jitgraph.optim.adagrad import Adagrad
from jitgraph.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from jitgraph.optim.asgd import ASGD
from jitgraph.optim.lbfgs import LBFGS
from jitgraph.optim.lion import Lion
from jitgraph.optim.muon import Muon
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.rmsprop import RMSprop
from jitgraph.optim.rprop import Rprop
from jitgraph.optim.sgd import SGD
from jitgraph.runtime import imports

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]


__dir__ = imports.listing(__name__)


def __getattr__(name: str) -> Any:
    hint = migration_hints.advice(name, migration_hints.OPTIM)
    raise AttributeError(f"module 'jitgraph.optim' has no attribute {name!r}{hint}")
