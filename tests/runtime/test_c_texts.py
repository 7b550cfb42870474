"""What loader.c writes for an operand of a print is what Python writes: arrays of every dtype, numbers in formats."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from jitgraph.runtime import loader
from jitgraph.runtime.loader import PRINT_STYLES, PrintOperand, print_text
from tests.runtime.c_library import DTYPES

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")

Array = NDArray[Any]
Check = Callable[..., None]
_ROOM = 1 << 20


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory, written: Path) -> Check:
    """Compares the two texts of an array, for a style, a conversion and a format."""
    result = tmp_path_factory.mktemp("texts") / "text.so"
    source = Path(__file__).parent / "c" / "text.c"
    strict = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")
    sanitized = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    shared = ("-shared", "-fPIC", f"-I{written}", str(source), "-lpthread", "-o", str(result))
    subprocess.run(["gcc", *strict, *sanitized, *shared], check=True)
    text_of = ctypes.CDLL(str(result)).text_of
    text_of.restype = ctypes.c_size_t
    room = ctypes.create_string_buffer(_ROOM)

    def check(array: Array, dtype: str, style: str = "array", conversion: str = "", form: str = "") -> None:
        operand = PrintOperand("x", dtype, array.shape, style=style, conversion=conversion, form=form)
        held = np.array(array, order="C")
        shape = (ctypes.c_int64 * max(1, held.ndim))(*held.shape)
        numbers = DTYPES.index(dtype), PRINT_STYLES.index(style)
        texts = conversion.encode(), form.encode()
        size = text_of(*numbers, *texts, ctypes.c_void_p(held.ctypes.data), held.ndim, shape, room, _ROOM)  # type: ignore[call-arg]
        assert size < _ROOM
        assert room.raw[:size].decode() == print_text(array, operand), (operand, array)

    return check


def samples(dtype: str, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Numbers of one size, of all sizes, and unusual ones."""
    result = loader.dtype_named(dtype)
    if dtype == "bool":
        yield rng.integers(0, 2, size).astype(result)
        return
    if result.kind in "iu":
        yield (rng.integers(0, 2**63, size, dtype=np.uint64) >> rng.integers(0, 63, size, dtype=np.uint64)).astype(
            result
        )
        yield np.full(size, np.iinfo(result).min, result)
        return
    normal = rng.standard_normal(size)
    unusual = rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.25, 1e8, 1e-5]), size)
    with np.errstate(over="ignore", under="ignore"):
        for x in (normal, normal * 10.0 ** rng.integers(-40, 40, size), normal * 1e-6, np.round(normal, 2), unusual):
            yield x.astype(result)


SHAPES = ((), (1,), (3,), (40,), (1001,), (0,), (4, 7), (2, 0), (600, 2), (2, 3, 4), (8, 7, 3, 7))


@pytest.mark.parametrize("dtype", [name for name in DTYPES if not name.startswith("complex")])
@pytest.mark.parametrize("style", ["array", "tensor", "leaf"])
def test_arrays(check: Check, dtype: str, style: str) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for flat in samples(dtype, int(np.prod(shape)), rng):
            check(flat.reshape(shape), dtype, style)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_powers_of_two_and_their_neighbours(check: Check, dtype: str) -> None:
    """The numbers below a power of two stand closer than those above, which decides what the shortest text is."""
    result = loader.dtype_named(dtype)
    unsigned = np.dtype(f"u{result.itemsize}")
    fraction = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype]
    exponents = np.arange(2 ** (8 * result.itemsize - 1 - fraction), dtype=unsigned)[:: 1 if result.itemsize < 8 else 5]
    for bits in (exponents << fraction, (exponents[1:] << fraction) - 1, (exponents << fraction) + 1):
        for number in bits.astype(unsigned).view(result):
            check(np.array([number]), dtype)
            check(np.array(number), dtype, "number")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats(check: Check, dtype: str) -> None:
    """NaNs of both signs among them."""
    for bits in np.arange(0, 1 << 16, 37, dtype=np.uint16).view(loader.dtype_named(dtype)).reshape(-1, 1):
        check(bits, dtype)


def test_words_of_a_column_with_exponents_go_on_beyond_what_reads_back(check: Check) -> None:
    """NumPy gives each of them the digits of the longest, not zeros."""
    check(np.array([-2.7784994, -0.06024743, 1e-5], np.float32), "float32")
    check(np.array([296.5, 183.75, 0.00019547], np.float16), "float16")


FILLS = ("", "<", "=", "*>", "é^")
PARTS = (FILLS, ("", "+"), ("", "0"), ("", "12"), ("", ".0", ".1", ".4", ".20"), ("", *"feEgGF%d"))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_numbers_in_formats(check: Check, dtype: str) -> None:
    values = [*(0.0, 5.0, 100.0), *(() if dtype[0] == "u" or dtype == "bool" else (-1.0, -0.0))]
    if "float" in dtype:
        values += [0.1, -123.456, 9.9996, 12345.678, 1e-5, 3e38 if dtype != "float16" else 6e4, np.inf, -np.inf, np.nan]
    for number, parts in enumerate(itertools.product(*PARTS)):
        value, form = values[number % len(values)], "".join(parts)
        array = np.array(value).astype(loader.dtype_named(dtype))
        try:
            format(array.item(), form)
        except ValueError:
            continue  # Python refuses it when the print is recorded
        check(array, dtype, ("tensor", "number")[number % 2], form=form)


@pytest.mark.parametrize("form", ["30", "030", "<030", "^30", "*>31", "é^30", ".3", "12.4", "0^12.20"])
def test_padded_texts(check: Check, form: str) -> None:
    for array in (np.array(1.5), np.array([1.0, -2.0]), np.array(-3)):
        for style in ("array", "tensor") if array.ndim else ("array", "tensor", "number"):
            check(array, array.dtype.name, style, "r", form)
