"""``jg.custom_op``: functions over NumPy arrays and compiled C functions as ops, with gradient rules over tensors."""

from __future__ import annotations

import ctypes
import importlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import BuiltinFunctionType
from typing import Any, Final, NoReturn

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager.handle import ValueHandle
from jitgraph.errors import ArgumentError, DTypeError, JitgraphError, LoadError, ShapeError, TraceError
from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Op
from jitgraph.ir.types import Constant, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.custom_calls import call_types, result_types
from jitgraph.runtime import forks
from jitgraph.tensor import lifting
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import wrap

# ----------------------------------------------------------------------
# Gradient rules that users write over tensors, run on values that are no tensors: those of a pass.


def apply_rule(name: str, rule: Callable[..., Any], *operands: Any) -> Any:
    """What ``rule`` gives for operands, each a value, None, or a tuple of these, which it sees as tensors.

    It runs eagerly where they are eager values. In a pass it is recorded, and may read no tensor but its operands: the
    code would not see later changes of others. TraceError where it does.
    """
    wrapped = [_wrapped(operand) for operand in operands]
    if any(isinstance(value, Value) for operand in operands for value in _flat(operand)):
        with context.using(trace=_Recording(name)):
            return rule(*wrapped)
    return rule(*wrapped)


def _wrapped(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wrapped, value))
    return None if value is None else wrap(value)


def _flat(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


class _Recording:
    """What handles ask of a trace, where a pass applies a user's rule: each holds a value of the pass."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.ends: dict[Any, tuple[int, int]] = {}

    def read(self, handle: ValueHandle) -> Any:
        if not isinstance(handle._value, Value):
            raise TraceError(
                f"{self._name}: the gradient rule reads a tensor that is none of its operands",
                hint="make it an operand of the op, whose cotangent may be None",
            )
        return handle._value

    def write(self, handle: ValueHandle, value: Any) -> None:
        self.read(handle)
        handle._value = value

    def lift(self, array: Any) -> Any:
        return ops.constant(value=Constant(array))

    def user_shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(shape)

    def to_dim(self, size: Any) -> Any:
        return size

    def require_device(self, device: str) -> None:
        """Values of a pass have no device."""

    def require_recording(self, why: str, location: Any) -> None:
        """The trace around the pass recorded the op that is differentiated, and said so."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TraceError(
            f"{self._name}: the gradient rule asks for what is not known while it is recorded ({name})",
            hint="write the rule with jg's functions of its operands alone",
        )


# ----------------------------------------------------------------------
# ``jg.custom_op``: functions over NumPy arrays, and compiled C functions, as ops that compiled code calls back.

_C_FUNCTION: Final = ctypes.CFUNCTYPE(None).__mro__[1]
_used: Final[dict[str, int]] = {}
_lock: Final = forks.lock()


def custom_op(
    name: str,
    impl: Callable[..., Any],
    infer: Callable[..., Any],
    vjp: Callable[..., Any] | None = None,
    *,
    batching: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """An op that runs ``impl`` on NumPy arrays: a function of tensors, eager and in traces, loops and branches.

    ``infer(*types)`` gives what the op returns for operands of these types (each with ``shape``, whose sizes may be
    names, and ``dtype``): something with ``shape`` and ``dtype``, or a pair (shape, dtype), or a list of such for
    several results. ``impl(*arrays)`` gets copies and returns an array of that shape and dtype, or a tuple. It should
    be a pure function: calls may be repeated, left out or shared. ``vjp(ct, out, *inputs)``, over tensors, gives the
    cotangent of each input, or None; for several results ``ct`` and ``out`` are tuples. Without it the op has no
    gradient.

    ``batching(varies, *inputs)``, over tensors, is what ``jg.vmap`` calls once for all samples: those inputs for which
    the tuple ``varies`` has True have a first axis of samples, and so have all results that it gives. Without it the op
    is applied to one sample after another.

    ``impl`` may be a function pointer, of ctypes, ``numba.cfunc`` or cffi: ``f(void **inputs, void **outputs, int64_t
    *sizes)`` with dense arrays and the extents of all operands, then results, one after the other. What it returns,
    where its type says int32, is an error code: JitgraphError unless 0.

    What ``impl`` raises is raised by the call. ShapeError or DTypeError where a result is not as inferred;
    UnsupportedOp on a GPU. ``jg.save`` writes the name and the types; ``jg.load(path, custom_ops={name: function})``
    and both loaders take the function from a table that the caller gives.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError(f'jg.custom_op: the name {name!r} is no identifier\n  hint: jg.custom_op("my_op", ...)')
    for what, function in (("impl", impl), ("infer", infer)):
        if not callable(function):
            raise ArgumentError(f"jg.custom_op: {what} is a {type(function).__name__}, not a function")
    if vjp is not None and not callable(vjp):
        raise ArgumentError(f"jg.custom_op: vjp is a {type(vjp).__name__}, not a function or None")
    if batching is not None and not callable(batching):
        raise ArgumentError(f"jg.custom_op: batching is a {type(batching).__name__}, not a function or None")
    host = _HostFunction(name, impl, infer, vjp, batching)
    op = host.op

    def call(*operands: TensorLike) -> Any:
        result = op(*map(lifting.value_of, operands))
        return tuple(map(wrap, result)) if isinstance(result, tuple) else wrap(result)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = impl.__doc__
    call.custom_op = host  # type: ignore[attr-defined]
    return call


def _unique(name: str) -> str:
    """A name that no other op of the process has, since texts of graphs are what code is remembered by."""
    with _lock:
        number = _used[name] = _used.get(name, 0) + 1
    return f"{name}.{number}" if number > 1 or hasattr(ops, name) else name


class _HostFunction:
    """What an op made of the user's functions does."""

    def __init__(self, name: str, impl: Any, infer: Any, vjp: Any = None, batching: Any = None) -> None:
        self.file_name = name
        self._name = _unique(name)
        self._impl = impl
        self._infer = infer
        self._vjp = vjp
        self._batching = batching
        self._native = _pointer_of(impl)
        self.op = Op(
            name=self._name,
            kind="other",
            infer=self._types,
            evaluate=self._evaluate,
            vjp=None if vjp is None else self._cotangents,
            batch=None if batching is None else self._batched,
            lowering="host",
            doc="A function of the user's.",
        )

    def _types(self, *types: Type) -> tuple[TensorType, ...]:
        operand_types = [rules.require_tensor(self._name, type) for type in types]
        inferred = self._infer(*operand_types)
        several = isinstance(inferred, list) or (isinstance(inferred, tuple) and not _is_pair(inferred))
        results = tuple(map(self._type, inferred if several else (inferred,)))
        if not results:
            raise ShapeError(f"{self._name}: infer gives no result", hint="an op has one result or more")
        return results

    def _type(self, inferred: Any) -> TensorType:
        shape, dtype = (
            inferred if _is_pair(inferred) else (getattr(inferred, "shape", None), getattr(inferred, "dtype", None))
        )
        if not isinstance(shape, tuple | list) or dtype is None:
            raise ShapeError(
                f"{self._name}: infer gives {inferred!r}, which has no shape and dtype",
                hint="return one of the operands' types, jg.TensorSpec(shape, dtype), or a pair (shape, dtype)",
            )
        sizes = tuple([Dim.name(size) if isinstance(size, str) else size for size in shape])
        return TensorType(dtypes.canonical(dtype), rules.require_shape(self._name, sizes))

    def _evaluate(self, *arrays: Any) -> Any:
        return self.results(arrays, self._types(*[TensorType(array.dtype, array.shape) for array in arrays]))

    def results(self, arrays: Sequence[Any], due: Sequence[TensorType]) -> Any:
        """What the function gives for arrays, which has to be of these types: one array, or a tuple of several."""
        # what the function keeps of them must not change when the memory serves other values, nor it the operands
        copies = [np.array(array, order="C") for array in arrays]
        results = self._called_natively(copies, due) if self._native is not None else self._impl(*copies)
        several = results if isinstance(results, tuple | list) else (results,)
        if len(several) != len(due):
            raise ShapeError(f"{self._name}: impl gives {len(several)} results, and infer says {len(due)}")
        checked = tuple([self._checked(i, x, type) for i, (x, type) in enumerate(zip(several, due, strict=True))])
        return checked if len(checked) > 1 else checked[0]

    def _checked(self, number: int, result: Any, due: TensorType) -> Any:
        array = np.asarray(result)
        if array.shape != due.shape:
            raise ShapeError(
                f"{self._name}: result {number} of impl has the shape {array.shape}, and infer says {due}",
                hint="let impl and infer agree",
            )
        if array.dtype != due.dtype:
            raise DTypeError(
                f"{self._name}: result {number} of impl is {array.dtype}, and infer says {due}",
                hint=f"result.astype({due.dtype.name!r}) in impl, or another dtype in infer",
            )
        return np.array(array, order="C")  # what impl keeps, or shares with others, is not the tensor's

    def _called_natively(self, arrays: Sequence[Any], due: Sequence[TensorType]) -> tuple[Any, ...]:
        """The function pointer's results: they begin as zeros."""
        assert self._native is not None
        results = [np.zeros(type.shape, type.dtype) for type in due]
        sizes = [extent for array in (*arrays, *results) for extent in array.shape]
        pointers = [(ctypes.c_void_p * len(some))(*[x.ctypes.data for x in some]) for some in (arrays, results)]
        kinds = self._native.argtypes or (ctypes.c_void_p,) * 3
        call_args: tuple[Any, ...] = (*pointers, (ctypes.c_int64 * len(sizes))(*sizes))
        code = self._native(*[ctypes.cast(x, kind) for x, kind in zip(call_args, kinds, strict=True)])
        if isinstance(code, int) and code:
            raise JitgraphError(f"{self._name}: the function returned the error code {code}")
        for result in results:
            if dtypes.is_bool(result.dtype):  # they are 0 or 1, whatever was written
                result[...] = result.view(np.uint8) != 0
        return tuple(results)

    def require_types(self, operands: Sequence[Type], due: Sequence[Type]) -> None:
        """ShapeError where the op does not give these types for operands of those."""
        inferred = self._types(*operands)
        if list(inferred) != list(due):
            says, gives = (", ".join(map(str, some)) for some in (due, inferred))
            raise ShapeError(f"the custom op {self.file_name!r} gives ({gives}), and the file says ({says})")

    @property
    def rule(self) -> Callable[..., Any] | None:
        """Its gradient rule as a column of an op."""
        return None if self._vjp is None else self._cotangents

    def _batched(self, op: Op, size: Any, values: Sequence[Any], flags: Sequence[bool], attrs: Any) -> Any:
        """The rule of ``jg.vmap``: ``batching`` on all samples at once, whose results are those of so many calls."""
        types = [value.type for value in values]
        alone = [TensorType(t.dtype, tuple(t.shape[1:])) if f else t for t, f in zip(types, flags, strict=True)]
        due = op.output_types(alone, attrs, ())
        results = apply_rule(self._name, lambda *inputs: self._batching(tuple(flags), *inputs), *values)
        several = results if isinstance(results, tuple | list) else (results,)
        if len(several) != len(due):
            raise ShapeError(f"{self._name}: batching gives {len(several)} results, and infer says {len(due)}")
        checked = []
        for number, (result, type) in enumerate(zip(several, due, strict=True)):
            assert isinstance(type, TensorType)
            value = lifting.value_of(result)
            what = f"{self._name}: result {number} of batching is {value.type}, and one sample's {type}"
            if value.dtype != type.dtype:
                raise DTypeError(what, hint=f"result.astype(jg.{type.dtype.name})")
            if len(value.shape) != type.ndim + 1:
                raise ShapeError(what, hint="all results of batching have a first axis of samples")
            for a, b in zip(value.shape, (size, *type.shape), strict=True):
                require_same(context.constraints(), a, b, what)
            checked.append(value)
        return tuple(checked)

    def _cotangents(self, ct: Any, out: Any, *inputs: Any) -> tuple[Any, ...]:
        cotangents = apply_rule(self._name, self._rule, ct, out, *inputs)
        pairs = enumerate(zip(cotangents, inputs, strict=True))
        return tuple([None if x is None else self._cotangent(i, x, of.type) for i, (x, of) in pairs])

    def _rule(self, ct: Any, out: Any, *inputs: Any) -> list[Any]:
        """The values of what ``vjp`` gives."""
        assert self._vjp is not None
        result = self._vjp(ct, out, *inputs)
        cotangents = result if isinstance(result, tuple | list) else (result,)
        if len(cotangents) != len(inputs):
            raise ShapeError(f"{self._name}: vjp gives {len(cotangents)} cotangents for {len(inputs)} inputs")
        return [None if x is None else lifting.value_of(x) for x in cotangents]

    def _cotangent(self, number: int, cotangent: Any, due: TensorType) -> Any:
        value = lifting.cast(cotangent, due.dtype)
        what = f"{self._name}: the cotangent {number} of vjp is {value.type}, and the input {due}"
        if len(value.shape) != due.ndim:
            raise ShapeError(what)
        for a, b in zip(value.shape, due.shape, strict=True):
            require_same(context.constraints(), a, b, what)
        return value


def _pointer_of(impl: Any) -> Any:
    """The function pointer that ``impl`` is, as one of ctypes; None for a function of Python."""
    native = getattr(impl, "ctypes", impl)
    if isinstance(native, _C_FUNCTION):
        return native
    if type(impl).__module__ != "_cffi_backend" or isinstance(impl, BuiltinFunctionType):
        return None
    ffi: Any = importlib.import_module("_cffi_backend").FFI()
    kind = ffi.typeof(impl)
    kind = kind.item if kind.kind == "pointer" else kind
    if kind.kind != "function" or len(kind.args) != 3:
        raise ArgumentError(
            f"jg.custom_op: impl is {ffi.typeof(impl).cname!r} of cffi, no function of three pointers\n"
            '  hint: ffi.addressof(lib, "f") of int32_t f(void **inputs, void **outputs, int64_t *sizes)'
        )
    restype = None if kind.result.kind == "void" else ctypes.c_int32
    function = ctypes.CFUNCTYPE(restype, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return function(int(ffi.cast("intptr_t", impl)))


# ----------------------------------------------------------------------
# Custom ops in files: a name and types, and the function that a table has for the name.


def file_name(op: Op) -> str | None:
    """The name of an op of ``custom_op`` in files; None for any other op."""
    host = getattr(op.evaluate, "__self__", None)
    return host.file_name if isinstance(host, _HostFunction | _FileFunction) else None


class _FileFunction:
    """What stands for a ``custom_call`` of a file: a custom op, a function of NumPy arrays or a pointer."""

    def __init__(self, name: str, function: Any) -> None:
        host = getattr(function, "custom_op", None)
        self.file_name = name
        self.known = host if isinstance(host, _HostFunction) else None
        self._host = self.known or _HostFunction(name, function, None)
        self.op = Op(
            name=_unique(name),
            kind="other",
            infer=call_types,
            evaluate=self._evaluate,
            vjp=None if self._host.rule is None else self._cotangents,
            batch=self._batched if self._host.op.batch is not None else None,
            lowering="host",
            doc="A function of the user's, called by a file.",
        )

    def _evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        return self._host.results(arrays, result_types(**attrs))

    def _cotangents(self, ct: Any, out: Any, *inputs: Any, **_: Any) -> Any:
        assert self._host.rule is not None
        return self._host.rule(ct, out, *inputs)

    def _batched(self, op: Op, size: Any, values: Sequence[Any], flags: Sequence[bool], attrs: Any) -> Any:
        return self._host._batched(op, size, values, flags, attrs)


def bound_to(graph: Graph, functions: Mapping[str, Any]) -> Graph:
    """The graph of a file with functions of a table in place of the names that it calls.

    LoadError for a name that the table lacks, for what is no function and for a custom op of other types.
    """
    ops_by_name: dict[str, _FileFunction] = {}

    def function_of(name: str) -> _FileFunction:
        if name not in functions:
            known = ", ".join(sorted(functions)) or "none"
            raise LoadError(f"it calls the custom op {name!r}, and custom_ops has {known}: custom_ops={{{name!r}: f}}")
        if not callable(functions[name]) and _pointer_of(functions[name]) is None:
            raise LoadError(f"custom_ops[{name!r}] is a {type(functions[name]).__name__}, not a function")
        if name not in ops_by_name:
            ops_by_name[name] = _FileFunction(name, functions[name])
        return ops_by_name[name]

    def bound(node: Node) -> Node:
        if "called_by_name" not in node.op.traits:
            return node
        function = function_of(str(node.attrs["name"]))
        if function.known is not None:
            function.known.require_types([v.type for v in node.inputs], [v.type for v in node.outputs])
        return replace(node, op=function.op)

    return with_nodes(graph, bound)


def by_name(graph: Graph, known: dict[str, Op]) -> Graph:
    """The graph with the name of each custom op in place of its function, as a file has it.

    ``known`` are those of the file so far. JitgraphError where two custom ops have one name.
    """

    def named(node: Node) -> Node:
        name = file_name(node.op)
        if name is None:
            return node
        if known.setdefault(name, node.op) is not node.op:
            raise JitgraphError(
                f"two custom ops are called {name!r}, by which a file knows them\n  hint: jg.custom_op with two names"
            )
        types = [value.tensor for value in node.outputs]
        attrs: dict[str, Any] = {
            "name": name,
            "dtypes": tuple(type.dtype for type in types),
            "shapes": tuple(tuple(type.shape) for type in types),
        }
        return replace(node, op=ops.custom_call, attrs=attrs)

    return with_nodes(graph, named)


def with_nodes(graph: Graph, change: Callable[[Node], Node]) -> Graph:
    """The graph with each node changed, those in regions, too; the same values."""

    def changed(node: Node) -> Node:
        regions = tuple([with_nodes(region, change) for region in node.regions])
        return change(node if all(map(operator.is_, regions, node.regions)) else replace(node, regions=regions))

    nodes = tuple(map(changed, graph.nodes))
    return graph if all(map(operator.is_, nodes, graph.nodes)) else replace(graph, nodes=nodes)


def _is_pair(inferred: Any) -> bool:
    """Whether this is (shape, dtype), and not two results."""
    if not isinstance(inferred, tuple) or len(inferred) != 2 or not isinstance(inferred[0], tuple | list):
        return False
    return all(isinstance(size, int | Dim | str) for size in inferred[0])
