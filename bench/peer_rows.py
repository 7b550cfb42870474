"""Rows of ``bench.peers`` of transforms, convolutions of vectors, places in sorted vectors and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def add_rows(add: Callable[..., None], jg: Any, torch: Any, jn: Any) -> None:
    """Hand each row to ``add``, as ``bench.peers`` writes its own; libraries that are not installed are None."""

    def numbers(*shape: int, dtype: str) -> Any:
        def make(random: np.random.Generator) -> list[Any]:
            x = random.standard_normal(shape)
            return [(x + 1j * random.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)]

        return make

    def transform(name: str, form: str, *shape: int, dtype: str) -> None:
        def of(library: Any) -> Any:
            return None if library is None else lambda x: getattr(library.fft, form)(x)

        add(name, numbers(*shape, dtype=dtype), of(jg), of(torch), of(jn), numpy=of(np), exported=False)

    transform("fft of 64 x 64", "fft", 64, 64, dtype="complex64")
    transform("fft of 100 x 1000", "fft", 100, 1000, dtype="complex64")
    transform("fft of 65,537, a prime", "fft", 65_537, dtype="complex64")
    transform("fft of 1M", "fft", 1 << 20, dtype="complex64")
    transform("rfft of 1M", "rfft", 1 << 20, dtype="float32")
    transform("irfft of 16 x 513", "irfft", 16, 513, dtype="complex64")
    transform("rfft of 16 x 1024 in float64", "rfft", 16, 1024, dtype="float64")
    transform("fft2 of 4 x 512 x 512 in complex128", "fft2", 4, 512, 512, dtype="complex128")
    for n, m, dtype in ((1000, 100, "float64"), (10_000, 1000, "float64"), (100_000, 5000, "float32")):
        add(
            f"convolve {n:,} and {m:,} in {dtype}",
            lambda r, n=n, m=m, dtype=dtype: [r.standard_normal(size).astype(dtype) for size in (n, m)],
            lambda a, b: jg.convolve(a, b),
            None,
            None if jn is None else lambda a, b: jn.convolve(a, b),
            numpy=lambda a, b: np.convolve(a, b),
            exported=False,
        )

    def some(random: np.random.Generator) -> list[Any]:
        return [random.integers(0, 1000, 1_000_000), random.integers(0, 1000, 100)]

    def sorted_row(random: np.random.Generator) -> list[Any]:
        return [np.sort(random.standard_normal(256_000)), random.standard_normal(100_000)]

    more = {"exported": False}
    add("isin of 1M in 100", some, lambda x, y: jg.isin(x, y), lambda x, y: torch.isin(x, y),
        None if jn is None else lambda x, y: jn.isin(x, y), numpy=lambda x, y: np.isin(x, y), **more)  # fmt: skip
    add("searchsorted 100,000 in 256,000", sorted_row, lambda row, x: jg.searchsorted(row, x),
        lambda row, x: torch.searchsorted(row, x), None if jn is None else lambda row, x: jn.searchsorted(row, x),
        numpy=lambda row, x: np.searchsorted(row, x), **more)  # fmt: skip
    add("histogram of 1M in 50 bins", numbers(1_000_000, dtype="float32"), lambda x: jg.histogram(x, 50)[0],
        lambda x: torch.histc(x, 50), None if jn is None else lambda x: jn.histogram(x, 50)[0],
        numpy=lambda x: np.histogram(x, 50)[0], **more)  # fmt: skip
    add("quantile of 1000 x 1000", numbers(1000, 1000, dtype="float32"), lambda x: jg.quantile(x, 0.9, axis=1),
        lambda x: torch.quantile(x, 0.9, 1), None if jn is None else lambda x: jn.quantile(x, 0.9, 1),
        numpy=lambda x: np.quantile(x, 0.9, 1), **more)  # fmt: skip
    drawn = {"exported": False, "same": False}
    random = np.random.default_rng(0)
    for name, ours, theirs, numpys in (
        ("normal", jg.random.normal, "randn", lambda n: random.standard_normal(n, np.float32)),
        ("uniform", jg.random.uniform, "rand", lambda n: random.random(n, np.float32)),
    ):
        add(
            f"{name} numbers, 200,000",
            lambda r: [np.zeros(1, np.float32)],
            lambda x, ours=ours: ours((200_000,)),
            None if torch is None else lambda x, theirs=theirs: getattr(torch, theirs)(200_000),
            numpy=lambda x, numpys=numpys: numpys(200_000),
            **drawn,
        )
