"""Functions of layers in PyTorch's names and argument order; ``dim`` may be written ``axis``, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jitgraph import migration_hints
from jitgraph.nn.functional.activation import (
    celu,
    celu_,
    dropout,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from jitgraph.nn.functional.folding import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from jitgraph.nn.functional.linear import (
    bilinear,
    conv1d,
    conv2d,
    conv3d,
    embedding,
    linear,
    scaled_dot_product_attention,
)
from jitgraph.nn.functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from jitgraph.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    pad,
)
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.nn.functional.adaptive_pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool2d,
        adaptive_max_pool3d,
    )
    from jitgraph.nn.functional.bags import (
        embedding_bag,
    )
    from jitgraph.nn.functional.classification_losses import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
        cross_entropy,
        multi_margin_loss,
        multilabel_margin_loss,
        multilabel_soft_margin_loss,
        nll_loss,
        one_hot,
        soft_margin_loss,
    )
    from jitgraph.nn.functional.ctc import (
        ctc_loss,
    )
    from jitgraph.nn.functional.dropouts import (
        alpha_dropout,
        dropout1d,
        dropout2d,
        dropout3d,
        feature_alpha_dropout,
    )
    from jitgraph.nn.functional.fractional_pooling import (
        fractional_max_pool2d,
        fractional_max_pool3d,
    )
    from jitgraph.nn.functional.grid_sampling import affine_grid, grid_sample
    from jitgraph.nn.functional.interpolation import interpolate
    from jitgraph.nn.functional.multi_head import multi_head_attention_forward
    from jitgraph.nn.functional.other_names import (
        adaptive_max_pool1d_with_indices,
        adaptive_max_pool2d_with_indices,
        adaptive_max_pool3d_with_indices,
        conv_tbc,
        fractional_max_pool2d_with_indices,
        fractional_max_pool3d_with_indices,
        linear_cross_entropy,
        max_pool1d_with_indices,
        max_pool2d_with_indices,
        max_pool3d_with_indices,
        upsample,
        upsample_bilinear,
        upsample_nearest,
    )
    from jitgraph.nn.functional.ranking_losses import (
        cosine_embedding_loss,
        cosine_similarity,
        hinge_embedding_loss,
        margin_ranking_loss,
        pairwise_distance,
        pdist,
        triplet_margin_loss,
        triplet_margin_with_distance_loss,
    )
    from jitgraph.nn.functional.regression_losses import (
        gaussian_nll_loss,
        huber_loss,
        kl_div,
        l1_loss,
        mse_loss,
        poisson_nll_loss,
        smooth_l1_loss,
    )
    from jitgraph.nn.functional.transposed_convolution import (
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )

_LATER: Final[dict[str, str]] = {  # family -> its functions, which load when one of them is first used
    "ctc": "ctc_loss",
    "fractional_pooling": "fractional_max_pool2d fractional_max_pool3d",
    "dropouts": "alpha_dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
    "bags": "embedding_bag",
    "multi_head": "multi_head_attention_forward",
    "other_names": (
        "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices conv_tbc "
        "fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices linear_cross_entropy "
        "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices upsample upsample_bilinear "
        "upsample_nearest"
    ),
    "grid_sampling": "affine_grid grid_sample",
    "interpolation": "interpolate",
    "transposed_convolution": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "adaptive_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d"
    ),
    "classification_losses": (
        "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy multi_margin_loss multilabel_margin_loss "
        "multilabel_soft_margin_loss nll_loss one_hot soft_margin_loss"
    ),
    "regression_losses": "gaussian_nll_loss huber_loss kl_div l1_loss mse_loss poisson_nll_loss smooth_l1_loss",
    "ranking_losses": (
        "cosine_embedding_loss cosine_similarity hinge_embedding_loss margin_ranking_loss pairwise_distance pdist "
        "triplet_margin_loss triplet_margin_with_distance_loss"
    ),
}
_FAMILY_OF: Final = {name: family for family, names in _LATER.items() for name in names.split()}

_later = imports.attributes(__name__, _FAMILY_OF)


__dir__ = imports.listing(__name__)


def __getattr__(name: str) -> Any:
    if name in _FAMILY_OF:
        return _later(name)
    hint = migration_hints.advice(name, migration_hints.FUNCTIONAL)
    raise AttributeError(f"module 'jitgraph.nn.functional' has no attribute {name!r}{hint}")


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]
