"""Deep Q-learning balances a pole on a cart (the equations of Barto, Sutton and Anderson, 1983)."""

from __future__ import annotations

import argparse
import copy

import numpy as np
from tqdm import trange

import jitgraph as jg

F = jg.nn.functional
LIMIT = 200  # steps of an episode


def push(state: np.ndarray, action: int) -> tuple[np.ndarray, bool]:
    """The state 0.02 s later, and whether the pole fell or the cart left its track."""
    _, v, angle, spin = state
    force, mass, pole, half = (10.0 if action else -10.0), 1.1, 0.1, 0.5
    sine, cosine = np.sin(angle), np.cos(angle)
    pushed = (force + pole * half * spin**2 * sine) / mass
    turn = (9.8 * sine - cosine * pushed) / (half * (4 / 3 - pole * cosine**2 / mass))
    slide = pushed - pole * half * turn * cosine / mass
    state = state + 0.02 * np.array([v, slide, spin, turn])
    return state, bool(abs(state[0]) > 2.4 or abs(state[2]) > 0.2095)


def main(quick: bool = False) -> float:
    jg.random.seed(0)
    rng = np.random.default_rng(0)
    net = jg.nn.Sequential(jg.nn.Linear(4, 64), jg.nn.ReLU(), jg.nn.Linear(64, 64), jg.nn.ReLU(), jg.nn.Linear(64, 2))
    target = copy.deepcopy(net)
    optimizer = jg.optim.Adam(net.parameters(), lr=1e-3)
    memory: list[tuple[np.ndarray, int, float, np.ndarray, float]] = []

    @jg.trace
    def best(state: jg.Tensor) -> jg.Tensor:
        return jg.argmax(net(state))

    @jg.trace
    def step(state: jg.Tensor, action: jg.Tensor, reward: jg.Tensor, after: jg.Tensor, goes_on: jg.Tensor) -> jg.Tensor:
        with jg.no_grad():  # double Q-learning: the net chooses, the target says what that is worth
            choice = jg.argmax(net(after), axis=1, keepdims=True)
            wanted = reward + 0.99 * goes_on * jg.take_along_axis(target(after), choice, axis=1)[:, 0]
        guess = jg.take_along_axis(net(state), action[:, None], axis=1)[:, 0]
        loss = F.smooth_l1_loss(guess, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with jg.no_grad():
            for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
                slow[...] = 0.99 * slow + 0.01 * fast
        return loss

    lengths = []
    progress = trange(4 if quick else 150, unit="episode")
    for episode in progress:
        state, begin = rng.uniform(-0.05, 0.05, 4), len(memory)
        for _ in range(LIMIT):
            explores = rng.random() < max(0.02, 0.9 - episode / 60)
            action = int(rng.integers(2)) if explores else best(state.astype(np.float32)).item()
            after, fell = push(state, action)
            memory.append((state, action, 1.0, after, 1.0 - fell))
            state = after
            if len(memory) >= 64:
                chosen = [memory[i] for i in rng.integers(max(0, len(memory) - 20000), len(memory), 64)]
                columns = zip(*chosen, strict=True)
                step(*(np.asarray(c, np.int64 if i == 1 else np.float32) for i, c in enumerate(columns)))
            if fell:
                break
        lengths.append(len(memory) - begin)
        progress.set_postfix(steps=f"{np.mean(lengths[-20:]):.0f}")
    print("episodes    mean steps")
    for begin in range(0, len(lengths), max(1, len(lengths) // 5)):
        part = lengths[begin : begin + max(1, len(lengths) // 5)]
        print(f"{begin:3} to {begin + len(part) - 1:3}    {np.mean(part):6.1f}")
    return float(np.mean(lengths[-50:]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
