"""What changes from call to call or from process to process, and a trace would freeze: refused, or not stored."""

from __future__ import annotations

import builtins
import os
import sys
import time
import types
import weakref
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final, NoReturn

import numpy as np

from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture.kinds import is_followed
from jitgraph.tracing.guards.storage import elements_of, is_container

# ----------------------------------------------------------------------
# What a recorded function asked that another process may answer otherwise, though its guards hold there.
#
# Nothing of this makes a recording wrong in its own process: hashes of strings and addresses last as long as that does,
# and so does what a library read when it was imported. A trace that rests on it is not kept on disk.

_SAME_EVERYWHERE: Final = frozenset(
    [
        *("builtins", "_operator", "operator", "math", "cmath", "itertools", "functools", "_functools", "collections"),
        *("_collections", "copy", "dataclasses", "contextlib", "enum", "abc", "_abc", "typing", "types", "numbers"),
        *("fractions", "string", "re", "_sre", "bisect", "_bisect", "heapq", "_heapq", "struct", "_struct", "numpy"),
        *("json", "textwrap", "statistics", "ml_dtypes", "jitgraph", "_collections_abc", "array"),
    ]
)
"""Modules whose functions give the same for the same arguments in every process of the same versions."""

_LOOKS_AT_NO_ADDRESS: Final = frozenset(
    ["copy", "dataclasses", "contextlib", "functools", "_functools", "operator", "_operator", "abc", "_abc", "typing"]
)
"""Those of them that take objects without showing or hashing them."""

_ASKING: Final = frozenset(
    [
        *("open", "input", "exec", "eval", "compile", "__import__", "breakpoint", "id", "hash", "get_cache_token"),
        *("array2string", "array_str", "array_repr", "geterr", "get_printoptions", "getbufsize", "show_config"),
        *("empty", "empty_like", "set_printoptions", "seterr", "get_include", "show_runtime"),
    ]
)
_ORDERED_MEMBERS: Final = (int, float, complex)  # whose hashes are the same in every process
_ORDER_FREE: Final = (len, set, frozenset, bool)
_DEEPEST: Final = 4


def of_call(function: Any, arguments: Any) -> str:
    """Why a call of code that is not followed is for this process alone; nothing where any would give the same."""
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if type(function) is np.ufunc:
        module = "numpy"
    if callable(function) and not isinstance(module, str):
        return "a function of no module"
    top = module.partition(".")[0] if module else "builtins"
    if top not in _SAME_EVERYWHERE:
        return f"what {module}.{name} answers, which may ask anything of its process"
    if name.rpartition(".")[2] in _ASKING:
        return f"what {name} answers"
    if any(function is known for known in _ORDER_FREE):
        return ""
    for value in arguments:
        if reason := of_order(value):
            return reason
        if top not in _LOOKS_AT_NO_ADDRESS and (reason := of_text(value, of_arrays=False)):
            return reason
    return ""


def of_owner(owner: Any, name: str) -> str:
    """Why a method of Python's own, or of a library, is for this process alone."""
    defining = next((base for base in type(owner).__mro__ if name in vars(base)), type(owner))
    module = defining.__module__
    if not isinstance(module, str) or module.partition(".")[0] not in _SAME_EVERYWHERE:
        return f"what {type(owner).__qualname__}.{name} answers, which may ask anything of its process"
    if name in ("__hash__", "__repr__", "__str__", "__format__", "__sizeof__", "__reduce__", "__reduce_ex__"):
        return f"what {type(owner).__qualname__}.{name} answers"
    return of_order(owner) if name in ("pop", "__iter__", "__repr__") else ""


def of_class(kind: type) -> str:
    """Why what stands in a class of a library is for this process alone."""
    if kind.__module__.partition(".")[0] in _SAME_EVERYWHERE:
        return ""
    return f"what stands in {kind.__module__}.{kind.__qualname__}, which a library has set up"


def of_order(value: Any, depth: int = _DEEPEST) -> str:
    """Why the order of what a value holds is for this process alone: sets go by hashes, and those of texts differ."""
    if isinstance(value, set | frozenset):
        if all(type(member) in (*_ORDERED_MEMBERS, bool) for member in value):
            return ""
        return "the order of a set whose members hash otherwise in each process"
    if depth and is_container(value) and len(elements := elements_of(value)) <= 4096:
        for element in list(elements):
            if reason := of_order(element, depth - 1):
                return reason
    return ""


def of_text(value: Any, *, of_arrays: bool = True, depth: int = _DEEPEST) -> str:
    """Why the text of a value is for this process alone: that of an object may tell its address."""
    kind = type(value)
    if kind.__module__ == "builtins" and not isinstance(value, type) and kind in _PLAIN:
        return ""
    if isinstance(value, Tensor | np.dtype | np.generic) or kind.__module__ in _NUMBERS:
        return ""
    if isinstance(value, np.ndarray):
        return "the text of an array, which is as NumPy is set to print" if of_arrays else ""
    if reason := of_order(value):
        return reason
    if kind in (list, tuple, dict, set, frozenset) and depth:
        parts = [*value, *value.values()] if kind is dict else list(value)
        return next(filter(None, (of_text(part, of_arrays=of_arrays, depth=depth - 1) for part in parts)), "")
    if not of_arrays:
        code = getattr(value, "__code__", None)
        if isinstance(code, types.CodeType) and is_followed(code.co_filename):
            return ""
        if isinstance(value, type | types.ModuleType) or kind is np.ufunc:
            return ""
        if isinstance(value, types.BuiltinFunctionType):
            return f"what {value.__name__} answers" if value.__name__ in _ASKING else ""
        if kind.__module__ == "builtins" or kind in (types.FunctionType, types.MethodType):
            return ""
    return f"the text, hash or order of a {kind.__qualname__}, which may go by its address"


_NUMBERS: Final = ("jitgraph.tracing.symbolic.number", "jitgraph.tracing.symbolic.staged_number")
_PLAIN: Final = frozenset({int, float, complex, bool, str, bytes, type(None), type(...), range, slice, bytearray})


# ----------------------------------------------------------------------
# Sources of values that change from call to call and that a trace would freeze: refused while tracing.

_CLOCKS: Final = tuple(
    getattr(time, name)
    for name in dir(time)
    if name.startswith(
        ("time", "perf_counter", "monotonic", "process_time", "thread_time", "clock", "localtime", "gmtime")
    )
    and callable(getattr(time, name))
)
_INPUT: Final = builtins.input
_ENVIRONMENT: Final = (os.getenv, os.environ)
_FILE_MODULES: Final = frozenset({"os", "posix", "nt", "io", "_io", "genericpath", "posixpath", "ntpath", "glob"})
_QUESTIONS: Final = frozenset(
    [
        *("getcwd", "getcwdb", "listdir", "scandir", "walk", "stat", "lstat", "access", "readlink", "open", "fdopen"),
        *("exists", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime", "getatime", "getctime", "glob"),
        *("abspath", "realpath", "samefile", "getpid", "getppid", "getlogin", "cpu_count", "getloadavg", "iglob"),
    ]
)
_NUMPY_FILES: Final = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap"})
_PATHS: Final = frozenset(
    [
        *("exists", "is_file", "is_dir", "is_symlink", "stat", "lstat", "iterdir", "glob", "rglob", "open", "cwd"),
        *("read_text", "read_bytes", "resolve", "absolute", "samefile", "home", "owner"),
    ]
)
_LOGGING: Final = ("debug", "info", "warning", "error", "exception", "critical", "log", "getLogger")
_LEVELS: Final = {
    "debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "exception": 40, "critical": 50, "fatal": 50,
}  # fmt: skip
_THREADS: Final = ("threading", "_thread", "concurrent.futures", "multiprocessing")
_STARTS: Final = frozenset(
    ["start", "start_new_thread", "submit", "map", "apply", "apply_async", "map_async", "imap", "starmap"]
)
_PROCESSES: Final = frozenset(
    [
        *("fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "fork_exec", "Popen", "run", "call"),
        *("check_call", "check_output", "getoutput", "getstatusoutput", "spawnl", "spawnle", "spawnlp", "spawnlpe"),
        *("spawnv", "spawnve", "spawnvp", "spawnvpe"),
    ]
)
_HAVE_PROCESSES: Final = frozenset({"os", "posix", "nt", "pty", "subprocess", "_posixsubprocess"})
FORKS: Final = frozenset({"fork", "forkpty", "fork_exec", "_fork_exec"})
"""The names under which code calls what forks."""
_NOW: Final = frozenset({"now", "today", "utcnow"})


def refuse(value: Any, text: str, location: Location | None) -> None:
    """TraceError where ``value``, read as ``text`` in a function being traced, gives something new at each call."""
    if issubclass(type(value), type | int | float | str | tuple | list | dict | None):
        return
    owner = value.__self__ if hasattr(type(value), "__self__") else None  # no __getattr__ of the user's is asked
    generators = (*_loaded("random", "Random"), *_loaded("numpy.random", "RandomState", "Generator"))
    drawn = issubclass(type(owner), generators) or issubclass(type(value), generators)
    if drawn or value is sys.modules.get("numpy.random"):
        _raise(text, "a random number drawn while tracing", "jg.random, whose stream goes on at each call", location)
    if any(value is draw for draw in (os.urandom, *_loaded("uuid", "uuid1", "uuid4"))):
        _raise(text, "a random number drawn while tracing", "draw it outside and pass it as an argument", location)
    if any(value is clock for clock in _CLOCKS):
        _raise(text, "a time read while tracing", "read the clock outside and pass it as an argument", location)
    if getattr(owner, "__module__", None) == "datetime" and getattr(value, "__name__", "") in _NOW:
        _raise(text, "a time read while tracing", "read the clock outside and pass it as an argument", location)
    if any(value is source for source in _ENVIRONMENT):
        _raise(
            text, "an environment variable read while tracing", "read it outside and pass it as an argument", location
        )
    if issubclass(type(value), ContextVar):
        _raise(text, "a context variable read while tracing", "read it outside and pass it as an argument", location)
    adapters = _loaded("logging", "LoggerAdapter")
    if issubclass(type(value), adapters) or any(value is log for log in _loaded("logging", *_LOGGING)):
        refuse_logging(text, location)
    if value is _INPUT:
        _raise(text, "input read while tracing", "read it outside and pass it as an argument", location)


def is_logger(value: Any) -> bool:
    """Whether ``value`` is a logger, which may be read, and asked what it would log."""
    return issubclass(type(value), _loaded("logging", "Logger"))


def level_logged(function: Any, arguments: Sequence[Any]) -> int | None:
    """The level at which a method of loggers logs or asks whether it would; None for another function or level."""
    if function.__module__ != "logging" or not arguments or not is_logger(arguments[0]):
        return None
    level = _LEVELS.get(function.__name__)
    if level is None and function.__name__ in ("log", "isEnabledFor") and len(arguments) > 1:
        level = arguments[1]
    return level if type(level) is int else None


def logs(logger: Any, level: int) -> bool:
    """Whether a logger logs at this level now."""
    return bool(_loaded("logging", "Logger")[0].isEnabledFor(logger, level))


def refuse_logging(text: str, location: Location | None) -> NoReturn:
    """TraceError for what logs."""
    raise TraceError(
        f"{text} in a traced function: what is logged while tracing would not be logged at later calls",
        location=location,
        hint="log outside of it, or use jg.debug.print, which prints at each call",
    )


def _loaded(module: str, *names: str) -> tuple[Any, ...]:
    """What ``module`` has under ``names``; nothing where it is not imported, as none of it can be reached then."""
    loaded = sys.modules.get(module)
    return tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))  # None, too, has none of them


def outside_state(value: Any) -> str | None:
    """What a function, read while tracing, asks of the world outside that no guard sees; None where that is nothing."""
    if not callable(value) or issubclass(type(value), type) or hasattr(type(value), "__getattr__"):
        return None
    name, module = getattr(value, "__name__", ""), getattr(value, "__module__", None) or ""
    if value is builtins.open:
        return "a file"
    if module in _FILE_MODULES and name in _QUESTIONS:
        return "the state of the file system or the process"
    if module.partition(".")[0] == "numpy" and name in _NUMPY_FILES:
        return "a file"
    if module.partition(".")[0] == "pathlib" and name in _PATHS:
        return "the state of the file system"
    return None


def refuse_iterator(value: Any, text: str, location: Location | None) -> None:
    """TraceError where ``value`` is an iterator whose position no guard can see: one not written in Python."""
    if type(value) in weakref.ProxyTypes:
        raise TraceError(
            f"{text} in a traced function is a weak proxy, and no guard sees what stands behind it",
            location=location,
            hint="use the object itself, or a weakref.ref",
        )
    if is_unseen_iterator(value):
        hint = "take the element outside and pass it as an argument, or read a list"
        _raise(text, "what an iterator gives while tracing", hint, location)


def runs_elsewhere(function: Any) -> str | None:
    """The "thread" or "process" that a function or class of Python's own has run code; None where there is none."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    if module.startswith(_THREADS) and name in _STARTS:
        return "thread"
    return "process" if module in _HAVE_PROCESSES and name in _PROCESSES else None


def forks(function: Any) -> bool:
    """Whether a callable is one in C that forks, on which Python runs the hooks of ``os.register_at_fork``."""
    return (
        issubclass(type(function), types.BuiltinFunctionType)
        and function.__name__ in FORKS
        and function.__module__ in _HAVE_PROCESSES
    )


def is_decimal(value: Any) -> bool:
    """Whether ``value`` is a decimal number, which is computed with as a context says that belongs to the thread."""
    return issubclass(type(value), _loaded("decimal", "Decimal"))


def is_unseen_iterator(value: Any) -> bool:
    """Whether ``value`` is an iterator that is not written in Python."""
    return issubclass(type(value), Iterator) and not isinstance(type(value).__next__, types.FunctionType)


def _raise(text: str, what: str, hint: str, location: Location | None) -> NoReturn:
    raise TraceError(
        f"{text} in a traced function: {what} would be the same at every later call", location=location, hint=hint
    )
