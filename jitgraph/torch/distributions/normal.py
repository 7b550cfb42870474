"""``torch.distributions.normal``, as PyTorch names the module of Normal."""

from jitgraph.torch.distributions.continuous import Normal as Normal
