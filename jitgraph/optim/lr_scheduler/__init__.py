"""Schedules of the learning rate, in PyTorch's names. Each ``step()`` sets ``lr`` of every parameter group.

A schedule's step may stand inside of a traced step: counters and rates are numbers that each call works out, so the
function is recorded once. What a user's own function asks of the epoch, and the parts of SequentialLR, are recorded
once for each answer.
"""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
