"""``torch.compile(backend="jitgraph")`` for models that stay in PyTorch, beside PyTorch eager and its own backends.

    python -m bench torch_backend

``eager`` is what PyTorch's capture costs, ``aot_eager`` that with its autograd around two graphs. Processor time on one
thread, the least of many rounds in turns, in one process: a call without gradients, one with, and one with backward.
"""

from __future__ import annotations

import copy
import itertools
import time
import warnings
from typing import Any

from bench.timing import interleaved
from jitgraph.torch.programs.backend import backend

MODELS = {
    "MLP 784-256-256-10, one row": ((784, 256, 256, 10), 1),
    "MLP 784-256-256-10, 64 rows": ((784, 256, 256, 10), 64),
    "MLP 16-16-4, four rows": ((16, 16, 4), 4),
}


def mlp(torch: Any, widths: tuple[int, ...]) -> Any:
    layers = [
        layer
        for before, after in itertools.pairwise(widths)
        for layer in (torch.nn.Linear(before, after), torch.nn.ReLU())
    ]
    return torch.nn.Sequential(*layers[:-1])


def main() -> None:
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, (widths, rows) in MODELS.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, x = mlp(torch, widths), torch.randn(rows, widths[0])
        candidates = {"PyTorch": model}
        for text, own in (("jitgraph", backend), ("eager", "eager"), ("aot_eager", "aot_eager")):
            candidates[text] = torch.compile(copy.deepcopy(model), backend=own)

        def inference(function: Any, x: Any = x) -> None:
            with torch.no_grad():
                function(x)

        def step(function: Any, x: Any = x) -> None:
            function(x).sum().backward()

        for what, call in (("inference", inference), ("forward", lambda f, x=x: f(x)), ("with backward", step)):
            calls = {text: lambda f=f, call=call: call(f) for text, f in candidates.items()}
            timed = interleaved(calls, rounds=25, calls=20, clock=time.process_time)
            shown = ", ".join(f"{text} {1e6 * float(times.min()):.0f}" for text, times in timed.items())
            print(f"{name}, {what}: {shown} us", flush=True)


if __name__ == "__main__":
    main()
