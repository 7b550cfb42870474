"""The names of ``torch.distributions``, and where each is defined."""

from jitgraph.torch.distributions.bernoulli import Bernoulli as Bernoulli
from jitgraph.torch.distributions.bernoulli import Binomial as Binomial
from jitgraph.torch.distributions.bernoulli import Geometric as Geometric
from jitgraph.torch.distributions.bernoulli import Poisson as Poisson
from jitgraph.torch.distributions.categorical import Categorical as Categorical
from jitgraph.torch.distributions.categorical import OneHotCategorical as OneHotCategorical
from jitgraph.torch.distributions.continuous import Beta as Beta
from jitgraph.torch.distributions.continuous import Cauchy as Cauchy
from jitgraph.torch.distributions.continuous import Dirichlet as Dirichlet
from jitgraph.torch.distributions.continuous import Exponential as Exponential
from jitgraph.torch.distributions.continuous import Gamma as Gamma
from jitgraph.torch.distributions.continuous import Gumbel as Gumbel
from jitgraph.torch.distributions.continuous import Laplace as Laplace
from jitgraph.torch.distributions.continuous import Uniform as Uniform
from jitgraph.torch.distributions.distribution import Distribution as Distribution
from jitgraph.torch.distributions.independent import Independent as Independent
from jitgraph.torch.distributions.kl import kl_divergence as kl_divergence
from jitgraph.torch.distributions.kl import register_kl as register_kl
from jitgraph.torch.distributions.normal import LogNormal as LogNormal
from jitgraph.torch.distributions.normal import MultivariateNormal as MultivariateNormal
from jitgraph.torch.distributions.normal import Normal as Normal
