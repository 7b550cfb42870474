"""CallTable: one specialisation at known sizes, as the dispatcher reads it, and what it makes after the entry has
run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from jitgraph.eager.dispatch.program import Program, Unsupported
from jitgraph.eager.dispatch.start import NativeRuntime
from jitgraph.eager.dispatch.table import NativeTable, TableOutcome, check_context, require_plain, value_record
from jitgraph.eager.handle import class_of_tensors
from jitgraph.eager.native import output_value
from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Graph
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import loader
from jitgraph.runtime.cpython.native_fields import slot_offset
from jitgraph.runtime.executable import Executable
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.invocation import Alias
from jitgraph.tracing.call.native.checking import Checker, operands_of
from jitgraph.tracing.call.native.reading import Reader
from jitgraph.tracing.call.plan import Computed, FixedSources, Leaf, Template
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.report.cost import cost

# ----------------------------------------------------------------------
# What a table makes and writes after the entry has run: values, new tensors, slots of tensors, and the result.

_SLOTS: Final = {"value": "_value", "grad": "_grad"}


class CallOutcome(TableOutcome):
    """The records of one table, as bytes; what they name by address is kept by the reader's program."""

    def __init__(self, reader: Reader, specialisation: Specialisation, plan: loader.ShapePlan) -> None:
        self._reader = reader
        self._specialisation = specialisation
        self._plan = specialisation.plan
        self._shapes = plan
        self.handles: list[bytes] = []
        self.effects: list[bytes] = []
        self.results: list[bytes] = []
        self.held: list[int] = []  # registers that are needed after the entry has run
        self.kind = layout.RESULT_FINISH
        self.finish: Callable[..., Any] | None = None
        self.view = b""
        self.values = self._values()
        try:
            self._write()
        except _ForPython:
            self.handles, self.effects, self.results = [], [], []
            self._leave_to_python()

    @property
    def is_pure(self) -> bool:
        """Whether nothing but the result comes of a call, and no code of Python's is needed for that."""
        return not self.effects and self.finish is None

    # --- outputs ----------------------------------------------------------------------------------------------------

    def _values(self) -> list[bytes]:
        donors = {alias.output: alias for alias in self._specialisation.in_place}
        return [self._value(number, output, donors.get(number)) for number, output in enumerate(self._shapes.outputs)]

    def _value(self, number: int, output: tuple[tuple[int, ...], Any, int], donor: Alias | None) -> bytes:
        shape, dtype, size = output
        source, handle = -1, 0
        if donor is not None:
            source, handle = donor.input, self._reader.find(self._plan.handles[donor.slot].source)
        make = partial(output_value, number, self._shapes)
        return value_record(self._reader.program, native_type(dtype, shape), size, make, source, handle)

    # --- natively -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        plan = self._plan
        if self._specialisation.taped or plan.copied is not None or plan.shared_templates:
            raise _ForPython
        refer = self._reader.program.refer
        for fresh in plan.fresh:
            kind = refer(class_of_tensors(fresh.api)) if fresh.api else 0
            flags = refer(fresh.requires_grad), refer(fresh.weak), refer(False)
            self.handles.append(struct.pack("<5q", self._output(fresh.value), *flags, kind))
        for effect in plan.effects:
            steps = effect.source.steps
            if effect.operation != "set" or not steps or steps[-1].kind not in _SLOTS:
                raise _ForPython
            offset = slot_offset(Tensor, _SLOTS[steps[-1].kind])
            if isinstance(effect.value, Computed):
                kind, what = layout.FROM_VALUE, self._output(effect.value)
            elif isinstance(effect.value, Template) and effect.value.structure.kind is None:
                kind, what = self._leaf(effect.value.leaves[0])
            else:
                raise _ForPython
            self.effects.append(struct.pack("<4q", self._keep(effect.source.owner), offset, kind, what))
        self._result(plan.result)
        if len(self.effects) > layout.MOST_EFFECTS or len(self.handles) > layout.MOST_HANDLES:
            raise _ForPython

    def _output(self, value: Computed) -> int:
        if value.kind != "output":
            raise _ForPython
        return value.number

    def _result(self, template: Template) -> None:
        structure = template.structure
        if structure.kind is None:
            self.kind, leaves = layout.RESULT_ONE, [self._leaf(template.leaves[0])]
        elif structure.kind is type(None):
            self.kind, leaves = layout.RESULT_ONE, [(layout.FROM_OBJECT, self._reader.program.refer(None))]
        elif structure.kind is tuple and all(child.kind is None for child in structure.children):
            self.kind, leaves = layout.RESULT_TUPLE, [self._leaf(leaf) for leaf in template.leaves]
        else:
            raise _ForPython
        self.results = [struct.pack("<2q", kind, what) for kind, what in leaves]

    def _leaf(self, leaf: Leaf) -> tuple[int, int]:
        at: Any = leaf.at
        refer = self._reader.program.refer
        match leaf.kind:
            case "fresh":
                if self._plan.fresh[at].weak:  # a Python number is made of it
                    raise _ForPython
                return layout.FROM_HANDLE, at
            case "handle":
                return layout.FROM_REGISTER, self._keep(self._plan.handles[at].source)
            case "plain":
                return layout.FROM_OBJECT, refer(at.value)
            case "object":
                return layout.FROM_OBJECT, refer(self._plan.objects[at])
        raise _ForPython

    def _keep(self, source: Any) -> int:
        register = self._reader.find(source)
        if register not in self.held:
            self.held.append(register)
        return register

    # --- by Python ----------------------------------------------------------------------------------------------------

    def _leave_to_python(self) -> None:
        specialisation, plan = self._specialisation, self._plan
        self.held = [self._reader.find(handle.source) for handle in plan.handles]
        count = len(self.held)
        self.held += [self._reader.find(source) for source in specialisation.extra]
        epilogue, record, taped = specialisation.epilogue, specialisation.record, specialisation.taped

        def finish(retained: tuple[Any, ...], objects: Sequence[Any], outputs: list[EagerValue]) -> Any:
            handles, extra = retained[:count], retained[count:]
            operands = operands_of(plan, objects) if taped else []
            if taped:
                record(handles, operands, outputs)
            return epilogue(handles, operands, outputs, extra)

        self.kind, self.finish = layout.RESULT_FINISH, finish


class _ForPython(Exception):
    """Something comes of a call that Python has to make."""


# ----------------------------------------------------------------------
# CallTable: one specialisation at known sizes, as the dispatcher reads it.

_LONG: Final = 2_000_000
"""Operations of a call, bytes moved included, beside which Python's part counts for nothing."""


class CallTable(NativeTable):
    """The records of one specialisation, for operands of these shapes; they live as long as this does."""

    def __init__(
        self, runtime: NativeRuntime, specialisation: Specialisation, values: Sequence[Any], shapes: Sequence[Any],
        parameters: int, variadic: int | None,
    ) -> None:  # fmt: skip
        """``values`` are the bound arguments of a call that fits. Unsupported where Python has to serve such calls."""
        executable = specialisation.forward
        if not isinstance(executable, Executable):
            raise Unsupported("it is not native code")
        if any(alias.is_replaced for alias in specialisation.in_place):
            raise Unsupported("it takes over the memory of large tensors that it replaces")
        entry = executable.entry
        plan = entry.plan(tuple(shapes))
        require_plain(entry, plan)
        self.specialisation = specialisation
        self.key = (id(specialisation), tuple(shapes))
        self.hits_seen = 0  # by who asks which tables were used of late
        program = Program(parameters)
        check_context(program, specialisation.ambient, exactly=True)
        world = specialisation.world(values)
        reader = Reader(program, world, FixedSources(specialisation.plan, world), variadic)
        sizes = dict(zip(executable.signature.dims, plan.dims, strict=False))
        Checker(reader, specialisation.plan, runtime, sizes).write()
        outcome = CallOutcome(reader, specialisation, plan)
        unlocked = _is_unbounded(specialisation.plan.graph, sizes)
        if unlocked and not outcome.is_pure:
            raise Unsupported("its code may run for long, and changes tensors")
        if len(outcome.values) > layout.MOST_VALUES:
            raise Unsupported(f"it has {len(outcome.values)} outputs")
        super().__init__(program, entry, plan, outcome, len(specialisation.plan.inputs), unlocked=unlocked)


def _is_unbounded(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether the code may run for as long as a loop likes; Unsupported where it is known to take long."""
    loops = [structure for node in graph.walk() if isinstance(structure := structure_of(node), CarriedLoop)]
    if any(loop.condition is not None for loop in loops):
        return True
    work = cost(graph, sizes)
    if work.flops + work.bytes_in + work.bytes_out > _LONG:
        raise Unsupported("it takes so long that Python's part counts for nothing")
    return False
