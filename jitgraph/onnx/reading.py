"""Protocol buffers of ONNX models as records. Everything is checked as it is read: LoadError for unsound models."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from jitgraph.errors import JitgraphError, LoadError
from jitgraph.onnx import library
from jitgraph.onnx.records import Array, FunctionRecord, ModelGraph, ModelRecord, NodeRecord, Reference, ValueType
from jitgraph.onnx.values import dtype_of_number

_DEEPEST: Final = 30  # graphs in graphs, types in types
_LARGEST: Final = 1 << 31  # bytes of a file, elements of a tensor
_DOMAINS: Final[Mapping[str, str]] = {"ai.onnx": ""}  # other names of domains


def read(model: Any) -> ModelRecord:
    """The records of a path, of bytes, or of a ModelProto. FileNotFoundError for a path that is not there."""
    onnx = library.module()
    folder = None
    if isinstance(model, str | os.PathLike):
        folder = os.path.dirname(os.path.abspath(model))
        if os.path.getsize(model) > _LARGEST:
            raise LoadError(f"{os.fspath(model)} is larger than a protocol buffer can be")
        with open(model, "rb") as file:
            model = file.read()
    if isinstance(model, bytes | bytearray | memoryview):
        try:
            proto = onnx.ModelProto.FromString(bytes(model))
        except Exception as error:  # protobuf's DecodeError, whose module depends on its version
            raise LoadError(f"this is no ONNX model: {error}") from None
        model = proto
    if not isinstance(model, onnx.ModelProto):
        raise JitgraphError(f"onnx.load takes a path, bytes or a ModelProto, not {type(model).__name__}")
    return _ProtoReader(onnx, folder).model(model)


def graph_of_function(proto: Any) -> FunctionRecord:
    """The records of a FunctionProto of onnx's own, which may lack the outputs that nobody reads."""
    return _ProtoReader(library.module(), None).function(proto, is_partial=True)


def domain_of(name: str) -> str:
    """A domain by its shortest name."""
    return _DOMAINS.get(name, name)


class _ProtoReader:
    def __init__(self, onnx: Any, folder: str | None) -> None:
        self._onnx = onnx
        self._folder = folder
        self._kinds = onnx.AttributeProto
        self._mapped: dict[str, Any] = {}

    # --- models and functions ---------------------------------------------------------------------------------------

    def model(self, proto: Any) -> ModelRecord:
        if not proto.HasField("graph"):
            raise LoadError("the model has no graph")
        opsets = self._opsets(proto.opset_import)
        if not opsets:
            if proto.ir_version >= 3:
                raise LoadError("the model does not say which operator sets it is written for")
            opsets = {"": 1}
        functions = {}
        for each in proto.functions:
            key = domain_of(each.domain), each.name, each.overload
            if key in functions:
                raise LoadError(f"the model has two functions {each.domain}.{each.name}")
            functions[key] = self.function(each, opsets)
        graph = self._graph(proto.graph, frozenset(), 0)
        return ModelRecord(graph, functions, opsets, {entry.key: entry.value for entry in proto.metadata_props})

    def function(self, proto: Any, opsets: Mapping[str, int] | None = None, is_partial: bool = False) -> FunctionRecord:
        attributes: dict[str, Any] = dict.fromkeys(proto.attribute, ...)
        for each in proto.attribute_proto:
            attributes[each.name] = self._attribute(each, f"the function {proto.name}", frozenset(), 0)
        where = f"the function {proto.name}"
        inputs = self._names(proto.input, f"the inputs of {where}")
        nodes = self._nodes(proto.node, set(inputs), where, 0)
        known = {*inputs, *(name for node in nodes for name in node.outputs)}
        for name in proto.output:
            if name not in known and not is_partial:
                raise LoadError(f"{where} returns {name!r}, which it does not compute")
        outputs = tuple(name if name in known else "" for name in proto.output)
        graph = ModelGraph(proto.name, inputs, outputs, nodes)
        return FunctionRecord(graph, attributes, {**(opsets or {}), **self._opsets(proto.opset_import)})

    def _opsets(self, entries: Iterable[Any]) -> dict[str, int]:
        result: dict[str, int] = {}
        for entry in entries:
            domain = domain_of(entry.domain)
            if not 1 <= entry.version < 1 << 31:
                raise LoadError(f"the operator set {entry.domain!r} has the version {entry.version}")
            result[domain] = max(entry.version, result.get(domain, 0))
        return result

    # --- graphs -----------------------------------------------------------------------------------------------------

    def _graph(self, proto: Any, outer: frozenset[str], depth: int) -> ModelGraph:
        if depth > _DEEPEST:
            raise LoadError(f"graphs lie in graphs more than {_DEEPEST} deep")
        where = f"the graph {proto.name!r}"
        inputs = self._names([entry.name for entry in proto.input], f"the inputs of {where}")
        initializers: dict[str, Array] = {}
        for tensor in proto.initializer:
            if not tensor.name or tensor.name in initializers:
                raise LoadError(f"{where} has two initializers {tensor.name!r}, or one without a name")
            initializers[tensor.name] = self._tensor(tensor, f"the initializer {tensor.name!r}")
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            if not name or name in initializers:
                raise LoadError(f"{where} has two initializers {name!r}, or one without a name")
            initializers[name] = self._sparse(sparse, f"the initializer {name!r}")
        known = {*outer, *inputs, *initializers}
        nodes = self._nodes(proto.node, known, where, depth, own={*inputs, *initializers})
        outputs = self._names([entry.name for entry in proto.output], f"the outputs of {where}", repeated=True)
        for name in outputs:
            if name not in known:
                raise LoadError(f"{where} returns {name!r}, which it does not compute")
        types = {entry.name: self._type(entry.type, entry.name, 0) for entry in (*proto.input, *proto.output)}
        own = tuple(name for name in inputs if name not in initializers)
        return ModelGraph(proto.name, own, outputs, nodes, initializers, types)

    def _names(self, names: Iterable[str], what: str, repeated: bool = False) -> tuple[str, ...]:
        result = tuple(names)
        if "" in result:
            raise LoadError(f"one of {what} has no name")
        if len(set(result)) < len(result) and not repeated:
            raise LoadError(f"two of {what} have one name")
        return result

    def _nodes(
        self, protos: Iterable[Any], known: set[str], where: str, depth: int, own: set[str] | None = None
    ) -> tuple[NodeRecord, ...]:
        """Nodes; ``known`` are the names that may be read, to which theirs are added, ``own`` those of the graph."""
        nodes = []
        computed = set(known) if own is None else own
        later = {name for proto in protos for name in proto.output}
        for proto in protos:
            node = NodeRecord(
                domain_of(proto.domain),
                proto.op_type,
                tuple(proto.input),
                tuple(proto.output),
                {},
                proto.name,
                proto.overload,
            )
            for name in node.inputs:
                if name and name not in known:
                    reason = "is computed later" if name in later else "is nowhere computed"
                    raise LoadError(f"{node} in {where} reads {name!r}, which {reason}")
            names = [each.name for each in proto.attribute]
            if len(set(names)) < len(names):
                raise LoadError(f"{node} has an attribute twice")
            attributes = {
                each.name: self._attribute(each, str(node), frozenset(known), depth) for each in proto.attribute
            }
            for name in node.outputs:
                if name and name in computed:
                    raise LoadError(f"{node} in {where} computes {name!r}, which there is already")
                if name:
                    computed.add(name)
                    known.add(name)
            own_proto = proto if any(isinstance(value, ModelGraph) for value in attributes.values()) else None
            nodes.append(replace(node, attributes=attributes, proto=own_proto))
        return tuple(nodes)

    def _attribute(self, proto: Any, where: str, outer: frozenset[str], depth: int) -> Any:
        kinds, what = self._kinds, f"the attribute {proto.name!r} of {where}"
        if not proto.name:
            raise LoadError(f"{where} has an attribute without a name")
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        match proto.type:
            case kinds.FLOAT:
                return float(proto.f)
            case kinds.INT:
                return int(proto.i)
            case kinds.STRING:
                return self._text(proto.s, what)
            case kinds.FLOATS:
                return [float(value) for value in proto.floats]
            case kinds.INTS:
                return [int(value) for value in proto.ints]
            case kinds.STRINGS:
                return [self._text(value, what) for value in proto.strings]
            case kinds.TENSOR:
                return self._tensor(proto.t, what)
            case kinds.TENSORS:
                return [self._tensor(value, what) for value in proto.tensors]
            case kinds.SPARSE_TENSOR:
                return self._sparse(proto.sparse_tensor, what)
            case kinds.GRAPH:
                return self._graph(proto.g, outer, depth + 1)
            case kinds.GRAPHS:
                return [self._graph(value, outer, depth + 1) for value in proto.graphs]
            case kinds.TYPE_PROTO:
                return self._type(proto.tp, what, 0)
        raise LoadError(f"{what} is of a kind that is not known ({proto.type})")

    def _text(self, text: bytes, what: str) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise LoadError(f"{what} is no text in UTF-8") from None

    def _type(self, proto: Any, what: str, depth: int) -> ValueType:
        kind = proto.WhichOneof("value")
        if depth > _DEEPEST:
            raise LoadError(f"the type of {what} is nested more than {_DEEPEST} deep")
        if kind == "tensor_type":
            own = proto.tensor_type
            dtype = dtype_of_number(own.elem_type) if own.elem_type else None
            if not own.HasField("shape"):
                return ValueType("tensor", dtype)
            shape: list[int | str | None] = []
            for size in own.shape.dim:
                if size.WhichOneof("value") == "dim_value":
                    shape.append(size.dim_value if size.dim_value >= 0 else None)
                else:
                    shape.append(size.dim_param or None)
            return ValueType("tensor", dtype, tuple(shape))
        if kind == "sequence_type":
            return ValueType("sequence", self._type(proto.sequence_type.elem_type, what, depth + 1).dtype)
        if kind == "optional_type":
            return ValueType("optional", self._type(proto.optional_type.elem_type, what, depth + 1).dtype)
        return ValueType(kind or "unknown")

    # --- tensors ----------------------------------------------------------------------------------------------------

    def _tensor(self, proto: Any, what: str) -> Array:
        dtype = dtype_of_number(proto.data_type)
        shape = tuple(int(size) for size in proto.dims)
        if any(size < 0 for size in shape) or math.prod(shape) >= _LARGEST:
            raise LoadError(f"{what} has the shape {list(shape)}")
        if proto.data_location == self._onnx.TensorProto.EXTERNAL:
            return self._external(proto, dtype, shape, what)
        try:
            array = np.asarray(self._onnx.numpy_helper.to_array(proto))
        except Exception as error:  # what onnx raises for data that do not fit depends on its version
            raise LoadError(f"{what} cannot be read: {error}") from None
        if array.shape != shape:
            raise LoadError(f"{what} has {array.size} elements for the shape {list(shape)}")
        if dtype.kind == "O":
            texts = np.empty(shape, object)
            for i, text in enumerate(array.flat):
                texts.flat[i] = self._text(text, what) if isinstance(text, bytes) else str(text)
            return texts
        return array if array.dtype == dtype else array.view(dtype)

    def _external(self, proto: Any, dtype: Any, shape: tuple[int, ...], what: str) -> Array:
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        if self._folder is None:
            raise LoadError(f"{what} lies in another file\n  hint: jg.onnx.load(path) of the model finds it")
        if not location or "\0" in location or os.path.isabs(location):
            raise LoadError(f"{what} lies in {location!r}, which names no file of the model's folder")
        folder = os.path.realpath(self._folder)
        path = os.path.realpath(os.path.join(folder, location))
        if os.path.commonpath([path, folder]) != folder:
            raise LoadError(f"{what} lies in {location!r}, outside of the model's folder")
        if not os.path.isfile(path):
            raise LoadError(f"{what} lies in {location!r}, which is not there")
        if dtype.kind == "O":
            raise LoadError(f"{what} has texts in another file")
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries["length"]) if "length" in entries else None
        except ValueError:
            raise LoadError(f"{what} has an offset or a length that is no number") from None
        if dtype.itemsize == 1 and dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
            raise LoadError(f"{what} has packed elements of {dtype.name} in another file, which is not supported")
        if path not in self._mapped:
            self._mapped[path] = np.memmap(path, np.uint8, "r") if os.path.getsize(path) else np.empty(0, np.uint8)
        content = self._mapped[path]
        wanted = math.prod(shape) * dtype.itemsize
        if offset < 0 or offset + wanted > content.size or (length is not None and length != wanted):
            raise LoadError(f"{what} does not lie within {location!r}")
        elements: Array = np.array(content[offset : offset + wanted]).view(dtype).reshape(shape)
        return elements

    def _sparse(self, proto: Any, what: str) -> Array:
        values, indices = self._tensor(proto.values, what), self._tensor(proto.indices, what)
        shape = tuple(int(size) for size in proto.dims)
        if any(size < 0 for size in shape) or math.prod(shape) * values.dtype.itemsize > 1 << 30:
            raise LoadError(f"{what} has the shape {list(shape)}")
        shapes = values.shape, (values.size, len(shape))
        if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in shapes:
            raise LoadError(f"{what} has indices that do not fit its values")
        flat = indices
        if indices.ndim == 2:
            if shape and ((indices < 0) | (indices >= np.array(shape))).any():
                raise LoadError(f"{what} has an index outside of its shape")
            flat = np.ravel_multi_index(tuple(indices.T), shape) if len(indices) else indices[:, 0]
        if flat.size and (flat.min() < 0 or flat.max() >= math.prod(shape)):
            raise LoadError(f"{what} has an index outside of its shape")
        dense = np.zeros(shape, values.dtype)
        dense.flat[flat] = values
        return dense
