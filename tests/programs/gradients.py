"""Random programs of float64 through every differentiable op of the table, for gradients of first and second order.

A program is a list of steps. A step takes one of the smooth samples that an op brings along, keeps its integers,
attributes and regions, and puts in the place of each float operand what came before: resized, moved by random numbers
so that no two elements are equal, and held by a sine to the range in which the op's samples lie. A complex operand gets
both parts in this way, and of a complex result both parts are used further. The result is the
weighted sum of all that the steps gave, so every op is on the way of every derivative. The same program runs on graphs
and on tensors.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.dtypes import complex128, float64, is_complex, is_float
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Constant, TensorType
from jitgraph.ops import OPS
from jitgraph.passes.autodiff import backward

SIZE = 5  # elements of the one input
MOST = 200  # elements of an operand: what is larger tells no more about a gradient
FAR = 4.0  # of operands: what grows like exp(x) is too steep for differences beyond, once a sine has it


def is_variable(operand: Any) -> bool:
    """Whether a step puts in its place what came before: an array of numbers by which there are derivatives."""
    return getattr(operand, "dtype", None) in (float64, complex128)


def _parts(array: Any) -> Any:
    """The array; of complex numbers their parts, along a last axis."""
    return np.stack([array.real, array.imag], axis=-1) if np.iscomplexobj(array) else np.asarray(array)


@cache
def smooth_samples(name: str) -> tuple[Sample, ...]:
    """Samples of an op through which a gradient passes, of few elements and at least one."""
    op = OPS[name]
    if op.samples is None or "nondifferentiable" in op.traits or op.effect != "none" or op.lowering == "host":
        return ()  # LAPACK refuses matrices by their values, and random programs make any

    def fits(sample: Sample) -> bool:
        operands = [x for x in sample.inputs if is_variable(x)]
        return sample.differentiable and bool(operands) and all(0 < x.size <= MOST for x in operands)

    return tuple(sample for sample in op.samples(float64) if fits(sample))


DIFFERENTIABLE = tuple(sorted(name for name in OPS if smooth_samples(name)))


@cache
def _range(name: str, operand: int) -> tuple[float, float]:
    """The middle and half the width of where the samples of an op have this operand."""
    results = [s.inputs[operand] for s in smooth_samples(name) if len(s.inputs) > operand]
    inputs = np.concatenate([np.ravel(_parts(x)) for x in results if is_variable(x)])
    low, high = max(float(inputs.min()), -FAR), min(float(inputs.max()), FAR)
    return (low + high) / 2, max((high - low) / 2, 0.05 * max(1.0, abs(low))) * 0.95


def constant(array: Any) -> Any:
    return ops.constant(value=Constant(np.asarray(array)))


def _full(like: Any, value: float) -> Any:
    return ops.full_like(value, like)


def _resized(x: Any, shape: tuple[int, ...]) -> Any:
    """The elements of x, repeated or cut off, in another shape."""
    count, size = math.prod(shape), math.prod(x.shape)
    flat = ops.reshape(x, shape=(size,))
    if count > size:
        flat = ops.concat(*[flat] * -(-count // size), axis=0)
    flat = ops.slice(flat, starts=(0,), stops=(count,), strides=(1,))
    return ops.reshape(flat, shape=shape)


@dataclass(frozen=True)
class Step:
    """One op on earlier values; ``sources`` and ``offsets`` are for its float operands, in order."""

    op: Op
    sample: Sample
    sources: tuple[int, ...]
    offsets: tuple[Any, ...]
    weights: tuple[Any, ...]

    def run(self, values: Sequence[Any]) -> list[Any]:
        operands, moved = [], iter(zip(self.sources, self.offsets, strict=True))
        for position, inputs in enumerate(self.sample.inputs):
            if not is_variable(inputs):
                operands.append(constant(inputs))
                continue
            source, offset = next(moved)
            middle, width = _range(self.op.name, position)
            x = ops.sin(ops.add(_resized(values[source], offset.shape), constant(offset)))
            x = ops.add(ops.mul(x, _full(x, width)), _full(x, middle))
            operands.append(ops.of_pairs(x) if np.iscomplexobj(inputs) else x)
        actual = self.op(*operands, regions=self.sample.regions, **self.sample.attrs)
        results = actual if isinstance(actual, tuple) else (actual,)
        results = tuple(ops.as_pairs(x) if is_complex_tensor(x) else x for x in results)
        return [x for x in results if is_tensor_of_floats(x)]


def is_complex_tensor(value: Any) -> bool:
    return isinstance(value.type, TensorType) and is_complex(value.type.dtype)


def is_tensor_of_floats(value: Any) -> bool:
    return isinstance(value.type, TensorType) and is_float(value.type.dtype)


class Program:
    """The program of a seed: two ops in turn, so that half as many seeds as there are ops have all; some at random."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        numbers = np.random.default_rng(seed)
        names = [DIFFERENTIABLE[(2 * seed + i) % len(DIFFERENTIABLE)] for i in range(2)]
        names += [rng.choice(DIFFERENTIABLE) for _ in range(rng.randint(1, 3))]
        rng.shuffle(names)
        self.steps: list[Step] = []
        builder = GraphBuilder()
        values: list[Any] = [builder.input(TensorType(float64, (SIZE,)))]
        with context.using(emitter=builder, constraints=builder.constraints):
            for name in names:
                sample = rng.choice(smooth_samples(name))
                operands = [_parts(x) for x in sample.inputs if is_variable(x)]
                sources = tuple(rng.randrange(max(0, len(values) - 3), len(values)) for _ in operands)
                offsets = tuple(numbers.uniform(-3, 3, x.shape) for x in operands)
                actual = Step(OPS[name], sample, sources, offsets, ()).run(values)
                weights = tuple(numbers.uniform(0.2, 1.0, x.shape) for x in actual)
                self.steps.append(Step(OPS[name], sample, sources, offsets, weights))
                values += [x for x in actual if math.prod(x.shape)]

    @property
    def names(self) -> list[str]:
        return [step.op.name for step in self.steps]

    def __call__(self, x: Any) -> Any:
        """The result, a 0-d value, for an input of the current emitter."""
        values, total = [x], constant(np.float64(0.0))
        for step in self.steps:
            actual = step.run(values)
            for value, weights in zip(actual, step.weights, strict=True):
                part = ops.mul(value, constant(weights))
                axes = tuple(range(len(part.shape)))
                total = ops.add(total, ops.reduce_sum(part, axes=axes) if axes else part)
            values += [value for value in actual if math.prod(value.shape)]
        return total

    def graph(self) -> Graph:
        """x -> result."""
        builder = GraphBuilder()
        x = builder.input(TensorType(float64, (SIZE,)))
        with context.using(emitter=builder, constraints=builder.constraints):
            result = self(x)
        return builder.graph([result])

    def derivatives(self) -> Graph:
        """x, direction -> result, gradient, and the derivative of the gradient along the direction."""
        builder = GraphBuilder()
        x, direction = (builder.input(TensorType(float64, (SIZE,))) for _ in range(2))
        (result,) = builder.inline(self.graph(), (x,))
        with context.using(emitter=builder, constraints=builder.constraints):
            one = constant(np.float64(1.0))
        (gradient,) = backward(builder, [result], [one], [x])
        with context.using(emitter=builder, constraints=builder.constraints):
            along = ops.reduce_sum(ops.mul(gradient, direction), axes=(0,))
        (second,) = backward(builder, [along], [one], [x])
        return builder.graph([result, gradient, second])
