"""Arrays that are more than their elements (masked ones, matrices, quantities), and arrays of other libraries.

An array is ``numpy.ndarray`` itself or a memory map, which is one. What another subclass adds (a mask, a unit, another
meaning of ``*``) would be lost without a word, so it is refused with the way to say what is meant.

An array of another library is what has ``__dlpack__``, ``__array_interface__`` or ``__array__``. It is taken wherever
an array is, its memory read where it lies if the library allows that. Only where a trace would keep its elements, which
may change, is it refused.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.errors import DeviceError, DTypeError, JitgraphError, SharingError, TraceError
from jitgraph.location import Location

PLAIN: Final = frozenset({np.ndarray, np.memmap})
_CUDA: Final = 2  # of DLPack
_PROTOCOLS: Final = ("__array__", "__dlpack__", "__array_interface__", "__cuda_array_interface__")


def require_plain(array: np.ndarray[Any, Any], text: str = "the operand") -> None:
    """DTypeError for a subclass of ``numpy.ndarray`` that is more than its elements; ``text`` names the array."""
    if type(array) in PLAIN:
        return
    if isinstance(array, np.ma.MaskedArray):
        raise DTypeError(
            f"{text} is a masked array, whose mask would be dropped",
            hint=f"{_name(text)}.filled(value), or jg.where(mask, value, data) of its mask and its data",
        )
    if isinstance(array, np.matrix):
        raise DTypeError(
            f"{text} is a numpy.matrix, whose * is a product of matrices", hint=f"np.asarray({_name(text)}) and @"
        )
    raise DTypeError(
        f"{text} is a {_kind(array)}, and what that is beside its elements would be dropped",
        hint=f"np.asarray({_name(text)}) for the elements alone",
    )


def is_array(x: Any) -> bool:
    """Whether x, which is no array of NumPy's, offers its elements as an array of another library does."""
    if isinstance(x, np.ndarray | np.generic | int | float | type):  # numbers that vary say that they are ints
        return False
    kind = type(x)
    return any(hasattr(kind, protocol) for protocol in _PROTOCOLS)


def is_on_cuda(x: Any) -> bool:
    """Whether x is an array of another library in the memory of a GPU of CUDA."""
    if not is_array(x):
        return False
    if hasattr(type(x), "__dlpack_device__"):
        return int(x.__dlpack_device__()[0]) == _CUDA
    return hasattr(x, "__cuda_array_interface__")


def array_of(x: Any, text: str = "the array", *, borrow: bool = False) -> np.ndarray[Any, Any]:
    """The elements of an array of another library, over its own memory where that allows it, and always if ``borrow``.

    DeviceError where they lie on another device, SharingError where the library does not hand them over, DTypeError for
    elements that have no dtype here and for what is more than its elements.
    """
    from jitgraph.runtime import dlpack  # here: few programs have arrays of other libraries

    kind = type(x)
    protocols = {protocol for protocol in _PROTOCOLS if hasattr(kind, protocol)}
    refusal: Exception | None = None
    if "__dlpack__" in protocols:
        try:
            return dlpack.imported(x, text, borrow)
        except JitgraphError:
            raise
        except Exception as error:  # whatever the library raises where it does not hand the memory over
            refusal = error
    elif protocols == {"__cuda_array_interface__"}:
        raise DeviceError(f"{text} is a {_kind(x)} on cuda, not on the CPU", hint=_hint_of_ways(x, text, "get"))
    if protocols & {"__array__", "__array_interface__"}:
        try:
            return _numbers(np.array(x, copy=False if borrow else None, subok=True), x, text)
        except JitgraphError:
            raise
        except Exception as error:
            refusal = refusal or error
    raise SharingError(
        f"{text}, a {_kind(x)}, does not hand over its elements: {refusal}", hint=_hint_of_ways(x, text, "detach")
    ) from refusal


def _numbers(array: np.ndarray[Any, Any], x: Any, text: str) -> np.ndarray[Any, Any]:
    """The array that ``x`` gave; DTypeError where it is none of numbers, or more than its elements."""
    if array.dtype == object:
        raise DTypeError(f"{text}, a {_kind(x)}, is no array of numbers", hint=_hint_of_ways(x, text))
    require_plain(array, f"what {_kind(x)} gives")
    return array


def native(x: Any) -> np.ndarray[Any, Any]:
    """An array or scalar of NumPy's as an aligned array of native byte order; itself where it is one."""
    if isinstance(x, np.ndarray) and x.dtype.isnative and x.flags.aligned:
        return x
    array = np.asarray(x)
    return np.array(array, dtype=array.dtype.newbyteorder("="))


def as_argument(x: Any, text: str) -> Any:
    """``x``; for an array or scalar of any library, an array that native code can be given.

    Errors are those of ``require_plain`` and ``array_of``; ``text`` names the argument.
    """
    if isinstance(x, np.ndarray):
        require_plain(x, text)
    elif not isinstance(x, np.generic):
        return native(array_of(x, text)) if is_array(x) else x
    return native(x)


def refuse(x: Any, text: str, location: Location | None = None) -> None:
    """TraceError for an array of another library, which a trace would keep with the elements that it has now."""
    if is_array(x):
        raise TraceError(
            f"{text} is a {_kind(x)}: a traced function would keep the elements that it has now",
            location=location,
            hint="pass it as an argument",
        )


def _hint_of_ways(x: Any, text: str, *first: str) -> str:
    from jitgraph.runtime import dlpack

    name = _name(text)
    conversions = dlpack.conversion_calls(x, name, (*first, "numpy", "to_numpy"))
    return f"pass {' or '.join(conversions) or f'np.asarray({name})'}"


def _kind(x: object) -> str:
    kind = type(x)
    return f"{kind.__module__}.{kind.__qualname__}"


def _name(text: str) -> str:
    return "x" if " " in text else text
