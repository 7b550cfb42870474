"""Linear layers, embeddings, paddings, dropout while evaluating, and what changes shapes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.models.case import LayerCase, labels, normal

IMAGE, SEQUENCE, VOLUME = normal(2, 4, 6, 5), normal(2, 4, 7), normal(2, 2, 4, 3, 5)
OF_RANK = {1: SEQUENCE, 2: IMAGE, 3: VOLUME}
WORDS = labels(7, 3, 4)
OFFSETS = np.array([0, 2, 2, 9])


def made(name: str, *argument: Any, x: Any, phase: str = "train", more: Any = (), **options: Any) -> LayerCase:
    words = ", ".join([*map(str, argument), *(f"{key}={value}" for key, value in options.items())])
    return LayerCase(
        f"{name}, {words}", lambda lib: getattr(lib.nn, name)(*argument, **options), (x, *more), mode=phase
    )


def weighted(lib: Any, module: Any, x: Any, weights: Any) -> Any:
    return module(x, per_sample_weights=weights)


def lazy(name: str, *argument: Any, x: Any, **options: Any) -> LayerCase:
    """A lazy layer after its first call."""

    def make(lib: Any) -> Any:
        layer = getattr(lib.nn, f"Lazy{name}")(*argument, **options)
        layer(lib.ones(x.shape))
        return layer

    return LayerCase(f"Lazy{name}", make, (x,))


CASES = [
    lazy("Linear", 3, x=normal(5, 4)),
    lazy("Conv1d", 4, 3, x=normal(2, 3, 6), padding=1),
    lazy("Conv2d", 4, 3, x=normal(2, 6, 5, 5), groups=2),
    lazy("Conv3d", 2, 2, x=normal(1, 3, 4, 4, 4)),
    lazy("ConvTranspose1d", 4, 3, x=normal(2, 3, 6)),
    lazy("ConvTranspose2d", 4, 3, x=normal(2, 6, 4, 4), stride=2, groups=2),
    lazy("ConvTranspose3d", 2, 2, x=normal(1, 3, 3, 3, 3)),
    lazy("BatchNorm1d", x=normal(5, 4)),
    lazy("BatchNorm2d", x=normal(3, 4, 5, 5)),
    lazy("BatchNorm3d", x=normal(3, 4, 2, 3, 3)),
    lazy("InstanceNorm1d", x=normal(3, 4, 5), affine=True, track_running_stats=True),
    lazy("InstanceNorm2d", x=normal(3, 4, 5, 5)),
    lazy("InstanceNorm3d", x=normal(3, 4, 2, 3, 3)),
    made("Linear", 4, 3, x=normal(5, 4)),
    made("Linear", 4, 3, x=normal(2, 5, 4), bias=False),
    made("Linear", 4, 3, x=normal(4)),
    made("Bilinear", 3, 4, 5, x=normal(2, 6, 3), more=(normal(2, 6, 4),)),
    made("Bilinear", 3, 4, 5, x=normal(6, 3), more=(normal(6, 4),), bias=False),
    LayerCase(
        "functional.bilinear", lambda lib: lib.nn.functional.bilinear, (normal(6, 3), normal(6, 4), normal(5, 3, 4))
    ),
    made("Identity", x=IMAGE),
    made("Identity", 3, x=IMAGE, anything=True),
    made("Flatten", x=IMAGE),
    made("Flatten", 0, 2, x=IMAGE),
    made("Unflatten", 1, (2, -1), x=IMAGE),
    made("Embedding", 7, 3, x=WORDS),
    made("Embedding", 7, 3, x=WORDS, padding_idx=2),
    made("Embedding", 7, 3, x=WORDS, padding_idx=-1, scale_grad_by_freq=True),
    made("Embedding", 7, 3, x=WORDS, max_norm=0.7),
    made("Embedding", 7, 3, x=WORDS, max_norm=0.7, norm_type=1.0),
    LayerCase(
        "functional.embedding, scale_grad_by_freq",
        lambda lib: lib.nn.functional.embedding,
        (WORDS, normal(7, 3) / 4),
        call=lambda lib, function, x, w: function(x, w, 2, None, 2.0, True),
    ),
    *(made("EmbeddingBag", 7, 3, x=WORDS, mode=mode) for mode in ("sum", "mean", "max")),
    *(made("EmbeddingBag", 7, 3, x=WORDS, mode=mode, padding_idx=4) for mode in ("sum", "mean", "max")),
    *(made("EmbeddingBag", 7, 3, x=WORDS.ravel(), more=(OFFSETS,), mode=mode) for mode in ("sum", "mean", "max")),
    made("EmbeddingBag", 7, 3, x=WORDS.ravel(), more=(np.array([0, 5, 12]),), mode="sum", include_last_offset=True),
    LayerCase(
        "EmbeddingBag, scale_grad_by_freq",
        lambda lib: lib.nn.EmbeddingBag(7, 3, mode="sum", scale_grad_by_freq=True),
        (WORDS,),
        reason="PyTorch divides some rows' gradients by how often another row is used",
    ),
    LayerCase(
        "EmbeddingBag, per_sample_weights",
        lambda lib: lib.nn.EmbeddingBag(7, 3, mode="sum"),
        (WORDS, normal(3, 4)),
        call=weighted,
    ),
    *(
        made(f"{kind}Pad{rank}d", 2 if kind != "Constant" else (1,) * (2 * rank), *more, x=OF_RANK[rank])
        for (kind, more), rank in product(
            (("Zero", ()), ("Constant", (3.5,)), ("Reflection", ()), ("Replication", ()), ("Circular", ())), (1, 2, 3)
        )
    ),
    made("ZeroPad2d", (1, -2, 0, 3), x=IMAGE),
    made("ReflectionPad2d", (1, 0, 2, 3), x=IMAGE),
    *(made(f"Dropout{rank}d", 0.4, x=OF_RANK[rank], phase="eval") for rank in (1, 2, 3)),
    made("Dropout2d", 0.0, x=IMAGE),
    *(made(name, 0.4, x=IMAGE, phase="eval") for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout")),
    made("Upsample", x=IMAGE, scale_factor=2),
    made("Upsample", x=IMAGE, scale_factor=(1.5, 2.0), mode="nearest-exact"),
    made("Upsample", x=IMAGE, size=(9, 4), mode="bilinear"),
    made("Upsample", x=SEQUENCE, scale_factor=1.5, mode="linear", align_corners=True),
    made("Upsample", x=VOLUME, size=(5, 6, 7), mode="trilinear"),
    made("Upsample", x=IMAGE, scale_factor=2.0, mode="bicubic"),
    made("UpsamplingNearest2d", x=IMAGE, scale_factor=3),
    made("UpsamplingBilinear2d", x=IMAGE, size=(8, 9)),
    made("PixelShuffle", 2, x=IMAGE),
    made("PixelUnshuffle", 2, x=normal(2, 3, 4, 6)),
    made("ChannelShuffle", 2, x=IMAGE),
    made("Unfold", (2, 3), x=IMAGE, padding=1, stride=2, dilation=(1, 2)),
    made("Fold", (5, 6), (2, 3), x=normal(2, 12, 16)),
]
