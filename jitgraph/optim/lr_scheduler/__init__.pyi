"""The names of ``jitgraph.optim.lr_scheduler``, and where each is defined."""

from jitgraph.optim.lr_scheduler.base import LRScheduler as LRScheduler
from jitgraph.optim.lr_scheduler.composed import ChainedScheduler as ChainedScheduler
from jitgraph.optim.lr_scheduler.composed import SequentialLR as SequentialLR
from jitgraph.optim.lr_scheduler.cycles import CosineAnnealingLR as CosineAnnealingLR
from jitgraph.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from jitgraph.optim.lr_scheduler.cycles import CyclicLR as CyclicLR
from jitgraph.optim.lr_scheduler.cycles import OneCycleLR as OneCycleLR
from jitgraph.optim.lr_scheduler.decays import ConstantLR as ConstantLR
from jitgraph.optim.lr_scheduler.decays import ExponentialLR as ExponentialLR
from jitgraph.optim.lr_scheduler.decays import LinearLR as LinearLR
from jitgraph.optim.lr_scheduler.decays import MultiStepLR as MultiStepLR
from jitgraph.optim.lr_scheduler.decays import PolynomialLR as PolynomialLR
from jitgraph.optim.lr_scheduler.decays import StepLR as StepLR
from jitgraph.optim.lr_scheduler.functions import LambdaLR as LambdaLR
from jitgraph.optim.lr_scheduler.functions import MultiplicativeLR as MultiplicativeLR
from jitgraph.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
