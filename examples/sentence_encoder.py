"""A sentence encoder: weights with PyTorch's keys move from a file into another model, and sentences are compared.

The encoder learns that sentences of one topic of Python's documentation belong together (a contrast of pairs in a
batch). Its weights go through safetensors into a fresh encoder, as those of a model from elsewhere would.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import zlib
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from safetensors.numpy import load_file, save_file
from tqdm import trange

import jitgraph as jg

F = jg.nn.functional
WORDS, LONGEST, WIDTH = 4096, 24, 64


class Encoder(jg.nn.Module):
    """Word numbers [batch, time], 0 where a sentence has ended, to vectors of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = jg.nn.Embedding(WORDS, WIDTH), jg.nn.Embedding(LONGEST, WIDTH)
        layer = jg.nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = jg.nn.TransformerEncoder(layer, num_layers=2)

    def forward(self, words: jg.Tensor) -> jg.Tensor:
        absent = words == 0
        x = self.words(words) + self.places(jg.arange(words.shape[1]))
        x = self.layers(x, src_key_padding_mask=absent)
        present = jg.where(absent, 0.0, 1.0)[:, :, None]
        return F.normalize(jg.sum(x * present, axis=1) / jg.sum(present, axis=1), dim=-1)


def numbered(sentence: str) -> list[int]:
    """The words by their hashes, 0 behind the last."""
    found = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in re.findall(r"\w+", sentence.lower())[:LONGEST]]
    return found + [0] * (LONGEST - len(found))


def main(quick: bool = False) -> float:
    chapters = [re.findall(r"[A-Z][\w ,\n'-]{40,200}\.", text) for text in topics.values()]
    sentences = [np.array([numbered(s) for s in found]) for found in chapters if len(found) >= 4]
    jg.random.seed(0)
    encoder = Encoder()
    optimizer = jg.optim.AdamW(encoder.parameters(), lr=1e-3)

    @jg.trace
    def step(one: jg.Tensor, other: jg.Tensor) -> jg.Tensor:
        likeness = encoder(one) @ encoder(other).T / 0.1
        loss = F.cross_entropy(likeness, jg.arange(one.shape[0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    for _ in trange(5 if quick else 400, unit="step"):
        chosen = rng.choice(len(sentences), 32, replace=False)
        pairs = np.stack([sentences[c][rng.choice(len(sentences[c]), 2, replace=False)] for c in chosen])
        loss = step(pairs[:, 0], pairs[:, 1])
    print(f"{len(sentences)} topics; loss {loss.item():.2f}, a guess has {np.log(32):.2f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "encoder.safetensors")
        save_file(encoder.state_dict(), path)
        transferred = Encoder()
        transferred.load_state_dict(load_file(path))

    @jg.trace(dynamic_shapes={"words": {0: "sentences"}})
    def encode(words: jg.Tensor) -> jg.Tensor:
        return transferred.eval()(words)  # type: ignore[no-any-return]

    asked = [
        "The loop runs while its condition is true.",
        "A for statement iterates over the items of a sequence.",
        "An exception is raised when the module cannot be imported.",
        "The import system finds and loads modules.",
    ]
    numbers = np.array([numbered(sentence) for sentence in asked])
    with jg.no_grad():
        vectors, here = encode(numbers), encoder(jg.asarray(numbers))
    print("likeness")
    for row, sentence in zip((vectors @ vectors.T).numpy(), asked, strict=True):
        print(" ".join(f"{value:5.2f}" for value in row), " ", sentence)
    return float(jg.max(jg.abs(vectors - here)).item())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
