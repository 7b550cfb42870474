"""``jg.from_torch``: PyTorch's exported programs, files of them, and models, as modules."""

from __future__ import annotations

import copy
import inspect
import keyword
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgraph.errors import ArgumentError, JitgraphError
from jitgraph.nn.module import Module, Parameter
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.torch.programs.program import FreeSize, Program, Spec
from jitgraph.torch.programs.running import Runner
from jitgraph.torch.programs.structure import flatten, unflatten
from jitgraph.tracing.call.function import trace


class ExportedModule(Module):
    """A program of ``torch.export`` as a module; its calls are traced, sizes that the program leaves free are named.

    Parameters and buffers have PyTorch's names and are trained, loaded and saved as any module's. What the program does
    in training or in evaluation was decided when it was exported: ``train()`` and ``eval()`` change nothing.
    """

    def __init__(self, program: Program, tensors: Mapping[str, Any], names: Mapping[str, str]) -> None:
        super().__init__()
        self._program = program
        self._names = dict(names)
        self._run = Runner(program)
        self._places: tuple[tuple[Module, str], ...] = tuple(
            _set(self, entry.kind, entry.target, tensors[entry.target], entry.persistent)
            for entry in program.inputs
            if entry.target
        )
        self.forward = trace(_forward(self), dynamic_shapes=_dynamic_shapes(program, names))

    def _traced(self) -> Any:
        """What ``jg.save`` lowers."""
        return self.forward

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedModule:
        tensors = {
            entry.target: copy.deepcopy(vars(holder)[name], memo)
            for entry, (holder, name) in zip(
                (entry for entry in self._program.inputs if entry.target), self._places, strict=True
            )
        }
        twin = ExportedModule(self._program, tensors, self._names)
        memo[id(self)] = twin
        twin.train(self.training)
        return twin

    def extra_repr(self) -> str:
        """The number of operators."""
        return f"{len(self._program.graph.nodes)} operators"


def _set(root: Module, kind: str, target: str, tensor: Any, persistent: bool) -> tuple[Module, str]:
    """Set a tensor at its dotted name, and say where it stands."""
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
    return holder, name


def _forward(module: ExportedModule) -> Callable[..., Any]:
    """The forward of a program, with the parameters of the model's own."""
    arguments, results = module._program.arguments, module._program.results

    def forward(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        _flatten_arguments(arguments, module._program.names, args, kwargs, leaves)
        tensors = [vars(holder)[name] for holder, name in module._places]
        return unflatten(results, module._run(tensors, leaves))[0]

    forward.__signature__ = _signature(arguments, module._program.names)  # type: ignore[attr-defined]
    return forward


def _signature(arguments: Spec, names: Sequence[str]) -> inspect.Signature:
    positional, by_name = arguments.children
    count = len(positional.children)
    kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD] * count + [inspect.Parameter.KEYWORD_ONLY] * len(by_name.children)
    if len(set(names)) < len(names) or not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        shown = ", ".join(map(repr, names))
        raise JitgraphError(f"the program's arguments have the names {shown}, which Python does not take")
    return inspect.Signature([inspect.Parameter(name, kind) for name, kind in zip(names, kinds, strict=True)])


def _flatten_arguments(
    arguments: Spec, names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]
) -> None:
    positional, by_name = arguments.children
    count = len(positional.children)
    given = [*args, *(kwargs[name] for name in names[len(args) : count])]
    for name, child, value in zip(names, positional.children, given, strict=False):
        flatten(child, value, name, leaves)
    for name, child in zip(by_name.context, by_name.children, strict=True):
        flatten(child, kwargs[name], str(name), leaves)


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
