"""``x.view(dtype)``: the bits of a tensor as elements of every other dtype, as NumPy has them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jitgraph as jg

DTYPES = [np.uint8, np.int16, np.float16, ml_dtypes.bfloat16, np.float32, np.uint32, np.int64, np.float64]
DTYPES += [np.complex64, np.complex128]
BYTES = np.random.default_rng(0).integers(0, 256, size=(2, 3, 32), dtype=np.uint8)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("source", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_bits_as_every_dtype(source: Any, traced: bool) -> None:
    array = BYTES.view(source)
    x = jg.asarray(array)
    views = lambda x: [x.view(target) for target in DTYPES]
    for target, actual in zip(DTYPES, (jg.trace(views) if traced else views)(x), strict=True):
        wanted = array.view(target)
        assert actual.dtype == wanted.dtype and actual.shape == wanted.shape, target
        assert actual.numpy().tobytes() == wanted.tobytes(), target


def test_numbers_alone_strides_and_mistakes() -> None:
    assert jg.asarray(1.0).view(jg.int32).item() == 0x3F800000
    assert jg.ones((2, 0)).view(jg.uint8).shape == (2, 0)
    assert not jg.ones(2, requires_grad=True).view(jg.int32).requires_grad
    turned = jg.asarray(BYTES[0, :, :4].view(np.int32)).T
    assert turned.view(jg.float32).numpy().tobytes() == np.ascontiguousarray(turned.numpy()).view(np.float32).tobytes()
    for mistake, error in (
        (lambda: jg.ones(3).view(jg.float64), jg.ShapeError),
        (lambda: jg.asarray(1.0).view(jg.int16), jg.ShapeError),
        (lambda: jg.asarray([True]).view(jg.uint8), jg.DTypeError),
    ):
        with pytest.raises(error, match="view of"):
            mistake()
    for shape in ((2, -1), ((2, 2),)):
        with pytest.raises(jg.JitgraphError, match=r"x\.reshape\(shape\)"):
            jg.ones(4).view(*shape)
