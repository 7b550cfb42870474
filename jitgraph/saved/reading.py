"""``jg.load``: a file's graph and weights as a callable that compiles anew, differentiates and can be inspected.

Nothing from the file is executed: its graph is parsed, verified and compiled here.
"""

from __future__ import annotations

import inspect
import keyword
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import ArgumentError, GraphError, JitgraphError, LoadError, ShapeError
from jitgraph.foreign_files import SAVED_FUNCTION, format_of
from jitgraph.ir import context, dims, parse, verify
from jitgraph.ir.attributes import resize
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph
from jitgraph.ir.printer import parse_constraint, parse_size
from jitgraph.ir.types import Constant, TensorType
from jitgraph.runtime import loader
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.loader.artifact import MAX_GRAPH_BYTES, Artifact
from jitgraph.runtime.loader.model import verify_state
from jitgraph.saved.entry import CONSTANT
from jitgraph.tensor import Tensor, lifting, scalars, wrap, wrap_as
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tracing.call.function import TracedFunction, trace
from jitgraph.tracing.symbolic.sizes import TraceConstraints


class SavedModel:
    """A function from a file. ``state`` holds its weights by key: tensors whose gradients may be asked for."""

    def __init__(
        self, graph: Graph, signature: loader.Signature, weights: Mapping[str, Any], metadata: Any, device: str = CPU
    ) -> None:
        self.graph = graph
        self.signature = signature
        self.metadata = metadata
        self.device = device
        self.state = {spec.key: wrap(self._on_device(np.array(weights[spec.key]))) for spec in signature.state}
        names = [spec.name for spec in signature.inputs]
        dynamic = {
            spec.name: {
                axis: size for axis, size in enumerate(spec.shape) if isinstance(size, str) and size.isidentifier()
            }
            for spec in signature.inputs
        }

        def run(*args: Any, **kwargs: Any) -> Any:
            return self._run(_bound(self.signature, names, args, kwargs))

        run.__name__ = run.__qualname__ = signature.name
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    spec.name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=_default(spec),
                )
                for spec in signature.inputs
            ]
        )
        self.function: TracedFunction = trace(
            run, dynamic_shapes={name: sizes for name, sizes in dynamic.items() if sizes}
        )

    @property
    def inputs(self) -> tuple[loader.ValueSpec, ...]:
        """Name, dtype and shape of each argument."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[loader.ValueSpec, ...]:
        """Name, dtype and shape of each result, without what is written back to the state."""
        return self.signature.results

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run, compiled for this machine; results are tensors, and gradients flow to arguments and ``state``.

        Arguments are tensors, arrays and numbers; ArgumentError for others, and for a dtype or size that does not fit.
        """
        for arg in (*args, *kwargs.values()):
            if isinstance(arg, list | tuple | dict | str):
                what = f"{self.signature.name} takes {', '.join(map(str, self.inputs))}, not a {type(arg).__name__}"
                raise ArgumentError(f"{what}\n  hint: jg.asarray(data)")
        if self.device != CPU:
            args = tuple(map(self._there, args))
            kwargs = {name: self._there(value) for name, value in kwargs.items()}
        return self.function(*args, **self._with_defaults(args, kwargs))

    def _on_device(self, array: Any) -> Any:
        """The value of an array where the model lies; that of a generator stays on the CPU, which draws from it."""
        if self.device == CPU or (array.dtype == np.uint64 and array.shape == (2,)):
            return EagerValue(array)
        return placement.of_array(array, self.device)

    def _there(self, arg: Any) -> Any:
        """An argument for a model on a GPU: what lies in the host's memory is copied there, numbers stay."""
        is_host = isinstance(arg, np.ndarray) or (isinstance(arg, Tensor) and arg.device == CPU)
        return wrap_as(asarray(arg, device=self.device).value, arg) if is_host and arg.ndim else arg

    def _traced(self) -> TracedFunction:
        """What runs."""
        return self.function

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"<saved {self.signature.name}({takes}) -> {gives}>"

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """As ``lower`` of a traced function."""
        return self.function.lower(*args, **self._with_defaults(args, kwargs))

    def _with_defaults(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The named arguments with the defaults of those left out: given to each call, they are inputs of its graph."""
        left = self.signature.inputs[len(args) :]
        defaults = {spec.name: _default(spec) for spec in left if spec.default is not None and spec.name not in kwargs}
        return {**kwargs, **defaults} if defaults else kwargs

    def parameters(self) -> list[Tensor]:
        """The state as a list."""
        return list(self.state.values())

    def _run(self, arguments: Sequence[Any]) -> Any:
        handles = list(self.state.values())
        values = [
            lifting.value_of(x, graph_input.dtype if scalars.is_scalar(x) else None)  # no way about float32
            for x, graph_input in zip((*arguments, *handles), self.graph.inputs, strict=True)
        ]
        specs = self.signature.parameters
        for number, (spec, graph_input) in enumerate(zip(specs, self.graph.inputs, strict=True)):
            value = values[number]
            if number < len(arguments) and lifting.is_weak(arguments[number]):
                value = values[number] = lifting.cast(value, graph_input.dtype)
            if value.type.dtype != graph_input.dtype or value.type.ndim != len(graph_input.shape):
                raise ArgumentError(f"argument {spec.name}: expected {graph_input.type}, got {value.type}")
        types = [value.type for value in self.graph.inputs]
        sizes = _sizes([t for t in types if isinstance(t, TensorType)], [value.type.shape for value in values])
        _require(self.graph.constraints, sizes, self.signature.name)
        region = replace(
            resize(self.graph, sizes), constraints=()
        )  # which now hold, or are assumed by the graph around
        outputs = ops.call(*values, regions=(region,))
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        shown = _rebuilt(self.signature.structure, [wrap_as(value, *arguments) for value in results])
        for output, state in self.signature.writes:
            handles[state]._rebind(results[output])
        return shown


def _default(spec: loader.ValueSpec) -> Any:
    """The default of a parameter: a Python number as in the function that was saved, or an array of another dtype."""
    if spec.default is None:
        return inspect.Parameter.empty
    return float(spec.default) if spec.dtype == "float64" and not spec.shape else loader.default_of(spec)


def _bound(
    signature: loader.Signature, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The arguments in order, defaults filled in."""
    bound = dict(zip(names, args, strict=False)) | dict(kwargs)
    return [bound[spec.name] if spec.name in bound else loader.default_of(spec) for spec in signature.inputs]


def _sizes(types: Sequence[TensorType], shapes: Sequence[Sequence[DimLike]]) -> dict[str, DimLike]:
    """A value for every name in ``types``, an int or a size of the trace around; ShapeError where shapes do not fit."""
    sizes: dict[str, DimLike] = {}
    pairs = [pair for type, shape in zip(types, shapes, strict=True) for pair in zip(type.shape, shape, strict=True)]
    for declared, actual in pairs:
        name = None if isinstance(declared, int) else declared.as_name
        if name is not None:
            sizes.setdefault(name, actual)
    for declared, actual in pairs:
        expected = dims.substitute(declared, sizes)
        if not context.constraints().same(expected, actual):
            raise ShapeError(f"an argument has size {actual} where the saved graph expects {declared}")
    return sizes


def _require(constraints: Iterable[SizeConstraint], sizes: Mapping[str, DimLike], title: str) -> None:
    """Make sure of what the graph assumes of its sizes: decided for known sizes, else assumed by the trace around."""
    known = context.constraints()
    for constraint in constraints:
        left, right = dims.substitute(constraint.left, sizes), dims.substitute(constraint.right, sizes)
        holds = known.same(left, right) if constraint.relation == "==" else known.at_least(left, right)
        if not holds:
            names = sorted(dims.names(constraint.left) | dims.names(constraint.right))
            traced = known.sizes if isinstance(known, TraceConstraints) else None
            facts = ", ".join(f"{name} is {dims.substitute(sizes[name], traced or {})}" for name in names)
            raise ShapeError(f"{title}: the sizes must satisfy {constraint} ({facts})")


def _rebuilt(structure: Any, results: Sequence[Tensor]) -> Any:
    """The result in the structure of the file's signature."""
    if structure is None or isinstance(structure, int):
        return None if structure is None else results[structure]
    ((kind, content),) = structure.items()
    match kind:
        case "value":
            return content
        case "dict":
            return {key: _rebuilt(child, results) for key, child in content.items()}
    return (tuple if kind == "tuple" else list)(_rebuilt(child, results) for child in content)


def load(path: str | os.PathLike[str], *, entry: str = "forward", device: str = CPU) -> SavedModel:
    """The function saved at ``path``; LoadError for a file that is damaged, hostile or from another version.

    It is called with tensors or arrays of the saved dtypes and sizes, is compiled for this machine, and may be traced,
    differentiated and saved again. ``entry`` names another entry of the file. With a GPU such as "cuda:0" as ``device``
    its state lies there, where it runs, and arguments are copied there; DeviceError for a device that is absent.
    """
    device_name = placement.canonical(device)
    with opened(path) as artifact:
        return _load(artifact, entry, device_name)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Artifact]:
    """The file's members, for a block whose errors name the file, and are LoadError whatever a part offends against."""
    try:
        yield _artifact(path)
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from error.__cause__
    except JitgraphError as error:  # whatever a part of the file offends against
        raise LoadError(f"{os.fspath(path)}: {getattr(error, 'message', error)}") from error


def _artifact(path: str | os.PathLike[str]) -> Artifact:
    """The file's members; LoadError that says what the file is where jitgraph did not write it."""
    try:
        return Artifact(path)
    except LoadError as error:
        kind = None if isinstance(path, bytes) else format_of(path)
        if kind is None or kind is SAVED_FUNCTION:
            raise
        raise LoadError(f"this is {kind.text}; jg.load reads what jg.save wrote\n  hint: {kind.hint}") from error


def _load(artifact: Artifact, entry: str, device: str) -> SavedModel:
    signatures = artifact.signatures()
    if entry not in signatures:
        raise LoadError(f"no entry {entry!r}; there are {', '.join(signatures)}")
    weights = artifact.weights()
    graph = graph_of(artifact, entry, signatures[entry], weights)
    return SavedModel(graph, signatures[entry], weights, artifact.metadata(), device)


def graph_of(artifact: Artifact, entry: str, signature: loader.Signature, weights: Mapping[str, Any]) -> Graph:
    """The graph of an entry, parsed, verified and compared with its signature; LoadError where they are not sound."""
    member = artifact.manifest["entries"][entry].get("graph")
    if not isinstance(member, str):
        raise LoadError(f"the manifest names no graph for {entry!r}")
    for state in signature.state:
        verify_state(state, weights)
    constants = {
        key.removeprefix(CONSTANT): Constant(array) for key, array in weights.items() if key.startswith(CONSTANT)
    }
    text = artifact.read(member)
    if len(text) > MAX_GRAPH_BYTES:
        raise LoadError(f"the graph of {entry!r} has {len(text)} bytes, more than the {MAX_GRAPH_BYTES} allowed")
    try:
        graph = parse(bytes(text).decode(), constants=constants, elided=False)
        verify(graph)
    except (GraphError, ShapeError, UnicodeDecodeError) as error:
        raise LoadError(f"the graph of {entry!r} is not valid: {error}") from error
    _compare(graph, signature)
    return graph


def _compare(graph: Graph, signature: loader.Signature) -> None:
    """LoadError where a signature is not that of the graph: one of them was changed, and native code fits the other."""
    pairs: list[tuple[str, Sequence[object], Sequence[object]]] = [
        ("takes", [v.type for v in graph.inputs], list(map(_type, signature.parameters))),
        ("gives", [v.type for v in graph.outputs], list(map(_type, signature.outputs))),
        ("assumes", _sorted(graph.constraints), _sorted(map(parse_constraint, signature.constraints))),
    ]
    for verb, actual, declared in pairs:
        if actual != declared:
            shown = [", ".join(map(str, side)) or "nothing" for side in (actual, declared)]
            raise LoadError(f"the graph {verb} {shown[0]}, its signature says {shown[1]}")
    optional = [spec.default is not None for spec in signature.inputs]
    if optional != sorted(optional):
        raise LoadError("an input without a default stands behind one that has a default")
    for spec in signature.inputs:
        if not spec.name.isidentifier() or keyword.iskeyword(spec.name):
            raise LoadError(f"an input is called {spec.name[:60]!r}, which is no name of an argument in Python")


def _type(spec: loader.ValueSpec) -> TensorType:
    shape = tuple(parse_size(size) if isinstance(size, str) else size for size in spec.shape)
    return TensorType(loader.dtype_named(spec.dtype), shape)


def _sorted(constraints: Iterable[SizeConstraint]) -> list[SizeConstraint]:
    return sorted(constraints, key=str)
