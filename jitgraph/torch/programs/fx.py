"""PyTorch's own objects as programs: exported programs and FX graphs, whose attributes are read by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import ArgumentError, UnsupportedOp
from jitgraph.tensor import Tensor
from jitgraph.torch.programs import document
from jitgraph.torch.programs.program import (
    LEAF,
    FreeSize,
    Graph,
    Input,
    Meta,
    Output,
    Program,
    ProgramNode,
    Ref,
    Region,
    Spec,
)

_DTYPES: Final = {dtypes.canonical(dtype).name: dtype for dtype in document.DTYPES.values()}

# ----------------------------------------------------------------------
# Values.


def dtype_of(dtype: Any) -> Any:
    """jitgraph's dtype for PyTorch's; UnsupportedOp where there is none."""
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise UnsupportedOp(f"the dtype {name} is not supported")
    return _DTYPES[name]


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """A copy of a PyTorch tensor's elements."""
    plain = tensor.detach().cpu()
    if str(plain.dtype) == "torch.bfloat16":
        torch: Any = importlib.import_module("torch")
        return np.array(plain.contiguous().view(torch.uint16).numpy()).view(_DTYPES["bfloat16"])
    return np.array(plain.resolve_conj().resolve_neg().numpy())


def meta_of(value: Any) -> Meta:
    """What is known of a fake tensor."""
    shape = tuple(size if isinstance(size, int) else FreeSize(_text(size)) for size in value.shape)
    strides = [step if isinstance(step, int) else FreeSize(_text(step)) for step in value.stride()]
    return Meta(dtype_of(value.dtype), shape, document.may_be_contiguous(shape, strides))


def _text(size: Any) -> str:
    node = getattr(size, "node", None)
    text = str(node.expr if node is not None else size)
    return text if text.isidentifier() else f"({text.replace(' ', '')})"


def _target(function: Any) -> str:
    schema = getattr(function, "_schema", None)
    if schema is not None:
        return f"{schema.name}.{schema.overload_name or 'default'}"
    module, name = getattr(function, "__module__", "") or "", getattr(function, "__name__", str(function))
    if module.startswith(("torch._ops", "torch.ops")) and "higher_order" in module:
        return f"higher_order.{name}"
    if module == "_operator":
        return f"operator.{name}"
    return f"{module}.{name}"


def _location(node: Any) -> str:
    trace = node.meta.get("stack_trace")
    return document.location_of(trace) if isinstance(trace, str) else ""


# ----------------------------------------------------------------------
# Graphs.


@dataclass
class _Context:
    """What the nodes of a graph may read of its module: other graphs, and tensors, which become inputs."""

    module: Any
    constants: dict[str, Any]


def graph_of(module: Any, context: _Context | None = None) -> tuple[Graph, dict[str, Any]]:
    """The graph of a GraphModule, and the tensors of the module that it reads, by the names of inputs at its end."""
    own = context or _Context(module, {})
    inputs, nodes, metas, outputs = [], [], {}, ()
    regions: dict[str, Region] = {}
    for node in module.graph.nodes:
        value = node.meta.get("val", node.meta.get("example_value"))
        if hasattr(value, "stride") and hasattr(value, "dtype"):
            metas[node.name] = meta_of(value)
        if node.op == "placeholder":
            inputs.append(node.name)
        elif node.op == "get_attr":
            attribute = module
            for part in node.target.split("."):
                attribute = getattr(attribute, part)
            if hasattr(attribute, "graph"):
                inner, constants = graph_of(attribute)
                if constants:
                    raise UnsupportedOp(f"{node.target} reads tensors of its own, which is not supported")
                regions[node.name] = Region(inner)
            else:
                own.constants[node.name] = attribute
        elif node.op == "output":
            results = node.args[0]
            outputs = tuple(_argument(results if isinstance(results, tuple | list) else [results], regions))
        elif node.op == "call_function":
            args = tuple(_argument(item, regions) for item in node.args)
            kwargs = {name: _argument(item, regions) for name, item in node.kwargs.items()}
            nodes.append(ProgramNode(_target(node.target), args, kwargs, node.name, _location(node)))
        else:
            raise UnsupportedOp(
                f"the graph has {node.op} of {node.target}; graphs of ATen's operators are supported",
                hint="torch.export.export(module, args) makes one",
            )
    return Graph((*inputs, *own.constants), tuple(nodes), outputs, metas), own.constants


def _argument(item: Any, regions: Mapping[str, Region]) -> Any:
    kind = type(item).__name__
    if kind == "Node":
        return regions.get(item.name) or Ref(item.name)
    if isinstance(item, tuple | list):
        return [_argument(each, regions) for each in item]
    if isinstance(item, dict):
        return {name: _argument(each, regions) for name, each in item.items()}
    if item is None or isinstance(item, bool | int | float | complex | str):
        return item
    if kind == "dtype":
        return dtype_of(item)
    if kind in ("memory_format", "layout", "Generator"):
        return None
    if kind == "device":
        return str(item)
    if kind == "slice":
        return slice(*(_argument(each, regions) for each in (item.start, item.stop, item.step)))
    if is_dataclass(item) or callable(item):
        return str(item)
    raise UnsupportedOp(f"the graph has an argument of the type {kind}, which is not supported")


# ----------------------------------------------------------------------
# Exported programs.


def _spec(spec: Any) -> Spec:
    name = getattr(spec.type, "__name__", None)
    if spec.type is None:
        return LEAF
    children = tuple(_spec(child) for child in spec.children())
    if name in ("tuple", "list", "immutable_list"):
        return Spec("tuple" if name == "tuple" else "list", None, children)
    context = spec.context
    if name in ("dict", "OrderedDict", "immutable_dict", "defaultdict"):
        keys = context[1] if name == "defaultdict" else context
        return Spec("ordered dict" if name == "OrderedDict" else "dict", tuple(keys), children)
    if name == "namedtuple":
        return Spec("namedtuple", (context.__name__, tuple(context._fields)), children)
    keys = context[0] if isinstance(context, list | tuple) and context and isinstance(context[0], list) else context
    if isinstance(keys, list | tuple) and len(keys) == len(children) and all(isinstance(key, str) for key in keys):
        return Spec("dict", tuple(keys), children)  # a class of somebody's, as the dict of what it has
    raise UnsupportedOp(f"the arguments or results have a container of the class {name}, which is not known")


def _input(spec: Any) -> Input:
    kind = spec.kind.name
    if kind == "USER_INPUT":
        if type(spec.arg).__name__ == "ConstantArgument":
            return Input("fixed", spec.arg.name, value=spec.arg.value)
        return Input("user", spec.arg.name)
    kinds = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}
    if kind not in kinds:
        raise UnsupportedOp(f"the program has an input of the kind {kind}, which is not supported")
    persistent = True if spec.persistent is None else bool(spec.persistent)
    return Input(kinds[kind], spec.arg.name, spec.target, persistent)


def _output(spec: Any, inputs: tuple[Input, ...]) -> Output:
    kind = spec.kind.name
    if kind in ("USER_OUTPUT", "LOSS_OUTPUT"):
        return Output("user")
    if kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
        return Output("write", next(entry.name for entry in inputs if entry.target == spec.target))
    if kind == "USER_INPUT_MUTATION":
        return Output("write", spec.target)
    raise UnsupportedOp(f"the program has an output of the kind {kind}, which is not supported")


def program_of(exported: Any) -> tuple[Program, dict[str, Any]]:
    """The program of an ExportedProgram, and its tensors by the names that its inputs have as targets."""
    graph, constants = graph_of(exported.graph_module)
    inputs = tuple(_input(spec) for spec in exported.graph_signature.input_specs)
    outputs = tuple(_output(spec, inputs) for spec in exported.graph_signature.output_specs)
    inputs += tuple(Input("constant", name, name) for name in constants)
    call = exported.call_spec
    arguments, results = _spec(call.in_spec), _spec(call.out_spec)
    signature = exported.module_call_graph[0].signature
    names = getattr(signature, "forward_arg_names", None) or ()
    count = len(arguments.children[0].children)
    positional = tuple(names[:count]) if len(names) >= count else tuple(f"input{number}" for number in range(count))
    by_name = tuple(map(str, arguments.children[1].context))
    ranges = {str(symbol): _range(limits) for symbol, limits in exported.range_constraints.items()}
    program = Program(graph, inputs, outputs, arguments, results, (*positional, *by_name), ranges)
    tensors = {**exported.state_dict, **exported.constants, **constants}
    return program, {entry.target: tensors[entry.target] for entry in inputs if entry.target}


def _range(limits: Any) -> tuple[int | None, int | None]:
    def plain(value: Any) -> int | None:
        number = int(value) if getattr(value, "is_Integer", isinstance(value, int)) else None
        return number if number is not None and abs(number) < 1 << 62 else None

    return plain(limits.lower), plain(limits.upper)


# ----------------------------------------------------------------------
# Modules of PyTorch, exported on the way.


def described(tensor: Any) -> tuple[Any, np.ndarray[Any, Any], bool]:
    """What is the same for tensors that are the same elements of memory, a copy, and whether the tensor is trained."""
    memory = tensor.data_ptr() or id(tensor)
    identity = memory, str(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()), str(tensor.device)
    return identity, array_of(tensor), bool(tensor.requires_grad)


def export(module: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> Any:
    """``torch.export.export`` of a module with example arguments, which may be arrays."""
    torch: Any = importlib.import_module("torch")
    if args is None and not kwargs:
        raise ArgumentError(
            "from_torch exports a module with example arguments\n  hint: jg.from_torch(model, (torch.randn(8, 3),))"
        )
    tensors = torch.utils._pytree.tree_map(lambda leaf: _as_torch(torch, leaf), (tuple(args or ()), dict(kwargs or {})))
    shapes = None
    if dynamic_shapes:
        shapes = torch.export.ShapesCollection()
        leaves = _leaves(dict(inspect.signature(module.forward).bind(*tensors[0], **tensors[1]).arguments))
        dims: dict[str, Any] = {}
        for path, axes in dynamic_shapes.items():
            if path not in leaves:
                raise ArgumentError(f"dynamic_shapes names {path!r}; the arguments are {', '.join(leaves)}")
            shapes[leaves[path]] = {
                axis: dims.setdefault(name, torch.export.Dim(name)) for axis, name in dict(axes).items()
            }
    return torch.export.export(module, tensors[0], tensors[1], dynamic_shapes=shapes)


def _as_torch(torch: Any, leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        leaf = leaf.numpy()
    return torch.from_numpy(np.array(leaf)) if isinstance(leaf, np.ndarray) else leaf


def _leaves(value: Any, text: str = "") -> dict[str, Any]:
    """The leaves of nested arguments by the texts that ``dynamic_shapes`` has for them."""
    if isinstance(value, dict):
        pairs = [(f"{text}[{key!r}]" if text else str(key), item) for key, item in value.items()]
    elif isinstance(value, tuple | list):
        pairs = [(f"{text}[{number}]", item) for number, item in enumerate(value)]
    else:
        return {text: value}
    return {path: leaf for own, item in pairs for path, leaf in _leaves(item, own).items()}
