"""Scalar functions that numba compiles: their LLVM IR is run on numbers of a recording, so that it becomes ops.

Numba types the function and inlines what it calls; LLVM simplifies the result, without unrolling or vectors. What is
left, blocks of arithmetic with branches and loops between them, is recorded as a function of tensors of rank 0
(``llvm_programs.py``). So it fuses, differentiates, runs on GPUs and is saved as any other function, and math has the
bits of jitgraph's own. A double of the IR is a number of the dtype in which the op computes, as Python's floats are
beside tensors.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import struct
import threading
from collections.abc import Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import CompileError, UnsupportedOp
from jitgraph.tensor import Tensor
from jitgraph.transforms.llvm_programs import (
    EXIT,
    INTRINSICS,
    MATH,
    LlvmBlock,
    LlvmInstruction,
    LlvmProgram,
    Operand,
    location_of,
    plain_name,
)

_LOCK: Final = threading.Lock()


# ----------------------------------------------------------------------
# From a Python function to simplified LLVM IR, by numba.


def require_numba(name: str) -> Any:
    """numba; CompileError where it is not installed, or brings another LLVM than llvmlite's."""
    try:
        return importlib.import_module("numba")
    except ImportError as error:
        raise CompileError(
            f"{name}: numba, which is to compile the function, cannot be imported: {error}",
            hint='pip install "jitgraph[numba]", or leave compiler="numba" out',
        ) from error


def is_there() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def calls_compiled(function: Any) -> bool:
    """Whether a function calls one of numba's own, which takes no tensors."""
    if not isinstance(function, FunctionType):
        return False
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    names = [function.__globals__.get(name) for name in function.__code__.co_names]
    return any(hasattr(value, "py_func") and hasattr(value, "inspect_llvm") for value in (*cells, *names))


def outside_values(function: FunctionType, known: frozenset[FunctionType] = frozenset()) -> tuple[Any, ...]:
    """What a function and those that it calls read of globals and of enclosing functions.

    Code of the user's own file reads it. A trace sees that code run, and guards what it reads as it guards what any
    function of the user's reads.
    """
    names = [name for name in function.__code__.co_names if name in function.__globals__ and name.isidentifier()]
    cells = function.__code__.co_freevars
    listed = "".join(f"{name}, " for name in (*names, *cells))
    inner = f"def values_from_outside():\n        return ({listed})"
    source = f"def enclosing({', '.join(cells)}):\n    {inner}\n" if cells else inner.replace("    return", "return")
    code: Any = compile(source, function.__code__.co_filename, "exec")
    while code.co_name != "values_from_outside":
        code = next(const for const in code.co_consts if isinstance(const, CodeType))
    code = code.replace(co_firstlineno=function.__code__.co_firstlineno)
    own = dict(zip(cells, function.__closure__ or (), strict=True))
    closure = tuple(own[name] for name in code.co_freevars)
    values = FunctionType(code, function.__globals__, "values_from_outside", None, closure)()
    plain = []
    for value in values:
        if isinstance(value, Tensor):
            raise UnsupportedOp(
                f"{function.__name__}: numba compiles no function that reads a tensor from outside",
                location=location_of(function),
                hint="make it an argument",
            )
        kind = next((kind for kind in (bool, int, float) if isinstance(value, kind)), None)
        plain.append(value if kind is None else kind(value))  # a number that stands for others has to be this one
        called = getattr(value, "py_func", value)
        if isinstance(called, FunctionType) and called is not function and called not in known:
            plain += outside_values(called, known | {function})
    return tuple(plain)


def compiled(function: FunctionType, kinds: Sequence[DType]) -> LlvmProgram:
    """The IR of a function for numbers of these dtypes, floats being doubles; UnsupportedOp where numba refuses it."""
    name = function.__name__
    numba = require_numba(name)
    with _LOCK:
        try:
            text, result = _ir_of(numba, function, kinds)
        except numba.core.errors.NumbaError as error:
            reason = str(error).strip().splitlines()
            shown = next((line for line in reason if line.strip() and "Failed in" not in line), "it gives no reason")
            raise UnsupportedOp(
                f"{name}: numba cannot compile the function: {shown.strip():.300}",
                location=location_of(function),
                hint="compute with numbers alone, or use jg.custom_op for what only Python runs",
            ) from error
    return parsed(function, text, _result_kinds(numba, function, result))


def _ir_of(numba: Any, function: FunctionType, kinds: Sequence[DType]) -> tuple[str, Any]:
    llvm: Any = importlib.import_module("llvmlite.binding")
    config = numba.core.config
    types = tuple(numba.float64 if dtypes.is_float(kind) else numba.from_dtype(kind) for kind in kinds)
    before = config.OPT, config.LOOP_VECTORIZE, config.SLP_VECTORIZE
    config.OPT, config.LOOP_VECTORIZE, config.SLP_VECTORIZE = type(before[0])("0"), 0, 0
    try:
        dispatcher = _dispatcher(numba, function, {})
        dispatcher.compile(types)
    finally:
        config.OPT, config.LOOP_VECTORIZE, config.SLP_VECTORIZE = before
    (signature,) = dispatcher.signatures
    overload = dispatcher.overloads[signature]
    symbol = overload.fndesc.llvm_func_name
    module = llvm.parse_assembly(dispatcher.inspect_llvm(signature))
    for each in module.functions:
        if not each.is_declaration:
            each.linkage = "external" if each.name == symbol else "internal"
    machine = llvm.Target.from_triple(module.triple).create_target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(module.get_function(symbol)), overload.signature.return_type


def _dispatcher(numba: Any, function: FunctionType, known: dict[FunctionType, Any]) -> Any:
    """numba's form of a copy of the function, and of those that it calls: the user's own objects are left alone."""
    if function in known:
        return known[function]
    known[function] = None  # while what it calls is looked at

    def replaced(value: Any) -> Any:
        called = getattr(value, "py_func", value) if hasattr(value, "inspect_llvm") else value
        if not isinstance(called, FunctionType) or numba.extending.is_jitted(called):
            return value
        return _dispatcher(numba, called, known) or value

    names = {name for name in function.__code__.co_names if name in function.__globals__}
    own = {**function.__globals__, **{name: replaced(function.__globals__[name]) for name in sorted(names)}}
    cells = tuple(CellType(replaced(cell.cell_contents)) for cell in function.__closure__ or ())
    copy = FunctionType(function.__code__, own, function.__name__, function.__defaults__, cells)
    known[function] = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(copy)
    return known[function]


def _result_kinds(numba: Any, function: FunctionType, result: Any) -> list[tuple[DType | None, int]]:
    """For each result its dtype, None for the double that the op computes in, and where it is stored."""
    members = list(result.types) if isinstance(result, numba.types.BaseTuple) else [result]
    kinds: list[tuple[DType | None, int]] = []
    offset = 0
    for member in members:
        if isinstance(member, numba.types.Literal):
            member = member.literal_type
        if not isinstance(member, numba.types.Boolean | numba.types.Integer | numba.types.Float):
            raise UnsupportedOp(
                f"{function.__name__}: numba says that the function gives {member}, which is no number of an op",
                location=location_of(function),
                hint="a bool, an int or a float on every path, or a tuple of them",
            )
        dtype = dtypes.bool_ if isinstance(member, numba.types.Boolean) else dtypes.canonical(str(member))
        size = dtype.itemsize
        offset = -(-offset // size) * size
        kinds.append((None if dtype == dtypes.float64 else dtype, offset))
        offset += size
    return kinds


# ----------------------------------------------------------------------
# The text of the IR as a program.

_NAME: Final = r'%(?:[\w.$-]+|"[^"]*")'
_LABEL: Final = re.compile(r'([\w.$-]+|"[^"]*"):')
_FLAGS: Final = (
    r"(?:(?:nuw|nsw|nneg|exact|disjoint|samesign|inbounds|tail|musttail|notail|nnan|ninf|nsz|arcp|contract|afn"
    r"|reassoc|fast) )*"
)
_BINARY: Final = re.compile(
    rf"(fadd|fsub|fmul|fdiv|frem|add|sub|mul|sdiv|udiv|srem|urem|shl|lshr|ashr|and|or|xor) {_FLAGS}(\w+) (\S+), (\S+)"
)
_COMPARE: Final = re.compile(rf"([if]cmp) {_FLAGS}(\w+) (\w+) (\S+), (\S+)")
_SELECT: Final = re.compile(rf"select {_FLAGS}i1 (\S+), (\w+) (\S+), \w+ (\S+)")
_CAST: Final = re.compile(
    rf"(zext|sext|trunc|fptrunc|fpext|sitofp|uitofp|fptosi|fptoui|bitcast) {_FLAGS}(\w+) (\S+) to (\w+)"
)
_UNARY: Final = re.compile(rf"(fneg|freeze) {_FLAGS}(\w+) (\S+)")
_CALL: Final = re.compile(rf"{_FLAGS}call {_FLAGS}(\w+) @([\w.$]+)\((.*)\)")
_PHI: Final = re.compile(rf"phi {_FLAGS}(\w+) (.*)")
_STORE: Final = re.compile(r"store (\w+) (\S+), ptr ([^\s,]+)")
_TUPLE: Final = r"(?:\{[^}]*\}|\[[^\]]*\])"
_INSERT: Final = re.compile(rf"insertvalue {_TUPLE} ({_TUPLE}|\S+), (\w+) (\S+), (\d+)")
_STORE_TUPLE: Final = re.compile(rf"store {_TUPLE} ({_TUPLE}|{_NAME}), ptr %retptr\b")
_OFFSET: Final = re.compile(rf"getelementptr {_FLAGS}i8, ptr (\S+), i64 (\d+)")


def parsed(function: FunctionType, text: str, results: Sequence[tuple[DType | None, int]]) -> LlvmProgram:
    """The definition of a function in LLVM IR, as numba writes it: ``i32 f(ptr %retptr, ptr %excinfo, numbers)``.

    UnsupportedOp for what is no arithmetic of numbers.
    """
    return _LlvmReader(function, text, results).program()


class _LlvmReader:
    def __init__(self, function: FunctionType, text: str, results: Sequence[tuple[DType | None, int]]) -> None:
        self._function = function
        self._text = text
        self._results = results
        self._pointers = {"%retptr": 0}
        self._tuples: dict[str, dict[int, tuple[str, Operand]]] = {}  # results that are put together before the store

    def program(self) -> LlvmProgram:
        head, _, body = self._text.partition("{\n")
        parameters = re.findall(rf"(\w+)(?: [a-z_]+(?:\([^)]*\))*)* ({_NAME})(?=[,)])", head[head.index("(ptr") :])
        plain = [(name, type) for type, name in parameters if name not in ("%retptr", "%excinfo")]
        blocks: dict[str, LlvmBlock] = {}
        block: LlvmBlock | None = None
        lines = re.sub(r"\n\s*(?=i\d+ [^\n]*, label|\])", " ", body).splitlines()  # a switch on one line
        for raw in lines:
            line = raw.partition("; preds")[0].partition(", !")[0].strip()
            if not line or line.startswith((";", "}")):
                continue
            if label := _LABEL.fullmatch(line):
                name = label[1].strip('"')
                block = blocks[name] = LlvmBlock(name)
            else:
                assert block is not None
                self._line(block, line)
        _split_switches(blocks)
        return LlvmProgram(self._function, tuple(plain), blocks, next(iter(blocks)), tuple(self._results))

    def refuse(self, what: str) -> UnsupportedOp:
        return UnsupportedOp(
            f"{self._function.__name__}: what numba made of the function {what}, which is no arithmetic of numbers",
            location=location_of(self._function),
            hint="compute with numbers alone: no arrays, strings, containers, prints or raise",
        )

    def _line(self, block: LlvmBlock, line: str) -> None:
        result, _, rest = line.partition(" = ") if line.startswith("%") else ("", "", line)
        if rest.startswith("br "):
            labels = [name.strip('"') for name in re.findall(r'label %([\w.$-]+|"[^"]*")', rest)]
            test = re.match(r"br i1 (\S+),", rest)
            block.successors = (
                [(_operand(test[1], "i1"), labels[0]), (None, labels[1])] if test else [(None, labels[0])]
            )
        elif rest.startswith("switch "):
            self._switch(block, rest)
        elif rest.startswith("ret "):
            if rest != "ret i32 0":
                raise self.refuse("may raise an exception")
            block.successors = [(None, EXIT)]
        elif match := _PHI.match(rest):
            pairs = re.findall(r'\[ ([^,]+), %([\w.$-]+|"[^"]*") \]', match[2])
            values = {pred.strip('"'): _operand(value, match[1]) for value, pred in pairs}
            block.phis[result] = match[1], values
        elif match := _STORE.match(rest):
            self._store(block, match)
        elif match := _INSERT.match(rest):
            self._tuples[result] = {**self._members(match[1]), int(match[4]): (match[2], _operand(match[3], match[2]))}
        elif match := _STORE_TUPLE.match(rest):
            for number, (type, value) in self._members(match[1]).items():
                slot = f"%result@{self._results[number][1]}"
                block.instructions.append(LlvmInstruction(slot, "copy", type, type, (value,)))
        elif match := _OFFSET.match(rest):
            if match[1] not in self._pointers:
                raise self.refuse("uses memory")
            self._pointers[result] = self._pointers[match[1]] + int(match[2])
        else:
            block.instructions.append(self._instruction(result, rest))

    def _members(self, text: str) -> dict[int, tuple[str, Operand]]:
        """The types and values of a tuple that is a variable, or constant but for what is put into it later."""
        if text[0] not in "{[":
            return self._tuples.get(text, {})
        members = enumerate(re.findall(r"(\w+) ([^\s,}\]]+)", text))
        return {number: (type, _operand(value, type)) for number, (type, value) in members}

    def _switch(self, block: LlvmBlock, rest: str) -> None:
        head = re.match(r'switch (\w+) (\S+), label %([\w.$-]+|"[^"]*") \[(.*)\]', rest)
        assert head is not None, rest
        cases = re.findall(r'\w+ (\S+), label %([\w.$-]+|"[^"]*")', head[4])
        for number, (value, label) in enumerate(cases):
            test = f"%{block.name}.case{number}"
            operands = (_operand(head[2], head[1]), _operand(value, head[1]))
            block.instructions.append(LlvmInstruction(test, "icmp", "i1", head[1], operands, "eq"))
            block.successors.append((test, label.strip('"')))
        block.successors.append((None, head[3].strip('"')))

    def _store(self, block: LlvmBlock, match: re.Match[str]) -> None:
        if match[3] not in self._pointers:
            raise self.refuse("may raise an exception" if match[3] == "%excinfo" else "uses memory")
        slot = f"%result@{self._pointers[match[3]]}"
        block.instructions.append(LlvmInstruction(slot, "copy", match[1], match[1], (_operand(match[2], match[1]),)))

    def _instruction(self, result: str, rest: str) -> LlvmInstruction:
        if match := _BINARY.match(rest):
            operands = tuple(_operand(text, match[2]) for text in (match[3], match[4]))
            return LlvmInstruction(result, match[1], match[2], match[2], operands)
        if match := _COMPARE.match(rest):
            operands = tuple(_operand(text, match[3]) for text in (match[4], match[5]))
            return LlvmInstruction(result, match[1], "i1", match[3], operands, match[2])
        if match := _SELECT.match(rest):
            operands = (_operand(match[1], "i1"), *(_operand(text, match[2]) for text in (match[3], match[4])))
            return LlvmInstruction(result, "select", match[2], match[2], operands)
        if match := _CAST.match(rest):
            return LlvmInstruction(result, match[1], match[4], match[2], (_operand(match[3], match[2]),))
        if match := _UNARY.match(rest):
            return LlvmInstruction(result, match[1], match[2], match[2], (_operand(match[3], match[2]),))
        if match := _CALL.match(rest):
            arguments = re.findall(r"(\w+)(?: [a-z_]+)* ([^\s,]+)(?:, |$)", match[3])
            operands = tuple(_operand(text, type) for type, text in arguments)
            if match[2] not in INTRINSICS and plain_name(match[2]) not in MATH:
                raise self.refuse(f"calls {match[2]:.60}")
            source = arguments[0][0] if arguments else match[1]
            return LlvmInstruction(result, "call", match[1], source, operands, match[2])
        raise self.refuse(f"has the instruction {rest.split(' ')[0]!r:.40}")


def _operand(text: str, type: str) -> Operand:
    """A variable by its name, or a Python number."""
    text = text.rstrip(",")
    if text.startswith("%"):
        return text
    if text in ("true", "false"):
        return text == "true"
    if text in ("poison", "undef", "zeroinitializer", "null"):
        return 0.0 if type in ("double", "float", "half") else type == "i0"
    if type in ("double", "float", "half"):
        if text.startswith("0x"):
            return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
        return float(text)
    return int(text)


def _split_switches(blocks: dict[str, LlvmBlock]) -> None:
    """Blocks that go one of two ways alone; a block between them has its predecessor's name in phis."""
    for block in list(blocks.values()):
        source, rest = block, block.successors
        number = 0
        while len(rest) > 2:
            number += 1
            name = f"{block.name}.else{number}"
            source.successors = [rest[0], (None, name)]
            rest = rest[1:]
            source = blocks[name] = LlvmBlock(name, successors=rest)
            for _, label in rest:
                if label in blocks:
                    for _, values in blocks[label].phis.values():
                        if block.name in values:
                            values[name] = values[block.name]
