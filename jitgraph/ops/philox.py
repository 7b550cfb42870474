"""random_bits: the counter-based generator Philox4x32-10, the same stream on every target.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11. The operand is ``u64[2]``: the
seed, which is the generator's 64-bit key (low word first), and a counter offset. Element i (in row-major order) is
word ``i % 4`` of the block whose 128-bit counter is ``offset + i // 4`` (modulo 2**64, high half zero). A call for n
elements uses ``ceil(n / 4)`` counters; the caller adds them to the offset for the next one.

The ``scalar`` body is ``scalar(s, seed, offset, i)``: two u64 scalars and the element's linear index as i64, giving
u32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.numeric import Array

_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)  # what each round adds to the key
_ROUNDS: Final = 10
_LOW: Final = 0xFFFFFFFF


def _random_bits_type(key: Type, *, shape: Shape) -> TensorType:
    if key != TensorType(dtypes.uint64, (2,)):
        raise DTypeError(f"random_bits takes a u64[2] key (seed, offset), not {key}")
    return TensorType(dtypes.uint32, rules.require_shape("random_bits", shape))


def _random_bits(key: Array, *, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    seed = int(key[0])
    with np.errstate(over="ignore"):
        counter = key[1] + np.arange((count + 3) // 4, dtype=np.uint64)
    low, shift = np.uint64(_LOW), np.uint64(32)
    c0, c1 = counter & low, counter >> shift
    c2, c3 = np.zeros_like(c0), np.zeros_like(c0)
    for turn in range(_ROUNDS):
        k0, k1 = (np.uint64((word + turn * step) & _LOW) for word, step in zip((seed, seed >> 32), _WEYL, strict=True))
        first, second = c0 * np.uint64(_MULTIPLIERS[0]), c2 * np.uint64(_MULTIPLIERS[1])
        c0, c1, c2, c3 = (second >> shift) ^ c1 ^ k0, second & low, (first >> shift) ^ c3 ^ k1, first & low
    words = np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)
    return words.reshape(-1)[:count].reshape(shape)


def _random_bits_scalar(s: Any, seed: Any, offset: Any, index: Any) -> Any:
    u64 = dtypes.uint64
    low, shift = s.const(_LOW, u64), s.const(32, u64)
    position = s.cast(index, u64)
    counter = s.add(offset, s.shr(position, s.const(2, u64)))
    c0, c1 = s.and_(counter, low), s.shr(counter, shift)
    c2 = c3 = s.const(0, u64)
    k0, k1 = s.and_(seed, low), s.shr(seed, shift)
    for _ in range(_ROUNDS):
        first, second = s.mul(c0, s.const(_MULTIPLIERS[0], u64)), s.mul(c2, s.const(_MULTIPLIERS[1], u64))
        c0, c2 = s.xor(s.xor(s.shr(second, shift), c1), k0), s.xor(s.xor(s.shr(first, shift), c3), k1)
        c1, c3 = s.and_(second, low), s.and_(first, low)
        k0 = s.and_(s.add(k0, s.const(_WEYL[0], u64)), low)
        k1 = s.and_(s.add(k1, s.const(_WEYL[1], u64)), low)
    odd = s.cmp("ne", s.and_(position, s.const(1, u64)), s.const(0, u64))
    late = s.cmp("ne", s.and_(position, s.const(2, u64)), s.const(0, u64))
    return s.cast(s.select(late, s.select(odd, c3, c2), s.select(odd, c1, c0)), dtypes.uint32)


def _random_bits_samples(dtype: DType) -> Sequence[Sample]:
    if dtype != dtypes.uint64:
        return ()
    keys = [(0, 0), (2**64 - 1, 2**64 - 1), (0x123456789ABCDEF, 2**32 - 1), (1, 7)]
    shapes: list[tuple[int, ...]] = [(9,), (2, 3), (), (0, 3)]
    return [Sample((np.array(key, np.uint64),), {"shape": shape}) for key, shape in zip(keys, shapes, strict=True)]


random_bits: Op = Op(
    name="random_bits",
    kind="creation",
    infer=_random_bits_type,
    evaluate=_random_bits,
    scalar=_random_bits_scalar,
    fusion="pointwise",
    lowering="random_bits",
    traits=frozenset({"nondifferentiable"}),
    samples=_random_bits_samples,
    doc="Uniformly distributed u32 words of the Philox4x32-10 stream of key u64[2] = (seed, offset).",
)
