"""``jg.onnx.load``: ONNX models as modules."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jitgraph.errors import ArgumentError
from jitgraph.nn.module import Module, Parameter
from jitgraph.onnx import reading, values
from jitgraph.onnx.calling import ModelCall
from jitgraph.onnx.records import ModelRecord
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tracing.call.arguments import TensorSpec
from jitgraph.tracing.call.function import trace


class OnnxModule(Module):
    """An ONNX model as a module: ``module(*inputs)`` gives its output, or a tuple of them.

    Calls go by ``traced``, with names for the sizes that the model names. Initializers of float dtypes are parameters
    by their names, which are trained, loaded and saved as any module's. A model whose inputs decide about shapes, or
    have texts or sequences, is computed node by node, as ``forward`` does.
    """

    def __init__(
        self, model: ModelRecord, tensors: Mapping[str, Any] | None = None, static_sizes: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self._model = model
        self._static_sizes = tuple(static_sizes)
        self._run = ModelCall(model, self._static_sizes)
        self.inputs, self.outputs = model.graph.inputs, model.graph.outputs
        self.traced: Any = None
        self._paths: tuple[tuple[str, ...], ...] = ()
        paths = []
        for state in self._run.states:
            path = _path(self, state.name)
            held = None if tensors is None else tensors[".".join(path)]
            _set(self, path, _tensor(state.array, state.trained) if held is None else held)
            paths.append(path)
        self._paths = tuple(paths)
        if not self._run.is_by_node:
            self.traced = trace(_calling(self), dynamic_shapes=self._run.dynamic_shapes).with_hints()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the model, node by node."""
        return self._run([_at(self, path) for path in self._paths], args, kwargs)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the model by ``traced``; in a trace, and where hooks look on, those of ``forward``."""
        if self.traced is None or self._hooks or values.is_recording():
            return super().__call__(*args, **kwargs)
        return self.traced(*args, **kwargs)

    def input_specs(self) -> dict[str, TensorSpec]:
        """A spec for each input, by its parameter's name; sizes that the model names are free by their names.

        ArgumentError for a model with inputs that are no tensors, or whose dtypes or sizes it does not say.
        """
        return self._run.input_specs()

    def _traced(self) -> Any:
        """What ``jg.save`` lowers."""
        return self.traced

    def _tensors(self) -> dict[str, Any]:
        """Parameters and buffers by name."""
        return {".".join(path): _at(self, path) for path in self._paths}

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxModule:
        twin = OnnxModule(self._model, copy.deepcopy(self._tensors(), memo), self._static_sizes)
        memo[id(self)] = twin
        twin.train(self.training)
        return twin

    def __reduce__(self) -> Any:
        return OnnxModule, (self._model, self._tensors(), self._static_sizes)

    def extra_repr(self) -> str:
        """The names of inputs and outputs, and the number of nodes."""
        return f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}, {len(self._model.graph.nodes)} nodes"


def load(model: str | os.PathLike[str] | bytes | Any, *, static_sizes: Sequence[str] = ()) -> OnnxModule:
    """An ONNX model as a module, with its parameters: ``model`` is a path, a ModelProto, or the bytes of one.

    Sizes that the model names stay free, but for those of ``static_sizes``: each value of theirs is compiled for.
    Needs the package onnx. LoadError for a model that is damaged or unsound, UnsupportedOp for an operator that is not
    known, FileNotFoundError for a path that is not there.
    """
    if isinstance(static_sizes, str):
        raise ArgumentError(f"static_sizes is a sequence of names, not the text {static_sizes!r}")
    return OnnxModule(reading.read(model), static_sizes=static_sizes)


def _at(module: Any, path: tuple[str, ...]) -> Any:
    """What stands at a path of names: a trace that goes along it names the state of files so."""
    for name in path:
        module = getattr(module, name)
    return module


def _path(root: Module, name: str) -> tuple[str, ...]:
    """A path of attributes for an initializer: along the dots of its name, or where one of these is taken, another."""
    path = tuple(name.split("."))
    holder: Any = root
    for part in path:
        taken = vars(holder).get(part) if isinstance(holder, Module) else None
        is_own = hasattr(_PLAIN, part) or (holder is root and taken is None and hasattr(root, part))
        if not part or is_own or (taken is not None and (not isinstance(taken, Module) or part == path[-1])):
            break
        holder = taken
    else:
        return path
    own = "_".join(part for part in path if part) or "tensor"
    while hasattr(root, own):
        own += "_"
    return (own,)


_PLAIN: Final = Module()
"""A module without anything: its attributes are the names that no tensor may have."""


def _set(root: Module, path: tuple[str, ...], tensor: Any) -> None:
    *above, name = path
    holder = root
    for part in above:
        if part not in vars(holder):
            setattr(holder, part, Module())
        holder = getattr(holder, part)
    if isinstance(tensor, Parameter):
        setattr(holder, name, tensor)
    else:
        holder.register_buffer(name, tensor)


def _tensor(array: Any, trained: bool) -> Tensor:
    return Parameter(asarray(array)) if trained else asarray(array)


def _calling(module: OnnxModule) -> Callable[..., Any]:
    """A function with the parameters of the model's inputs."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return module.forward(*args, **kwargs)

    forward.__signature__ = module._run.signature  # type: ignore[attr-defined]
    return forward
