"""The names of ``jitgraph.nn.utils``, and where each is defined."""

from jitgraph.nn.utils import fusion as fusion
from jitgraph.nn.utils import parametrizations as parametrizations
from jitgraph.nn.utils import parametrize as parametrize
from jitgraph.nn.utils import rnn as rnn
from jitgraph.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from jitgraph.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from jitgraph.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from jitgraph.nn.utils.clip_grad import get_total_norm as get_total_norm
from jitgraph.nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from jitgraph.nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from jitgraph.nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from jitgraph.nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from jitgraph.nn.utils.parametrizations import spectral_norm as spectral_norm
from jitgraph.nn.utils.parametrizations import weight_norm as weight_norm
from jitgraph.nn.utils.vectors import parameters_to_vector as parameters_to_vector
from jitgraph.nn.utils.vectors import vector_to_parameters as vector_to_parameters
