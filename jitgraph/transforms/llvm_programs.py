"""Programs in simplified LLVM IR, run on tensors of rank 0: branches become ``cond``, loops ``while_loop``.

Loops over known integers are run turn by turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import FunctionType
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import UnsupportedOp
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, functions, lifting, wrap
from jitgraph.tensor.tensor import elementwise
from jitgraph.tracing.record.control_flow import record_cond, record_while
from jitgraph.tree import flatten

_MOST_TURNS: Final = 1024
EXIT: Final = "<exit>"
_NEXT: Final = "<next>"
_WIDTHS: Final = {"i8": dtypes.int8, "i16": dtypes.int16, "i32": dtypes.int32, "i64": dtypes.int64}


def location_of(function: FunctionType) -> Location:
    """The line of a function."""
    return Location(function.__code__.co_filename, function.__code__.co_firstlineno)


# ----------------------------------------------------------------------
# The IR as data. A value is the name of a variable, or a Python number.

Operand = Any


@dataclass(frozen=True, slots=True)
class LlvmInstruction:
    """``result = op(operands)``; ``type`` is the result's, ``source`` the operands', ``detail`` a predicate or name."""

    result: str
    op: str
    type: str
    source: str
    operands: tuple[Operand, ...]
    detail: str = ""


@dataclass(slots=True)
class LlvmBlock:
    """Phis by variable (type, and a value for each predecessor), instructions, and where it goes.

    ``successors`` are pairs of a condition and a block: the first whose condition holds, the last without one.
    """

    name: str
    phis: dict[str, tuple[str, dict[str, Operand]]] = field(default_factory=dict)
    instructions: list[LlvmInstruction] = field(default_factory=list)
    successors: list[tuple[Operand | None, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LlvmProgram:
    """A function: its parameters (name and type), blocks, and what it gives: a dtype and an offset each."""

    function: FunctionType
    parameters: tuple[tuple[str, str], ...]
    blocks: Mapping[str, LlvmBlock]
    entry: str
    results: tuple[tuple[DType | None, int], ...]


# ----------------------------------------------------------------------
# The blocks with their loops taken together.


class _LlvmRegion:
    """Blocks among which control goes forwards alone: inner loops count as one, and end where they are left."""

    def __init__(self, program: LlvmProgram, blocks: frozenset[str], entry: str, *, is_loop: bool) -> None:
        self.program = program
        self.blocks = blocks
        self.entry = entry
        self.is_loop = is_loop
        self.stop = _NEXT if is_loop else EXIT
        self.loops: dict[str, _LlvmRegion] = {}
        self._owner: dict[str, str] = {}
        self._find_loops()
        self.edges: list[tuple[str, str]] = []  # by which a loop is left
        if is_loop:
            every = ((name, label) for name in sorted(blocks) for _, label in program.blocks[name].successors)
            self.edges = list(dict.fromkeys(edge for edge in every if edge[1] not in blocks))
        self.meeting = self._meetings()

    def target(self, label: str) -> str:
        """Where control comes by going to a block: the end of the region, where that is not in it."""
        outside = label == EXIT or label not in self.blocks or (self.is_loop and label == self.entry)
        return self.stop if outside else label

    def _find_loops(self) -> None:
        order, seen = list[str](), set[str]()
        pending: list[tuple[str, bool]] = [(self.entry, False)]
        while pending:
            name, is_done = pending.pop()
            if is_done:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                pending.append((name, True))
                labels = [self.target(label) for _, label in self.program.blocks[name].successors]
                pending += [(label, False) for label in labels if label != self.stop]
        order.reverse()
        number = {name: i for i, name in enumerate(order)}
        predecessors: dict[str, list[str]] = {name: [] for name in order}
        for name in order:
            for _, label in self.program.blocks[name].successors:
                if (target := self.target(label)) != self.stop:
                    predecessors[target].append(name)
        for header in order:  # outer loops first
            if header in self._owner:
                continue
            body = {header}
            tails = [name for name in predecessors[header] if number[name] >= number[header]]
            while tails:
                name = tails.pop()
                if name not in body:
                    body.add(name)
                    tails += predecessors[name]
            if len(body) > 1 or header in predecessors[header]:
                if self.entry in body and header != self.entry:
                    raise UnsupportedOp(f"{self.program.function.__name__}: a jump into the middle of a loop")
                self.loops[header] = _LlvmRegion(self.program, frozenset(body), header, is_loop=True)
                self._owner.update(dict.fromkeys(body, header))

    def _after(self, name: str) -> list[str]:
        if name in self.loops:
            return [self.target(label) for _, label in self.loops[name].edges]
        return [self.target(label) for _, label in self.program.blocks[name].successors]

    def _meetings(self) -> dict[str, str]:
        """For each block where all ways from it meet again."""
        nodes = [name for name in self.blocks if self._owner.get(name, name) == name]
        after = {name: self._after(name) for name in nodes}
        later: dict[str, set[str]] = {name: {*nodes, self.stop} for name in nodes}
        later[self.stop] = {self.stop}
        changed = True
        while changed:
            changed = False
            for name in nodes:
                common = set.intersection(*(later[label] for label in after[name])) if after[name] else set()
                if (new := common | {name}) != later[name]:
                    later[name], changed = new, True
        return {name: max(later[name] - {name}, key=lambda other: len(later[other])) for name in nodes if after[name]}


# ----------------------------------------------------------------------
# Running a program on tensors of rank 0. Integers and bools that are known stay Python's.

Values = dict[str, Any]


class LlvmRunner:
    """Runs a program; a double is a number of the dtype ``floating``."""

    def __init__(self, program: LlvmProgram, floating: DType) -> None:
        self._program = program
        self._floating = floating
        self._types = dict(program.parameters)
        self._uses: dict[str, set[str]] = {}  # of a variable, the blocks that read it
        for block in program.blocks.values():
            for name, (type, values) in block.phis.items():
                self._types[name] = type
                for pred, value in values.items():
                    self._use(value, pred)
            for instruction in block.instructions:
                self._types[instruction.result] = instruction.type
                for operand in instruction.operands:
                    self._use(operand, block.name)
            for test, label in block.successors:
                self._use(test, block.name)
                if label == EXIT:
                    for _, offset in program.results:
                        self._use(f"%result@{offset}", block.name)
        self._defined = {
            name: block.name
            for block in program.blocks.values()
            for name in (*block.phis, *(instruction.result for instruction in block.instructions))
        }
        self._slots = [name for name in self._types if name.startswith("%result@")]
        self._root = _LlvmRegion(program, frozenset(program.blocks), program.entry, is_loop=False)

    def _use(self, operand: Operand, block: str) -> None:
        if isinstance(operand, str):
            self._uses.setdefault(operand, set()).add(block)

    def run(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The results for numbers that are tensors, each in its dtype."""
        env: Values = {}
        for (name, type), x in zip(self._program.parameters, arguments, strict=True):
            env[name] = x.astype(self._dtype(type)) if dtypes.is_bool(x.dtype) != (type == "i1") else x
            if not dtypes.is_float(x.dtype) and not dtypes.is_bool(x.dtype):
                env[name] = x.astype(self._dtype(type))
        final = self._walk(self._root, self._program.entry, env, EXIT)
        results = []
        for dtype, offset in self._program.results:
            value = self._tensor(final[f"%result@{offset}"], self._types[f"%result@{offset}"])
            if dtype is None:
                results.append(value)
            else:
                results.append(value != 0 if dtypes.is_bool(dtype) else value.astype(dtype))
        return tuple(results)

    # --- control flow ---

    def _walk(self, region: _LlvmRegion, block: str, env: Values, stop: str) -> Values:
        """Run from a block to ``stop``, and give what arrives there."""
        is_first = region.is_loop
        while True:
            if block in region.loops and not (is_first and block == region.entry):
                ways = self._loop(region.loops[block], env)
            else:
                for instruction in self._program.blocks[block].instructions:
                    env[instruction.result] = self._value(instruction, env)
                ways = [
                    (None if test is None else self._read(test, env), block, label)
                    for test, label in self._program.blocks[block].successors
                ]
            is_first = False
            ways = _decided(ways)
            if len(ways) == 1:
                _, source, label = ways[0]
                meeting = region.target(label)
                arriving = self._arriving(region, source, label, env)
            else:
                meeting = region.meeting[block]
                arriving = self._chosen(region, ways, env, meeting)
            if meeting == stop:
                return arriving
            env.update(arriving)
            block = meeting

    def _chosen(self, region: _LlvmRegion, ways: Sequence[tuple[Any, str, str]], env: Values, meeting: str) -> Values:
        """What arrives where several ways meet."""
        (test, source, label), *rest = ways

        def first() -> Values:
            inner = dict(env)
            arriving = self._arriving(region, source, label, inner)
            target = region.target(label)
            if target == meeting:
                return arriving
            inner.update(arriving)
            return self._walk(region, target, inner, meeting)

        if not rest:
            return first()
        names: list[str] = []

        def side(run: Callable[[], Values]) -> Callable[[], tuple[Any, ...]]:
            def packed() -> tuple[Any, ...]:
                values = run()
                names[:] = sorted(values)
                return tuple(self._tensor(values[name], self._type(name)) for name in names)

            return packed

        results = record_cond(test, side(first), side(lambda: self._chosen(region, rest, env, meeting)), ())
        return dict(zip(names, results, strict=True))

    def _arriving(self, region: _LlvmRegion, source: str, label: str, env: Values) -> Values:
        """The values that are set by going from one block to another."""
        target = region.target(label)
        slots = {name: env.get(name, self._zero(name)) for name in self._slots}
        if target == EXIT:
            return slots
        if target != _NEXT:
            phis = self._program.blocks[label].phis.items()
            return {**slots, **{name: self._read(values[source], env) for name, (_, values) in phis}}
        goes_on = label == region.entry
        header = self._program.blocks[region.entry].phis.items()
        state: Values = {"<going>": goes_on, **slots}
        for name, (_, values) in header:
            state[name] = self._read(values[source], env) if goes_on else env[name]
        state["<edge>"] = 0 if goes_on else region.edges.index((source, label))
        for name in self._left_by(region):
            state[f"{name}<left>"] = env.get(name, env[f"{name}<left>"])
        return state

    def _left_by(self, region: _LlvmRegion) -> list[str]:
        """The variables of a loop that are read behind it."""
        return sorted(
            name for name, uses in self._uses.items() if self._defined.get(name) in region.blocks
            and (not uses <= region.blocks or self._is_read_on_the_way_out(name, region))
        )  # fmt: skip

    def _is_read_on_the_way_out(self, name: str, region: _LlvmRegion) -> bool:
        return any(
            name == values.get(source)
            for source, label in region.edges
            if label != EXIT
            for _, values in self._program.blocks[label].phis.values()
        )

    def _loop(self, region: _LlvmRegion, env: Values) -> list[tuple[Any, str, str]]:
        """Run a loop; the ways that lead out of it, with a condition for all but the last."""
        left = self._left_by(region)
        state: Values = {name: env[name] for name in self._program.blocks[region.entry].phis}
        state.update({name: env.get(name, self._zero(name)) for name in self._slots})
        state.update({f"{name}<left>": self._zero(name) for name in left})
        state.update({"<going>": True, "<edge>": 0})
        for _ in range(_MOST_TURNS):  # as long as all that steers it is known
            after = self._walk(region, region.entry, {**env, **state}, _NEXT)
            if isinstance(after["<going>"], Tensor):
                break
            state = after
            if not state["<going>"]:
                break
        if state["<going>"]:
            state = self._staged(region, env, state)
        env.update({name: state[f"{name}<left>"] for name in left})
        env.update({name: state[name] for name in self._slots})
        edges = region.edges
        edge = state["<edge>"]
        if len(edges) == 1 or not isinstance(edge, Tensor):
            return [(None, *edges[edge if len(edges) > 1 else 0])]
        return [
            *((edge == number, *edges[number]) for number in range(len(edges) - 1)),
            (None, *edges[-1]),
        ]

    def _staged(self, region: _LlvmRegion, env: Values, state: Values) -> Values:
        names = sorted(state)

        def packed(values: Values) -> tuple[Any, ...]:
            return tuple(self._tensor(values[name], self._type(name)) for name in names)

        def turn(carry: Any) -> Any:
            inner = {**env, **dict(zip(names, carry, strict=True))}
            return packed(self._walk(region, region.entry, inner, _NEXT))

        going = names.index("<going>")
        final = record_while(lambda carry: carry[going], turn, *flatten(packed(state)))
        return dict(zip(names, final, strict=True))

    # --- values ---

    def _type(self, name: str) -> str:
        if name in ("<going>", "<edge>"):
            return "i1" if name == "<going>" else "i64"
        return self._types[name.removesuffix("<left>")]

    def _dtype(self, type: str) -> DType:
        if type in _WIDTHS:
            return _WIDTHS[type]
        known: dict[str, DType] = {"i1": dtypes.bool_, "double": self._floating, "float": dtypes.float32}
        if type not in known:
            raise UnsupportedOp(
                f"{self._program.function.__name__}: a number of the type {type} of LLVM",
                location=location_of(self._program.function),
            )
        return known[type]

    def _zero(self, name: str) -> Any:
        return self._tensor(0, self._type(name))

    def _tensor(self, value: Any, type: str) -> Any:
        if isinstance(value, Tensor):
            return value
        dtype = self._dtype(type)
        return wrap(lifting.constant(bool(value) if dtypes.is_bool(dtype) else value, dtype))

    def _read(self, operand: Operand, env: Values) -> Any:
        return env[operand] if isinstance(operand, str) else operand

    def _value(self, instruction: LlvmInstruction, env: Values) -> Any:
        values = [self._read(operand, env) for operand in instruction.operands]
        if instruction.op == "copy" or instruction.op == "freeze":
            return values[0]
        if instruction.op == "select" and not isinstance(values[0], Tensor):
            return values[1] if values[0] else values[2]
        if not any(isinstance(value, Tensor | float) for value in values):
            known = _known(instruction, values)
            if known is not None:
                return known
        if instruction.op == "call":
            return self._called(instruction, values)
        if instruction.op == "select":
            return functions.where(
                self._tensor(values[0], "i1"), *(self._tensor(value, instruction.type) for value in values[1:])
            )
        operands = [self._tensor(value, instruction.source) for value in values]
        if instruction.op in ("fcmp", "icmp"):
            return _compared(instruction.detail, *operands)
        if (operation := _OPERATIONS.get(instruction.op)) is not None:
            return operation(*operands)
        return self._converted(instruction, operands[0])

    def _converted(self, instruction: LlvmInstruction, x: Any) -> Any:
        target = self._dtype(instruction.type)
        match instruction.op:
            case "zext" | "uitofp":
                return (x if instruction.source == "i1" else _unsigned(x)).astype(target)
            case "fptoui":
                return x.astype(_UNSIGNED[target]).astype(target)
            case "trunc" if instruction.type == "i1":
                return (x & 1) != 0
            case "bitcast":
                raise UnsupportedOp(
                    f"{self._program.function.__name__}: numba reads the bits of a float",
                    location=location_of(self._program.function),
                    hint="write it with comparisons and arithmetic",
                )
        if instruction.source == "i1" and instruction.op in ("sext", "sitofp"):
            return -(x.astype(target))
        return x.astype(target)

    def _called(self, instruction: LlvmInstruction, values: Sequence[Any]) -> Any:
        name = instruction.detail
        if (own := INTRINSICS.get(name)) is not None:
            values = values[: own[0]]
            return own[1](*(self._tensor(value, instruction.source) for value in values))
        operation = MATH[plain_name(name)]
        if name.startswith("llvm.powi."):
            return functions.pow(self._tensor(values[0], instruction.type), self._tensor(values[1], "double"))
        return operation(*(self._tensor(value, instruction.type) for value in values))


def _decided(ways: Sequence[tuple[Any, str, str]]) -> list[tuple[Any, str, str]]:
    """The ways that may be taken, as far as conditions are known."""
    possible: list[tuple[Any, str, str]] = []
    for test, source, label in ways:
        if test is None or isinstance(test, Tensor):
            possible.append((test, source, label))
            if test is None:
                break
        elif test:
            possible.append((None, source, label))
            break
    return possible


def _known(instruction: LlvmInstruction, values: Sequence[int]) -> int | bool | None:
    """What an instruction gives for integers that are known; None where that is left to the graph."""
    width = int(instruction.type[1:]) if instruction.type[0] == "i" else 0
    match instruction.op:
        case "icmp":
            bits = (1 << int(instruction.source[1:])) - 1
            a, b = (value & bits if instruction.detail[0] == "u" else int(value) for value in values)
            relation = instruction.detail.lstrip("su")
            return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[relation]
        case "add" | "sub" | "mul" | "and" | "or" | "xor" if width:
            a, b = map(int, values)
            result = {"add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b}[instruction.op]
            return bool(result & 1) if width == 1 else _wrapped(result, width)
        case "zext" | "sext" | "trunc" if width:
            source = int(instruction.source[1:])
            value = int(values[0]) & ((1 << source) - 1)
            if instruction.op == "sext":
                value = _wrapped(value, source)
            return bool(value & 1) if width == 1 else _wrapped(value, width)
    return None


def _wrapped(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


# ----------------------------------------------------------------------
# Instructions and calls as functions of tensors.

_UNSIGNED: Final[dict[DType, DType]] = {
    dtypes.int8: dtypes.uint8, dtypes.int16: dtypes.uint16, dtypes.int32: dtypes.uint32, dtypes.int64: dtypes.uint64,
}  # fmt: skip


def _unsigned(x: Any) -> Any:
    return x.astype(_UNSIGNED[x.dtype]) if x.dtype in _UNSIGNED else x


def _as_unsigned(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: operation(_unsigned(x), _unsigned(y)).astype(x.dtype)


def _quotient(x: Any, y: Any) -> Any:
    """The quotient towards zero."""
    floor = x // y
    return functions.where((x - floor * y != 0) & ((x < 0) != (y < 0)), floor + 1, floor)


def _bits(operation: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: getattr(functions, operation)(x, y)


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "fadd": lambda x, y: x + y,
    "fsub": lambda x, y: x - y,
    "fmul": lambda x, y: x * y,
    "fdiv": lambda x, y: x / y,
    "frem": lambda x, y: functions.fmod(x, y),
    "fneg": lambda x: -x,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "sdiv": _quotient,
    "srem": lambda x, y: x - _quotient(x, y) * y,
    "udiv": _as_unsigned(lambda x, y: x // y),
    "urem": _as_unsigned(lambda x, y: x % y),
    "shl": _bits("bitwise_left_shift"),
    "ashr": _bits("bitwise_right_shift"),
    "lshr": _as_unsigned(_bits("bitwise_right_shift")),
    "and": _bits("bitwise_and"),
    "or": _bits("bitwise_or"),
    "xor": _bits("bitwise_xor"),
}
_RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip


def _compared(predicate: str, x: Any, y: Any) -> Any:
    """``icmp`` or ``fcmp``: signed or ordered relations, unsigned ones of integers, unordered ones of floats."""
    if predicate in ("ord", "uno"):
        unordered = (x != x) | (y != y)
        return unordered if predicate == "uno" else ~unordered
    relation = predicate[-2:]
    if not dtypes.is_float(x.dtype):
        if predicate[0] == "u":
            x, y = _unsigned(x), _unsigned(y)
        return _RELATIONS[relation](x, y)
    holds = _RELATIONS[relation](x, y)
    if predicate[0] == "u":
        return holds if relation == "ne" else holds | (x != x) | (y != y)
    return holds & (x == x) & (y == y) if relation == "ne" else holds


def _op(name: str) -> Callable[[Any], Any]:
    from jitgraph import ops  # the table of ops, of which most functions need few

    return lambda x: elementwise(getattr(ops, name), x, floating=True)


def _away(x: Any) -> Any:
    """The nearest whole number, halves away from zero."""
    whole = functions.trunc(x)
    return functions.where(functions.abs(x - whole) >= 0.5, whole + functions.sign(x), whole)


def _same(name: str) -> Callable[..., Any]:
    return lambda *xs: getattr(functions, name)(*xs)


INTRINSICS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {  # how many operands count
    **{f"llvm.abs.{type}": (1, _same("abs")) for type in _WIDTHS},
    **{f"llvm.smax.{type}": (2, _same("maximum")) for type in _WIDTHS},
    **{f"llvm.smin.{type}": (2, _same("minimum")) for type in _WIDTHS},
    **{f"llvm.umax.{type}": (2, _as_unsigned(lambda x, y: functions.maximum(x, y))) for type in _WIDTHS},
    **{f"llvm.umin.{type}": (2, _as_unsigned(lambda x, y: functions.minimum(x, y))) for type in _WIDTHS},
}
MATH: Final[dict[str, Callable[..., Any]]] = {
    **{
        name: _same(name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh"),
            *("exp", "exp2", "expm1", "floor", "fmod", "hypot", "log", "log10", "log1p", "log2", "pow", "sin", "sinh"),
            *("sqrt", "tan", "tanh", "trunc", "fmax", "fmin", "maximum", "minimum"),
        )
    },
    "erf": lambda x: _op("erf")(x),
    "erfc": lambda x: _op("erfc")(x),
    "exp10": lambda x: functions.exp(x * math.log(10.0)),
    "fabs": lambda x: functions.abs(x),
    "gamma": lambda x: imports.provided("the package").special.gamma(x),
    "tgamma": lambda x: imports.provided("the package").special.gamma(x),
    "fmuladd": lambda x, y, z: x * y + z,
    "lgamma": lambda x: _op("lgamma")(x),
    "maxnum": lambda x, y: functions.fmax(x, y),
    "minnum": lambda x, y: functions.fmin(x, y),
    "nearbyint": lambda x: functions.round(x),
    "powi": lambda x, y: functions.pow(x, y),
    "rint": lambda x: functions.round(x),
    "round": _away,
    "roundeven": lambda x: functions.round(x),
}


def plain_name(symbol: str) -> str:
    """``sin`` of ``llvm.sin.f64``, ``sin``, ``sinf`` and ``numba_sin``."""
    if symbol.startswith("llvm."):
        return symbol.split(".")[1]
    name = symbol.removeprefix("numba_")
    return name[:-1] if name.endswith("f") and name not in ("erf",) and name[:-1] in MATH else name
