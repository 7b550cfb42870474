"""Neural network modules, in PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jitgraph import migration_hints
from jitgraph.nn import functional, init, utils
from jitgraph.nn.containers import ModuleList, Sequential
from jitgraph.nn.embeddings import Embedding, EmbeddingBag
from jitgraph.nn.layers import Linear
from jitgraph.nn.module import Module, Parameter
from jitgraph.nn.module import ModuleBuffer as Buffer
from jitgraph.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
from jitgraph.nn.stateless import (
    ELU,
    GELU,
    Dropout,
    Flatten,
    Identity,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.nn.activations import (
        CELU,
        GLU,
        SELU,
        Hardshrink,
        Hardsigmoid,
        Hardswish,
        Hardtanh,
        Mish,
        PReLU,
        RReLU,
        Softmax2d,
        Softmin,
        Softshrink,
        Softsign,
        Tanhshrink,
        Threshold,
    )
    from jitgraph.nn.adaptive_softmax import (
        AdaptiveLogSoftmaxWithLoss,
    )
    from jitgraph.nn.attention import (
        MultiheadAttention,
    )
    from jitgraph.nn.convolution import (
        Conv1d,
        Conv2d,
        Conv3d,
        ConvTranspose1d,
        ConvTranspose2d,
        ConvTranspose3d,
    )
    from jitgraph.nn.dictionaries import (
        ModuleDict,
        ParameterDict,
        ParameterList,
    )
    from jitgraph.nn.dropouts import (
        AlphaDropout,
        Dropout1d,
        Dropout2d,
        Dropout3d,
        FeatureAlphaDropout,
    )
    from jitgraph.nn.fractional_pooling import (
        FractionalMaxPool2d,
        FractionalMaxPool3d,
    )
    from jitgraph.nn.lazy import (
        LazyBatchNorm1d,
        LazyBatchNorm2d,
        LazyBatchNorm3d,
        LazyConv1d,
        LazyConv2d,
        LazyConv3d,
        LazyConvTranspose1d,
        LazyConvTranspose2d,
        LazyConvTranspose3d,
        LazyInstanceNorm1d,
        LazyInstanceNorm2d,
        LazyInstanceNorm3d,
        LazyLinear,
    )
    from jitgraph.nn.losses import (
        BCELoss,
        BCEWithLogitsLoss,
        CosineEmbeddingLoss,
        CosineSimilarity,
        CrossEntropyLoss,
        CTCLoss,
        GaussianNLLLoss,
        HingeEmbeddingLoss,
        HuberLoss,
        KLDivLoss,
        L1Loss,
        MarginRankingLoss,
        MSELoss,
        MultiLabelMarginLoss,
        MultiLabelSoftMarginLoss,
        MultiMarginLoss,
        NLLLoss,
        NLLLoss2d,
        PairwiseDistance,
        PoissonNLLLoss,
        SmoothL1Loss,
        SoftMarginLoss,
        TripletMarginLoss,
        TripletMarginWithDistanceLoss,
    )
    from jitgraph.nn.paddings import (
        CircularPad1d,
        CircularPad2d,
        CircularPad3d,
        ConstantPad1d,
        ConstantPad2d,
        ConstantPad3d,
        ReflectionPad1d,
        ReflectionPad2d,
        ReflectionPad3d,
        ReplicationPad1d,
        ReplicationPad2d,
        ReplicationPad3d,
        ZeroPad1d,
        ZeroPad2d,
        ZeroPad3d,
    )
    from jitgraph.nn.pooling import (
        AdaptiveAvgPool1d,
        AdaptiveAvgPool2d,
        AdaptiveAvgPool3d,
        AdaptiveMaxPool1d,
        AdaptiveMaxPool2d,
        AdaptiveMaxPool3d,
        AvgPool1d,
        AvgPool2d,
        AvgPool3d,
        LPPool1d,
        LPPool2d,
        LPPool3d,
        MaxPool1d,
        MaxPool2d,
        MaxPool3d,
        MaxUnpool1d,
        MaxUnpool2d,
        MaxUnpool3d,
    )
    from jitgraph.nn.recurrent import (
        GRU,
        LSTM,
        RNN,
        GRUCell,
        LSTMCell,
        RNNCell,
    )
    from jitgraph.nn.shapes import (
        Bilinear,
        ChannelShuffle,
        Fold,
        PixelShuffle,
        PixelUnshuffle,
        Unflatten,
        Unfold,
        Upsample,
        UpsamplingBilinear2d,
        UpsamplingNearest2d,
    )
    from jitgraph.nn.summaries import (
        summary,
    )
    from jitgraph.nn.transformer import (
        Transformer,
        TransformerDecoder,
        TransformerDecoderLayer,
        TransformerEncoder,
        TransformerEncoderLayer,
    )

_LATER: Final[dict[str, str]] = {  # module -> its classes, which load when one of them is first used
    "transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
    "adaptive_softmax": "AdaptiveLogSoftmaxWithLoss",
    "attention": "MultiheadAttention",
    "fractional_pooling": "FractionalMaxPool2d FractionalMaxPool3d",
    "summaries": "summary",
    "recurrent": "GRU GRUCell LSTM LSTMCell RNN RNNCell",
    "dictionaries": "ModuleDict ParameterDict ParameterList",
    "shapes": (
        "Bilinear ChannelShuffle Fold PixelShuffle PixelUnshuffle Unflatten Unfold Upsample UpsamplingBilinear2d "
        "UpsamplingNearest2d"
    ),
    "paddings": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
        "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
        "ZeroPad3d"
    ),
    "lazy": (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d "
        "LazyLinear LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
    ),
    "dropouts": "AlphaDropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
        "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d "
        "MaxUnpool2d MaxUnpool3d"
    ),
    "activations": (
        "CELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh Mish PReLU RReLU Softmax2d Softmin Softshrink "
        "Softsign Tanhshrink Threshold"
    ),
    "losses": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss GaussianNLLLoss "
        "HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss "
        "MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d PairwiseDistance PoissonNLLLoss SmoothL1Loss "
        "SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss"
    ),
}
_MODULE_OF: Final = {name: module for module, names in _LATER.items() for name in names.split()}
_later = imports.attributes(__name__, _MODULE_OF)

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Buffer",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTMCell",
    "LayerNorm",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LeakyReLU",
    "Linear",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "NLLLoss2d",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "functional",
    "init",
    "summary",
    "utils",
]


__dir__ = imports.listing(__name__)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return _later(name)
    hint = migration_hints.advice(name, migration_hints.NN)
    raise AttributeError(f"module 'jitgraph.nn' has no attribute {name!r}{hint}")
