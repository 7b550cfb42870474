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
from typing import Any, NamedTuple

import numpy as np

from jitgraph import ops, tree
from jitgraph.eager import placement
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
from jitgraph.runtime.loader.device_model import DeviceModel
from jitgraph.runtime.loader.model import verify_state
from jitgraph.runtime.loader.state_files import CONSTANT, is_constant
from jitgraph.runtime.loader.structures import OMITTED, Argument, assembled, first_fitting, flattened, paths_of
from jitgraph.saved.state import load_tensors, tensors_of, value_on, write_state_file
from jitgraph.tensor import Tensor, lifting, scalars, wrap, wrap_as
from jitgraph.tensor.custom import bound_to
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tracing.call.function import TracedFunction, trace
from jitgraph.tracing.symbolic.sizes import TraceConstraints


class SavedModel:
    """An entry of a file, to be called; ``state`` holds the file's weights by key, whose gradients may be asked for.

    All entries of a file share it; each is an attribute: ``model.step(x)``. Calling the model calls its own entry.
    """

    def __init__(self, file: _Contents, choices: Sequence[str]) -> None:
        """``choices`` are the specialisations of this entry, which a call chooses from by its arguments."""
        self.name = choices[0]
        self.graph = file.graphs[choices[0]]
        self.signature = file.signatures[choices[0]]
        self.metadata = file.metadata
        self.device = file.device
        self.state = file.state
        self.entries = file.models
        self.specialisations = (self, *(SavedModel(file, (each,)) for each in choices[1:]))
        self._bound = [(file.graphs[each], file.signatures[each]) for each in choices]

        def run(*args: Any, **kwargs: Any) -> Any:
            return self._run(args, kwargs)

        run.__name__ = run.__qualname__ = self.signature.name
        run.__signature__ = inspect.Signature(_parameters(self.signature))  # type: ignore[attr-defined]
        self.function: TracedFunction = trace(run, dynamic_shapes=_dynamic([sig for _, sig in self._bound]))

    def __getattr__(self, name: str) -> SavedModel:
        entries: Mapping[str, SavedModel] = vars(self).get("entries", {})
        if name in entries:
            return entries[name]
        raise AttributeError(f"there is no entry {name!r}; the file has {', '.join(entries)}")

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

        Arguments are tensors, arrays and numbers, in the containers of the function that was saved; ArgumentError for
        others, and for a dtype or size that does not fit.
        """
        if self.signature.arguments is None:
            for arg in (*args, *kwargs.values()):
                if isinstance(arg, list | tuple | dict | str):
                    what = f"{self.signature.name} takes {', '.join(map(str, self.inputs))}, not a {type(arg).__name__}"
                    raise ArgumentError(f"{what}\n  hint: jg.asarray(data)")
        if self.device != CPU:
            args = tuple(tree.map_leaves(self._there, arg) for arg in args)
            kwargs = {name: tree.map_leaves(self._there, value) for name, value in kwargs.items()}
        return self.function(*args, **self._with_defaults(args, kwargs))

    def _there(self, arg: Any) -> Any:
        """An argument for a model on a GPU: what lies in the host's memory is copied there, numbers stay."""
        is_host = isinstance(arg, np.ndarray) or (isinstance(arg, Tensor) and arg.device == CPU)
        return wrap_as(asarray(arg, device=self.device).value, arg) if is_host and arg.ndim else arg

    def run_flat(self, /, *values: Any) -> Any:
        """Call it with one value for each of ``inputs``, whatever structure its arguments have."""
        return self(*self.arguments_of(values))

    def arguments_of(self, values: Sequence[Any]) -> list[Any]:
        """The arguments of a call with one value for each of ``inputs``; ArgumentError for another number of values."""
        if len(values) != len(self.inputs):
            raise ArgumentError(f"{self.signature.name} takes {len(self.inputs)} inputs, got {len(values)}")
        if self.signature.arguments is None:
            return list(values)
        return assembled(self.signature.arguments, values)

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
        inputs = {spec.name: spec for spec in self.signature.inputs if spec.default is not None}
        left = [parameter for parameter in _parameters(self.signature)[len(args) :] if parameter.name not in kwargs]
        defaults = {each.name: _default(inputs[each.name]) for each in left if each.name in inputs}
        return {**kwargs, **defaults} if defaults else kwargs

    def parameters(self) -> list[Tensor]:
        """The state as a list."""
        return list(self.state.values())

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file of safetensors, whole or not at all, as both loaders do; OSError as ``open``."""
        arrays = {key: tensor.detach().cpu().numpy() for key, tensor in self.state.items()}
        write_state_file(path, arrays)

    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Set the whole state from a file that ``save_state``, here or in a loader, wrote.

        LoadError, and nothing is changed, for a file that is damaged or is of another model's state.
        """
        load_tensors(path, self.state)

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that ``jg.save`` takes as state, by name."""
        yield from self.state.items()

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        graphs = {str(number): bound for number, bound in enumerate(self._bound)}
        number, arguments = first_fitting(list(graphs), lambda each: _leaves(graphs[each][1], args, kwargs))
        graph, signature = graphs[number]
        return self._run_graph(graph, signature, arguments)

    def _run_graph(self, graph: Graph, signature: loader.Signature, arguments: Sequence[Any]) -> Any:
        handles = [self.state[spec.key] for spec in signature.state]
        values = [
            lifting.value_of(x, graph_input.dtype if scalars.is_scalar(x) else None)  # no way about float32
            for x, graph_input in zip((*arguments, *handles), graph.inputs, strict=True)
        ]
        specs = signature.parameters
        for number, (spec, graph_input) in enumerate(zip(specs, graph.inputs, strict=True)):
            value = values[number]
            if number < len(arguments) and lifting.is_weak(arguments[number]):
                value = values[number] = lifting.cast(value, graph_input.dtype)
            if value.type.dtype != graph_input.dtype or value.type.ndim != len(graph_input.shape):
                raise ArgumentError(f"argument {spec.name}: expected {graph_input.type}, got {value.type}")
        types = [value.type for value in graph.inputs]
        sizes = _sizes([t for t in types if isinstance(t, TensorType)], [value.type.shape for value in values])
        _require(graph.constraints, sizes, signature.name)
        region = replace(resize(graph, sizes), constraints=())  # which now hold, or are assumed by the graph around
        outputs = ops.call(*values, regions=(region,))
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        shown = _rebuilt(signature.structure, [wrap_as(value, *arguments) for value in results])
        for output, state in signature.writes:
            handles[state]._rebind(results[output])
        return shown


def _default(spec: loader.ValueSpec) -> Any:
    """The default of a parameter: a Python number as in the function that was saved, or an array of another dtype."""
    if spec.default is None:
        return inspect.Parameter.empty
    return float(spec.default) if spec.dtype == "float64" and not spec.shape else loader.default_of(spec)


def _leaves(signature: loader.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The values of the inputs in order, defaults filled in."""
    names = [spec.name for spec in signature.inputs]
    if signature.arguments is None:
        bound = dict(zip(names, args, strict=False)) | dict(kwargs)
        given = [bound.get(name, OMITTED) for name in names]
    else:
        given = flattened(signature.arguments, len(names), signature.name, args, kwargs)
    return [
        loader.default_of(spec) if value is OMITTED else value
        for spec, value in zip(signature.inputs, given, strict=True)
    ]


def _parameters(signature: loader.Signature) -> list[inspect.Parameter]:
    """The parameters that a call of an entry has."""
    parameters = []
    defaults = {spec.name: _default(spec) for spec in signature.inputs}
    arguments = signature.arguments or [Argument(spec.name, at) for at, spec in enumerate(signature.inputs)]
    for argument in arguments:
        default: Any = defaults.get(argument.name, inspect.Parameter.empty)
        if argument.optional:  # what stands here is not looked at
            default = None
        parameters.append(inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return parameters


def _dynamic(signatures: Sequence[loader.Signature]) -> dict[str, dict[int, str]]:
    """The sizes with names by argument, as ``dynamic_shapes`` takes them: those that all specialisations have."""
    first, *others = [_named_sizes(signature) for signature in signatures]
    return {text: sizes for text, sizes in first.items() if all(other.get(text) == sizes for other in others)}


def _named_sizes(signature: loader.Signature) -> dict[str, dict[int, str]]:
    texts = [spec.name for spec in signature.inputs]
    for argument in signature.arguments or ():
        for number, text in paths_of(argument):
            texts[number] = text
    return {
        text: sizes
        for text, spec in zip(texts, signature.inputs, strict=True)
        if (sizes := {at: size for at, size in enumerate(spec.shape) if isinstance(size, str) and size.isidentifier()})
    }


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


def load(
    path: str | os.PathLike[str],
    *,
    entry: str | None = None,
    device: str = CPU,
    custom_ops: Mapping[str, Any] | None = None,
) -> SavedModel:
    """The function saved at ``path``; LoadError for a file that is damaged, hostile or from another version.

    It is called with tensors or arrays of the saved dtypes and sizes, is compiled for this machine, and may be traced,
    differentiated and saved again. Of a file with several functions it is the main one, "forward" or else the first,
    and has the others as attributes, ``model.step(x)``, over the same state; ``entry`` names one of them. With a GPU
    such as "cuda:0" as ``device`` its state lies there, where it runs, and arguments are copied there; DeviceError for
    a device that is absent.

    ``custom_ops`` are the functions of the ops that the file calls by their names: what ``jg.custom_op`` gave, which
    brings its gradient, functions of NumPy arrays, or function pointers as it takes them. LoadError names one that is
    missing, and a custom op of other types.
    """
    device_name = placement.canonical(device)
    with opened(path) as artifact:
        return _load(artifact, entry, device_name, custom_ops or {})


def load_state(path: str | os.PathLike[str], state: Any) -> None:
    """Set the tensors of a state from a file that ``save_state`` of a model wrote, in Python or in C.

    ``state`` is what ``jg.save`` was given as ``state``, or equals it: a module, an optimiser, or a dict, list or tuple
    of them. Where the file has the stream of ``jg.random``, that goes on where it stood there, too. LoadError, and
    nothing is changed, for a file that is damaged, lacks one of the tensors or has it with another shape or dtype.
    """
    load_tensors(path, tensors_of(state), may_have_more=True)


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


class _Contents(NamedTuple):
    """What the functions of a file share. ``models`` are those that a caller names."""

    graphs: Mapping[str, Graph]
    signatures: Mapping[str, loader.Signature]
    metadata: Mapping[str, Any]
    device: str
    state: dict[str, Tensor]
    models: dict[str, SavedModel]


def _load(artifact: Artifact, entry: str | None, device: str, custom_ops: Mapping[str, Any]) -> SavedModel:
    signatures = artifact.signatures()
    choices = artifact.specialisations()
    name = entry or ("forward" if "forward" in choices else next(iter(choices)))
    if name not in signatures:
        raise LoadError(f"no entry {entry!r}; there are {', '.join(choices)}")
    weights = artifact.weights()
    graphs = {
        each: bound_to(graph_of(artifact, each, signature, weights), custom_ops)
        for each, signature in signatures.items()
    }
    keys = dict.fromkeys(spec.key for signature in signatures.values() for spec in signature.state)
    keys |= {key: None for key in weights if not is_constant(key)}
    state = {key: wrap(_on_device(np.array(weights[key]), device)) for key in keys}
    contents = _Contents(graphs, signatures, artifact.metadata(), device, state, {})
    for each, names in choices.items():
        contents.models[each] = SavedModel(contents, names)
    return contents.models[name] if name in choices else SavedModel(contents, (name,))


def _on_device(array: Any, device: str) -> Any:
    """The value of an array where a model lies; that of a generator stays on the CPU, which draws from it."""
    is_generator = array.dtype == np.uint64 and array.shape == (2,)
    return value_on(array, CPU if is_generator else device)


def reserved_names() -> frozenset[str]:
    """The names that no entry may have, as models and the loader's models have attributes of these names."""
    own = (
        "graph",
        "signature",
        "metadata",
        "device",
        "state",
        "name",
        "entries",
        "specialisations",
        "function",
        "target",
    )
    return frozenset((*dir(SavedModel), *dir(DeviceModel), *own))


def graph_of(artifact: Artifact, entry: str, signature: loader.Signature, weights: Mapping[str, Any]) -> Graph:
    """The graph of an entry, parsed, verified and compared with its signature; LoadError where they are not sound."""
    member = artifact.manifest["entries"][entry].get("graph")
    if not isinstance(member, str):
        raise LoadError(f"the manifest names no graph for {entry!r}")
    for state in signature.state:
        verify_state(state, weights)
    constants = {key.removeprefix(CONSTANT): Constant(array) for key, array in weights.items() if is_constant(key)}
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
    for each in signature.arguments or signature.inputs:
        if not each.name.isidentifier() or keyword.iskeyword(each.name):
            raise LoadError(f"an input is called {each.name[:60]!r}, which is no name of an argument in Python")
    optional = [each.default is not inspect.Parameter.empty for each in _parameters(signature)]
    if optional != sorted(optional):
        raise LoadError("an input without a default stands behind one that has a default")


def _type(spec: loader.ValueSpec) -> TensorType:
    shape = tuple(parse_size(size) if isinstance(size, str) else size for size in spec.shape)
    return TensorType(loader.dtype_named(spec.dtype), shape)


def _sorted(constraints: Iterable[SizeConstraint]) -> list[SizeConstraint]:
    return sorted(constraints, key=str)
