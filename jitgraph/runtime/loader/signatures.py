"""What an entry takes, gives and prints, and that the parts of it fit together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph.runtime.loader.errors import CHECK_KINDS, LoadError
from jitgraph.runtime.loader.json_objects import FrozenRecord, Json, get_typed
from jitgraph.runtime.loader.specs import (
    INT64_MAX,
    MAX_RANK,
    Array,
    Constraint,
    Expression,
    Size,
    StateSpec,
    ValueSpec,
    dtype_named,
)
from jitgraph.runtime.loader.structures import Argument, verify_arguments

# ----------------------------------------------------------------------
# What a program prints: texts, and its operands in their styles and formats.

PRINT_STYLES: Final = ("array", "tensor", "leaf", "number")
"""How an operand of a print looks: as NumPy prints it, as a tensor does, as a tensor that requires a gradient does, as
the Python number does that the 0-d operand holds."""

_CONVERSIONS: Final = ("", "r", "s")
_STREAMS: Final = ("stdout", "stderr")
_MAX_FORM: Final = 64


class PrintOperand(ValueSpec):
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
        plain = ValueSpec.from_json(source, where)
        style, conversion, form = (get_typed(source, key, str, where) for key in ("style", "conversion", "form"))
        return PrintOperand(plain.name, plain.dtype, plain.shape, style=style, conversion=conversion, form=form)


class Print(FrozenRecord):
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
        texts = get_typed(source, "texts", list, where)
        if not all(isinstance(text, str) for text in texts):
            raise LoadError(f"{where}: 'texts' holds something that is not a text")
        return Print(
            texts=tuple(texts),
            operands=tuple(
                PrintOperand.from_json(operand, where) for operand in get_typed(source, "operands", list, where)
            ),
            stream=get_typed(source, "stream", str, where),
            flush=get_typed(source, "flush", bool, where),
            location=get_typed(source, "location", str, where),
        )

    def verify(self, where: str) -> None:
        """LoadError where the parts do not fit together."""
        if len(self.texts) != len(self.operands) + 1 or self.stream not in _STREAMS:
            raise LoadError(f"{where}: {len(self.texts)} texts around {len(self.operands)} operands to {self.stream!r}")
        for operand in self.operands:
            if dtype_named(operand.dtype).kind == "c":
                raise LoadError(f"{where}: {operand.dtype} of {operand.name!r:.80} is not printed")
            if operand.style not in PRINT_STYLES or operand.conversion not in _CONVERSIONS:
                raise LoadError(f"{where}: {operand!r:.120} has no known style or conversion")
            as_array = operand.shape and not operand.conversion
            number = operand.shape and operand.style == "number"
            if len(operand.form) > _MAX_FORM or (operand.form and as_array) or number:
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


# ----------------------------------------------------------------------
# Functions of the user's that a program calls by their names.


class CustomCall(FrozenRecord):
    """A call of a custom op inside the native code: its name in the caller's table, its operands and results."""

    op: str
    operands: tuple[ValueSpec, ...]
    results: tuple[ValueSpec, ...]
    location: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        operands, results = ([spec.to_json() for spec in some] for some in (self.operands, self.results))
        return {**vars(self), "operands": operands, "results": results}

    @staticmethod
    def from_json(source: Json, where: str) -> CustomCall:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        operands, results = (
            tuple(ValueSpec.from_json(spec, where) for spec in get_typed(source, key, list, where))
            for key in ("operands", "results")
        )
        op, location = (get_typed(source, key, str, where) for key in ("op", "location"))
        return CustomCall(op, operands, results, location)

    def verify(self, where: str) -> None:
        """LoadError where the parts do not fit together."""
        if not self.op.isidentifier() or not self.results:
            raise LoadError(f"{where}: {self.op!r:.80} is no name of a custom op with results")
        for spec in (*self.operands, *self.results):
            _verify_type(spec, where)

    @property
    def types(self) -> str:
        """Its types in short: "float32[2], int64[0] -> float32[2]", ranks in brackets."""
        sides = (self.operands, self.results)
        left, right = (", ".join(f"{spec.dtype}[{len(spec.shape)}]" for spec in some) for some in sides)
        return f"{left} -> {right}"


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


# ----------------------------------------------------------------------
# What an entry takes and gives, and that the parts of it fit together.

Template: TypeAlias = Any
"""Structure of a result in JSON: an int is an output's index, None is None, ``{"tuple": [...]}``, ``{"list": [...]}``,
``{"dict": {...}}`` nest, ``{"value": v}`` is a constant bool, int, float or str."""


class Check(FrozenRecord):
    """A check inside the native code: ``{index}`` and ``{bound}`` in the message are filled in when it fails."""

    message: str
    kind: str = "ValueError"
    location: str = ""


class Signature(FrozenRecord):
    """What an entry takes and gives: the contract between a graph, its native code and its caller."""

    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    state: tuple[StateSpec, ...] = ()
    writes: tuple[tuple[int, int], ...] = ()  # (output, state): written back to the state after success
    aliases: tuple[tuple[int, int], ...] = ()  # (output, input or state in ABI order): may share an address
    dims: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    prints: tuple[Print, ...] = ()
    calls: tuple[CustomCall, ...] = ()
    structure: Template = None
    name: str = "forward"
    arguments: tuple[Argument, ...] | None = None  # None: one for each input, of its name

    def __post_init__(self) -> None:
        """LoadError where the parts do not fit together."""
        _verify_signature(self)

    def __hash__(self) -> int:  # the structure may hold lists and dicts
        return hash((self.name, self.inputs, self.outputs, self.state, self.constraints))

    @property
    def parameters(self) -> tuple[ValueSpec, ...]:
        """The inputs of the ABI: the user's, then the state."""
        return (*self.inputs, *self.state)

    @property
    def results(self) -> tuple[ValueSpec, ...]:
        """The outputs that the caller gets: all but those that are written back to the state."""
        return tuple(self.outputs[index] for index in self.shown)

    @property
    def shown(self) -> list[int]:
        """The indices of ``results``."""
        written = {output for output, _ in self.writes}
        return [index for index in range(len(self.outputs)) if index not in written]

    def to_json(self) -> dict[str, Json]:
        """A JSON object that ``from_json`` reads back to an equal signature."""
        structured = [argument.to_json() for argument in self.arguments or ()]
        called = [each.to_json() for each in self.calls]
        return (
            ({} if self.arguments is None else {"arguments": structured})
            | ({"calls": called} if called else {})
            | {
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
        )

    @staticmethod
    def from_json(source: Json, where: str = "signature") -> Signature:
        """Read what ``to_json`` gave; LoadError where it is malformed."""

        def texts(key: str) -> tuple[str, ...]:
            items = get_typed(source, key, list, where)
            if not all(isinstance(text, str) for text in items):
                raise LoadError(f"{where}: {key!r} holds something that is not a text")
            return tuple(items)

        def pairs(key: str) -> tuple[tuple[int, int], ...]:
            items = get_typed(source, key, list, where)
            for pair in items:
                if not (isinstance(pair, list) and len(pair) == 2 and all(type(index) is int for index in pair)):
                    raise LoadError(f"{where}: {key!r} holds {pair!r:.60}, expected pairs of ints")
            return tuple((a, b) for a, b in items)

        checks = tuple(
            Check(*(get_typed(check, part, str, f"{where}, check {i}") for part in ("message", "kind", "location")))
            for i, check in enumerate(get_typed(source, "checks", list, where))
        )

        structured = "arguments" in source

        def specs(key: str) -> Iterable[tuple[Json, str]]:
            return ((spec, f"{where}, {key} {i}") for i, spec in enumerate(get_typed(source, key, list, where)))

        return Signature(
            inputs=tuple(ValueSpec.from_json(*spec) for spec in specs("inputs")),
            outputs=tuple(ValueSpec.from_json(*spec) for spec in specs("outputs")),
            state=tuple(StateSpec.from_json(*spec) for spec in specs("state")),
            writes=pairs("writes"),
            aliases=pairs("aliases"),
            dims=texts("dims"),
            constraints=texts("constraints"),
            checks=checks,
            prints=tuple(
                Print.from_json(each, f"{where}, print {number}")
                for number, each in enumerate(get_typed(source, "prints", list, where))
            ),
            calls=tuple(
                CustomCall.from_json(each, f"{where}, call {number}")
                for number, each in enumerate(get_typed(source, "calls", list, where) if "calls" in source else ())
            ),
            structure=source.get("structure"),
            name=get_typed(source, "name", str, where),
            arguments=tuple(Argument.from_json(*each) for each in specs("arguments")) if structured else None,
        )

    def default_structure(self) -> Template:
        """The structure of results where none is given: the outputs that are not written back, bare if there is one."""
        shown = self.shown
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
        _verify_type(spec, where)
        for size in spec.shape:
            if isinstance(size, str) and (unknown := Expression(size).names - known):
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
    for number, call in enumerate(signature.calls):
        call.verify(f"{where}, call {number}")
        texts = [size for spec in (*call.operands, *call.results) for size in spec.shape if isinstance(size, str)]
        if strange := frozenset[str]().union(*(Expression(text).names for text in texts)) - known:
            raise LoadError(f"{where}, call {number}: the dims {sorted(strange)} are unknown")
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
        verify_template(signature.structure, len(signature.outputs), where)
    if signature.arguments is not None:
        verify_arguments(signature.arguments, len(signature.inputs), where)


def _verify_type(spec: ValueSpec, where: str) -> None:
    """LoadError for a dtype, a rank or a size that no tensor has."""
    dtype_named(spec.dtype)
    if len(spec.shape) > MAX_RANK:
        raise LoadError(f"{where}: {spec.name!r} has rank {len(spec.shape)}, at most {MAX_RANK} is possible")
    for size in spec.shape:
        if isinstance(size, int) and not 0 <= size <= INT64_MAX:
            raise LoadError(f"{where}: {spec.name!r} has the size {size}")


def _type_of(spec: ValueSpec) -> tuple[str, tuple[Size, ...]]:
    return spec.dtype, spec.shape


def _verify_pairs(pairs: Sequence[tuple[int, int]], left: int, right: int, where: str) -> None:
    for a, b in pairs:
        if not (0 <= a < left and 0 <= b < right):
            raise LoadError(f"{where}: the pair {(a, b)} is out of range")
    if len({a for a, _ in pairs}) != len(pairs) or len({b for _, b in pairs}) != len(pairs):
        raise LoadError(f"{where}: an index appears twice")


def verify_template(template: Template, outputs: int, where: str, depth: int = 0) -> None:
    """LoadError where ``template`` is no structure of so many outputs."""
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
                verify_template(item, outputs, where, depth + 1)
            return
        case {"dict": dict(items), **rest} if not rest:
            for item in items.values():
                verify_template(item, outputs, where, depth + 1)
            return
        case {"value": bool() | int() | float() | str(), **rest} if not rest:
            return
    raise LoadError(f"{where}: {template!r:.60} is no structure of a result")


def rebuild(template: Template, outputs: Sequence[Any]) -> Any:
    """The outputs in the structure that ``template`` describes."""
    match template:
        case None:
            return None
        case int():
            return outputs[template]
        case {"tuple": items}:
            return tuple(rebuild(item, outputs) for item in items)
        case {"list": items}:
            return [rebuild(item, outputs) for item in items]
        case {"dict": items}:
            return {key: rebuild(item, outputs) for key, item in items.items()}
    return template["value"]
