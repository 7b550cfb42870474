"""The variables that a statement binds, as cells, their values as operands of one op, and those that may have none."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph import dtypes, tree
from jitgraph.eager.handle import Api, class_of_tensors
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.ir.types import TensorType
from jitgraph.location import Location, raised_at
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, element_numbers, lifting, scalars
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.region import UNBOUND, WriteTarget
from jitgraph.tracing.script.exits import RESULT
from jitgraph.tracing.symbolic.staged_integers import require
from jitgraph.tracing.symbolic.staged_number import StagedNumber

# ----------------------------------------------------------------------
# The variables that a statement binds, as cells, and the values that they hold as operands of one op.
#
# A value is a tree whose leaves are tensors, numbers, or Python objects that must stay the same. A Python number that
# becomes a tensor stays weak, as a number is in Python: an int64, a double or a bool that takes the dtype of the first
# tensor with which it meets.

Name: TypeAlias = "str | WriteTarget"  # what a staged statement may give another value
_INT64: Final = np.iinfo(np.int64)


class Site(NamedTuple):
    """A statement: the variables it binds; of these, which are only changed in place and which may be read later; the
    flags that stop it; the line of a ``try`` around it, or 0; for each side of an ``if`` the variables with the lines
    that bind them; the variables that may have no value after it where they are read; those that the test of a
    ``while`` binds."""

    names: tuple[str, ...]
    kept: tuple[str, ...]
    live: tuple[str, ...]
    stop: tuple[str, ...]
    attempt: int
    lines: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    targets: tuple[str, ...]
    tested: tuple[str, ...]

    def require_stageable(self, what: str) -> None:
        """ScriptError inside a ``try``, whose handlers cannot be part of a graph."""
        if self.attempt:
            raise ScriptError(
                f"{what} on a tensor inside the try statement at line {self.attempt} cannot be captured",
                hint="move it out of the try statement, or into a function of its own that is called outside",
            )


class Dropped:
    """The value of a variable that Python has bound, but the graph has no value for: its cell is empty, as reading it
    raises. It is no ``UNBOUND``, which a variable is that is sure to be bound again before it is read."""

    __slots__ = ("hint", "why")

    def __init__(self, why: str, hint: str) -> None:
        self.why = why
        self.hint = hint

    def error(self, name: str, location: Location | None) -> ScriptError:
        """The error where the variable is read."""
        return ScriptError(f"the variable {name!r} {self.why}", location=location, hint=self.hint)


def is_bound(value: Any) -> bool:
    """Whether what ``Cells`` say of a variable is a value."""
    return value is not UNBOUND and type(value) is not Dropped


class Body:
    """What a staged statement runs where that is no function rewritten from Python: a call, and the cells of variables
    by their names. Interpreters of other languages give it to the staging functions."""

    __slots__ = ("_call", "cells")

    def __init__(self, call: Callable[..., Any], cells: dict[str, CellType]) -> None:
        self._call = call
        self.cells = cells

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


class Cells:
    """The variables that a statement binds, by the cells that its inner functions share."""

    def __init__(self, cells: dict[str, CellType]) -> None:
        self._cells = cells

    @staticmethod
    def of(function: FunctionType | Body, names: Sequence[str]) -> Cells:
        """The cells of variables that ``function`` shares."""
        if isinstance(function, Body):
            cells = function.cells
        else:
            cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        return Cells({name: cells[name] for name in names})

    def __or__(self, other: Cells) -> Cells:
        return Cells({**self._cells, **other._cells})

    @property
    def cells(self) -> dict[str, CellType]:
        return self._cells

    def __bool__(self) -> bool:
        return bool(self._cells)

    def get(self, name: str) -> Any:
        """The variable's value, or UNBOUND, or why it was dropped."""
        cell = self._cells[name]
        try:
            return cell.cell_contents
        except ValueError:
            trace: Recorder | None = context.current().trace
            return UNBOUND if trace is None else trace.outermost.dropped_cells.get(id(cell), (cell, UNBOUND))[1]

    def set(self, name: str, value: Any) -> None:
        """Bind the variable, or with UNBOUND or ``Dropped`` unbind it."""
        cell = self._cells[name]
        if is_bound(value):
            cell.cell_contents = value
        else:
            with contextlib.suppress(ValueError):  # it is unbound already
                del cell.cell_contents
        trace: Recorder | None = context.current().trace
        if type(value) is Dropped:
            assert trace is not None
            trace.outermost.dropped_cells[id(cell)] = cell, value
        elif trace is not None:
            trace.outermost.dropped_cells.pop(id(cell), None)

    def read(self) -> dict[str, Any]:
        return {name: self.get(name) for name in self._cells}

    def write(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self.set(name, value)


class Kind(NamedTuple):
    """What a leaf is as an operand; ``weak`` where it stands for a Python number. ``api`` says whose methods a tensor
    has."""

    dtype: Any
    shape: tuple[Any, ...]
    weak: bool
    api: Api = ""

    def __str__(self) -> str:
        if not self.weak:
            return str(TensorType(self.dtype, self.shape))
        words = "bool" if dtypes.is_bool(self.dtype) else "float" if dtypes.is_float(self.dtype) else "int"
        return f"a Python {words}"


def is_staged(value: Any) -> bool:
    """Whether a value is known only when a graph runs, or eagerly is a tensor."""
    return type(value) is StagedNumber or isinstance(value, Tensor)


def kind_of(leaf: Any) -> Kind | None:
    """The kind of a leaf, or None where it is no tensor and no number."""
    if type(leaf) is StagedNumber:
        return Kind(leaf.dtype, (), True)
    if isinstance(leaf, Tensor):
        tensor_type = leaf._static.type
        return Kind(tensor_type.dtype, tensor_type.shape, leaf._weak, "" if leaf._weak else leaf._api)
    if isinstance(leaf, np.bool_ | np.number):
        return Kind(dtypes.canonical(leaf.dtype), (), False)
    if isinstance(leaf, bool):
        return Kind(dtypes.bool_, (), True)
    if scalars.is_named_size(leaf) or (isinstance(leaf, int) and _INT64.min <= leaf <= _INT64.max):
        return Kind(dtypes.int64, (), True)
    return Kind(dtypes.float64, (), True) if isinstance(leaf, float) else None


def joined(a: Kind, b: Kind) -> Kind | None:
    """The kind that both become, or None where they do not fit: only weak ones give way. A tensor that may be of
    either API is of PyTorch's."""
    if a == b:
        return a
    if a.api != b.api and not (a.weak or b.weak):
        return joined(a._replace(api="torch"), b._replace(api="torch"))
    if a.shape != b.shape:
        return None
    if element_numbers.are_total() and not (a.weak and b.weak):
        return _promoted(a, b)
    if not (a.weak or b.weak):
        return None
    weak, other = (a, b) if a.weak else (b, a)
    if dtypes.is_bool(weak.dtype) != dtypes.is_bool(other.dtype):
        return None
    if other.weak:
        return weak if dtypes.is_float(weak.dtype) else other
    if dtypes.is_float(weak.dtype) and not dtypes.is_float(other.dtype):
        return None
    return other


def _promoted(a: Kind, b: Kind) -> Kind:
    """The kind of a number of one element that is one or the other: as that of their sum, but for bools."""
    weak, other = (a, b) if a.weak else (b, a)
    if weak.weak:
        return other._replace(dtype=dtypes.promote_scalar(other.dtype, lifting.scalar_like(weak.dtype)))
    return a._replace(dtype=dtypes.promote(a.dtype, b.dtype), api="torch" if "torch" in (a.api, b.api) else a.api)


def operand(leaf: Any, kind: Kind, trace: Recorder) -> Any:
    """The value of a leaf in this recorder, cast to its kind's dtype."""
    if type(leaf) is StagedNumber:
        value = trace.own(leaf.value)
    elif scalars.is_named_size(leaf):
        value = trace.size_value(leaf)
    elif scalars.is_scalar(leaf):
        return trace.own(lifting.value_of(leaf, kind.dtype))
    else:
        value = trace.own(lifting.value_of(leaf))
    return trace.own(lifting.cast(value, kind.dtype))


def zero(kind: Kind) -> Any:
    """A value for a variable that has none yet and is not read before it gets one."""
    return handle(lifting.constant(0, kind.dtype, kind.shape), kind)


def handle(value: Any, kind: Kind) -> Any:
    """A traced value as the body has it: a number where its kind is weak, else a new tensor."""
    return StagedNumber(value) if kind.weak else class_of_tensors(kind.api)._of(value)


def same(a: Any, b: Any) -> bool:
    """Whether two Python values need no op to choose between them."""
    if a is b:
        return True
    if (
        is_staged(a)
        or type(a) is not type(b)
        or not isinstance(a, bool | int | float | complex | str | bytes | tuple | slice | range)
    ):
        return False
    return bool(a == b) and (not isinstance(a, float) or bool(np.signbit(a) == np.signbit(b)))


_UNBOUND_NAME: Final = re.compile(r"variable '(\w+)'|name '(\w+)'")


def unbound_name(error: NameError) -> str:
    """The variable that has no value, or an empty text where the error does not tell."""
    match = _UNBOUND_NAME.search(str(error))
    return next((part for part in match.groups() if part), "") if match else ""


def line_of(error: BaseException) -> Location | None:
    """The line at which an error was raised."""
    traceback = raised_at(error)
    return None if traceback is None else Location(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)


def describe(value: Any) -> str:
    """A value in an error message: its type where it is a tensor or number, else what it is."""
    if value is None:
        return "None"
    leaves, structure = tree.flatten(value)
    if structure.kind is None:
        kind = kind_of(value)
        return str(kind) if kind is not None else f"{value!r}" if isinstance(value, str) else type(value).__name__
    shown = ", ".join(describe(leaf) for leaf in leaves[:4]) + (", ..." if len(leaves) > 4 else "")
    return f"{structure.kind.__name__} of {len(leaves)} ({shown})"


def title(name: Name) -> str:
    """A variable or entry as the user knows it."""
    if isinstance(name, WriteTarget):
        return str(name)
    return "the returned value" if name == RESULT else f"the variable {name!r}" if name.isidentifier() else name


# ----------------------------------------------------------------------
# Variables that have a value only where tensors say so: that of a ``for`` which may have no steps, that of ``:=`` in
# an operand which may not be evaluated. Reading one is checked when the graph runs, as Python does.


class MaybeUnbound(NamedTuple):
    """A value, and whether the variable has it: a bool, or a 0-d tensor."""

    value: Any
    defined: Any

    @staticmethod
    def of(value: Any) -> MaybeUnbound:
        """``value`` as one that may be missing."""
        return value if isinstance(value, MaybeUnbound) else MaybeUnbound(value, True)


def sure(value: Any, name: str) -> Any:
    """The value of a variable that is read; where it has none, the graph raises UnboundLocalError."""
    if not isinstance(value, MaybeUnbound):
        return value
    if value.defined is True:
        return value.value
    message = f"cannot access local variable '{name}' where it is not associated with a value"
    require(lifting.value_of(value.defined), "UnboundLocalError", message)
    return value.value
