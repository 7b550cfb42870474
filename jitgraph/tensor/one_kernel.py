"""Functions of several ops that run as one kernel outside of traces, where their operands are large.

One op after the other reads and writes all elements in between, and some have no fast form in NumPy. Such a function is
a fused op for large operands: a kernel of the very ops that it consists of, with their bits, differentiated as a whole.
A trace records its ops as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final

from jitgraph.eager import placement
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.ir.op import OpenShape
from jitgraph.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from jitgraph.ir.op import Op

LEAST: Final = 1 << 15
"""Elements of all operands from which on a function is compiled: for fewer its ops take less time than LLVM."""

OpenShapes = Callable[..., tuple[OpenShape, ...]]


def one_kernel(
    least: int = LEAST, *, elements: Callable[..., int] | None = None, open_shapes: OpenShapes | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of tensors and keyword attributes, which gives a tensor or several: one kernel where that pays.

    ``elements(*shapes, **attrs)``, by default the elements of all operands, is compared with ``least``. ``open_shapes``
    is as that of an op: extents with names are those that a kernel serves all of. Attributes can be hashed.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def op() -> Op:
            from jitgraph.eager.fused_ops import fused_op  # here, as most programs have no large operands of it
            from jitgraph.tensor.call_recording import CallTrace

            def body(*values: Any, **attrs: Any) -> Any:
                with context.using(trace=None if isinstance(values[0], EagerValue) else CallTrace()):
                    results = function(*map(wrap, values), **attrs)
                    return tuple(each.value for each in results) if isinstance(results, tuple) else results.value

            return fused_op(function.__name__.strip("_"), body, open_shapes=open_shapes)

        @wraps(function)
        def call(*tensors: Tensor, **attrs: Any) -> Any:
            values = [tensor.value for tensor in tensors]
            if not _is_here(values):
                return function(*tensors, **attrs)
            shapes = [value.shape for value in values]
            count = sum(value.array.size for value in values) if elements is None else elements(*shapes, **attrs)
            if count < least:
                return function(*tensors, **attrs)
            results = op()(*values, **attrs)
            return tuple(map(wrap, results)) if isinstance(results, tuple) else wrap(results)

        return call

    return decorate


def _is_here(values: list[Any]) -> bool:
    """Whether operands are arrays of the processor, outside of traces; none is empty or complex."""
    if context.current().emitter is not EAGER or placement.is_on_device(values):
        return False
    return all(isinstance(value, EagerValue) and value.array.size and value.dtype.kind != "c" for value in values)
