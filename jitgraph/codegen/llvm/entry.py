"""What the entry of every image has, whatever it runs then: sizes that it verifies, and the addresses of buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgraph.codegen.kernels.schedule import (
    Exchange,
    Launch,
    MemoryPlan,
    Schedule,
    ScheduleBuffer,
    SizeNumber,
    aligned,
    copied,
    exchanged_together,
    extents_of,
)
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmValue
from jitgraph.errors import CompileError
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Atom, Dim, DimLike, FloorDiv, Mod, atom_magnitude, magnitude, stays_in_64_bits
from jitgraph.runtime import loader
from jitgraph.runtime.loader import abi

# ----------------------------------------------------------------------
# Sizes at the entry: dims evaluated in 64 bits with every overflow noticed.


class Sizes:
    """Evaluates dims over the named sizes in ``dims``, an array of int64 in the order of ``names``."""

    def __init__(self, function: LlvmFunction, names: tuple[str, ...], dims: LlvmValue) -> None:
        self.function = function
        self.values: dict[str, str] = {}
        for index, name in enumerate(names):
            address = function.emit("ptr", f"getelementptr i64, {dims}, i64 {index}")
            self.values[name] = function.emit("i64", f"load i64, {address}, align 8").name
        self._known: dict[DimLike, str] = {}
        self._overflows: list[str] = []

    def value(self, dim: DimLike) -> str:
        """``dim`` as an i64; wrong where ``overflow`` is true."""
        if isinstance(dim, int):
            return self._constant(dim)
        if dim not in self._known:
            total = "0"
            for monomial, coefficient in dim.terms.items():
                product = self._constant(coefficient)
                for atom in monomial:
                    product = self._checked("smul", product, self._atom(atom))
                total = self._checked("sadd", total, product)
            self._known[dim] = total
        return self._known[dim]

    def note(self, overflow: str) -> None:
        """Count an i1 among the overflows."""
        self._overflows.append(overflow)

    def overflow(self) -> str:
        """Whether any value asked for so far left 64 bits, or divided by zero, as an i1."""
        flag = "false"
        for bit in self._overflows:
            flag = bit if flag == "false" else self.function.emit("i1", f"or i1 {flag}, {bit}").name
        return flag

    def _constant(self, number: int) -> str:
        """A literal, which LLVM would cut to 64 bits without a word."""
        if -(1 << 63) <= number < 1 << 63:
            return str(number)
        self._overflows.append("true")
        return "0"

    def _checked(self, operation: str, x: str, y: str) -> str:
        if {"smul": "1", "sadd": "0"}[operation] == x:
            return y
        if operation == "smul" and y == "1":
            return x
        function = self.function
        pair = function.emit("{ i64, i1 }", f"call {{ i64, i1 }} @llvm.{operation}.with.overflow.i64(i64 {x}, i64 {y})")
        self._overflows.append(function.emit("i1", f"extractvalue {pair}, 1").name)
        return function.emit("i64", f"extractvalue {pair}, 0").name

    def _atom(self, atom: Atom) -> str:
        """A name, or floor division; dividing by zero or the minimum by -1 counts as overflow."""
        if isinstance(atom, str):
            return self.values[atom]
        function = self.function
        x, y = self.value(atom.numerator), self.value(atom.denominator)
        lowest = function.emit("i1", f"icmp eq i64 {x}, {-(1 << 63)}").name
        minus = function.emit("i1", f"icmp eq i64 {y}, -1").name
        wraps = function.emit("i1", f"and i1 {lowest}, {minus}").name
        zero = function.emit("i1", f"icmp eq i64 {y}, 0").name
        bad = function.emit("i1", f"or i1 {wraps}, {zero}").name
        self._overflows.append(bad)
        safe = function.emit("i64", f"select i1 {bad}, i64 1, i64 {y}").name
        quotient = function.emit("i64", f"sdiv i64 {x}, {safe}").name
        remainder = function.emit("i64", f"srem i64 {x}, {safe}").name
        mixed = function.emit("i64", f"xor i64 {remainder}, {safe}").name
        signs_differ = function.emit("i1", f"icmp slt i64 {mixed}, 0").name
        uneven = function.emit("i1", f"icmp ne i64 {remainder}, 0").name
        adjust = function.emit("i1", f"and i1 {signs_differ}, {uneven}").name
        if isinstance(atom, Mod):
            up = function.emit("i64", f"add i64 {remainder}, {safe}").name
            return function.emit("i64", f"select i1 {adjust}, i64 {up}, i64 {remainder}").name
        down = function.emit("i64", f"sub i64 {quotient}, 1").name
        return function.emit("i64", f"select i1 {adjust}, i64 {down}, i64 {quotient}").name


# ----------------------------------------------------------------------
# Dims as exact integers at the entry, in as many bits as they can ever need, and what a kernel is given of them.
#
# Sums and products of named sizes leave 64 bits: n**3 does from 2,097,152 on. Their width follows from their form alone
# (``dim_bounds.magnitude``), so that nothing here wraps and nothing has to be checked but what a result is put into.

_WORD: Final = 64
_DIVIDED: Final = 3 * _WORD  # LLVM divides 128 bits by a call, which generated code has nobody to answer
_EXPONENT_BIAS: Final = 1023
_GREATEST_EXPONENT: Final = 1023
_FRACTION: Final = 52


def width_of(bound: int) -> int:
    """The bits, in whole words, that hold every number from ``-bound`` to ``bound``."""
    return -(-(bound.bit_length() + 1) // _WORD) * _WORD


class ExactSizes:
    """Dims over the names of ``sizes``, exact; what no result has room for counts there as an overflow."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._known: dict[tuple[DimLike, int], str] = {}

    @property
    def _function(self) -> LlvmFunction:
        return self._sizes.function

    def number(self, number: SizeNumber) -> str:
        """What kernels read, as an i64; an overflow where there is no such number."""
        width = self._width(number.dim)
        width += _WORD if number.kind == "uint" and width == _WORD else 0
        value = self._value(number.dim, width)
        if number.kind == "float":
            rounded = self._rounded(value, width)
            return self._emit("i64", f"bitcast double {rounded} to i64")
        if width == _WORD:
            return value
        short = self._emit("i64", f"trunc i{width} {value} to i64")
        back = f"{'sext' if number.kind == 'int' else 'zext'} i64 {short} to i{width}"
        self._sizes.note(self._emit("i1", f"icmp ne i{width} {self._emit(f'i{width}', back)}, {value}"))
        return short

    def holds(self, left: DimLike, relation: str, right: DimLike) -> str:
        """Whether ``left == right`` or ``left >= right``, as an i1."""
        width = max(self._width(left), self._width(right))
        x, y = self._value(left, width), self._value(right, width)
        return self._emit("i1", f"icmp {'eq' if relation == '==' else 'sge'} i{width} {x}, {y}")

    def _width(self, dim: DimLike) -> int:
        return width_of(magnitude(dim))

    def _value(self, dim: DimLike, width: int) -> str:
        """``dim`` in ``width`` bits, which are at least its own."""
        if isinstance(dim, int):
            return str(dim)
        key = (dim, width)
        if key not in self._known:
            total = "0"
            for monomial, coefficient in dim.terms.items():
                term = self._product(monomial, coefficient, width)
                total = term if total == "0" else self._emit(f"i{width}", f"add i{width} {total}, {term}")
            self._known[key] = total
        return self._known[key]

    def _product(self, monomial: tuple[Atom, ...], coefficient: int, width: int) -> str:
        """A term in ``width`` bits; what is multiplied first takes fewer."""
        product, bound, bits = str(coefficient), abs(coefficient), _WORD
        for atom in monomial:
            bound *= atom_magnitude(atom)
            wider = width_of(bound)
            factor = self._atom(atom, wider)
            if product == "1":
                product = factor
            else:
                product = self._extended(product, bits, wider)
                product = self._emit(f"i{wider}", f"mul i{wider} {product}, {factor}")
            bits = wider
        return self._extended(product, bits, width)

    def _atom(self, atom: Atom, width: int) -> str:
        if isinstance(atom, str):
            return self._extended(self._sizes.values[atom], _WORD, width)
        quotient, own = self._divided(atom)
        if own > width:
            return self._emit(f"i{width}", f"trunc i{own} {quotient} to i{width}")
        return self._extended(quotient, own, width)

    def _divided(self, atom: FloorDiv) -> tuple[str, int]:
        """A quotient or remainder, and its width; dividing by zero is an overflow."""
        # one bit more than either side has, so that minus the least number is one, too
        width = width_of(2 * max(magnitude(atom.numerator), magnitude(atom.denominator)))
        width = width if width == _WORD else max(_DIVIDED, width)
        x, y, type = self._value(atom.numerator, width), self._value(atom.denominator, width), f"i{width}"
        zero = self._emit("i1", f"icmp eq {type} {y}, 0")
        self._sizes.note(zero)
        safe = self._emit(type, f"select i1 {zero}, {type} 1, {type} {y}")
        quotient = self._emit(type, f"sdiv {type} {x}, {safe}")
        rest = self._emit(type, f"sub {type} {x}, {self._emit(type, f'mul {type} {quotient}, {safe}')}")
        signs = self._emit("i1", f"icmp slt {type} {self._emit(type, f'xor {type} {rest}, {safe}')}, 0")
        uneven = self._emit("i1", f"icmp ne {type} {rest}, 0")
        adjust = self._emit("i1", f"and i1 {signs}, {uneven}")
        if isinstance(atom, Mod):
            up = self._emit(type, f"add {type} {rest}, {safe}")
            return self._emit(type, f"select i1 {adjust}, {type} {up}, {type} {rest}"), width
        down = self._emit(type, f"sub {type} {quotient}, 1")
        return self._emit(type, f"select i1 {adjust}, {type} {down}, {type} {quotient}"), width

    def _rounded(self, value: str, width: int) -> str:
        """The nearest float64, ties to even: of the leading 64 bits, the last of which stands for all behind it."""
        if width == _WORD:
            return self._emit("double", f"sitofp i64 {value} to double")
        type = f"i{width}"
        negative = self._emit("i1", f"icmp slt {type} {value}, 0")
        opposite = self._emit(type, f"sub {type} 0, {value}")
        size = self._emit(type, f"select i1 {negative}, {type} {opposite}, {type} {value}")
        none = self._emit("i1", f"icmp eq {type} {size}, 0")
        zeros = self._emit(type, f"call {type} @llvm.ctlz.{type}({type} {size}, i1 false)")
        shift = self._emit(type, f"select i1 {none}, {type} 0, {type} {zeros}")
        leading = self._emit(type, f"shl {type} {size}, {shift}")
        top = self._emit("i64", f"trunc {type} {self._emit(type, f'lshr {type} {leading}, {width - _WORD}')} to i64")
        rest = self._emit(type, f"and {type} {leading}, {(1 << (width - _WORD)) - 1}")
        inexact = self._emit("i64", f"zext i1 {self._emit('i1', f'icmp ne {type} {rest}, 0')} to i64")
        sticky = self._emit("i64", f"or i64 {top}, {inexact}")
        fraction = self._emit("double", f"uitofp i64 {sticky} to double")
        # size == top * 2**(width - 64 - shift)
        known = self._emit("i64", f"trunc {type} {shift} to i64")
        exponent = self._emit("i64", f"sub i64 {width - _WORD}, {known}")
        if width - _WORD > _GREATEST_EXPONENT:
            most = f"call i64 @llvm.smin.i64(i64 {exponent}, i64 {_GREATEST_EXPONENT})"
            exponent = self._emit("i64", most)  # which takes every number of 64 bits to infinity
        biased = self._emit("i64", f"add i64 {exponent}, {_EXPONENT_BIAS}")
        scale = self._emit("double", f"bitcast i64 {self._emit('i64', f'shl i64 {biased}, {_FRACTION}')} to double")
        rounded = self._emit("double", f"fmul double {fraction}, {scale}")
        if width > _GREATEST_EXPONENT:
            self._sizes.note(self._emit("i1", f"fcmp oeq double {rounded}, 0x7FF0000000000000"))
        minus = self._emit("double", f"fneg double {rounded}")
        return self._emit("double", f"select i1 {negative}, double {minus}, double {rounded}")

    def _extended(self, value: str, width: int, wider: int) -> str:
        if width == wider or value.lstrip("-").isdecimal():
            return value
        return self._emit(f"i{wider}", f"sext i{width} {value} to i{wider}")

    def _emit(self, type: str, text: str) -> str:
        return self._function.emit(type, text).name


# ----------------------------------------------------------------------
# What the entry of every image has, whatever it runs then: sizes that it verifies, and the addresses of buffers.
#
# ``i32 jg_entry(host, call, buffers, dims)`` and ``i64 jg_arena_bytes(dims)`` as ``runtime/loader/abi.py`` documents
# them. Of ``buffers`` the inputs come first, by position, then the outputs, by position.

EXPORTS: Final = {"entry": "jg_entry", "arena_bytes": "jg_arena_bytes"}


def without_reuse(schedule: Schedule) -> MemoryPlan:
    """A plan for schedules without one: temporaries one after another."""
    offsets: dict[str, DimLike] = {}
    end: DimLike = 0
    for buffer in schedule.buffers:
        if buffer.role == "temporary":
            offsets[buffer.name] = end
            end = end + aligned(buffer.bytes, loader.ALIGNMENT)
    return MemoryPlan(offsets, end, end)


def emit_arena_bytes(module: LlvmModule, schedule: Schedule, arena_bytes: DimLike) -> None:
    """Emit the function that says how large the arena is; -1 where a size leaves 64 bits."""
    function = LlvmFunction(module, EXPORTS["arena_bytes"], "i64", linkage="", attributes="nounwind")
    sizes = Sizes(function, schedule.sizes, function.argument("ptr"))
    total = sizes.value(arena_bytes)
    function.ret(function.emit("i64", f"select i1 {sizes.overflow()}, i64 -1, i64 {total}"))
    function.finish()


class EntryWriter:
    """The entry function under construction.

    ``places`` are the addresses of buffers, of those that exchange their memory the ones at the beginning.
    """

    def __init__(self, module: LlvmModule, schedule: Schedule, plan: MemoryPlan) -> None:
        self.module, self.schedule, self.plan = module, schedule, plan
        self.function = LlvmFunction(module, EXPORTS["entry"], "i32", linkage="", attributes="nounwind")
        self.host, self.call, self.buffers, self.dims = (self.function.argument("ptr") for _ in range(4))
        self.sizes = Sizes(self.function, schedule.sizes, self.dims)
        self.exact = ExactSizes(self.sizes)
        self.places: dict[str, str] = {}
        self.exchanged: dict[str, LlvmValue] = {}  # where the addresses of buffers that exchange their memory stand

    def verify_sizes(self) -> None:
        """Leave where the sizes break a condition that kernels rely on, so that no reader can forget it.

        Its number is told: of a constraint its place, and behind them of a size that is negative its own.
        """
        function = self.function
        natural = [SizeConstraint(Dim.name(name), ">=", 0) for name in self.schedule.sizes]
        conditions = (*self.schedule.constraints, *natural)
        if not conditions:
            return
        checks = [self.exact.holds(c.left, c.relation, c.right) for c in conditions]
        number = str(len(checks))
        for index, holds in reversed(list(enumerate(checks))):
            number = function.emit("i32", f"select i1 {holds}, i32 {number}, i32 {index}").name
        refuse, stay = function.label("refuse"), function.label("stay")
        function.branch(function.emit("i1", f"icmp ne i32 {number}, {len(checks)}").name, refuse, stay, likely=False)
        function.start_block(refuse)
        at = function.emit("ptr", f"getelementptr i8, {self.call}, i64 {abi.CALL_ERROR_CHECK_ID}")
        function.do(f"store i32 {number}, {at}, align 4")
        function.ret(LlvmValue(str(loader.SIZES_REFUSED), "i32"))
        function.start_block(stay)
        self._compute_sizes()

    def _compute_sizes(self) -> None:
        """The numbers of sizes that kernels read; extents of arrays and loops that leave 64 bits are overflows."""
        for dim in (*self.schedule.extents, *extents_of(self.schedule)):
            if not stays_in_64_bits(dim):
                self.sizes.value(dim)
        for number in self.schedule.numbers:
            self.sizes.values[number.name] = self.exact.number(number)
        if (overflow := self.sizes.overflow()) != "false":
            self.leave_if(overflow, loader.SIZE_OVERFLOW)

    def bind_arguments(self) -> int:
        """The addresses of inputs and outputs; gives their number."""
        buffers = [
            buffer
            for role in ("input", "output")
            for buffer in sorted((b for b in self.schedule.buffers if b.role == role), key=lambda b: b.position)
        ]
        for index, buffer in enumerate(buffers):
            self.places[buffer.name] = self.argument_address(index)
        return len(buffers)

    def argument_address(self, index: int) -> str:
        """What stands at a place of the addresses that the caller gives."""
        address = self.function.emit("ptr", f"getelementptr ptr, {self.buffers}, i64 {index}")
        return self.function.emit("ptr", f"load ptr, {address}, align 8").name

    def bind_temporary(self, buffer: ScheduleBuffer, arena: LlvmValue) -> None:
        """The address of a temporary in the arena; CompileError where the plan has no place for it."""
        if buffer.name not in self.plan.offsets:
            raise CompileError(f"{self.schedule.name}: the memory plan has no place for {buffer.name}")
        offset = self.sizes.value(self.plan.offsets[buffer.name])
        self.places[buffer.name] = self.function.emit("ptr", f"getelementptr i8, {arena}, i64 {offset}").name

    def bind_exchanged(self) -> None:
        """Variables for the addresses of buffers that exchange their memory, which LLVM's passes lift to registers."""
        names = frozenset[str]().union(*exchanged_together(self.schedule.steps))
        for name in sorted(names):
            self.exchanged[name] = self.function.alloca("ptr", align=8)
            self.function.do(f"store ptr {self.places[name]}, {self.exchanged[name]}, align 8")

    def address(self, name: str) -> str:
        """Where a buffer lies as the code goes on from here."""
        if name not in self.exchanged:
            return self.places[name]
        return self.function.emit("ptr", f"load ptr, {self.exchanged[name]}, align 8").name

    def exchange(self, step: Exchange) -> None:
        """Each buffer takes the memory of the next one, and the last that of the first."""
        addresses = [self.address(name) for name in step.buffers]
        for name, address in zip(step.buffers, (*addresses[1:], addresses[0]), strict=True):
            self.function.do(f"store ptr {address}, {self.exchanged[name]}, align 8")

    def unless_in_place(self, launch: Launch, write: Callable[[], None]) -> None:
        """Write a launch; one that copies an input to the output that may be its memory is passed over where it is."""
        pair = copied(launch)
        if pair is None or self.plan.donations.get(pair[1]) != pair[0]:
            write()
            return
        function = self.function
        copy, after = function.label("copy"), function.label("after")
        source, target = map(self.address, pair)
        function.branch(function.emit("i1", f"icmp ne ptr {source}, {target}").name, copy, after)
        function.start_block(copy)
        write()
        function.jump(after)
        function.start_block(after)

    def leave_if(self, condition: str, code: int) -> None:
        """Return ``code`` where ``condition`` holds."""
        function = self.function
        leave, stay = function.label("leave"), function.label("stay")
        function.branch(condition, leave, stay, likely=False)
        function.start_block(leave)
        function.ret(LlvmValue(str(code), "i32"))
        function.start_block(stay)
