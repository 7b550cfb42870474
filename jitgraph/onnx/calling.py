"""Calls of models: arguments as the model takes them, and its results."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import ArgumentError, DTypeError, ShapeError
from jitgraph.onnx import values
from jitgraph.onnx.records import ModelRecord, ValueType
from jitgraph.onnx.running import GraphRunner, Resolver, Scope
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tracing.call.arguments import TensorSpec

_HOST_ALONE: Final = frozenset({*values.STORED, values.TEXT})


class ModelCall:
    """A model as a function of its tensors and of its arguments."""

    def __init__(self, model: ModelRecord, static_sizes: Sequence[str] = ()) -> None:
        resolver = Resolver(model)
        self._routine = GraphRunner(model.graph, Scope(resolver, model.opsets, {}, 0, ""))
        self.states = tuple(resolver.states)
        self._inputs = model.graph.inputs
        self._types = [model.graph.types.get(name, ValueType("tensor")) for name in self._inputs]
        self.signature = _signature(self._inputs)
        self.dynamic_shapes = _dynamic_shapes(self.signature, self._types, static_sizes)
        results = [model.graph.types.get(name, ValueType("tensor")) for name in model.graph.outputs]
        others = any(each.kind != "tensor" or each.dtype in _HOST_ALONE for each in (*self._types, *results))
        self.is_by_node = others or bool(self._routine.read_by_host & set(self._inputs))
        """Whether inputs decide about shapes, or they or results are no tensors: the model is computed node by node."""

    def __call__(self, tensors: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output, or a tuple of several; DTypeError, ShapeError and ArgumentError for other arguments."""
        bound = self.signature.bind(*args, **kwargs).arguments
        sizes: dict[str, Any] = {}
        inputs = [
            _argument(name, bound[own], kind, sizes)
            for name, own, kind in zip(self._inputs, self.signature.parameters, self._types, strict=True)
        ]
        outputs = tuple(_output(value) for value in self._routine(inputs, {}, tensors))
        return outputs[0] if len(outputs) == 1 else outputs

    def input_specs(self) -> dict[str, TensorSpec]:
        """A spec for each parameter; ArgumentError where an input is no tensor of known dtype and sizes."""
        specs = {}
        for name, each in zip(self.signature.parameters, self._types, strict=True):
            if each.kind != "tensor" or each.dtype is None or each.dtype in _HOST_ALONE or each.shape is None:
                raise ArgumentError(f"the model does not say {name} as a tensor with dtype and rank")
            free = self.dynamic_shapes.get(name, {})
            sizes: list[Any] = [free.get(axis, size) for axis, size in enumerate(each.shape)]
            if any(size is None or (isinstance(size, str) and axis not in free) for axis, size in enumerate(sizes)):
                raise ArgumentError(f"the model does not say all sizes of {name}, or they are static")
            specs[name] = TensorSpec(tuple(sizes), dtypes.canonical(each.dtype))
        return specs


def _signature(names: Sequence[str]) -> inspect.Signature:
    """Parameters with the names of the inputs, as far as Python takes these."""
    own: list[str] = []
    for name in names:
        text = re.sub(r"\W", "_", name)
        text = text if text.isidentifier() and not keyword.iskeyword(text) else f"_{text}"
        while text in own:
            text += "_"
        own.append(text)
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in own])


def _dynamic_shapes(
    signature: inspect.Signature, types: Sequence[ValueType], static: Sequence[str]
) -> dict[str, dict[int, str]]:
    """Names for the sizes that the model names, but for those that are static."""
    dynamic = {}
    for name, each in zip(signature.parameters, types, strict=True):
        named = {i: size for i, size in enumerate(each.shape or ()) if isinstance(size, str) and size not in static}
        axes = {i: _size_name(size) for i, size in named.items()}
        if axes:
            dynamic[name] = axes
    return dynamic


def _size_name(text: str) -> str:
    own = re.sub(r"\W", "_", text)
    return own if own.isidentifier() and not keyword.iskeyword(own) else f"size_{own}"


def _argument(name: str, value: Any, kind: ValueType, sizes: dict[str, Any]) -> Any:
    """An argument as the model takes it; DTypeError and ShapeError where it is another."""
    if kind.kind == "sequence" or isinstance(value, list | tuple):
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise ArgumentError(f"{name} is a sequence of tensors in the model, and {type(value).__name__} came")
        return [_argument(f"{name}[{i}]", each, ValueType("tensor", kind.dtype), sizes) for i, each in enumerate(value)]
    if value is None:
        if kind.kind == "optional":
            return None
        raise ArgumentError(f"{name} is a tensor in the model, and None came")
    if kind.dtype in _HOST_ALONE:
        array = np.asarray(value)
        if kind.dtype == values.TEXT:
            array = array.astype(object)
        elif array.dtype != kind.dtype:
            raise DTypeError(f"{name} is {array.dtype}, and the model takes {kind.dtype}")
        return array
    own = value if isinstance(value, Tensor) else asarray(value)
    if kind.dtype is not None and np.dtype(own.dtype) != kind.dtype:
        raise DTypeError(
            f"{name} is {own.dtype.name}, and the model takes {kind.dtype.name}",
            hint=f"{name}.astype(jg.{kind.dtype.name})",
        )
    if kind.shape is not None:
        shape = tuple(own.shape)
        same = len(shape) == len(kind.shape)
        for expected, size in zip(kind.shape, shape, strict=False):
            wanted = sizes.setdefault(expected, size) if isinstance(expected, str) else expected
            same = same and (wanted is None or size == wanted)
        if not same:
            shown = ", ".join("?" if size is None else str(size) for size in kind.shape)
            raise ShapeError(f"{name} is {own.value.type}, and the model takes ({shown})")
    return own


def _output(value: Any) -> Any:
    """A result: tensors, lists of tensors; arrays of texts and of dtypes that tensors lack as they are."""
    if isinstance(value, list):
        return [_output(each) for each in value]
    if isinstance(value, dict):
        return value
    if isinstance(value, np.ndarray) and (values.is_text(value) or value.dtype in values.STORED):
        return value
    return values.tensor(value)
