"""The names of ``jitgraph.optim``, and where each is defined."""

from jitgraph.optim import lr_scheduler as lr_scheduler
from jitgraph.optim import swa_utils as swa_utils
from jitgraph.optim.adadelta import Adadelta as Adadelta
from jitgraph.optim.adafactor import Adafactor as Adafactor
from jitgraph.optim.adagrad import Adagrad as Adagrad
from jitgraph.optim.adam import Adam as Adam
from jitgraph.optim.adam import Adamax as Adamax
from jitgraph.optim.adam import AdamW as AdamW
from jitgraph.optim.adam import NAdam as NAdam
from jitgraph.optim.adam import RAdam as RAdam
from jitgraph.optim.asgd import ASGD as ASGD
from jitgraph.optim.lbfgs import LBFGS as LBFGS
from jitgraph.optim.lion import Lion as Lion
from jitgraph.optim.muon import Muon as Muon
from jitgraph.optim.optimizer import Optimizer as Optimizer
from jitgraph.optim.rmsprop import RMSprop as RMSprop
from jitgraph.optim.rprop import Rprop as Rprop
from jitgraph.optim.sgd import SGD as SGD
