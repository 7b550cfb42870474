"""The text of attribute values, both ways and bit exact: numbers, dtypes, sizes, strings, tuples and dense constants.

Text that comes from a file is not trusted: every length and depth has a limit, and anything wrong is a GraphError.
"""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph.dtypes import BY_SHORT_NAME, SHORT_NAMES, DType, float64, is_bool, is_complex, is_float, part_of
from jitgraph.errors import GraphError
from jitgraph.ir.constraints import Relation, SizeConstraint
from jitgraph.ir.dims import Dim, DimLike, parse_dim
from jitgraph.ir.types import Constant, TensorType

if TYPE_CHECKING:
    from jitgraph.ir.graph import Attr

INLINE_ELEMENTS: Final = 32  # constants with more elements are printed by their sha256
MAX_SIZE_TEXT: Final = 256  # characters of one size expression
MAX_SIZE_TERMS: Final = 1000  # terms that one may multiply out to

_INT = re.compile(r"-?[0-9]{1,20}")
_FLOAT = re.compile(r"-?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]{1,4})?|[0-9]+[eE][-+]?[0-9]{1,4}|inf|nan(?::0x[0-9a-f]+)?)")
_SIZE = re.compile(r"[A-Za-z0-9_+\-*/%() ]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORDS: Final[dict[str, Attr]] = {"true": True, "false": False, "none": None, **BY_SHORT_NAME}


def format_attr(attr: Attr, inline: int = INLINE_ELEMENTS) -> str:
    """The text of an attribute's value; constants of more than ``inline`` elements are named by their sha256."""
    match attr:
        case None:
            return "none"
        case bool():
            return "true" if attr else "false"
        case int():
            return str(int(attr))
        case float():
            return _float_text(np.array([attr], np.float64), 0)
        case str():
            return json.dumps(attr)
        case np.dtype() if attr in SHORT_NAMES:
            return SHORT_NAMES[attr]
        case Dim():
            return str(attr) if _is_size(str(attr)) else f"({attr})"
        case Constant():
            return _format_constant(attr, inline)
        case tuple():
            return f"[{', '.join(format_attr(item, inline) for item in attr)}]"
    raise GraphError(f"{attr!r} cannot be an attribute")


def _is_size(text: str) -> bool:
    return text not in _WORDS and not _INT.fullmatch(text) and not _FLOAT.fullmatch(text)


def _format_constant(constant: Constant, inline: int) -> str:
    value = constant.value.reshape(-1)
    if value.size > inline:
        return f"dense<{constant.type}: sha256:{constant.digest}>"
    if is_complex(value.dtype):
        value = value.view(part_of(value.dtype))  # the real and the imaginary part of each
    if is_float(value.dtype):
        elements = [_float_text(value, i) for i in range(value.size)]
    else:
        elements = [format_attr(item) for item in value.tolist()]
    return f"dense<{constant.type}: [{', '.join(elements)}]>"


def _bits(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return value.view(np.dtype(f"u{value.dtype.itemsize}"))


def _float_text(value: np.ndarray[Any, Any], index: int) -> str:
    """The shortest text that reads back as the same bits: ``0.1`` for float32 too, ``nan:0x...`` for an odd NaN."""
    item = value[index]
    with np.errstate(invalid="ignore"):  # a signalling NaN
        is_nan = bool(np.isnan(item))
    if is_nan:
        usual = _bits(np.array([math.nan], value.dtype))[0]
        bits = _bits(value)[index]
        return "nan" if bits == usual else f"nan:0x{int(bits):x}"
    exact = repr(float(item))
    if value.dtype == float64:
        return exact
    short = str(item)
    return short if _FLOAT.fullmatch(short) and value.dtype.type(float(short)) == item else exact


def parse_scalar(text: str) -> Attr:
    """The int, float, bool, none, dtype or size that ``format_attr`` printed."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        value = int(text)
        if not -(2**63) <= value < 2**64:
            raise GraphError(f"the integer {text} needs more than 64 bits")
        return value
    if _FLOAT.fullmatch(text):
        return float(_floats([text], float64)[0])
    return parse_size(text)


def parse_size(text: str) -> DimLike:
    """The size that ``str(dim)`` printed; GraphError also where it is too long, or would multiply out too far."""
    text = text.strip()
    if _INT.fullmatch(text):
        return int(text)
    if is_size_name(text):
        return Dim.name(text)
    if len(text) > MAX_SIZE_TEXT:
        raise GraphError(f"a size of {len(text)} characters is too long; at most {MAX_SIZE_TEXT}")
    # What Python would read as more than a size (0x1f, 1e9, 2**9, None) is refused before ast.parse sees it.
    words = re.findall(r"[A-Za-z0-9_]+", text)
    if not _SIZE.fullmatch(text) or "**" in text or not all(w.isdecimal() or is_size_name(w) for w in words):
        raise GraphError(f"{text!r} is not a size")
    try:
        bound = _terms_bound(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise GraphError(f"{text!r} is not a size") from None
    if bound > MAX_SIZE_TERMS:
        raise GraphError(f"the size {text!r} has too many terms")
    return parse_dim(text)


def is_size_name(name: str) -> bool:
    """Whether a size may be called so: ASCII letters, digits and ``_``, first a letter, no word of Python."""
    return _NAME.fullmatch(name) is not None and not keyword.iskeyword(name)


def _terms_bound(tree: ast.expr) -> int:
    match tree:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return min(_terms_bound(left) * _terms_bound(right), MAX_SIZE_TERMS + 1)
        case ast.BinOp(left=left, right=right):
            return min(_terms_bound(left) + _terms_bound(right), MAX_SIZE_TERMS + 1)
        case ast.UnaryOp(operand=operand):
            return _terms_bound(operand)
    return 1


def parse_constraint(text: str) -> SizeConstraint:
    """The constraint that ``str`` printed, with the limits of ``parse_size``."""
    relations: tuple[Relation, ...] = ("==", ">=")
    for relation in relations:
        left, separator, right = text.partition(relation)
        if separator:
            return SizeConstraint(parse_size(left), relation, parse_size(right))
    raise GraphError(f"{text.strip()!r} is not a constraint; expected 'a == b' or 'a >= b'")


def parse_elements(type: TensorType, texts: Sequence[str]) -> Constant:
    """The constant of ``type`` with these elements in row-major order."""
    shape: list[int] = []
    for dim in type.shape:
        if not isinstance(dim, int):
            raise GraphError(f"a constant cannot have the named size {dim}")
        shape.append(dim)
    if is_complex(type.dtype):
        if len(texts) != 2 * math.prod(shape):
            raise GraphError(f"{len(texts)} numbers for a constant of type {type}, which has 2 * {math.prod(shape)}")
        return Constant(_floats(texts, part_of(type.dtype)).view(type.dtype).reshape(shape))
    if len(texts) != math.prod(shape):
        raise GraphError(f"{len(texts)} elements for a constant of type {type}, which has {math.prod(shape)}")
    return Constant(_elements(texts, type.dtype).reshape(shape))


def _elements(texts: Sequence[str], dtype: DType) -> np.ndarray[Any, Any]:
    if is_float(dtype):
        return _floats(texts, dtype)
    pattern = re.compile("true|false") if is_bool(dtype) else _INT
    for text in texts:
        if not pattern.fullmatch(text):
            raise GraphError(f"{text!r} is not an element of type {SHORT_NAMES[dtype]}")
    if is_bool(dtype):
        return np.array([text == "true" for text in texts], dtype)
    bounds = np.iinfo(dtype)
    values = [int(text) for text in texts]
    for value in values:
        if not bounds.min <= value <= bounds.max:
            raise GraphError(f"{value} does not fit into {SHORT_NAMES[dtype]}")
    return np.array(values, dtype)


def _floats(texts: Sequence[str], dtype: DType) -> np.ndarray[Any, Any]:
    for text in texts:
        if not _FLOAT.fullmatch(text):
            raise GraphError(f"{text!r} is not an element of type {SHORT_NAMES[dtype]}, such as 1.0, 1e-9, inf, nan")
    with np.errstate(all="ignore"):
        result = np.array([float(text.partition(":")[0]) for text in texts], np.float64).astype(dtype)
    for index, text in enumerate(texts):
        if ":" in text:
            bits = int(text.partition(":")[2], 16)
            if bits >> (8 * dtype.itemsize):
                raise GraphError(f"{text!r} has more bits than {SHORT_NAMES[dtype]}")
            _bits(result)[index] = bits
    return result
