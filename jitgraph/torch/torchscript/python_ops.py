"""TorchScript's operators on numbers, texts, lists and dicts: what Python's operators and methods of containers do.

The same names serve tensors (``aten::add``, ``aten::index``); ``jitgraph.torch.aten`` chooses by the operands. Numbers
may be ones that only a graph knows; lists and dicts may be ones that a staged body changes.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from jitgraph.tensor import Tensor
from jitgraph.torch.jit.state import change, delete_item, set_item
from jitgraph.torch.torchscript.values import shown
from jitgraph.tracing.script import staging
from jitgraph.tracing.symbolic.staged_number import StagedNumber

# ----------------------------------------------------------------------
# Numbers


def _add(a: Any, b: Any, alpha: Any = 1) -> Any:
    if isinstance(a, list):
        return staging.growing([*a, *b])
    return a + (b if type(alpha) is int and alpha == 1 else alpha * b)


def _sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return a - (b if type(alpha) is int and alpha == 1 else alpha * b)


def _mul(a: Any, b: Any) -> Any:
    return staging.growing([*a] * b) if isinstance(a, list) else a * b


def _div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return a // b
    return a / b if rounding_mode is None else _trunc_div(a, b)


def _trunc_div(a: Any, b: Any) -> Any:
    return a // b if (a >= 0) == (b >= 0) else -(-a // b)


def _math(name: str) -> Callable[[Any], Any]:
    function = getattr(math, name)
    return lambda x: staging.callee(function)(x)


def _round(x: Any, digits: Any = None) -> Any:
    if type(x) is float or type(x) is int:
        return float(round(x)) if digits is None else round(x, digits)
    return x.__round__() * 1.0 if digits is None else x.__round__(digits)


def _least(*values: Any) -> Any:
    return staging.callee(min)(*values)


def _greatest(*values: Any) -> Any:
    return staging.callee(max)(*values)


def _is(a: Any, b: Any) -> Any:
    return a is b


def _is_not(a: Any, b: Any) -> Any:
    return a is not b


def _equal(a: Any, b: Any) -> Any:
    return a == b


def _and(a: Any, b: Any) -> Any:
    return a & b


def _or(a: Any, b: Any) -> Any:
    return a | b


def _derive_index(index: Any, start: Any, step: Any) -> Any:
    return start + index * step


def _range_length(low: Any, high: Any, step: Any) -> Any:
    if all(type(bound) is int for bound in (low, high, step)):
        return len(range(low, high, step))
    return (high - low + step + (-1 if step > 0 else 1)) // step


# ----------------------------------------------------------------------
# Lists, dicts and texts


def _append(values: list[Any], value: Any) -> Any:
    change(values, "append", value)
    return values


def _extend(values: list[Any], others: Any) -> None:
    change(values, "extend", others)


def _add_in_place(values: list[Any], others: Any) -> Any:
    change(values, "extend", others)
    return values


def _insert(values: list[Any], index: int, value: Any) -> None:
    change(values, "insert", index, value)


def _pop(owner: Any, *keys: Any) -> Any:
    return change(owner, "pop", *keys)


def _sort(values: list[Any], reverse: bool = False) -> None:
    ordered = sorted(values, reverse=reverse)
    set_item(values, slice(None), ordered)


def _reverse(values: list[Any]) -> None:
    change(values, "reverse")


def _clear(values: Any) -> None:
    change(values, "clear")


def _remove(values: list[Any], value: Any) -> None:
    change(values, "remove", value)


def _delete(owner: Any, key: Any) -> None:
    delete_item(owner, key)


def _set_item(owner: Any, key: Any, value: Any) -> Any:
    if type(key) is StagedNumber:
        staging.store(owner, value, key)
    else:
        set_item(owner, key, value)
    return owner


def _get_item(owner: Any, key: Any) -> Any:
    return staging.item(owner, key) if type(key) is StagedNumber else owner[key]


def _slice(values: Any, start: Any = None, stop: Any = None, step: Any = 1) -> Any:
    part = values[slice(start, _unbounded(stop), step)]
    return staging.growing(part) if isinstance(part, list) else part


def _unbounded(stop: Any) -> Any:
    return None if type(stop) is int and stop >= (1 << 63) - 1 else stop


def _listed(value: Any) -> Any:
    return staging.growing([*value])


def _copied(value: Any) -> Any:
    return staging.growing([*value]) if isinstance(value, list) else staging.created(dict(value))


def _keys(table: Mapping[Any, Any]) -> Any:
    return staging.growing([*table])


def _values(table: Mapping[Any, Any]) -> Any:
    return staging.growing([*table.values()])


def _items(table: Mapping[Any, Any]) -> Any:
    return staging.growing([*table.items()])


def _get(table: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    return staging.callee(table.get)(key, default)


def _set_default(table: Any, key: Any, default: Any = None) -> Any:
    return change(table, "setdefault", key, default)


def _update(table: Any, other: Any) -> None:
    change(table, "update", other)


def _dict_of(items: Any = ()) -> Any:
    return staging.created(dict(items))


def _contains(container: Any, item: Any) -> Any:
    return staging.contains(item, container)


def _length(value: Any) -> Any:
    return value.shape[0] if isinstance(value, Tensor) else staging.callee(len)(value)


def _position(values: list[Any], value: Any) -> Any:
    return staging.callee(values.index)(value)


def _count(values: Any, value: Any, *bounds: Any) -> Any:
    return values.count(value, *bounds) if isinstance(values, str) else staging.callee(values.count)(value)


def _total(values: Any) -> Any:
    return staging.callee(sum)(values)


def _any(values: Any) -> Any:
    return staging.callee(any)(values)


def _all(values: Any) -> Any:
    return staging.callee(all)(values)


def _format(text: str, *parts: Any) -> str:
    pieces = text.split("{}")
    texts = map(shown, parts)
    written = [pieces[0]]
    for piece in pieces[1:]:
        written += [next(texts, "{}"), piece]
    return "".join(written)


def _percent_format(text: str, *parts: Any) -> str:
    return text % parts


def _text_method(name: str) -> Callable[..., Any]:
    method = getattr(str, name)

    def call(self: str, *args: Any) -> Any:
        result = method(self, *args)
        return staging.growing(result) if isinstance(result, list) else result

    return call


def _split(text: str, separator: str | None = None, most: int = -1) -> Any:
    return staging.growing(text.split(separator, most))


def _join(separator: str, parts: Any) -> str:
    return separator.join(parts)


def _warn(message: str, level: int = 2) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)


OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "neg": operator.neg, "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "fmod": math.fmod, "pow": lambda a, b: a**b,
    "true_divide": operator.truediv, "rsub": lambda a, b, alpha=1: b - alpha * a, "square": lambda a: a * a,
    "divmod": lambda a, b: (a // b, a % b), "abs": abs, "round": _round, "trunc": _math("trunc"),
    **{name: _math(name) for name in (
        "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "lgamma", "gamma", "erf", "erfc", "degrees",
        "radians", "isnan", "isinf", "isfinite", "factorial", "fabs",
    )},
    "mathremainder": math.remainder, "atan2": math.atan2, "copysign": math.copysign, "gcd": math.gcd,
    "ldexp": math.ldexp, "frexp": math.frexp, "modf": math.modf,
    "eq": _equal, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "__and__": _and, "__or__": _or, "__xor__": operator.xor, "__lshift__": operator.lshift,
    "__rshift__": operator.rshift, "bitwise_and": _and, "bitwise_or": _or, "bitwise_xor": operator.xor,
    "bitwise_not": operator.invert, "logical_not": operator.not_,
    "Int": int, "Float": float, "Bool": bool, "Complex": complex, "ScalarImplicit": lambda x: x,
    "min": _least, "max": _greatest,
    "append": _append, "extend": _extend, "add_": _add_in_place, "insert": _insert, "sort": _sort, "reverse": _reverse,
    "index": _position, "sum": _total, "any": _any, "all": _all, "mul_": lambda values, n: _add_in_place(
        values, [*values] * (n - 1)), "remove": _remove, "clear": _clear, "pop": _pop, "slice": _slice,
    "copy": _copied, "list": _listed, "count": _count, "keys": _keys, "values": _values, "items": _items, "get": _get,
    "setdefault": _set_default, "update": _update, "dict": _dict_of, "Delete": _delete, "select": _get_item,
    "split": _split, "join": _join, "strip": _text_method("strip"), "lstrip": _text_method("lstrip"),
    "rstrip": _text_method("rstrip"), "lower": _text_method("lower"), "upper": _text_method("upper"),
    "capitalize": _text_method("capitalize"), "title": _text_method("title"), "swapcase": _text_method("swapcase"),
    "find": _text_method("find"), "rfind": _text_method("rfind"), "replace": _text_method("replace"),
    "startswith": _text_method("startswith"), "endswith": _text_method("endswith"), "rindex": _text_method("rindex"),
    "isdigit": _text_method("isdigit"), "isalpha": _text_method("isalpha"), "isalnum": _text_method("isalnum"),
    "isdecimal": _text_method("isdecimal"), "isnumeric": _text_method("isnumeric"), "isspace": _text_method("isspace"),
    "islower": _text_method("islower"), "isupper": _text_method("isupper"), "istitle": _text_method("istitle"),
    "isidentifier": _text_method("isidentifier"), "isprintable": _text_method("isprintable"),
    "splitlines": _text_method("splitlines"), "rsplit": _text_method("rsplit"), "zfill": _text_method("zfill"),
    "center": _text_method("center"), "ljust": _text_method("ljust"), "rjust": _text_method("rjust"),
    "expandtabs": _text_method("expandtabs"), "partition": _text_method("partition"),
    "rpartition": _text_method("rpartition"),
}  # fmt: skip
"""What the operators do where no operand is a tensor or holds one; of lists of tensors those in ``OF_CONTAINERS``."""

ALWAYS: Final[Mapping[str, Callable[..., Any]]] = {
    "__is__": _is, "__isnot__": _is_not, "__not__": staging.not_, "__contains__": _contains, "__getitem__": _get_item,
    "_set_item": _set_item, "__derive_index": _derive_index, "__range_length": _range_length, "len": _length,
    "format": _format, "percentFormat": _percent_format, "warn": _warn, "wait": lambda future: future,
    "ord": ord, "chr": chr, "hex": hex, "oct": oct, "bin": bin, "str": shown, "hash": hash,
    "append": _append, "extend": _extend, "insert": _insert, "reverse": _reverse, "pop": _pop, "remove": _remove,
    "clear": _clear, "list": _listed, "keys": _keys, "values": _values, "items": _items, "get": _get,
    "setdefault": _set_default, "update": _update, "dict": _dict_of, "Delete": _delete,
    "startswith": OPERATORS["startswith"], "endswith": OPERATORS["endswith"],
}  # fmt: skip
"""Operators of containers, texts and objects, whatever is in them."""

OF_CONTAINERS: Final = frozenset({"add", "add_", "mul", "mul_", "slice", "copy", "select", "eq", "ne"})
"""Operators whose first operand may be a list, with tensors in it or not."""

PRIM: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs, "min": _least, "max": _greatest, "unchecked_unwrap_optional": lambda value: value,
    "NumToTensor": lambda number: number, "TupleUnpack": lambda value: value, "rangelist": lambda n: [*range(n)],
    "str": shown, "is_nested": lambda x: False, "is_quantized": lambda x: hasattr(x, "quantisation"),
    "unwrap_optional": lambda value: value, "AutogradAllNonZero": lambda *tensors: True,
}  # fmt: skip
"""Operators of ``prim``."""
