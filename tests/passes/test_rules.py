"""Every rewrite rule fires on its golden case; exact ones keep every bit, on edge values, for every dtype that fits."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from jitgraph.dtypes import BY_SHORT_NAME, DTYPES, SHORT_NAMES, is_bool, is_float
from jitgraph.errors import GraphError, JitgraphError
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.verifier import verify
from jitgraph.ops.sampling import edges
from jitgraph.passes.patterns import Rule, parse_rules
from jitgraph.passes.rules import EXACT, FASTMATH, VOCABULARY
from jitgraph.passes.simplify import apply_rules
from tests.golden_files import Case, cases
from tests.programs.arrays import assert_same

CASES: dict[str, Case] = {case.name: case for case in cases("rules_*.jgir")}


@pytest.mark.parametrize("rule", EXACT + FASTMATH, ids=lambda rule: rule.name)
def test_fires(rule: Rule) -> None:
    fired: Counter[str] = Counter()
    apply_rules(CASES[rule.name].graph(), (rule,), fired)
    assert fired[rule.name] >= 1


def edge_arguments(graph: Graph) -> list[np.ndarray[Any, Any]]:
    """Every edge value of each input with every one of the others, where inputs are f32[n] and the like."""
    values = [edges(value.dtype) for value in graph.inputs]
    if any(str(value.shape) != "(n,)" for value in graph.inputs):
        sizes = [tuple(dim if isinstance(dim, int) else 5 for dim in value.shape) for value in graph.inputs]
        return [np.resize(some, size) for some, size in zip(values, sizes, strict=True)]
    if len(values) == 3:
        values = [some[:12] for some in values]
    columns = zip(*itertools.product(*values), strict=True)
    return [np.array(column, some.dtype) for column, some in zip(columns, values, strict=True)]


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
def test_keeps_every_bit(rule: Rule) -> None:
    case = CASES[rule.name]
    written = next(word for word in ("f32", "i32", "bool") if word in case.text)
    tried = 0
    for dtype in DTYPES:
        text = case.text.replace(written, SHORT_NAMES[dtype])
        if is_float(dtype) and not is_float(BY_SHORT_NAME[written]):
            text = text.replace("value=0}", "value=0.0}").replace("value=1}", "value=1.0}")
        if is_bool(dtype):
            text = text.replace("value=0}", "value=false}").replace("value=1}", "value=true}")
        try:
            graph = case.graph(text)
            verify(graph)
        except JitgraphError:  # the ops of this rule do not take this dtype
            continue
        tried += 1
        arguments = edge_arguments(graph)
        after = apply_rules(graph, (rule,))
        verify(after)
        for actual, wanted in zip(interpret(after, arguments), interpret(graph, arguments), strict=True):
            if is_float(actual.dtype):
                actual, wanted = actual.astype(np.float64), wanted.astype(np.float64)
                numbers = ~np.isnan(wanted)
                np.testing.assert_array_equal(np.signbit(actual)[numbers], np.signbit(wanted)[numbers])
            np.testing.assert_array_equal(actual, wanted)
    assert tried


@pytest.mark.parametrize("rule", FASTMATH, ids=lambda rule: rule.name)
def test_holds_for_real_numbers(rule: Rule) -> None:
    graph = CASES[rule.name].graph()
    x = np.random.default_rng(0).uniform(0.5, 3, 100).astype(np.float32)
    arguments = [x] * len(graph.inputs)
    (actual,), (wanted,) = interpret(apply_rules(graph, (rule,)), arguments), interpret(graph, arguments)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5)


@pytest.mark.parametrize("start", DTYPES, ids=str)
def test_chains_of_casts_keep_every_bit(start: Any) -> None:
    for middle, end in itertools.product(DTYPES, DTYPES):
        first, second, third = SHORT_NAMES[start], SHORT_NAMES[middle], SHORT_NAMES[end]
        graph = parse(f"""graph @chain(%x: {first}[n]) -> {third}[n] {{
          %0: {second}[n] = cast(%x) {{dtype={second}}}
          %1: {third}[n] = cast(%0) {{dtype={third}}}
          return %1
        }}""")
        arguments = edge_arguments(graph)
        assert_same(graph, interpret(apply_rules(graph, EXACT), arguments), interpret(graph, arguments))


def test_no_rule_without_a_case() -> None:
    assert CASES.keys() == {rule.name for rule in EXACT + FASTMATH}


def test_a_wrong_rule_is_caught() -> None:
    """The comparison sees a zero's sign: -0.0 + 0.0 is 0.0."""
    graph = CASES["add_zero"].graph()
    arguments = edge_arguments(graph)
    with pytest.raises(AssertionError):
        assert_same(graph, interpret(apply_rules(graph, FASTMATH), arguments), interpret(graph, arguments))


@pytest.mark.parametrize("line", ["add(x, 0) => x", "one: x => x", "two: nothing(x) => x", "three: neg(x)"])
def test_what_is_no_rule(line: str) -> None:
    with pytest.raises(GraphError, match="is not a rule; expected 'name: op"):
        parse_rules(line, VOCABULARY)


def test_a_side_that_is_no_term() -> None:
    (rule,) = parse_rules("one: neg(x) => neg(x + 1) if is_odd(x)", VOCABULARY)
    with pytest.raises(GraphError, match="cannot stand in a rule"):
        _ = rule.replacement
    with pytest.raises(GraphError, match="not a function of the rules' vocabulary"):
        _ = rule.conditions
