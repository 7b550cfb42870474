"""Writes tests/optim/expectations.json: what PyTorch gives. ``python -m tests.models.optimizer_expectations``."""

from __future__ import annotations

import json

import torch

from tests import ROOT
from tests.models.optimizers import expectations

PATH = ROOT / "tests" / "optim" / "expectations.json"

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    PATH.write_text(json.dumps(expectations(), indent=1) + "\n")
