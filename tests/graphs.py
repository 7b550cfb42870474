"""Graphs of ops and functions for tests, and the target that they are made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jitgraph import compiler, config
from jitgraph.dtypes import DType, float32
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Attr, Graph
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.target import Target
from jitgraph.ir.types import StackType, TensorType, TokenType, Type
from jitgraph.ops.effects import Stack, Token
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable

TARGET = Target.named("x86-64-v3")
needs_native = pytest.mark.skipif(
    not loader.cpu_levels() or config.INTERPRET.is_on(), reason="no native code here, or none is asked for"
)


def t(*shape: Any, dtype: DType = float32) -> TensorType:
    """The type of a tensor of this shape."""
    return TensorType(dtype, shape)


def type_of(value: Any) -> Type:
    """The type of an array, or of what evaluations make of tokens and stacks."""
    if isinstance(value, Stack):
        assert value.top is not None
        return StackType(TensorType(value.top.dtype, value.top.shape))
    return TokenType() if isinstance(value, Token) else TensorType(value.dtype, value.shape)


def graph_of(
    op: Op, sample: Sample, types: Sequence[Type] | None = None, attrs: Mapping[str, Attr] | None = None
) -> Graph:
    """The op alone, for the operands of a sample, or for these types and attributes."""
    operands = [type_of(x) for x in sample.inputs] if types is None else types
    wanted = sample.attrs if attrs is None else attrs
    return build(lambda *values: op(*values, regions=sample.regions, **wanted), operands, op.name)


def compiled(graph: Graph, **options: Any) -> Executable:
    """Native code of the graph for this machine."""
    made = compiler.compile(graph, **options)
    assert isinstance(made, Executable)
    return made
