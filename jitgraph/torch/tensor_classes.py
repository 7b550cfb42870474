"""``torch.FloatTensor``, ``torch.LongTensor`` ...: PyTorch's classes of old, one for each dtype and kind of device."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.torch import scalar_types
from jitgraph.torch.functions import creation
from jitgraph.torch.functions.views import sizes_of
from jitgraph.torch.metadata import Size
from jitgraph.torch.scalar_types import dtype
from jitgraph.torch.tensors import Tensor


class TensorType(type):
    """A class of the tensors of one dtype: ``isinstance`` asks for it, a call makes a tensor in it."""

    dtype: dtype
    device: str

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.dtype and x.device.type == cls.device

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        """Zeros of these sizes, or the elements of a list, an array or a tensor."""
        where = cls.device if device is None else device
        if len(data) == 1 and not isinstance(data[0], int | Size):
            source = data[0]
            if isinstance(source, jg.Tensor) and source._static.type.dtype != cls.dtype.dtype:
                raise TypeError(f"expected {cls.__name__} (got {class_of(source)})")
            return creation.tensor(source, dtype=cls.dtype, device=where)
        sizes = sizes_of(data) if data else (0,)
        return creation.zeros(*sizes, dtype=cls.dtype, device=where)

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"

    def __str__(cls) -> str:
        return cls.__name__


_WORDS = {
    "Float": scalar_types.float32,
    "Double": scalar_types.float64,
    "Half": scalar_types.float16,
    "BFloat16": scalar_types.bfloat16,
    "Byte": scalar_types.uint8,
    "Char": scalar_types.int8,
    "Short": scalar_types.int16,
    "Int": scalar_types.int32,
    "Long": scalar_types.int64,
    "Bool": scalar_types.bool_,
    "ComplexFloat": scalar_types.complex64,
    "ComplexDouble": scalar_types.complex128,
}


def _class(word: str, device: str) -> Any:
    name = f"torch.{'' if device == 'cpu' else 'cuda.'}{word}Tensor"
    return TensorType(name, (), {"dtype": _WORDS[word], "device": device, "__module__": "torch"})


FloatTensor, DoubleTensor, HalfTensor = _class("Float", "cpu"), _class("Double", "cpu"), _class("Half", "cpu")
BFloat16Tensor, BoolTensor, ByteTensor = _class("BFloat16", "cpu"), _class("Bool", "cpu"), _class("Byte", "cpu")
CharTensor, ShortTensor, IntTensor = _class("Char", "cpu"), _class("Short", "cpu"), _class("Int", "cpu")
LongTensor = _class("Long", "cpu")


def class_of(x: Any) -> str:
    """The name of the class of a tensor, as ``x.type()`` gives it."""
    kind = scalar_types.scalar_type(x._static.type.dtype)
    word = next((word for word, of in _WORDS.items() if of == kind), None)
    on = "cuda." if str(x._static.device).startswith("cuda") else ""
    return f"torch.{on}{kind.name.title()}Tensor" if word is None else f"torch.{on}{word}Tensor"


def dtype_of_class(kind: Any) -> dtype:
    """The dtype of a class of tensors, or of its name; TypeError for others."""
    if isinstance(kind, TensorType):
        return kind.dtype
    if kind is Tensor:
        return scalar_types.get_default_dtype()
    name = str(kind)
    word = name.removeprefix("torch.").removeprefix("cuda.").removesuffix("Tensor")
    if not name.startswith("torch.") or not name.endswith("Tensor") or (word and word not in _WORDS):
        raise ValueError(f"invalid type: '{name}'")
    return _WORDS[word] if word else scalar_types.get_default_dtype()


def set_default_tensor_type(t: Any) -> None:
    """Make floats from Python's own in the dtype of a class of tensors, a float."""
    scalar_types.set_default_dtype(dtype_of_class(t))
