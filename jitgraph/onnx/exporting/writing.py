"""``jg.onnx.export``: a function with its weights and its state as an ONNX model."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from jitgraph import __version__
from jitgraph.errors import InternalError, JitgraphError, OptionError, UnsupportedOp
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.target import Target
from jitgraph.nn import Module
from jitgraph.onnx import library
from jitgraph.onnx.exporting.converting import run, without_complex
from jitgraph.onnx.exporting.emitting import IR_VERSION, ModelParts, NodeEmitter
from jitgraph.onnx.exporting.values import ELEMENT_TYPES, OnnxValue, tensor_proto
from jitgraph.passes.dce import dce
from jitgraph.runtime import system
from jitgraph.runtime.atomic_file import replacing
from jitgraph.saved.entry import FileEntry, FileState, entry_of
from jitgraph.saved.reading import SavedModel
from jitgraph.saved.state import StateKeys
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.function import BoundFunction, TracedFunction, traced

EXTERNAL_ABOVE: Final = 2**31 - 2**20
"""Bytes of weights that a file of its own holds: a Protocol Buffer is limited to 2 GB."""

_ALIGNMENT: Final = 4096
_LEAST_EXTERNAL: Final = 1024  # bytes; smaller tensors stay in the model


def export(
    f: Callable[..., Any],
    path: str | os.PathLike[str],
    example_inputs: Sequence[Any],
    dynamic_shapes: Mapping[str, Any] | None = None,
    *,
    metadata: Mapping[str, str] | None = None,
    external_above: int = EXTERNAL_ABOVE,
) -> None:
    """Write what ``f(*example_inputs)`` computes, for the shapes and dtypes of the examples, as an ONNX model.

    ``f`` is a function, plain, traced or scripted, or a module. ``dynamic_shapes`` names sizes as for ``jg.trace``,
    ``{"x": {0: "batch"}}``; ``jg.TensorSpec`` may stand for an example. Tensors that the function reaches are the
    model's weights; of those that it rebinds, such as weights and moments in a training step, each is an input with its
    value now as default, and its next value the output ``NAME.next``. Weights of more than ``external_above`` bytes
    together stand in ``path`` with ``.data`` behind it. UnsupportedOp names what has no form in ONNX, with its line.
    """
    library.module()
    if not isinstance(example_inputs, tuple | list):
        raise JitgraphError("example_inputs holds the arguments in a tuple\n  hint: example_inputs=(x,)")
    if not callable(f):
        raise JitgraphError(f"jg.onnx.export takes a function or a module, not a {type(f).__name__}")
    function: Any = f if isinstance(f, SavedModel) else traced(f)  # what is from a file knows the defaults of numbers
    if dynamic_shapes is not None:
        function = _with_shapes(traced(f), dynamic_shapes)
    entry = entry_of(function.lower(*example_inputs), StateKeys(_keys(f)), from_file=isinstance(f, SavedModel))
    _write(ModelOf(entry, dict(metadata or {})), Path(path), external_above)


def _keys(f: Any) -> Mapping[str, Tensor]:
    """The names that some of the state has already: those in a file, or of a module's parameters and buffers."""
    if isinstance(f, SavedModel):
        return f.state
    if isinstance(f, Module):
        return dict([*f.named_parameters(), *f.named_buffers()])
    return {}


def _with_shapes(function: TracedFunction | BoundFunction, dynamic_shapes: Mapping[str, Any]) -> TracedFunction:
    if isinstance(function, BoundFunction):
        return function.function.with_shapes(dynamic_shapes, function.__wrapped__)
    return function.with_shapes(dynamic_shapes)


class ModelOf:
    """The model of an entry."""

    def __init__(self, entry: FileEntry, metadata: dict[str, str]) -> None:
        self.entry = entry
        self.metadata = metadata
        self.model = ModelParts()
        self.emitter = NodeEmitter(self.model)
        self.written = {state: output for output, state in entry.writes}
        target = Target.named("x86-64-v3").without_python()
        self.graph = dce(without_complex(self._checked(entry.graph), target), target)

    def _checked(self, graph: Graph) -> Graph:
        for value in (*graph.inputs, *graph.outputs):
            if value.tensor.dtype.kind == "c":
                raise UnsupportedOp(
                    f"jg.onnx.export: {graph.name} takes or gives {value.type}, and ONNX has no arithmetic of complex "
                    "numbers",
                    hint="take and return real and imaginary parts",
                )
        return graph

    def proto(self) -> Any:
        """The ModelProto, its weights not in it: ``weights`` has them by name."""
        count = len(self.entry.defaults)
        arguments, state = self.graph.inputs[:count], self.graph.inputs[count:]
        inputs = [self._input(value, value.hint or f"x{i}") for i, value in enumerate(arguments)]
        infos = [self.model.value_info(ref.name, ref.type) for ref in inputs]
        self.weights: dict[str, np.ndarray[Any, Any]] = {
            ref.name: np.array(default, ref.dtype)
            for ref, default in zip(inputs, self.entry.defaults, strict=True)
            if default is not None
        }
        for number, (value, each) in enumerate(zip(state, self.entry.state, strict=True)):
            ref = self._state(value, each)
            if number in self.written:
                infos.append(self.model.value_info(ref.name, ref.type))
            inputs.append(ref)
        names = self._output_names(inputs[count:])
        self._find_sizes(inputs)
        results = run(self.emitter, self.graph, inputs)
        self.emitter.outputs(results, names)
        outputs = [
            self.model.value_info(name, value.type) for name, value in zip(names, self.graph.outputs, strict=True)
        ]
        helper = self.model.helper
        graph = helper.make_graph(
            [*self.model.prelude, *self.emitter.nodes],
            self.graph.name,
            infos,
            outputs,
            value_info=list(self.emitter.value_infos.values()),
        )
        self.weights |= self.model.initializers
        for function in self.model.functions.values():
            del function.opset_import[:]
            function.opset_import.extend(self.emitter.opset_imports())
        proto = helper.make_model(
            graph,
            opset_imports=self.emitter.opset_imports()[: 1 + bool(self.model.functions)],
            functions=list(self.model.functions.values()),
            producer_name="jitgraph",
            producer_version=__version__,
            ir_version=IR_VERSION,
        )
        helper.set_model_props(proto, self._properties(inputs[count:], names))
        return proto

    def _input(self, value: Value, stem: str) -> OnnxValue:
        return OnnxValue(self.model.name(stem), value.type, value.shape)

    def _state(self, value: Value, state: FileState) -> OnnxValue:
        ref = self._input(value, state.key)
        self.weights[ref.name] = state.array
        return ref

    def _output_names(self, state: Sequence[OnnxValue]) -> list[str]:
        following = {output: state[number].name for number, output in self.written.items()}
        return [
            self.model.name(f"{following[i]}.next" if i in following else name)
            for i, name in enumerate(self.entry.names)
        ]

    def _find_sizes(self, inputs: Sequence[OnnxValue]) -> None:
        """Where each named size is read: alone, or in a sum of a multiple of it and a number."""
        for ref in inputs:
            for axis, size in enumerate(ref.shape):
                if isinstance(size, int) or len(dims.names(size)) != 1:
                    continue
                (name,) = dims.names(size)
                factor = size.terms.get((name,), 0)
                rest: Any = size - factor * Dim.name(name)
                if isinstance(rest, int) and factor:
                    simple = factor == 1 and not rest
                    if simple or name not in self.model.sources:
                        self.model.sources.setdefault(name, (ref.name, axis, factor, rest))
                    if simple and self.model.sources[name][2:] != (1, 0):
                        self.model.sources[name] = ref.name, axis, 1, 0

    def _properties(self, state: Sequence[OnnxValue], names: Sequence[str]) -> dict[str, str]:
        described = {"result": self.entry.structure, "outputs": list(names)}
        if self.written:
            described["state"] = [[state[number].name, names[output]] for number, output in self.written.items()]
        if self.graph.constraints:
            described["sizes"] = [str(constraint) for constraint in self.graph.constraints]
        if self.model.checks:
            described["unchecked"] = list(dict.fromkeys(self.model.checks))
        return {**self.metadata, "jitgraph": json.dumps(described)}


def _write(export: ModelOf, path: Path, external_above: int) -> None:
    """Check the model and write it, whole or not at all; to a device or pipe as it is, with its weights in it."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder stands where the file is to be", str(path))
    if system.is_special(str(path)):
        with tempfile.TemporaryDirectory() as scratch:
            written = Path(scratch) / "model.onnx"
            _write(export, written, EXTERNAL_ABOVE)
            if len(list(Path(scratch).iterdir())) > 1:
                raise OptionError(
                    f"the weights need a file of their own, and {path} is a device or pipe",
                    hint="write to a plain file",
                )
            with replacing(path) as file:
                file.write(written.read_bytes())
        return
    path = Path(os.path.realpath(path))  # a link stays one
    onnx = export.model.onnx
    proto = export.proto()
    total = sum(array.nbytes for array in export.weights.values())
    data = path.with_name(path.name + ".data")
    temporary = path.with_name(path.name + ".part")
    external = total > external_above
    try:
        if external:
            with data.open("wb") as file:
                for name, array in export.weights.items():
                    proto.graph.initializer.append(_external(onnx, name, array, file, data.name))
        else:
            proto.graph.initializer.extend(
                tensor_proto(onnx, np.asarray(array), name) for name, array in export.weights.items()
            )
        temporary.write_bytes(proto.SerializeToString())
        _check(temporary, proto)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        if external:
            data.unlink(missing_ok=True)
        raise


def _external(onnx: Any, name: str, array: np.ndarray[Any, Any], file: Any, location: str) -> Any:
    """A TensorProto whose elements are written to the file of weights, unless they are few."""
    if array.nbytes < _LEAST_EXTERNAL:
        return tensor_proto(onnx, array, name)
    offset = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
    file.write(bytes(offset - file.tell()))
    file.write(np.ascontiguousarray(array).data.cast("B") if array.dtype.kind != "V" else array.tobytes())
    proto = onnx.TensorProto()
    proto.name, proto.data_type = name, ELEMENT_TYPES[array.dtype]
    proto.dims.extend(array.shape)
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", array.nbytes)):
        proto.external_data.add(key=key, value=str(value))
    return proto


def _check(path: Path, proto: Any) -> None:
    """ONNX's own checks of the file, and its inference of all shapes; InternalError where one fails."""
    checker, inference = library.module("onnx.checker"), library.module("onnx.shape_inference")
    try:
        checker.check_model(str(path), full_check=True)
        inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except (checker.ValidationError, inference.InferenceError) as error:
        raise InternalError(f"ONNX refuses the model that jg.onnx.export wrote: {error}") from error
