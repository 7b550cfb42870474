"""Where functions of two operands take numbers, and where PyTorch has them take tensors alone."""

from __future__ import annotations

import pytest

import jitgraph.torch as torch

X = torch.tensor([1.0, 2.0])
BOTH = ["fmax", "fmin", "maximum", "minimum", "logaddexp", "hypot", "nextafter", "heaviside", "atan2", "logical_and"]
FIRST = ["eq", "ne", "lt", "le", "gt", "ge", "copysign", "fmod"]
EITHER = ["remainder", "pow", "xlogy"]


@pytest.mark.parametrize("name", [*BOTH, *FIRST, *EITHER])
def test_two_numbers_are_no_operands(name: str) -> None:
    with pytest.raises(TypeError, match="must be a tensor, not int"):
        getattr(torch, name)(1, 2)


@pytest.mark.parametrize("name", [*BOTH, *FIRST, *EITHER])
def test_a_number_stands_where_pytorch_takes_one(name: str) -> None:
    function = getattr(torch, name)
    assert function(X, X).shape == (2,)
    if name in BOTH:
        with pytest.raises(TypeError, match="argument 2 must be a tensor"):
            function(X, 1.0)
    else:
        assert function(X, 1.0).shape == (2,)
    if name in EITHER:
        assert function(1.0, X).shape == (2,)
    else:
        with pytest.raises(TypeError, match="argument 1 must be a tensor"):
            function(1.0, X)


def test_tolerances_are_not_negative() -> None:
    with pytest.raises(RuntimeError, match="rtol must be"):
        torch.isclose(X, X, rtol=-0.1)
