"""The names of ``torch.nn.utils``, and where each is defined."""

from jitgraph.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from jitgraph.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from jitgraph.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from jitgraph.nn.utils.clip_grad import get_total_norm as get_total_norm
from jitgraph.nn.utils.vectors import parameters_to_vector as parameters_to_vector
from jitgraph.torch.nn.utils import fusion as fusion
from jitgraph.torch.nn.utils import init as init
from jitgraph.torch.nn.utils import parametrizations as parametrizations
from jitgraph.torch.nn.utils import parametrize as parametrize
from jitgraph.torch.nn.utils import prune as prune
from jitgraph.torch.nn.utils import rnn as rnn
from jitgraph.torch.nn.utils import stateless as stateless
from jitgraph.torch.nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from jitgraph.torch.nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from jitgraph.torch.nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from jitgraph.torch.nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from jitgraph.torch.nn.utils.init import skip_init as skip_init
from jitgraph.torch.nn.utils.memory_format import (
    convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format,
)
from jitgraph.torch.nn.utils.memory_format import (
    convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format,
)
from jitgraph.torch.nn.utils.older_names import clip_grad_norm as clip_grad_norm
from jitgraph.torch.nn.utils.older_names import remove_spectral_norm as remove_spectral_norm
from jitgraph.torch.nn.utils.older_names import remove_weight_norm as remove_weight_norm
from jitgraph.torch.nn.utils.older_names import spectral_norm as spectral_norm
from jitgraph.torch.nn.utils.older_names import weight_norm as weight_norm
from jitgraph.torch.nn.utils.vectors import vector_to_parameters as vector_to_parameters
