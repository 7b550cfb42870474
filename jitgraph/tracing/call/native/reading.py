"""How a source is read natively: from the root or a fixed object on, one op a step, as CPython keeps things now."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any, Final

from jitgraph.eager.dispatch.program import Program, Unsupported
from jitgraph.eager.handle import NATIVE_CLASSES, ValueHandle
from jitgraph.eager.tape import Hooks
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.cpython.attributes import entry_of, has_generic_lookup, slot_of
from jitgraph.runtime.cpython.native_fields import is_object_or_none, is_object_slot, slot_offset
from jitgraph.tracing.call.plan import UNKNOWN, FixedSources
from jitgraph.tracing.guards.source import Source, Step, World
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS, MISSING, attributes_of, class_entry, entries_of, is_by_base

_FIELDS: Final = {
    "cell": (types.CellType, "field", cpython.CELL),
    "code": (types.FunctionType, "field", cpython.FUNCTION_CODE),
    "defaults": (types.FunctionType, "field_or_none", cpython.FUNCTION_DEFAULTS),
    "kwdefaults": (types.FunctionType, "field_or_none", cpython.FUNCTION_KWDEFAULTS),
}
_HANDLE_SLOTS: Final = {"value": "_value", "grad": "_grad", "requires_grad": "_requires_grad", "hooks": "_hooks"}
_OF_CLASS: Final = frozenset({"__mro__", "__bases__"})
"""What a class itself holds, which stays for as long as its version does."""


class Reader:
    """Writes the ops that read sources. ``world`` is where they are found now."""

    def __init__(self, program: Program, world: World, fixed: FixedSources, variadic: int | None) -> None:
        """``variadic`` numbers the argument that takes all further ones, where there is one."""
        self.program = program
        self.world = world
        self._fixed = fixed
        self._variadic = variadic
        self._registers: dict[Source, int] = {}
        self._dicts: dict[int, int] = {}  # the registers with the dicts of instances, by those of the instances
        self._counted = False  # whether so many further arguments are checked to be there

    def now(self, source: Source) -> Any:
        """What stands at a source now."""
        try:
            return self.world.find(source)
        except EXPECTED_ERRORS as error:
            raise Unsupported(f"nothing stands at {source.text} now") from error

    def is_fixed(self, source: Source) -> bool:
        """Whether the same object stands there wherever the guards hold."""
        return self._fixed.find(source) is not UNKNOWN

    def find(self, source: Source) -> int:
        """The register with what stands at a source."""
        known = self._registers.get(source)
        if known is None:
            fixed = self._fixed.find(source)
            known = self.program.constant(fixed) if fixed is not UNKNOWN else self.read(source)
            self._registers[source] = known
        return known

    def read(self, source: Source, expected: Sequence[Any] | None = None) -> int:
        """The register into which a source is read anew; ``expected`` has the object that must be found."""
        if not source.steps:
            return self._root(source, expected)
        step = source.steps[-1]
        if step.kind == "static":  # arguments are as the caller gave them
            return self._expect(self.find(source.owner), expected)
        if step.kind == "item" and self.is_variadic(source.owner):
            if not self._counted:
                raise Unsupported("further arguments are read before they are counted")
            return self._expect(step.key + self._variadic, expected)
        owner = self.find(source.owner)
        return self._step(owner, self.now(source.owner), step, source, expected)

    def identify(self, source: Source, obj: Any) -> None:
        """Write that this very object stands at a source."""
        register = self.read(source, (obj,))
        self._registers.setdefault(source, register)

    def _root(self, source: Source, expected: Sequence[Any] | None) -> int:
        if source.kind != "argument":
            return self._expect(self.program.constant(self.world.root(source)), expected)
        if self.is_variadic(source):
            raise Unsupported("the tuple of further arguments is needed as an object")
        return self._expect(source.key, expected)

    def is_variadic(self, source: Source) -> bool:
        """Whether this is the tuple of all further arguments, which a native call does not make."""
        return source.kind == "argument" and not source.steps and source.key == self._variadic

    def argument_count(self, further: int) -> int:
        """How many positional arguments there are where so many are further ones."""
        assert self._variadic is not None
        self._counted = True
        return self._variadic + further

    def _expect(self, register: int, expected: Sequence[Any] | None) -> int:
        if expected is not None:
            self.program.op("same", register, self.program.constant(expected[0]))
        return register

    def _step(self, owner: int, obj: Any, step: Step, source: Source, expected: Sequence[Any] | None) -> int:
        program, key = self.program, self.world.key(step)
        if isinstance(obj, type) and not self.is_fixed(source.owner):
            program.op("same", owner, program.constant(obj))
        match step.kind:
            case "attribute":
                return self._attribute(owner, obj, key, expected)
            case "own":
                return self._own(owner, obj, key, expected)
            case "wrapped":
                return self._own(owner, obj, "__wrapped__", expected)
            case "class":
                return self._entry_of_class(obj, key, expected)
            case "item" | "entry":
                return self._item(owner, obj, key, step.kind == "entry", expected)
            case "type":
                return program.load("field", owner, offset=cpython.TYPE, expected=expected)
            case "value" | "grad" | "requires_grad" | "hooks":
                if not isinstance(obj, ValueHandle):
                    raise Unsupported(f"{source.owner.text} is no tensor now")
                if type(obj) in NATIVE_CLASSES.values():
                    program.require_tensor(owner)
                elif step.kind == "value":
                    raise Unsupported(f"{source.owner.text} is a view")
                else:
                    program.require_type(owner, type(obj))
                offset = slot_offset(type(obj), _HANDLE_SLOTS[step.kind])
                if step.kind == "hooks" and obj._hooks is None and program.forbid_hooks(owner):
                    return self._known(None, expected)
                if step.kind != "hooks" or obj._hooks is None:
                    return program.load("field", owner, offset=offset, expected=expected)
                hooks = program.load("field", owner, offset=offset)
                program.require_type(hooks, Hooks)
                return program.load("field", hooks, offset=slot_offset(Hooks, "number"), expected=expected)
        if step.kind == "view":
            program.require_type(owner, type(obj))
            return program.load("field", owner, offset=slot_offset(ValueHandle, "_value"), expected=expected)
        if step.kind in _FIELDS:
            kind, op, offset = _FIELDS[step.kind]
            if type(obj) is not kind:
                raise Unsupported(f"{source.owner.text} is a {type(obj).__name__}")
            program.require_type(owner, kind)
            return program.load(op, owner, offset=offset, expected=expected)
        raise Unsupported(f"{source.text} is read by a step {step.kind!r}")

    # --- attributes -------------------------------------------------------------------------------------------------

    def _attribute(self, owner: int, obj: Any, name: str, expected: Sequence[Any] | None) -> int:
        kind = type(obj)
        if isinstance(obj, type):
            return self._attribute_of_class(obj, name, expected)
        if name == "__dict__" and attributes_of(obj) is not None:
            self.program.require_type(owner, kind)
            return self._dict_of(owner, obj, expected)
        if not _finds_by_storage(kind):
            raise Unsupported(f"{kind.__qualname__} finds attributes in a way of its own")
        self.program.require_type(owner, kind)
        self.program.require_version(kind)
        entry = class_entry(kind, name, MISSING)
        if isinstance(entry, types.MemberDescriptorType) and hasattr(kind, "__mro__"):
            base = next(base for base in kind.__mro__ if name in entries_of(base))
            if is_object_or_none(entry):
                return self.program.load("field_or_none", owner, offset=slot_offset(base, name), expected=expected)
            if not is_object_slot(entry):
                raise Unsupported(f"{name} is a member of a class written in C")
            return self.program.load("field", owner, offset=slot_offset(base, name), expected=expected)
        if hasattr(type(entry), "__set__") or hasattr(type(entry), "__delete__"):
            raise Unsupported(f"{kind.__qualname__}.{name} is computed")
        own = attributes_of(obj)
        if own is not None and name in own:
            return self._own(owner, obj, name, expected)
        if entry is MISSING or hasattr(type(entry), "__get__"):
            raise Unsupported(f"{kind.__qualname__}.{name} is made at each look")
        if own is not None:
            self.absent_own(owner, obj, name)
        return self._known(entry, expected)

    def _attribute_of_class(self, obj: type, name: str, expected: Sequence[Any] | None) -> int:
        if type(obj) is not type:
            raise Unsupported(f"{obj.__qualname__} is of the class {type(obj).__qualname__}")
        if name in _OF_CLASS:
            value = getattr(obj, name)
        else:
            value = class_entry(obj, name, MISSING)
        if value is MISSING or getattr(obj, name, MISSING) is not value:
            raise Unsupported(f"{obj.__qualname__}.{name} is made at each look")
        self.program.require_version(obj)
        return self._known(value, expected)

    def _entry_of_class(self, obj: type, name: str, expected: Sequence[Any] | None) -> int:
        self.program.require_version(obj)
        return self._known(entries_of(obj)[name], expected)

    def _known(self, obj: Any, expected: Sequence[Any] | None) -> int:
        """The register of an object that stands there for as long as what was checked holds."""
        if expected is not None and expected[0] is not obj:
            raise Unsupported("another object stands there now")
        return self.program.constant(obj)

    def _own(self, owner: int, obj: Any, name: str, expected: Sequence[Any] | None) -> int:
        """What an instance itself holds."""
        self.program.require_type(owner, type(obj))
        slot = slot_of(obj, name)
        if isinstance(slot, int):
            return self.program.load("attribute", owner, offset=8 * slot, expected=expected)
        own = attributes_of(obj)
        if own is None:
            raise Unsupported(f"a {type(obj).__name__} keeps no attributes in a dict")
        return self.entry(self._known_dict(owner, obj), own, name, expected)

    def absent_own(self, owner: int, obj: Any, name: str) -> None:
        """Write that an instance itself has no such attribute."""
        program, kind = self.program, type(obj)
        program.require_type(owner, kind)
        slot = slot_of(obj, name)
        if isinstance(slot, int):
            program.op("unset_attribute", owner, offset=8 * slot)
        elif slot is not None:
            program.op("shared_keys", owner, b=slot.keys, offset=slot.length)
        elif attributes_of(obj) is not None:
            self.absent(self._known_dict(owner, obj), name)

    def _known_dict(self, owner: int, obj: Any) -> int:
        """The register with the dict of an instance, which is loaded once."""
        known = self._dicts.get(owner)
        if known is None:
            known = self._dicts[owner] = self._dict_of(owner, obj)
        return known

    def _dict_of(self, owner: int, obj: Any, expected: Sequence[Any] | None = None) -> int:
        """The register with the dict of an instance."""
        if isinstance(obj, types.ModuleType):
            return self.program.load("field", owner, offset=cpython.MODULE_DICT, expected=expected)
        kind = type(obj)
        if kind.__flags__ & cpython.MANAGED_DICT:
            return self.program.load("dictionary", owner, expected=expected)
        if kind.__dictoffset__ > 0:
            return self.program.load("field", owner, offset=kind.__dictoffset__, expected=expected)
        raise Unsupported(f"a {kind.__name__} keeps its attributes in a way of its own")

    # --- items ------------------------------------------------------------------------------------------------------

    def _item(self, owner: int, obj: Any, key: Any, stored: bool, expected: Sequence[Any] | None) -> int:
        kind = type(obj)
        self.program.require_type(owner, kind)
        as_built_in = stored or not is_by_base(obj)
        if as_built_in and isinstance(obj, dict):
            return self.entry(owner, obj, key, expected)
        if not (as_built_in and isinstance(obj, list | tuple)) or type(key) is not int or key < 0:
            raise Unsupported(f"an item of a {kind.__name__} is found by code")
        return self.program.load("item", owner, flags=int(isinstance(obj, list)), offset=key, expected=expected)

    def entry(self, owner: int, mapping: dict[Any, Any], key: Any, expected: Sequence[Any] | None) -> int:
        """Read what a dict has under a text."""
        if type(key) is not str:
            raise Unsupported("a key of a dict is no text")
        name = sys.intern(key)
        entry = entry_of(mapping, name)
        return self.program.load(
            "entry", owner, a=self.program.refer(name), b=entry.keys, offset=entry.offset, number=entry.number,
            form=entry.form, expected=expected,
        )  # fmt: skip

    def absent(self, owner: int, key: Any) -> None:
        """Write that a dict has nothing under a text."""
        if type(key) is not str:
            raise Unsupported("a key of a dict is no text")
        self.program.op("absent", owner, a=self.program.refer(sys.intern(key)))


def _finds_by_storage(kind: type) -> bool:
    """Whether objects of a class find attributes as ``object`` does, or as modules do."""
    if issubclass(kind, types.ModuleType):
        return class_entry(kind, "__getattribute__") is types.ModuleType.__getattribute__
    return has_generic_lookup(kind)
