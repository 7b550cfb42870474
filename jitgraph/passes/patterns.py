"""The language of rewrite rules: reading a rule, matching its pattern, building its replacement."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from jitgraph.dtypes import DType, is_bool, is_float
from jitgraph.errors import GraphError
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.op import Op, is_name, named
from jitgraph.ir.types import TensorType
from jitgraph.once import cached_property
from jitgraph.ops.creation import full
from jitgraph.passes.rewriter import uniform_value
from jitgraph.records import dataclass

Vocabulary: TypeAlias = Mapping[str, Callable[..., Any]]
Producers: TypeAlias = Mapping[Value, Node]
Bindings: TypeAlias = dict[str, Any]  # Matched for values, plain values for attributes


@dataclass(frozen=True, slots=True)
class Matched:
    """A value that a name stands for; ``number`` is what it is everywhere, where that is known."""

    value: Value
    number: bool | int | float | None

    @property
    def type(self) -> TensorType:
        return self.value.tensor

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.value.shape


@dataclass(frozen=True, slots=True)
class Name:
    """Any value, or any attribute; the same wherever the name stands."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A tensor that is this number everywhere; its type is that of ``like``, or of the whole."""

    number: int | float | PatternFunction
    like: str = "out"


@dataclass(frozen=True, slots=True)
class PatternFunction:
    """A function of the vocabulary on what was matched."""

    name: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpTerm:
    """An op on operands, with attributes."""

    op: Op
    args: tuple[Term, ...]
    attrs: tuple[tuple[str, Name | PatternFunction], ...]


Term: TypeAlias = "Name | Number | OpTerm"


@dataclass(frozen=True)
class Rule:
    """``pattern => replacement if conditions``, of which each is read when the first node with its op asks for it."""

    name: str
    root: str  # the name of the op at the root of the pattern
    texts: tuple[str, str, str | None]
    vocabulary: Vocabulary

    @cached_property
    def pattern(self) -> OpTerm:
        """What a node has to look like."""
        term = _term(_tree(self.texts[0]), self.vocabulary)
        if not isinstance(term, OpTerm):
            raise GraphError(f"{self.name}: the pattern must be an op")
        return term

    @cached_property
    def replacement(self) -> Term:
        """What its output becomes."""
        return _term(_tree(self.texts[1]), self.vocabulary)

    @cached_property
    def conditions(self) -> tuple[PatternFunction, ...]:
        """What has to hold besides."""
        if self.texts[2] is None:
            return ()
        tree = _tree(self.texts[2])
        parts = tree.values if isinstance(tree, ast.BoolOp) else [tree]
        return tuple(_function(part, self.vocabulary) for part in parts)

    def match(self, node: Node, producers: Producers) -> Bindings | None:
        """What the rule's names stand for where ``node`` is an instance of it; None where the rule does not apply."""
        inputs = node.inputs
        backwards = inputs[::-1] if "commutative" in node.op.traits else ()
        if not (self._looks_alike(inputs, producers) or (backwards and self._looks_alike(backwards, producers))):
            return None
        for bindings in _matches(self.pattern, node.outputs[0], producers, {}):
            bindings["out"] = Matched(node.outputs[0], None)
            if all(self._call(condition, bindings) for condition in self.conditions):
                return bindings
        return None

    def _looks_alike(self, inputs: Sequence[Value], producers: Producers) -> bool:
        """Whether all that the pattern asks of the operands' own ops is so; it hardly ever is."""
        if len(inputs) != self._operands[0]:
            return False
        for position, op in self._operands[1]:
            node = producers.get(inputs[position])
            if node is None or (uniform_value(node) is None if op is None else node.op is not op):
                return False
        return True

    @cached_property
    def _operands(self) -> tuple[int, tuple[tuple[int, Op | None], ...]]:
        """How many there are, and of those that are no names the place and the op; None for a number."""
        args = self.pattern.args
        required = [
            (position, arg.op if isinstance(arg, OpTerm) else None)
            for position, arg in enumerate(args)
            if not isinstance(arg, Name)
        ]
        return len(args), tuple(required)

    def build(self, bindings: Bindings) -> Value:
        """The value that replaces the output of the node that ``match`` matched; its ops are emitted."""
        return self._build(self.replacement, bindings)

    def _call(self, function: PatternFunction, bindings: Bindings) -> Any:
        return self.vocabulary[function.name](*(bindings[name] for name in function.args))

    def _build(self, term: Term, bindings: Bindings) -> Value:
        if isinstance(term, Name):
            bound: Value = bindings[term.name].value
            return bound
        if isinstance(term, Number):
            number = self._call(term.number, bindings) if isinstance(term.number, PatternFunction) else term.number
            like: Matched = bindings[term.like]
            kind = float if is_float(like.dtype) else bool if is_bool(like.dtype) else int
            constant: Value = full(shape=like.shape, value=kind(number), dtype=like.dtype)
            return constant
        attrs = {}
        for key, attr in term.attrs:
            attrs[key] = bindings[attr.name] if isinstance(attr, Name) else self._call(attr, bindings)
        result: Value = term.op(*(self._build(arg, bindings) for arg in term.args), **attrs)
        return result


def _matches(term: Term, value: Value, producers: Producers, bindings: Bindings) -> Iterator[Bindings]:
    """Every way in which ``value`` is an instance of ``term``, given what the names stand for already."""
    node = producers.get(value)
    if isinstance(term, Name):
        known = bindings.get(term.name)
        if known is None:
            yield {**bindings, term.name: Matched(value, uniform_value(node))}
        elif known.value is value:
            yield bindings
    elif isinstance(term, Number):
        if _is_number(uniform_value(node), term.number):
            yield bindings
    elif node is not None and node.op is term.op and len(node.inputs) == len(term.args):
        for key, attr in term.attrs:
            assert isinstance(attr, Name)
            if bindings.setdefault(attr.name, node.attrs[key]) != node.attrs[key]:
                return
        orders = [node.inputs, node.inputs[::-1]] if "commutative" in term.op.traits else [node.inputs]
        for inputs in orders:
            if not all(map(_may_match, term.args, inputs, repeat(producers))):
                continue
            matches = [bindings]
            for arg, operand in zip(term.args, inputs, strict=True):
                matches = [match for known in matches for match in _matches(arg, operand, producers, dict(known))]
            yield from matches


def _may_match(term: Term, value: Value, producers: Producers) -> bool:
    """Whether ``value`` looks like an instance of ``term`` at first sight; hardly any does."""
    if isinstance(term, Name):
        return True
    node = producers.get(value)
    return node is not None and (node.op is term.op if isinstance(term, OpTerm) else uniform_value(node) is not None)


def _is_number(actual: bool | int | float | None, expected: int | float | PatternFunction) -> bool:
    if actual is None or isinstance(expected, PatternFunction) or actual != expected:
        return False
    return not isinstance(actual, float) or math.copysign(1, actual) == math.copysign(1, expected)


def parse_rules(text: str, vocabulary: Vocabulary) -> tuple[Rule, ...]:
    """One rule from each line (a line that begins with ``=>`` goes on from the one before); GraphError for others.

    The sides of a rule are read later: there are many rules, and a graph has few ops.
    """
    lines: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("=>") and lines:
            lines[-1] += f" {line}"
        elif line:
            lines.append(line)
    rules = tuple([_rule(line, vocabulary) for line in lines])
    names = [rule.name for rule in rules]
    if twice := {name for name in names if names.count(name) > 1}:
        raise GraphError(f"rules named twice: {', '.join(sorted(twice))}")
    return rules


def _rule(line: str, vocabulary: Vocabulary) -> Rule:
    name, _, sides = line.partition(":")
    pattern, arrow, rest = sides.partition("=>")
    replacement, _, conditions = rest.partition(" if ")
    root, bracket, _ = pattern.strip().partition("(")
    if not name.isidentifier() or not arrow or not bracket or not is_name(root) or not replacement.strip():
        raise GraphError(f"{line!r} is not a rule; expected 'name: op(...) => replacement'")
    return Rule(name, root, (pattern.strip(), replacement.strip(), conditions.strip() or None), vocabulary)


def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _term(tree: ast.expr, vocabulary: Vocabulary) -> Term:
    match tree:
        case ast.Name(id=name):
            return Name(name)
        case ast.Constant(value=int() | float() as number):
            return Number(number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return Number(-number)
        case ast.Call(func=ast.Name(id="like"), args=[ast.Name(id=like), number]):
            return Number(_function(number, vocabulary), like)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if (op := named(name)) is not None:
            attrs = [
                (keyword.arg or "", Name(keyword.value.id))
                if isinstance(keyword.value, ast.Name)
                else (keyword.arg or "", _function(keyword.value, vocabulary))
                for keyword in keywords
            ]
            return OpTerm(op, tuple(_term(arg, vocabulary) for arg in args), tuple(attrs))
    raise GraphError(f"{ast.unparse(tree)!r} cannot stand in a rule")


def _function(tree: ast.expr, vocabulary: Vocabulary) -> PatternFunction:
    match tree:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in vocabulary:
            return PatternFunction(name, tuple(arg.id for arg in args if isinstance(arg, ast.Name)))
    raise GraphError(f"{ast.unparse(tree)!r} is not a function of the rules' vocabulary")
