"""``torch.jit.load``: an archive of TorchScript as a module."""

from __future__ import annotations

import ast
import enum
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

import numpy as np

from jitgraph import dtypes, foreign_files
from jitgraph.errors import LoadError, LocatedError
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.torch.jit.modules import ScriptModule, exported
from jitgraph.torch.nn.parameter import Parameter
from jitgraph.torch.tensors import adopted
from jitgraph.torch.torchscript import attributes, quantised, values
from jitgraph.torch.torchscript.aliasing import writes_in_place
from jitgraph.torch.torchscript.archive import Archive
from jitgraph.torch.torchscript.evaluator import ScriptFunction
from jitgraph.torch.torchscript.operators import Dialect
from jitgraph.torch.torchscript.setstate import require_harmless
from jitgraph.torch.torchscript.source import ClassSource, FunctionSource, Sources, dotted
from jitgraph.torch.torchscript.unpickle import Instance, Storage, TensorData, Unpickler

_NEWEST: Final = 10
"""The newest version of the operator set that is known here."""

_LARGEST_PICKLE: Final = 1 << 28
_LARGEST_DESCRIPTION: Final = 1 << 24


class ArchiveCode:
    """The code of an archive: classes and functions by name, and the constants that they refer to."""

    def __init__(self, sources: Sources, constants: Callable[[], list[Any]], version: int) -> None:
        self.sources = sources
        names = sources.operators()
        self.dialect = Dialect(
            version, writes_in_place(names), any(name.startswith(("quantized.", "quantize_")) for name in names)
        )
        self.replaced = attributes.replaced(attributes.functions_of(sources.every()))
        """The attributes that the code replaces."""
        self._read_constants = constants
        self._constants: list[Any] | None = None
        self._functions: dict[str, ScriptFunction] = {}
        self._classes: dict[str, Any] = {}

    def constant(self, name: str) -> Callable[[Any], Any]:
        """What ``CONSTANTS.c0`` is, as an expression of a frame."""
        if self._constants is None:
            self._constants = self._read_constants()
        number = name.removeprefix("c")
        if not number.isdecimal() or int(number) >= len(self._constants):
            raise LoadError(f"the archive has no constant {name}")
        value = self._constants[int(number)]
        if isinstance(value, Tensor) and not value.ndim and value.dtype == dtypes.int64:
            value = int(value._value.array)  # traced code divides sizes by such; a number promotes as it does
        return lambda f: value

    def function(self, qualified: str, source: FunctionSource) -> ScriptFunction:
        """A free function."""
        known = self._functions.get(qualified)
        if known is None:
            known = self._functions[qualified] = ScriptFunction(source, self)
        return known

    def enum_member(self, path: str) -> Any:
        """The member of an enum of the archive; None where the path names none."""
        qualified, _, name = path.rpartition(".")
        source = self.sources.find(qualified)
        if not isinstance(source, ClassSource) or source.base != "Enum":
            return None
        return self.class_of(source).__members__.get(name)

    def class_of(self, source: ClassSource) -> Any:
        """The Python class of a class of the archive."""
        known = self._classes.get(source.qualified)
        if known is None:
            try:
                known = self._classes[source.qualified] = self._made(source)
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise LoadError(f"{source.file}: {source.name} is no sound class: {error}") from None
        return known

    def _made(self, source: ClassSource) -> Any:
        if source.base == "Enum":
            members = {name: _literal(value, source) for name, value in source.values.items()}
            return enum.Enum(source.name, members)
        if source.base == "NamedTuple":
            return named_tuple(source.name, tuple(source.types), source.qualified)
        methods = {name: ScriptFunction(method, self) for name, method in source.methods.items()}
        body: dict[str, Any] = {"qualified": source.qualified, "script_methods": methods, "__module__": __name__}
        if not source.is_module:
            return type(source.name, (ScriptObject,), body)
        body["script_children"] = tuple(name for name, kind in source.types.items() if self._is_module(kind))
        for name, method in source.methods.items():
            if not name.startswith("__"):
                body[name] = exported(name, self._parameters(method, source))
        constants = {name: _literal(value, source) for name, value in source.values.items()}
        body |= {name: value for name, value in constants.items() if name not in body and not name.startswith("__")}
        return type(source.name, (ScriptModule,), body)

    def _parameters(self, method: FunctionSource, source: ClassSource) -> list[inspect.Parameter]:
        parameters = []
        for number, parameter in enumerate(method.parameters):
            default: Any = inspect.Parameter.empty
            match parameter.default:
                case None:
                    pass
                case ast.Attribute(value=ast.Name(id="CONSTANTS"), attr=name):
                    default = self.constant(name)(None)
                case node:
                    default = _literal(node, source)
            name = "self" if number == 0 else parameter.name
            parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
        return parameters

    def _is_module(self, kind: ast.expr) -> bool:
        path = dotted(kind)
        found = self.sources.find(path) if path is not None else None
        return isinstance(found, ClassSource) and found.base in ("Module", "ModuleInterface")


class ScriptObject:
    """An instance of a TorchScript class that is no module."""

    qualified = ""
    script_methods: Mapping[str, ScriptFunction] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of TorchScript>"


def named_tuple(name: str, fields: tuple[str, ...], qualified: str) -> Any:
    """A class of tuples with named fields, made without a text of code."""

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        values = [*args, *(kwargs[field] for field in fields[len(args) :])]
        if len(values) != len(fields):
            raise TypeError(f"{name} has the fields {', '.join(fields)}")
        return tuple.__new__(cls, values)

    def getter(number: int) -> property:
        return property(lambda self: self[number])

    body = {field: getter(number) for number, field in enumerate(fields)}
    extra = {
        "_fields": fields,
        "_make": classmethod(lambda cls, values: cls(*values)),
        "_asdict": lambda self: dict(zip(fields, self, strict=True)),
        "_field_defaults": {},
        "__new__": new,
        "__slots__": (),
        "__module__": __name__,
        "__getnewargs__": lambda self: tuple(self),
        "__repr__": lambda self: f"{name}({', '.join(f'{f}={v!r}' for f, v in zip(fields, self, strict=True))})",
        "qualified": qualified,
    }
    return type(name, (tuple,), {**body, **extra})


def _literal(node: ast.expr, source: ClassSource) -> Any:
    """The value of a constant that is written in a class."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -float("inf")
        case ast.Tuple(elts=parts):
            return tuple(_literal(part, source) for part in parts)
        case ast.List(elts=parts):
            return [_literal(part, source) for part in parts]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_literal(key, source): _literal(value, source) for key, value in pairs if key is not None}
        case ast.Call(func=ast.Name(id="annotate"), args=[_, inner]):
            return _literal(inner, source)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="device"), args=[ast.Constant(value=str(text))]
        ):
            return text
    raise LoadError(f"{source.file}, line {node.lineno}: a constant that is no literal")


# ----------------------------------------------------------------------
# The objects of an archive.


class _Builder:
    """Makes modules, objects and tensors of what a pickle of the archive has."""

    def __init__(self, program: ArchiveCode) -> None:
        self.program = program
        self._tensors: dict[tuple[Any, ...], Tensor] = {}
        self._made: dict[int, Any] = {}
        self._alive: list[Any] = []  # what ids in _made are of
        self._open: set[int] = set()

    def value(self, value: Any, depth: int = 0) -> Any:
        """The value that a part of a pickle stands for."""
        if depth > 200:
            raise LoadError("the archive's objects are nested too deep")
        if isinstance(value, TensorData):
            return self.tensor(value)
        if isinstance(value, Instance):
            return self.instance(value, depth)
        if not isinstance(value, list | dict | tuple):
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        if id(value) in self._open:
            raise LoadError("the archive has a container that holds itself")
        self._open.add(id(value))
        made: Any
        if isinstance(value, dict):
            made = {self.value(key, depth + 1): self.value(item, depth + 1) for key, item in value.items()}
        else:
            made = type(value)(self.value(item, depth + 1) for item in value)
        self._open.discard(id(value))
        self._alive.append(value)
        self._made[id(value)] = made
        return made

    def tensor(self, data: TensorData) -> Any:
        """The tensor of an entry; the same one for each entry of the same elements."""
        known = self._tensors.get(data.key)
        if known is None:
            known = self._tensors[data.key] = self._new_tensor(data)
        return known

    def _new_tensor(self, data: TensorData) -> Any:
        array = np.array(data.array)
        if data.quantisation is None:
            made = adopted(asarray(array))
            return made.requires_grad_() if data.requires_grad else made
        scale, zero, axis, kind = data.quantisation
        if axis is not None:
            scale, zero = asarray(np.array(scale)), asarray(np.array(zero))
        return quantised.QuantisedTensor(asarray(array), scale, zero, kind, axis)

    def instance(self, entry: Instance, depth: int) -> Any:
        """The module or object of an entry."""
        if id(entry) in self._made:
            return self._made[id(entry)]
        if id(entry) in self._open:
            raise LoadError("the archive has an object that holds itself")
        self._open.add(id(entry))
        source = entry.kind
        if isinstance(source, str):
            made = self._packed(source, self.value(entry.state, depth + 1))
        elif source.base == "Enum":
            made = self._enum(source, entry.state)
        elif source.base == "NamedTuple":
            made = self.program.class_of(source)(*self.value(entry.state, depth + 1))
        else:
            made = self._object(source, entry.state, depth)
        self._open.discard(id(entry))
        self._alive.append(entry)
        self._made[id(entry)] = made
        return made

    def _enum(self, source: ClassSource, state: Any) -> Any:
        kind = self.program.class_of(source)
        value = state[0] if isinstance(state, tuple) and len(state) == 1 else state
        try:
            return kind(value)
        except ValueError:
            if isinstance(value, str) and value in kind.__members__:
                return kind[value]
            raise LoadError(f"{source.qualified} has no member {value!r}") from None

    def _packed(self, kind: str, state: Any) -> Any:
        match kind.rpartition(".")[2], state:
            case "LinearPackedParamsBase", (weight, bias):
                return quantised.PackedLinear(weight, bias)
            case (("Conv2dPackedParamsBase" | "Conv3dPackedParamsBase"), (_, [Tensor() as options, weight], [*bias])):
                numbers = [int(n) for n in np.asarray(options)]
                rank = numbers[1]
                stride, padding, dilation = (numbers[2 + i * rank : 2 + (i + 1) * rank] for i in range(3))
                groups = numbers[2 + 4 * rank]
                return quantised.PackedConvolution(weight, bias[0] if bias else None, stride, padding, dilation, groups)
        raise LoadError(f"the archive has an object of {kind}, whose state is not known here")

    def _object(self, source: ClassSource, state: Any, depth: int) -> Any:
        kind = self.program.class_of(source)
        made = kind()
        if "__setstate__" in source.methods:
            require_harmless(source.methods["__setstate__"], self.program.sources)
            value = self.value(state, depth + 1)
            try:
                made.script_methods["__setstate__"](made, value)
            except (LocatedError, ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as error:
                raise LoadError(f"{source.qualified}.__setstate__ fails: {error}") from error
            return made
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise LoadError(f"the state of a {source.qualified} is no dict")
        if source.is_module:
            self._fill(made, source, state, depth)
        else:
            for name, value in state.items():
                setattr(made, name, self.value(value, depth + 1))
        return made

    def _fill(self, module: ScriptModule, source: ClassSource, state: dict[str, Any], depth: int) -> None:
        attributes = vars(module)
        for name, entry in state.items():
            if not values.is_free(name):
                raise LoadError(f"{source.qualified} has an attribute {name}")
            if name == "_is_full_backward_hook":
                continue
            value = self.value(entry, depth + 1)
            if name in source.parameters and isinstance(value, Tensor):
                value = self._parameter(entry, value)
            elif name in source.buffers and isinstance(value, Tensor):
                module._persistence[name] = True
            attributes[name] = value
        module.training = bool(state.get("training", True))

    def _parameter(self, entry: TensorData, tensor: Tensor) -> Parameter:
        if not isinstance(tensor, Parameter):
            tensor = self._tensors[entry.key] = Parameter(tensor, requires_grad=entry.requires_grad)
        return tensor


# ----------------------------------------------------------------------


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> ScriptModule:
    """The module of a TorchScript archive, which ``torch.jit.save`` wrote, without PyTorch.

    ``map_location`` is the device of its tensors (the CPU). The names in ``_extra_files`` get the contents of the
    archive's extra files. LoadError for what is no sound archive, or needs what is not known here; nothing of the file
    is run as Python code.
    """
    with Archive(f) as archive:
        module = _module_of(archive)
        for name in _extra_files or ():
            assert _extra_files is not None
            if f"extra/{name}" in archive:
                _extra_files[name] = bytes(archive.read(f"extra/{name}"))
    return module if map_location is None else module.to(str(map_location))


def _module_of(archive: Archive) -> ScriptModule:
    if "constants.pkl" not in archive or "data.pkl" not in archive:
        if "model.json" in archive:
            raise archive.error(_of_legacy(archive))
        known = foreign_files.of_members([f"m/{name}" for name in archive])
        raise archive.error(f"it is {known.text}\n  hint: {known.hint}" if known else "no TorchScript archive")
    version = _version(archive)
    swapped = "byteorder" in archive and archive.text("byteorder").strip() == "big"
    code = [name for name in archive if name.startswith("code/") and name.endswith(".py")]
    sources = Sources({name.removeprefix("code/"): archive.text(name) for name in code}, archive.name)

    def classes(name: str) -> Any:
        if name.startswith("__torch__.torch.classes.quantized."):
            return name
        found = sources.find(name)
        return found if isinstance(found, ClassSource) else None

    def unpickled(member: str, folder: str) -> Any:
        if archive.size(member) > _LARGEST_PICKLE:
            raise archive.error(f"{member} has {archive.size(member)} bytes")

        def storage(key: str, dtype: Any, count: int) -> Storage:
            name = f"{folder}/{key}"
            if archive.size(name) < count * np.dtype(dtype).itemsize:
                raise archive.error(f"{name} has fewer bytes than its {count} elements need")
            return Storage(lambda: archive.read(name), dtype, count, swapped)

        return Unpickler(archive.read(member), storage, classes, f"{archive.name}: {member}").load()

    raw_constants = unpickled("constants.pkl", "constants")
    if not isinstance(raw_constants, tuple | list):
        raise archive.error("constants.pkl holds no list")
    builder: _Builder
    program = ArchiveCode(sources, lambda: [builder.value(value) for value in raw_constants], version)
    builder = _Builder(program)
    program._constants = program._read_constants()
    try:
        module = builder.value(unpickled("data.pkl", "data"))
    except RecursionError:
        raise archive.error("the archive's objects are nested too deep") from None
    if not isinstance(module, ScriptModule):
        raise archive.error("data.pkl holds no module")
    return module


def _of_legacy(archive: Archive) -> str:
    """What to say of an archive whose objects are described by ``model.json``."""
    text = "an archive as PyTorch wrote it before version 1.4, with its objects in model.json"
    if archive.size("model.json") <= _LARGEST_DESCRIPTION:
        found = re.search(r'"protoVersion"\s*:\s*"?(\d{1,9})', archive.text("model.json"))
        text += f", version {found[1]} of that format" if found else ""
    return (
        f"{text}\n  hint: torch.jit.save(torch.jit.load(path), new_path) in a Python with PyTorch, which still reads it"
    )


def _version(archive: Archive) -> int:
    name = "version" if "version" in archive else ".data/version"
    text = archive.text(name).strip() if name in archive and archive.size(name) < 32 else ""
    if not text.isdecimal():
        raise archive.error("the archive has no version")
    if not 1 <= int(text) <= _NEWEST:
        raise archive.error(f"an archive of version {text}, where 1 to {_NEWEST} are known")
    return int(text)
