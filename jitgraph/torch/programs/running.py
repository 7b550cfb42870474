"""Programs evaluated over jitgraph's functions: eagerly, and recorded where a trace is.

A graph is resolved once, to functions and the names of their operands. Control flow becomes ``jg.cond``,
``jg.while_loop`` and ``jg.scan``. An error names the node and the line of the model that it came from.
"""

from __future__ import annotations

import inspect
import keyword
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple, NoReturn

from jitgraph import amp, autograd, dtypes
from jitgraph.errors import ArgumentError, DTypeError, JitgraphError, ShapeError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.tensor import functions as fn
from jitgraph.torch.programs import functionalise
from jitgraph.torch.programs.program import FreeSize, Graph, Input, Program, ProgramNode, Ref, Region
from jitgraph.torch.programs.structure import flatten, unflatten
from jitgraph.tracing.record.control_flow import cond, scan, while_loop

# ----------------------------------------------------------------------
# Targets that are no operators of ATen: numbers, assertions, control flow.


def _nothing(*args: Any, **kwargs: Any) -> None:
    """What asserts what PyTorch has found out, and what only serves its own compilers."""


def _is_scalar_true(self: Any, assert_msg: str = "") -> None:
    if isinstance(self, bool | int | float) and not self:
        raise ArgumentError(f"the exported program asserts: {assert_msg}")


class _UnknownSize:
    """How many elements a mask selects, where a program is recorded: what PyTorch asserts of it holds by itself.

    Whoever needs its value is refused with the line that selects.
    """

    def __init__(self, of: Any) -> None:
        self._of = of

    def _another(self, *others: Any) -> Any:
        return self

    def _refuse(self, *others: Any) -> NoReturn:
        self._of._value.outside(self._of)
        raise AssertionError

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = __neg__ = _another
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __and__ = __or__ = _another
    __bool__ = __int__ = __index__ = __float__ = __hash__ = _refuse


def _size(self: Any, dim: int | None = None) -> Any:
    if dim == 0 and isinstance(self, Tensor) and hasattr(self._value, "trailing"):
        return _UnknownSize(self)
    return list(self.shape) if dim is None else self.shape[dim]


def _number_of(self: Any) -> Any:
    return self.item() if isinstance(self, Tensor) else self


def _either(condition: Any, then: Any, otherwise: Any) -> Any:
    return then if condition else otherwise


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        f"operator.{name}": getattr(operator, name)
        for name in ("add", "sub", "mul", "floordiv", "mod", "pow", "truediv", "neg", "pos", "eq", "ne", "lt", "le")
    },
    **{f"operator.{name}": getattr(operator, name) for name in ("gt", "ge", "and_", "or_", "lshift", "rshift", "abs")},
    "operator.getitem": operator.getitem,
    "math.trunc": math.trunc,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "torch.sym_not": operator.not_,
    "torch.sym_int": int,
    "torch.sym_float": float,
    "torch.sym_ite": _either,
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_sqrt": math.sqrt,
    "torch._sym_sqrt": math.sqrt,
    "aten::sym_size.int": _size,
    "aten::sym_size.default": _size,
    "aten::sym_numel.default": lambda self: math.prod(self.shape),
    "aten::size.int": _size,
    "aten::size.default": _size,
    "aten::numel.default": lambda self: math.prod(self.shape),
    "aten::dim.default": lambda self: self.ndim,
    "aten::item.default": _number_of,
    "aten::_local_scalar_dense.default": _number_of,
    "aten::is_nonzero.default": lambda self: bool(self),
    "aten::sym_constrain_range.default": _nothing,
    "aten::sym_constrain_range_for_size.default": _nothing,
    "aten::_assert_async.msg": _nothing,
    "aten::_assert_async.default": _nothing,
    "aten::_assert_scalar.default": _is_scalar_true,
    "aten::_assert_tensor_metadata.default": _nothing,
    "torch._check": _nothing,
    "torch._C._set_grad_enabled": _nothing,
}


class Routine:
    """A graph as a function of its inputs that gives a tuple of outputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = functionalise.functional(graph)
        self._steps = tuple(_step(node) for node in self.graph.nodes)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        values = dict(zip(self.graph.inputs, inputs, strict=True))
        self.evaluate(values)
        return tuple(_filled(output, values) for output in self.graph.outputs)

    def evaluate(self, values: dict[str, Any]) -> None:
        """Compute every node; ``values`` has those of the inputs by name, and then those of all names."""
        for step in self._steps:
            args = [_filled(item, values) for item in step.args]
            kwargs = {name: _filled(item, values) for name, item in step.kwargs.items()}
            try:
                result = step.function(*args, **kwargs)
            except Exception as error:
                error.add_note(f"in {step.target}{f', from {step.location}' if step.location else ''}")
                raise
            if step.location and isinstance(result, Tensor) and hasattr(result._value, "trailing"):
                result._value.location = step.location  # of a selection: the line that an error is to name
            if isinstance(step.outputs, str):
                values[step.outputs] = result
            else:
                parts = zip(step.outputs, result or (), strict=False)
                values |= {name: part for name, part in parts if name is not None}


class _Step(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: str | tuple[str | None, ...]
    target: str
    location: str


def _filled(item: Any, values: Mapping[str, Any]) -> Any:
    if item.__class__ is Ref:
        return values[item.name]
    if item.__class__ is list:
        return [_filled(each, values) for each in item]
    if item.__class__ is tuple:
        return tuple(_filled(each, values) for each in item)
    return item


def _step(node: ProgramNode) -> _Step:
    args, kwargs = node.args, node.kwargs
    if node.target.startswith("higher_order."):
        args = tuple(_resolved(item) for item in args)
        kwargs = {name: _resolved(item) for name, item in kwargs.items()}
    elif node.target in (functionalise.VIEW, functionalise.PUT_BACK):
        make = functionalise.view if node.target == functionalise.VIEW else functionalise.put_back
        return _Step(make(args[0]), args[1:], {}, node.outputs, node.target, node.location)
    return _Step(function_of(node.target, node.location), args, kwargs, node.outputs, node.target, node.location)


def _resolved(item: Any) -> Any:
    if isinstance(item, Region):
        return Routine(item.graph)
    return [_resolved(each) for each in item] if isinstance(item, list) else item


def function_of(target: str, location: str = "") -> Callable[..., Any]:
    """The function of a node's target; UnsupportedOp where there is none."""
    if target.startswith(f"{functionalise.WRITE} "):
        operator_name = target.removeprefix(f"{functionalise.WRITE} ")
        base = functionalise.functional_target(operator_name)
        if functionalise.operator_of(base) is not None:
            return functionalise.write(base)
        target = operator_name
    found = FUNCTIONS.get(target) or _CONTROL_FLOW.get(target)
    if found is None and target.startswith("aten::"):
        found = functionalise.operator_of(target)
    if found is None:
        raise UnsupportedOp(
            f"{target} is not supported{f' (from {location})' if location else ''}",
            hint="docs/guide/exported_programs.md lists the operators",
        )
    return found


# ----------------------------------------------------------------------
# Control flow.


def _cond(pred: Any, true_graph: Routine, false_graph: Routine, operands: Sequence[Any] = ()) -> Any:
    return cond(pred, true_graph, false_graph, *operands)


def _while_loop(cond_graph: Routine, body_graph: Routine, carried: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    return while_loop(
        lambda carry: cond_graph(*carry, *more)[0],
        lambda carry: body_graph(*carry, *more),
        tuple(carried),
    )


def _map(body: Routine, mapped: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    def each(carry: Any, row: Any) -> Any:
        return carry, body(*row, *more)

    return scan(each, (), tuple(mapped))[1]


def _scan(body: Routine, init: Sequence[Any], xs: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    count = len(init)

    def each(carry: Any, row: Any) -> Any:
        results = body(*carry, *row, *more)
        return results[:count], results[count:]

    carry, rows = scan(each, tuple(init), tuple(xs))
    return (*carry, *rows)


def _call(body: Routine, *operands: Any, **settings: Any) -> Any:
    return body(*operands)


def _invoke(body: Routine, identifier: Any, *operands: Any) -> Any:
    return body(*operands)


def _with_gradients(enabled: bool, body: Routine, *operands: Any) -> Any:
    with autograd.enable_grad() if enabled else autograd.no_grad():
        return body(*operands)


def _with_autocast(device: str, dtype: Any, enabled: bool, cache_enabled: Any, body: Routine, *operands: Any) -> Any:
    block: AbstractContextManager[Any] = (
        amp.autocast(device, dtype, enabled) if device in ("cpu", "cuda") else nullcontext()
    )
    with block:
        return body(*operands)


_CONTROL_FLOW: Final[Mapping[str, Callable[..., Any]]] = {
    "higher_order.cond": _cond,
    "higher_order.while_loop": _while_loop,
    "higher_order.map_impl": _map,
    "higher_order.map": _map,
    "higher_order.scan": _scan,
    "higher_order.wrap": _call,
    "higher_order.wrap_activation_checkpoint": _call,
    "higher_order.tag_activation_checkpoint": _call,
    "higher_order.invoke_subgraph": _invoke,
    "higher_order.wrap_with_set_grad_enabled": _with_gradients,
    "higher_order.wrap_with_autocast": _with_autocast,
}


# ----------------------------------------------------------------------
# A program.


def is_recording() -> bool:
    """Whether a trace records what is called."""
    return context.current().trace is not None


def _signature(program: Program) -> inspect.Signature:
    """The parameters of the model's ``forward``; JitgraphError for names that Python does not take."""
    names = program.names
    positional, by_name = program.arguments.children
    kinds: list[Any] = [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(positional.children)
    kinds += [inspect.Parameter.KEYWORD_ONLY] * len(by_name.children)
    if len(set(names)) < len(names) or not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        shown = ", ".join(map(repr, names))
        raise JitgraphError(f"the program's arguments have the names {shown}, which Python does not take")
    return inspect.Signature([inspect.Parameter(name, kind) for name, kind in zip(names, kinds, strict=True)])


class Runner:
    """A program as a function of its tensors and of its arguments."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.signature = _signature(program)
        self._routine = Routine(program.graph)
        self._written = [
            (entry, value.name)
            for output, value in zip(program.outputs, self._routine.graph.outputs, strict=True)
            if output.kind == "write" and isinstance(value, Ref)
            for entry in program.inputs
            if entry.name == output.target
        ]
        self._written += [(entry, entry.name) for entry in program.inputs if entry.name in self._routine.graph.written]

    def __call__(self, tensors: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results; tensors that the program writes to are set.

        ShapeError, DTypeError and ArgumentError for arguments for which the program was not made.
        """
        own, users = iter(tensors), iter(self._leaves(args, kwargs))
        floats = self._other_floats(tensors)
        values: dict[str, Any] = {}
        sizes: dict[str, Any] = {}
        for entry in self.program.inputs:
            if entry.kind in ("user", "fixed"):
                value = self._argument(entry, next(users), sizes, floats)
            else:
                value = next(own)
            values[entry.name] = value
        before = {entry.name: values[entry.name] for entry, _ in self._written}
        self._routine.evaluate(values)
        graph = self._routine.graph
        results = [
            _filled(value, values)
            for value, output in zip(graph.outputs, self.program.outputs, strict=True)
            if output.kind == "user"
        ]
        fresh = {entry.name: values[name] for entry, name in self._written}
        for name, value in fresh.items():
            if value is not before[name]:
                with autograd.no_grad():
                    before[name]._rebind(value.value)
        return unflatten(self.program.results, results)[0]

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call's arguments; TypeError and ArgumentError where they are not those of the program."""
        values = self.signature.bind(*args, **kwargs).arguments
        positional, by_name = self.program.arguments.children
        leaves: list[Any] = []
        for name, spec in zip(self.program.names, (*positional.children, *by_name.children), strict=True):
            flatten(spec, values[name], name, leaves)
        return leaves

    def _other_floats(self, tensors: Sequence[Any]) -> dict[Any, Any]:
        """The dtypes that floats have instead of those of the program, after ``module.to(dtype)``."""
        entries = [entry for entry in self.program.inputs if entry.target]
        metas = [self.program.graph.metas.get(entry.name) for entry in entries]
        return {
            meta.dtype: tensor.dtype
            for meta, tensor in zip(metas, tensors, strict=True)
            if meta is not None and meta.dtype != tensor.dtype
        }

    def _argument(self, entry: Input, value: Any, sizes: dict[str, Any], floats: Mapping[Any, Any]) -> Any:
        if entry.kind == "fixed":
            if value is not entry.value and (isinstance(value, Tensor) or value != entry.value):
                raise ArgumentError(
                    f"{entry.name or 'an argument'} was {entry.value!r} when the model was exported, and its graph "
                    f"holds for that alone, not for {value!r}"
                )
            return entry.value
        meta = self.program.graph.metas.get(entry.name)
        if meta is None:
            return value
        if not isinstance(value, Tensor):
            value = fn.asarray(value)
        dtype = floats.get(meta.dtype, meta.dtype)
        wanted = dtypes.canonical(dtype).name
        if value.dtype != dtype:
            raise DTypeError(
                f"{entry.name} is {value.dtype.name}, and the program was exported for {wanted}",
                hint=f"{entry.name}.astype(jg.{wanted})",
            )
        shape = tuple(value.shape)
        same = len(shape) == len(meta.shape)
        for expected, own in zip(meta.shape, shape, strict=False):
            want = sizes.setdefault(expected.text, own) if isinstance(expected, FreeSize) else expected
            same = same and own == want
        if not same:
            shown = ", ".join(size.text if isinstance(size, FreeSize) else str(size) for size in meta.shape)
            raise ShapeError(
                f"{entry.name} is {value.value.type}, and the program was exported for ({shown})",
                hint="torch.export.export(model, args, dynamic_shapes=...) leaves sizes free",
            )
        texts = [size.text if isinstance(size, FreeSize) else "" for size in meta.shape]
        for size, own in zip(texts, shape, strict=True):
            low, high = self.program.ranges.get(size, (None, None))
            if isinstance(own, int) and high is not None and own > high:
                raise ShapeError(
                    f"{entry.name} is {value.value.type}: {size} is at most {high} in the exported program"
                )
            if isinstance(own, int) and low is not None and own < low and low > 2:
                raise ShapeError(
                    f"{entry.name} is {value.value.type}: {size} is at least {low} in the exported program"
                )
        return value
