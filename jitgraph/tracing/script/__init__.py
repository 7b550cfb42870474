"""``script``: trace, for functions whose control flow depends on the values of tensors.

The function's source is rewritten (``functions.py`` finds it, ``exits.py`` turns return, break and continue into flags,
``rewrite.py`` the rest) so that control flow goes through ``staging.py``, and then traced. On Python values everything
means what it means in Python. On tensors:

- ``if``, conditional expressions, ``and``, ``or`` and chains of comparisons become ``cond``, or a logical op where the
  second operand is cheap and has no effect; ``while`` becomes a ``while`` op; ``for`` over a range with a tensor or
  symbolic bound, over a Python range of more than 8 steps and over the rows of a tensor becomes ``scan``, or ``while``
  where it may be left early. ``enumerate``, ``zip`` and ``reversed`` of these do, too.
- In a staged ``for`` over a range the variable is a staged int. Where the body
  cannot be recorded so (it needs a Python int, changes a shape), the loop is unrolled if its length is known and at
  most 1024; else the error is raised. A loop after whose first turn variables have another type starts behind it.
- A list that the script makes, and to which each turn of a staged ``for`` appends as much, grows by rows of tensors
  that the loop stacks (``lists.py``): ``jg.stack`` of it, ``out[-1]``, ``len``, ``sum`` and loops over it record as
  much for thousands of turns as for ten. Comprehensions of lists are such loops. How often a list is appended to
  cannot depend on the values of tensors.
- A Python number that a staged statement changes becomes a staged number (``staged_number.py``): an int64, double or
  bool of the graph with all operations of Python's int, float or bool, exact or checked when the graph runs. Beside a
  tensor it takes that one's dtype, in the body or on the other side of an ``if``. Returned, it is a Python number
  again. What needs the number itself (a hash, a text, a library) is refused; a loop of known length is then unrolled.
- A variable that is defined on one side alone, in a body that may not run or by ``:=`` in a later operand may be read:
  where it has no value, the graph raises UnboundLocalError. Types that differ are errors where the variable is read
  later.
- An element of a list, deque or dict and an attribute that a staged statement sets is a result of it, as a variable is.
  What changes the length or keys of an outer container is refused; loops of known length are then unrolled.
- ``assert`` becomes a check, ``raise`` of a builtin exception with one text, too.
- Functions, methods and constructors of the user that are called are rewritten as well, also where a function of
  jitgraph or of the standard library calls them as its arguments or closes over them. ``float``, ``int`` and ``bool``
  of a tensor stand for Python numbers.

What raises ScriptError: generators, coroutines; tensor control flow inside a ``try`` that has handlers; print of a
tensor; in staged bodies assignment to globals; ``:=`` in the later operands of a lambda or comprehension;
recursion that a tensor ends.

A variable that is rebound in a staged body is a tensor of its own afterwards: ``x += 1`` then does not reach the tensor
that it held before, where Python would depend on a value to decide it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any, Final, Unpack, overload
from weakref import WeakSet

from jitgraph.errors import ScriptError, withdraw
from jitgraph.ir import context
from jitgraph.tracing.call.function import BoundFunction, TracedFunction, trace
from jitgraph.tracing.call.options import OptionKwargs
from jitgraph.tracing.record.recorder import OF_TRUTH, ConcretisationError
from jitgraph.tracing.script import staging
from jitgraph.tracing.script.callees import EndlessRecursionError, bound_call, refuse_endless_recursion, staged
from jitgraph.tracing.script.lists import require_known_lengths
from jitgraph.tracing.script.variables import line_of, unbound_name

__all__ = ["script", "staging"]

_OF_TRUTH: Final = (
    "in a script if, while, for, and, or, not, assert, min, max, any and all take tensors; jg.where and jg's other "
    "functions compute with them; use range(n), not Python's own functions"
)
_ENTRIES: Final[WeakSet[Callable[..., Any]]] = WeakSet()  # what entry_of made


@overload
def script(function: Callable[..., Any], **options: Unpack[OptionKwargs]) -> Any: ...
@overload
def script(**options: Unpack[OptionKwargs]) -> Callable[[Callable[..., Any]], Any]: ...
def script(
    function: Callable[..., Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | None = None,
    static_argnames: Sequence[str] = (),
    static_argnums: Sequence[int] = (),
    fastmath: bool = False,
    device: str | None = None,
    strict: bool = False,
    verify: bool = False,
    threads: int | None = None,
    max_bytes: int | str | None = None,
) -> Any:
    """``trace`` that also captures control flow that depends on tensors; the same options.

    That is if, while, for, break, return, and, or, not, assert, and Python's min, max, any and all.

    Takes what ``trace`` takes: functions, methods, Modules and other callable objects, partials; also the static and
    class methods of a class body. ScriptError for a function that has no source, or that holds what cannot be captured.
    """
    options: dict[str, Any] = {
        "dynamic_shapes": dynamic_shapes,
        "static_argnames": static_argnames,
        "static_argnums": static_argnums,
        "fastmath": fastmath,
        "device": device,
        "strict": strict,
        "verify": verify,
        "threads": threads,
        "max_bytes": max_bytes,
    }
    if function is None:
        return lambda f: script(f, **options)
    if isinstance(function, staticmethod | classmethod):
        return type(function)(script(function.__func__, **options))
    original = _unwrapped(function)
    if not callable(original):
        raise ScriptError(
            f"jg.script takes a function, not {type(original).__name__}", hint="write @jg.script above a def"
        )
    return trace(entry_of(original), **options)


def _unwrapped(function: Any) -> Any:
    """What a traced or scripted function was made of."""
    if isinstance(function, BoundFunction):
        return MethodType(_unwrapped(function.function), function.instance)
    if isinstance(function, TracedFunction):
        return _unwrapped(function.__wrapped__)
    return (
        inspect.unwrap(function, stop=lambda f: f not in _ENTRIES) if isinstance(function, FunctionType) else function
    )


def entry_of(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function in a trace rewritten, with errors that say what a script has to do with them; else as it is."""
    function = bound_call(original) or original
    inside = staged(function)

    @functools.wraps(function, updated=("__dict__",) if isinstance(function, FunctionType) else ())
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = context.current().trace
        if recorder is None:
            return function(*args, **kwargs)
        refuse_endless_recursion(inside)
        try:
            result = inside(*args, **kwargs)
            require_known_lengths(result)
            return result
        except EndlessRecursionError as error:
            if recorder.parent is not None:
                raise
            raise ScriptError(error.message, location=error.location, hint=error.hint) from None  # not of each call
        except NameError as error:
            name = unbound_name(error)
            if name not in recorder.dropped:
                raise
            raise recorder.dropped[name].error(name, line_of(error)) from error
        except ConcretisationError as error:
            withdraw(error)
            hint = _OF_TRUTH if error.hint == OF_TRUTH else error.hint
            raise ScriptError(error.message, location=error.location, hint=hint) from error

    call.__name__ = getattr(original, "__name__", type(original).__name__)
    call.is_staged = True  # type: ignore[attr-defined]
    if function is not original:  # an object, whose class may say what has the parameters of its call
        call.made_of = original  # type: ignore[attr-defined]
    _ENTRIES.add(call)
    return call
