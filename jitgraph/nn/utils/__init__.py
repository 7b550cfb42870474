"""What PyTorch keeps in ``nn.utils``; ``parametrize`` and what is made of it load when they are first used."""

from typing import TYPE_CHECKING, Any, Final

from jitgraph import migration_hints
from jitgraph.nn.utils import rnn
from jitgraph.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
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

_LATER: Final = (
    {"parametrize": "parametrize"}
    | dict.fromkeys(("parametrizations", "spectral_norm", "weight_norm"), "parametrizations")
    | dict.fromkeys(("fusion", *_FUSIONS), "fusion")
)
_later = imports.attributes(__name__, _LATER)


__dir__ = imports.listing(__name__)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return _later(name)
    hint = migration_hints.advice(name, migration_hints.UTILS)
    raise AttributeError(f"module 'jitgraph.nn.utils' has no attribute {name!r}{hint}")


__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
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
