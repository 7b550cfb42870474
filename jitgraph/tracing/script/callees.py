"""What a script calls in place of a function: the user's functions rewritten, some builtins by their staged forms."""

from __future__ import annotations

import cmath
import dis
import functools
import inspect
import math
import operator
import sys
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType
from typing import Any, Final

from jitgraph.errors import ScriptError, trying
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.own_code import OWN, STAGED
from jitgraph.tensor import Tensor, element_numbers
from jitgraph.tensor.functions.manipulation import concat, stack
from jitgraph.tracing.call.undo_log import CHANGERS
from jitgraph.tracing.capture.kinds import CALL_LOOKUPS, is_followed, is_rewritten
from jitgraph.tracing.record.printing import BUILTIN_PRINT, traced_print
from jitgraph.tracing.record.region import CONTAINERS
from jitgraph.tracing.script import builtins, lists, lookups, sums
from jitgraph.tracing.script.aliasing import require_single
from jitgraph.tracing.script.branches import created_here, innermost_write_log, recorders
from jitgraph.tracing.script.builtins import may_call_arguments
from jitgraph.tracing.script.functions import rewrite
from jitgraph.tracing.script.iterables import make_enumerate, make_range, make_reversed, make_zip
from jitgraph.tracing.symbolic import element_math, staged_math
from jitgraph.tracing.symbolic.staged_number import StagedNumber

_DEEPEST: Final = 16  # calls of a function inside itself, each under a tensor condition
_SETTERS: Final = (setattr, delattr)
_SEARCHES: Final[dict[str, Any]] = {"get": lookups.get, "index": lookups.index, "count": lookups.count}
_BUILTINS: Final[dict[Any, Any]] = {
    range: make_range,
    enumerate: make_enumerate,
    zip: make_zip,
    reversed: make_reversed,
    float: builtins.to_float,
    int: builtins.to_int,
    bool: builtins.to_bool,
    type: builtins.type_of,
}
_FOLDS: Final = {
    id(min): builtins.least,
    id(max): builtins.greatest,
    id(any): builtins.some,
    id(all): builtins.every,
    id(sorted): builtins.in_order,
    id(pow): builtins.power,
    id(hasattr): builtins.has_attribute,
    id(getattr): builtins.attribute,
}
_OF_LISTS: Final = {
    id(stack): lists.stacked,
    id(concat): lists.concatenated,
    id(len): lists.length,
    id(sum): sums.total,
}


def is_users_function(function: Any) -> bool:
    """Whether a function is written by the user, or is a method of ``jitgraph.nn``, which calls the user's."""
    return isinstance(function, FunctionType) and _is_users_file(function.__code__.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_users_file(file: str) -> bool:
    return is_followed(file) and (STAGED.have(file) or not OWN.have(file))


def callee(function: Any) -> Any:
    """What a script calls in place of ``function``: inside a trace the user's functions with staged control flow."""
    if context.current().trace is None:
        return function
    if (known := _OF_LISTS.get(id(function))) is not None:
        return known
    if isinstance(function, FunctionType):
        return _function(function)
    if isinstance(function, MethodType):
        return _of_growing_list(function) if lists.is_growing(function.__self__) else _method(function)
    if isinstance(function, BuiltinMethodType):
        return _builtin(function)
    if isinstance(function, type):
        return _BUILTINS.get(function) or _maker(function)
    if isinstance(function, functools.partial):
        return functools.partial(callee(function.func), *function.args, **function.keywords)
    call = bound_call(function)
    return _method(call) if call is not None and is_users_function(call.__func__) else function


def staged(function: Any) -> Any:
    """A callable with its control flow staged; ScriptError where the user's function in it cannot be rewritten."""
    match function:
        case FunctionType():
            return rewrite(function) if is_users_function(function) else _with_rewritten_cells(function)
        case MethodType(__func__=FunctionType() as inner):
            return MethodType(staged(inner), function.__self__)
        case functools.partial():
            return functools.partial(staged(function.func), *function.args, **function.keywords)
    call = bound_call(function)
    return function if call is None else staged(call)


def bound_call(value: Any) -> MethodType | None:
    """The method that a call of an object runs, where it is written in Python; None for functions and classes."""
    if isinstance(value, type | FunctionType | MethodType):
        return None
    call = inspect.getattr_static(type(value), "__call__", None)
    return MethodType(call, value) if isinstance(call, FunctionType) else None


def _function(function: FunctionType) -> Any:
    if is_rewritten(function.__code__):
        refuse_endless_recursion(function)
        return function
    if not is_users_function(function):
        return _with_rewritten_arguments(function)
    rewritten = _rewritten_or_itself(function)
    refuse_endless_recursion(rewritten)
    return rewritten


def _rewritten_or_itself(function: FunctionType) -> FunctionType:
    try:
        with trying():
            return rewrite(function)
    except ScriptError:
        return function  # as it is: on Python values it works, on tensors its own error says what to do


def _method(method: MethodType) -> Any:
    function = method.__func__
    if isinstance(function, FunctionType) and is_users_function(function):
        return MethodType(_function(function), method.__self__)
    return _with_rewritten_arguments(method)


def _builtin(function: Any) -> Any:
    if function is BUILTIN_PRINT:
        return traced_print
    if function is globals:
        return function  # it asks for those of the frame that calls it
    if any(function is setter for setter in _SETTERS):
        return functools.partial(_set, function)
    if (fold := _FOLDS.get(id(function))) is not None:
        return fold
    owner = function.__self__
    if owner is math or owner is cmath:
        if element_numbers.are_total():
            return functools.partial(element_math.call, function)
        return functools.partial(staged_math.call, function) if owner is math else function
    if function.__name__ in _SEARCHES and lookups.is_searchable(owner):
        return functools.partial(_search, function)
    if isinstance(owner, CONTAINERS) and function.__name__ in CHANGERS:
        require_single(owner)
        journal = innermost_write_log()
        if journal is not None:
            journal.change(owner, None)
        return function
    if function.__name__ in ("copy", "sorted") and innermost_write_log() is not None:
        return lambda *args, **kwargs: created_here(function(*args, **kwargs))
    return _with_rewritten_arguments(function)


def _of_growing_list(method: MethodType) -> Any:
    return functools.partial(_search, method) if method.__name__ in _SEARCHES else method


def _search(function: Any, *args: Any) -> Any:
    """``get``, ``index`` or ``count`` of a builtin container."""
    owner, name = function.__self__, function.__name__
    staged = type(args[0]) is StagedNumber if args else False
    if name == "get" and staged:
        return lookups.get(owner, *args)
    if name != "get" and len(args) == 1 and (staged or lookups.contains_staged(owner)):
        return _SEARCHES[name](owner, args[0])
    return function(*args)


def _set(setter: Any, target: Any, name: str, *value: Any) -> None:
    """``setattr`` or ``delattr``."""
    require_single(target)
    journal = innermost_write_log()
    if journal is not None and not isinstance(target, Tensor):
        journal.change(target, name)
    setter(target, name, *value)


def _maker(kind: Any) -> Any:
    """What makes an instance of a class: its own ``__init__`` rewritten, where the user wrote it."""
    init = inspect.getattr_static(kind, "__init__", None)
    if is_users_function(init) and type(kind).__call__ is type.__call__ and kind.__new__ is object.__new__:

        def make(*args: Any, **kwargs: Any) -> Any:
            instance = created_here(object.__new__(kind))
            if _function(init)(instance, *args, **kwargs) is not None:
                raise TypeError("__init__() should return None")
            return instance

        return make
    if innermost_write_log() is None:
        return kind if kind is not map and kind is not filter else _with_rewritten_arguments(kind)
    argument = _argument if may_call_arguments(kind) else _itself
    return lambda *args, **kwargs: created_here(kind(*map(argument, args), **kwargs))


def _itself(value: Any) -> Any:
    return value


def _with_rewritten_arguments(function: Any) -> Any:
    """A library's function, which gets the user's functions among its arguments rewritten where it may call them."""
    if not may_call_arguments(function):
        return function
    known = _with_rewritten_cells(function) if isinstance(function, FunctionType) else function

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return known(*map(_argument, args), **{name: _argument(value) for name, value in kwargs.items()})

    return call


def _with_rewritten_cells(function: FunctionType) -> FunctionType:
    """A library's function, such as a decorator's wrapper, with the user's functions that it closes over rewritten."""
    cells = function.__closure__ or ()
    changed = [_with_rewritten_contents(cell) for cell in cells]
    if all(map(operator.is_, cells, changed)) or _rebinds(function.__code__):
        return function
    new_function = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(changed)
    )
    new_function.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(new_function, function)
    return new_function


def _with_rewritten_contents(cell: CellType) -> CellType:
    try:
        value = cell.cell_contents
    except ValueError:
        return cell
    new = _argument(value)
    if new is value and isinstance(value, FunctionType) and not is_users_function(value):
        new = _with_rewritten_cells(value)
    return cell if new is value else CellType(new)


@functools.lru_cache(maxsize=1024)
def _rebinds(code: CodeType) -> bool:
    """Whether code sets a variable of an enclosing function, which has to be the same one then."""
    return any(
        instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars
        for instruction in dis.get_instructions(code)
    )


def _argument(value: Any) -> Any:
    match value:
        case FunctionType() if is_users_function(value) and not is_rewritten(value.__code__):
            return _rewritten_or_itself(value)
        case MethodType(__func__=FunctionType() as function) if is_users_function(function):
            rewritten = is_rewritten(function.__code__)
            return value if rewritten else MethodType(_rewritten_or_itself(function), value.__self__)
        case functools.partial():
            func = _argument(value.func)
            return value if func is value.func else functools.partial(func, *value.args, **value.keywords)
    return value


class EndlessRecursionError(ScriptError):
    """A function calls itself, and only a tensor says when that ends."""


def refuse_endless_recursion(function: Any) -> None:
    """An error where a function has called itself again and again, each time under another tensor condition."""
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        return
    if sum(recorder.journal is not None for recorder in recorders()) < _DEEPEST:
        return
    frame, count = sys._getframe(), 0
    while frame is not None:
        count += frame.f_code is function.__code__
        frame = frame.f_back  # type: ignore[assignment]
    if count >= _DEEPEST:
        raise EndlessRecursionError(
            f"{function.__name__} calls itself under a condition on a tensor, which never ends in a trace",
            location=Location.of_user(),
            hint="write a while loop over what the calls hand on, or let a Python number count the depth",
        )


CALL_LOOKUPS.append(callee)
