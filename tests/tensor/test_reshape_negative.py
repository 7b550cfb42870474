"""The one size of a reshape that may be left out is -1; NumPy takes any negative size for it."""

import pytest

import jitgraph as jg


@pytest.mark.parametrize("shape", [(-2,), (2, -3), (-4, 2)])
def test_other_negative_sizes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(jg.errors.ShapeError, match="negative size"):
        jg.arange(4).reshape(shape)
