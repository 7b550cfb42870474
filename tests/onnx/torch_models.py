"""Models that PyTorch's own exporter writes as ONNX: the arguments, and how each is exported.

The models are those of ``tests.torch.export.models``, and more that ONNX alone has: dynamic axes, control flow, the
exporter of TorchScript at old operator sets, float16, and quantised weights.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from tests.torch.export.models import MODELS
from tests.torch.export.test_models import prepared

LEGACY = {
    "mlp": 11,
    "cnn": 12,
    "residual_network": 13,
    "u_net": 14,
    "lstm_tagger": 15,
    "gru_tagger": 16,
    "transformer_encoder": 17,
    "tv_mobilenet_v3": 18,
    "tv_squeezenet": 19,
    "tv_vit": 20,
}
"""Models that the exporter of TorchScript writes, too, and the operator set."""


REFUSED = ("in_place", "losses", "hf_t5")
"""Models that PyTorch does not export as ONNX, or not as they are: label smoothing is left out."""


UNFOLDED = ("char_rnn",)
"""Models whose first step, from zeros, the exporter computes: weights have other gradients then."""


class Exported(NamedTuple):
    """A model of PyTorch, its arguments, and the ONNX file."""

    model: nn.Module
    args: tuple[torch.Tensor, ...]
    file: bytes


def exported(model: nn.Module, args: tuple[Any, ...], opset: int | None = None, **how: Any) -> bytes:
    """The ONNX file of a model: by PyTorch's exporter, or with ``opset`` by the one of TorchScript."""
    file = io.BytesIO()
    with warnings.catch_warnings(), _silent():
        warnings.simplefilter("ignore")
        if opset is None:
            program = torch.onnx.export(model, args, dynamo=True, verbose=False, **how)
            program.save(file)
        else:
            torch.onnx.export(model, args, file, dynamo=False, opset_version=opset, **how)
    return file.getvalue()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def listed(name: str) -> Exported:
    """One of the models of ``tests.torch.export``, at rest."""
    model, args = _at_rest(name)
    return Exported(model, args, exported(model, args, optimize=name not in UNFOLDED))


def legacy(name: str) -> Exported:
    """The same by the exporter of TorchScript."""
    model, args = _at_rest(name)
    return Exported(model, args, exported(model, args, LEGACY[name]))


def _at_rest(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    model, args = prepared(name)
    return model.eval().float(), tuple(arg.float() if arg.is_floating_point() else arg for arg in args)


# ----------------------------------------------------------------------
# What ONNX alone has.


class Detector(nn.Module):
    """A head over an image's cells: the best boxes, decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.SiLU())
        self.scores, self.boxes = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features = functional.interpolate(self.body(x), scale_factor=2.0, mode="bilinear")
        scores = self.scores(features).flatten(2).transpose(1, 2).sigmoid()
        boxes = self.boxes(features).flatten(2).transpose(1, 2)
        best, labels = scores.max(-1)
        top, index = torch.topk(best, 5)
        chosen = torch.gather(boxes, 1, index.unsqueeze(-1).expand(-1, -1, 4))
        centre, size = chosen[..., :2], chosen[..., 2:].exp()
        return torch.cat([centre - size / 2, centre + size / 2], -1), top, torch.gather(labels, 1, index)


class Choice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: self.left(y).tanh(), lambda y: self.right(y).sin(), (x,))


class Sequence(nn.Module):
    """Tokens of any number: a transformer with a causal mask and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(64, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 30)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        mask = torch.full((tokens.shape[1], tokens.shape[1]), float("-inf")).triu(1)
        y, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        return self.head(self.norm(x + y))


OWN: dict[str, Callable[[], Exported]] = {}


def _own(build: Callable[[], Exported]) -> Callable[[], Exported]:
    OWN[build.__name__] = build
    return build


def _made(model: nn.Module, *args: torch.Tensor, **how: Any) -> Exported:
    model.eval()
    return Exported(model, args, exported(model, args, **how))


@_own
def detector() -> Exported:
    return _made(Detector(), torch.randn(2, 3, 32, 32))


@_own
def choice() -> Exported:
    return _made(Choice(), torch.randn(3, 4).abs())


@_own
def other_choice() -> Exported:
    return _made(Choice(), -torch.randn(3, 4).abs())


@_own
def dynamic_batch() -> Exported:
    batch = torch.export.Dim("batch", min=2)
    return _made(nn.Sequential(*MODELS["cnn"]()[0]), torch.randn(3, 1, 12, 12), dynamic_shapes=({0: batch},))


@_own
def dynamic_tokens() -> Exported:
    axes = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("length", min=2, max=64)}
    return _made(Sequence(), torch.randint(0, 30, (2, 9)), dynamic_shapes=(axes,))


@_own
def legacy_dynamic_lstm() -> Exported:
    model, args = prepared("lstm_tagger")
    axes = {"tokens": {0: "batch", 1: "length"}}
    return _made(model, *args, opset=17, input_names=["tokens"], dynamic_axes=axes)


NAMES = [
    *(name for name in MODELS if name not in REFUSED),
    *(f"legacy_{name}" for name in LEGACY if name in MODELS),
    *OWN,
]


def made(name: str) -> Exported:
    """A model by its name, with the same weights at each call."""
    torch.manual_seed(0)
    if name in OWN:
        return OWN[name]()
    return legacy(name.removeprefix("legacy_")) if name.startswith("legacy_") else listed(name)
