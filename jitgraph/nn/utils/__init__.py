"""What PyTorch keeps in ``nn.utils``; ``parametrize`` and what is made of it load when they are first used."""

from typing import TYPE_CHECKING, Final

from jitgraph.nn.utils import rnn
from jitgraph.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, get_total_norm
from jitgraph.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.nn.utils import fusion, parametrizations, parametrize
    from jitgraph.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from jitgraph.nn.utils.parametrizations import spectral_norm, weight_norm

_FUSIONS: Final = ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights")

__getattr__ = imports.attributes(
    __name__,
    {"parametrize": "parametrize"}
    | dict.fromkeys(("parametrizations", "spectral_norm", "weight_norm"), "parametrizations")
    | dict.fromkeys(("fusion", *_FUSIONS), "fusion"),
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "fusion",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
