"""``torch.version``: of PyTorch, whose names these are."""

from __future__ import annotations

from typing import Final

__version__: Final = "2.13.0"
cuda: Final = None
hip: Final = None
xpu: Final = None
debug: Final = False
git_version: Final = "Unknown"
