"""Operators that draw numbers draw them from the generator that they are given."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import pytest

import jitgraph as jg
from jitgraph.torch.aten_ops import draws

X = jg.full((40,), 0.5)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "rand": ((40,),),
    "randn": ((40,),),
    "randint": (1000, (40,)),
    "randint_low": (5, 1000, (40,)),
    "randint_low_generator": (5, 1000, (40,)),
    "randperm": (40,),
    "bernoulli_Tensor": (X, X),
    "multinomial": (X, 20),
    "normal_float_Tensor": (1.0, X),
    "normal_float_float": (1.0, 2.0, (40,)),
    "normal_Tensor_Tensor": (X, X),
    "rrelu": (-X, 0.1, 0.9, True),
    "geometric": (X, 0.05),
    "random_to": (X, 1000),
    "random_from": (X, 5, 1000),
    "binomial": (X * 100, X),
    "poisson": (X * 100,),
}
"""Arguments of the operators; of the others a tensor."""

DRAWING = [
    name
    for name, function in vars(draws).items()
    if isinstance(function, FunctionType) and "generator" in inspect.signature(function).parameters
]


@pytest.mark.parametrize("name", DRAWING)
def test_numbers_come_from_the_generator(name: str) -> None:
    draw, args = getattr(draws, name), ARGUMENTS.get(name, (X,))
    generator = jg.Generator(5)
    first, second = (draw(*args, generator=generator).tolist() for _ in range(2))
    jg.random.seed(99)
    before = jg.random.get_state().tolist()
    again = draw(*args, generator=jg.Generator(5)).tolist()
    assert first == again != second
    assert jg.random.get_state().tolist() == before
