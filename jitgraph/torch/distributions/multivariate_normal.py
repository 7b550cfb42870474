"""``torch.distributions.multivariate_normal``, as PyTorch names the module of MultivariateNormal."""

from jitgraph.torch.distributions.multivariate import MultivariateNormal as MultivariateNormal
