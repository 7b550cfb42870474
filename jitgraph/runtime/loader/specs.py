"""What a signature says of one tensor: of an input or output, and of the model's own state."""

from __future__ import annotations

import sys
from typing import TypeAlias

import numpy as np

from jitgraph.runtime.loader.dtypes import DTYPE_NAMES, Array, dtype_named
from jitgraph.runtime.loader.errors import LoadError
from jitgraph.runtime.loader.json_objects import Json, get_typed
from jitgraph.runtime.loader.records import FrozenRecord
from jitgraph.runtime.loader.sizes import INT64_MAX

Size: TypeAlias = "int | str"


class ValueSpec(FrozenRecord):
    """A named tensor: ``shape`` holds ints and expression texts. ``default`` is the value of a 0-d input left out."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    default: bool | int | float | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        plain: dict[str, Json] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        return plain if self.default is None else {**plain, "default": self.default}

    @staticmethod
    def from_json(source: Json, where: str) -> ValueSpec:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        name = get_typed(source, "name", str, where)
        shape = get_typed(source, "shape", list, where)
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, (int, str)):
                raise LoadError(f"{where}: {size!r:.60} is no size of {name!r}; expected an int or a text")
        default = get_typed(source, "default", (bool, int, float), where) if "default" in source else None
        dtype = get_typed(source, "dtype", str, where)
        if default is not None and dtype in DTYPE_NAMES and not _holds(dtype, default):
            raise LoadError(f"{where}: {name!r} has a default that {dtype} cannot hold")
        return ValueSpec(name, dtype, tuple(shape), default)


class StateSpec(ValueSpec):
    """A tensor of the model's own state, kept in the weights under ``key``."""

    key: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {**super().to_json(), "key": self.key}

    @staticmethod
    def from_json(source: Json, where: str) -> StateSpec:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        plain = ValueSpec.from_json(source, where)
        return StateSpec(plain.name, plain.dtype, plain.shape, key=get_typed(source, "key", str, where))


def _holds(dtype: str, value: bool | int | float) -> bool:
    """Whether an input of ``dtype`` can have this default: a float any number, an integer those in its range."""
    if dtype == "bool":
        return isinstance(value, bool)
    if dtype.startswith("complex"):
        return False
    if "float" in dtype:
        return abs(value) <= sys.float_info.max or not isinstance(value, int)
    bounds = np.iinfo(dtype)
    return not isinstance(value, float) and bool(bounds.min <= value <= min(bounds.max, INT64_MAX))


def default_of(spec: ValueSpec) -> Array:
    """The value of an input that has a default, as a 0-d array of its dtype, rounded where the dtype has to."""
    with np.errstate(over="ignore"):
        if spec.dtype != "bfloat16":
            return np.array(spec.default, dtype_named(spec.dtype))
        bits = int(np.array(spec.default, np.float32).view(np.uint32))
        return np.array((bits + 0x7FFF + (bits >> 16 & 1)) >> 16, np.uint16).view(dtype_named("bfloat16"))
