"""The names of ``torch.nn.functional``, and where each is defined."""

from jitgraph.nn.functional import *
