"""An LSTM learns the letters of Python's documentation and writes some."""

from __future__ import annotations

import argparse
from pydoc_data.topics import topics

import numpy as np
from tqdm import trange

import jitgraph as jg

F = jg.nn.functional
State = tuple[jg.Tensor, jg.Tensor]


class LanguageModel(jg.nn.Module):
    def __init__(self, letters: int, width: int = 128) -> None:
        super().__init__()
        self.embed = jg.nn.Embedding(letters, width)
        self.lstm = jg.nn.LSTM(width, width, batch_first=True)
        self.head = jg.nn.Linear(width, letters)

    def forward(self, codes: jg.Tensor, state: State | None = None) -> tuple[jg.Tensor, State]:
        hidden, state = self.lstm(self.embed(codes), state)
        return self.head(hidden), state


def main(quick: bool = False) -> float:
    text = "".join(letter for topic in topics.values() for letter in topic if letter.isascii())
    letters = sorted(set(text))
    codes = {letter: code for code, letter in enumerate(letters)}
    data = np.array([codes[letter] for letter in text])
    jg.random.seed(0)
    model = LanguageModel(len(letters))
    optimizer = jg.optim.Adam(model.parameters(), lr=5e-3)

    @jg.trace
    def step(windows: jg.Tensor) -> jg.Tensor:
        logits, _ = model(windows[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, len(letters)), windows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        jg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    losses = []
    for _ in trange(30 if quick else 1000, unit="step"):
        windows = data[rng.integers(0, len(data) - 65, 32)[:, None] + np.arange(65)]
        losses.append(step(windows).item())
    print("step    nats a letter")
    for i in sorted({0, len(losses) // 8, len(losses) // 2, len(losses) - 1}):
        print(f"{i:4}    {losses[i]:.2f}")

    @jg.trace
    def write(code: jg.Tensor, state: State, temperature: float) -> tuple[jg.Tensor, State]:
        logits, state = model(code.reshape(1, 1), state)
        return jg.random.categorical(logits[0, 0] / temperature), state

    code, state, written = jg.asarray(codes["T"]), (jg.zeros((1, 1, 128)), jg.zeros((1, 1, 128))), "T"
    with jg.no_grad():
        for _ in range(150):
            code, state = write(code, state, 0.6)
            written += letters[code.item()]
    print(written)
    return losses[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
