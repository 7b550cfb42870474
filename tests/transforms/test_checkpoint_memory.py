"""jg.checkpoint in whole training steps: the plan's bytes, with the optimiser's step in the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

WIDTH = 64
Net = Callable[[bool], tuple[Callable[[Any], Any], list[Any], Any]]


def _chain(blocks: list[Any], checkpointed: bool) -> Callable[[Any], Any]:
    def run(h: Any) -> Any:
        for block in blocks:
            h = (jg.checkpoint(block) if checkpointed else block)(h)
        return h

    return run


def _parameters(blocks: list[Any]) -> list[Any]:
    return [parameter for block in blocks for parameter in block.parameters()]


def mlp(layers: int, drop: float = 0.0, width: int = WIDTH, rows: int = 2048) -> Net:
    """12 layers of Linear, GELU and maybe Dropout, in blocks of ``layers``: checkpoint_sequential's segments."""

    def layer() -> list[Any]:
        dropout = [jg.nn.Dropout(drop)] if drop else []
        return [jg.nn.Linear(width, width), jg.nn.GELU(), *dropout]

    def make(checkpointed: bool) -> Any:
        blocks = [jg.nn.Sequential(*[one for _ in range(layers) for one in layer()]) for _ in range(12 // layers)]
        return _chain(blocks, checkpointed), _parameters(blocks), np.ones((rows, width), np.float32)

    return make


def encoder(drop: float) -> Net:
    def make(checkpointed: bool) -> Any:
        blocks = [
            jg.nn.TransformerEncoderLayer(32, 2, 64, dropout=drop, batch_first=True, activation="gelu")
            for _ in range(3)
        ]
        return _chain(blocks, checkpointed), _parameters(blocks), np.ones((16, 64, 32), np.float32)

    return make


def scanned(checkpointed: bool) -> Any:
    """A scan over the stacked weights of 12 blocks of two layers."""
    weights = [jg.nn.Parameter(jg.asarray(np.ones((12, WIDTH, WIDTH), np.float32))) for _ in range(2)]

    def block(h: Any, *argument: Any) -> Any:
        for weight in argument:
            h = jg.nn.functional.gelu(h @ weight)
        return h

    def turn(h: Any, argument: Any) -> Any:
        return (jg.checkpoint(block) if checkpointed else block)(h, *argument), None

    return lambda x: jg.scan(turn, x, tuple(weights))[0], weights, np.ones((2048, WIDTH), np.float32)


def arena(
    net: Net, *, checkpointed: bool, optimizer: Any = jg.optim.Adam, clip: bool = False, keep: bool = True
) -> int:
    run, parameters, x = net(checkpointed)
    rule = optimizer(parameters, lr=1e-3) if optimizer is not None else None

    def step(x: Any) -> Any:
        loss = (run(x) ** 2).mean()
        for parameter in parameters:
            parameter.grad = None
        loss.backward()
        if clip:
            jg.nn.utils.clip_grad_norm_(parameters, 1.0)
        if rule is not None:
            rule.step()
        if not keep:
            for parameter in parameters:
                parameter.grad = None
        return loss

    bytes = jg.trace(step).lower(jg.asarray(x)).memory_plan.arena_bytes
    assert isinstance(bytes, int)
    return bytes


@pytest.mark.parametrize(
    ("net", "fraction"),
    [(encoder(0.0), 0.5), (encoder(0.1), 0.52), (scanned, 0.6)],
    ids=["encoder", "encoder_dropout", "scan"],
)
def test_a_checkpointed_step_takes_a_fraction_of_the_memory(net: Net, fraction: float) -> None:
    assert arena(net, checkpointed=True) <= fraction * arena(net, checkpointed=False)


@pytest.mark.parametrize("drop", [0.0, 0.1])
@pytest.mark.parametrize("layers", [1, 2, 3, 4, 6])
def test_a_checkpointed_step_saves_what_its_blocks_read(layers: int, drop: float) -> None:
    """The blocks' inputs and what the gradients of one block read, all of one size, and two of that size at work."""
    activation = 2048 * WIDTH * 4
    inputs = 12 // layers
    assert arena(mlp(layers, drop), checkpointed=True) <= (inputs + layers + 2.1) * activation


@pytest.mark.parametrize("drop", [0.0, 0.1])
def test_a_plain_step_saves_one_activation_of_each_layer(drop: float) -> None:
    """What enters the GELU: what leaves it, and what its gradient takes of it, are computed again."""
    activation = 2048 * WIDTH * 4
    assert arena(mlp(1, drop), checkpointed=False) <= (12 + 3.1) * activation


@pytest.mark.parametrize("optimizer", [jg.optim.SGD, jg.optim.Adam])
@pytest.mark.parametrize(("width", "rows"), [(WIDTH, 2048), (256, 512), (512, 64), (384, 128)])
def test_the_optimizers_step_does_not_add_to_the_peak(optimizer: Any, width: int, rows: int) -> None:
    """Nor do the gradients of large weights, kept for the caller or not: each is fused with its update."""
    net, weight = mlp(2, width=width, rows=rows), 4 * width * width
    for checkpointed in (False, True):
        alone = arena(net, checkpointed=checkpointed, optimizer=None)
        for keep in (True, False):
            assert arena(net, checkpointed=checkpointed, optimizer=optimizer, keep=keep) <= 1.02 * alone + weight


def test_clipping_needs_all_gradients_and_no_more() -> None:
    gradients = 12 * (WIDTH + 1) * WIDTH * 4
    alone = arena(mlp(2), checkpointed=True, optimizer=None)
    assert arena(mlp(2), checkpointed=True, clip=True) <= alone + 1.1 * gradients
