"""The models of ``bench/models.py``, each written once for both libraries: encoder, ResNet-18, LSTM and GPT.

``short`` gives the same shapes in sizes that a rehearsal can pay for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.eager_models import Library, Model, draw, gpt, labels


def _encoder(lib: Library, *, short: bool) -> Model:
    """Six layers, 384 wide, of 12 heads, over embedded words; the mean over the places is classified."""
    nn = lib.nn
    layers, width, heads, batch, length, words = (2, 24, 2, 2, 8, 31) if short else (6, 384, 12, 4, 64, 1000)

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            x = self.layers(self.words(x) + self.places(lib.arange(x.shape[1])))
            return self.head(x.mean(1))

    return Encoder(), [labels(words, batch, length), labels(10, batch)]


def _resnet(lib: Library, *, short: bool) -> Model:
    """He et al. 2016, table 1, 18 layers: a wide convolution, a pooling, four stages of two blocks."""
    nn = lib.nn
    width, batch, side = (4, 8, 32) if short else (64, 8, 64)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, argument: int, result: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(argument, result, 3, stride, 1, bias=False), nn.BatchNorm2d(result)
            self.conv2, self.bn2 = nn.Conv2d(result, result, 3, 1, 1, bias=False), nn.BatchNorm2d(result)
            self.downsample = None
            if stride != 1 or argument != result:
                self.downsample = nn.Sequential(
                    nn.Conv2d(argument, result, 1, stride, bias=False), nn.BatchNorm2d(result)
                )

        def forward(self, x: Any) -> Any:
            result = self.bn2(self.conv2(lib.functional.relu(self.bn1(self.conv1(x)))))
            return lib.functional.relu(result + (x if self.downsample is None else self.downsample(x)))

    stages = [Block(width << max(0, n - 1), width << n, 1 if n == 0 else 2) for n in range(4)]
    blocks = [block for n, first in enumerate(stages) for block in (first, Block(width << n, width << n, 1))]
    stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))
    return model, [draw(batch, 3, side, side), labels(10, batch)]


def _lstm(lib: Library, *, short: bool) -> Model:
    """A language model: embedded words, two layers of LSTM, and a head for each word."""
    nn = lib.nn
    width, batch, length, words = (8, 2, 5, 31) if short else (256, 16, 32, 1000)

    class Lstm(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.walk, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            return self.head(self.walk(self.words(x))[0]).reshape(-1, words)

    return Lstm(), [labels(words, batch, length), labels(words, batch * length)]


def _gpt(lib: Library, *, short: bool) -> Model:
    """Four layers, 256 wide."""
    return gpt(lib, *((16, 2, 2, 31) if short else (256, 8, 4, 512)))


MODELS: dict[str, Callable[..., Model]] = {"encoder": _encoder, "resnet": _resnet, "lstm": _lstm, "gpt": _gpt}
OPTIMIZERS: dict[str, tuple[str, dict[str, float]]] = {
    "encoder": ("AdamW", {"lr": 1e-4}),
    "resnet": ("SGD", {"lr": 0.01, "momentum": 0.9}),
    "lstm": ("Adam", {"lr": 1e-3}),
    "gpt": ("AdamW", {"lr": 1e-3}),
}
