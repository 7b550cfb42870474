"""The names of ``torch.nn``, and where each is defined."""

from jitgraph.nn import *
from jitgraph.torch.nn import functional as functional  # type: ignore[no-redef]
from jitgraph.torch.nn import init as init  # type: ignore[no-redef]
from jitgraph.torch.nn import parameter as parameter
from jitgraph.torch.nn.module import Module as Module
from jitgraph.torch.nn.parameter import Buffer as Buffer
from jitgraph.torch.nn.parameter import Parameter as Parameter
