"""PyTorch's samples that passed still pass, of a part of the ops that each commit chooses.

``OPINFO_PART=I/N`` is every N-th op from the I-th on; ``make nightly-opinfo`` runs all ops, modules and optimisers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

pytest.importorskip("torch")
PARTS = 60
ROOT = Path(__file__).parents[3]


def part() -> str:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False).stdout
    return os.environ.get("OPINFO_PART", f"{zlib.crc32(commit) % PARTS}/{PARTS}")


def check(*arguments: str) -> None:
    command = [sys.executable, "-m", "tests.torch.opinfo", "--check", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_a_part_of_the_ops() -> None:
    check("--part", part(), "--variants", "forward,method,in_place,views", "--samples", "2")


def test_the_harness_finds_nothing_in_pytorch_itself() -> None:
    names = ["add", "narrow", "svd", "chunk", "nn.functional.conv2d", "masked_select"]
    command = [sys.executable, "-m", "tests.torch.opinfo", "--module", "torch", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
