"""Runs a saved jitgraph model with NumPy and the standard library alone: ``loader.load("model.jg")(x)``.

This file needs nothing beside it: copied next to a model it works under ``python -I``. It EXECUTES THE NATIVE CODE IN
THE FILE, so load only files whose origin you trust; what is checked (hashes, sizes, offsets, shapes, dtypes) guards
against damage and mistakes, not against a file written to attack you.

In the order of reading: errors; the ABI (structures shared with native code); sizes and signatures; memory; the flat
image; the processor's level; threads; the entry, which is one native function with its signature; the artifact.

The ABI
-------
``int32 entry(const jg_host *host, jg_call *call, void *const *buffers, const int64_t *dims)`` returns ``OK`` or one of
the codes below. ``buffers`` holds the inputs in signature order, then the state, then the outputs. Inputs are dense,
row-major and aligned to their element (not more); outputs and the arena are aligned to 64 bytes. ``dims`` holds the
named sizes in signature order. ``int64 arena_bytes(const int64_t *dims)`` gives the workspace, the calling thread's
scratch memory included, negative where a size leaves 64 bits. Output ``o`` has the address of input ``i`` only where
``(o, i)`` stands in ``aliases`` and the caller donates ``i``.

The entry verifies what its kernels rely on: before it reads a buffer it evaluates the constraints of the graph over
``dims`` and returns ``SIZES_REFUSED`` where one does not hold, with its number in ``error.check_id``: the place of the
constraint in the signature, or behind the constraints the place of a size that is negative. (New in ABI 3.)

Interruption: long loops of the calling thread ask ``host.poll(host)`` about every 50 ms by the cycle counter
(``jg_poll`` of the native runtime) and return ``INTERRUPTED`` where it gives nonzero. No poll may stand behind the
first write to a donated buffer. ``poll`` runs the handlers of pending signals (``_Guarded``); what one raises is kept,
and raised when the call has returned. Chunks of a parallel loop ask too where the calling thread runs them.

Printing: where the program prints, the calling thread puts the number of the print and the addresses of its operands
into ``call.print_site`` and ``call.print_operands`` and calls ``host.print(host, call)``, which writes the text that
the signature holds under that number; nonzero ends the call with that code, and where the slot is NULL nothing is
printed. No print may stand behind the first write to a donated buffer. (New in ABI 4.)
"""

from __future__ import annotations

import ast
import atexit
import ctypes
import mmap
import os
import platform
import stat
import struct
import sys
import threading
import weakref
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


# --- errors ---------------------------------------------------------------------------------------------------------


class JitgraphError(Exception):
    """Every error of jitgraph derives from this."""


class LoadError(JitgraphError):
    """A file that is not a sound jitgraph artifact, or that this machine cannot run."""


class ArgumentError(JitgraphError, ValueError):
    """An argument whose dtype, rank or size the compiled function does not take."""


class CheckError(JitgraphError):
    """A check inside compiled code failed; the class raised also derives from the built-in error that it stands for."""


CHECK_KINDS: Final[Mapping[str, type[CheckError]]] = {
    kind.__name__: type(f"Check{kind.__name__}", (CheckError, kind), {"__module__": __name__, "__doc__": kind.__doc__})
    for kind in (
        ArithmeticError,
        AssertionError,
        FloatingPointError,
        IndexError,
        OverflowError,
        RuntimeError,
        TypeError,
        UnboundLocalError,
        ValueError,
        ZeroDivisionError,
    )
}
globals().update({kind.__name__: kind for kind in CHECK_KINDS.values()})  # pickle finds a class by its name


# --- the ABI: structures shared with native code --------------------------------------------------------------------

ABI_VERSION: Final = 4

OK: Final = 0
CHECK_FAILED: Final = 1
INTERRUPTED: Final = 2
OUT_OF_MEMORY: Final = 3
SIZE_OVERFLOW: Final = 4
CALLBACK_FAILED: Final = 5
SIZES_REFUSED: Final = 6
CODE_NAMES: Final = (
    "ok", "check failed", "interrupted", "out of memory", "size overflow", "callback failed", "sizes refused"
)  # fmt: skip

ALIGNMENT: Final = 64
SCRATCH_BYTES: Final = 2 << 20
"""Memory that each thread of a pool has for the chunk that it runs; what is not touched takes no room."""


class Host(ctypes.Structure):
    """``jg_host``: what native code may ask of the process. Read-only to it; each slot but the first may be NULL."""

    _fields_ = [
        ("abi_version", ctypes.c_int64),
        ("alloc", ctypes.c_void_p),  # void *alloc(size_t bytes): malloc itself; NULL on failure
        ("free", ctypes.c_void_p),  # void free(void *)
        ("parallel_for", ctypes.c_void_p),  # a host's own scheduler, see pool.py; NULL: the pool below
        ("poll", ctypes.c_void_p),  # int32 poll(const jg_host *): nonzero asks the call to stop
        ("syscall", ctypes.c_void_p),  # long syscall(long, ...) of libc, for futexes
        ("pool", ctypes.c_void_p),  # jg_pool *; NULL: everything runs on the calling thread
        ("callback", ctypes.c_void_p),  # int32 callback(host, call, int64 id, void *const *buffers, const int64 *dims)
        ("driver", ctypes.c_void_p),  # table of the accelerator's driver functions
        ("print", ctypes.c_void_p),  # int32 print(const jg_host *, jg_call *): what call.print_site numbers
        ("reserved", ctypes.c_int64 * 6),
    ]
    abi_version: int
    alloc: int | None
    free: int | None
    parallel_for: int | None
    poll: int | None
    syscall: int | None
    pool: int | None
    callback: int | None
    driver: int | None
    print: int | None


class ErrorRecord(ctypes.Structure):
    """Which check failed: ``index`` was asked for where ``bound`` is the limit; ``order`` is the chunk that failed.

    Of several chunks that fail at once the lowest ``order`` stays, so the report does not depend on the threads.
    """

    _fields_ = [
        ("code", ctypes.c_int32),
        ("check_id", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("bound", ctypes.c_int64),
        ("order", ctypes.c_int64),
        ("lock", ctypes.c_int32),
        ("pad", ctypes.c_int32),
    ]
    code: int
    check_id: int
    index: int
    bound: int
    order: int


class Call(ctypes.Structure):
    """``jg_call``: what belongs to one running call; checked out of a free list, so calls may overlap and re-enter."""

    _fields_ = [
        ("arena", ctypes.c_void_p),  # aligned to 64 bytes: scratch memory of the calling thread, then temporaries
        ("arena_bytes", ctypes.c_int64),
        ("blocks", ctypes.c_void_p),  # list of Block: residual stacks; the host frees it after the call
        ("stream", ctypes.c_void_p),
        ("last_poll", ctypes.c_int64),  # cycle counter at the last poll; 0: none yet
        ("error", ErrorRecord),
        ("print_site", ctypes.c_int64),  # which of the signature's prints is asked for
        ("print_operands", ctypes.c_void_p),  # void *const *: the data of its operands, dense and row-major
        ("reserved", ctypes.c_int64 * 4),
    ]
    arena: int | None
    arena_bytes: int
    blocks: int | None
    stream: int | None
    last_poll: int
    error: ErrorRecord
    print_site: int
    print_operands: int


class Block(ctypes.Structure):
    """Header of one block of a call's growable stacks, 64 bytes; the payload follows."""

    _fields_ = [("next", ctypes.c_void_p), ("base", ctypes.c_void_p), ("bytes", ctypes.c_int64)]
    next: int | None
    base: int  # what alloc gave and free takes


class PoolState(ctypes.Structure):
    """``jg_pool``: the state of the thread pool, a cache line for each group of fields; see codegen/llvm/pool.py."""

    _fields_ = [
        ("busy", ctypes.c_int32),  # 1 while some call runs its chunks on the pool
        ("stop", ctypes.c_int32),  # 1: workers return
        ("workers", ctypes.c_int32),  # threads beside the caller
        ("pad0", ctypes.c_int32),
        ("syscall", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),  # SCRATCH_BYTES for each worker, aligned to 64 bytes
        ("hired", ctypes.c_int64),  # workers that took their part of it
        ("pad1", ctypes.c_int64 * 3),
        ("epoch", ctypes.c_int32),  # futex: grows with each job
        ("sleepers", ctypes.c_int32),
        ("pad2", ctypes.c_int64 * 7),
        ("function", ctypes.c_void_p),  # the job
        ("context", ctypes.c_void_p),
        ("chunks", ctypes.c_int64),
        ("open", ctypes.c_int32),  # 1 while workers may join the job
        ("pad3", ctypes.c_int32),
        ("pad4", ctypes.c_int64 * 4),
        ("next", ctypes.c_int64),  # the next chunk to claim
        ("pad5", ctypes.c_int64 * 7),
        ("entered", ctypes.c_int32),  # futex: workers that are inside a job
        ("waiting", ctypes.c_int32),  # 1 while the caller sleeps on entered
        ("pad6", ctypes.c_int64 * 7),
        ("failure", ctypes.c_uint64),  # lowest (chunk << 32 | code) that failed; all ones: none
        ("pad7", ctypes.c_int64 * 7),
    ]
    busy: int
    stop: int
    workers: int
    syscall: int | None
    scratch: int | None
    epoch: int
    failure: int


def _offset(structure: type[ctypes.Structure], name: str) -> int:
    return int(getattr(structure, name).offset)


HOST_ALLOC: Final = _offset(Host, "alloc")
HOST_FREE: Final = _offset(Host, "free")
HOST_PARALLEL_FOR: Final = _offset(Host, "parallel_for")
HOST_POLL: Final = _offset(Host, "poll")
HOST_SYSCALL: Final = _offset(Host, "syscall")
HOST_POOL: Final = _offset(Host, "pool")
HOST_CALLBACK: Final = _offset(Host, "callback")
HOST_DRIVER: Final = _offset(Host, "driver")
HOST_PRINT: Final = _offset(Host, "print")
CALL_ARENA: Final = _offset(Call, "arena")
CALL_ARENA_BYTES: Final = _offset(Call, "arena_bytes")
CALL_BLOCKS: Final = _offset(Call, "blocks")
CALL_STREAM: Final = _offset(Call, "stream")
CALL_LAST_POLL: Final = _offset(Call, "last_poll")
CALL_PRINT_SITE: Final = _offset(Call, "print_site")
CALL_PRINT_OPERANDS: Final = _offset(Call, "print_operands")
CALL_ERROR_CODE: Final = _offset(Call, "error") + _offset(ErrorRecord, "code")
CALL_ERROR_CHECK_ID: Final = _offset(Call, "error") + _offset(ErrorRecord, "check_id")
CALL_ERROR_INDEX: Final = _offset(Call, "error") + _offset(ErrorRecord, "index")
CALL_ERROR_BOUND: Final = _offset(Call, "error") + _offset(ErrorRecord, "bound")
CALL_ERROR_ORDER: Final = _offset(Call, "error") + _offset(ErrorRecord, "order")
CALL_ERROR_LOCK: Final = _offset(Call, "error") + _offset(ErrorRecord, "lock")
BLOCK_NEXT: Final = _offset(Block, "next")
BLOCK_BASE: Final = _offset(Block, "base")
BLOCK_BYTES: Final = _offset(Block, "bytes")
POOL_BUSY: Final = _offset(PoolState, "busy")
POOL_STOP: Final = _offset(PoolState, "stop")
POOL_WORKERS: Final = _offset(PoolState, "workers")
POOL_SYSCALL: Final = _offset(PoolState, "syscall")
POOL_SCRATCH: Final = _offset(PoolState, "scratch")
POOL_HIRED: Final = _offset(PoolState, "hired")
POOL_EPOCH: Final = _offset(PoolState, "epoch")
POOL_SLEEPERS: Final = _offset(PoolState, "sleepers")
POOL_FUNCTION: Final = _offset(PoolState, "function")
POOL_CONTEXT: Final = _offset(PoolState, "context")
POOL_CHUNKS: Final = _offset(PoolState, "chunks")
POOL_OPEN: Final = _offset(PoolState, "open")
POOL_NEXT: Final = _offset(PoolState, "next")
POOL_ENTERED: Final = _offset(PoolState, "entered")
POOL_WAITING: Final = _offset(PoolState, "waiting")
POOL_FAILURE: Final = _offset(PoolState, "failure")

_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_ARENA_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_WORKER_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_ASKED_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32)  # what it is given it need not look at
_CALLBACK_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


def _find_libc() -> Any:
    """The C library with all that native code is mapped, fed and called by; None where the system has no such one."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
        ]  # fmt: skip
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        libc.aligned_alloc.restype = ctypes.c_void_p
        libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        libc.free.restype = None
        libc.free.argtypes = [ctypes.c_void_p]
        _ = libc.malloc, libc.syscall
    except (OSError, TypeError, AttributeError):  # as Windows refuses, whose libraries all have names
        return None
    return libc


_libc = _find_libc()


def _address(function: Any) -> int:
    """The address of a C function that ctypes knows."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


# --- sizes ----------------------------------------------------------------------------------------------------------

_INT64_MAX: Final = 2**63 - 1
_MAX_EXPRESSION: Final = 4096
_MAX_DEPTH: Final = 256  # of a size as a tree; what evaluates it recurses
_MAX_RANK: Final = 64  # NumPy's own limit

_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[int, int], bool]]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def _in_int64(value: int, text: str) -> int:
    if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise ArgumentError(f"the size {text[:80]!r} leaves 64 bits ({value.bit_length()} bits); use smaller arguments")
    return value


class Expression:
    """A size such as ``2*batch + 1`` or ``(n + 1)//2``: ints, names and ``+ - * // %``, in 64 bits throughout."""

    __slots__ = ("names", "text", "tree")

    def __init__(self, text: str) -> None:
        """Parse ``text``; LoadError where anything else stands in it."""
        self.text = text
        self.tree = _parse_expression(text)
        self.names = frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        _verify_size(self.tree, text)

    def evaluate(self, dims: Mapping[str, int]) -> int:
        """The value for these sizes; ArgumentError where it leaves 64 bits or divides by zero."""
        return _evaluate(self.tree, dims, self.text)


class Constraint(Expression):
    """A comparison of two sizes, such as ``batch >= 2``; ``evaluate`` gives 1 where it holds, else 0."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        """Parse ``text``; LoadError where it is not one comparison of two sizes."""
        self.text = text
        self.tree = _parse_expression(text)
        self.names = frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        tree = self.tree
        if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARISONS):
            raise LoadError(f"{text[:80]!r} is not a constraint; expected one comparison, such as 'a == b'")
        _verify_size(tree.left, text)
        _verify_size(tree.comparators[0], text)


def _parse_expression(text: str) -> ast.expr:
    if len(text) > _MAX_EXPRESSION:
        raise LoadError(f"a size of {len(text)} characters; at most {_MAX_EXPRESSION} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LoadError(f"{text[:80]!r} is not a size; expected names, ints and + - * // %") from None
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_DEPTH):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise LoadError(f"{text[:80]!r} is not a size: it is nested more than {_MAX_DEPTH} deep")


def _verify_size(node: ast.expr, text: str) -> None:
    for inner in ast.walk(node):
        match inner:
            case ast.Name() | ast.Load() | ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod() | ast.USub():
                pass
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
                pass
            case ast.UnaryOp(op=ast.USub()):
                pass
            case ast.Constant(value=value) if type(value) is int:
                pass
            case _:
                raise LoadError(f"{text[:80]!r} is not a size: only names, ints and + - * // % may stand in one")


def _evaluate(node: ast.expr, dims: Mapping[str, int], text: str) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return _in_int64(value, text)
        case ast.Name(id=name):
            return dims[name]
        case ast.UnaryOp(operand=operand):
            return _in_int64(-_evaluate(operand, dims, text), text)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return int(_COMPARISONS[type(op)](_evaluate(left, dims, text), _evaluate(right, dims, text)))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, dims, text), _evaluate(right, dims, text)
            match op:
                case ast.Add():
                    return _in_int64(a + b, text)
                case ast.Sub():
                    return _in_int64(a - b, text)
                case ast.Mult():
                    return _in_int64(a * b, text)
            if b == 0:
                raise ArgumentError(f"the size {text[:80]!r} divides by zero")
            return _in_int64(a // b if isinstance(op, ast.FloorDiv) else a % b, text)
    raise LoadError(f"{text[:80]!r} is not a size")


# --- dtypes ---------------------------------------------------------------------------------------------------------


def _bfloat16() -> np.dtype[Any]:
    """ml_dtypes' bfloat16 where that package can be imported, else uint16 holding the same bits."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


_PLAIN_DTYPES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
)  # fmt: skip
DTYPE_NAMES: Final = (*_PLAIN_DTYPES, "bfloat16")

_SAFETENSORS_DTYPES: Final[Mapping[str, str]] = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip


def dtype_named(name: str) -> np.dtype[Any]:
    """The NumPy dtype called ``name``; bfloat16 is uint16 with the same bits where ml_dtypes is not installed."""
    if name == "bfloat16":
        return _bfloat16()
    if name not in _PLAIN_DTYPES:
        raise LoadError(f"dtype {name!r} is not supported; one of {', '.join(DTYPE_NAMES)}")
    return np.dtype(name)


# --- JSON read with suspicion ---------------------------------------------------------------------------------------

Json: TypeAlias = Any
_MAX_JSON: Final = 16 << 20  # bytes: of the manifest, and of the header of the weights
_MAX_JSON_VALUES: Final = 1 << 20  # roughly; each costs about a hundred bytes once it is read


def _no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return found


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _parse_json(data: bytes, where: str) -> dict[str, Json]:
    if len(data) > _MAX_JSON:
        raise LoadError(f"{where} is {len(data)} bytes long, more than the {_MAX_JSON} allowed")
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MAX_JSON_VALUES:
        raise LoadError(f"{where} has more than {_MAX_JSON_VALUES} values; save the model again")
    import json  # here, as hashlib below: a process that reads no artifact does not wait for them

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{where} is not sound JSON: {error}; save the model again") from None
    if not isinstance(value, dict):
        raise LoadError(f"{where} is not a JSON object but a {type(value).__name__}; save the model again")
    return value


def _get(source: Json, key: str, kind: type | tuple[type, ...], where: str, default: Json = None) -> Json:
    """``source[key]`` of type ``kind``, or ``default``; LoadError where it is missing or of another type."""
    if not isinstance(source, dict):
        raise LoadError(f"{where} is not a JSON object but a {type(source).__name__}")
    if key not in source:
        if default is None:
            raise LoadError(f"{where} lacks {key!r}; the file is damaged or from another writer")
        return default
    value = source[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        expected = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise LoadError(f"{where}: {key!r} is {value!r:.60}, expected {expected}")
    return value


# --- signatures -----------------------------------------------------------------------------------------------------

Size: TypeAlias = "int | str"
Template: TypeAlias = Any
"""Structure of a result in JSON: an int is an output's index, None is None, ``{"tuple": [...]}``, ``{"list": [...]}``,
``{"dict": {...}}`` nest, ``{"value": v}`` is a constant bool, int, float or str."""


@dataclass(frozen=True)
class TensorSpec:
    """A named tensor: ``shape`` holds ints and expression texts. ``default`` is the value of a 0-d input left out."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    default: bool | int | float | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        plain: dict[str, Json] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        return plain if self.default is None else {**plain, "default": self.default}

    @staticmethod
    def from_json(source: Json, where: str) -> TensorSpec:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        name = _get(source, "name", str, where)
        shape = _get(source, "shape", list, where)
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, (int, str)):
                raise LoadError(f"{where}: {size!r:.60} is no size of {name!r}; expected an int or a text")
        default = _get(source, "default", (bool, int, float), where) if "default" in source else None
        dtype = _get(source, "dtype", str, where)
        if default is not None and dtype in DTYPE_NAMES and not _holds(dtype, default):
            raise LoadError(f"{where}: {name!r} has a default that {dtype} cannot hold")
        return TensorSpec(name, dtype, tuple(shape), default)


@dataclass(frozen=True)
class StateSpec(TensorSpec):
    """A tensor of the model's own state, kept in the weights under ``key``."""

    key: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {**super().to_json(), "key": self.key}

    @staticmethod
    def from_json(source: Json, where: str) -> StateSpec:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        plain = TensorSpec.from_json(source, where)
        return StateSpec(plain.name, plain.dtype, plain.shape, key=_get(source, "key", str, where))


@dataclass(frozen=True)
class Check:
    """A check inside the native code: ``{index}`` and ``{bound}`` in the message are filled in when it fails."""

    message: str
    kind: str = "ValueError"
    location: str = ""


PRINT_STYLES: Final = ("array", "tensor", "leaf", "number")
"""How an operand of a print looks: as NumPy prints it, as a tensor does, as a tensor that requires a gradient does, as
the Python number does that the 0-d operand holds."""

_CONVERSIONS: Final = ("", "r", "s")
_STREAMS: Final = ("stdout", "stderr")
_MAX_FORM: Final = 64


@dataclass(frozen=True)
class PrintOperand(TensorSpec):
    """A tensor that is printed: ``conversion`` and ``form`` are what stands in braces, as in ``{!r:>20}``."""

    style: str = "array"
    conversion: str = ""
    form: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {**super().to_json(), "style": self.style, "conversion": self.conversion, "form": self.form}

    @staticmethod
    def from_json(source: Json, where: str) -> PrintOperand:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        plain = TensorSpec.from_json(source, where)
        style, conversion, form = (_get(source, key, str, where) for key in ("style", "conversion", "form"))
        return PrintOperand(plain.name, plain.dtype, plain.shape, style=style, conversion=conversion, form=form)


@dataclass(frozen=True)
class Print:
    """A print inside the native code: the texts before, between and behind its operands, and where they go."""

    texts: tuple[str, ...]
    operands: tuple[PrintOperand, ...] = ()
    stream: str = "stdout"
    flush: bool = False
    location: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        operands = [operand.to_json() for operand in self.operands]
        return {**vars(self), "texts": list(self.texts), "operands": operands}

    @staticmethod
    def from_json(source: Json, where: str) -> Print:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        texts = _get(source, "texts", list, where)
        if not all(isinstance(text, str) for text in texts):
            raise LoadError(f"{where}: 'texts' holds something that is not a text")
        return Print(
            texts=tuple(texts),
            operands=tuple(PrintOperand.from_json(operand, where) for operand in _get(source, "operands", list, where)),
            stream=_get(source, "stream", str, where),
            flush=_get(source, "flush", bool, where),
            location=_get(source, "location", str, where),
        )

    def verify(self, where: str) -> None:
        """LoadError where the parts do not fit together."""
        if len(self.texts) != len(self.operands) + 1 or self.stream not in _STREAMS:
            raise LoadError(f"{where}: {len(self.texts)} texts around {len(self.operands)} operands to {self.stream!r}")
        for operand in self.operands:
            dtype_named(operand.dtype)
            if operand.style not in PRINT_STYLES or operand.conversion not in _CONVERSIONS:
                raise LoadError(f"{where}: {operand!r:.120} has no known style or conversion")
            whole = operand.shape and not operand.conversion
            number = operand.shape and operand.style == "number"
            if len(operand.form) > _MAX_FORM or (operand.form and whole) or number:
                raise LoadError(f"{where}: the format {operand.form!r:.80} of a tensor of rank {len(operand.shape)}")

    def write(self, arrays: Sequence[Array]) -> None:
        """Write the text for these values of the operands to where ``print`` would write it now."""
        stream = sys.stderr if self.stream == "stderr" else sys.stdout
        parts = [self.texts[0]]
        for operand, array, text in zip(self.operands, arrays, self.texts[1:], strict=True):
            parts += [print_text(array, operand), text]
        if stream is None:  # a process without a console
            return
        stream.write("".join(parts))
        if self.flush:
            stream.flush()


def tensor_text(array: Array, dtype: str, requires_grad: bool = False) -> str:
    """How a tensor prints."""
    text = np.array2string(array, separator=", ", prefix="Tensor(")
    return f"Tensor({text}, dtype={dtype}{', requires_grad=True' if requires_grad else ''})"


def print_text(array: Array, operand: PrintOperand) -> str:
    """The text of one operand; ValueError for a format that does not fit its value."""
    if array.dtype == np.uint16 and operand.dtype == "bfloat16":  # the same bits, where ml_dtypes is not installed
        array = (array.astype(np.uint32) << 16).view(np.float32).reshape(array.shape)
    if operand.style == "number":
        text = repr(array.item())
    elif operand.style == "array":
        text = np.array2string(array, threshold=1000)
    else:
        text = tensor_text(array, operand.dtype, operand.style == "leaf")
    if operand.form and not operand.conversion:
        return format(array.item(), operand.form)
    return format(text, operand.form)


@dataclass(frozen=True)
class Signature:
    """What an entry takes and gives: the contract between a graph, its native code and its caller."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[StateSpec, ...] = ()
    writes: tuple[tuple[int, int], ...] = ()  # (output, state): written back to the state after success
    aliases: tuple[tuple[int, int], ...] = ()  # (output, input or state in ABI order): may share an address
    dims: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    prints: tuple[Print, ...] = ()
    structure: Template = field(default=None, hash=False)
    name: str = "forward"

    def __post_init__(self) -> None:
        """LoadError where the parts do not fit together."""
        _verify_signature(self)

    @property
    def parameters(self) -> tuple[TensorSpec, ...]:
        """The inputs of the ABI: the user's, then the state."""
        return (*self.inputs, *self.state)

    def to_json(self) -> dict[str, Json]:
        """A JSON object that ``from_json`` reads back to an equal signature."""
        return {
            "name": self.name,
            "inputs": [spec.to_json() for spec in self.inputs],
            "state": [spec.to_json() for spec in self.state],
            "outputs": [spec.to_json() for spec in self.outputs],
            "writes": [list(pair) for pair in self.writes],
            "aliases": [list(pair) for pair in self.aliases],
            "dims": list(self.dims),
            "constraints": list(self.constraints),
            "checks": [{"message": c.message, "kind": c.kind, "location": c.location} for c in self.checks],
            "prints": [each.to_json() for each in self.prints],
            "structure": self.structure,
        }

    @staticmethod
    def from_json(source: Json, where: str = "signature") -> Signature:
        """Read what ``to_json`` gave; LoadError where it is malformed."""

        def texts(key: str) -> tuple[str, ...]:
            found = _get(source, key, list, where)
            if not all(isinstance(text, str) for text in found):
                raise LoadError(f"{where}: {key!r} holds something that is not a text")
            return tuple(found)

        def pairs(key: str) -> tuple[tuple[int, int], ...]:
            found = _get(source, key, list, where)
            for pair in found:
                if not (isinstance(pair, list) and len(pair) == 2 and all(type(index) is int for index in pair)):
                    raise LoadError(f"{where}: {key!r} holds {pair!r:.60}, expected pairs of ints")
            return tuple((a, b) for a, b in found)

        checks = tuple(
            Check(*(_get(check, part, str, f"{where}, check {i}") for part in ("message", "kind", "location")))
            for i, check in enumerate(_get(source, "checks", list, where))
        )

        def specs(key: str) -> Iterable[tuple[Json, str]]:
            return ((spec, f"{where}, {key} {i}") for i, spec in enumerate(_get(source, key, list, where)))

        return Signature(
            inputs=tuple(TensorSpec.from_json(*spec) for spec in specs("inputs")),
            outputs=tuple(TensorSpec.from_json(*spec) for spec in specs("outputs")),
            state=tuple(StateSpec.from_json(*spec) for spec in specs("state")),
            writes=pairs("writes"),
            aliases=pairs("aliases"),
            dims=texts("dims"),
            constraints=texts("constraints"),
            checks=checks,
            prints=tuple(
                Print.from_json(each, f"{where}, print {number}")
                for number, each in enumerate(_get(source, "prints", list, where))
            ),
            structure=source.get("structure"),
            name=_get(source, "name", str, where),
        )

    def default_structure(self) -> Template:
        """The structure of results where none is given: the outputs that are not written back, bare if there is one."""
        written = {output for output, _ in self.writes}
        shown = [index for index in range(len(self.outputs)) if index not in written]
        return shown[0] if len(shown) == 1 else {"tuple": shown}


def _verify_signature(signature: Signature) -> None:
    where = f"signature {signature.name!r}"
    if len(set(signature.dims)) != len(signature.dims) or not all(name.isidentifier() for name in signature.dims):
        raise LoadError(f"{where}: the dims {signature.dims!r:.80} are not distinct identifiers")
    names = [spec.name for spec in signature.inputs]
    if len(set(names)) != len(names):
        raise LoadError(f"{where}: two inputs have one name: {names!r:.80}")
    known = set(signature.dims)
    bound: set[str] = set()
    for spec in (*signature.parameters, *signature.outputs):
        dtype_named(spec.dtype)
        if len(spec.shape) > _MAX_RANK:
            raise LoadError(f"{where}: {spec.name!r} has rank {len(spec.shape)}, at most {_MAX_RANK} is possible")
        for size in spec.shape:
            if isinstance(size, int):
                if not 0 <= size <= _INT64_MAX:
                    raise LoadError(f"{where}: {spec.name!r} has the size {size}")
            elif unknown := Expression(size).names - known:
                raise LoadError(f"{where}: {spec.name!r} uses the unknown dims {sorted(unknown)}")
        if spec.default is not None and spec.shape:
            raise LoadError(f"{where}: {spec.name!r} has a default but is not 0-d")
    for spec in signature.parameters:
        bound.update(size for size in spec.shape if isinstance(size, str) and size in known)
    if unbound := known - bound:
        raise LoadError(f"{where}: no input has the bare size {sorted(unbound)}, so it cannot be known at a call")
    for text in signature.constraints:
        if unknown := Constraint(text).names - known:
            raise LoadError(f"{where}: the constraint {text!r:.80} uses the unknown dims {sorted(unknown)}")
    for check in signature.checks:
        if check.kind not in CHECK_KINDS:
            raise LoadError(f"{where}: a check raises {check.kind!r}; one of {', '.join(CHECK_KINDS)}")
    for number, each in enumerate(signature.prints):
        each.verify(f"{where}, print {number}")
        texts = [size for operand in each.operands for size in operand.shape if isinstance(size, str)]
        if strange := frozenset[str]().union(*(Expression(text).names for text in texts)) - known:
            raise LoadError(f"{where}, print {number}: the dims {sorted(strange)} are unknown")
    _verify_pairs(signature.writes, len(signature.outputs), len(signature.state), f"{where}: writes")
    _verify_pairs(signature.aliases, len(signature.outputs), len(signature.parameters), f"{where}: aliases")
    for output, index in signature.writes:
        if _type_of(signature.outputs[output]) != _type_of(signature.state[index]):
            raise LoadError(f"{where}: {signature.outputs[output]} cannot be written to {signature.state[index]}")
    for output, index in signature.aliases:
        result, parameter = signature.outputs[output], signature.parameters[index]
        if _type_of(result) != _type_of(parameter):
            raise LoadError(f"{where}: {result} cannot share memory with {parameter}")
    keys = [spec.key for spec in signature.state]
    if len(set(keys)) != len(keys):
        raise LoadError(f"{where}: two state tensors have one key: {keys!r:.80}")
    if signature.structure is not None:
        _verify_template(signature.structure, len(signature.outputs), where)


def _holds(dtype: str, value: bool | int | float) -> bool:
    """Whether an input of ``dtype`` can have this default: a float any number, an integer those in its range."""
    if dtype == "bool":
        return isinstance(value, bool)
    if "float" in dtype:
        return abs(value) <= sys.float_info.max or not isinstance(value, int)
    bounds = np.iinfo(dtype)
    return not isinstance(value, float) and bool(bounds.min <= value <= min(bounds.max, _INT64_MAX))


def default_of(spec: TensorSpec) -> Array:
    """The value of an input that has a default, as a 0-d array of its dtype, rounded where the dtype has to."""
    with np.errstate(over="ignore"):
        if spec.dtype != "bfloat16":
            return np.array(spec.default, dtype_named(spec.dtype))
        bits = int(np.array(spec.default, np.float32).view(np.uint32))
        return np.array((bits + 0x7FFF + (bits >> 16 & 1)) >> 16, np.uint16).view(dtype_named("bfloat16"))


def _type_of(spec: TensorSpec) -> tuple[str, tuple[Size, ...]]:
    return spec.dtype, spec.shape


def _verify_pairs(pairs: Sequence[tuple[int, int]], left: int, right: int, where: str) -> None:
    for a, b in pairs:
        if not (0 <= a < left and 0 <= b < right):
            raise LoadError(f"{where}: the pair {(a, b)} is out of range")
    if len({a for a, _ in pairs}) != len(pairs) or len({b for _, b in pairs}) != len(pairs):
        raise LoadError(f"{where}: an index appears twice")


def _verify_template(template: Template, outputs: int, where: str, depth: int = 0) -> None:
    if depth > 64:
        raise LoadError(f"{where}: the structure of the result is nested deeper than 64")
    match template:
        case None:
            return
        case bool():
            pass
        case int() if 0 <= template < outputs:
            return
        case {"tuple": list(items), **rest} | {"list": list(items), **rest} if not rest:
            for item in items:
                _verify_template(item, outputs, where, depth + 1)
            return
        case {"dict": dict(items), **rest} if not rest:
            for item in items.values():
                _verify_template(item, outputs, where, depth + 1)
            return
        case {"value": bool() | int() | float() | str(), **rest} if not rest:
            return
    raise LoadError(f"{where}: {template!r:.60} is no structure of a result")


def _rebuild(template: Template, outputs: Sequence[Array]) -> Any:
    match template:
        case None:
            return None
        case int():
            return outputs[template]
        case {"tuple": items}:
            return tuple(_rebuild(item, outputs) for item in items)
        case {"list": items}:
            return [_rebuild(item, outputs) for item in items]
        case {"dict": items}:
            return {key: _rebuild(item, outputs) for key, item in items.items()}
    return template["value"]


# --- memory ---------------------------------------------------------------------------------------------------------

_HUGE: Final = 2 << 20
_MADV_HUGEPAGE: Final = 14


def _size_class(size: int) -> int:
    """``size`` rounded up to one of eight steps an octave, at least 64 bytes: at most an eighth is wasted."""
    if size <= 64:
        return 64
    step = max(64, 1 << ((size - 1).bit_length() - 4))
    return -(-size // step) * step


class Allocator:
    """Memory aligned to 64 bytes that is used again once the last array over it is gone.

    Free lists are plain lists, whose append and pop are atomic: a lease may end at any point, also inside an
    allocation (garbage collection) or in a fork, so a lock here could deadlock. A class of sizes keeps at most 64 MiB
    or two blocks.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[int]] = {}
        self._leases: dict[int, type[ctypes.Array[ctypes.c_char]]] = {}

    def _new_class(self, size: int) -> type[ctypes.Array[ctypes.c_char]]:
        free = self._free.setdefault(size, [])
        keep = max(2, (64 << 20) // size)
        release = _libc.free

        def end(lease: Any, addressof: Any = ctypes.addressof) -> None:
            if len(free) < keep:
                free.append(addressof(lease))
            else:
                release(addressof(lease))

        namespace = {"_type_": ctypes.c_char, "_length_": size, "__del__": end}
        return self._leases.setdefault(size, type("Lease", (ctypes.Array,), namespace))

    def lease(self, size: int) -> ctypes.Array[ctypes.c_char]:
        """At least ``size`` bytes, aligned to 64, uninitialised; they return to the allocator with the object."""
        size = _size_class(size)
        lease = self._leases.get(size) or self._new_class(size)
        try:
            address = self._free[size].pop()
        except IndexError:
            address = self._fresh(size)
        return lease.from_address(address)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
        """An uninitialised, dense array of ``size`` bytes; it and its views share the lease."""
        return np.ndarray(shape, dtype, buffer=memoryview(self.lease(size)))

    @staticmethod
    def _fresh(size: int) -> int:
        large = size >= 2 * _HUGE
        alignment = _HUGE if large else ALIGNMENT
        address = _libc.aligned_alloc(alignment, -(-size // alignment) * alignment)
        if not address:
            raise MemoryError(f"cannot allocate {size} bytes")
        if large and hasattr(_libc, "madvise"):
            _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_HUGEPAGE)
        return int(address)


_allocator = Allocator()


# --- the flat image -------------------------------------------------------------------------------------------------

MAGIC: Final = b"JGIMAGE1"
MACHINE_X86_64: Final = 62  # ELF's e_machine
MACHINE_AARCH64: Final = 183
_MACHINES: Final[Mapping[str, int]] = {
    "x86_64": MACHINE_X86_64, "amd64": MACHINE_X86_64, "aarch64": MACHINE_AARCH64, "arm64": MACHINE_AARCH64
}  # fmt: skip
EXPORTS: Final = ("entry", "arena_bytes", "worker", "parallel_for")
_MAX_IMAGE: Final = 1 << 30


class ImageHeader(NamedTuple):
    """The first 64 bytes of a flat image, little-endian; offsets count from its first byte, 0 where absent.

    ======  ====  ==================================================
    offset  size  field
    ======  ====  ==================================================
    0       8     magic ``JGIMAGE1``
    8       4     ABI version
    12      4     machine: ELF's e_machine (62: x86-64, 183: AArch64)
    16      8     total bytes, this header included
    24      8     end of the code, which begins at 64; constants follow
    32      8     entry (required)
    40      8     arena_bytes
    48      8     worker
    56      8     parallel_for
    ======  ====  ==================================================
    """

    abi_version: int
    machine: int
    total: int
    code_end: int
    entry: int
    arena_bytes: int
    worker: int
    parallel_for: int

    def pack(self) -> bytes:
        """The 64 bytes."""
        return _HEADER.pack(MAGIC, *self)

    @staticmethod
    def parse(data: bytes | memoryview) -> ImageHeader:
        """The header of ``data``, each field checked against its length; LoadError where one is wrong."""
        if len(data) < _HEADER.size:
            raise LoadError(f"the native image is {len(data)} bytes long, shorter than its header of {_HEADER.size}")
        magic, *fields = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise LoadError(f"the native image begins with {magic!r}, not with {MAGIC!r}")
        header = ImageHeader(*fields)
        if header.abi_version != ABI_VERSION:
            raise LoadError(
                f"the native image speaks ABI {header.abi_version}, this loader {ABI_VERSION}; save the model again "
                "with this version, or use the loader that came with the model"
            )
        if header.total != len(data):
            raise LoadError(f"the native image says {header.total} bytes but has {len(data)}; it was cut or extended")
        if header.total > _MAX_IMAGE:
            raise LoadError(f"the native image has {header.total} bytes, more than the {_MAX_IMAGE} allowed")
        if not _HEADER.size < header.code_end <= header.total:
            raise LoadError(f"the native image says its code ends at {header.code_end} of {header.total} bytes")
        for name in EXPORTS:
            offset = getattr(header, name)
            if (offset or name == "entry") and not _HEADER.size <= offset < header.code_end:
                raise LoadError(f"the native image has {name!r} at {offset}, outside its code [64, {header.code_end})")
        return header


_HEADER: Final = struct.Struct("<8sIIQQQQQQ")
HEADER_BYTES: Final = _HEADER.size


def machine_here() -> int:
    """This machine's ELF number, or 0 where jitgraph knows none."""
    return _MACHINES.get(platform.machine().lower(), 0)


def _mapped(size: int) -> int:
    """The address of new memory that can be written, in pages of its own."""
    private_anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, private_anonymous, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"cannot map {size} bytes for native code: {os.strerror(ctypes.get_errno())}")
    return int(address)


def _refused_execution(address: int, size: int) -> str:
    """Let mapped memory be executed and no longer written; why the system does not, or the empty string."""
    if _libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) == 0:
        return ""
    return f"the system does not let memory be executable: {os.strerror(ctypes.get_errno())}"


@cache
def _refused_here() -> str:
    """Why this system refuses memory that was written to be executed, tried on one page; empty where it does not."""
    address = _mapped(mmap.PAGESIZE)
    try:
        return _refused_execution(address, mmap.PAGESIZE)
    finally:
        _libc.munmap(address, mmap.PAGESIZE)


def _lacking_system() -> str:
    if _libc is None or sys.platform != "linux" or machine_here() != MACHINE_X86_64 or sys.maxsize < 2**32:
        here = f"{platform.system()} on {platform.machine()}, {8 * ctypes.sizeof(ctypes.c_void_p)} bits"
        return f"native code needs 64-bit Linux on x86-64, and this is {here}"
    return _refused_here()


def lacking() -> str:
    """What native code needs and this process lacks, in words; empty where it can run some."""
    if cpu_levels():
        return ""
    return _lacking_system() or "native code needs a processor of x86-64-v3 or better, by the flags in /proc/cpuinfo"


class Image:
    """Native code in memory: written, then protected for execution, never both at once.

    It is unmapped when the last reference goes; entries and pools that run it hold one.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        """Map ``data``; LoadError where it is malformed or for another machine."""
        self.header = ImageHeader.parse(data)
        if self.header.machine != machine_here():
            raise LoadError(f"the native image is for machine {self.header.machine}, this is a {platform.machine()}")
        if lacking := _lacking_system():
            raise LoadError(lacking)
        size = self.header.total
        self.address = _mapped(size)
        # Not at exit: pool threads may still stand in the code then.
        weakref.finalize(self, _libc.munmap, self.address, size).atexit = False
        ctypes.memmove(self.address, bytes(data), size)
        if refused := _refused_execution(self.address, size):
            raise LoadError(refused)

    def export(self, name: str) -> int:
        """The address of one of EXPORTS, or 0 where the image lacks it."""
        offset = int(getattr(self.header, name))
        return self.address + offset if offset else 0


# --- the processor's level ------------------------------------------------------------------------------------------

X86_LEVELS: Final[Mapping[str, frozenset[str]]] = {
    "x86-64-v2": frozenset(("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")),
    "x86-64-v3": frozenset(("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave")),
    "x86-64-v4": frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
}
"""What each psABI level adds to the one before, in the words of /proc/cpuinfo (pni is SSE3, abm has LZCNT)."""


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """The processor's flags as Linux lists them; empty where they cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except (FileNotFoundError, PermissionError):  # not what a signal handler raises, such as TimeoutError
        return frozenset()
    return frozenset()


def cpu_levels(flags: frozenset[str] | None = None) -> tuple[str, ...]:
    """The targets this machine runs, best first, such as ``("x86-64-v4", "x86-64-v3", "x86-64-v2")``.

    None where the system runs no native code (``lacking``) or does not say what the processor has.
    """
    if flags is None:
        flags = frozenset() if _lacking_system() else cpu_flags()
    found: list[str] = []
    for level, needed in X86_LEVELS.items():
        if not needed <= flags:
            break
        found.insert(0, level)
    return tuple(found)


# --- threads --------------------------------------------------------------------------------------------------------


def thread_count() -> int:
    """Threads to use, the caller included: JITGRAPH_NUM_THREADS, else the processors this process may run on."""
    text = os.environ.get("JITGRAPH_NUM_THREADS", "").strip()
    if text:
        if not (text.isdecimal() and 1 <= int(text) <= 4096):
            raise ArgumentError(f"JITGRAPH_NUM_THREADS={text!r} is not a number from 1 to 4096")
        return int(text)
    return processors()


def processors() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_FUTEX_NUMBERS: Final[Mapping[int, int]] = {MACHINE_X86_64: 202, MACHINE_AARCH64: 98}
_FUTEX_WAKE_PRIVATE: Final = 129


def _work(image: Image, memory: ctypes.Array[ctypes.c_char], _: ctypes.Array[ctypes.c_char]) -> None:
    """The body of a pool thread; its arguments keep the code and the state alive while it runs."""
    _WORKER_TYPE(image.export("worker"))(ctypes.addressof(memory))


class Pool:
    """Daemon threads that sit in the image's ``worker`` function, parked on a futex between jobs."""

    def __init__(self, image: Image, workers: int) -> None:
        """Start ``workers`` threads; calls work, alone, before they are up."""
        self._memory = _allocator.lease(ctypes.sizeof(PoolState))
        ctypes.memset(self._memory, 0, ctypes.sizeof(PoolState))
        self.state = PoolState.from_buffer(self._memory)
        self.state.syscall = _address(_libc.syscall)
        self.state.failure = 2**64 - 1
        self.address = ctypes.addressof(self._memory)
        scratch = _allocator.lease(workers * SCRATCH_BYTES)
        self.state.scratch = ctypes.addressof(scratch)
        arguments = (image, self._memory, scratch)
        self._threads = [
            threading.Thread(target=_work, args=arguments, name=f"jitgraph-{i + 1}", daemon=True)
            for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()
        self.state.workers = workers

    def dismiss(self) -> None:
        """Tell the threads to go home, without waiting; chunks that run are finished."""
        self.state.workers = 0
        self.state.stop = 1
        self.state.epoch += 1
        epoch = ctypes.c_void_p(self.address + POOL_EPOCH)
        _libc.syscall(
            ctypes.c_long(_FUTEX_NUMBERS[machine_here()]), epoch, ctypes.c_long(_FUTEX_WAKE_PRIVATE),
            ctypes.c_long(2**31 - 1), None, None, ctypes.c_long(0),
        )  # fmt: skip

    def stop(self) -> None:
        """Send the threads home and wait for them."""
        self.dismiss()
        for thread in self._threads:
            thread.join(timeout=2.0)


_POLLS: Final = 64
"""How many polls may be under way at once: those of other threads, and of native code that handlers call."""


class _Guarded:
    """Runs ``action`` for native code, and keeps what it raises until the call returns.

    Python runs signal handlers at the first step of any function, before its ``try``, and what is raised out of a
    callback is lost. So each turn resumes a generator that already stands inside its ``try``, and all around it is C.
    """

    def __init__(self, action: Callable[[], object], failure: int, ready: int) -> None:
        """``ready`` turns may be under way at once; one that raises gives the code ``failure``."""
        self._action = action
        self._failure = failure
        self._count = ready
        self._raised: dict[int, BaseException] = {}  # by thread
        self._ready: list[Generator[int, None, None]] = []
        self._fill()
        self.ask: Callable[[], int] = map(next, iter(self._ready.pop, None)).__next__
        """0, or the code of the failure where the action raised; to be called by native code."""

    def raised(self) -> BaseException | None:
        """What the action raised in a call of this thread, which has ended."""
        found = self._raised.pop(threading.get_ident(), None)
        self._fill()  # a generator that was interrupted left nobody in its place
        return found

    def _fill(self) -> None:
        while len(self._ready) < self._count:
            self._ready.append(_begun(self._ready, self._raised, self._action, self._failure))


def _begun(
    ready: list[Generator[int, None, None]],
    raised: dict[int, BaseException],
    action: Callable[[], object],
    failure: int,
) -> Generator[int, None, None]:
    def asking() -> Generator[int, None, None]:
        code = OK
        try:
            yield code
            ready.append(_begun(ready, raised, action, failure))
            action()
        except GeneratorExit:  # the runtime is gone
            return
        except BaseException as error:  # whatever it is, it is raised again when the call returns
            raised[threading.get_ident()] = error
            code = failure
        yield code  # nothing before it runs a handler

    generator = asking()
    next(generator)
    return generator


class Runtime:
    """A host table with its thread pool; one serves the whole process unless a caller makes its own."""

    def __init__(self, threads: int | None = None) -> None:
        """``threads`` counts the caller too; None asks ``thread_count()`` when the pool is first needed."""
        self._threads = threads
        self._pool: Pool | None = None
        self._lock = threading.RLock()
        self.settled = False
        self.host = Host(abi_version=ABI_VERSION)
        if _libc is not None:
            self.signals = _Guarded(ctypes.pythonapi.PyErr_CheckSignals, INTERRUPTED, _POLLS)
            self._poll = _ASKED_TYPE(self.signals.ask)
            self.host.alloc = _address(_libc.malloc)
            self.host.free = _address(_libc.free)
            self.host.poll = _address(self._poll)
            self.host.syscall = _address(_libc.syscall)
        _runtimes.add(self)

    def attach(self, image: Image) -> None:
        """Start the pool if ``image`` has a worker function and no pool runs yet."""
        if self.settled or not image.export("worker"):
            return
        with self._lock:
            if self.settled:
                return
            workers = (thread_count() if self._threads is None else self._threads) - 1
            if workers > 0:
                self._pool = Pool(image, workers)
                self.host.pool = self._pool.address
                weakref.finalize(self, self._pool.dismiss)
            self.settled = True

    def close(self) -> None:
        """Stop the pool; later calls run on their own thread alone."""
        with self._lock:
            self.settled = True
        if self._pool is not None:
            # host.pool stays: a call of another thread may hold it, and a pool without workers runs serially.
            self._pool.stop()

    def after_fork(self) -> None:
        """In a forked child: the threads are gone, so forget them; the next call starts its own."""
        self._lock = threading.RLock()
        self._pool = None
        self.host.pool = None
        self.settled = False


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _after_fork() -> None:
    for runtime in list(_runtimes):
        runtime.after_fork()
    for model in list(_models):
        model.after_fork()


def _at_exit() -> None:
    for runtime in list(_runtimes):
        runtime.host.poll = None
        runtime.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)

process_runtime: Final = Runtime()


# --- the entry ------------------------------------------------------------------------------------------------------

_SCALAR_KINDS: Final = {"b": "b", "u": "iub", "i": "iub", "f": "fiub", "V": "fiub"}


def _as_array(value: Any, spec: TensorSpec, dtype: np.dtype[Any], where: str) -> Array:
    """``value`` as a dense, aligned array of ``dtype``: borrowed where it is one already, else copied."""
    if not isinstance(value, np.ndarray):
        value = _converted(value, spec, dtype, where)
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"{where}: the mask of a masked array would be dropped; pass x.filled(value)")
    if value.dtype != dtype:
        if value.dtype.newbyteorder("=") != dtype:
            raise ArgumentError(
                f"{where}: expected {spec}, got {value.dtype.name}{list(value.shape)}; convert it with "
                f".astype({spec.dtype!r})"
            )
        value = value.astype(dtype)
    array: Array = value
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True, subok=False)
    return array


def _converted(value: Any, spec: TensorSpec, dtype: np.dtype[Any], where: str) -> Array:
    """A Python scalar, a nested list or a DLPack tensor as an array; no value may change on the way."""
    if isinstance(value, np.generic):
        scalar: Array = np.array(value)
        return scalar
    if hasattr(value, "__dlpack__"):
        shared: Array = np.from_dlpack(value)
        return shared
    if not isinstance(value, (bool, int, float, list, tuple)):
        if hasattr(value, "__array__"):
            exported: Array = np.asarray(value)
            return exported
        way = f"its tensors one by one, such as {spec.name}=..." if isinstance(value, dict) else "a NumPy array"
        raise ArgumentError(f"{where}: expected {spec}, got {type(value).__name__}; pass {way}")
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise ArgumentError(f"{where}: expected {spec}, got a {type(value).__name__}: {error}") from None
    safe = found.size == 0 or found.dtype.kind in _SCALAR_KINDS.get(dtype.kind, "")
    if dtype.kind == "V" and found.dtype.kind in "biuf":
        safe = True
    with np.errstate(all="ignore"):
        cast = found.astype(dtype) if safe else found
    if not safe or (dtype.kind in "iu" and bool((cast.astype(object) != found.astype(object)).any())):
        raise ArgumentError(
            f"{where}: expected {spec}, got a {type(value).__name__} of {found.dtype.name} values that {spec.dtype} "
            "cannot hold; pass a NumPy array of that dtype"
        )
    return cast


_READY: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
_DATA_OFFSET: Final = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address


def _data_field(array: Array) -> int | None:
    """The address of the first element: by NumPy's ABI the field behind the object header (``.ctypes`` takes 5 times
    as long, and a training step passes dozens of arrays)."""
    return _pointer_at(id(array) + _DATA_OFFSET).value


def _data_attribute(array: Array) -> int | None:
    return int(array.ctypes.data)


_probe = np.zeros(2)
_direct = sys.implementation.name == "cpython" and _data_field(_probe[1:]) == _data_attribute(_probe[1:])
_data = _data_field if _direct else _data_attribute


def address_of(array: Array) -> int:
    """Where the first element of ``array`` lies."""
    return _data(array) or 0


def is_dense(array: Array) -> bool:
    """Whether native code can read ``array`` as it is: row-major without gaps, and aligned to its element."""
    return array.flags.num & _READY == _READY


class Plan(NamedTuple):
    """What one set of argument shapes leads to."""

    dims: ctypes.Array[ctypes.c_int64]
    dims_address: int
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]  # shape, dtype, bytes
    arena_bytes: int

    def empty(self, output: int) -> Array:
        """Uninitialised memory for an output."""
        return _allocator.empty(*self.outputs[output])


class _CallRecord:
    """A Call with its arena, reused from call to call."""

    __slots__ = ("address", "arena", "capacity", "error", "printer", "record")

    def __init__(self) -> None:
        self.record = Call()
        self.error = self.record.error  # the same memory
        self.address = ctypes.addressof(self.record)
        self.arena: ctypes.Array[ctypes.c_char] | None = None
        self.capacity = 0
        self.printer: _Printer | None = None

    def prepare(self, arena_bytes: int) -> None:
        record = self.record
        if arena_bytes > self.capacity:
            record.arena, self.arena, self.capacity = None, None, 0
            self.arena = _allocator.lease(arena_bytes)
            self.capacity = ctypes.sizeof(self.arena)
            record.arena = ctypes.addressof(self.arena)
        record.arena_bytes = arena_bytes
        record.last_poll = 0
        self.error.code = 0

    def free_blocks(self) -> None:
        block = self.record.blocks
        self.record.blocks = None
        while block:
            header = Block.from_address(block)
            block, base = header.next, header.base
            _libc.free(base)


class _Printer:
    """Prints what the native code of one call record asks for."""

    def __init__(self, record: Call, signature: Signature) -> None:
        self._record = record
        self._names = signature.dims
        self._sites = [
            (site, [(dtype_named(operand.dtype), _sizes(operand.shape)) for operand in site.operands])
            for site in signature.prints
        ]
        self._sizes: Iterable[int] = ()
        self.calls = _Guarded(self._print, CALLBACK_FAILED, 2)
        self._function = _ASKED_TYPE(self.calls.ask)
        self._host = Host()

    def host(self, shared: Host, sizes: Iterable[int]) -> int:
        """The address of a host table like ``shared`` that prints here, for a call with these named sizes."""
        self._sizes = sizes
        ctypes.memmove(ctypes.addressof(self._host), ctypes.addressof(shared), ctypes.sizeof(Host))
        self._host.print = _address(self._function)
        return ctypes.addressof(self._host)

    def _print(self) -> None:
        site, types = self._sites[self._record.print_site]
        dims = dict(zip(self._names, self._sizes, strict=False))
        addresses = (ctypes.c_void_p * len(types)).from_address(self._record.print_operands) if types else ()
        arrays = []
        for (dtype, sizes), address in zip(types, addresses, strict=True):
            shape = tuple(size if isinstance(size, int) else size.evaluate(dims) for size in sizes)
            array: Array = np.empty(shape, dtype)
            ctypes.memmove(address_of(array), address, array.nbytes)
            arrays.append(array)
        site.write(arrays)


CallbackFunction: TypeAlias = Callable[[int, int, int], None]
_MAX_PLANS: Final = 256


class Entry:
    """One native function with its signature: checks arguments, calls, raises what the code reported.

    It may be called from several threads at once, and from inside a call.
    """

    def __init__(
        self,
        image: Image,
        signature: Signature,
        *,
        runtime: Runtime | None = None,
        callback: CallbackFunction | None = None,
    ) -> None:
        """``callback(id, buffers, dims)`` serves the code's Python callbacks with the two addresses it was given."""
        self.image = image
        self.signature = signature
        self.runtime = runtime or process_runtime
        self._function = _ENTRY_TYPE(image.export("entry"))
        arena = image.export("arena_bytes")
        self._arena_bytes = _ARENA_TYPE(arena) if arena else None
        self._specs = tuple((spec, dtype_named(spec.dtype)) for spec in signature.parameters)
        self._shapes = tuple(_sizes(spec.shape) for spec in signature.parameters)
        self._outputs = tuple((spec, dtype_named(spec.dtype), _sizes(spec.shape)) for spec in signature.outputs)
        self._constraints = tuple(Constraint(text) for text in signature.constraints)
        self.pack = struct.Struct(f"{len(self._specs) + len(self._outputs)}P").pack
        """``buffers`` of the ABI from the addresses of parameters and outputs."""
        self._plans: dict[tuple[tuple[int, ...], ...], Plan] = {}
        self._free: list[_CallRecord] = []
        self._structure = signature.structure
        if self._structure is None:
            self._structure = signature.default_structure()
        self._raised: dict[int, BaseException] = {}
        self._host = self.runtime.host
        self._host_address = ctypes.addressof(self._host)
        self._parallel = bool(image.export("worker"))
        self._prints = bool(signature.prints)
        self._callback: Any = None
        if callback is not None:
            self._callback = _CALLBACK_TYPE(_guarded(callback, self._raised))

    def arguments(self, args: Sequence[Any], named: Mapping[str, Any] = MappingProxyType({})) -> list[Any]:
        """The user's inputs in order, from positional and named arguments and defaults."""
        inputs = self.signature.inputs
        title = self.signature.name
        if len(args) > len(inputs):
            raise ArgumentError(f"{title} takes {len(inputs)} arguments ({_listed(inputs)}), got {len(args)}")
        values: list[Any] = list(args)
        left = dict(named)
        for spec in inputs[: len(args)]:
            if spec.name in left:
                raise ArgumentError(f"{title}: {spec.name!r} was given both by position and by name")
        for spec in inputs[len(args) :]:
            if spec.name in left:
                values.append(left.pop(spec.name))
            elif spec.default is not None:
                values.append(default_of(spec))
            else:
                raise ArgumentError(f"{title}: the argument {spec} is missing; it takes ({_listed(inputs)})")
        if left:
            raise ArgumentError(f"{title} has no argument {next(iter(left))!r}; it takes ({_listed(inputs)})")
        return values

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[Array]:
        """The outputs for the parameters (inputs, then state) in ABI order.

        ``donate`` lists parameters whose memory an output that aliases them may take over: such an output is the
        donated array itself. Everything is checked before the native code is entered.
        """
        if len(buffers) != len(self._specs):
            raise ArgumentError(f"{self.signature.name} takes {len(self._specs)} buffers, got {len(buffers)}")
        arrays = list(buffers)
        for index, (spec, dtype) in enumerate(self._specs):
            value = arrays[index]
            ready = type(value) is np.ndarray and value.dtype == dtype and value.flags.num & _READY == _READY
            if not ready:
                where = f"{self.signature.name}, argument {index} ({spec.name})"
                arrays[index] = _as_array(value, spec, dtype, where)
        plan = self.plan(tuple([array.shape for array in arrays]))
        results = [_allocator.empty(*output) for output in plan.outputs]
        if donate:
            self._take_over(results, arrays, buffers, frozenset(donate))
        self.call(plan, self.pack(*map(address_of, arrays), *map(address_of, results)))
        return results

    def plan(self, shapes: tuple[tuple[int, ...], ...]) -> Plan:
        """What parameters of these shapes lead to; ArgumentError where they do not fit the signature."""
        return self._plans.get(shapes) or self._planned(shapes)

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """The result for the user's arguments, in the signature's structure; only for entries without state."""
        return self.result(self.run(self.arguments(args, named)))

    def result(self, outputs: Sequence[Array]) -> Any:
        """The outputs in the structure that the function returned when it was saved."""
        return _rebuild(self._structure, outputs)

    def _take_over(
        self, results: list[Array], arrays: Sequence[Array], given: Sequence[Any], donate: frozenset[int]
    ) -> None:
        """Put donated arrays in place of the results that may share their memory; one that cannot be is left alone."""
        shared = _overlapping(arrays)
        for output, parameter in self.signature.aliases:
            array = arrays[parameter]
            owned = parameter in donate and array is given[parameter] and array.flags.writeable
            if owned and parameter not in shared:
                results[output] = array

    def _vector(self, dims: Mapping[str, int]) -> ctypes.Array[ctypes.c_int64]:
        return (ctypes.c_int64 * max(1, len(self.signature.dims)))(*(dims[name] for name in self.signature.dims))

    def arena_bytes(self, dims: Mapping[str, int]) -> int:
        """The workspace of a call at these sizes: temporaries, and scratch memory of the calling thread."""
        arena = 0 if self._arena_bytes is None else int(self._arena_bytes(self._vector(dims)))
        if arena < 0:
            raise ArgumentError(f"{self.signature.name}: the workspace for the sizes {dims} leaves 64 bits")
        return arena

    def _planned(self, shapes: tuple[tuple[int, ...], ...]) -> Plan:
        dims = self._bind(shapes)
        outputs = []
        for spec, dtype, sizes in self._outputs:
            shape = tuple(size if isinstance(size, int) else size.evaluate(dims) for size in sizes)
            if any(size < 0 for size in shape):
                raise ArgumentError(f"{self.signature.name}: the result {spec} would have the shape {list(shape)}")
            outputs.append((shape, dtype, _bytes_of(shape, dtype, str(spec))))
        vector = self._vector(dims)
        arena = self.arena_bytes(dims)
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        plan = self._plans[shapes] = Plan(vector, ctypes.addressof(vector), tuple(outputs), arena)
        return plan

    def _bind(self, shapes: tuple[tuple[int, ...], ...]) -> dict[str, int]:
        """The named sizes that these shapes give; ArgumentError names the argument that does not fit."""
        name = self.signature.name
        known = set(self.signature.dims)
        dims: dict[str, int] = {}
        origin: dict[str, str] = {}
        for i, ((spec, _), shape) in enumerate(zip(self._specs, shapes, strict=True)):
            if len(shape) != len(spec.shape):
                raise ArgumentError(
                    f"{name}, argument {i} ({spec.name}): expected {spec} of rank {len(spec.shape)}, got the shape "
                    f"{list(shape)} of rank {len(shape)}"
                )
            for axis, (size, expected) in enumerate(zip(shape, spec.shape, strict=True)):
                if isinstance(expected, str) and expected in known and expected not in dims:
                    dims[expected] = size
                    origin[expected] = f"{spec.name}.shape[{axis}]"
        for i, ((spec, _), shape, sizes) in enumerate(zip(self._specs, shapes, self._shapes, strict=True)):
            for axis, (size, due) in enumerate(zip(shape, sizes, strict=True)):
                value = due if isinstance(due, int) else due.evaluate(dims)
                if size != value:
                    because = "" if isinstance(due, int) else f", which is {value}{_because(due, dims, origin)}"
                    raise ArgumentError(
                        f"{name}, argument {i} ({spec.name}): expected {spec}{because}, but axis {axis} of its shape "
                        f"{list(shape)} is {size}"
                    )
        for constraint in self._constraints:
            if not constraint.evaluate(dims):
                because = _because(constraint, dims, origin)
                raise ArgumentError(f"{name}: the sizes must satisfy {constraint.text}{because}")
        return dims

    def call(self, plan: Plan, buffers: bytes) -> None:
        """Enter the native code with the packed addresses of parameters and outputs; raise what it reports.

        Nothing is checked: the caller knows that dtypes and the plan's shapes fit, that parameters are dense, outputs
        aligned to 64 bytes and writable, that an output has a parameter's address only by ``aliases``, and holds the
        arrays until this returns.
        """
        if self._parallel and not self.runtime.settled:
            self.runtime.attach(self.image)
        table, host = self._host, self._host_address
        if self._callback is not None:
            table = Host.from_buffer_copy(table)
            table.callback = _address(self._callback)
            host = ctypes.addressof(table)
        try:
            call = self._free.pop()
        except IndexError:
            call = _CallRecord()
        try:
            call.prepare(plan.arena_bytes)
            if self._prints:
                printer = call.printer = call.printer or _Printer(call.record, self.signature)
                host = printer.host(table, plan.dims)
            code = self._function(host, call.address, buffers, plan.dims_address)
            if code != OK:
                self._fail(code, call)
        finally:
            if call.record.blocks:
                call.free_blocks()
            self._free.append(call)

    def _fail(self, code: int, call: _CallRecord) -> None:
        name = self.signature.name
        error = call.record.error
        if (raised := self.runtime.signals.raised()) is not None:
            raise raised
        if call.printer is not None and (raised := call.printer.calls.raised()) is not None:
            raise raised
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code == CALLBACK_FAILED and (raised := self._raised.pop(threading.get_ident(), None)) is not None:
            raise raised
        if code == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: the compiled code ran out of memory")
        if code == SIZE_OVERFLOW:
            raise ArgumentError(f"{name}: a size leaves 64 bits; use smaller arguments")
        if code == SIZES_REFUSED:
            conditions = (*self.signature.constraints, *(f"{size} >= 0" for size in self.signature.dims))
            known = 0 <= error.check_id < len(conditions)
            broken = conditions[error.check_id] if known else f"condition {error.check_id} of the compiled code"
            raise ArgumentError(f"{name}: the sizes must satisfy {broken}")
        if code == CHECK_FAILED and 0 <= error.check_id < len(self.signature.checks):
            check = self.signature.checks[error.check_id]
            message = check.message.replace("{index}", str(error.index)).replace("{bound}", str(error.bound))
            raise CHECK_KINDS[check.kind](message + (f"\n  at {check.location}" if check.location else ""))
        meaning = CODE_NAMES[code] if 0 <= code < len(CODE_NAMES) else "no known meaning"
        raise JitgraphError(f"{name}: the compiled code returned {code} ({meaning}), check {error.check_id}")


def _guarded(callback: CallbackFunction, raised: dict[int, BaseException]) -> Callable[..., int]:
    """``callback`` for native code: what it raises is kept for the end of the call, by thread."""

    def run(host: int, call: int, number: int, buffers: int, dims: int) -> int:
        try:
            callback(number, buffers, dims)
        except BaseException as error:  # whatever it is, it is raised again when the call returns
            raised[threading.get_ident()] = error
            return CALLBACK_FAILED
        return OK

    return run


def _overlapping(arrays: Sequence[Array]) -> set[int]:
    """The indices of dense arrays that share memory with another one of them."""
    starts = [_data(array) or 0 for array in arrays]
    shared: set[int] = set()
    reach, holder = -1, -1
    for start, index in sorted(zip(starts, range(len(arrays)), strict=True)):
        if start < reach and arrays[index].nbytes:
            shared |= {index, holder}
        if start + arrays[index].nbytes > reach:
            reach, holder = start + arrays[index].nbytes, index
    return shared


def _sizes(shape: Iterable[Size]) -> tuple[int | Expression, ...]:
    return tuple(size if isinstance(size, int) else Expression(size) for size in shape)


def _listed(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(map(str, specs))


def _because(expression: Expression, dims: Mapping[str, int], origin: Mapping[str, str]) -> str:
    facts = [f"{name} is {dims[name]} by {origin[name]}" for name in sorted(expression.names)]
    return f" ({', '.join(facts)})" if facts else ""


def _bytes_of(shape: Iterable[int], dtype: np.dtype[Any], text: str) -> int:
    # Zero sizes count as one, as NumPy itself does, so that (0, 2**62, 4) is refused too.
    total = dtype.itemsize
    empty = False
    for size in shape:
        empty |= size == 0
        total *= max(size, 1)
    if total > _INT64_MAX:
        raise ArgumentError(f"the result {text} with shape {list(shape)} leaves 64 bits")
    return 0 if empty else total


# --- the artifact ---------------------------------------------------------------------------------------------------

FORMAT: Final = "jitgraph"
FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
WEIGHTS: Final = "weights.safetensors"
_AGAIN: Final = "copy or save the model again"
MAX_GRAPH_BYTES: Final = 4 << 20
"""Of a graph's text, which is not read here: what reads it takes seconds and a few hundred MB for so much."""
_MAX_MEMBERS: Final = 65535

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")


class Member(NamedTuple):
    """A stored member of the zip: its bytes lie at ``[start, start + size)`` of the file."""

    start: int
    size: int
    crc: int


def _unpack(form: struct.Struct, data: memoryview, offset: int, magic: bytes, what: str) -> tuple[Any, ...]:
    if not 0 <= offset <= len(data) - form.size:
        raise LoadError(f"the zip's {what} at {offset} lies outside the file of {len(data)} bytes; {_AGAIN}")
    fields = form.unpack_from(data, offset)
    if fields[0] != magic:
        raise LoadError(f"no {what} at {offset}: the file is no zip, or was cut or changed; {_AGAIN}")
    return fields[1:]


def _wide(extra: memoryview, fields: Sequence[int], name: str) -> list[int]:
    """Sizes and offset with those that stand as all ones replaced from the zip64 extra field."""
    result = list(fields)
    position = 0
    while position + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, position)
        if position + 4 + size > len(extra):
            raise LoadError(f"the zip's extra field of {name!r} is longer than its place; {_AGAIN}")
        if kind == 1:
            wanted = [i for i, value in enumerate(fields) if value == 0xFFFFFFFF]
            if size < 8 * len(wanted):
                raise LoadError(f"the zip64 field of {name!r} is too short; {_AGAIN}")
            for i, value in zip(wanted, struct.unpack_from(f"<{len(wanted)}Q", extra, position + 4), strict=True):
                result[i] = value
            return result
        position += 4 + size
    return result


def read_members(data: memoryview) -> dict[str, Member]:
    """The members of a zip without comment whose members are stored plain, do not overlap and are named once."""
    count, size, start = _central_directory(data)
    members: dict[str, Member] = {}
    position = start
    for _ in range(count):
        fields = _unpack(_CENTRAL, data[: start + size], position, b"PK\x01\x02", "directory entry")
        flags, method, crc, packed, plain = fields[2], fields[3], fields[6], fields[7], fields[8]
        name_size, extra_size, comment_size, offset = fields[9], fields[10], fields[11], fields[15]
        body = position + _CENTRAL.size
        position = body + name_size + extra_size + comment_size
        if position > start + size:
            raise LoadError(f"the zip's directory entry at {body} is longer than the directory; {_AGAIN}")
        name = _member_name(bytes(data[body : body + name_size]))
        if name in members:
            raise LoadError(f"the member {name!r} appears twice; {_AGAIN}")
        if flags & 0x1:
            raise LoadError(f"the member {name!r} is encrypted; jitgraph stores plain members: {_AGAIN}")
        extra = data[body + name_size : body + name_size + extra_size]
        plain, packed, offset = _wide(extra, (plain, packed, offset), name)
        if method != 0 or packed != plain:
            raise LoadError(f"the member {name!r} is compressed; zip the files with 'store', or {_AGAIN}")
        members[name] = _member(data[:start], name, offset, plain, crc)
    if position != start + size:
        raise LoadError(f"the zip's directory has {start + size - position} bytes too many; {_AGAIN}")
    ends = sorted((member.start, member.start + member.size, name) for name, member in members.items())
    for (_, end, first), (begin, _, second) in pairwise(ends):
        if end > begin:
            raise LoadError(f"the members {first!r} and {second!r} overlap; {_AGAIN}")
    return members


def _central_directory(data: memoryview) -> tuple[int, int, int]:
    """Number of entries, bytes and offset of the central directory."""
    if len(data) < _END.size or bytes(data[:4]) not in (b"PK\x03\x04", b"PK\x05\x06"):
        raise LoadError(f"not a jitgraph model: it has {len(data)} bytes and does not begin like a zip")
    end = len(data) - _END.size
    disk, first_disk, here, count, size, start, comment = _unpack(_END, data, end, b"PK\x05\x06", "end record")
    if comment:
        raise LoadError(f"the zip has a comment or bytes after its end; {_AGAIN}")
    if count == 0xFFFF or 0xFFFFFFFF in (size, start):
        _, where, _ = _unpack(_END64_LOCATOR, data, end - _END64_LOCATOR.size, b"PK\x06\x07", "zip64 locator")
        wide = _unpack(_END64, data, where, b"PK\x06\x06", "zip64 end record")
        end, disk, first_disk, here, count, size, start = where, *wide[3:]
    if disk or first_disk or here != count:
        raise LoadError(f"the zip is spread over several disks; {_AGAIN}")
    if count > _MAX_MEMBERS or start + size != end:
        raise LoadError(f"the zip's directory ({count} entries, {size} bytes at {start}) does not fit; {_AGAIN}")
    return count, size, start


def _member_name(raw: bytes) -> str:
    try:
        name = raw.decode("ascii")
    except UnicodeDecodeError:
        raise LoadError(f"the member name {raw[:60]!r} is not ASCII") from None
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or ":" in name or not name.isprintable():
        raise LoadError(f"the member name {name[:60]!r} is not a plain relative path")
    return name


def _member(data: memoryview, name: str, offset: int, size: int, crc: int) -> Member:
    fields = _unpack(_LOCAL, data, offset, b"PK\x03\x04", f"header of {name!r}")
    method, name_size, extra_size = fields[2], fields[8], fields[9]
    begin = offset + _LOCAL.size
    if bytes(data[begin : begin + name_size]) != name.encode() or method != 0:
        raise LoadError(f"the zip's two headers of {name!r} differ; {_AGAIN}")
    start = begin + name_size + extra_size
    if size > len(data) - start:
        raise LoadError(f"the member {name!r} ({size} bytes at {start}) reaches past its place in the file; {_AGAIN}")
    return Member(start, size, crc)


def read_safetensors(data: memoryview) -> dict[str, Array]:
    """Read-only arrays over ``data`` (8 bytes of header length, a JSON header, the tensors without gaps).

    Nothing is copied but tensors that are not aligned to their element.
    """
    if len(data) < 8:
        raise LoadError(f"{WEIGHTS} has {len(data)} bytes, less than its header's length field")
    (size,) = struct.unpack_from("<Q", data)
    if size > min(len(data) - 8, _MAX_JSON):
        raise LoadError(f"{WEIGHTS} says its header has {size} bytes, but the file has {len(data)}; {_AGAIN}")
    header = _parse_json(bytes(data[8 : 8 + size]), f"the header of {WEIGHTS}")
    header.pop("__metadata__", None)
    body = data[8 + size :]
    arrays: dict[str, Array] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        where = f"{WEIGHTS}, tensor {name[:60]!r}"
        code = _get(entry, "dtype", str, where)
        if code not in _SAFETENSORS_DTYPES:
            raise LoadError(f"{where}: dtype {code[:20]!r} is not supported; one of {', '.join(_SAFETENSORS_DTYPES)}")
        dtype = dtype_named(_SAFETENSORS_DTYPES[code])
        shape = _get(entry, "shape", list, where)
        offsets = _get(entry, "data_offsets", list, where)
        sound = all(type(number) is int and 0 <= number <= _INT64_MAX for number in (*shape, *offsets))
        if not sound or len(offsets) != 2 or len(shape) > _MAX_RANK:
            raise LoadError(f"{where}: shape {shape!r:.60} or offsets {offsets!r:.60} are not sizes")
        begin, end = offsets
        elements = 1
        for extent in shape:
            elements *= extent
        if not begin <= end <= len(body) or end - begin != elements * dtype.itemsize:
            raise LoadError(f"{where}: bytes {begin} to {end} of {len(body)} do not hold {code}{shape!r:.60}; {_AGAIN}")
        try:
            array: Array = np.frombuffer(body[begin:end], dtype).reshape(shape)
        except ValueError as error:
            raise LoadError(f"{where}: {error}") from None
        if code == "BOOL" and elements and int(array.view(np.uint8).max()) > 1:
            raise LoadError(f"{where}: a bool that is neither 0 nor 1; {_AGAIN}")
        if not array.flags.aligned:
            array = array.copy()
        array.flags.writeable = False
        arrays[name] = array
        spans.append((begin, end, name))
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            raise LoadError(f"{WEIGHTS}: tensor {name[:60]!r} begins at {begin}, where {reached} is due; {_AGAIN}")
        reached = end
    if reached != len(body):
        raise LoadError(f"{WEIGHTS} has {len(body)} bytes of data, its tensors {reached}; {_AGAIN}")
    return arrays


def _contents(path: str | bytes) -> memoryview:
    """The bytes of a file in memory of this process, aligned to a page and read-only.

    They are read, not mapped: a mapped file that is cut or written to after its hashes were checked would end the
    process by SIGBUS, or run code that nobody checked. The copy takes about as long as the hashes do.
    """
    try:
        # Opening a pipe would wait for whoever writes to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb", buffering=0) as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise LoadError("cannot be opened: it is not a regular file")
            if found.st_size == 0:
                raise LoadError("the file is empty")
            memory = memoryview(mmap.mmap(-1, found.st_size, access=mmap.ACCESS_COPY))
            filled = 0
            while filled < len(memory):
                count = file.readinto(memory[filled:])
                if not count:
                    raise LoadError(f"the file was cut to {filled} bytes while it was read; {_AGAIN}")
                filled += count
    except OSError as error:
        raise LoadError(f"cannot be opened: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the path
        raise LoadError(f"cannot be opened: {error}") from None
    return memory.toreadonly()


class Artifact:
    """The members of a ``.jg`` file, in memory, each checked against the manifest's size and SHA-256."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read and check the whole file; LoadError says what is wrong."""
        self.path = os.fspath(path)
        self._data = _contents(self.path)
        self.members = read_members(self._data)
        self.manifest = self._read_manifest()
        self._verify_hashes()

    def read(self, name: str) -> memoryview:
        """The bytes of a member, without a copy; LoadError where the file has none of that name."""
        if name not in self.members:
            raise LoadError(f"the member {name!r} is missing; {_AGAIN}")
        start, size, _ = self.members[name]
        return self._data[start : start + size]

    def _read_manifest(self) -> dict[str, Json]:
        if (size := len(self.read(MANIFEST))) > _MAX_JSON:
            raise LoadError(f"{MANIFEST} is {size} bytes long, more than the {_MAX_JSON} allowed")
        data = bytes(self.read(MANIFEST))
        if zlib.crc32(data) != self.members[MANIFEST].crc:
            raise LoadError(f"{MANIFEST} does not match its checksum: it was damaged or changed; {_AGAIN}")
        manifest = _parse_json(data, MANIFEST)
        if manifest.get("format") != FORMAT:
            raise LoadError(f"{MANIFEST} names the format {manifest.get('format')!r:.40}, not {FORMAT!r}")
        version = _get(manifest, "version", int, MANIFEST)
        if version != FORMAT_VERSION:
            raise LoadError(f"format version {version} is unknown to this loader, which reads {FORMAT_VERSION}")
        return manifest

    def _verify_hashes(self) -> None:
        import hashlib

        listed = _get(self.manifest, "members", dict, MANIFEST)
        if unlisted := set(self.members) - set(listed) - {MANIFEST}:
            raise LoadError(f"the member {min(unlisted)!r} is not listed in {MANIFEST}; {_AGAIN}")
        for name, entry in listed.items():
            where = f"{MANIFEST}, member {name[:60]!r}"
            size, digest = _get(entry, "bytes", int, where), _get(entry, "sha256", str, where)
            data = self.read(name)
            if len(data) != size:
                raise LoadError(f"the member {name!r} has {len(data)} bytes where {MANIFEST} says {size}; {_AGAIN}")
            if hashlib.sha256(data).hexdigest() != digest:
                raise LoadError(f"the member {name!r} does not match its SHA-256: it was damaged or changed; {_AGAIN}")

    def signatures(self) -> dict[str, Signature]:
        """The signature of each entry, by its name."""
        entries = _get(self.manifest, "entries", dict, MANIFEST)
        if not entries:
            raise LoadError(f"{MANIFEST} has no entry")
        return {
            name: Signature.from_json(_get(entry, "signature", dict, f"{MANIFEST}, entry {name!r}"), f"entry {name!r}")
            for name, entry in entries.items()
        }

    def image(self, entry: str, levels: Sequence[str]) -> tuple[str, memoryview]:
        """The best of ``levels`` that the file has native code for, with that image's bytes."""
        native = _get(self.manifest["entries"][entry], "native", dict, f"{MANIFEST}, entry {entry!r}")
        for level in levels:
            if level in native:
                return level, self.read(_get(native, level, str, f"{MANIFEST}, entry {entry!r}, native"))
        raise LoadError(
            f"{entry!r} has native code for {', '.join(sorted(native)) or 'no target'}, but this machine runs "
            + (f"{', '.join(levels)}; save the model again for one of these" if levels else f"none: {lacking()}")
        )

    def weights(self) -> dict[str, Array]:
        """The tensors of the weights by key: read-only views of the file in memory."""
        return read_safetensors(self.read(WEIGHTS)) if WEIGHTS in self.members else {}

    def metadata(self) -> dict[str, Json]:
        """What the writer noted beside the model."""
        found = _get(self.manifest, "metadata", dict, MANIFEST, default={})
        return dict(found)


class Model:
    """A saved model: callable, with its state. Calls may overlap; calls that write the state take turns."""

    def __init__(self, artifact: Artifact, *, runtime: Runtime | None = None, level: str | None = None) -> None:
        """Load every entry of ``artifact`` for this machine's best level, or for ``level``."""
        levels = cpu_levels()
        if level is not None:
            if level not in levels:
                others = f"it runs {', '.join(levels)}" if levels else lacking()
                raise LoadError(f"this machine does not run {level!r}; {others}")
            levels = (level,)
        self.metadata = artifact.metadata()
        weights = artifact.weights()
        self._entries: dict[str, Entry] = {}
        for name, signature in artifact.signatures().items():
            self.target, data = artifact.image(name, levels)
            self._entries[name] = Entry(Image(data), signature, runtime=runtime)
            for spec in signature.state:
                verify_state(spec, weights)
        self._state: Mapping[str, Array] = MappingProxyType(weights)
        self._lock = threading.RLock()
        _models.add(self)
        self._default = "forward" if "forward" in self._entries else next(iter(self._entries))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the main entry takes."""
        return self._entries[self._default].signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the main entry gives, without what it writes back to the state."""
        signature = self._entries[self._default].signature
        written = {output for output, _ in signature.writes}
        return tuple(spec for index, spec in enumerate(signature.outputs) if index not in written)

    @property
    def state(self) -> Mapping[str, Array]:
        """The state by key as read-only arrays: a snapshot that later calls leave as it is."""
        return self._state

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the entries."""
        return tuple(self._entries)

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Run the main entry on NumPy arrays (or DLPack tensors, Python scalars, lists); gives NumPy arrays."""
        return self.run(self._default, *args, **named)

    def run(self, entry: str, /, *args: Any, **named: Any) -> Any:
        """Run the entry of that name. Where it writes state, the state changes wholly, and after success only."""
        if entry not in self._entries:
            raise ArgumentError(f"no entry {entry!r}; the model has {', '.join(self._entries)}")
        native = self._entries[entry]
        values = native.arguments(args, named)
        if not native.signature.writes:
            return native.result(native.run([*values, *self._state_of(native)]))
        with self._lock:
            outputs = native.run([*values, *self._state_of(native)])
            state = dict(self._state)
            for output, index in native.signature.writes:
                outputs[output].flags.writeable = False
                state[native.signature.state[index].key] = outputs[output]
            self._state = MappingProxyType(state)
        return native.result(outputs)

    def after_fork(self) -> None:
        """In a forked child: another thread of the parent may have been in a call, which ends there alone."""
        self._lock = threading.RLock()

    def _state_of(self, entry: Entry) -> list[Array]:
        state = self._state
        return [state[spec.key] for spec in entry.signature.state]


def verify_state(spec: StateSpec, weights: Mapping[str, Array]) -> None:
    """LoadError where the weights hold no tensor that the state may be."""
    if spec.key not in weights:
        raise LoadError(f"the state {spec} is missing from {WEIGHTS} under {spec.key[:60]!r}; {_AGAIN}")
    array = weights[spec.key]
    fits = array.ndim == len(spec.shape) and all(
        isinstance(size, str) or size == extent for size, extent in zip(spec.shape, array.shape, strict=True)
    )
    if array.dtype != dtype_named(spec.dtype) or not fits:
        raise LoadError(f"the state {spec} is {array.dtype.name}{list(array.shape)} in {WEIGHTS}; {_AGAIN}")


def load(path: str | os.PathLike[str], *, level: str | None = None) -> Model:
    """The model in the file ``path``. It runs the file's native code; LoadError where the file is not sound.

    ``level`` (or JITGRAPH_TARGET_CPU) picks a level below this machine's best.
    """
    try:
        return Model(Artifact(path), level=level or os.environ.get("JITGRAPH_TARGET_CPU") or None)
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from None
