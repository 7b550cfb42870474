"""Models evaluated over jitgraph's functions: eagerly, and recorded where a trace is.

A graph is resolved once, to functions and the names of their operands; functions of the model are inlined. Operators
that onnx defines by others, and that the table lacks, are inlined when they run, as their bodies depend on types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.errors import JitgraphError, LoadError, UnsupportedOp
from jitgraph.onnx import library, reading, registry, values
from jitgraph.onnx.records import Array, FunctionRecord, ModelGraph, ModelRecord, NodeRecord, Reference
from jitgraph.tensor import Tensor

_MOST_STEPS: Final = 100_000  # behind inlining
_DEEPEST: Final = 40  # functions in functions
_SMALL: Final = 4096
"""Up to so many elements a constant that is no float is a host value; up to 16 one of floats is."""

Values = dict[str, Any]


class NodeStep(NamedTuple):
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    routines: tuple[str, ...]
    definition: registry.OperatorDefinition
    location: str
    dead: tuple[str, ...]

    @property
    def is_choice(self) -> bool:
        """Whether the results are those of one of its graphs."""
        return "then_branch" in self.routines


class State(NamedTuple):
    """An array of the model by its name, and whether it is trained."""

    name: str
    array: Array
    trained: bool


class Resolver:
    """Makes routines of graphs; ``states`` are the arrays that the module holds for them."""

    def __init__(self, model: ModelRecord) -> None:
        self.model = model
        self.states: list[State] = []
        self.host_inputs: set[str] = set()  # inputs of the model that decide about shapes
        self._count = 0
        self._names: set[str] = set()

    def state(self, name: str, array: Array, trained: bool) -> StateRef:
        """A reference to an array that the module holds."""
        own, number = name, 1
        while own in self._names:
            number += 1
            own = f"{name}_{number}"
        self._names.add(own)
        self.states.append(State(own, array, trained))
        return StateRef(len(self.states) - 1)

    def count(self) -> None:
        """One step more; LoadError where there are too many."""
        self._count += 1
        if self._count > _MOST_STEPS:
            raise LoadError(f"the model has more than {_MOST_STEPS} nodes where its functions are inlined")


class StateRef(NamedTuple):
    """A value that is an array of the module's."""

    number: int


class Scope(NamedTuple):
    """What a graph is resolved for: versions of operator sets, functions, attributes of the function around."""

    resolver: Resolver
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any]
    depth: int
    path: str


class GraphRunner:
    """A graph as a function of its inputs and of the values around it."""

    def __init__(self, graph: ModelGraph, scope: Scope) -> None:
        self.graph = graph
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self.constants: Values = {}
        self.free: set[str] = set()
        self._host_names: set[str] = set()
        self.read_by_host: set[str] = set()
        """Names that the shapes of the graph are computed from."""
        steps = [_step(node, scope) for node in graph.nodes if not self._is_constant(node, scope)]
        self._note_uses(steps)
        for name, array in graph.initializers.items():
            self.constants[name] = self._constant(name, array, scope)
        self.steps = self._with_lives(steps)

    def _is_constant(self, node: NodeRecord, scope: Scope) -> bool:
        """Whether a node only names an array, which the module then holds; small ones are host values."""
        array = node.attributes.get("value")
        if node.op != "Constant" or node.domain or not isinstance(array, np.ndarray) or len(node.outputs) != 1:
            return False
        small = 16 if array.dtype.kind in "fc" else _SMALL
        held = array.size > small and array.dtype not in values.STORED and array.dtype != object
        self.constants[node.outputs[0]] = (
            scope.resolver.state(scope.path + node.outputs[0], array, False) if held else array
        )
        return True

    def _constant(self, name: str, array: Array, scope: Scope) -> Any:
        if array.dtype == object or array.dtype in values.STORED:
            return array
        is_float = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
        if is_float and name not in self._host_names:
            return scope.resolver.state(scope.path + name, array, True)
        if array.size <= _SMALL:
            return array
        return scope.resolver.state(scope.path + name, array, False)

    def _note_uses(self, steps: list[NodeStep]) -> None:
        """Which names host values are computed from, which come from around, and which steps compute shapes."""
        self._unnamed = tuple(steps)
        host = self.host_reads(())
        other = set(self.outputs)
        own = {*self.inputs, *self.graph.initializers, *self.constants}
        for step in steps:
            on_host = _is_on_host(step, host)
            other |= {name for i, name in enumerate(step.inputs) if not on_host and i not in step.definition.host}
            for inner in _routines_of(step):
                other |= inner.free - inner.read_by_host
            own |= set(step.outputs)
        self._host_names = host - other
        self.read_by_host = host
        for i, step in enumerate(steps):
            if "is_shape" in step.definition.keywords:
                attributes = {**step.attributes, "is_shape": bool(host & set(step.outputs))}
                steps[i] = step._replace(attributes=attributes)
        self.free = (host | other) - own - {""}

    def host_reads(self, results: Sequence[int]) -> set[str]:
        """The names that host values are computed from, where the outputs ``results`` are such values, too."""
        host = {self.outputs[i] for i in results}
        for step in reversed(self._unnamed):
            on_host = _is_on_host(step, host)
            host |= {name for i, name in enumerate(step.inputs) if on_host or i in step.definition.host}
            is_call = step.function is _called
            through = [i for i, name in enumerate(step.outputs) if name in host] if is_call or step.is_choice else ()
            for inner in _routines_of(step):
                read = inner.host_reads(through)
                host |= read & inner.free
                if is_call:
                    host |= {name for name, own in zip(step.inputs, inner.inputs, strict=False) if own in read}
        return host - {""}

    def _with_lives(self, steps: Sequence[NodeStep]) -> tuple[NodeStep, ...]:
        """Steps that say which names nobody reads behind them."""
        alive = {*self.outputs, *self.constants}
        result = []
        for step in reversed(steps):
            read = {*step.inputs, *step.outputs}
            for inner in _routines_of(step):
                read |= inner.free
            result.append(step._replace(dead=tuple(read - alive - {""})))
            alive |= read
        return tuple(reversed(result))

    def __call__(self, inputs: Sequence[Any], outer: Values, states: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs; ``outer`` are the values around, ``states`` those of the module."""
        if len(inputs) != len(self.inputs):
            raise JitgraphError(f"{self.graph.name} takes {len(self.inputs)} values, and {len(inputs)} came")
        own = dict(zip(self.inputs, inputs, strict=True))
        for name, value in self.constants.items():
            own[name] = states[value.number] if isinstance(value, StateRef) else value
        scope = {**outer, **own} if self.free else own
        for step in self.steps:
            run(step, scope, states)
        return tuple(scope[name] if name else None for name in self.outputs)


def _is_on_host(step: NodeStep, host: set[str]) -> bool:
    """Whether a step computes on the host, as a result of its is a host value."""
    return step.definition.is_computed_on_host and not step.routines and bool(host & set(step.outputs))


def _routines_of(step: NodeStep) -> list[GraphRunner]:
    """The graphs that a step has as attributes."""
    values_of = [step.attributes[name] for name in step.routines]
    return [inner for each in values_of for inner in (each if isinstance(each, list) else [each])]


class Bound:
    """A graph that is an attribute, as a function of its inputs."""

    def __init__(self, routine: GraphRunner, outer: Values, states: Sequence[Any]) -> None:
        self.routine, self._outer, self._states = routine, outer, states

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        return self.routine(inputs, self._outer, self._states)


def run(step: NodeStep, scope: Values, states: Sequence[Any]) -> None:
    """Compute a step's outputs into ``scope``."""
    try:
        operands = [scope[name] if name else None for name in step.inputs]
        attributes = step.attributes
        if step.routines:
            outer = dict(scope)
            bound: dict[str, Any] = {}
            for name in step.routines:
                routine = attributes[name]
                bound[name] = (
                    [Bound(each, outer, states) for each in routine]
                    if isinstance(routine, list)
                    else Bound(routine, outer, states)
                )
            attributes = {**attributes, **bound}
        result = apply(step, operands, attributes)
    except Exception as error:
        if not any("of the model" in note for note in getattr(error, "__notes__", ())):
            error.add_note(f"in {step.location} of the model")
        raise
    results = result if isinstance(result, tuple) else (result,)
    for name, value in zip(step.outputs, results, strict=False):
        if name:
            values.hold_nested_sizes(value)
            scope[name] = value
    if len(results) < len(step.outputs):
        for name in step.outputs[len(results) :]:
            if name:
                raise UnsupportedOp(f"{step.location} has an output {name!r} that is not computed")
    for name in step.dead:
        scope.pop(name, None)


def apply(step: NodeStep, operands: list[Any], attributes: Mapping[str, Any]) -> Any:
    """The result of a step for operands that are host values, tensors, sequences or None."""
    definition = step.definition
    if definition.raw:
        return step.function(*operands, **attributes)
    if (
        definition.on_host is not None
        and operands
        and all(operand is None or isinstance(operand, np.ndarray) for operand in operands)
    ):
        return np.asarray(definition.on_host(*operands, **attributes))  # NumPy makes scalars of arrays of rank 0
    for i, operand in enumerate(operands):
        if i in definition.host:
            if isinstance(operand, Tensor):
                operands[i] = values.host(operand, f"operand {i}, {step.inputs[i]!r},")
        elif isinstance(operand, np.ndarray):
            operands[i] = values.tensor(operand)
    return step.function(*operands, **attributes)


# ----------------------------------------------------------------------
# From nodes to steps.


def _step(node: NodeRecord, scope: Scope) -> NodeStep:
    scope.resolver.count()
    location = str(node)
    functions = scope.resolver.model.functions
    own = functions.get((node.domain, node.op, node.overload))
    if own is not None:
        return _inlined(node, own, scope)
    if node.domain == registry.MICROSOFT + ".nchwc":
        raise UnsupportedOp(
            f"{location}: weights lie in the order of one processor's kernels, which the model does not say",
            hint="save it with graph_optimization_level = ORT_ENABLE_EXTENDED",
        )
    version = scope.opsets.get(node.domain)
    if version is None and node.domain in (registry.MICROSOFT, registry.ML):
        version = 1
    if version is None:
        raise LoadError(f"{location}: the model does not import the operator set {node.domain!r}")
    given = {name: _attribute(value, scope, location) for name, value in node.attributes.items()}
    given = {name: value for name, value in given.items() if value is not ...}
    schema = _schema(node, version)
    attributes = _checked(node, given, schema, location) if schema is not None else given
    definition = registry.lookup(node.domain, node.op, version)
    if definition is None:
        if schema is None:
            raise UnsupportedOp(f"{location} is not supported", hint="docs/onnx_ops.md lists the operators")
        if not (schema.has_function or schema.has_context_dependent_function):
            raise UnsupportedOp(f"{location} is not supported", hint="docs/onnx_ops.md lists the operators")
        expansion = Expansion(node, given, schema, version, scope)
        whole = registry.OperatorDefinition(1, expansion, frozenset(), None, True, frozenset(), False)
        return NodeStep(expansion, node.inputs, node.outputs, {}, (), whole, location, ())
    routines = [name for name, value in attributes.items() if isinstance(value, ModelGraph)]
    lists = [
        name for name, value in attributes.items() if isinstance(value, list) and isinstance([*value, 0][0], ModelGraph)
    ]
    prepared = dict(attributes)
    for name in routines:
        prepared[name] = GraphRunner(attributes[name], scope._replace(path=f"{scope.path}{node.name or node.op}."))
    for name in lists:
        prepared[name] = [GraphRunner(each, scope) for each in attributes[name]]
    if "outputs" in definition.keywords:
        prepared["outputs"] = tuple(bool(name) for name in node.outputs)
    if "version" in definition.keywords:
        prepared["version"] = version
    if "op" in definition.keywords:
        prepared["op"] = node.op
    return NodeStep(
        definition.function, node.inputs, node.outputs, prepared, (*routines, *lists), definition, location, ()
    )


def _schema(node: NodeRecord, version: int) -> Any:
    defs = library.module("onnx.defs")
    try:
        return defs.get_schema(node.op, version, node.domain)
    except Exception:  # SchemaError, which onnx names differently from version to version: there is none
        return None


_KINDS: Final[Mapping[str, Any]] = {
    "FLOAT": float,
    "INT": int,
    "STRING": str,
    "TENSOR": np.ndarray,
    "SPARSE_TENSOR": np.ndarray,
    "GRAPH": ModelGraph,
}


def _checked(node: NodeRecord, given: Mapping[str, Any], schema: Any, location: str) -> dict[str, Any]:
    """Attributes as the schema has them, with defaults; LoadError where they, or the operands, are none of its."""
    if schema.deprecated:
        raise UnsupportedOp(f"{location}: the operator is deprecated in this version of its set")
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        raise LoadError(f"{location} has {len(node.inputs)} operands")
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        raise LoadError(f"{location} has {len(node.outputs)} results")
    helper = library.module("onnx.helper")
    result: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if name not in given:
            if attribute.required:
                raise LoadError(f"{location} lacks the attribute {name!r}")
            default = attribute.default_value
            if default.type:
                value = helper.get_attribute_value(default)
                if isinstance(value, bytes):
                    value = value.decode()
                is_list = isinstance(value, list | tuple)
                result[name] = (
                    [each.decode() if isinstance(each, bytes) else each for each in value] if is_list else value
                )
            continue
        kind = attribute.type.name
        value = given[name]
        if kind.endswith("S") and kind[:-1] in _KINDS:
            fits = isinstance(value, list) and all(isinstance(each, _KINDS[kind[:-1]]) for each in value)
        else:
            fits = kind not in _KINDS or isinstance(value, _KINDS[kind])
        if not fits:
            raise LoadError(f"{location}: the attribute {name!r} is not of the kind {kind}")
        result[name] = value
    for name in given:
        if name not in result:
            raise LoadError(f"{location} has an attribute {name!r}, which the operator lacks")
    return result


def _attribute(value: Any, scope: Scope, location: str) -> Any:
    if isinstance(value, Reference):
        if value.name not in scope.attributes:
            raise LoadError(f"{location} refers to an attribute {value.name!r}, which there is not")
        return scope.attributes[value.name]
    return value


def _inlined(node: NodeRecord, function: FunctionRecord, scope: Scope) -> NodeStep:
    """A call of a function as a step that runs its body."""
    location = str(node)
    if scope.depth > _DEEPEST:
        raise LoadError(f"{location}: functions call each other more than {_DEEPEST} deep")
    given = {name: _attribute(value, scope, location) for name, value in node.attributes.items()}
    attributes = dict(function.attributes) | given
    if len(node.inputs) > len(function.graph.inputs) or len(node.outputs) > len(function.graph.outputs):
        raise LoadError(f"{location} has more operands or results than the function")
    inner = scope._replace(
        opsets=function.opsets,
        attributes=attributes,
        depth=scope.depth + 1,
        path=f"{scope.path}{node.name or node.op}.",
    )
    routine = GraphRunner(function.graph, inner)
    call = registry.OperatorDefinition(1, _called, frozenset(), None, True, frozenset(), False)
    return NodeStep(_called, node.inputs, node.outputs, {"body": routine}, ("body",), call, location, ())


def _called(*operands: Any, body: Any) -> Any:
    missing = len(body.routine.inputs) - len(operands)
    return body(*operands, *[None] * missing)


class Expansion:
    """An operator by the body that onnx has for it, which may depend on the types of its operands."""

    def __init__(self, node: NodeRecord, given: Mapping[str, Any], schema: Any, version: int, scope: Scope) -> None:
        self._node, self._given, self._schema, self._version, self._scope = node, given, schema, version, scope
        self._routines: dict[Any, GraphRunner] = {}

    def __getstate__(self) -> Any:
        return self._node, self._given, self._version, self._scope

    def __setstate__(self, state: Any) -> None:
        node, given, version, scope = state
        self.__init__(node, given, _schema(node, version), version, scope)  # type: ignore[misc]

    def __call__(self, *operands: Any) -> Any:
        key = tuple(None if x is None or isinstance(x, list) else (values.dtype_of(x), len(x.shape)) for x in operands)
        if key not in self._routines:
            self._routines[key] = self._routine(operands)
        routine = self._routines[key]
        return routine([*operands, *[None] * (len(routine.inputs) - len(operands))], {}, ())

    def _routine(self, operands: Sequence[Any]) -> GraphRunner:
        onnx, node, schema = library.module(), self._node, self._schema
        if self._scope.depth > _DEEPEST:
            raise LoadError(f"{node}: operators are defined by each other more than {_DEEPEST} deep")
        if schema.has_function:
            versions = [version for version in schema.function_opset_versions if version <= self._version]
            text = schema.get_function_with_opset_version(max(versions or schema.function_opset_versions))
        else:
            proto = node.proto
            if proto is None:
                names = node.inputs, node.outputs
                proto = onnx.helper.make_node(node.op, *names, node.name, domain=node.domain, **_plain(self._given))
            types = [_type_proto(onnx, operand).SerializeToString() for operand in operands]
            versions = [v for v in schema.context_dependent_function_opset_versions if v <= self._version]
            text = schema.get_context_dependent_function_with_opset_version(
                max(versions or schema.context_dependent_function_opset_versions), proto.SerializeToString(), types
            )
        function = reading.graph_of_function(onnx.FunctionProto.FromString(text))
        defaults = _checked(node, self._given, schema, str(node))
        attributes = dict.fromkeys(schema.attributes, ...) | dict(function.attributes) | defaults
        resolver = Resolver(ModelRecord(function.graph, {}, {}))
        scope = Scope(resolver, {**self._scope.opsets, **function.opsets}, attributes, self._scope.depth + 1, "")
        routine = GraphRunner(function.graph, scope)
        arrays = [state.array for state in resolver.states]
        for name, value in routine.constants.items():
            if isinstance(value, StateRef):
                routine.constants[name] = arrays[value.number]
        return routine


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    numpy_helper = library.module("onnx.numpy_helper")
    return {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }


def _type_proto(onnx: Any, operand: Any) -> Any:
    if operand is None:
        return onnx.TypeProto()
    if isinstance(operand, list):
        inner = _type_proto(onnx, operand[0]) if operand else onnx.helper.make_tensor_type_proto(1, None)
        return onnx.helper.make_sequence_type_proto(inner)
    number = values.NUMBERS[values.TEXT if values.is_text(operand) else values.dtype_of(operand)]
    shape = [int(size) if type(size) is int else None for size in operand.shape]
    return onnx.helper.make_tensor_type_proto(number, shape)
