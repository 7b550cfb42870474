"""``torch.optim.swa_utils``: averages of weights."""

from jitgraph.optim import swa_utils as _averages
from jitgraph.optim.swa_utils import SWALR as SWALR
from jitgraph.optim.swa_utils import get_ema_avg_fn as get_ema_avg_fn
from jitgraph.optim.swa_utils import get_ema_multi_avg_fn as get_ema_multi_avg_fn
from jitgraph.optim.swa_utils import get_swa_avg_fn as get_swa_avg_fn
from jitgraph.optim.swa_utils import get_swa_multi_avg_fn as get_swa_multi_avg_fn
from jitgraph.optim.swa_utils import update_bn as update_bn
from jitgraph.torch.nn.module import layer

AveragedModel = layer(_averages.AveragedModel)
AveragedModel.__module__ = __name__
