"""Networks of several layers of ``nn``, small, for training steps on the CPU and on GPUs."""

from __future__ import annotations

from typing import Any

import jitgraph as jg

nn, functional = jg.nn, jg.nn.functional


class Attending(nn.Module):
    """Words and places embedded, layers of attention and two linear ones, and a head."""

    def __init__(self, words: int, length: int, width: int, classes: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0, "gelu", batch_first=True, norm_first=causal)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width) if causal else None)
        self.head = nn.Linear(width, classes)

    def forward(self, words: Any) -> Any:
        """Scores of each next word, or without ``causal`` those of each sequence."""
        x = self.words(words) + self.places(jg.arange(words.shape[1], device=words.device))
        x = self.layers(x, is_causal=self.causal)
        return self.head(x).reshape(-1, self.head.out_features) if self.causal else self.head(x.mean(axis=1))


class Residual(nn.Module):
    """Two convolutions with batch norms, and the input, or what a convolution makes of it, added."""

    def __init__(self, argument: int, result: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(argument, result, 3, stride, 1, bias=False), nn.BatchNorm2d(result)
        self.conv2, self.bn2 = nn.Conv2d(result, result, 3, 1, 1, bias=False), nn.BatchNorm2d(result)
        self.downsample = None
        if stride != 1 or argument != result:
            self.downsample = nn.Sequential(nn.Conv2d(argument, result, 1, stride, bias=False), nn.BatchNorm2d(result))

    def forward(self, x: Any) -> Any:
        """He et al. 2016, figure 2."""
        result = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(result + (x if self.downsample is None else self.downsample(x)))


def residual(width: int) -> nn.Module:
    """A stem with a pooling, a block of each kind, a head."""
    stem = [nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [Residual(width, width, 1), Residual(width, 2 * width, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 5))


class LanguageModel(nn.Module):
    """Embedded words, two layers of LSTM, a head for each word."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.walk, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, words)

    def forward(self, words: Any) -> Any:
        """Scores of each next word."""
        return self.head(self.walk(self.words(words))[0]).reshape(-1, self.head.out_features)
