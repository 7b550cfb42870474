"""attention and its gradient as sums whose weights follow from products of rows, for targets that keep them whole.

The result has a weight for each query and key, ``exp(score - top)``, over their total; so have the gradients of
queries, keys and values, where the logarithm of that total is known, ``exp(score - spread)``. Keys and values get
theirs in one kernel, whose rows are keys; it and that of the queries go in an order of their own, the same each time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import float32, is_bool, uint32
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node, Value
from jitgraph.ops.distributions import random_bits

_PARALLEL: Final[LoopKind] = "parallel"


def lower_attention(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """The weighted sums of values, and the logarithms of the totals where they are wanted: one kernel."""
    _Attention(builder, group, node, node.inputs).result(*node.outputs)


def lower_attention_gradient(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """The cotangents of queries in one kernel, and those of keys and values in another."""
    ct, q, k, v, spread, across, *rest = node.inputs
    attention = _Attention(builder, group, node, (q, k, v, *rest))
    attention.of_queries(ct, spread, across, node.outputs[0])
    attention.of_keys(ct, spread, across, *node.outputs[1:])


class _Attention:
    """The kernels of one node; batch axes are parallel loops."""

    def __init__(self, builder: ScheduleBuilder, group: Group, node: Node, operands: tuple[Value, ...]) -> None:
        self.builder, self.group = builder, group
        dropout: Any = node.attrs["dropout"]
        scale: Any = node.attrs["scale"]
        self.dropout: float = dropout
        self.scale: float = scale
        self.q, self.k, self.v, *rest = operands
        self.key = rest.pop() if self.dropout else None
        self.mask = rest[0] if rest else None
        self.causal = bool(node.attrs["causal"])
        self.rows, self.keys = self.q.shape[-2], self.k.shape[-2]

    def result(self, out: Value, spread: Value) -> None:
        if is_empty(out.tensor) and is_empty(spread.tensor):
            return
        masked = self.causal or self.mask is not None

        def write(recorder: KernelRecorder, values: Evaluator, at: Index) -> None:
            def epilogue(m: DimLike, c: DimLike, acc: Var, softmax: tuple[Var, ...]) -> None:
                ops = ScalarOps(recorder, float32)
                total = softmax[1]
                if masked:
                    total = ops.select(ops.cmp("eq", total, ops.const(0)), ops.const(1), total)
                self._store(recorder, out, (*at, m, c), ops.div(acc, total))

            def row(m: DimLike, softmax: tuple[Var, ...]) -> None:
                if all(output is not spread for output, _ in self.group.outputs):
                    return
                top, total = softmax
                ops = ScalarOps(recorder, float32)
                logsumexp = ops.add(top, ops.call("log", total))
                if masked:
                    logsumexp = ops.select(ops.cmp("eq", total, ops.const(0)), ops.const(np.inf), logsumexp)
                self._store(recorder, spread, (*at, m), logsumexp)

            recorder.attend(
                (self.rows, self.keys),
                lambda m: (0, m + 1 if self.causal else self.keys),
                [self._factor(values, self.q, at)],
                [self._factor(values, self.k, at), self._factor(values, self.v, at)],
                lambda m, n, products: self._score(values, at, (m, n), products[0]),
                lambda m, n, products, weight: (self._dropped(values, (*at, m, n), weight),),
                [(1, epilogue)],
                row,
            )

        self._kernel("attention", write)

    def of_queries(self, ct: Value, spread: Value, across: Value, dq: Value) -> None:
        if is_empty(dq.tensor):
            return

        def write(recorder: KernelRecorder, values: Evaluator, at: Index) -> None:
            recorder.attend(
                (self.rows, self.keys),
                lambda m: (0, m + 1 if self.causal else self.keys),
                [self._factor(values, self.q, at), self._factor(values, ct, at)],
                [self._factor(values, self.k, at), self._factor(values, self.v, at)],
                lambda m, n, products: self._exponent(values, at, (m, n), products[0], spread),
                lambda m, n, products, weight: (self._of_score(values, (*at, m, n), products[1], weight, across),),
                [(0, lambda m, c, acc, _: self._store(recorder, dq, (*at, m, c), acc))],
            )

        self._kernel("attention_of_queries", write)

    def of_keys(self, ct: Value, spread: Value, across: Value, dk: Value, dv: Value) -> None:
        if is_empty(dk.tensor) and is_empty(dv.tensor):
            return

        def write(recorder: KernelRecorder, values: Evaluator, at: Index) -> None:
            recorder.attend(
                (self.keys, self.rows),
                lambda n: (n if self.causal else 0, self.rows),
                [self._factor(values, self.k, at), self._factor(values, self.v, at)],
                [self._factor(values, self.q, at), self._factor(values, ct, at)],
                lambda n, m, products: self._exponent(values, at, (m, n), products[0], spread),
                lambda n, m, products, weight: (
                    self._of_score(values, (*at, m, n), products[1], weight, across),
                    self._dropped(values, (*at, m, n), weight),
                ),
                [
                    (0, lambda n, c, acc, _: self._store(recorder, dk, (*at, n, c), acc)),
                    (1, lambda n, c, acc, _: self._store(recorder, dv, (*at, n, c), acc)),
                ],
            )

        self._kernel("attention_of_keys", write)

    def _kernel(self, name: str, write: Any) -> None:
        recorder = KernelRecorder()
        values = self.builder.evaluator(recorder, self.group)
        batch = self.q.shape[:-2]
        with recorder.loops([_PARALLEL] * len(batch), batch) as at:
            write(recorder, values, tuple(at))
        self.builder.launch(recorder, name)

    def _factor(self, values: Evaluator, value: Value, at: Index) -> tuple[int, Any]:
        columns = value.shape[-1]
        assert isinstance(columns, int)
        return columns, lambda row, column: values.at(value, (*at, row, column))

    def _score(self, values: Evaluator, at: Index, position: Index, product: Var) -> Var:
        """The scaled product, and what the mask makes of it; a causal one is the window's business."""
        ops = ScalarOps(values.recorder, float32)
        score = ops.mul(product, ops.const(self.scale))
        if self.mask is None:
            return score
        mask = values.at(self.mask, (*at, *position))
        if is_bool(mask.dtype):
            return ops.select(mask, score, ops.const(-np.inf))
        return ops.add(score, ScalarOps(values.recorder, mask.dtype).cast(mask, float32))

    def _exponent(self, values: Evaluator, at: Index, position: Index, product: Var, spread: Value) -> Var:
        """What the weight is the exponential of."""
        score = self._score(values, at, position, product)
        return ScalarOps(values.recorder, float32).sub(score, values.at(spread, (*at, position[0])))

    def _of_score(self, values: Evaluator, index: Index, of_weight: Var, weight: Var, across: Value) -> Var:
        """The cotangent of the product: that of the softmax, scaled."""
        ops = ScalarOps(values.recorder, float32)
        centred = ops.sub(self._dropped(values, index, of_weight), values.at(across, index[:-1]))
        return ops.mul(ops.mul(weight, centred), ops.const(self.scale))

    def _dropped(self, values: Evaluator, index: Index, x: Var) -> Var:
        """``x`` as dropout leaves it: by the words of the stream that ``ops.dropout`` takes for these scores."""
        if self.key is None:
            return x
        recorder, ops = values.recorder, ScalarOps(values.recorder, float32)
        shape = (*self.q.shape[:-1], self.keys)
        seed, counter = values.at(self.key, (0,)), values.at(self.key, (1,))
        assert random_bits.scalar is not None
        words = ScalarOps(recorder, uint32)
        word: Any = random_bits.scalar(
            ScalarOps(recorder, seed.dtype), seed, counter, recorder.index_value(offset(index, shape))
        )
        drawn = ops.mul(ops.cast(words.shr(word, words.const(8)), float32), ops.const(2.0**-24))
        scaled = ops.mul(x, ops.const(1.0 / (1.0 - self.dropout)))
        return ops.select(ops.cmp("ge", drawn, ops.const(self.dropout)), scaled, ops.const(0.0))

    def _store(self, recorder: KernelRecorder, value: Value, index: Index, x: Var) -> None:
        """Store a number wherever the value is wanted, rounded to its dtype."""
        for output, storage in self.group.outputs:
            if output is value:
                rounded = ScalarOps(recorder, float32).cast(x, value.dtype)
                recorder.store(storage, offset(index, value.shape), rounded)
