"""The JSON of an exported program, by version 8 of PyTorch's schema (``torch._export.serde.schema``), as a ``Program``.

Everything is checked as it is read: LoadError for what is not built as the schema says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from jitgraph import dtypes
from jitgraph.errors import LoadError
from jitgraph.torch.programs import structure, symbols
from jitgraph.torch.programs.program import (
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

MAJOR: Final = 8
"""The version of the schema that is known."""

DTYPES: Final[Mapping[int, Any]] = {
    1: dtypes.uint8,
    2: dtypes.int8,
    3: dtypes.int16,
    4: dtypes.int32,
    5: dtypes.int64,
    6: dtypes.float16,
    7: dtypes.float32,
    8: dtypes.float64,
    10: dtypes.complex64,
    11: dtypes.complex128,
    12: dtypes.bool_,
    13: np.dtype(ml_dtypes.bfloat16),
    28: dtypes.uint16,
    34: dtypes.uint32,
    35: dtypes.uint64,
}
"""The dtypes by the schema's numbers."""

_DTYPE_NAMES: Final = {0: "unknown", 9: "complex32", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz"}
_DEEPEST: Final = 50  # graphs in graphs, lists in lists
_FRAME: Final = re.compile(r'File "([^"\n]+)", line (\d+)')

# ----------------------------------------------------------------------
# Checked access.


def member(value: Any, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
    """``value[key]`` where it is of a kind; LoadError where it is not, or missing without a default."""
    if not isinstance(value, dict):
        raise LoadError(f"the program has {type(value).__name__} where an object with {key!r} belongs")
    if key not in value or (value[key] is None and default is not ...):
        if default is ...:
            raise LoadError(f"the program has an object without {key!r}")
        return default
    item = value[key]
    if not isinstance(item, kind) or (isinstance(item, bool) and kind in (int, float, (int, float))):
        raise LoadError(f"the program's {key!r} is {type(item).__name__}")
    return item


def _union(value: Any) -> tuple[str, Any]:
    """The kind and the value of a union; LoadError for what is none."""
    if not isinstance(value, dict) or len(value) != 1:
        raise LoadError("the program has no union where one belongs")
    return next(iter(value.items()))


def dtype_of(number: Any) -> Any:
    """The dtype that the schema numbers so; LoadError for those that jitgraph has not."""
    if number not in DTYPES or isinstance(number, bool):
        raise LoadError(f"the dtype {_DTYPE_NAMES.get(number, number)} is not supported")
    return DTYPES[number]


# ----------------------------------------------------------------------
# Arguments.


def _number(text: Any, kind: type) -> Any:
    """A number as the schema writes it: floats that JSON has not are texts."""
    if kind is float and isinstance(text, str):
        if text not in ("Infinity", "-Infinity", "NaN"):
            raise LoadError(f"{text[:40]!r} is no number")
        return float(text)
    if kind is float and isinstance(text, int) and not isinstance(text, bool):
        return float(text)
    if not isinstance(text, kind) or (kind is int and isinstance(text, bool)):
        raise LoadError(f"the program has {type(text).__name__} where {kind.__name__} belongs")
    return text


def _each(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_all(values: Any) -> list[Any]:
        if not isinstance(values, list):
            raise LoadError("the program has no list where one belongs")
        return [read(value) for value in values]

    return read_all


def _named(value: Any) -> Ref:
    return Ref(member(value, "name", str))


def _symbolic(kind: type, key: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        tag, item = _union(value)
        if tag == "as_name" and isinstance(item, str):
            return Ref(item)
        if tag == key:
            return _number(item, kind)
        raise LoadError(f"the program has {tag!r} where a number belongs")

    return read


def _optional_tensor(value: Any) -> Any:
    tag, item = _union(value)
    if tag == "as_none":
        return None
    if tag == "as_tensor":
        return _named(item)
    raise LoadError(f"the program has {tag!r} where a tensor or none belongs")


def _device(value: Any) -> str:
    index = member(value, "index", int, None)
    name: str = member(value, "type", str)
    return name if index is None else f"{name}:{index}"


def _complex(value: Any) -> complex:
    return complex(
        _number(member(value, "real", (int, float, str)), float),
        _number(member(value, "imag", (int, float, str)), float),
    )


_symint, _symfloat, _symbool = _symbolic(int, "as_int"), _symbolic(float, "as_float"), _symbolic(bool, "as_bool")
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "as_none": lambda _: None,
    "as_tensor": _named,
    "as_tensors": _each(_named),
    "as_int": lambda value: _number(value, int),
    "as_ints": _each(lambda value: _number(value, int)),
    "as_float": lambda value: _number(value, float),
    "as_floats": _each(lambda value: _number(value, float)),
    "as_string": lambda value: _number(value, str),
    "as_strings": _each(lambda value: _number(value, str)),
    "as_sym_int": _symint,
    "as_sym_ints": _each(_symint),
    "as_scalar_type": dtype_of,
    "as_memory_format": lambda value: None,
    "as_layout": lambda value: None,
    "as_device": _device,
    "as_bool": lambda value: _number(value, bool),
    "as_bools": _each(lambda value: _number(value, bool)),
    "as_sym_bool": _symbool,
    "as_sym_bools": _each(_symbool),
    "as_optional_tensors": _each(_optional_tensor),
    "as_optional_tensor": _optional_tensor,
    "as_sym_float": _symfloat,
    "as_sym_floats": _each(_symfloat),
    "as_complex": _complex,
    "as_nested_tensors": _each(_each(_named)),
    "as_int_lists": _each(_each(lambda value: _number(value, int))),
    "as_float_lists": _each(_each(lambda value: _number(value, float))),
    "as_operator": lambda value: _number(value, str),
}


def _argument(value: Any, depth: int = 0) -> Any:
    tag, item = _union(value)
    if tag == "as_graph":
        return Region(_graph(member(item, "graph", dict), depth + 1))
    if tag == "as_string_to_argument":
        if not isinstance(item, dict) or depth > _DEEPEST:
            raise LoadError("the program has no dict of arguments where one belongs")
        return {key: _argument(inner, depth + 1) for key, inner in item.items()}
    if tag not in _READERS:
        what = "a TorchScript object" if tag == "as_custom_obj" else f"an argument of the kind {tag!r}"
        raise LoadError(f"the program has {what}, which is not supported")
    return _READERS[tag](item)


# ----------------------------------------------------------------------
# Graphs.


def _size(value: Any) -> int | FreeSize:
    tag, item = _union(value)
    if tag == "as_int":
        number: int = _number(item, int)
        return number
    return FreeSize(symbols.text_of(member(item, "expr_str", str)))


def _meta(value: Any) -> Meta:
    shape = tuple(_size(size) for size in member(value, "sizes", list))
    strides = [_size(stride) for stride in member(value, "strides", list)]
    if len(shape) != len(strides):
        raise LoadError(f"the program has a tensor of {len(shape)} sizes and {len(strides)} strides")
    return Meta(dtype_of(member(value, "dtype", int)), shape, may_be_contiguous(shape, strides))


def may_be_contiguous(shape: Iterable[Any], strides: Iterable[Any]) -> bool:
    """Whether strides are those of rows after rows, as far as the sizes are known."""
    step: int | None = 1
    for size, stride in reversed(list(zip(shape, strides, strict=True))):
        if size != 1 and isinstance(stride, int) and step is not None and stride != step:
            return False
        step = step * size if isinstance(size, int) and step is not None else None
    return True


def _target(text: str) -> str:
    """PyTorch's name of what a node calls: "aten::add.Tensor" for "torch.ops.aten.add.Tensor"."""
    if text.startswith("torch.ops.higher_order."):
        return text.removeprefix("torch.ops.")
    if text.startswith("torch.ops."):
        namespace, _, rest = text.removeprefix("torch.ops.").partition(".")
        return f"{namespace}::{rest}"
    return text.removeprefix("_") if text.startswith("_operator.") else text


def location_of(stack_trace: str) -> str:
    """The innermost line of a stack that is not PyTorch's own, as ``file:line``."""
    frames = _FRAME.findall(stack_trace)
    users = [frame for frame in frames if "/torch/" not in frame[0] and not frame[0].startswith("<")]
    return ":".join((users or frames)[-1]) if frames else ""


def _outputs(node: Any) -> str | tuple[str | None, ...]:
    values = member(node, "outputs", list)
    names: list[Any] = []
    for value in values:
        tag, item = _union(value)
        if tag == "as_tensors":
            if len(values) > 1:
                raise LoadError("the program has an operator with a list among its results, which is not supported")
            return tuple(_named(each).name for each in item)
        if tag in ("as_none", "as_int", "as_float", "as_bool"):  # what the operator gives there is known
            names.append(None)
            continue
        ref = _argument(value)
        if not isinstance(ref, Ref):
            raise LoadError(f"the program has {tag!r} among results of operators")
        names.append(ref.name)
    single = member(node, "is_hop_single_tensor_return", bool, None)
    if len(names) == 1 and single is not False and names[0] is not None:
        return str(names[0])
    return tuple(names)


def _node(value: Any, depth: int) -> ProgramNode:
    args, kwargs = [], {}
    for argument in member(value, "inputs", list):
        name, item = member(argument, "name", str), _argument(argument.get("arg"), depth)
        if argument.get("kind") == 2:
            kwargs[name] = item
        else:
            args.append(item)
    target = _target(member(value, "target", str))
    stack_trace = member(member(value, "metadata", dict), "stack_trace", str, "")
    return ProgramNode(target, tuple(args), kwargs, _outputs(value), location_of(stack_trace))


def _graph(value: Any, depth: int = 0) -> Graph:
    if depth > _DEEPEST:
        raise LoadError(f"the program has graphs more than {_DEEPEST} deep in each other")
    inputs = []
    for item in member(value, "inputs", list):
        ref = _argument(item)
        inputs.append(ref.name if isinstance(ref, Ref) else "")
    nodes = tuple(_node(node, depth) for node in member(value, "nodes", list))
    outputs = tuple(_argument(output, depth) for output in member(value, "outputs", list))
    metas = {name: _meta(meta) for name, meta in member(value, "tensor_values", dict).items()}
    graph = Graph(tuple(inputs), nodes, outputs, metas)
    _check_names(graph)
    return graph


def _check_names(graph: Graph) -> None:
    """LoadError where a node reads a name that no input and no node before it has."""
    known = set(graph.inputs)
    for node in graph.nodes:
        for name in names_in((node.args, node.kwargs)):
            if name not in known:
                raise LoadError(f"the program's node {node.target} reads {name!r} before it is computed")
        outputs = (node.outputs,) if isinstance(node.outputs, str) else node.outputs
        known.update(name for name in outputs if name is not None)
    for name in names_in(graph.outputs):
        if name not in known:
            raise LoadError(f"the program gives {name!r}, which it does not compute")


def names_in(arguments: Any) -> Iterable[str]:
    """The names that arguments read."""
    if isinstance(arguments, Ref):
        yield arguments.name
    elif isinstance(arguments, tuple | list) and not isinstance(arguments, Region):
        for item in arguments:
            yield from names_in(item)
    elif isinstance(arguments, Mapping):
        for item in arguments.values():
            yield from names_in(item)


# ----------------------------------------------------------------------
# The program.


def _input(spec: Any) -> Input:
    kind, value = _union(spec)
    if kind == "user_input":
        item = _argument(member(value, "arg", dict))
        return Input("user", item.name) if isinstance(item, Ref) else Input("fixed", "", value=item)
    if kind in ("parameter", "buffer", "tensor_constant"):
        name = member(member(value, "arg", dict), "name", str)
        own = kind.removeprefix("tensor_")
        target = member(value, f"{kind}_name", str)
        if not target or not all(target.split(".")):
            raise LoadError(f"the program has a {own} of the name {target!r}")
        return Input(own, name, target, member(value, "persistent", bool, True) if kind == "buffer" else True)
    if kind == "constant_input":
        tag, item = _union(member(value, "value", dict))
        return Input("fixed", member(value, "name", str), value=None if tag == "as_none" else item)
    raise LoadError(f"the program has an input of the kind {kind!r}, which is not supported")


def _output(spec: Any, inputs: Iterable[Input]) -> Output:
    kind, value = _union(spec)
    if kind == "user_output" or kind == "loss_output":
        return Output("user")
    keys = {
        "buffer_mutation": "buffer_name",
        "parameter_mutation": "parameter_name",
        "user_input_mutation": "user_input_name",
    }
    if kind not in keys:
        raise LoadError(f"the program has an output of the kind {kind!r}, which is not supported")
    target = member(value, keys[kind], str)
    for entry in inputs:
        if target == (entry.name if kind == "user_input_mutation" else entry.target):
            return Output("write", entry.name)
    raise LoadError(f"the program writes to {target!r}, which it does not read")


def _range(value: Any) -> tuple[int | None, int | None]:
    low, high = member(value, "min_val", int, None), member(value, "max_val", int, None)
    return low, high


def _arguments(call: Any, fields: Mapping[str, Any]) -> tuple[Spec, Spec, tuple[str, ...]]:
    signature = member(call, "signature", dict)
    arguments = structure.read(member(signature, "in_spec", str), fields)
    results = structure.read(member(signature, "out_spec", str), fields)
    if [arguments.kind, *(child.kind for child in arguments.children)] != ["tuple", "tuple", "dict"]:
        raise LoadError("the program's arguments are no tuple with a dict beside it")
    positional, by_name = arguments.children
    names = member(signature, "forward_arg_names", list, None)
    count = len(positional.children)
    if names is None or len(names) < count or not all(isinstance(name, str) for name in names):
        names = [f"input{number}" for number in range(count)]
    return arguments, results, (*names[:count], *map(str, by_name.context))


def program_of(document: Any) -> Program:
    """The program that a document of ``torch.export.save`` says."""
    version = member(member(document, "schema_version", dict), "major", int)
    if version != MAJOR:
        raise LoadError(
            f"the program has version {version} of PyTorch's schema, and {MAJOR} is known\n"
            "  hint: export it again with PyTorch 2.5 to 2.13"
        )
    module = member(document, "graph_module", dict)
    graph = _graph(member(module, "graph", dict))
    signature = member(module, "signature", dict)
    inputs = tuple(_input(spec) for spec in member(signature, "input_specs", list))
    outputs = tuple(_output(spec, inputs) for spec in member(signature, "output_specs", list))
    fields = {
        name: tuple(member(definition, "field_names", list))
        for name, definition in member(module, "treespec_namedtuple_fields", dict, {}).items()
    }
    calls = member(module, "module_call_graph", list)
    top = next((call for call in calls if member(call, "fqn", str) == ""), None)
    arguments, results, names = _arguments(top, fields)
    program = Program(
        graph,
        inputs,
        outputs,
        arguments,
        results,
        names,
        {name: _range(value) for name, value in member(document, "range_constraints", dict).items()},
    )
    check(program)
    return program


def check(program: Program) -> None:
    """LoadError where inputs, outputs and the structures of the call do not fit each other."""
    users = [entry for entry in program.inputs if entry.kind in ("user", "fixed")]
    if len(program.inputs) != len(program.graph.inputs) or len(program.outputs) != len(program.graph.outputs):
        raise LoadError("the program's signature has not as many inputs and outputs as its graph")
    if any(
        entry.name != name
        for entry, name in zip(program.inputs, program.graph.inputs, strict=True)
        if entry.kind != "fixed"
    ):
        raise LoadError("the program's signature names other inputs than its graph")
    if program.arguments.leaf_count != len(users):
        raise LoadError("the program's arguments are not as many as its inputs")
    if program.results.leaf_count != sum(output.kind == "user" for output in program.outputs):
        raise LoadError("the program's results are not as many as its outputs")
