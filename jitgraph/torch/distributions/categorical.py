"""``torch.distributions.categorical``, as PyTorch names the module of Categorical."""

from jitgraph.torch.distributions.discrete import Categorical as Categorical
