"""The names of ``torch.distributions``, and where each is defined."""

from jitgraph.torch.distributions import constraint_registry as constraint_registry
from jitgraph.torch.distributions import constraints as constraints
from jitgraph.torch.distributions import continuous as continuous
from jitgraph.torch.distributions import discrete as discrete
from jitgraph.torch.distributions import kl as kl
from jitgraph.torch.distributions import multivariate as multivariate
from jitgraph.torch.distributions import positive as positive
from jitgraph.torch.distributions import transforms as transforms
from jitgraph.torch.distributions.constraint_registry import biject_to as biject_to
from jitgraph.torch.distributions.constraint_registry import transform_to as transform_to
from jitgraph.torch.distributions.continuous import Cauchy as Cauchy
from jitgraph.torch.distributions.continuous import Exponential as Exponential
from jitgraph.torch.distributions.continuous import GeneralizedPareto as GeneralizedPareto
from jitgraph.torch.distributions.continuous import Gumbel as Gumbel
from jitgraph.torch.distributions.continuous import HalfCauchy as HalfCauchy
from jitgraph.torch.distributions.continuous import HalfNormal as HalfNormal
from jitgraph.torch.distributions.continuous import Laplace as Laplace
from jitgraph.torch.distributions.continuous import Normal as Normal
from jitgraph.torch.distributions.continuous import Uniform as Uniform
from jitgraph.torch.distributions.discrete import Bernoulli as Bernoulli
from jitgraph.torch.distributions.discrete import Binomial as Binomial
from jitgraph.torch.distributions.discrete import Categorical as Categorical
from jitgraph.torch.distributions.discrete import ContinuousBernoulli as ContinuousBernoulli
from jitgraph.torch.distributions.discrete import Geometric as Geometric
from jitgraph.torch.distributions.discrete import Multinomial as Multinomial
from jitgraph.torch.distributions.discrete import NegativeBinomial as NegativeBinomial
from jitgraph.torch.distributions.discrete import OneHotCategorical as OneHotCategorical
from jitgraph.torch.distributions.discrete import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from jitgraph.torch.distributions.discrete import Poisson as Poisson
from jitgraph.torch.distributions.distribution import Distribution as Distribution
from jitgraph.torch.distributions.distribution import ExponentialFamily as ExponentialFamily
from jitgraph.torch.distributions.kl import kl_divergence as kl_divergence
from jitgraph.torch.distributions.kl import register_kl as register_kl
from jitgraph.torch.distributions.multivariate import LKJCholesky as LKJCholesky
from jitgraph.torch.distributions.multivariate import LowRankMultivariateNormal as LowRankMultivariateNormal
from jitgraph.torch.distributions.multivariate import MultivariateNormal as MultivariateNormal
from jitgraph.torch.distributions.multivariate import Wishart as Wishart
from jitgraph.torch.distributions.positive import Beta as Beta
from jitgraph.torch.distributions.positive import Chi2 as Chi2
from jitgraph.torch.distributions.positive import Dirichlet as Dirichlet
from jitgraph.torch.distributions.positive import FisherSnedecor as FisherSnedecor
from jitgraph.torch.distributions.positive import Gamma as Gamma
from jitgraph.torch.distributions.positive import InverseGamma as InverseGamma
from jitgraph.torch.distributions.positive import StudentT as StudentT
from jitgraph.torch.distributions.positive import VonMises as VonMises
from jitgraph.torch.distributions.transformed import Independent as Independent
from jitgraph.torch.distributions.transformed import Kumaraswamy as Kumaraswamy
from jitgraph.torch.distributions.transformed import LogisticNormal as LogisticNormal
from jitgraph.torch.distributions.transformed import LogNormal as LogNormal
from jitgraph.torch.distributions.transformed import MixtureSameFamily as MixtureSameFamily
from jitgraph.torch.distributions.transformed import Pareto as Pareto
from jitgraph.torch.distributions.transformed import RelaxedBernoulli as RelaxedBernoulli
from jitgraph.torch.distributions.transformed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from jitgraph.torch.distributions.transformed import TransformedDistribution as TransformedDistribution
from jitgraph.torch.distributions.transformed import Weibull as Weibull
from jitgraph.torch.distributions.transforms import AbsTransform as AbsTransform
from jitgraph.torch.distributions.transforms import AffineTransform as AffineTransform
from jitgraph.torch.distributions.transforms import CatTransform as CatTransform
from jitgraph.torch.distributions.transforms import ComposeTransform as ComposeTransform
from jitgraph.torch.distributions.transforms import CorrCholeskyTransform as CorrCholeskyTransform
from jitgraph.torch.distributions.transforms import CumulativeDistributionTransform as CumulativeDistributionTransform
from jitgraph.torch.distributions.transforms import ExpTransform as ExpTransform
from jitgraph.torch.distributions.transforms import IndependentTransform as IndependentTransform
from jitgraph.torch.distributions.transforms import LowerCholeskyTransform as LowerCholeskyTransform
from jitgraph.torch.distributions.transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
from jitgraph.torch.distributions.transforms import PowerTransform as PowerTransform
from jitgraph.torch.distributions.transforms import ReshapeTransform as ReshapeTransform
from jitgraph.torch.distributions.transforms import SigmoidTransform as SigmoidTransform
from jitgraph.torch.distributions.transforms import SoftmaxTransform as SoftmaxTransform
from jitgraph.torch.distributions.transforms import SoftplusTransform as SoftplusTransform
from jitgraph.torch.distributions.transforms import StackTransform as StackTransform
from jitgraph.torch.distributions.transforms import StickBreakingTransform as StickBreakingTransform
from jitgraph.torch.distributions.transforms import TanhTransform as TanhTransform
from jitgraph.torch.distributions.transforms import Transform as Transform
from jitgraph.torch.distributions.transforms import identity_transform as identity_transform

bernoulli = discrete
beta = positive
binomial = discrete
categorical = discrete
cauchy = continuous
chi2 = positive
dirichlet = positive
exponential = continuous
gamma = positive
geometric = discrete
gumbel = continuous
half_cauchy = continuous
half_normal = continuous
laplace = continuous
multinomial = discrete
multivariate_normal = multivariate
negative_binomial = discrete
normal = continuous
one_hot_categorical = discrete
poisson = discrete
uniform = continuous
