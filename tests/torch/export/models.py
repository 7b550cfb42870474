"""Small models of PyTorch with random weights: written here, and those of torchvision, timm and transformers.

Each is a function that gives the model and example arguments; those of packages that are missing are left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Case = tuple[nn.Module, tuple[Any, ...]]
MODELS: dict[str, Callable[[], Case]] = {}


def model(build: Callable[[], Case]) -> Callable[[], Case]:
    """Register a model by its function's name."""
    MODELS[build.__name__] = build
    return build


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


# ----------------------------------------------------------------------
# Written here.


@model
def mlp() -> Case:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 4), nn.LogSoftmax(-1)), (
        torch.randn(5, 8),
    )


@model
def cnn() -> Case:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, groups=4),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    ), (torch.randn(3, 1, 12, 12),)


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.down = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu_(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.down(x)
        return functional.relu(y, inplace=True)


@model
def residual_network() -> Case:
    return nn.Sequential(
        Block(3, 8, 2), Block(8, 8, 1), nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(), nn.Linear(16, 5)
    ), (torch.randn(4, 3, 16, 16),)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.inner = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.InstanceNorm2d(8), nn.Mish())
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.down(x)
        y = self.up(self.inner(skip))
        y = functional.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)[:, :, ::2, ::2]
        return self.out(torch.cat([skip, y], 1))


@model
def u_net() -> Case:
    return UNet(), (torch.randn(2, 3, 8, 8),)


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc = nn.Linear(12, 8)
        self.mu, self.logvar = nn.Linear(8, 3), nn.Linear(8, 3)
        self.dec = nn.Sequential(nn.Linear(3, 8), nn.ELU(), nn.Linear(8, 12), nn.Sigmoid())

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> dict[str, torch.Tensor]:
        h = torch.tanh(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        out = self.dec(mu + noise * (logvar * 0.5).exp())
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return {"out": out, "loss": functional.binary_cross_entropy(out, x, reduction="sum") + kl}


@model
def vae() -> Case:
    return VAE(), (torch.rand(4, 12), torch.randn(4, 3))


class Tagger(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6, padding_idx=0)
        self.rnn = getattr(nn, kind)(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(10, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return functional.log_softmax(self.out(self.rnn(self.embed(ids))[0]), dim=-1)


@model
def lstm_tagger() -> Case:
    return Tagger("LSTM"), (torch.randint(1, 20, (3, 7)),)


@model
def gru_tagger() -> Case:
    return Tagger("GRU"), (torch.randint(1, 20, (3, 7)),)


class CharRNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.RNNCell(6, 8), nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[0], 8)
        outputs = []
        for step in x.unbind(1):
            h = self.cell(step, h)
            outputs.append(self.out(h))
        return torch.stack(outputs, 1)


@model
def char_rnn() -> Case:
    return CharRNN(), (torch.randn(2, 4, 6),)


@model
def transformer_encoder() -> Case:
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 5, 16),)


@model
def transformer() -> Case:
    return nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True), (torch.randn(2, 5, 16), torch.randn(2, 3, 16))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(30, 16), nn.Embedding(10, 16)
        self.norm, self.qkv, self.proj = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU("tanh"), nn.Linear(64, 16))
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        b, t = ids.shape
        x = self.wte(ids) + self.wpe(torch.arange(t, device=ids.device))
        q, k, v = (part.view(b, t, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).split(16, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, 16))
        return self.head(x + self.mlp(x))


@model
def gpt() -> Case:
    return GPT(), (torch.randint(0, 30, (2, 6)),)


class PositionTable(nn.Module):
    """Tables of positions and a mask that are cut to the length of the text, as GPTs and encoders have them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(30, 8), nn.Embedding(12, 8)
        self.table = nn.Parameter(torch.randn(1, 12, 8))
        self.register_buffer("mask", torch.tril(torch.ones(12, 12))[None])
        self.register_buffer("position_ids", torch.arange(12)[None])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        t = ids.shape[1]
        x = self.embed(ids) + self.table[:, :t] + self.places(self.position_ids[:, :t])
        scores = (x @ x.transpose(1, 2)).masked_fill(self.mask[:, :t, :t] == 0, float("-inf"))
        return scores.softmax(-1) @ x


@model
def position_table() -> Case:
    return PositionTable(), (torch.randint(0, 30, (2, 6)),)


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**i) for i in range(3))
        self.mix = nn.ModuleList(nn.Conv1d(4, 4, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, (conv, mix) in enumerate(zip(self.convs, self.mix, strict=True)):
            gate, value = conv(functional.pad(x, (2**i, 0))).chunk(2, dim=1)
            x = x + mix(torch.sigmoid(gate) * torch.tanh(value))
        return x


@model
def wave_net() -> Case:
    return WaveNet(), (torch.randn(2, 4, 9),)


class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.shape[0]).index_add(0, target, torch.ones(target.shape[0])).clamp(min=1)
        for layer in (self.first, self.second):
            x = layer(x)
            total = torch.zeros_like(x).scatter_add(0, target[:, None].expand(-1, x.shape[1]), x[source])
            x = functional.leaky_relu(total / degree[:, None], 0.2)
        return x


@model
def graph_network() -> Case:
    return GCN(), (torch.randn(6, 5), torch.randint(0, 6, (2, 12)))


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU6(), nn.Conv1d(8, 16, 1))
        self.out = nn.Linear(16, 4)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.out(self.mlp(points.transpose(2, 1)).max(dim=2)[0])


@model
def point_net() -> Case:
    return PointNet(), (torch.randn(3, 10, 3),)


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 4))

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        a, b, c = (functional.normalize(self.net(x), dim=1) for x in (a, b, c))
        return functional.triplet_margin_loss(a, b, c) + functional.cosine_embedding_loss(a, b, torch.ones(a.shape[0]))


@model
def siamese() -> Case:
    return Siamese(), tuple(torch.randn(4, 6) for _ in range(3))


@model
def super_resolution() -> Case:
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.Conv2d(6, 4, 3, padding=1), nn.PixelShuffle(2)), (
        torch.randn(2, 1, 6, 6),
    )


class InPlace(nn.Module):
    """Views that are written to, masks, buffers that count."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(3, 4))
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen[1].add_(x[0].detach())
        y = x * self.scale
        y[0].mul_(2.0)
        y[:, 1:3] = y[:, 1:3] + 1
        z = y.clone()
        top = z.t()[0]
        top.fill_(0.5)
        z.view(-1)[3:6].zero_()
        z.diagonal().add_(1.0)
        first, second = z[:, :2], z[:, 2:]
        z[:, 2:].neg_()
        z.masked_fill_(z > 3, 0.0)
        return torch.where(first > 0, z[:, 2:], second) + y[:, :2] + self.seen[:, :2] + top[:, None]


@model
def in_place() -> Case:
    return InPlace(), (torch.randn(3, 4),)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x).relu(), (x,))
        return torch.cond(y.mean() > 10, lambda y: y * 2, lambda y: y - 1, (y,))


@model
def branches() -> Case:
    return Branches(), (torch.randn(3, 4),)


class Losses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        z = self.net(x)
        return (
            functional.cross_entropy(z, target, label_smoothing=0.1)
            + functional.nll_loss(z.log_softmax(1), target, weight=torch.arange(1.0, 5.0))
            + functional.mse_loss(z, y)
            + functional.smooth_l1_loss(z, y, beta=0.5)
            + functional.huber_loss(z, y, reduction="sum")
            + functional.kl_div(z.log_softmax(1), y.softmax(1), reduction="batchmean")
            + functional.binary_cross_entropy_with_logits(z, y.sigmoid())
            + functional.multi_margin_loss(z, target)
        )


@model
def losses() -> Case:
    return Losses(), (torch.randn(3, 5), torch.randn(3, 4), torch.randint(0, 4, (3,)))


# ----------------------------------------------------------------------
# From packages.


def torchvision_models() -> Any:
    """torchvision's models; its compiled operators are declared where they failed to load."""
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

    return torchvision.models


VISION: dict[str, tuple[str, dict[str, Any], int]] = {
    "tv_resnet18": ("resnet18", {"num_classes": 5}, 32),
    "tv_mobilenet_v2": ("mobilenet_v2", {"num_classes": 5, "width_mult": 0.25}, 32),
    "tv_mobilenet_v3": ("mobilenet_v3_small", {"num_classes": 5}, 32),
    "tv_densenet": (
        "DenseNet",
        {"num_classes": 5, "growth_rate": 4, "block_config": (2, 2), "num_init_features": 8},
        32,
    ),
    "tv_squeezenet": ("squeezenet1_1", {"num_classes": 5}, 64),
    "tv_shufflenet": ("shufflenet_v2_x0_5", {"num_classes": 5}, 32),
    "tv_efficientnet": ("efficientnet_b0", {"num_classes": 5}, 32),
    "tv_regnet": ("regnet_y_400mf", {"num_classes": 5}, 32),
    "tv_convnext": ("convnext_tiny", {"num_classes": 5}, 32),
    "tv_googlenet": ("googlenet", {"num_classes": 5, "aux_logits": False, "init_weights": False}, 32),
    "tv_mnasnet": ("mnasnet0_5", {"num_classes": 5}, 32),
}


def _vision(name: str, settings: dict[str, Any], size: int) -> Callable[[], Case]:
    return lambda: (getattr(torchvision_models(), name)(**settings), (torch.randn(2, 3, size, size),))


if has("torchvision"):
    for key, case in VISION.items():
        MODELS[key] = _vision(*case)

    @model
    def tv_vit() -> Case:
        vit = torchvision_models().VisionTransformer(16, 8, 2, 2, 16, 32, num_classes=5)
        return vit, (torch.randn(2, 3, 16, 16),)

    @model
    def tv_swin() -> Case:
        swin = torchvision_models().SwinTransformer([2, 2], 8, [2, 2], [2, 2], [2, 2], num_classes=5)
        return swin, (torch.randn(2, 3, 16, 16),)


class Text(nn.Module):
    """A model of transformers with its arguments in a row, and its tensors alone as results."""

    def __init__(self, inner: nn.Module, *names: str) -> None:
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *args: torch.Tensor) -> Any:
        results = self.inner(**dict(zip(self.names, args, strict=True)), use_cache=False, return_dict=True)
        return next(iter(results.values()))


TINY = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "hf_bert": ("BertConfig", "BertModel", TINY),
    "hf_gpt2": ("GPT2Config", "GPT2LMHeadModel", {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2}),
    "hf_llama": ("LlamaConfig", "LlamaForCausalLM", {**TINY, "num_key_value_heads": 1}),
    "hf_mistral": ("MistralConfig", "MistralForCausalLM", {**TINY, "num_key_value_heads": 1}),
    "hf_qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {**TINY, "num_key_value_heads": 1}),
    "hf_gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", TINY),
    "hf_opt": ("OPTConfig", "OPTForCausalLM", {**TINY, "ffn_dim": 32, "word_embed_proj_dim": 16}),
    "hf_roberta": ("RobertaConfig", "RobertaModel", TINY),
    "hf_albert": ("AlbertConfig", "AlbertModel", {**TINY, "embedding_size": 8}),
    "hf_electra": ("ElectraConfig", "ElectraModel", {**TINY, "embedding_size": 8}),
    "hf_gemma": ("GemmaConfig", "GemmaForCausalLM", {**TINY, "num_key_value_heads": 1, "head_dim": 8}),
    "hf_phi": ("PhiConfig", "PhiForCausalLM", TINY),
    "hf_deberta": ("DebertaV2Config", "DebertaV2Model", TINY),
}


def _text(config: str, name: str, settings: dict[str, Any]) -> Callable[[], Case]:
    def build() -> Case:
        torchvision_models()
        import transformers

        inner = getattr(transformers, name)(getattr(transformers, config)(**settings))
        return Text(inner, "input_ids"), (torch.randint(3, 40, (2, 6)),)

    return build


if has("transformers"):
    for key, text_case in TEXT.items():
        MODELS[key] = _text(*text_case)

    @model
    def hf_t5() -> Case:
        torchvision_models()
        import transformers

        config = transformers.T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        inner = transformers.T5ForConditionalGeneration(config)
        ids = torch.randint(3, 40, (2, 6))
        return Text(inner, "input_ids", "decoder_input_ids"), (ids, ids[:, :4])

    @model
    def hf_vit() -> Case:
        torchvision_models()
        import transformers

        config = transformers.ViTConfig(**{**TINY, "image_size": 16, "patch_size": 8})
        inner = transformers.ViTModel(config, add_pooling_layer=False)

        class Vision(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, pixels: torch.Tensor) -> torch.Tensor:
                return self.inner(pixel_values=pixels).last_hidden_state

        return Vision(), (torch.randn(2, 3, 16, 16),)


TIMM = {
    "timm_resnet": ("resnet10t", 32),
    "timm_mixer": ("mixer_s32_224", 64),
    "timm_mobilenetv3": ("mobilenetv3_small_050", 32),
    "timm_ghostnet": ("ghostnet_050", 32),
}


def _timm(name: str, size: int) -> Callable[[], Case]:
    def build() -> Case:
        torchvision_models()
        import timm

        settings = {"img_size": size} if "mixer" in name else {}
        return timm.create_model(name, num_classes=5, **settings), (torch.randn(2, 3, size, size),)

    return build


if has("timm") and has("torchvision"):
    for key, timm_case in TIMM.items():
        MODELS[key] = _timm(*timm_case)
