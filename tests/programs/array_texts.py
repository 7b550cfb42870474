"""Random programs over the array functions, as Python texts that NumPy and jitgraph run alike.

A text is built by running it in NumPy: each step is kept where NumPy takes it and the numbers stay of use. Results of
IEEE arithmetic, comparisons, selections and movements are exact; those that round in an order of their own (sums,
products, transcendental functions) carry a bound of their difference and are only moved afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Array = Any
FLOATS: Final = ("float32", "float64")
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES: Final = ("bool", "float16", *FLOATS, "complex64", "complex128", *INTEGERS)
LARGEST: Final = 200  # elements of a value
SPECIAL: Final = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5)


@dataclass
class Value:
    """A variable: its name, what NumPy has, and by how much others may differ (None: not at all)."""

    name: str
    array: Array
    bound: Any = None


@dataclass
class Text:
    """A program: its arguments, its lines, and the names and bounds of its results."""

    seed: int
    arguments: dict[str, Array]
    lines: list[str] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)

    def source(self, lines: list[str] | None = None, results: list[Value] | None = None) -> str:
        """The function ``program`` of the arguments; ``m`` is NumPy or jitgraph."""
        body = "".join(f"    {line}\n" for line in (self.lines if lines is None else lines))
        names = ", ".join(value.name for value in (self.results if results is None else results))
        return f"def program({', '.join(self.arguments)}):\n{body}    return ({names},)\n"


class Builder:
    """Draws one program of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.values: list[Value] = []
        self.text = Text(seed, {})

    def integer(self, low: int, high: int) -> int:
        """Of [low, high)."""
        return int(self.rng.integers(low, high))

    def choice(self, options: Any) -> Any:
        return options[self.integer(0, len(options))]

    def array(self, dtype: str, shape: tuple[int, ...]) -> Array:
        """Numbers of a dtype, special ones among them."""
        kind = np.dtype(dtype).kind
        if kind == "b":
            return self.rng.random(shape) < 0.5
        if kind in "iu":
            limits = np.iinfo(dtype)
            small = self.rng.integers(0 if kind == "u" else -9, 10, shape)
            edge = self.rng.choice(np.array([limits.min, limits.max], dtype), shape)
            return np.where(self.rng.random(shape) < 0.1, edge, small.astype(dtype))
        if kind == "c":
            part = "float32" if dtype == "complex64" else "float64"
            return (self.rng.normal(size=shape) + 1j * self.rng.normal(size=shape)).astype(dtype) + np.zeros(
                shape, part
            )
        plain = np.round(self.rng.normal(size=shape) * 4, self.integer(0, 3))
        special = self.rng.choice(np.array(SPECIAL), shape)
        return np.where(self.rng.random(shape) < self.choice((0.0, 0.0, 0.2)), special, plain).astype(dtype)

    def build(self) -> Text:
        """A program of 3 to 15 steps."""
        shape = tuple(self.integer(0 if self.integer(0, 8) == 0 else 1, 5) for _ in range(self.integer(0, 4)))
        for name in "abc"[: self.integer(1, 4)]:
            dtype = self.choice(DTYPES)
            own = shape if self.integer(0, 3) else tuple(1 if self.integer(0, 3) == 0 else n for n in shape)
            array = self.array(dtype, own)
            self.text.arguments[name] = array
            self.values.append(Value(name, array))
        steps, tries = self.integer(3, 16), 0
        while len(self.text.lines) < steps and tries < 200:
            tries += 1
            self.step()
        used = [value for value in self.values if value.name.startswith("v")]
        self.text.results = used[-min(len(used), 4) :]
        return self.text

    def step(self) -> None:
        """One more line, where NumPy takes it and its result is of use."""
        from tests.programs.array_steps import STEPS

        result = self.choice(STEPS)(self)
        if result is None:
            return
        expression, bound = result
        try:
            with np.errstate(all="ignore"):
                actual = eval(expression, {"m": np}, {value.name: value.array for value in self.values})
        except (ValueError, TypeError, IndexError, OverflowError):
            return
        array = np.asarray(actual)
        if array.size > LARGEST or array.ndim > 5 or str(array.dtype) not in DTYPES:
            return
        limit = bound(array) if callable(bound) else bound
        if limit is not None and not np.isfinite(np.asarray(limit)).all():
            return
        name = f"v{len(self.text.lines)}"
        self.text.lines.append(f"{name} = {expression}")
        self.values.append(Value(name, array, limit))

    def pick(self, test: Callable[[Value], bool] = lambda value: True, *, exact: bool = True) -> Value | None:
        """A variable that fits, later ones rather; None for none."""
        fits = [value for value in self.values if test(value) and (value.bound is None or not exact)]
        if not fits:
            return None
        return fits[max(self.integer(0, len(fits)), self.integer(0, len(fits)))]
