"""The kernel that ``codegen.kernels.kernel_text.print_kernel`` printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    Carry,
    CheckStatement,
    Combine,
    Contract,
    Factor,
    IndexValue,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Operand,
    Param,
    Slots,
    Statement,
    Store,
    Var,
    WeightedSum,
)
from jitgraph.dtypes import BY_SHORT_NAME, DType
from jitgraph.errors import GraphError
from jitgraph.ir.dims import parse_dim

_HEADING = re.compile(r"kernel @(\S+?)\((.*?)\)(?: sizes\(([^()]*)\))?(?: aliases\(([^()]*)\))?( fastmath)? \{$")
_PARAM = re.compile(r"(read|write|readwrite) ([^\s:]+): (\w+)\[([^\]]*)\]$")
_LOCAL = re.compile(r"local ([^\s:]+): (\w+)\[(\d+)\]$")
_LOAD = re.compile(r"(\S+): (\w+) = load ([^\s\[]+)\[([^\]]*)\](?: if (\S+))?$")
_STORE = re.compile(r"store ([^\s\[]+)\[([^\]]*)\] (add|max|min)?= (\S+)(?: if (\S+))?$")
_CHECK = re.compile(r"check (\d+) (\S+)(?: value (\S+))?(?: bound (\S+))?$")
_INDEX = re.compile(r"(\S+): (\w+) = index (.*)$")
_LOOP = re.compile(
    r"(?:(.*) = )?(parallel|vector|serial|reduce) (\S+) < (.+?)(?: from (.+?))?(?: span (\d+))?"
    r"(?: lanes (\d+))?(?: chain (\d+))?(?: carry\(([^()]*)\))? \{$"
)
_COMBINE = re.compile(r"\} combine\((.*) with (.*)\) \{$")
_SLOTS = re.compile(r"\} slots (\S+) \{$")
_CONTRACT = re.compile(
    r"(\S+): (\w+) = contract (\S+) < (.+), (\S+) < (.+), (\S+) < (.+?)(?: from (.+?))?(?: span (\d+))? by (\d+) \{$"
)
_ATTEND = re.compile(r"attend (\S+) < (.+), (\S+) < (.+) from (.+) to (.+?)(?: softmax\(([^()]*)\))? \{$")
_FACTOR = re.compile(r"(rows|columns) (\S+) < (\d+) \{$")
_SCORE = re.compile(r"score\(([^()]*)\) \{$")
_WEIGHTS = re.compile(r"weights\(([^()]*)\) \{$")
_SUM = re.compile(r"sum (\d+)\(([^()]*)\) \{$")
_LET = re.compile(r"(\S+): (\w+) = (\w+)(?: ([^\s()]+))?(?:\(([^()]*)\))?$")


def parse_kernel(text: str) -> Kernel:
    """The kernel whose text this is; GraphError with the number and text of the first line that is not understood."""
    return _Parser(text).kernel()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        self.at = 0
        self.variables: dict[str, Var] = {}

    def fail(self, why: str) -> NoReturn:
        number, line = self.lines[min(self.at, len(self.lines) - 1)] if self.lines else (1, "")
        raise GraphError(f"line {number} of the kernel's text: {why}\n    {line}")

    def line(self) -> str:
        if self.at >= len(self.lines):
            self.fail("the text ends too early")
        return self.lines[self.at][1]

    def expect(self, text: str) -> None:
        if self.line() != text:
            self.fail(f"expected {text!r}")
        self.at += 1

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.line())
        if match:
            self.at += 1
        return match

    def dtype(self, short: str) -> DType:
        if short not in BY_SHORT_NAME:
            self.fail(f"{short!r} is not a dtype")
        return BY_SHORT_NAME[short]

    def define(self, name: str, short: str) -> Var:
        var = Var(name, self.dtype(short))
        self.variables[name] = var
        return var

    def defines(self, text: str) -> tuple[Var, ...]:
        parts = [part.partition(": ") for part in text.split(", ")] if text else []
        return tuple(self.define(name, short) for name, _, short in parts)

    def use(self, name: str) -> Var:
        if name not in self.variables:
            self.at = max(self.at - 1, 0)
            self.fail(f"{name} is not defined above")
        return self.variables[name]

    def maybe(self, name: str | None) -> Var | None:
        return None if name is None else self.use(name)

    def uses(self, text: str | None) -> tuple[Var, ...]:
        return tuple(map(self.use, text.split(", "))) if text else ()

    def kernel(self) -> Kernel:
        heading = self.match(_HEADING) or self.fail("expected 'kernel @name(...) {'")
        name, params, sizes, aliases, fastmath = heading.groups()
        parsed = tuple(self.param(part) for part in params.split(", ")) if params else ()
        pairs = [tuple(pair.split(" = ")) for pair in aliases.split(", ")] if aliases else []
        if any(len(pair) != 2 for pair in pairs):
            self.fail("aliases are pairs 'written = read'")
        body = self.body()
        self.expect("}")
        if self.at != len(self.lines):
            self.fail("text after the kernel's end")
        return Kernel(
            name,
            parsed,
            body,
            tuple(sizes.split(", ")) if sizes else (),
            tuple((pair[0], pair[1]) for pair in pairs),
            fastmath is not None,
        )

    def param(self, text: str) -> Param:
        match = _PARAM.match(text) or self.fail(f"{text!r} is not a param such as 'read x: f32[4*n]'")
        access, name, short, size = match.groups()
        return Param(name, self.dtype(short), parse_dim(size), access)  # type: ignore[arg-type]

    def body(self) -> Body:
        return tuple(self.statements())

    def statements(self) -> Iterator[Statement]:
        while not (self.line().startswith("}") or self.line().startswith("next ")):
            yield self.statement()

    def statement(self) -> Statement:
        if match := self.match(_LOOP):
            return self.loop(*match.groups())
        if match := self.match(_CONTRACT):
            return self.contract(*match.groups())
        if match := self.match(_ATTEND):
            return self.attend(*match.groups())
        if match := self.match(_LOCAL):
            return Local(match[1], self.dtype(match[2]), int(match[3]))
        if match := self.match(_STORE):
            update: Any = match[3]
            return Store(match[1], parse_dim(match[2]), self.use(match[4]), self.maybe(match[5]), update)
        if match := self.match(_CHECK):
            return CheckStatement(self.use(match[2]), int(match[1]), self.maybe(match[3]), self.maybe(match[4]))
        if match := self.match(_LOAD):
            mask = self.maybe(match[5])
            return Load(self.define(match[1], match[2]), match[3], parse_dim(match[4]), mask)
        if match := self.match(_INDEX):
            return IndexValue(self.define(match[1], match[2]), parse_dim(match[3]))
        if match := self.match(_LET):
            args = self.uses(match[5])
            return Let(self.define(match[1], match[2]), match[3], args, _param_value(match[3], match[4]))
        return self.fail("this is no statement of a kernel")

    def next_values(self) -> tuple[Var, ...]:
        if not self.line().startswith("next "):
            self.fail("expected 'next' and the values that the body gives")
        self.at += 1
        return self.uses(self.lines[self.at - 1][1][len("next ") :])

    def loop(
        self,
        results: str | None,
        kind: str,
        axis: str,
        extent: str,
        begin: str | None,
        span: str | None,
        lanes: str | None,
        chain: str | None,
        carries: str | None,
    ) -> Loop:
        pairs = [part.rpartition(" = ") for part in carries.split(", ")] if carries else []
        inits = tuple(self.use(init) for _, _, init in pairs)
        inside = tuple(self.defines(var)[0] for var, _, _ in pairs)
        body = self.body()
        after = self.next_values() if pairs else ()
        combine = None
        if match := self.match(_COMBINE):
            left, right = self.defines(match[1]), self.defines(match[2])
            lets = self.body()
            if not all(isinstance(let, Let) for let in lets):
                self.fail("only scalar ops stand in a combine")
            combine = Combine(left, right, lets, self.next_values())  # type: ignore[arg-type]
        defined = self.defines(results or "")
        slots = None
        if match := self.match(_SLOTS):
            slots = Slots(match[1], self.body())
        self.expect("}")
        if not len(defined) == len(pairs) == len(after):
            self.fail("carries, next values and results differ in number")
        parsed = tuple(Carry(*parts) for parts in zip(inside, inits, after, defined, strict=True))
        return Loop(
            axis,
            parse_dim(extent),
            kind,  # type: ignore[arg-type]
            body,
            parsed,
            combine,
            int(lanes or 1),
            int(chain or 0),
            parse_dim(begin or "0"),
            None if span is None else int(span),
            slots,
        )

    def contract(
        self,
        acc: str,
        short: str,
        m: str,
        m_to: str,
        n: str,
        n_to: str,
        k: str,
        k_to: str,
        begin: str | None,
        span: str | None,
        block_k: str,
    ) -> Contract:
        operands = []
        for side in ("left", "right"):
            self.expect(f"{side} {{")
            body = self.body()
            operands.append(Operand(body, self.next_values()[0]))
            self.expect("}")
        self.expect("epilogue {")
        var = self.define(acc, short)
        epilogue = self.body()
        self.expect("}")
        self.expect("}")
        extents = (parse_dim(m_to), parse_dim(n_to), parse_dim(k_to))
        window = parse_dim(begin or "0"), None if span is None else int(span)
        return Contract(m, n, k, extents, operands[0], operands[1], var, epilogue, int(block_k), *window)

    def operand(self) -> Operand:
        body = self.body()
        value = self.next_values()[0]
        self.expect("}")
        return Operand(body, value)

    def attend(self, m: str, m_to: str, n: str, n_to: str, begin: str, end: str, softmax: str | None) -> Attend:
        pair = self.defines(softmax or "")
        factors: dict[str, list[Factor]] = {"rows": [], "columns": []}
        while match := self.match(_FACTOR):
            factors[match[1]].append(Factor(match[2], int(match[3]), self.operand()))
        products = self.defines((self.match(_SCORE) or self.fail("expected 'score(...) {'"))[1])
        score = self.operand()
        (weight,) = self.defines((self.match(_WEIGHTS) or self.fail("expected 'weights(...) {'"))[1])
        derived, weights = self.body(), self.next_values()
        self.expect("}")
        self.expect("row {")
        row = self.body()
        self.expect("}")
        sums: list[WeightedSum] = []
        for var in weights:
            match = self.match(_SUM) or self.fail("expected 'sum', the number of the columns and what it gives")
            (acc,) = self.defines(match[2])
            sums.append(WeightedSum(var, int(match[1]), acc, self.body()))
            self.expect("}")
        self.expect("}")
        return Attend(
            m,
            n,
            (parse_dim(m_to), parse_dim(n_to)),
            (parse_dim(begin), parse_dim(end)),
            tuple(factors["rows"]),
            tuple(factors["columns"]),
            products,
            score,
            weight,
            derived,
            (pair[0], pair[1]) if len(pair) == 2 else None,
            row,
            tuple(sums),
        )


def _param_value(op: str, text: str | None) -> float | int | bool | str | None:
    if text is None or op != "const":
        return text
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
