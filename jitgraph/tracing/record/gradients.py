"""Gradients of what a trace records: which values they flow through, where they end, and the ops that compute them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph import dtypes, ops
from jitgraph.eager.handle import class_of_tensors
from jitgraph.eager.tape import ACCUMULATED
from jitgraph.errors import DTypeError, JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, wrap_as
from jitgraph.tensor.gradients import accumulated, notify
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.record.writes import TensorWrites

if TYPE_CHECKING:
    from jitgraph.tracing.record.recorder import Recorder


class Gradients:
    """The gradients of one recorder.

    ``leaves`` are the values at which gradients end, with the handles that get them; ``foreign`` those that were
    computed before the trace, on the caller's tape; ``differentiable`` all through which gradients flow;
    ``writes`` what was written since an op read it.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.leaves: dict[Value, Tensor] = {}
        self.foreign: dict[Value, Tensor] = {}
        self.differentiable: set[Value] = set()
        self.writes = TensorWrites(recorder)
        self._recorder = recorder
        self._hooks: dict[Value, list[Callable[[Any], Any]]] = {}
        self._passed: dict[Value, tuple[Tensor, tuple[Callable[[Any], Any], ...]]] = {}
        self._spent: set[Node] = set()  # through which a gradient passed that kept nothing

    def backward(self, loss: Tensor, gradient: Tensor | None, *, retain_graph: bool = False) -> None:
        """Record the gradient of ``loss`` for every leaf it depends on, and accumulate it into their ``.grad``.

        JitgraphError for a second gradient through the same ops without ``retain_graph``, as in eager.
        """
        value = self._recorder.read(loss)
        cotangent = self._cotangent(value, gradient)
        reached = self.reached([value.ir])
        for ir, handle in self.foreign.items():
            if ir in reached:
                raise TraceError(
                    f"backward() goes on to a tensor of shape {handle._value.type} that was computed before the trace",
                    hint="pass x.detach(), or compute it inside the traced function",
                )
        passed = self.reached([value.ir], through_gradients=False)
        self._spend(passed, retain_graph)
        self.writes.check(passed)
        wrt = [ir for ir in self.leaves if ir in reached]
        with context.using(grad_enabled=False):
            for ir, grad in zip(wrt, self._grad([value.ir], [cotangent.ir], wrt), strict=True):
                handle = self.leaves[ir]
                fresh: Any = class_of_tensors(handle._api)._of(self._behind_hooks(ir, grad))
                old = self._recorder.read_grad(handle)
                self._recorder.write_grad(handle, fresh if old is None else accumulated(old, fresh))
                notify(handle)

    def grad(
        self,
        outputs: Sequence[Tensor],
        grad_outputs: Sequence[Tensor | None],
        inputs: Sequence[Tensor],
        *,
        create_graph: bool = False,
        retain_graph: bool = False,
        allow_unused: bool = False,
    ) -> list[Tensor | None]:
        """Record gradients of the sum of ``outputs``, weighted by ``grad_outputs``, with respect to ``inputs``.

        JitgraphError for a second gradient through the same ops without ``retain_graph``, as in eager.
        """
        values = [self._recorder.read(output) for output in outputs]
        cotangents = [self._cotangent(v, weight) for v, weight in zip(values, grad_outputs, strict=True)]
        targets = [self._recorder.read(x) for x in inputs]
        first = min((self._recorder.positions.get(target.ir, 0) for target in targets), default=0)
        reached = self.reached([value.ir for value in values], first=first)
        used = [number for number, target in enumerate(targets) if target.ir in reached]
        if len(used) < len(targets) and not allow_unused:
            missing = next(number for number in range(len(targets)) if number not in used)
            raise JitgraphError(f"outputs do not depend on input {missing}\n  hint: pass allow_unused=True to get None")
        passed = self.reached([value.ir for value in values], through_gradients=False, first=first)
        between = self._between([targets[i].ir for i in used], passed)
        self._spend(between, retain_graph)
        self.writes.check(between)
        gradients = self._grad(
            [v.ir for v in values],
            [ct.ir for ct in cotangents],
            [targets[i].ir for i in used],
            differentiable=create_graph,
        )
        results: list[Tensor | None] = [None] * len(targets)
        for number, value in zip(used, gradients, strict=True):
            results[number] = wrap_as(self._behind_hooks(targets[number].ir, value), inputs[number])
        return results

    def _behind_hooks(self, ir: Value, gradient: Any) -> Any:
        """The gradient of a leaf behind the hooks that its handle had before the trace and has here."""
        if ir in self.leaves:
            handle = self.leaves[ir]
            self._recorder.note_hooks(handle)
            entries = () if handle._hooks is None else handle._hooks.entries
            hooks = [function for _, when, function in entries if when != ACCUMULATED]
            for hook in (*hooks, *self._hooks.get(ir, ())):
                gradient = hook(gradient)
        return gradient

    def watch(self, handle: Tensor, hook: Callable[[Tensor], Any]) -> Callable[[], None]:
        """Let the gradient of the handle pass a function; gives the function that takes it away.

        The value of a result is replaced by one whose gradient rule calls the hook. TraceError where it is in use, as
        what was computed from it would bypass the hook.
        """
        value = self._recorder.read(handle)
        changed: Any = imports.module("jitgraph.tensor.gradient_hooks").changed
        run: Callable[[Any], Any] = lambda ct: changed(hook, ct, handle._api)
        if value.ir in self.leaves:
            entries = self._hooks.setdefault(value.ir, [])
            entries.append(run)
            return lambda: entries.remove(run) if run in entries else None

        def remove() -> None:
            raise TraceError("the hook of a result stays to the end of the trace", hint="leave remove() out")

        if any(value.ir in node.inputs for node in self._recorder.producers.values()):
            raise TraceError(
                "register_hook of a tensor from which something was computed already, in a trace",
                hint="register the hook right after the tensor is computed",
            )
        origin, known = self._passed.get(value.ir, (wrap_as(value, handle), ()))
        hooks = (*known, run)  # a hook that is registered later sees what an earlier one gave
        passing: Any = imports.provided("op with a gradient function")

        def behind(cts: tuple[Tensor]) -> tuple[Tensor]:
            cotangent: Any = cts[0].value
            for each in hooks:
                cotangent = each(cotangent)
            return (wrap_as(cotangent, origin),)

        (passed,) = passing(behind, origin)
        self._recorder.write(handle, passed.value)
        self._passed[passed.value.ir] = origin, hooks
        return remove

    def _grad(
        self, outputs: list[Value], cotangents: list[Value], wrt: list[Value], *, differentiable: bool = False
    ) -> list[TracedValue]:
        if not wrt:
            return []
        attrs = {"num_outputs": len(outputs)}
        gradients = self._recorder.record_op(ops.grad, [*outputs, *cotangents, *wrt], attrs, (), differentiable)
        return gradients if differentiable else [self._recorder.stopped(value) for value in gradients]

    def _cotangent(self, value: TracedValue, gradient: Tensor | None) -> TracedValue:
        type = value.type
        assert isinstance(type, TensorType)
        if gradient is not None:
            cotangent = self._recorder.read(gradient)
            if cotangent.type != type:
                raise JitgraphError(f"the cotangent is {cotangent.type}, the tensor {type}")
            return cotangent
        if type.size != 1:
            raise JitgraphError(
                f"a gradient without a cotangent needs a scalar; the shape is {type.shape}\n"
                "  hint: reduce first (loss.mean()) or pass gradient="
            )
        if dtypes.is_complex(type.dtype):
            raise DTypeError(
                f"a gradient without a cotangent needs a real number, not {type.dtype.name}",
                hint="take a real loss, such as jg.abs(x) or x.real, or pass gradient=",
            )
        one: TracedValue = ops.full(shape=type.shape, value=1.0, dtype=type.dtype)
        return one

    def reached(self, outputs: Sequence[Value], *, through_gradients: bool = True, first: int = 0) -> set[Value]:
        """The values on which ``outputs`` depend in a differentiable way, from the position ``first`` on.

        A gradient depends on all that its outputs depend on; without ``through_gradients`` it is where the way ends, as
        which of them it uses is not known before it is written out. Values before the first that a gradient is asked
        for are of no interest to it, and a long trace with many gradients need not walk over itself for each.
        """
        positions = self._recorder.positions
        reached = {value for value in outputs if value in self.differentiable}
        pending = list(reached)
        while pending:
            value = pending.pop()
            node = self._recorder.producers.get(value)
            if node is None or value in self.leaves or (node.op.kind == "gradient" and not through_gradients):
                continue
            for operand in node.inputs:
                if operand in self.differentiable and operand not in reached and positions.get(operand, 0) >= first:
                    reached.add(operand)
                    pending.append(operand)
        return reached

    def dependent(self, inputs: Collection[Value]) -> set[Value]:
        """The values that depend on ``inputs`` in a differentiable way: those from which ``reached`` comes to one.

        One walk over the trace answers for every value.
        """
        found = {value for value in inputs if value in self.differentiable}
        for value, node in self._recorder.producers.items():
            if value in self.differentiable and value not in self.leaves and not found.isdisjoint(node.inputs):
                found.add(value)
        return found

    def recomputed(self, values: Sequence[TracedValue]) -> list[TracedValue]:
        """Values of a surrounding recorder, computed here once more: gradients pass between them as they do out there.

        What gradients do not pass comes in from there, and so does every leaf.
        """
        outer = values[0].trace
        known: dict[Value, TracedValue] = {}

        def found(value: Value) -> TracedValue:
            if value not in known:
                known[value] = self._recorder.own(outer.wrap(value, value in outer.gradients.differentiable, None))
            return known[value]

        reached = outer.gradients.reached([value.ir for value in values])
        to_recompute = reached.difference(outer.gradients.leaves).intersection(outer.producers)
        before = self._recorder.location
        for node in outer.gradients.producers_in_order(to_recompute):
            inputs = [found(value).ir for value in node.inputs]
            self._recorder.location = node.location
            outputs = self._recorder.record_op(node.op, inputs, node.attrs, node.regions, True)
            known.update(zip(node.outputs, outputs, strict=True))
        self._recorder.location = before
        return [found(value.ir) for value in values]

    def _between(self, targets: Sequence[Value], reached: set[Value]) -> set[Value]:
        """The values of ``reached`` that depend on ``targets``."""
        below = set(targets)
        for node in self.producers_in_order(reached):
            if not below.isdisjoint(node.inputs):
                below.update(value for value in node.outputs if value in reached)
        return below.difference(targets)

    def producers_in_order(self, values: Collection[Value]) -> list[Node]:
        """The nodes that produced some of ``values``, in the order in which they were recorded."""
        known = self._recorder.positions
        ordered = sorted([(known[value], value) for value in values if value in known], key=lambda pair: pair[0])
        return list(dict.fromkeys([self._recorder.producers[value] for _, value in ordered]))

    def _spend(self, values: Collection[Value], retain_graph: bool) -> None:
        """Refuse to pass twice through the nodes that made ``values``; note them unless they are to be kept."""
        producers = self._recorder.producers
        passed = {producers[value] for value in values if value in producers and value not in self.leaves}
        if again := self._spent & passed:
            node = next(node for node in reversed(self._recorder.builder.nodes) if node in again)
            raise JitgraphError(
                f"backward through <{node.op.name} at {node.location}> a second time; its values are gone\n"
                "  hint: pass retain_graph=True to the first backward() or grad()"
            )
        if not retain_graph:
            self._spent |= passed
