"""Writes layer_expectations.json: what PyTorch's layers give. ``python -m tests.models.layer_expectations``."""

from __future__ import annotations

import json
import warnings
from typing import Any

import torch  # type: ignore[import-not-found]

from tests.models.case import LayerCase
from tests.models.compare import by_torch
from tests.models.layer_outcomes import PATH, Digest, cases, digest, parameter


def recorded(case: LayerCase, seed: int) -> Digest:
    """What PyTorch gives from this state of its random generator."""
    torch.manual_seed(seed)
    module: Any = case.make(torch)
    if isinstance(module, torch.nn.Module):
        module.train(case.mode == "train")
        with torch.no_grad():
            for name, value in module.named_parameters():
                value.copy_(torch.tensor(parameter(name, tuple(value.shape))))
    return digest(by_torch(case, torch, module))


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, Digest | None] = {}
    for name, case in cases().items():
        first, second = recorded(case, 0), recorded(case, 1)
        # None: it differs for a reason, draws, or takes no other parameters than its own
        has_none = case.reason or first != second or case.name.startswith("orthogonal")
        found[name] = None if has_none else first
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items()]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} layers, {sum(each is None for each in found.values())} without expectations")
