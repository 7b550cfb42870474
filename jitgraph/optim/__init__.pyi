"""The names of ``jitgraph.optim``, and where each is defined."""

from jitgraph.optim import lr_scheduler as lr_scheduler
from jitgraph.optim import swa_utils as swa_utils
from jitgraph.optim.adam import Adam as Adam
from jitgraph.optim.adam import Adamax as Adamax
from jitgraph.optim.adam import AdamW as AdamW
from jitgraph.optim.adam import NAdam as NAdam
from jitgraph.optim.adam import RAdam as RAdam
from jitgraph.optim.adaptive import Adadelta as Adadelta
from jitgraph.optim.adaptive import Adafactor as Adafactor
from jitgraph.optim.adaptive import Adagrad as Adagrad
from jitgraph.optim.adaptive import RMSprop as RMSprop
from jitgraph.optim.adaptive import Rprop as Rprop
from jitgraph.optim.gradient_descent import ASGD as ASGD
from jitgraph.optim.gradient_descent import SGD as SGD
from jitgraph.optim.gradient_descent import Lion as Lion
from jitgraph.optim.gradient_descent import Muon as Muon
from jitgraph.optim.lbfgs import LBFGS as LBFGS
from jitgraph.optim.optimizer import Optimizer as Optimizer
