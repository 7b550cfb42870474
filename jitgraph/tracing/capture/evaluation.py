"""What an expression of the bytecode means in a frame that has stopped, found without running code of the user's.

Attributes are looked up statically; what a property or a call gave is taken from the frame that returned last.
"""

from __future__ import annotations

import inspect
import operator
import sys
import types
from types import CodeType, FrameType
from typing import Any, Final

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture.bytecode import Attr, Const, Globals, Import, Index, Name, Result
from jitgraph.tracing.capture.followed import PACKAGE
from jitgraph.tracing.source import MISSING, item_of
from jitgraph.tracing.state import is_container

UNKNOWN: Final = object()
GETTERS: Final = (operator.attrgetter, operator.itemgetter, operator.methodcaller)


class Evaluation:
    """Finds values; ``steady`` are objects reached by guarded steps, ``instances`` owners of ``__dict__``s, by id."""

    def __init__(self) -> None:
        self.steady: dict[int, Any] = {}
        self.instances: dict[int, Any] = {}
        self.returned: dict[CodeType, Any] = {}

    def evaluate(self, expression: Any, frame: FrameType) -> Any:
        """The value of an expression in the frame, found without running code; ``UNKNOWN`` where that cannot be."""
        match expression:
            case Const(value):
                return value
            case Globals():
                self.steady.setdefault(id(frame.f_globals), frame.f_globals)
                return frame.f_globals
            case Import(name, level, top):
                return _module(name, level, top, frame)
            case Name("global", name):
                if (found := module_local(frame, name)) is not UNKNOWN:
                    return found
                found = frame.f_globals.get(name, UNKNOWN)
                return frame.f_builtins.get(name, UNKNOWN) if found is UNKNOWN else found
            case Name(_, name):
                return frame.f_locals.get(name, UNKNOWN)
            case Attr(owner, name):
                value = self.evaluate(owner, frame)
                name = name if isinstance(name, str) else self.evaluate(name, frame)
                if value is UNKNOWN or not isinstance(name, str) or isinstance(value, Tensor):
                    return UNKNOWN
                kind, _, found = self.look_up(value, name)
                return found if kind in ("data", "value", "method") else UNKNOWN
            case Index(owner, key):
                value, key = self.evaluate(owner, frame), self.evaluate(key, frame)
                if value is UNKNOWN or key is UNKNOWN:
                    return UNKNOWN
                if not is_container(value):
                    function = getattr(type(value), "__getitem__", None)
                    return self.returned.get(getattr(function, "__code__", None), UNKNOWN)  # type: ignore[arg-type]
                try:
                    return item_of(value, key)
                except (LookupError, TypeError):
                    return UNKNOWN
            case Result(function, arguments):
                called = self.evaluate(function, frame)
                if isinstance(called, type) and issubclass(called, GETTERS):
                    given = [self.evaluate(argument, frame) for argument in arguments]
                    return called(*given) if given and all(type(x) in (str, int) for x in given) else UNKNOWN
                if type(called) in GETTERS and len(arguments) == 1:
                    return self.evaluate(expression_of(called, arguments[0]), frame)
                code = getattr(getattr(called, "__func__", called), "__code__", None)
                return self.returned.get(code, UNKNOWN) if code is not None else UNKNOWN
        return UNKNOWN

    def look_up(self, owner: Any, name: str) -> tuple[str, Any, Any]:
        """How ``owner.name`` is found: ("data" | "method" | "value" | "missing", where it stands, the value)."""
        if isinstance(owner, types.ModuleType):
            if name == "__dict__":
                self.instances[id(vars(owner))] = owner
                return "data", owner, vars(owner)
            return ("data", owner, vars(owner)[name]) if name in vars(owner) else ("missing", owner, UNKNOWN)
        if isinstance(owner, type):
            for kind in owner.__mro__:
                if name in vars(kind):
                    value = vars(kind)[name]
                    if isinstance(value, staticmethod | classmethod):
                        return "method", kind, value.__func__
                    return ("method" if isinstance(value, types.FunctionType) else "data"), kind, value
            return "missing", owner, UNKNOWN
        if name == "__dict__" and type(getattr(owner, "__dict__", None)) is dict:
            self.instances[id(owner.__dict__)] = owner
            return "data", owner, owner.__dict__
        on_type = MISSING
        for kind in type(owner).__mro__:
            if name in vars(kind):
                on_type, home = vars(kind)[name], kind
                break
        if isinstance(on_type, property):
            code = getattr(on_type.fget, "__code__", None)
            return "value", owner, self.returned.get(code, UNKNOWN) if code is not None else UNKNOWN
        if isinstance(on_type, types.MemberDescriptorType):
            value = getattr(owner, name, UNKNOWN)
            return ("missing" if value is UNKNOWN else "data"), owner, value
        own = getattr(owner, "__dict__", None)
        if isinstance(own, dict) and name in own:
            return "data", owner, own[name]
        if on_type is not MISSING:
            if isinstance(on_type, staticmethod | classmethod):
                return "method", home, on_type.__func__
            if isinstance(on_type, types.FunctionType):
                return "method", home, on_type
            if hasattr(type(on_type), "__get__"):
                return "value", owner, UNKNOWN
            return "data", owner, on_type
        fallback = getattr(type(owner), "__getattr__", None)
        if isinstance(fallback, types.FunctionType) and fallback.__code__.co_filename.startswith(PACKAGE):
            try:
                return "data", owner, getattr(owner, name)
            except AttributeError:
                return "missing", owner, UNKNOWN
        if isinstance(owner, dict) and fallback in (dict.__getitem__, dict.get):
            found = dict.get(owner, name, UNKNOWN)
            return ("missing" if found is UNKNOWN else "data"), owner, found
        if isinstance(fallback, types.FunctionType):
            return "value", owner, self.returned.get(fallback.__code__, UNKNOWN)
        return "missing", owner, UNKNOWN


def expression_of(getter: Any, owner: Any) -> Any:
    """What an ``attrgetter``, ``itemgetter`` or ``methodcaller`` gives for ``owner``, or None for several values."""
    names = getter.__reduce__()[1]
    if isinstance(getter, operator.methodcaller):
        return Result(Attr(owner, str(names[0])))
    if len(names) > 1:
        return None
    if isinstance(getter, operator.itemgetter):
        return Index(owner, Const(names[0]))
    for name in names[0].split("."):
        owner = Attr(owner, name)
    return owner


def is_module_frame(frame: FrameType) -> bool:
    """Whether a frame runs code of ``eval`` or ``exec``, whose names are looked up in a mapping first."""
    return not frame.f_code.co_flags & inspect.CO_NEWLOCALS


def module_local(frame: FrameType, name: str) -> Any:
    """A name that such a frame finds in a mapping of its own, or UNKNOWN."""
    if is_module_frame(frame) and frame.f_locals is not frame.f_globals:
        return frame.f_locals.get(name, UNKNOWN)
    return UNKNOWN


def _module(name: str, level: int, top: bool, frame: FrameType) -> Any:
    """The module that an import statement in the frame has found."""
    if level:
        package = frame.f_globals.get("__package__") or ""
        base = package.split(".")[: package.count(".") + 2 - level]
        name = ".".join([*base, name] if name else base)
    return sys.modules.get(name.partition(".")[0] if top else name, UNKNOWN)
