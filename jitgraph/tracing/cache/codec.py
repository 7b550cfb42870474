"""Records as plain data for JSON and back, by the types of their fields, and expressions that are checked when read."""

from __future__ import annotations

import binascii
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import numpy as np

from jitgraph import dtypes, tree
from jitgraph.errors import GraphError
from jitgraph.ir.dims import DimLike
from jitgraph.location import Location
from jitgraph.once import cached_property
from jitgraph.records import NamedTuple
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.loader import LoadError
from jitgraph.tracing.guards.guard import Predicate
from jitgraph.tracing.guards.plain import Plain, plain_of
from jitgraph.tracing.guards.source import ObjectNumber, Ref, Source, Step

# ----------------------------------------------------------------------
# Expressions over numbers and sizes as a plan holds them, checked before they become code of a call.

_LETTERS: Final = r"[A-Za-z0-9_ .,'()<>=!+\-*/%&|^~]*"  # no comment and no second line
_SIMPLE: Final = r"n[0-9]{1,6}"
_NAME: Final = r"n(_[A-Za-z][A-Za-z0-9_]*|[0-9]{1,6})"
_FUNCTIONS: Final = frozenset(
    ["abs", "bool", "divmod", "float", "int", "max", "min", "pow", "round", "same_float", "type"]
)
_KINDS: Final = frozenset(["float", "int"])
_LONGEST: Final = 1 << 16


@lru_cache(maxsize=1024)
def checked(text: str) -> str:
    """``text`` where it is arithmetic on numbers of a call and nothing else; LoadError otherwise."""
    if not isinstance(text, str) or len(text) > _LONGEST or not re.fullmatch(_LETTERS, text):
        raise LoadError("an expression is malformed")
    if not re.fullmatch(_SIMPLE, text):
        import ast  # here: few plans have more than single numbers

        try:
            _check(ast.parse(text, mode="eval").body, ast)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise LoadError(f"{text[:80]!r} is no expression") from None
    return text


def _check(tree: Any, ast: Any) -> None:
    match tree:
        case ast.Constant(value=value) if type(value) in (int, float, bool, complex):
            return
        case ast.Constant(value=str(text)) if text in ("inf", "-inf", "nan", "-nan"):
            return
        case ast.Name(id=name) if re.fullmatch(_NAME, name) or name in _KINDS:
            return
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=parts, keywords=[]):
            if name.startswith("_"):
                raise LoadError(f"math.{name} is no function of numbers")
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
            pass
        case ast.Compare(left=left, comparators=others):
            parts = [left, *others]
        case ast.IfExp(test=test, body=body, orelse=other):
            parts = [test, body, other]
        case _:
            raise LoadError(f"an expression holds a {type(tree).__name__}")
    for part in parts:
        _check(part, ast)


# ----------------------------------------------------------------------
# Records as plain data for JSON and back, by the types of their fields, each of which is checked when it is read.
#
# A data class or a named tuple is the list of its fields. A field may be a number (from 0 on), a text, a bool, bytes, a
# dtype, a literal, a record, a tuple of any of these, or of one of several types, where a record has the name of its
# class in front. ``Annotated`` says what a type leaves open: what a number counts ("objects", "handles", ...), that a
# text becomes code ("expression"), or, as a dict, the type of a field by the ``kind`` of its record. Texts that recur,
# sources, locations and classes are numbers in tables.
#
# Reading makes records of the classes that the fields name and nothing else; every mistake in the data is a LoadError.
# A record may say why it cannot be stored (``unstorable``), and what is wrong with it once it is read (``fault``).

_DEEPEST: Final = 48  # records in records
_LONGEST_INT: Final = 4000  # digits, which Python reads without a special permission
_MOST: Final = 1 << 62
_DTYPES: Final = frozenset("biufcSUV")
_CONSTANTS: Final = {"None": None, "True": True, "False": False, "Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
_BUILT_IN: Final = {kind.__name__: kind for kind in (int, str, bool, bytes, type)}
_CONSTANT_NAMES: Final = {id(value): name for name, value in _CONSTANTS.items()}


class NotStorableError(Exception):
    """What cannot be written for other processes; the message says why."""


class Writing:
    """The tables of what is written."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Any]] = {}
        self._numbers: dict[Any, int] = {}

    def number(self, table: str, key: Any, row: Callable[[], Any]) -> int:
        """The number of a row; rows that it refers to are written before it."""
        number = self._numbers.get((table, key))
        if number is None:
            written, rows = row(), self.tables.setdefault(table, [])
            number = self._numbers[table, key] = len(rows)
            rows.append(written)
        return number


class Reading:
    """The tables of what is read, and how many there are of what numbers count."""

    def __init__(self, tables: Any, counts: Mapping[str, int], class_named: Callable[[str, str], type]) -> None:
        """LoadError where the tables are malformed; ``class_named`` gives the class of a module and a name."""
        self.counts = counts
        self.class_named = class_named
        self.depth = 0
        self.tables: dict[str, list[Any]] = {name: [] for name in _ROWS}
        if not set(_typed(tables, dict)) <= set(_ROWS):
            raise LoadError("a table is not known")
        for name, rows in self.tables.items():
            read = _ROWS[name].read
            for row in _typed(tables.get(name, []), list):
                rows.append(read(row, self))


class Codec(NamedTuple):
    """How values of a type are written, as which type of JSON's, and read again."""

    write: Callable[[Any, Writing], Any]
    read: Callable[[Any, Reading], Any]
    form: type = list


def encoded(value: Any, kind: Any = None) -> Any:
    """A value that needs no tables, for JSON; NotStorableError where it cannot be stored."""
    return codec_of(kind or type(value)).write(value, Writing())


# --- numbers, texts, bytes, dtypes ----------------------------------------------------------------------------------


def _typed(value: Any, kind: type, error: type[Exception] = LoadError) -> Any:
    if type(value) is not kind:
        raise error(f"{value!r:.40} is no {kind.__name__}")
    return value


def _int(value: Any, limit: int = _MOST, error: type[Exception] = LoadError) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise error(f"{value!r:.40} is no number that may stand here")
    return value


def _write_int(value: Any, _: Any) -> int:
    return _int(value, error=NotStorableError)


def _write_text(value: Any, _: Any) -> str:
    text: str = _typed(value, str, NotStorableError)
    try:
        text.isascii() or text.encode("utf-8")
    except UnicodeEncodeError:
        raise NotStorableError("a text that no file can hold") from None
    return text


def _read_bytes(data: Any, _: Any) -> bytes:
    try:
        return binascii.a2b_base64(_typed(data, str), strict_mode=True)
    except ValueError:
        raise LoadError("a text of bytes is malformed") from None


def _write_dtype(dtype: np.dtype[Any], _: Any) -> str:
    """NotStorableError for a dtype with fields or objects."""
    known = dtypes.SHORT_NAMES.get(dtype)
    if known is not None:
        return f"jg:{known}"
    if dtype.fields or dtype.hasobject or dtype.subdtype or dtype.kind not in _DTYPES or np.dtype(dtype.str) != dtype:
        raise NotStorableError(f"the dtype {dtype}")
    return dtype.str


def _read_dtype(data: Any, _: Any) -> np.dtype[Any]:
    text: str = _typed(data, str)
    if len(text) > 40 or "," in text:
        raise LoadError("a dtype is malformed")
    try:
        dtype = dtypes.BY_SHORT_NAME[text[3:]] if text.startswith("jg:") else np.dtype(text)
    except (KeyError, TypeError, ValueError):
        raise LoadError(f"{text!r} is no dtype") from None
    if dtype.hasobject or dtype.fields:
        raise LoadError(f"{text!r} is no dtype of plain values")
    return dtype


def _write_any_int(value: int, _: Any) -> str:
    if len(text := hex(value)) > _LONGEST_INT:
        raise NotStorableError("a very long int")
    return text


def _read_any_int(data: Any, _: Any) -> int:
    try:
        if len(_typed(data, str)) <= _LONGEST_INT:
            return int(data, 16)
    except ValueError:
        pass
    raise LoadError(f"{data!r:.40} is no int")


def _read_size(data: Any, _: Any) -> DimLike:
    if type(data) is int:
        return _int(data)
    from jitgraph.ir.printer import parse_size  # here: few traces have sizes with names

    try:
        return parse_size(_typed(data, str))
    except GraphError as error:
        raise LoadError(str(error)) from None


def _write_device(device: str, _: Any) -> str:
    if device != CPU:
        raise NotStorableError(f"a tensor on {device}")
    return device


def _one_of(known: Any) -> Codec:
    """A text that is one of these."""

    def read(data: Any, _: Any) -> Any:
        if type(data) is not str or data not in known:
            raise LoadError(f"{data!r:.40} is not known")
        return data

    return Codec(_write_text, read, str)


def _write_key(key: Any, writing: Writing) -> Any:
    if key is None or type(key) is str or (type(key) is int and abs(key) < _MOST):
        return key
    plain = key if isinstance(key, Ref) else plain_of(key)
    if plain is None:
        raise NotStorableError(f"a key that is a {type(key).__qualname__}")
    return _KEY.write(plain, writing)


def _read_key(data: Any, reading: Reading) -> Any:
    if data is None or type(data) in (int, str):
        return data
    key = _KEY.read(data, reading)
    return key.value if isinstance(key, Plain) else key


# --- records --------------------------------------------------------------------------------------------------------


def types_of(record: Any) -> dict[str, Any]:
    """The types of a record's fields by name."""
    if issubclass(record, tuple):
        texts = {name: record.__annotations__[name] for name in record._fields}
    else:
        texts = {field.name: field.type for field in fields(record)}
    names = vars(sys.modules[record.__module__])
    kinds = {name: names.get(text) or _BUILT_IN.get(text) for name, text in texts.items()}
    if unknown := [name for name, kind in kinds.items() if kind is None]:  # what is more than a name, compiled at once
        kinds.update(zip(unknown, eval(f"({', '.join([texts[name] for name in unknown])},)", names), strict=True))
    return kinds


class _Record:
    """The codec of a class of records, whose fields are looked at when the first one is written or read."""

    form = list

    def __init__(self, record: Any) -> None:
        self._record = record
        self._is_tuple = issubclass(record, tuple)
        self._may_fail = hasattr(record, "fault")

    @cached_property
    def _fields(self) -> list[tuple[str, Any]]:
        """The codecs of the fields, or where the first field says which it is, the types by that."""
        columns = []
        for name, kind in types_of(self._record).items():
            try:
                columns.append((name, dict(by_kind) if (by_kind := _by_kind(kind)) else codec_of(kind)))
            except TypeError as error:
                raise TypeError(f"{self._record.__name__}.{name}: {error}") from None
        return columns

    @cached_property
    def _reads(self) -> list[Any]:
        """How the fields are read; nothing where one is read by the kind of the record."""
        by_kind = any(type(codec) is dict for _, codec in self._fields)
        return [] if by_kind else [codec.read for _, codec in self._fields]

    def write(self, value: Any, writing: Writing) -> list[Any]:
        if reason := getattr(value, "unstorable", ""):
            raise NotStorableError(reason)
        row: list[Any] = []
        for name, codec in self._fields:
            if type(codec) is dict:
                codec = self._of_kind(codec, value.kind, NotStorableError)
            row.append(codec.write(getattr(value, name), writing))
        return row

    def read(self, data: Any, reading: Reading) -> Any:
        if type(data) is not list or len(data) != len(self._fields):
            raise LoadError(f"a {self._record.__name__} is malformed")
        reading.depth += 1
        if reading.depth > _DEEPEST:
            raise LoadError("records are nested too deeply")
        if self._reads:
            values = [read(each, reading) for read, each in zip(self._reads, data, strict=True)]
        else:
            values = []
            for (_, codec), each in zip(self._fields, data, strict=True):
                if type(codec) is dict:
                    codec = self._of_kind(codec, values[0], LoadError)
                values.append(codec.read(each, reading))
        reading.depth -= 1
        value = tuple.__new__(self._record, values) if self._is_tuple else self._record(*values)
        if self._may_fail and value.fault:
            raise LoadError(value.fault)
        return value

    def _of_kind(self, kinds: dict[str, Any], kind: str, error: type[Exception]) -> Any:
        codec = kinds.get(kind)
        if codec is None:
            raise error(f"a {self._record.__name__} of the kind {kind:.40}")
        if not isinstance(codec, Codec | _Record):
            codec = kinds[kind] = codec_of(codec)
        return codec


def _by_kind(kind: Any) -> dict[str, Any] | None:
    (first, *_) = getattr(kind, "__metadata__", (None,))
    return first if type(first) is dict else None


def _sequence(kind: Any, item: Codec) -> Codec:
    def write(value: Any, writing: Writing) -> list[Any]:
        rows = [item.write(each, writing) for each in value]
        return sorted(rows) if kind is frozenset else rows

    return Codec(write, lambda data, reading: kind([item.read(each, reading) for each in _typed(data, list)]))


def _row(items: Sequence[Codec]) -> Codec:
    """A tuple of this length."""

    def read(data: Any, reading: Reading) -> tuple[Any, ...]:
        if len(_typed(data, list)) != len(items):
            raise LoadError(f"{len(data)} values are not {len(items)}")
        return tuple([item.read(each, reading) for item, each in zip(items, data, strict=True)])

    return Codec(lambda value, writing: [item.write(x, writing) for item, x in zip(items, value, strict=True)], read)


def _mapping(item: Codec) -> Codec:
    return Codec(
        lambda value, writing: {_write_text(name, None): item.write(x, writing) for name, x in value.items()},
        lambda data, reading: {name: item.read(x, reading) for name, x in _typed(data, dict).items()},
        dict,
    )


def _one_of_records(classes: Mapping[str, Any]) -> Codec:
    """A record of one of several classes, with the name of its class in front."""

    def write(value: Any, writing: Writing) -> list[Any]:
        name = type(value).__name__
        if classes.get(name) is not type(value):
            raise NotStorableError(f"a {name}")
        return [name, *codec_of(type(value)).write(value, writing)]

    def read(data: Any, reading: Reading) -> Any:
        name, *row = _typed(data, list) or [None]
        if type(name) is not str or name not in classes:
            raise LoadError(f"{name!r:.40} is none of {', '.join(classes)}")
        return codec_of(classes[name]).read(row, reading)

    return Codec(write, read)


def _any_of(options: Sequence[Any]) -> Codec:
    """A value of one of several types: None, records, and at most one other for each type of JSON's."""
    nothing = type(None) in options
    records = {option.__name__: option for option in options if _is_record(option)}
    codecs = [codec_of(option) for option in options if option is not type(None) and not _is_record(option)]
    if records:
        (first, *others) = records.values()
        codecs.append(_one_of_records(records) if others else codec_of(first))
    if len(codecs) == 1:
        return _optional(codecs[0]) if nothing else codecs[0]
    by_form = {codec.form: codec for codec in codecs}

    def chosen(value: Any, form: type, error: type[Exception]) -> Any:
        codec = by_form.get(form)
        if codec is None:
            raise error(f"{value!r:.40} is of no type that may stand here")
        return codec

    def write(value: Any, writing: Writing) -> Any:
        if value is None and nothing:
            return None
        form = list if type(value).__name__ in records else type(value)
        return chosen(value, form, NotStorableError).write(value, writing)

    def read(data: Any, reading: Reading) -> Any:
        return None if data is None and nothing else chosen(data, type(data), LoadError).read(data, reading)

    return Codec(write, read, codecs[0].form)


def _optional(codec: Codec) -> Codec:
    """A value of one type, or None."""
    some_write, some_read = codec.write, codec.read
    return Codec(
        lambda value, writing: None if value is None else some_write(value, writing),
        lambda data, reading: None if data is None else some_read(data, reading),
        codec.form,
    )


def _is_record(kind: Any) -> bool:
    if not (hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields")):
        return False
    return type(_CODECS.get(kind)) in (_Record, type(None))  # others are numbers in tables


def codec_of(kind: Any) -> Any:
    """The codec of a type; TypeError where there is none."""
    codec: Any
    if (metadata := getattr(kind, "__metadata__", None)) is not None:
        codec = _ANNOTATED.get(metadata[0])
        if codec is None:
            codec = _ANNOTATED[metadata[0]] = _counted(metadata[0])
        return codec
    codec = _CODECS.get(kind)
    if codec is None:
        codec = _CODECS[kind] = _new_codec(kind)
    return codec


def _counted(name: str) -> Codec:
    """A number below how many there are of something."""
    return Codec(_write_int, lambda data, reading: _int(data, reading.counts[name]), int)


def _new_codec(kind: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _any_of(arguments)
    if origin is Literal:
        return _one_of(arguments)
    if origin is np.dtype:
        return codec_of(np.dtype)
    if origin is dict:
        return _mapping(codec_of(arguments[1]))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _row([codec_of(argument) for argument in arguments])
    if origin in (tuple, frozenset):
        return _sequence(origin, codec_of(arguments[0]))
    if _is_record(kind):
        return _Record(kind)
    shown = kind.__name__ if isinstance(kind, type) else kind
    raise TypeError(f"no codec stores the type {shown}; a plain value of any type can be stored as a Plain")


# --- what has a form of its own -------------------------------------------------------------------------------------


class Root(NamedTuple):
    """A source without steps."""

    kind: str
    key: Annotated[Any, {"argument": int, "function": type(None), "module": str, "object": ObjectNumber}]
    name: str


class Extended(NamedTuple):
    """A source one step further than another."""

    owner: Source
    step: Step


class StoredContainer(NamedTuple):
    """A container of a TreeDef, of which None is a leaf."""

    kind: type
    steps: tuple[tree.Item | tree.Attribute, ...]
    children: tuple[tree.TreeDef, ...]

    @property
    def fault(self) -> str:
        """What is wrong with it, "" where nothing is."""
        same = len(self.steps) == len(self.children)
        return "" if same else "a container has another number of names than of children"


def _container_of(structure: tree.TreeDef) -> StoredContainer | None:
    if structure.kind is None:
        return None
    if structure.data is not None or not tree.is_plain_container(structure.kind):
        raise NotStorableError(f"a result that holds a {structure.kind.__qualname__}, a registered container")
    return StoredContainer(structure.kind, structure.steps, structure.children)


def _converted(codec: Codec, before: Callable[[Any], Any], after: Callable[[Any], Any]) -> Codec:
    """Of what is another value, ``before(value)``, when it is written."""
    return Codec(
        lambda value, writing: codec.write(before(value), writing),
        lambda data, reading: after(codec.read(data, reading)),
        codec.form,
    )


_ROWS: Final[dict[str, Codec]] = {}
"""How the rows of the tables are written and read; a row refers to rows of tables before its own, or before it."""


def _numbered(table: str, row: Codec, key: Callable[[Any], Any] = lambda value: value) -> Codec:
    """The number of a row of a table; rows have different keys."""
    _ROWS[table] = row

    def read(data: Any, reading: Reading) -> Any:
        rows = reading.tables[table]
        return rows[_int(data, len(rows))]

    return Codec(lambda value, writing: writing.number(table, key(value), lambda: row.write(value, writing)), read, int)


_CODECS: Final[dict[Any, Any]] = {
    int: Codec(_write_int, lambda data, _: _int(data), int),
    str: Codec(_write_text, lambda data, _: _typed(data, str), str),
    bool: Codec(lambda value, _: _typed(value, bool, NotStorableError), lambda data, _: _typed(data, bool), bool),
    bytes: Codec(lambda data, _: binascii.b2a_base64(data, newline=False).decode("ascii"), _read_bytes, str),
    type(None): Codec(lambda value, _: value, lambda data, _: _typed(data, type(None)), type(None)),
    np.dtype: Codec(_write_dtype, _read_dtype, str),
    DimLike: Codec(lambda size, _: size if isinstance(size, int) else str(size), _read_size),
    Predicate: _one_of_records(Predicate.KINDS),
}
_SHARED: Final = _numbered("texts", codec_of(str))
_LOCATION: Final = _row([_SHARED, codec_of(int), _sequence(tuple, _SHARED)])
_CLASS: Final = _row([codec_of(str), codec_of(str)])
_CODECS[Location] = _numbered(
    "locations",
    _converted(_LOCATION, lambda at: (at.file, at.line, at.modules), lambda row: Location(*row)),
    key=lambda at: (at.file, at.line, at.modules),
)
_CODECS[type] = _numbered(
    "classes",
    Codec(
        lambda kind, _: [kind.__module__, kind.__qualname__],
        lambda row, reading: reading.class_named(*_CLASS.read(row, reading)),
    ),
)
_CODECS[Source] = _numbered(
    "sources",
    _converted(
        _one_of_records({"Root": Root, "Extended": Extended}),
        lambda x: Extended(x.owner, x.steps[-1]) if x.steps else Root(x.kind, x.key, x.name),
        lambda row: row.owner.then(*row.step) if type(row) is Extended else Source(*row),
    ),
)
_CODECS[tree.TreeDef] = _converted(
    codec_of(StoredContainer | None),
    _container_of,
    lambda x: tree.LEAF if x is None else tree.TreeDef(x.kind, x.steps, x.children, None),
)
_KEY: Final = codec_of(Ref | Plain)
_ANNOTATED: Final[dict[str, Codec]] = {
    "expression": Codec(_write_text, lambda data, _: checked(_typed(data, str)), str),
    "any int": Codec(_write_any_int, _read_any_int, str),
    "constant": _converted(_one_of(_CONSTANTS), lambda value: _CONSTANT_NAMES[id(value)], _CONSTANTS.__getitem__),
    "device": Codec(_write_device, _one_of((CPU,)).read, str),
    "key": Codec(_write_key, _read_key),
    "json": Codec(lambda value, _: value, lambda data, _: data),
}
