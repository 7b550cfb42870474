"""``match`` of values that may be tensors: each pattern is a test, and what it binds.

The statement becomes a chain of ``if`` (``as_tests``), whose tests are calls of ``matched``. Patterns mean what they
mean in Python; comparisons of tensors give tensors, on which the ``if`` is staged. What a pattern binds is bound where
its body runs, not by a pattern that matched behind a guard that did not hold.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from jitgraph.errors import ScriptError
from jitgraph.location import Location
from jitgraph.tracing.script.variables import is_staged
from jitgraph.tracing.symbolic.staged_number import StagedNumber

_TEMPORARY: Final = ("jg_subject_", "jg_case_")
_SELF: Final = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Classes of which ``case int(x)`` binds the value itself."""


class Match:
    """What a pattern found: whether it fits, as a bool or a 0-d tensor, and the values of its names."""

    __slots__ = ("bound", "test")

    def __init__(self, test: Any, bound: dict[str, Any]) -> None:
        self.test = test
        self.bound = bound


def matched(
    subject: Any, pattern: tuple[Any, ...], values: Sequence[Callable[[], Any]], both: Any, either: Any, is_a: Any
) -> Match:
    """How ``pattern``, as ``encoded_pattern`` gives it, fits; the last three are staged: and, or, isinstance."""
    patterns = _Patterns(values, both, either, is_a)
    test = patterns.fits(subject, pattern)
    return Match(test, patterns.bound)


class _Patterns:
    def __init__(self, values: Sequence[Callable[[], Any]], both: Any, either: Any, is_a: Any) -> None:
        self.values = values
        self.is_a = is_a
        self.both = both
        self.either = either
        self.bound: dict[str, Any] = {}

    def fits(self, subject: Any, pattern: tuple[Any, ...]) -> Any:
        match pattern:
            case ("value", int(number)):
                return subject == self.values[number]()
            case ("singleton", value):
                if type(subject) is StagedNumber and isinstance(value, bool):
                    return subject.is_bool(value)
                return subject is value
            case ("as", inner, name):
                test = True if inner is None else self.fits(subject, inner)
                if name is not None:
                    self.bound[name] = subject
                return test
            case ("or", *patterns):
                return self._any(subject, patterns)
            case ("sequence", patterns):
                return self._sequence(subject, patterns)
            case ("mapping", keys, patterns, rest):
                return self._mapping(subject, keys, patterns, rest)
            case ("class", number, patterns, names, named):
                return self._class(subject, self.values[number](), patterns, tuple(zip(names, named, strict=True)))
        raise AssertionError(pattern)

    def _all(self, pairs: Sequence[tuple[Any, tuple[Any, ...]]]) -> Any:
        test: Any = True
        for value, pattern in pairs:
            if test is False:
                return False
            one = self.fits(value, pattern)
            test = one if test is True else self.both(test, lambda one=one: one)
            if not is_staged(test):
                test = bool(test)
        return test

    def _any(self, subject: Any, patterns: Sequence[tuple[Any, ...]]) -> Any:
        test: Any = False
        for pattern in patterns:
            before = dict(self.bound)
            one = self.fits(subject, pattern)
            if is_staged(one) and self.bound.keys() != before.keys():
                raise ScriptError(
                    "alternatives of a pattern bind names, and a tensor says which of them fits",
                    location=Location.of_user(),
                    hint="write a case for each of them",
                )
            test = one if test is False else self.either(test, lambda one=one: one)
            if not is_staged(test):
                test = bool(test)
                if test:
                    return True
        return test

    def _sequence(self, subject: Any, patterns: Sequence[tuple[Any, ...]]) -> Any:
        match subject:
            case [*_]:
                items = [subject[i] for i in range(len(subject))]
            case _:
                return False
        star = next((i for i, pattern in enumerate(patterns) if pattern[0] == "star"), None)
        if star is None:
            return len(items) == len(patterns) and self._all([*zip(items, patterns, strict=True)])
        behind = len(patterns) - star - 1
        if len(items) < star + behind:
            return False
        end = len(items) - behind
        pairs = [*zip(items[:star], patterns[:star], strict=True), *zip(items[end:], patterns[star + 1 :], strict=True)]
        if (name := patterns[star][1]) is not None:
            self.bound[name] = items[star:end]
        return self._all(pairs)

    def _mapping(self, subject: Any, keys: Sequence[int], patterns: Sequence[Any], rest: str | None) -> Any:
        if not isinstance(subject, Mapping):
            return False
        required = [self.values[key]() for key in keys]
        if any(key not in subject for key in required):
            return False
        test = self._all([(subject[key], pattern) for key, pattern in zip(required, patterns, strict=True)])
        if rest is not None:
            self.bound[rest] = {key: value for key, value in subject.items() if key not in required}
        return test

    def _class(
        self, subject: Any, kind: Any, patterns: Sequence[Any], keyword_patterns: Sequence[tuple[str, Any]]
    ) -> Any:
        if not self.is_a(subject, kind):
            return False
        if len(patterns) == 1 and kind in _SELF:
            pairs = [(subject, patterns[0])]
        else:
            names = getattr(kind, "__match_args__", ())
            if len(patterns) > len(names):
                raise TypeError(
                    f"{kind.__name__}() accepts {len(names)} positional sub-patterns ({len(patterns)} given)"
                )
            keyword_patterns = (*zip(names, patterns, strict=False), *keyword_patterns)
            pairs = []
        for name, pattern in keyword_patterns:
            if not hasattr(subject, name):
                return False
            pairs.append((getattr(subject, name), pattern))
        return self._all(pairs)


# --- the syntax tree ------------------------------------------------------------------------------------------------


class MatchesAsTests(ast.NodeTransformer):
    """Makes each ``match`` a chain of ``if``; ``call`` makes the call of a staging function."""

    def __init__(self, call: Callable[..., ast.expr]) -> None:
        self.call = call
        self.count = 0

    def visit_Match(self, node: ast.Match) -> Any:
        self.generic_visit(node)
        self.count += 1
        subject = f"jg_subject_{self.count}_"
        chain: list[ast.stmt] = []
        for number, case in reversed([*enumerate(node.cases)]):
            chain = self.case(case, subject, f"jg_case_{self.count}_{number}_", chain)
        first = ast.Assign(targets=[ast.Name(id=subject, ctx=ast.Store())], value=node.subject)
        return [_with_location(first, node), *chain]

    def case(self, case: ast.match_case, subject: str, name: str, others: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of one case, of which ``others`` are those of the next ones."""
        at = case.pattern
        values: list[ast.expr] = []
        names: list[str] = []
        pattern: Any = encoded_pattern(case.pattern, values, names)
        thunks: list[ast.expr] = [_lambda([], value) for value in values]
        subject_node = ast.Name(id=subject, ctx=ast.Load())
        match_call = self.call(
            "match_", subject_node, ast.Constant(value=pattern), ast.Tuple(elts=thunks, ctx=ast.Load()), at=at
        )
        test: ast.expr = ast.Attribute(value=ast.Name(id=name, ctx=ast.Load()), attr="test", ctx=ast.Load())
        if case.guard is not None:
            bound = [_bound(name, each) for each in names]
            truth = ast.UnaryOp(op=ast.Not(), operand=ast.UnaryOp(op=ast.Not(), operand=case.guard))  # no value of it
            guard = ast.Call(func=_lambda(names, truth), args=bound, keywords=[])
            test = ast.BoolOp(op=ast.And(), values=[test, guard])
        binds: list[ast.stmt] = [
            ast.Assign(targets=[ast.Name(id=each, ctx=ast.Store())], value=_bound(name, each)) for each in names
        ]
        first = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=match_call)
        chosen = ast.If(test=test, body=[*binds, *case.body], orelse=others)
        return [_with_location(first, at), _with_location(chosen, at)]


def permanent(names: Iterable[str]) -> Iterator[str]:
    """The names that a statement binds for others: not those in which this module puts what it found."""
    return (name for name in names if not name.startswith(_TEMPORARY))


def _bound(name: str, each: str) -> ast.expr:
    bindings = ast.Attribute(value=ast.Name(id=name, ctx=ast.Load()), attr="bound", ctx=ast.Load())
    return ast.Subscript(value=bindings, slice=ast.Constant(value=each), ctx=ast.Load())


def _lambda(names: Sequence[str], body: ast.expr) -> ast.Lambda:
    args = [ast.arg(arg=name) for name in names]
    return ast.Lambda(args=ast.arguments([], args, None, [], [], None, []), body=body)


def _with_location(node: Any, at: Any) -> Any:
    inner: Any
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            inner.lineno, inner.end_lineno = at.lineno, at.end_lineno
            inner.col_offset, inner.end_col_offset = at.col_offset, at.end_col_offset
    return node


def encoded_pattern(node: ast.pattern | None, values: list[ast.expr], names: list[str]) -> Any:
    """A pattern as nested tuples; the expressions in it are appended to ``values``, the names it binds to ``names``."""

    def value(expression: ast.expr) -> int:
        values.append(expression)
        return len(values) - 1

    def inner(patterns: Sequence[ast.pattern]) -> tuple[Any, ...]:
        return tuple(encoded_pattern(pattern, values, names) for pattern in patterns)

    def bind(name: str | None) -> str | None:
        if name is not None and name not in names:
            names.append(name)
        return name

    match node:
        case ast.MatchValue(value=expression):
            return "value", value(expression)
        case ast.MatchSingleton(value=constant):
            return "singleton", constant
        case ast.MatchSequence(patterns=patterns):
            return "sequence", inner(patterns)
        case ast.MatchStar(name=name):
            return "star", bind(name)
        case ast.MatchMapping(keys=keys, patterns=patterns, rest=rest):
            return "mapping", tuple(map(value, keys)), inner(patterns), bind(rest)
        case ast.MatchClass(cls=kind, patterns=patterns, kwd_attrs=attributes, kwd_patterns=named):
            return "class", value(kind), inner(patterns), tuple(attributes), inner(named)
        case ast.MatchAs(pattern=pattern, name=name):
            return "as", None if pattern is None else encoded_pattern(pattern, values, names), bind(name)
        case ast.MatchOr(patterns=patterns):
            return "or", *inner(patterns)
    raise AssertionError(node)
