"""The names of ``torch.optim``, and where each is defined."""

from jitgraph.optim import *
from jitgraph.torch.optim import lr_scheduler as lr_scheduler  # type: ignore[no-redef]
from jitgraph.torch.optim import swa_utils as swa_utils  # type: ignore[no-redef]
from jitgraph.torch.optim.optimizer import Optimizer as Optimizer
