"""``jg.from_torch``: PyTorch's exported programs, files of them, and models, as modules."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgraph.errors import ArgumentError
from jitgraph.nn.module import Module, Parameter
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.torch.programs.program import FreeSize, Program, Spec
from jitgraph.torch.programs.running import Runner, is_recording
from jitgraph.tracing.call.arguments import TensorSpec
from jitgraph.tracing.call.function import trace


class ExportedModule(Module):
    """A program of ``torch.export`` as a module. Calls go by ``traced``, with names for free sizes.

    Parameters and buffers have PyTorch's names and are trained, loaded and saved as any module's. What the program does
    in training or in evaluation was decided when it was exported: ``train()`` and ``eval()`` change nothing.
    """

    def __init__(self, program: Program, tensors: Mapping[str, Any], names: Mapping[str, str]) -> None:
        super().__init__()
        self._program = program
        self._names = dict(names)
        self._run = Runner(program)
        entries = [entry for entry in program.inputs if entry.target]
        for entry in entries:
            _set(self, entry.kind, entry.target, tensors[entry.target], entry.persistent)
        self._paths = tuple(tuple(entry.target.split(".")) for entry in entries)
        self.traced = trace(_calling(self), dynamic_shapes=_dynamic_shapes(program, names))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the program, operator by operator."""
        return self._run([_at(self, path) for path in self._paths], args, kwargs)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The results of the program by ``traced``; in a trace, and where hooks look on, those of ``forward``."""
        if self._hooks or is_recording():
            return super().__call__(*args, **kwargs)
        return self.traced(*args, **kwargs)

    def _traced(self) -> Any:
        """What ``jg.save`` lowers."""
        return self.traced

    def input_specs(self) -> dict[str, TensorSpec]:
        """A spec for each tensor among the arguments, by its parameter's name; free sizes go by their names.

        ArgumentError for a program whose arguments are containers, or no tensors.
        """
        users = [entry for entry in self._program.inputs if entry.kind in ("user", "fixed")]
        names = self._program.names
        if len(users) != len(names) or any(entry.kind == "fixed" for entry in users):
            raise ArgumentError("the arguments of this program are not one tensor each")
        specs = {}
        for name, entry in zip(names, users, strict=True):
            meta = self._program.graph.metas[entry.name]
            sizes = [self._names.get(s.text, s.text) if isinstance(s, FreeSize) else s for s in meta.shape]
            specs[name] = TensorSpec(tuple(sizes), meta.dtype)
        return specs

    def _tensors(self) -> dict[str, Any]:
        """What the program reads, by PyTorch's names."""
        return {".".join(path): _at(self, path) for path in self._paths}

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedModule:
        twin = ExportedModule(self._program, copy.deepcopy(self._tensors(), memo), self._names)
        memo[id(self)] = twin
        twin.train(self.training)
        return twin

    def __reduce__(self) -> Any:
        return ExportedModule, (self._program, self._tensors(), self._names)

    def extra_repr(self) -> str:
        """The number of operators."""
        return f"{len(self._program.graph.nodes)} operators"


def _at(module: Any, path: tuple[str, ...]) -> Any:
    """What stands at a path of names: a trace that goes along it names the state of files so."""
    for name in path:
        module = getattr(module, name)
    return module


def _set(root: Module, kind: str, target: str, tensor: Any, persistent: bool) -> None:
    """Set a tensor at its dotted name."""
    *path, name = target.split(".")
    holder = root
    for part in path:
        inner = vars(holder).get(part)
        if not isinstance(inner, Module):
            inner = Module()
            setattr(holder, part, inner)
        holder = inner
    if kind == "parameter":
        setattr(holder, name, tensor)
    elif kind == "buffer":
        holder.register_buffer(name, tensor, persistent)
    else:
        vars(holder)[name] = tensor


def _calling(module: ExportedModule) -> Callable[..., Any]:
    """A function with the parameters of the model's own ``forward``."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return module.forward(*args, **kwargs)

    forward.__signature__ = module._run.signature  # type: ignore[attr-defined]
    return forward


# ----------------------------------------------------------------------
# Names of sizes.


def _leaf_paths(spec: Spec, text: str) -> list[str]:
    """The texts by which ``dynamic_shapes`` names the leaves of an argument: ``x``, ``batch['x']``, ``x[0]``."""
    if spec.kind == "leaf":
        return [text]
    if spec.kind in ("dict", "ordered dict"):
        texts = [f"{text}[{key!r}]" for key in spec.context]
    elif spec.kind == "namedtuple":
        texts = [f"{text}.{field}" for field in spec.context[1]]
    else:
        texts = [f"{text}[{number}]" for number in range(len(spec.children))]
    return [path for own, child in zip(texts, spec.children, strict=True) for path in _leaf_paths(child, own)]


def _user_shapes(program: Program) -> list[tuple[str, tuple[int | FreeSize, ...]]]:
    """The text of each leaf of the arguments, and its shape."""
    positional, by_name = program.arguments.children
    children = (*positional.children, *by_name.children)
    paths = [path for name, child in zip(program.names, children, strict=True) for path in _leaf_paths(child, name)]
    users = [entry for entry in program.inputs if entry.kind in ("user", "fixed")]
    metas = [program.graph.metas.get(entry.name) if entry.kind == "user" else None for entry in users]
    return [(path, () if meta is None else meta.shape) for path, meta in zip(paths, metas, strict=True)]


def _dynamic_shapes(program: Program, names: Mapping[str, str]) -> dict[str, dict[int, str]]:
    """Names for the sizes that the program leaves free: its symbols', or those of ``names`` for them."""
    dynamic: dict[str, dict[int, str]] = {}
    for path, shape in _user_shapes(program):
        texts = {axis: size.text for axis, size in enumerate(shape) if isinstance(size, FreeSize)}
        axes = {axis: names.get(text, text) for axis, text in texts.items() if text.isidentifier()}
        if axes:
            dynamic[path] = axes
    return dynamic


def _names_of_symbols(program: Program, dynamic_shapes: Mapping[str, Any] | None) -> dict[str, str]:
    """The names that a user gives to sizes, by the program's symbols."""
    if not dynamic_shapes:
        return {}
    shapes = dict(_user_shapes(program))
    names: dict[str, str] = {}
    for path, axes in dynamic_shapes.items():
        if path not in shapes:
            raise ArgumentError(f"dynamic_shapes names {path!r}; the arguments are {', '.join(shapes)}")
        for axis, name in dict(axes).items():
            size = shapes[path][axis] if -len(shapes[path]) <= axis < len(shapes[path]) else None
            if not isinstance(size, FreeSize):
                raise ArgumentError(
                    f"dynamic_shapes: axis {axis} of {path} has the size {size} in the program, which is not free\n"
                    "  hint: torch.export.export(model, args, dynamic_shapes=...) leaves it free"
                )
            names[size.text] = name
    return names


# ----------------------------------------------------------------------
# What a program is made from.


def from_torch(
    program: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | None = None,
    model: str | None = None,
) -> ExportedModule:
    """A PyTorch model as a module of jitgraph, with its parameters.

    ``program`` is a ``torch.export.ExportedProgram``, the path of a ``.pt2`` file, which is read without PyTorch
    (``model`` names one of several in it), an FX GraphModule of ATen's operators, or a ``torch.nn.Module``, which is
    exported with the example arguments ``args`` and ``kwargs``, PyTorch tensors or arrays. ``dynamic_shapes``, as for
    ``jg.trace``, names sizes that stay free: those that a program left free, or any of a module's. UnsupportedOp for
    an operator that is not known, LoadError for a damaged file, FileNotFoundError for one that is not there.
    """
    if isinstance(program, str | os.PathLike):
        archive: Any = imports.module("jitgraph.torch.programs.archive")
        own, arrays, trainable = archive.read(program, model)
        tensors = {name: (id(array), array, trainable[name]) for name, array in arrays.items()}
    else:
        fx: Any = imports.module("jitgraph.torch.programs.fx")
        if hasattr(program, "graph_signature") and hasattr(program, "graph_module"):
            own, torch_tensors = fx.program_of(program)
        elif callable(program) and hasattr(program, "named_parameters"):
            own, torch_tensors = fx.program_of(fx.export(program, args, kwargs, dynamic_shapes))
        else:
            kind = type(program).__name__
            raise ArgumentError(f"from_torch takes an exported program, a path, or a torch.nn.Module, not {kind}")
        tensors = {name: fx.described(tensor) for name, tensor in torch_tensors.items()}
    return ExportedModule(own, _as_parameters(own, tensors), _names_of_symbols(own, dynamic_shapes))


def _as_parameters(program: Program, tensors: Mapping[str, tuple[Any, Any, bool]]) -> dict[str, Tensor]:
    """Parameters and plain tensors by name; ``tensors`` has an identity, the array, and whether it is trained."""
    made: dict[Any, Tensor] = {}
    result: dict[str, Tensor] = {}
    for entry in program.inputs:
        if not entry.target:
            continue
        identity, array, trainable = tensors[entry.target]
        key = identity, entry.kind == "parameter"
        if key not in made:
            own = asarray(array)
            made[key] = Parameter(own, requires_grad=trainable) if entry.kind == "parameter" else own
        result[entry.target] = made[key]
    return result
