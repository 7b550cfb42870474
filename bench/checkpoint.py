"""Memory of training steps with and without checkpoints: the plan's arenas, and what PyTorch allocates beside them.

Both count what is computed, not parameters, gradients or an optimiser's state: the arena of a step compiled as a whole,
and the peak of PyTorch's allocations by its profiler in the second eager step, when gradients and state are there.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Final

import numpy as np

LAYERS: Final = 24
ROWS: Final = 1024
WIDTH: Final = 128
NETS: Final = ("blocks of 1", "blocks of 2", "blocks of 4", "blocks of 2, dropout", "encoder", "encoder, dropout")


def blocks_of(nn: Any, net: str) -> tuple[list[Any], Any]:
    """The blocks of a net, written in the names that jitgraph and PyTorch share, and its input."""
    drop = 0.1 if "dropout" in net else 0.0
    if net.startswith("encoder"):
        settings = {"dropout": drop, "batch_first": True, "activation": "gelu"}
        layers = [nn.TransformerEncoderLayer(64, 4, 256, **settings) for _ in range(6)]
        return layers, np.ones((8, 128, 64), np.float32)
    count = int(net.split()[2].rstrip(","))

    def layer() -> list[Any]:
        return [nn.Linear(WIDTH, WIDTH), nn.GELU(), *([nn.Dropout(drop)] if drop else [])]

    blocks = [nn.Sequential(*[one for _ in range(count) for one in layer()]) for _ in range(LAYERS // count)]
    return blocks, np.ones((ROWS, WIDTH), np.float32)


def ours(net: str, *, checkpointed: bool) -> float:
    """The arena of a compiled step of Adam, in MB."""
    import jitgraph as jg

    blocks, x = blocks_of(jg.nn, net)
    optimizer = jg.optim.Adam([parameter for block in blocks for parameter in block.parameters()], lr=1e-3)

    def step(h: Any) -> Any:
        for block in blocks:
            h = (jg.checkpoint(block) if checkpointed else block)(h)
        loss = (h * h).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return float(jg.trace(step).lower(jg.asarray(x)).memory_plan.arena_bytes) / 1e6


def theirs(net: str, *, checkpointed: bool) -> float:
    """The peak of what an eager step of PyTorch has allocated at once, in MB."""
    import torch
    from torch.utils.checkpoint import checkpoint

    blocks, x = blocks_of(torch.nn, net)
    optimizer = torch.optim.Adam([parameter for block in blocks for parameter in block.parameters()], lr=1e-3)
    inputs = torch.from_numpy(x)

    def step() -> None:
        h = inputs
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=False) if checkpointed else block(h)
        loss = (h * h).mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()

    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    changes = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = np.cumsum([event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())])
    return float(alive.max()) / 1e6


def main() -> None:
    has_torch = importlib.util.find_spec("torch") is not None
    print(f"{'MB of a step of Adam':24} {'plain':>8} {'checkpointed':>13}" + ("   PyTorch eager" if has_torch else ""))
    for net in NETS:
        line = f"{net:24} {ours(net, checkpointed=False):8.1f} {ours(net, checkpointed=True):13.1f}"
        if has_torch:
            line += f" {theirs(net, checkpointed=False):8.1f} {theirs(net, checkpointed=True):8.1f}"
        print(line, flush=True)
