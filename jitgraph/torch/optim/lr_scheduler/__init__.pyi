"""The names of ``torch.optim.lr_scheduler``, and where each is defined."""

from jitgraph.optim.lr_scheduler import *
from jitgraph.optim.lr_scheduler.base import LRScheduler

_LRScheduler = LRScheduler
