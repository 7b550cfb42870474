"""A small GPT learns Python's documentation, then writes, a letter at a time, with a cache of keys and values."""

from __future__ import annotations

import argparse
from pydoc_data.topics import topics

import numpy as np
from tqdm import trange

import jitgraph as jg

F = jg.nn.functional
WIDTH, HEADS, LAYERS, LONGEST = 64, 4, 2, 64


class Block(jg.nn.Module):
    keys: jg.Tensor
    values: jg.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = jg.nn.LayerNorm(WIDTH), jg.nn.LayerNorm(WIDTH)
        self.qkv, self.out = jg.nn.Linear(WIDTH, 3 * WIDTH), jg.nn.Linear(WIDTH, WIDTH)
        self.mlp = jg.nn.Sequential(jg.nn.Linear(WIDTH, 4 * WIDTH), jg.nn.GELU(), jg.nn.Linear(4 * WIDTH, WIDTH))
        cache = (1, HEADS, LONGEST, WIDTH // HEADS)
        self.register_buffer("keys", jg.zeros(cache), persistent=False)
        self.register_buffer("values", jg.zeros(cache), persistent=False)

    def forward(self, x: jg.Tensor, position: jg.Tensor | None = None) -> jg.Tensor:
        """All positions of x at once; or, with ``position``, that one, and the cache for those before."""
        batch, time, _ = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, time, 3, HEADS, WIDTH // HEADS)
        q, k, v = (jg.permute_dims(parts[:, :, i], (0, 2, 1, 3)) for i in range(3))
        if position is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            self.keys[:, :, position] = k[:, :, 0]
            self.values[:, :, position] = v[:, :, 0]
            mask = jg.arange(LONGEST) <= position
            mixed = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(jg.permute_dims(mixed, (0, 2, 1, 3)).reshape(batch, time, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(jg.nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = jg.nn.Embedding(vocabulary, WIDTH), jg.nn.Embedding(LONGEST, WIDTH)
        self.blocks = jg.nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = jg.nn.LayerNorm(WIDTH), jg.nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: jg.Tensor, position: jg.Tensor | None = None) -> jg.Tensor:
        places = jg.arange(tokens.shape[1]) if position is None else position
        x = self.tokens(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x, position)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def main(quick: bool = False) -> float:
    text = "".join(letter for topic in topics.values() for letter in topic if letter.isascii())
    letters = sorted(set(text))
    codes = {letter: code for code, letter in enumerate(letters)}
    data = np.array([codes[letter] for letter in text])
    print(f"{len(text)} characters, {len(letters)} different ones")

    jg.random.seed(0)
    model = GPT(len(letters))
    optimizer = jg.optim.AdamW(model.parameters(), lr=3e-3)

    @jg.trace
    def step(windows: jg.Tensor) -> jg.Tensor:
        logits = model(windows[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, len(letters)), windows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        jg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    count = 20 if quick else 1500
    losses = []
    for _ in trange(count, unit="step"):
        starts = rng.integers(0, len(data) - LONGEST, 16)
        losses.append(step(data[starts[:, None] + np.arange(LONGEST + 1)]).item())
    print(f"steps        nats a letter\n{'guess':>11}  {np.log(len(letters)):.2f}")
    for last in range(count // 5, count + 1, count // 5):
        first = last - count // 5
        print(f"{first:4} - {last:4}  {np.mean(losses[first:last]):.2f}")

    @jg.trace
    def write(token: jg.Tensor, position: jg.Tensor, temperature: float) -> jg.Tensor:
        logits = model(token.reshape(1, 1), position)[0, 0]
        best, places = jg.topk(logits / temperature, 8)
        return places[jg.random.categorical(best)]

    token, written = jg.asarray(codes["T"]), "T"
    with jg.no_grad():
        for position in range(LONGEST):
            token = write(token, jg.asarray(position), 0.7)
            written += letters[token.item()]
    print(written)
    return losses[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
