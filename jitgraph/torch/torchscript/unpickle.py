"""A reader of pickles that runs nothing of them: it knows tensors, plain containers, and what its caller allows.

Python's unpickler calls whatever a pickle names. This one has its own loop over the opcodes, and a table of the names
that PyTorch writes: tensors, storages, dtypes, ordered dicts. Every other name goes to the ``classes`` that the caller
gives, and where they have none to LoadError. Where a tensor lies in its storage is checked before memory is touched.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from jitgraph.errors import LoadError
from jitgraph.torch.stored_elements import part_of, require_within

_MARK: Final = object()
_DEEPEST: Final = 1 << 10  # marks that are open at once
_KEYS: Final = (str, int, float, bool, complex, bytes, type(None))

_STORAGES: Final[Mapping[str, Any]] = {
    "DoubleStorage": np.float64, "FloatStorage": np.float32, "HalfStorage": np.float16, "LongStorage": np.int64,
    "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8, "ByteStorage": np.uint8,
    "BoolStorage": np.bool_, "BFloat16Storage": ml_dtypes.bfloat16, "ComplexFloatStorage": np.complex64,
    "ComplexDoubleStorage": np.complex128, "QInt8Storage": np.int8, "QUInt8Storage": np.uint8,
    "QInt32Storage": np.int32, "UntypedStorage": np.uint8,
}  # fmt: skip
_DTYPES: Final[Mapping[str, Any]] = {
    **{name: np.dtype(name) for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64")},
    **{name: np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64", "complex64", "complex128")},
    "bfloat16": np.dtype(ml_dtypes.bfloat16), "bool": np.dtype(np.bool_),
}  # fmt: skip
_SCHEMES: Final = ("per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams")


class StorageType(NamedTuple):
    """The element type of a storage, as a pickle names it."""

    name: str


class Storage:
    """The elements of one storage; tensors are views of it. Read when the first tensor asks for them."""

    def __init__(self, read: Callable[[], bytearray], dtype: Any, count: int, swapped: bool) -> None:
        self._read = read
        self._swapped = swapped
        self._bytes: Any = None
        self.dtype = np.dtype(dtype)
        self.count = count

    def elements(self, dtype: Any = None) -> np.ndarray[Any, Any]:
        """All elements in one dimension, as those of another dtype where one is given."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        if self._bytes is None:
            self._bytes = self._read()
        values = np.frombuffer(self._bytes, kind)
        return values.byteswap() if self._swapped and kind.itemsize > 1 else values


class Quantisation(NamedTuple):
    """How the integers of a quantised tensor stand for numbers; ``axis`` is None where one scale serves all."""

    scale: Any
    zero_point: Any
    axis: int | None
    dtype: str


class TensorData:
    """A tensor in a pickle: an array, whether it is a parameter, and how it is quantised."""

    def __init__(
        self,
        array: np.ndarray[Any, Any],
        key: tuple[Any, ...],
        requires_grad: bool,
        quantisation: Quantisation | None = None,
    ) -> None:
        self.array = array
        self.key = key
        """Equal for tensors that are the same elements of one storage."""
        self.requires_grad = requires_grad
        self.is_parameter = False
        self.quantisation = quantisation


class Instance:
    """An object of a class that the file defines, or names of PyTorch's own: its class and its state."""

    __slots__ = ("kind", "state")

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.state: Any = None


class _Function:
    """What REDUCE may call."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call


class SizeData(tuple[int, ...]):
    """A ``torch.Size``."""


class DeviceName(str):
    """A ``torch.device``."""

    __slots__ = ()


class ClassName(NamedTuple):
    """A class that the caller allows, of which a pickle makes instances."""

    value: Any


class Unpickler:
    """Reads one pickle.

    ``storage(key, dtype, count)`` gives the storage of a name; ``classes(name)`` what a dotted name that is not
    PyTorch's own stands for, or None. LoadError for everything else, and for what is malformed.
    """

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        storage: Callable[[str, Any, int], Storage],
        classes: Callable[[str], Any] = lambda _: None,
        name: str = "data.pkl",
    ) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._name = name
        self._storage = storage
        self._classes = classes
        self._stack: list[Any] = []
        self._marks = 0
        self._memo: dict[int, Any] = {}
        self._storages: dict[str, Storage] = {}

    @property
    def position(self) -> int:
        """Behind which byte reading has come to."""
        return self._at

    def error(self, what: str) -> LoadError:
        """The error at the place that was reached."""
        return LoadError(f"{self._name}, byte {self._at}: {what}")

    def load(self) -> Any:
        """The object; LoadError where the pickle is malformed or names what is not allowed."""
        try:
            return self._run()
        except (IndexError, struct.error, UnicodeDecodeError):
            raise self.error("the pickle is cut off, or malformed") from None
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
            raise self.error(f"the pickle is malformed: {error}") from None

    # --- reading ------------------------------------------------------------------------------------------------------

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise self.error("the pickle is cut off")
        part = bytes(self._data[self._at : end])
        self._at = end
        return part

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _line(self) -> str:
        limit = bytes(self._data[self._at : self._at + 4096])
        length = limit.find(b"\n")
        if length < 0:
            raise self.error("a name is cut off")
        self._at += length + 1
        return limit[:length].decode("utf-8")

    def _pop_mark(self) -> list[Any]:
        stack = self._stack
        position = len(stack) - 1
        while position >= 0 and stack[position] is not _MARK:
            position -= 1
        if position < 0:
            raise self.error("a mark is missing")
        items = stack[position + 1 :]
        del stack[position:]
        self._marks -= 1
        return items

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise self.error("a mark stands where a value should")
        return value

    def _run(self) -> Any:
        stack, memo = self._stack, self._memo
        while True:
            code = self._take(1)
            match code:
                case b"\x80":
                    if self._number("<B") > 5:
                        raise self.error("a pickle of an unknown protocol")
                case b"\x95":
                    self._number("<Q")
                case b".":
                    result = self._pop()
                    if stack:
                        raise self.error("the pickle ends with values left over")
                    return result
                case b"(":
                    self._marks += 1
                    if self._marks > _DEEPEST:
                        raise self.error("the pickle is nested too deep")
                    stack.append(_MARK)
                case b"0":
                    if stack.pop() is _MARK:
                        self._marks -= 1
                case b"1":
                    self._pop_mark()
                case b"2":
                    stack.append(self._top())
                case b"q":
                    memo[self._number("<B")] = self._top()
                case b"r":
                    memo[self._number("<I")] = self._top()
                case b"\x94":
                    memo[len(memo)] = self._top()
                case b"h":
                    stack.append(self._known(self._number("<B")))
                case b"j":
                    stack.append(self._known(self._number("<I")))
                case b"N":
                    stack.append(None)
                case b"\x88":
                    stack.append(True)
                case b"\x89":
                    stack.append(False)
                case b"J":
                    stack.append(self._number("<i"))
                case b"K":
                    stack.append(self._number("<B"))
                case b"M":
                    stack.append(self._number("<H"))
                case b"\x8a":
                    stack.append(int.from_bytes(self._take(self._number("<B")), "little", signed=True))
                case b"G":
                    stack.append(struct.unpack(">d", self._take(8))[0])
                case b"X":
                    stack.append(self._take(self._number("<I")).decode("utf-8", "surrogatepass"))
                case b"\x8c":
                    stack.append(self._take(self._number("<B")).decode("utf-8", "surrogatepass"))
                case b"\x8d":
                    stack.append(self._take(self._number("<Q")).decode("utf-8", "surrogatepass"))
                case b"U":
                    stack.append(self._take(self._number("<B")).decode("latin-1"))
                case b"T":
                    stack.append(self._take(self._number("<i")).decode("latin-1"))
                case b"C":
                    stack.append(self._take(self._number("<B")))
                case b"B":
                    stack.append(self._take(self._number("<I")))
                case b"\x8e":
                    stack.append(self._take(self._number("<Q")))
                case b")":
                    stack.append(())
                case b"\x85" | b"\x86" | b"\x87":
                    count = code[0] - 0x84
                    if len(stack) < count:
                        raise self.error("a tuple has too few elements")
                    items = [self._pop() for _ in range(count)]
                    stack.append(tuple(reversed(items)))
                case b"t":
                    stack.append(tuple(self._pop_mark()))
                case b"]":
                    stack.append([])
                case b"l":
                    stack.append(self._pop_mark())
                case b"a":
                    value = self._pop()
                    self._target(list).append(value)
                case b"e":
                    values = self._pop_mark()
                    self._target(list).extend(values)
                case b"}":
                    stack.append({})
                case b"s":
                    value, key = self._pop(), self._pop()
                    self._put(self._target(dict), [key, value])
                case b"u":
                    values = self._pop_mark()
                    self._put(self._target(dict), values)
                case b"\x8f":
                    stack.append(set())
                case b"\x90":
                    values = self._pop_mark()
                    self._target(set).update(map(self._hashable, values))
                case b"\x91":
                    stack.append(frozenset(map(self._hashable, self._pop_mark())))
                case b"c":
                    module, name = self._line(), self._line()
                    stack.append(self._global(f"{module}.{name}"))
                case b"\x93":
                    name, module = self._pop(), self._pop()
                    if not isinstance(name, str) or not isinstance(module, str):
                        raise self.error("a name that is no text")
                    stack.append(self._global(f"{module}.{name}"))
                case b"R":
                    args, function = self._pop(), self._pop()
                    stack.append(self._call(function, args))
                case b"\x81":
                    args, kind = self._pop(), self._pop()
                    stack.append(self._new(kind, args))
                case b"b":
                    state = self._pop()
                    self._build(self._top(), state)
                case b"Q":
                    stack.append(self._persistent(self._pop()))
                case _:
                    raise self.error(f"an opcode that PyTorch does not write: {code!r}")

    def _top(self) -> Any:
        if self._stack[-1] is _MARK:
            raise self.error("a mark stands where a value should")
        return self._stack[-1]

    def _known(self, number: int) -> Any:
        if number not in self._memo:
            raise self.error(f"value {number} is used before it is there")
        return self._memo[number]

    def _target(self, kind: type) -> Any:
        target = self._top()
        if not isinstance(target, kind):
            raise self.error(f"elements are added to a {type(target).__name__}")
        return target

    def _put(self, target: dict[Any, Any], values: Sequence[Any]) -> None:
        if len(values) % 2:
            raise self.error("a key has no value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[self._hashable(key)] = value

    def _hashable(self, key: Any) -> Any:
        """A key of plain values: hashing nested tuples would take time that grows as their sizes multiply."""
        if isinstance(key, _KEYS) or (isinstance(key, tuple) and all(isinstance(part, _KEYS) for part in key)):
            return key
        if isinstance(key, TensorData | np.dtype):
            return key
        raise self.error(f"a {type(key).__name__} as the key of a dict")

    # --- names --------------------------------------------------------------------------------------------------------

    def _global(self, name: str) -> Any:
        module, _, last = name.rpartition(".")
        if module in ("torch", "torch.storage"):
            if last in _STORAGES:
                return StorageType(last)
            if module == "torch" and last in _DTYPES:
                return _DTYPES[last]
            if module == "torch" and last in _SCHEMES:
                return last
        function = _FUNCTIONS.get(name)
        if function is not None:
            return _Function(name, function)
        known = self._classes(name)
        if known is None:
            raise LoadError(
                f"{self._name}: the pickle names {name}, which is none of the classes that are read here\n"
                "  hint: of a whole pickled module save the state_dict, torch.save(model.state_dict(), path)"
            )
        return known if isinstance(known, _Function) else ClassName(known)

    def _call(self, function: Any, args: Any) -> Any:
        if isinstance(function, ClassName):
            return self._new(function, args)
        if not isinstance(args, tuple):
            raise self.error("arguments that are no tuple")
        if not isinstance(function, _Function):
            raise self.error(f"a {type(function).__name__} is called")
        return function.call(self, *args)

    def _new(self, kind: Any, args: Any) -> Any:
        if isinstance(kind, _Function) and not args:
            return kind.call(self)
        if not isinstance(kind, ClassName):
            raise self.error("an instance of what is no class of this file")
        made = Instance(kind.value)
        if args != ():
            made.state = args
        return made

    def _build(self, target: Any, state: Any) -> None:
        if isinstance(target, Instance):
            target.state = state
        elif not isinstance(target, OrderedDict):  # what PyTorch hangs on state dicts, their ``_metadata``
            raise self.error(f"the state of a {type(target).__name__} is set")

    def _persistent(self, saved: Any) -> Any:
        if not isinstance(saved, tuple) or len(saved) < 5 or saved[0] != "storage":
            raise self.error("a persistent value that is no storage")
        kind, key, _, count = saved[1:5]
        if not isinstance(kind, StorageType) or not isinstance(key, str) or type(count) is not int or count < 0:
            raise self.error("a malformed storage")
        dtype = _STORAGES[kind.name]
        known = self._storages.get(key)
        if known is None:
            known = self._storages[key] = self._storage(key, dtype, count)
        elif known.dtype != np.dtype(dtype) or known.count != count:
            raise self.error(f"the storage {key!r} has two types or sizes")
        return known


# ----------------------------------------------------------------------
# The functions that PyTorch's pickles call.


def located(
    reader: Unpickler, storage: Any, offset: Any, size: Any, stride: Any, dtype: Any = None
) -> tuple[np.ndarray[Any, Any], tuple[Any, ...]]:
    """The array of a tensor in its storage, and a key that says which elements it is; LoadError where it has none."""
    if not isinstance(storage, Storage):
        raise reader.error("a tensor of what is no storage")
    sizes, strides = tuple(size), tuple(stride)
    kind = storage.dtype if dtype is None else np.dtype(dtype)
    available = storage.count * storage.dtype.itemsize // kind.itemsize
    require_within(available, sizes, strides, offset, reader.error)
    if 0 in sizes:
        return np.zeros(sizes, kind), (id(storage), offset, sizes, strides, kind.str)
    values = storage.elements(dtype)
    if len(values) < available:
        raise reader.error("a storage has fewer bytes than its tensors need")
    array = part_of(values, sizes, strides, offset)
    return array, (id(storage), offset, sizes, strides, kind.str)


def _rebuild_tensor(reader: Unpickler, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> TensorData:
    array, key = located(reader, storage, offset, size, stride)
    return TensorData(array, key, False)


def _rebuild_tensor_v2(
    reader: Unpickler,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    _hooks: Any = None,
    metadata: Any = None,
    *_: Any,
) -> TensorData:
    array, key = located(reader, storage, offset, size, stride)
    flags = metadata if isinstance(metadata, dict) else {}
    if flags.get("conj"):
        array = array.conj()
    if flags.get("neg"):
        array = -array
    return TensorData(array, (*key, bool(flags.get("conj")), bool(flags.get("neg"))), bool(requires_grad))


def _rebuild_tensor_v3(
    reader: Unpickler,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    _hooks: Any,
    dtype: Any,
    *_: Any,
) -> TensorData:
    if not isinstance(dtype, np.dtype):
        raise reader.error("a tensor of what is no dtype")
    array, key = located(reader, storage, offset, size, stride, dtype)
    return TensorData(array, key, bool(requires_grad))


def _rebuild_parameter(reader: Unpickler, data: Any, requires_grad: Any, *_: Any) -> TensorData:
    if not isinstance(data, TensorData):
        raise reader.error("a parameter of what is no tensor")
    made = TensorData(data.array, data.key, bool(requires_grad))
    made.is_parameter = True
    return made


_QUANTISED: Final = {np.dtype(np.int8): "qint8", np.dtype(np.uint8): "quint8", np.dtype(np.int32): "qint32"}


def _rebuild_qtensor(
    reader: Unpickler, storage: Any, offset: Any, size: Any, stride: Any, parameters: Any, requires_grad: Any, *_: Any
) -> TensorData:
    array, key = located(reader, storage, offset, size, stride)
    match parameters:
        case ("per_tensor_affine", float() as scale, int() as zero):
            quantisation = Quantisation(scale, zero, None, _QUANTISED.get(array.dtype, ""))
        case (str(), TensorData() as scales, TensorData() as zeros, int() as axis):
            if not 0 <= axis < array.ndim or scales.array.shape != zeros.array.shape != (array.shape[axis],):
                raise reader.error("a quantised tensor with the scales of another one")
            quantisation = Quantisation(scales.array, zeros.array, axis, _QUANTISED.get(array.dtype, ""))
        case _:
            raise reader.error("a quantised tensor of an unknown scheme")
    return TensorData(array, (*key, "quantised"), bool(requires_grad), quantisation)


def _listed(reader: Unpickler, values: Any) -> Any:
    if not isinstance(values, list):
        raise reader.error("a list of what is none")
    return values


def _ordered(reader: Unpickler, items: Any = ()) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict()
    if not isinstance(items, list | tuple) or not all(isinstance(i, list | tuple) and len(i) == 2 for i in items):
        raise reader.error("an ordered dict of what are no pairs")
    reader._put(made, [part for pair in items for part in pair])
    return made


def _sized(reader: Unpickler, sizes: Any = ()) -> SizeData:
    if not isinstance(sizes, list | tuple) or not all(type(n) is int for n in sizes):
        raise reader.error("sizes that are no ints")
    return SizeData(sizes)


def _device(reader: Unpickler, *parts: Any) -> DeviceName:
    if not parts or not isinstance(parts[0], str):
        raise reader.error("a device that has no name")
    return DeviceName(":".join(map(str, parts)))


def _set_of(reader: Unpickler, values: Iterable[Any] = ()) -> set[Any]:
    return set(map(reader._hashable, values))


def _counted(reader: Unpickler, values: Any = None) -> Counter[Any]:
    made: Counter[Any] = Counter()
    if isinstance(values, dict):
        made.update(values)
    return made


def _encoded(reader: Unpickler, text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise reader.error("bytes of an unknown encoding")
    return text.encode("latin1")


def _complex(reader: Unpickler, real: Any, imaginary: Any) -> complex:
    return complex(real, imaginary)


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_qtensor": _rebuild_qtensor,
    "torch.jit._pickle.build_intlist": _listed,
    "torch.jit._pickle.build_tensorlist": _listed,
    "torch.jit._pickle.build_doublelist": _listed,
    "torch.jit._pickle.build_boollist": _listed,
    "torch.jit._pickle.restore_type_tag": lambda reader, value, *_: value,
    "torch.nn.parameter.Parameter": _rebuild_parameter,
    "torch.serialization._get_layout": lambda reader, name: name,
    "torch.Size": _sized,
    "torch.device": _device,
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counted,
    "collections.defaultdict": lambda reader, *_: defaultdict(),
    "builtins.set": _set_of,
    "__builtin__.set": _set_of,
    "builtins.complex": _complex,
    "__builtin__.complex": _complex,
    "_codecs.encode": _encoded,
}
