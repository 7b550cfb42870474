"""Optimisers and learning rate schedules."""

from jitgraph.optim import lr_scheduler
from jitgraph.optim.adam import Adam, AdamW
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.rmsprop import RMSprop
from jitgraph.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
