"""The names of ``jitgraph.optim.lr_scheduler``, and where each is defined."""

from jitgraph.optim.lr_scheduler.base import LRScheduler as LRScheduler
from jitgraph.optim.lr_scheduler.composed import ChainedScheduler as ChainedScheduler
from jitgraph.optim.lr_scheduler.composed import ReduceLROnPlateau as ReduceLROnPlateau
from jitgraph.optim.lr_scheduler.composed import SequentialLR as SequentialLR
from jitgraph.optim.lr_scheduler.cycles import CosineAnnealingLR as CosineAnnealingLR
from jitgraph.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from jitgraph.optim.lr_scheduler.cycles import CyclicLR as CyclicLR
from jitgraph.optim.lr_scheduler.cycles import OneCycleLR as OneCycleLR
from jitgraph.optim.lr_scheduler.factors import ConstantLR as ConstantLR
from jitgraph.optim.lr_scheduler.factors import ExponentialLR as ExponentialLR
from jitgraph.optim.lr_scheduler.factors import LambdaLR as LambdaLR
from jitgraph.optim.lr_scheduler.factors import LinearLR as LinearLR
from jitgraph.optim.lr_scheduler.factors import MultiplicativeLR as MultiplicativeLR
from jitgraph.optim.lr_scheduler.factors import MultiStepLR as MultiStepLR
from jitgraph.optim.lr_scheduler.factors import PolynomialLR as PolynomialLR
from jitgraph.optim.lr_scheduler.factors import StepLR as StepLR
