"""Which public functions, classes and methods of Tensor a run of the tests calls: ``pytest --public-calls``.

Python 3.12 and later tell when a code object starts to run, and for next to nothing where one call of each is asked for
(https://docs.python.org/3/library/sys.monitoring.html). What no test calls makes the run fail: a function that raises
NameError at each call would stay green. Calls in processes that the tests start are not seen.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType
from typing import Any

import jitgraph as jg
from tests.public_names import MODULES, find, names_of

EXEMPT: dict[str, str] = dict.fromkeys(
    ("autograd.Function", "data.Sampler", "errors.LocatedError", "optim.Optimizer", "optim.lr_scheduler.LRScheduler"),
    "a base class: objects are of its subclasses",
)
"""Names that no test of the suite's own processes calls, each with the reason."""

_watched: dict[CodeType, list[tuple[str, Any]]] = {}
_called: set[str] = set()


def public_callables() -> dict[str, Any]:
    """Every public function, class and method of Tensor by its name, such as ``nn.Linear`` or ``Tensor.sum``."""
    members = {
        f"{module}.{name}".lstrip("."): getattr(find(module) if module else jg, name)
        for module in ("", *MODULES)
        for name in names_of(module)
    }
    members |= {f"Tensor.{name}": value for name, value in vars(jg.Tensor).items() if not name.startswith("_")}
    return {name: value for name, value in members.items() if isinstance(value, type | property) or callable(value)}


def running(value: Any) -> FunctionType | None:
    """The function that runs where ``value`` is called, a class's ``__init__``; None where the package has none."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, type):
        value = value.__init__  # type: ignore[misc]
    value = inspect.unwrap(getattr(value, "__func__", value))
    own = isinstance(value, FunctionType) and value.__module__.startswith("jitgraph")
    return value if own else None


def watch() -> None:
    """Note from now on which of them are called. RuntimeError where Python cannot tell."""
    if sys.version_info < (3, 12):
        raise RuntimeError("--public-calls needs Python 3.12 or later, which tells when a code object starts")
    for name, value in public_callables().items():
        if (function := running(value)) is not None:
            _watched.setdefault(function.__code__, []).append((name, value))
    tool, events = sys.monitoring.COVERAGE_ID, sys.monitoring.events
    sys.monitoring.use_tool_id(tool, "public calls")
    sys.monitoring.register_callback(tool, events.PY_START, _note)
    for code in _watched:
        sys.monitoring.set_local_events(tool, code, events.PY_START)


def _note(code: CodeType, _: int) -> Any:
    """One code may be that of several names: of subclasses, whose object says which, or of one factory's functions."""
    names, frame = _watched[code], sys._getframe(1)
    alone = len(names) == 1 and not isinstance(names[0][1], type)
    _called.update(name for name, value in names if alone or _is_called(value, code, frame.f_locals))
    done = all(name in _called for name, _ in names)
    return sys.monitoring.DISABLE if done else None  # type: ignore[attr-defined, unused-ignore]


def _is_called(value: Any, code: CodeType, variables: Mapping[str, Any]) -> bool:
    if isinstance(value, type):
        return type(variables[code.co_varnames[0]]) is value
    function = running(value)
    assert function is not None
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return all(variables.get(name) is cell.cell_contents for name, cell in cells)


def called() -> list[str]:
    return sorted(_called)


def merge(names: Iterable[str]) -> None:
    """Count what another process of the run called."""
    _called.update(names)


def never_called() -> list[str]:
    """The names that no test called and that are not exempt."""
    watched = {name for names in _watched.values() for name, _ in names}
    return sorted(watched - _called - EXEMPT.keys())
