"""The emitter of ONNX nodes: one for the graph of a model, for each of its subgraphs, and for each function.

Constants and sizes of a model are computed at its beginning, where subgraphs see them, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import dims
from jitgraph.ir.dims import Atom, Dim, DimLike, FloorDiv, Mod
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import Shape, StackType, TensorType, Type
from jitgraph.location import Location
from jitgraph.onnx import library
from jitgraph.onnx.exporting.values import ELEMENT_TYPES, TYPE_STRINGS, OnnxValue, common_stored, tensor_proto

OPSET: Final = 26
"""The newest version of ONNX's own operators that models are written in."""

_OLDEST: Final = 21
_SINCE: Final = {"Attention": 23, "BitCast": 26, "CumProd": 26}
_BFLOAT16: Final = 24
"""The first version in which every operator that has floats takes bfloat16."""

IR_VERSION: Final = 10
DOMAIN: Final = "jitgraph"
"""The domain of functions in a model: what ONNX has no operator for, defined there by operators that it has."""

_CHOSEN: Final = (dtypes.int32, dtypes.int64, dtypes.uint8)

SMALL: Final = 64
"""Elements up to which a constant stands among the nodes; a larger one is an initializer."""

Form = Callable[["NodeEmitter", Node, "list[OnnxValue]"], "OnnxValue | Sequence[OnnxValue] | None"]


class ModelParts:
    """What the emitters of one model share: names, constants, sizes, functions and what was left out.

    ``sources`` says of each named size the input and axis that it is read from, with the factor and the rest of
    ``factor * name + rest``.
    """

    def __init__(self, functions: dict[str, Any] | None = None) -> None:
        self.onnx = library.module()
        self.helper = library.module("onnx.helper")
        self.defs = library.module("onnx.defs")
        self.names: dict[str, int] = {}
        self.functions: dict[str, Any] = {} if functions is None else functions
        self.prelude: list[Any] = []
        self.initializers: dict[str, np.ndarray[Any, Any]] = {}
        self.checks: list[str] = []
        self.opset = _OLDEST
        self.sources: dict[str, tuple[str, int, int, int]] = {}
        self._constants: dict[Any, str] = {}
        self._sizes: dict[str, str] = {}
        self._accepted: dict[str, Any] = {}

    def name(self, stem: str) -> str:
        """A name that nothing else in the model has."""
        stem = re.sub(r"[^\w.]+", "_", stem).strip("_") or "value"
        name = stem
        while name in self.names:
            self.names[stem] += 1
            name = f"{stem}_{self.names[stem]}"
        self.names[name] = 1
        return name

    def needs(self, operator: str = "", dtype: DType | None = None) -> None:
        """Let the model be of a version that has the operator and the dtype: the oldest, for the runtimes there are."""
        self.opset = max(self.opset, _SINCE.get(operator, 0), _BFLOAT16 if dtype == dtypes.bfloat16 else 0)

    def accepts(self, operator: str, dtype: DType, operand: int = 0) -> bool:
        """Whether an operator takes tensors of this dtype for an operand."""
        schema = self._accepted.get(operator)
        if schema is None:
            schema = self._accepted[operator] = self.defs.get_schema(operator, OPSET, "")
        formal = schema.inputs[min(operand, len(schema.inputs) - 1)]
        return TYPE_STRINGS[dtype] in formal.types

    def constant(self, array: np.ndarray[Any, Any], stem: str = "constant") -> str:
        """The name of a constant; equal small ones are one."""
        key = (array.dtype, array.shape, array.tobytes()) if array.size <= SMALL else None
        if key in self._constants:
            return self._constants[key]
        name = self.name(stem)
        if key is None:
            self.initializers[name] = array
            return name
        node = self.helper.make_node(
            "Constant", [], [name], name=self.name(f"node.{name}"), value=tensor_proto(self.onnx, array)
        )
        self.prelude.append(node)
        self._constants[key] = name
        return name

    # --- sizes ---

    def ints(self, sizes: Iterable[DimLike]) -> str:
        """The sizes as a vector of int64: a constant, or computed from the shapes of the inputs."""
        parts: list[str] = []
        known: list[int] = []
        for size in sizes:
            if isinstance(size, int):
                known.append(size)
                continue
            if known:
                parts.append(self.constant(np.array(known, np.int64), "sizes"))
                known = []
            parts.append(self.size(size))
        if known or not parts:
            parts.append(self.constant(np.array(known, np.int64), "sizes"))
        if len(parts) == 1:
            return parts[0]
        key = ("concat", *parts)
        if key not in self._constants:
            self._constants[key] = self._at_start("Concat", parts, "sizes", axis=0)
        return self._constants[key]

    def size(self, size: DimLike) -> str:
        """A size as a vector of one int64."""
        if isinstance(size, int):
            return self.constant(np.array([size], np.int64), "sizes")
        text = str(size)
        if text not in self._sizes:
            self._sizes[text] = self._sum(size)
        return self._sizes[text]

    def _sum(self, size: Dim) -> str:
        total: str | None = None
        for monomial, coefficient in size.terms.items():
            if not monomial:
                term = self.size(coefficient)
            else:
                term, *more = map(self._atom, monomial)
                for factor in more:
                    term = self._at_start("Mul", [term, factor])
                if coefficient != 1:
                    term = self._at_start("Mul", [term, self.size(coefficient)])
            total = term if total is None else self._at_start("Add", [total, term])
        assert total is not None
        return total

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, str):
            if atom not in self._sizes:
                self._sizes[atom] = self._named(atom)
            return self._sizes[atom]
        assert isinstance(atom, FloorDiv)
        numerator, denominator = self.size(atom.numerator), self.size(atom.denominator)
        rest = None
        if isinstance(atom, Mod) or not (dims.is_natural(atom.numerator) and dims.is_natural(atom.denominator)):
            rest = self._at_start("Mod", [numerator, denominator])
        if isinstance(atom, Mod):
            assert rest is not None
            return rest
        if rest is not None:  # Div rounds to zero, and a size may be negative on the way
            numerator = self._at_start("Sub", [numerator, rest])
        return self._at_start("Div", [numerator, denominator])

    def _named(self, name: str) -> str:
        if name not in self.sources:
            raise UnsupportedOp(
                f"the size {name} cannot be computed from the shapes of the inputs",
                hint="give it a name in dynamic_shapes of an argument, alone or as a multiple",
            )
        source, axis, factor, rest = self.sources[name]
        size = self._at_start("Shape", [source], name, start=axis, end=axis + 1)
        if rest:
            size = self._at_start("Sub", [size, self.size(rest)])
        return size if factor == 1 else self._at_start("Div", [size, self.size(factor)])

    def _at_start(self, operator: str, inputs: Sequence[str], stem: str = "size", **attrs: Any) -> str:
        name = self.name(stem)
        node = self.helper.make_node(operator, list(inputs), [name], name=self.name(f"node.{name}"), **attrs)
        self.prelude.append(node)
        return name

    def iota(self, count: DimLike) -> str:
        """The numbers 0 to ``count - 1`` as a vector of int64."""
        if isinstance(count, int) and count <= SMALL:
            return self.constant(np.arange(count, dtype=np.int64), "range")
        key = "range", str(count)
        if key not in self._constants:
            ends = [self.constant(np.array(number, np.int64)) for number in (0, 1)]
            if isinstance(count, int):
                limit = self.constant(np.array(count, np.int64))
            else:
                limit = self._at_start("Squeeze", [self.size(count), self.ints((0,))])
            self._constants[key] = self._at_start("Range", [ends[0], limit, ends[1]], "range")
        return self._constants[key]

    # --- types ---

    def type_proto(self, type: Type) -> Any:
        """The TypeProto of a tensor, with names for its sizes, or of a stack, which is a sequence."""
        if isinstance(type, StackType):
            return self.helper.make_sequence_type_proto(self.type_proto(type.element))
        assert isinstance(type, TensorType)
        self.needs(dtype=type.dtype)
        shape = [extent if isinstance(extent, int) else str(extent) for extent in type.shape]
        return self.helper.make_tensor_type_proto(ELEMENT_TYPES[type.dtype], shape)

    def value_info(self, name: str, type: Type) -> Any:
        return self.helper.make_value_info(name, self.type_proto(type))


class NodeEmitter:
    """Emits the nodes of one graph; a subgraph's emitter has the outer one's values, too."""

    def __init__(self, model: ModelParts, outer: NodeEmitter | None = None) -> None:
        self.model = model
        self.nodes: list[Any] = []
        self.value_infos: dict[str, Any] = {}
        self.location: Location | None = outer.location if outer else None
        self.label: str = outer.label if outer else ""
        self._outer = outer
        self._produced: set[str] = set()
        self._expanded: dict[tuple[str, Shape], str] = {}
        self._read: set[Value] = set()

    # --- nodes ---

    def raw(
        self, operator: str, inputs: Sequence[str], outputs: int = 1, *, stem: str = "", domain: str = "", **attrs: Any
    ) -> list[str]:
        """Append a node and return the names of its outputs."""
        stem = stem or self.label or operator.lower()
        self.model.needs("" if domain else operator)
        names = [self.model.name(stem) for _ in range(outputs)]
        doc = None if self.location is None else str(self.location)
        node = self.model.helper.make_node(
            operator, list(inputs), names, name=self.model.name(f"node.{stem}"), doc_string=doc, domain=domain, **attrs
        )
        self.nodes.append(node)
        self._produced.update(names)
        return names

    def node(self, operator: str, inputs: Sequence[OnnxValue | str], type: Type, **attrs: Any) -> OnnxValue:
        """Append a node with one output of this type; operands are expanded to their types."""
        (name,) = self.raw(operator, [self.whole(x) if isinstance(x, OnnxValue) else x for x in inputs], **attrs)
        return OnnxValue(name, type, type.shape if isinstance(type, TensorType) else ())

    def elementwise(
        self, operator: str, *refs: OnnxValue, dtype: DType | None = None, domain: str = "", **attrs: Any
    ) -> OnnxValue:
        """Append a node that works element by element on operands that broadcast; the result is stored as they are."""
        stored = common_stored(refs)
        shape = max((ref.shape for ref in refs), key=len)
        (name,) = self.raw(operator, [ref.name for ref in refs], domain=domain, **attrs)
        return OnnxValue(name, TensorType(dtype or refs[0].dtype, shape), stored)

    def cast(self, x: OnnxValue, dtype: DType) -> OnnxValue:
        """``x`` in another dtype; itself where it has that."""
        if x.dtype == dtype:
            return x
        self.model.needs(dtype=dtype)
        return self.elementwise("Cast", x, dtype=dtype, to=ELEMENT_TYPES[dtype])

    def where(self, condition: OnnxValue, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        """``x`` where the condition is true, else ``y``; by others for dtypes that few runtimes choose from."""
        if dtypes.is_bool(x.dtype):
            chosen = self.elementwise("And", condition, x)
            return self.elementwise("Or", chosen, self.elementwise("And", self.elementwise("Not", condition), y))
        if dtypes.is_integer(x.dtype) and x.dtype not in _CHOSEN:
            wide = self.where(condition, self.cast(x, dtypes.int64), self.cast(y, dtypes.int64))
            return self.cast(wide, x.dtype)
        return self.elementwise("Where", condition, x, y, dtype=x.dtype)

    # --- constants and sizes ---

    def number(self, value: Any, dtype: DType, shape: Shape = ()) -> OnnxValue:
        """A constant of one number, stored as that."""
        array = np.asarray(value)
        if array.dtype != dtype:
            with np.errstate(all="ignore"):
                array = array.astype(dtype)
        return OnnxValue(self.model.constant(array), TensorType(dtype, shape), (), fill=array)

    def ints(self, sizes: Iterable[DimLike]) -> str:
        """The sizes as a vector of int64."""
        return self.model.ints(sizes)

    def array(self, values: Any) -> OnnxValue:
        """A constant tensor."""
        array = np.asarray(values)
        return OnnxValue(self.model.constant(array), TensorType(array.dtype, array.shape), array.shape)

    def iota(self, count: DimLike) -> OnnxValue:
        """The numbers 0 to ``count - 1`` as int64."""
        return OnnxValue(self.model.iota(count), TensorType(dtypes.int64, (count,)), (count,))

    # --- shapes ---

    def whole(self, ref: OnnxValue) -> str:
        """The name of the value in the shape of its type."""
        if ref.is_whole:
            return ref.name
        key = ref.name, ref.shape
        scope: NodeEmitter | None = self
        while scope is not None:
            if key in scope._expanded:
                return scope._expanded[key]
            scope = scope._outer
        known = tuple(extent for extent in ref.shape if isinstance(extent, int))
        if ref.fill is not None and len(known) == ref.ndim and math.prod(known) <= SMALL:
            name = self.model.constant(np.full(known, ref.fill, ref.dtype))
        elif ref.fill is not None:
            value = tensor_proto(self.model.onnx, ref.fill.reshape(1))
            (name,) = self.raw("ConstantOfShape", [self.ints(ref.shape)], value=value, stem="full")
        else:
            (name,) = self.raw("Expand", [ref.name, self.ints(ref.shape)], stem=f"{ref.name}.expanded")
        self._expanded[key] = name
        return name

    def reshape(self, x: OnnxValue, shape: Shape) -> OnnxValue:
        """``x`` in another shape."""
        if x.shape == shape and x.is_whole:
            return x
        type = TensorType(x.dtype, shape)
        if x.fill is not None:
            return OnnxValue(x.name, type, (), x.fill)
        named = [axis for axis, extent in enumerate(shape) if not isinstance(extent, int)]
        known = [extent for extent in shape if isinstance(extent, int)]
        if len(named) == 1 and 0 not in known:  # the one size that is left is computed there
            sizes = self.ints(-1 if axis == named[0] else extent for axis, extent in enumerate(shape))
            return self.node("Reshape", [x, sizes], type)
        zeros = {"allowzero": 1} if named or 0 in known else {}  # a size of 0 is no word for the size before
        return self.node("Reshape", [x, self.ints(shape)], type, **zeros)

    def unsqueeze(self, x: OnnxValue, axes: Sequence[int], shape: Shape, stored: Shape) -> OnnxValue:
        """What ``x`` stores with new axes of size 1, as a value of this shape."""
        if not axes:
            return OnnxValue(x.name, TensorType(x.dtype, shape), stored, x.fill)
        if len(stored) == len(axes) + 1:  # ONNX's inference takes an unsqueezed vector of sizes for a vector still
            vector = OnnxValue(x.name, TensorType(x.dtype, x.stored), x.stored)
            return OnnxValue(self.reshape(vector, stored).name, TensorType(x.dtype, shape), stored)
        (name,) = self.raw("Unsqueeze", [x.name, self.ints(axes)])
        return OnnxValue(name, TensorType(x.dtype, shape), stored)

    def transpose(self, x: OnnxValue, permutation: Sequence[int]) -> OnnxValue:
        """Output axis i is input axis permutation[i]."""
        shape = tuple(x.shape[axis] for axis in permutation)
        if x.fill is not None:
            return OnnxValue(x.name, TensorType(x.dtype, shape), (), x.fill)
        if list(permutation) == list(range(x.ndim)):
            return x
        return self.node("Transpose", [x], TensorType(x.dtype, shape), perm=list(permutation))

    def slice(
        self, x: OnnxValue, starts: Sequence[DimLike], stops: Sequence[DimLike], steps: Sequence[int], shape: Shape
    ) -> OnnxValue:
        """The slice of all axes whose bounds are not those of the axis."""
        cut = [
            axis
            for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True))
            if start != 0 or stop != x.shape[axis] or step != 1
        ]
        if not cut:
            return x
        bounds = [self.ints(part[axis] for axis in cut) for part in (starts, stops)]
        inputs: list[OnnxValue | str] = [x, *bounds, self.ints(cut)]
        if any(steps[axis] != 1 for axis in cut):
            inputs.append(self.ints(steps[axis] for axis in cut))
        return self.node("Slice", inputs, TensorType(x.dtype, shape))

    # --- functions of the model ---

    def call(
        self, function: str, arguments: Sequence[OnnxValue], body: Callable[..., OnnxValue], dtype: DType
    ) -> OnnxValue:
        """A node of a function of the model, which ``body(emitter, *operands)`` defines where it is first used.

        It works element by element; operands have the dtypes of these arguments each time.
        """
        if function not in self.model.functions:
            self.model.functions[function] = None  # its number is that of its first use, before those in it
            inner = NodeEmitter(ModelParts(self.model.functions))
            names = [inner.model.name(f"x{i}") for i in range(len(arguments))]
            operands = [OnnxValue(name, TensorType(x.dtype, ()), ()) for name, x in zip(names, arguments, strict=True)]
            result = body(inner, *operands)
            nodes = [*inner.model.prelude, *inner.nodes]
            imports = inner.opset_imports()
            make = self.model.helper.make_function
            self.model.functions[function] = make(DOMAIN, function, names, [result.name], nodes, imports)
            self.model.opset = max(self.model.opset, inner.model.opset)
        return self.elementwise(function, *arguments, dtype=dtype, domain=DOMAIN)

    def opset_imports(self) -> list[Any]:
        """The domains that nodes may be of."""
        make = self.model.helper.make_opsetid
        return [make("", self.model.opset), make(DOMAIN, 1)]

    # --- graphs ---

    def run(
        self, graph: Graph, arguments: Sequence[OnnxValue], convert: Callable[[NodeEmitter, Node, list[OnnxValue]], Any]
    ) -> list[OnnxValue]:
        """Emit the nodes of ``graph`` by ``convert`` and return what its outputs became."""
        self._read.update(graph.outputs)
        for node in graph.nodes:
            self._read.update(node.inputs)
        env = dict(zip(graph.inputs, arguments, strict=True))
        before = self.location, self.label
        for node in graph.nodes:
            self.location = node.location or before[0]
            self.label = node.op.name
            results = convert(self, node, [env[value] for value in node.inputs])
            for value, result in zip(node.outputs, results, strict=True):
                env[value] = OnnxValue(result.name, value.type, result.stored, result.fill)
                self._describe(env[value])
        self.location, self.label = before
        return [env[value] for value in graph.outputs]

    def _describe(self, ref: OnnxValue) -> None:
        if ref.is_whole and ref.name in self._produced and ref.name not in self.value_infos:
            self.value_infos[ref.name] = self.model.value_info(ref.name, ref.type)

    def is_read(self, value: Value) -> bool:
        """Whether something reads a value of a graph that is run."""
        return value in self._read

    def outputs(self, refs: Sequence[OnnxValue], names: Sequence[str]) -> None:
        """Let these values be the outputs of the graph, with these names.

        What a node of the graph gives gets the name; a copy does where the value is an input, of outside, or an output
        already.
        """
        renamed: dict[str, str] = {}
        for ref, name in zip(refs, names, strict=True):
            whole = self.whole(ref)
            if whole in self._produced and whole not in renamed:
                renamed[whole] = name
                self.value_infos.pop(whole, None)
                continue
            node_name = self.model.name(f"node.{name}")
            self.nodes.append(self.model.helper.make_node("Identity", [whole], [name], name=node_name))
        _rename(self.nodes, renamed)

    def subgraph(
        self,
        name: str,
        inputs: Sequence[tuple[str, Type]],
        body: Callable[[NodeEmitter, list[OnnxValue]], Sequence[OnnxValue]],
        types: Sequence[Type],
    ) -> Any:
        """A GraphProto of what ``body(emitter, inputs)`` emits, with outputs of these types."""
        inner = NodeEmitter(self.model, self)
        names = [self.model.name(stem) for stem, _ in inputs]
        refs = [
            OnnxValue(own, type, type.shape if isinstance(type, TensorType) else ())
            for own, (_, type) in zip(names, inputs, strict=True)
        ]
        results = body(inner, refs)
        outs = [self.model.name(f"{name}.out") for _ in types]
        inner.outputs(results, outs)
        outputs = [self.model.value_info(own, type) for own, type in zip(outs, types, strict=True)]
        infos = [self.model.value_info(own, type) for own, (_, type) in zip(names, inputs, strict=True)]
        return self.model.helper.make_graph(
            inner.nodes, self.model.name(name), infos, outputs, value_info=list(inner.value_infos.values())
        )


def _rename(nodes: Iterable[Any], renamed: dict[str, str]) -> None:
    """Let values have other names, in subgraphs, too."""
    for node in nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name in renamed:
                    names[i] = renamed[name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g.node, renamed)


def as_scalar(e: NodeEmitter, size: DimLike, dtype: DType, shape: Shape = ()) -> OnnxValue:
    """A size as a number of ``dtype``, stored as one."""
    if isinstance(size, int):
        return e.number(size, dtype, shape)
    (name,) = e.raw("Squeeze", [e.model.size(size), e.ints((0,))])
    return e.cast(OnnxValue(name, TensorType(dtypes.int64, shape), ()), dtype)
