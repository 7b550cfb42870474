"""``torch.distributions.bernoulli``, as PyTorch names the module of Bernoulli."""

from jitgraph.torch.distributions.discrete import Bernoulli as Bernoulli
