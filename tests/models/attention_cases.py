"""Attention and transformer layers, with masks of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.case import LayerCase, normal

Q, K, V = normal(5, 2, 8), normal(7, 2, 8, seed=1), normal(7, 2, 8, seed=2)
BATCHED = tuple(np.swapaxes(x, 0, 1) for x in (Q, K, V))
HIDDEN = np.arange(7) >= np.array([[5], [3]])  # what the two members do not have
BEHIND = np.triu(np.ones((5, 7), bool), 3)
SQUARE = np.triu(np.ones((5, 5), bool), 1)


def tensor(lib: Any, array: Any) -> Any:
    return lib.asarray(array) if lib.__name__ == "jitgraph" else lib.tensor(array)


def masked(**masks: Any) -> Any:
    """A call with masks; arrays become tensors."""

    def call(lib: Any, module: Any, *xs: Any) -> Any:
        arguments = {name: tensor(lib, x) if isinstance(x, np.ndarray) else x for name, x in masks.items()}
        return module(*xs, **arguments)

    return call


def heads(name: str, options: dict[str, Any], inputs: Any = (Q, K, V), **masks: Any) -> LayerCase:
    return LayerCase(
        f"MultiheadAttention, {name}", lambda lib: lib.nn.MultiheadAttention(8, 2, **options), inputs, masked(**masks)
    )


def block(name: str, make: Any, inputs: Any, mode: str = "train", **masks: Any) -> LayerCase:
    return LayerCase(name, make, inputs, masked(**masks), mode=mode, tolerance=1e-8)


def encoder(**options: Any) -> Any:
    return lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, **options)


def decoder(**options: Any) -> Any:
    return lambda lib: lib.nn.TransformerDecoderLayer(8, 2, 16, 0.0, **options)


def attended(**options: Any) -> Any:
    def call(lib: Any, module: Any, *xs: Any) -> Any:
        arguments = {name: tensor(lib, x) if isinstance(x, np.ndarray) else x for name, x in options.items()}
        return lib.nn.functional.scaled_dot_product_attention(*xs, **arguments)

    return call


HEADS = normal(2, 4, 5, 6), normal(2, 4, 7, 6, seed=1), normal(2, 4, 7, 3, seed=2)
CASES = [
    heads("plain", {}),
    heads("no weights", {}, need_weights=False),
    heads("batch first", {"batch_first": True}, BATCHED),
    heads("no bias", {"bias": False}),
    heads("kdim and vdim", {"kdim": 6, "vdim": 5}, (Q, normal(7, 2, 6), normal(7, 2, 5))),
    heads("bias_kv", {"add_bias_kv": True}, key_padding_mask=HIDDEN),
    heads("zero_attn", {"add_zero_attn": True}, attn_mask=BEHIND),
    heads("bias_kv and zero_attn", {"add_bias_kv": True, "add_zero_attn": True}, need_weights=False),
    heads("key_padding_mask", {}, key_padding_mask=HIDDEN),
    heads("attn_mask", {}, attn_mask=BEHIND),
    heads("attn_mask of numbers", {}, attn_mask=normal(5, 7, seed=5)),
    heads("attn_mask of each head", {}, attn_mask=np.stack([BEHIND, BEHIND[::-1]] * 2)),
    heads("both masks, no weights", {}, attn_mask=BEHIND, key_padding_mask=HIDDEN, need_weights=False),
    heads("weights not averaged", {}, average_attn_weights=False),
    heads("one sequence", {}, (Q[:, 0], K[:, 0], V[:, 0])),
    heads("one sequence, no weights", {}, (Q[:, 0], K[:, 0], V[:, 0]), need_weights=False),
    heads("causal", {}, (Q, Q, Q), attn_mask=SQUARE, is_causal=True, need_weights=False),
    block("TransformerEncoderLayer", encoder(), (Q,)),
    block("TransformerEncoderLayer, norm_first, gelu", encoder(norm_first=True, activation="gelu"), (Q,)),
    block("TransformerEncoderLayer, masks", encoder(batch_first=True), (BATCHED[1],), src_key_padding_mask=HIDDEN),
    block("TransformerEncoderLayer, src_mask", encoder(bias=False), (Q,), src_mask=SQUARE),
    block("TransformerDecoderLayer", decoder(), (Q, K)),
    block("TransformerDecoderLayer, norm_first", decoder(norm_first=True), (Q, K), tgt_mask=SQUARE),
    block("TransformerDecoderLayer, masks", decoder(), (Q, K), tgt_mask=SQUARE, memory_key_padding_mask=HIDDEN),
    block(
        "TransformerEncoder",
        lambda lib: lib.nn.TransformerEncoder(encoder()(lib), 2, lib.nn.LayerNorm(8)),
        (Q,),
        mask=SQUARE,
    ),
    block("TransformerDecoder", lambda lib: lib.nn.TransformerDecoder(decoder()(lib), 2), (Q, K), tgt_mask=SQUARE),
    block("Transformer", lambda lib: lib.nn.Transformer(8, 2, 2, 2, 16, 0.0), (K, Q), tgt_mask=SQUARE),
    *(
        LayerCase(f"scaled_dot_product_attention, {name}", lambda lib: lib.nn.Identity(), HEADS, attended(**options))
        for name, options in {
            "plain": {},
            "causal": {"is_causal": True},
            "scale": {"scale": 0.3},
            "bool mask": {"attn_mask": ~BEHIND},
            "numbers": {"attn_mask": normal(2, 1, 5, 7)},
            "a row that sees nothing": {"attn_mask": ~BEHIND & (np.arange(5) != 2)[:, None]},
        }.items()
    ),
    LayerCase(
        "scaled_dot_product_attention, grouped heads",
        lambda lib: lib.nn.Identity(),
        (HEADS[0], HEADS[1][:, :2], HEADS[2][:, :2]),
        attended(enable_gqa=True),
    ),
]
