"""The names of ``torch.nn.functional``, and where each is defined."""

from jitgraph.nn.functional import *
from jitgraph.torch.nn.functional.own_forms import affine_grid as affine_grid
from jitgraph.torch.nn.functional.own_forms import alpha_dropout as alpha_dropout
from jitgraph.torch.nn.functional.own_forms import avg_pool2d as avg_pool2d
from jitgraph.torch.nn.functional.own_forms import avg_pool3d as avg_pool3d
from jitgraph.torch.nn.functional.own_forms import conv1d as conv1d
from jitgraph.torch.nn.functional.own_forms import conv2d as conv2d
from jitgraph.torch.nn.functional.own_forms import conv3d as conv3d
from jitgraph.torch.nn.functional.own_forms import conv_transpose1d as conv_transpose1d
from jitgraph.torch.nn.functional.own_forms import conv_transpose2d as conv_transpose2d
from jitgraph.torch.nn.functional.own_forms import conv_transpose3d as conv_transpose3d
from jitgraph.torch.nn.functional.own_forms import dropout as dropout
from jitgraph.torch.nn.functional.own_forms import dropout1d as dropout1d
from jitgraph.torch.nn.functional.own_forms import dropout2d as dropout2d
from jitgraph.torch.nn.functional.own_forms import dropout3d as dropout3d
from jitgraph.torch.nn.functional.own_forms import feature_alpha_dropout as feature_alpha_dropout
from jitgraph.torch.nn.functional.own_forms import gelu as gelu
from jitgraph.torch.nn.functional.own_forms import hardshrink as hardshrink
from jitgraph.torch.nn.functional.own_forms import hinge_embedding_loss as hinge_embedding_loss
from jitgraph.torch.nn.functional.own_forms import huber_loss as huber_loss
from jitgraph.torch.nn.functional.own_forms import kl_div as kl_div
from jitgraph.torch.nn.functional.own_forms import l1_loss as l1_loss
from jitgraph.torch.nn.functional.own_forms import linear as linear
from jitgraph.torch.nn.functional.own_forms import linear_cross_entropy as linear_cross_entropy
from jitgraph.torch.nn.functional.own_forms import log_softmax as log_softmax
from jitgraph.torch.nn.functional.own_forms import logsigmoid as logsigmoid
from jitgraph.torch.nn.functional.own_forms import mse_loss as mse_loss
from jitgraph.torch.nn.functional.own_forms import native_channel_shuffle as native_channel_shuffle
from jitgraph.torch.nn.functional.own_forms import normalize as normalize
from jitgraph.torch.nn.functional.own_forms import poisson_nll_loss as poisson_nll_loss
from jitgraph.torch.nn.functional.own_forms import smooth_l1_loss as smooth_l1_loss
from jitgraph.torch.nn.functional.own_forms import soft_margin_loss as soft_margin_loss
from jitgraph.torch.nn.functional.own_forms import softmax as softmax
from jitgraph.torch.nn.functional.own_forms import softmin as softmin
from jitgraph.torch.nn.functional.own_forms import softplus as softplus
from jitgraph.torch.nn.functional.own_forms import softshrink as softshrink
