"""What PyTorch's backward checks: whether a tensor that a gradient reads was written since the op ran.

Values here are never written, so the tape has those of the call. A write gives the tensor another value, and what was
there is noted if anyone still refers to it: as changed, where the write counts as a version of the tensor, or as
replaced, where it went through ``.data``. A gradient that reads the former is refused, as PyTorch refuses it; for the
latter it reads the new values, as PyTorch does. Notes end with the values that they are about.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from jitgraph.eager import tape
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue, LeafRecord, Record
from jitgraph.errors import JitgraphError
from jitgraph.ir.types import TensorType
from jitgraph.location import Place, located, user_location


class Contents:
    """What a tensor has from one counted write to the next: ``value``, the newest, None once the next write came."""

    __slots__ = ("__weakref__", "owner", "place", "value", "version")

    def __init__(self, value: Any, version: int) -> None:
        self.value = value
        self.version = version  # of the tensor at that time
        self.owner: Any = None  # refers to the tensor, weakly
        self.place: Place = None  # of the write that ended it


class _Part(NamedTuple):
    """How a view's value was read: ``read`` of a value of the base; through ``data``, which counts its own writes."""

    base: Any
    read: Callable[[Any], Any]
    data: Any
    writes: int
    is_form: bool


class _Notes(dict[int, Any]):
    """Notes about objects by their identity, which end with the objects."""

    def about(self, obj: Any) -> Any:
        """The note about an object, or None."""
        entry = self.get(id(obj))
        return None if entry is None or entry[0]() is not obj else entry[1]

    def write(self, obj: Any, note: Any) -> None:
        """Note this about an object, in the place of what was noted before."""
        key = id(obj)

        def forget(reference: Any) -> None:
            if key in self and self[key][0] is reference:
                del self[key]

        self[key] = weakref.ref(obj, forget), note


_COMPUTED: Final = (EagerValue, DeviceValue)

_contents: Final = _Notes()
"""By values that were overwritten: the ``Contents`` that they were."""
_followed: Final = _Notes()
"""By tensors with such contents that were not ended by a counted write: the contents, weakly."""
_RESULTS: Final = "results"
"""The note of a record: by the number of a result the contents that it was, or the ``_Part`` of a tensor that it
became. What is written to a view leads back to the record, so the record itself has the note."""
_OWN: Final = "own"
"""The note of an op in place that the tensor that was written is the first operand, of which PyTorch has a copy."""
_parts: Final = _Notes()
"""By values that are parts or forms of another value: a ``_Part``."""


class _WrittenSince(Exception):
    def __init__(self, expected: int, version: int, contents: Contents | None = None) -> None:
        super().__init__()
        self.expected = expected
        self.version = version
        self.contents = contents


class _PresentUnknown(Exception):
    """What PyTorch would read is not known here."""


def overwritten(tensor: Any, old: Any, *, counted: bool) -> None:
    """Note that a tensor has another value than ``old`` from now on; ``counted``: as another version, else through
    ``.data``. Its version is still that of before."""
    new = tensor._value
    if not isinstance(old, _COMPUTED) or not isinstance(new, _COMPUTED):
        return
    reference = _followed.about(tensor)
    contents = (reference and reference()) or _contents.about(old) or Contents(old, tensor._version)
    if _contents.about(old) is None:
        if isinstance(old, EagerValue):
            old.export()  # so that no later result takes the object for its own
        _contents.write(old, contents)
    record = old.record
    if record is not None and not isinstance(record, LeafRecord):
        results = _results_of(record)
        ended = results.get(old.output)
        if not isinstance(ended, Contents) or ended.value is not None:  # else the first counted write stays in mind
            record.note(_RESULTS, {**results, old.output: contents})
    if counted:
        contents.value = None
        contents.owner = weakref.ref(tensor)
        contents.place = user_location()
        _followed.pop(id(tensor), None)
    else:
        contents.value = new
        _followed.write(tensor, weakref.ref(contents))
    computed_in_place(new, old)
    tape.LAST_WRITE[0] = next(tape.ORDER)


def computed_in_place(new: Any, old: Any) -> None:
    """Note that ops in place computed the value ``new`` of a tensor that had the value ``old``."""
    last, record = new.record, old.record
    if last is not None and last is not record:
        _note_own(last, old, -1 if record is None else record.order)


def _note_own(last: Record, old: Any, oldest: int) -> None:
    """Note which of the records that made a tensor's new value took its old one for their first operand.

    They stand at one instruction of the user's, and are newer than the old value.
    """
    waiting, seen = [last], {last}
    while waiting:
        record = waiting.pop()
        inputs = record.inputs or ()
        if inputs and (inputs[0] is old or _is_part_of(inputs[0], old)):
            record.note(_OWN, True)
        for value in inputs:
            before = getattr(value, "record", None)
            if before is not None and before.order > oldest and before not in seen and before._place == last._place:
                seen.add(before)
                waiting.append(before)


def _results_of(record: Record) -> dict[int, Contents | _Part]:
    results: dict[int, Contents | _Part] = (record.notes or {}).get(_RESULTS, {})
    return results


def _is_part_of(value: Any, old: Any) -> bool:
    part = _parts.about(value)
    return part is not None and (part.base is old or _is_part_of(part.base, old))


def became_part(value: Any, base: Any, read: Callable[[Any], Any], data: Any) -> None:
    """Note that the result of an op was written to a view: it is what ``read`` makes of the base's new value."""
    record = getattr(value, "record", None)
    if record is not None and not isinstance(record, LeafRecord):
        part = _Part(base, read, data, 0 if data is None else data.writes, False)
        record.note(_RESULTS, {**_results_of(record), value.output: part})


def is_followed(tensor: Any) -> bool:
    """Whether a gradient may read what a tensor has now in the place of what it had."""
    return id(tensor) in _followed


def derived(value: Any, base: Any, read: Callable[[Any], Any], data: Any = None, *, is_form: bool = False) -> Any:
    """Note that ``value`` is what ``read`` makes of ``base``, in PyTorch the same memory; gives the value to use.

    ``data`` counts writes through ``.data``; ``is_form``: PyTorch saves the base itself.
    """
    if value is base or not isinstance(value, _COMPUTED) or not isinstance(base, _COMPUTED):
        return value
    if value.base is None and value.record is None and isinstance(value, EagerValue):
        value = value.part_of(None, 0)  # an object that no later result takes for its own
    _parts.write(value, _Part(base, read, data, 0 if data is None else data.writes, is_form))
    return value


def is_part(value: Any) -> bool:
    """Whether a value is a part or a form of what a tensor has."""
    return _parts.about(value) is not None


def check(record: Record, later: Sequence[Record]) -> None:
    """Let a record read the values that PyTorch's gradient would; RuntimeError where that would be refused.

    ``later`` are the records that the sweep has passed.
    """
    results = _results_of(record)
    if not results and not any(map(_is_touched, record.inputs or ())):
        return
    if record.inputs is None or any(each.covers(record) for each in later):
        return
    if (saved := record.saved_operands()) is None:
        return
    inputs, outputs = list(record.inputs), list(record.outputs)
    own = record.notes is not None and _OWN in record.notes
    replaced = False
    for number, value in enumerate(inputs):
        is_saved = number in saved.inputs
        if (own and not number) or (saved.moves and not is_saved and _makes_view(record, later)):
            continue
        present = _checked(record, value, None, is_saved)
        if present is not value:
            if _is_step(record, later) or (is_saved and not saved.fits(present, value)):
                raise JitgraphError(_unknown(record))
            if is_saved:
                inputs[number] = _in_place_of(value, present)
                replaced = True
    for number in saved.outputs:
        if number in results:
            value = outputs[number]
            present = _checked(record, value, results[number], True)
            if present is not value:
                is_step = not isinstance(results[number], _Part) and _is_step(record, later)
                if is_step or not saved.fits(present, value):
                    raise JitgraphError(_unknown(record))
                outputs[number] = _in_place_of(value, present)
                replaced = True
    if replaced:
        if saved.reads_results:
            outputs = record.again(inputs)
        record.inputs, record.outputs = tuple(inputs), tuple(outputs)


def _is_touched(value: Any) -> bool:
    """Whether a write may have changed what was there."""
    if _contents.about(value) is not None:
        return True
    part = _parts.about(value)
    if part is not None:
        return (part.data is not None and part.data.writes != part.writes) or _is_touched(part.base)
    return _changed_leaf(value)


def _changed_leaf(value: Any) -> bool:
    """Whether a compiled call wrote to the leaf whose value this is: it gives it another one without a note."""
    record = getattr(value, "record", None)
    handle = record.handle() if isinstance(record, LeafRecord) else None
    return handle is not None and handle._api == "torch" and is_another(handle._value, value)


def _checked(record: Record, value: Any, note: Contents | _Part | None, is_saved: bool) -> Any:
    """What is there now in the place of a value; RuntimeError where PyTorch's gradient would need what was there."""
    try:
        if note is None:
            return _present(value)
        return _of_part(value, note) if isinstance(note, _Part) else _of_contents(note)
    except _WrittenSince as change:
        if is_saved:
            raise JitgraphError(_changed(value, change, record)) from None
    except _PresentUnknown:
        if is_saved:
            raise JitgraphError(_unknown(record)) from None
    return value


def _makes_view(record: Record, later: Sequence[Record]) -> bool:
    """Whether what a record moved is a view, or the form in which an op takes an operand."""
    return all(is_part(value) for each in later for value in each.inputs or () if value.record is record)


def _in_place_of(value: Any, present: Any) -> Any:
    """An operand or a result that has the present elements, about which is known what is about ``value``."""
    replacement = present.part_of(value.record, value.output)
    contents, part = _contents.about(value), _parts.about(value)
    if contents is not None:
        _contents.write(replacement, contents)
    if part is not None:
        _parts.write(replacement, part._replace(base=_present(part.base)))
    return replacement


def _is_step(record: Record, later: Sequence[Record]) -> bool:
    """Whether a record may be one of several of one function: then what they hand on is of the call.

    Those of one function stand at one instruction of the user's, as may those of the turns of a loop.
    """
    if record.is_step:
        return False
    place = record._place
    before = [value.record for value in record.inputs or () if not is_part(value)]
    after = [each for each in later if any(value.record is record for value in each.inputs or ())]
    steps = [each for each in (*before, *after) if each is not None and not isinstance(each, LeafRecord)]
    return any(each._place == place for each in steps)


def _of_contents(contents: Contents) -> Any:
    if contents.value is None:
        owner = contents.owner()
        raise _WrittenSince(contents.version, contents.version + 1 if owner is None else owner._version, contents)
    return contents.value


def _present(value: Any) -> Any:
    """What the memory of a value would be now if writes went to it."""
    contents = _contents.about(value)
    if contents is not None:
        return _of_contents(contents)
    part = _parts.about(value)
    if part is not None:
        return _of_part(value, part)
    if _changed_leaf(value):
        raise _WrittenSince(0, 1)
    return value


def _of_part(value: Any, part: _Part) -> Any:
    if part.data is not None and part.data.writes != part.writes:
        raise _WrittenSince(part.writes, part.data.writes)
    try:
        base = _present(part.base)
    except _WrittenSince:
        if part.data is None:
            raise
        raise _PresentUnknown from None
    return value if base is part.base else part.read(base)


def is_another(now: Any, value: Any) -> bool:
    """Whether a value of the same handle has other elements."""
    return now is not value and _memory(now) is not _memory(value)


def _memory(value: Any) -> Any:
    return value.array if isinstance(value, EagerValue) else getattr(value, "buffer", value)


_CLASSES: Final = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def _changed(value: Any, change: _WrittenSince, record: Record) -> str:
    """PyTorch's message, and the lines in question."""
    while (part := _parts.about(value)) is not None and part.is_form:
        value = part.base
    type: TensorType = value.type
    shape: Sequence[Any] = type.shape
    name = _CLASSES.get(type.dtype.name, type.dtype.name)
    text = (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{name}Tensor {list(shape)}]"
    )
    made = record if any(value is output for output in record.outputs) else value.record
    if made is not None and not isinstance(made, LeafRecord):
        text += f", which is output {value.output} of {made.name.title().replace('_', '')}Backward0,"
    text += f" is at version {change.version}; expected version {change.expected} instead."
    written = located(change.contents.place) if change.contents is not None else None
    text += f"\n  {record.name} at {record.location} needs it"
    if written is not None:
        text += f"; it was written at {written}"
    return text + "\n  hint: write x = x + 1 in place of x += 1, clone() what is read later, or write after backward()"


def _unknown(record: Record) -> str:
    return (
        f"an operand of {record.name} at {record.location} was written through .data before backward(), and PyTorch's "
        "gradient would be that of the new values, which is not known here\n"
        "  hint: write after backward(), or clone() the operand"
    )
