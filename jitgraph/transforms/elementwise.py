"""``jg.elementwise``: a function of Python's numbers as an op on tensors, which fuses as the built-in ones do.

The function is recorded for single numbers as ``jg.script`` records: ``if``, ``while`` and ``for`` may depend on them,
and ``math`` is the math of tensors. What was recorded, the scalar graph, is then applied to whole tensors
(``passes/elements.py``), so that nothing of it is left in a compiled graph but the ops that it consists of.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Literal, TypeAlias, overload

from jitgraph import dtypes, ops, tree
from jitgraph.dtypes import DType
from jitgraph.errors import (
    ArgumentError,
    CompileError,
    ScriptError,
    ShapeError,
    TraceError,
    UnsupportedOp,
    trying,
    withdraw,
)
from jitgraph.ir import context
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.ops.rules import HALF
from jitgraph.passes.elements import on_elements, scalar_graph
from jitgraph.tensor import Tensor, element_numbers, lifting, wrap, wrap_as
from jitgraph.tensor.scalars import is_scalar
from jitgraph.tracing.call.function import trace
from jitgraph.tracing.script import entry_of
from jitgraph.tracing.symbolic.staged_number import StagedNumber
from jitgraph.transforms import numba_functions
from jitgraph.transforms.custom import GradientRule, apply, is_tensor
from jitgraph.transforms.llvm_programs import LlvmRunner
from jitgraph.transforms.recording import Closed, at_once, own_value

Compiler: TypeAlias = Literal["jitgraph", "numba"]


@overload
def elementwise(
    function: Callable[..., Any], *, vjp: Callable[..., Any] | None = None, compiler: Compiler | None = None
) -> ElementwiseFunction: ...
@overload
def elementwise(
    *, vjp: Callable[..., Any] | None = None, compiler: Compiler | None = None
) -> Callable[[Callable[..., Any]], ElementwiseFunction]: ...
def elementwise(
    function: Callable[..., Any] | None = None,
    *,
    vjp: Callable[..., Any] | None = None,
    compiler: Compiler | None = None,
) -> Any:
    """A function of numbers as a function of tensors, element by element, which broadcast: an op of the user's own.

    The function is recorded for single numbers: arithmetic, comparisons, ``math``, ``jg`` and ``np`` functions of one
    number, ``if``, ``while``, ``for``, ``and``, ``min``, ``abs``, ``int`` and helpers of the user's; numbers and
    tensors of rank 0 that it closes over are guarded as those of a traced function are. It computes in the dtypes of
    its operands (16-bit floats in float32, rounded once at the end) and gives one number or a tuple of them. As in
    ufuncs nothing raises: ``math.sqrt(-1.0)`` is NaN, integers wrap.

    In a traced function it fuses with its neighbours. A branch computes both sides and picks one for each element; a
    loop that ends at different turns runs until the last element is done. The gradient is that of the branch taken.
    ``vjp(ct, out, *inputs)``, over tensors, is a rule in its place: a cotangent, or None, for each input.

    ``compiler="numba"`` has numba compile the function for numbers, whose code is then recorded; None does so where the
    function cannot be recorded and numba is installed, "jitgraph" never. A double in it is of the operands' dtype.

    ScriptError or TraceError where it cannot be recorded, UnsupportedOp for what is no function of single numbers,
    CompileError where numba is asked for and is not there.
    """
    if function is None:
        return lambda f: _made(f, vjp, compiler)
    return _made(function, vjp, compiler)


def _made(function: Any, vjp: Callable[..., Any] | None, compiler: Compiler | None) -> ElementwiseFunction:
    if isinstance(function, ElementwiseFunction):
        function = function.__wrapped__
    if hasattr(function, "py_func") and hasattr(function, "inspect_llvm"):  # a function of numba's own
        function, compiler = function.py_func, compiler or "numba"
    if not callable(function) or isinstance(function, type):
        what = f"jg.elementwise takes a function of numbers, not {function!r}"
        raise ArgumentError(f"{what}\n  hint: write @jg.elementwise above a def")
    if compiler not in (None, "jitgraph", "numba"):
        raise ArgumentError(f'jg.elementwise: compiler is "jitgraph", "numba" or None, not {compiler!r}')
    return ElementwiseFunction(function, vjp, compiler)


class ElementwiseFunction:
    """A function of numbers that takes tensors; ``__wrapped__`` is the user's own."""

    def __init__(
        self, function: Callable[..., Any], vjp: Callable[..., Any] | None, compiler: Compiler | None = None
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = function
        self._name = getattr(function, "__name__", type(function).__name__)
        code = getattr(inspect.unwrap(function), "__code__", None)
        self._location = None if code is None else Location(code.co_filename, code.co_firstlineno)
        self._compiler = compiler
        self._programs: dict[Any, Any] = {}  # what numba made of it, by dtypes and by what it reads from outside
        if compiler == "numba":
            numba_functions.require_numba(self._name)
            if not isinstance(function, FunctionType):
                raise ArgumentError(f"{self._name}: numba compiles plain functions, not a {type(function).__name__}")
        self._inside = function if compiler == "numba" else entry_of(function)
        self._rule: Callable[..., Any] | None = None
        self._called = False
        if vjp is not None:
            self.vjp(vjp)

        def call(*args: Any) -> Any:
            return self._applied(args)

        call.__name__ = call.__qualname__ = self._name
        self._compiled = trace(call)

    def vjp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates the gradient rule: ``rule(ct, out, *inputs)`` gives the cotangent of each input, or None."""
        if not callable(rule):
            raise ArgumentError(f"{self._name}: vjp is a {type(rule).__name__}, not a function")
        if self._called:  # what was compiled by then would keep its gradient
            raise ArgumentError(f"{self._name}: the gradient rule comes before the first call")
        self._rule = rule
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._called = True
        if kwargs:
            bound = inspect.signature(self.__wrapped__).bind(*args, **kwargs)
            if bound.kwargs:
                names = ", ".join(bound.kwargs)
                raise ArgumentError(f"{self._name}: keyword-only parameters ({names}) are no operands of an op")
            args = bound.args
        if element_numbers.are_total():  # called by another such function, of whose scalar graph it is a part
            return self._by_numba(args) if self._compiler == "numba" else self._inside(*args)
        if context.current().trace is not None:
            return self._applied(args)
        return self._compiled(*args)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jg.elementwise {self._name}>"

    def _applied(self, args: tuple[Any, ...]) -> Any:
        for number, x in enumerate(args):
            if not lifting.is_operand(x) or isinstance(x, str):
                raise ArgumentError(
                    f"{self._name}: operand {number} is a {type(x).__name__}; an op takes tensors, arrays and numbers"
                )
        if not any(not is_scalar(x) for x in args):  # numbers alone: tensors of rank 0
            args = tuple([wrap(lifting.value_of(x)) for x in args])
        if self._rule is None:
            return at_once(self._name, lambda: self._recorded(args))
        return self._ruled(self._rule, args)

    # --- the scalar graph, and it on tensors --------------------------------------------------------------------------

    def _recorded(self, args: tuple[Any, ...]) -> Any:
        """The function on these operands, in the trace in force."""
        if self._compiler is not None:
            return self._recorded_by(args, self._compiler)
        if numba_functions.calls_compiled(self.__wrapped__):
            return self._recorded_by(args, "numba")
        try:
            with trying():
                return self._recorded_by(args, "jitgraph")
        except (ScriptError, TraceError) as error:
            # Not UnsupportedOp: what has no number for some elements, as a variable without a value, has one in numba's
            # code, whatever lies there.
            if not isinstance(self.__wrapped__, FunctionType) or not numba_functions.is_there():
                raise
            try:
                with trying():
                    return self._recorded_by(args, "numba")
            except (CompileError, ScriptError, TraceError) as other:
                withdraw(other)
                raise error from other

    def _recorded_by(self, args: tuple[Any, ...], compiler: Compiler) -> Any:
        recorder = context.current().trace
        positions = [i for i, x in enumerate(args) if not is_scalar(x)]
        values = [own_value(args[i]) for i in positions]
        half = _half([value.dtype for value in values])
        wide = [_wide(value) for value in values]
        shape = lifting.broadcast_shapes(*(value.shape for value in values))
        types = [TensorType(value.dtype, ()) for value in wide]
        closed = Closed(self._name, recorder, types, [value.requires_grad for value in values])
        numbers = closed.parameters([args[i] for i in positions])
        call_args = list(args)
        for i, number in zip(positions, numbers, strict=True):
            call_args[i] = number
        floats = [type.dtype for type in types if dtypes.is_inexact(type.dtype)]
        floating = dtypes.promote(*floats) if floats else dtypes.float32

        def function() -> Any:
            with element_numbers.of_one_element(floating):
                result = self._by_numba(call_args) if compiler == "numba" else self._inside(*call_args)
                return tree.map_leaves(lambda leaf: self._result(leaf, floating), result)

        closed.record(function)
        if closed.written:
            raise UnsupportedOp(
                f"{self._name}: a function of one element draws random numbers, or changes a tensor from outside",
                location=self._location,
                hint="draw them before, and give them as an argument; return what is to be changed",
            )
        if len(closed.kept) != len(closed.leaves) or not closed.kept:
            raise UnsupportedOp(
                f"{self._name}: a function of one element gives None, not a number",
                location=self._location,
                hint="return a number, or a tuple of numbers",
            )
        graph = scalar_graph(closed.graph, self._name)
        for value in closed.outer:
            if value.shape != ():
                raise ShapeError(
                    f"{self._name}: a function of one element reads a tensor of shape {tuple(value.shape)}",
                    location=self._location,
                    hint="make it an argument, whose elements go with those of the others",
                )
        operands = [lifting.broadcast_to(value, shape) for value in (*wide, *closed.outer)]
        results = on_elements(graph, operands, shape)
        if half is not None:
            results = [lifting.cast(x, half) if x.dtype == dtypes.float32 else x for x in results]
        return closed.rebuilt(results)

    def _by_numba(self, args: Sequence[Any]) -> Any:
        """What numba's code gives for numbers; floats are computed in their common dtype."""
        function: Any = self.__wrapped__
        outside = numba_functions.outside_values(function)
        tensors = [x for x in args if not is_scalar(x)]
        floats = [x.dtype for x in tensors if dtypes.is_inexact(x.dtype)]
        if any(map(dtypes.is_complex, floats)):
            raise UnsupportedOp(f"{self._name}: complex numbers in a function of numba", location=self._location)
        floating = dtypes.promote(*floats) if floats else dtypes.float32
        numbers = []
        for x in args:
            is_float = isinstance(x, float) if is_scalar(x) else dtypes.is_float(x.dtype)
            numbers.append(wrap(lifting.cast(lifting.value_of(x, floating if is_float else None), floating))
                           if is_float else wrap(lifting.value_of(x)))  # fmt: skip
        key = (tuple(x.dtype for x in numbers), tuple((type(x), x if is_scalar(x) else id(x)) for x in outside))
        if key not in self._programs:  # with what was read, so that its identities are no other's
            self._programs[key] = numba_functions.compiled(function, [x.dtype for x in numbers]), outside
        program, _ = self._programs[key]
        results = LlvmRunner(program, floating).run(numbers)
        return results[0] if len(results) == 1 else results

    def _result(self, leaf: Any, floating: DType) -> Any:
        """A result; Python's floats, which have no dtype of their own, in that of the operands."""
        if type(leaf) is StagedNumber:
            return wrap(lifting.cast(leaf.value, floating)) if leaf.kind is float else leaf.as_tensor()
        if isinstance(leaf, float | complex) and is_scalar(leaf):
            target = floating if isinstance(leaf, float) else dtypes.promote(floating, dtypes.complex64)
            return wrap(lifting.value_of(leaf, target))
        if isinstance(leaf, Tensor) and leaf._weak and dtypes.is_float(leaf.dtype):
            return leaf.astype(floating)
        if not lifting.is_operand(leaf) or isinstance(leaf, str):
            raise UnsupportedOp(
                f"{self._name}: a function of one element gives a {type(leaf).__name__}, not a number",
                location=self._location,
                hint="return a number, or a tuple of numbers",
            )
        return leaf

    # --- with a rule of the user's ------------------------------------------------------------------------------------

    def _ruled(self, rule: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        tensors = [wrap_as(lifting.value_of(x), x) for x in args if not is_scalar(x)]
        shape = lifting.broadcast_shapes(*(tensor.value.shape for tensor in tensors))
        wide = [wrap_as(lifting.broadcast_to(tensor.value, shape), tensor) for tensor in tensors]
        remaining = iter(wide)
        operands = tuple([x if is_scalar(x) else next(remaining) for x in args])

        def primal(*inputs: Any) -> Any:
            return at_once(self._name, lambda: self._recorded(inputs))

        def forward(*inputs: Any) -> tuple[Any, Any]:
            out = primal(*inputs)
            return out, (inputs, out)

        def backward(saved: Any, ct: Any) -> Sequence[Any]:
            inputs, out = saved
            result = rule(ct, out, *inputs)
            cotangents = result if isinstance(result, tuple | list) else (result,)
            if len(cotangents) != len(inputs):
                raise ShapeError(f"{self._name}: vjp gives {len(cotangents)} cotangents for {len(inputs)} inputs")
            pairs = zip(inputs, cotangents, strict=True)
            return [None if ct is None else _of_shape(ct, x) for x, ct in pairs if is_tensor(x)]

        return apply(GradientRule(self, self._name, primal, forward, backward), operands)


def _of_shape(cotangent: Any, like: Any) -> Any:
    """A number as the cotangent of each element."""
    if isinstance(cotangent, Tensor) and cotangent.ndim:
        return cotangent
    value = lifting.value_of(cotangent, like.dtype)
    return wrap(lifting.broadcast_to(value, like.value.shape))


def _half(kinds: Sequence[DType]) -> DType | None:
    """The 16-bit float to which results are rounded: where all floats among the operands are of it."""
    floats = {dtype for dtype in kinds if dtypes.is_inexact(dtype)}
    return next(iter(floats)) if len(floats) == 1 and floats <= HALF else None


def _wide(value: Any) -> Any:
    return ops.cast(value, dtype=dtypes.float32) if value.dtype in HALF else value
