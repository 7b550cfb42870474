"""Arguments for a saved function: arrays by name, random ones for the rest, and values for named sizes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jitgraph.errors import DTypeError, OptionError, ShapeError
from jitgraph.runtime.loader import Constraint, Expression, Signature, ValueSpec, default_of, dtype_named
from jitgraph.saved.array_files import LooseArray, fitted

FIRST_SIZE: Final = 4
"""What a named size is where nobody says otherwise and the file's constraints allow it."""

_TRIED: Final = (FIRST_SIZE, 1, 2, 3, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
_MOST_TRIED: Final = 20_000
_RANGE: Final = re.compile(r"random(:(-?\d+):(-?\d+))?")


class Random(NamedTuple):
    """A random array: integers from ``low`` to below ``high``, where they are said."""

    low: int | None = None
    high: int | None = None

    @staticmethod
    def parsed(text: str) -> Random | None:
        """``random`` or ``random:LOW:HIGH``; None for any other text, OptionError for a range without a number."""
        match = _RANGE.fullmatch(text)
        if match is None:
            return None
        if not match[1]:
            return Random()
        low, high = int(match[2]), int(match[3])
        if low >= high:
            raise OptionError(f"no number lies in {text}", hint="random:0:100 is from 0 to 99")
        return Random(low, high)


_ANYTHING: Final = Random()


class Wording(NamedTuple):
    """How the caller of these functions says what a message asks for; ``{name}`` is that of an input."""

    inputs: str = "provided={{{name!r}: array}}, or fill=True for random ones"
    sizes: str = "sizes={'NAME': NUMBER}"
    cast: str = "cast=True"


IN_PYTHON: Final = Wording()


def sizes_for(signature: Signature, provided: Mapping[str, int], wording: Wording = IN_PYTHON) -> dict[str, int]:
    """A value for each named size of a signature, those of ``provided`` first, that its constraints allow.

    OptionError for a name that it does not have, and where no small sizes satisfy the constraints.
    """
    if unknown := [name for name in provided if name not in signature.dims]:
        known = f"one of {', '.join(signature.dims)}" if signature.dims else "all of its sizes are fixed"
        raise OptionError(f"{signature.name} has no size {unknown[0]!r}", hint=known)
    free = [name for name in signature.dims if name not in provided]
    constraints = [Constraint(text) for text in signature.constraints]
    shapes = [Expression(size) for spec in signature.parameters for size in spec.shape if isinstance(size, str)]
    for tries, values in enumerate(product(_TRIED, repeat=len(free))):
        sizes = {**provided, **dict(zip(free, values, strict=True))}
        if all(c.evaluate(sizes) for c in constraints) and all(s.evaluate(sizes) >= 0 for s in shapes):
            return sizes
        if tries >= _MOST_TRIED:
            break
    conditions = ", ".join(signature.constraints) or "every size is 0 or more"
    raise OptionError(f"no sizes are known that satisfy {conditions}", hint=f"name them: {wording.sizes}")


def shape_of(spec: ValueSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an input for these sizes."""
    return tuple(size if isinstance(size, int) else Expression(size).evaluate(sizes) for size in spec.shape)


def random_array(spec: ValueSpec, sizes: Mapping[str, int], seed: int, limits: Random = _ANYTHING) -> NDArray[Any]:
    """The array that ``seed`` and the name of the input give, whatever the other inputs are.

    Floats are normal; integers of 8 bits any, of more bits 0 or 1, which nearly every table has a row for.
    """
    generator = np.random.default_rng((seed, zlib.crc32(spec.name.encode())))
    dtype, shape = dtype_named(spec.dtype), shape_of(spec, sizes)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        any_low, any_high = (int(bounds.min), int(bounds.max) + 1) if dtype.itemsize == 1 else (0, 2)
        low = any_low if limits.low is None else limits.low
        high = any_high if limits.high is None else limits.high
        if low < bounds.min or high > int(bounds.max) + 1:
            raise OptionError(f"{spec.name} is {spec.dtype}, which does not hold the numbers from {low} to {high - 1}")
        return generator.integers(low, high, shape, dtype=dtype)
    if limits.low is not None and limits.high is not None:
        real = generator.uniform(limits.low, limits.high, shape)
        return np.asarray(real).astype(dtype)
    real = generator.standard_normal(shape)
    return np.asarray(real + 1j * generator.standard_normal(shape) if dtype.kind == "c" else real).astype(dtype)


def arguments_for(
    signature: Signature,
    provided: Mapping[str, NDArray[Any] | LooseArray | Random],
    *,
    sizes: Mapping[str, int] | None = None,
    fill: bool = False,
    seed: int = 0,
    cast: bool = False,
    wording: Wording = IN_PYTHON,
) -> list[NDArray[Any]]:
    """An array for each input: of ``provided`` by name, its default, or with ``fill`` a random one.

    Named sizes are those of the arrays given, then of ``sizes``. OptionError for a name that no input has, and for an
    input that is neither given nor has a default.
    """
    names = [spec.name for spec in signature.inputs]
    if unknown := [name for name in provided if name not in names]:
        raise OptionError(f"there is no input {unknown[0][:60]!r}", hint=f"the inputs are {_listed(signature.inputs)}")
    arrays: dict[str, NDArray[Any]] = {}
    bound = dict(sizes or {})
    for spec in signature.inputs:
        value = provided.get(spec.name)
        if value is None or isinstance(value, Random):
            continue
        arrays[spec.name] = array = fitted(spec.name, value, spec.dtype, spec.shape, cast=cast)
        _bind(spec, array, bound, wording)
    needed = [spec for spec in signature.inputs if spec.name not in arrays]
    missing = [spec for spec in needed if not fill and spec.name not in provided and spec.default is None]
    if missing:
        raise OptionError(
            f"nothing is given for {_listed(missing)}",
            hint=wording.inputs.format(name=missing[0].name),
        )
    chosen = [spec for spec in needed if spec.name in provided or spec.default is None]
    known = sizes_for(signature, bound, wording) if chosen or sizes else {}
    for spec in needed:
        if spec in chosen:
            limits = provided.get(spec.name)
            arrays[spec.name] = random_array(spec, known, seed, limits if isinstance(limits, Random) else _ANYTHING)
        else:
            arrays[spec.name] = default_of(spec)
    return [arrays[name] for name in names]


def _bind(spec: ValueSpec, array: NDArray[Any], bound: dict[str, int], wording: Wording) -> None:
    """Take the named sizes of an array in; DTypeError and ShapeError where it does not fit its input."""
    told = f"{spec} is given {array.dtype.name}[{', '.join(map(str, array.shape))}]"
    if array.dtype != dtype_named(spec.dtype):
        raise DTypeError(told, hint=f"{wording.cast} converts it")
    if array.ndim != len(spec.shape):
        raise ShapeError(told)
    for size, extent in zip(spec.shape, array.shape, strict=True):
        if isinstance(size, int):
            expected = size
        elif size.isidentifier():
            expected = bound.setdefault(size, extent)
        else:
            continue
        if expected != extent:
            also = "" if isinstance(size, int) else f", and {size} is {expected}"
            raise ShapeError(f"{told}{also}")


def _listed(specs: Sequence[ValueSpec]) -> str:
    return ", ".join(map(str, specs)) or "none"


def named_results(signature: Signature, result: Any) -> dict[str, NDArray[Any]]:
    """What a call gave, as arrays by the names of the outputs; texts, which are no outputs, are left out."""
    values: dict[int, Any] = {}

    def visit(template: Any, value: Any) -> None:
        if template is None:
            return
        if isinstance(template, int):
            values[template] = value
            return
        ((kind, content),) = template.items()
        if kind == "dict":
            for key, child in content.items():
                visit(child, value[key])
        elif kind != "value":
            for child, part in zip(content, value, strict=True):
                visit(child, part)

    visit(signature.structure, result)
    return {signature.outputs[number].name: array_of(value) for number, value in sorted(values.items())}


def array_of(value: Any) -> NDArray[Any]:
    """A tensor or an array as an array."""
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)
