"""``torch.types``: what annotations of PyTorch's programs name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from jitgraph.torch.metadata import Size, device
from jitgraph.torch.scalar_types import dtype

Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | Any
Number: TypeAlias = int | float | bool
Storage: TypeAlias = Any
_bool: TypeAlias = bool
_complex: TypeAlias = complex
_device: TypeAlias = device
_dtype: TypeAlias = dtype
_float: TypeAlias = float
_int: TypeAlias = int
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Any | Sequence[Any]
