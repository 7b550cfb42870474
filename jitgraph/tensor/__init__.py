"""Tensors: the handle that users hold, what becomes an operand, and the array functions, which are methods too."""

from __future__ import annotations

import sys
import types
from typing import Any, NoReturn

from jitgraph.errors import JitgraphError
from jitgraph.tensor import functions
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, compare, elementwise, settled, tensor_of, wrap, wrap_as

__all__ = ["Tensor", "TensorLike", "compare", "elementwise", "functions", "settled", "tensor_of", "wrap", "wrap_as"]


class _Module(types.ModuleType):
    """This module; called, as ``jg.tensor(data)``, it says what to write here."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> NoReturn:
        raise JitgraphError("jg.tensor is a module, not how a tensor is made\n  hint: write jg.asarray(data)")


sys.modules[__name__].__class__ = _Module
