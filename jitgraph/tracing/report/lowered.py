"""``f.lower(...)``: what a call would compile to, stage by stage, and ``compile()``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgraph.eager.tape import EagerValue
from jitgraph.errors import ArgumentError, DeviceError, JitgraphError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.once import cached_property
from jitgraph.runtime import imports
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor, wrap
from jitgraph.tracing.call import backend, invocation
from jitgraph.tracing.call.arguments import Arguments, LeafKey, TensorSpec
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.report.cost import Cost, cost
from jitgraph.tracing.symbolic.sizes import Family, named_keys

if TYPE_CHECKING:
    from jitgraph.tracing.call.function import TracedFunction


class Text(str):
    """A text that also shows itself as it is, and not quoted, at the prompt."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Lowered:
    """One recorded call. Its stages are made when they are first asked for."""

    def __init__(
        self,
        function: TracedFunction,
        values: Sequence[Any],
        arguments: Arguments,
        keys: Sequence[LeafKey],
        plan: CallPlan,
    ) -> None:
        self.function = function
        self.values = tuple(values)
        self.arguments = arguments
        self.keys = tuple(keys)
        self.plan = plan

    def __repr__(self) -> str:
        return f"<lowered {self.function.__name__}: {len(self.graph.nodes)} nodes>"

    @property
    def graph(self) -> Graph:
        """The graph as recorded; ``str()`` of it is text that ``jg.ir.parse`` reads back."""
        return self.plan.graph

    @cached_property
    def runnable(self) -> Any:
        """The compiled graph."""
        device = self.plan.device
        return self.function.compile(self.graph, invocation.candidates(self.plan) if device == CPU else (), device)

    @property
    def stages(self) -> Any:
        """The compiler's own record of its stages; JitgraphError under JITGRAPH_INTERPRET=1."""
        stages = getattr(self.runnable, "stages", None)
        if stages is None:
            raise JitgraphError("nothing is compiled under JITGRAPH_INTERPRET=1")
        return stages

    @property
    def optimized(self) -> Graph:
        """The graph after all passes."""
        graph: Graph = self.stages.optimized
        return graph

    @property
    def fused(self) -> Graph:
        """The optimised graph with what becomes one kernel in ``fused`` nodes."""
        graph: Graph = self.stages.fused
        return graph

    @property
    def kernels(self) -> Text:
        """The schedule: buffers, steps, and each kernel as text."""
        from jitgraph.codegen.kernels.kernel_text import print_schedule

        return Text(print_schedule(self.stages.schedule))

    @property
    def memory_plan(self) -> Any:
        """Where each temporary lies: ``offsets``, ``arena_bytes``, ``unplanned``; None where nothing was planned."""
        return self.stages.plan

    @cached_property
    def autograd(self) -> Text:
        """The gradient computation as text.

        For a graph that holds its own backward pass, the graph with it written out; else the forward graph with what it
        saves, and the backward graph, for all float inputs.
        """
        autodiff = _autodiff()
        if autodiff.has_gradients(self.graph):
            return Text(autodiff.expand_grads(self.graph))
        both = autodiff.vjp_halves(self.graph)
        return Text(f"{both.forward}\n{both.backward}")

    def compile(self) -> Compiled:
        """Code for this machine, callable with arguments of the shapes and dtypes lowered for."""
        return Compiled(self)


class Compiled:
    """Compiled code of one lowered call."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self._specialisation = Specialisation(
            lowered.function.__wrapped__,
            lowered.arguments.structure,
            lowered.keys,
            lowered.plan,
            context.current(),
            lowered.function.compile,
        )
        if not self._specialisation.taped:
            self._specialisation.adopt(lowered.runnable)

    def __repr__(self) -> str:
        return f"<compiled {self.lowered.function.__name__}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run; ArgumentError where the arguments are not of the kind that was lowered for."""
        function = self.lowered.function
        values = function.fitted(function.bind(args, kwargs), self.lowered.keys)
        match = self._specialisation.match(values)
        if match is None:
            reason = function.mismatch(self._specialisation, values)
            raise ArgumentError(f"{function.__name__} was compiled for other arguments: {reason}")
        return self._specialisation.run(match)

    @property
    def llvm_ir(self) -> Text:
        """The LLVM IR."""
        return Text(self.lowered.runnable.llvm_ir)

    @property
    def asm(self) -> Text:
        """The assembly."""
        return Text(self.lowered.runnable.asm)

    @property
    def ptx(self) -> Text:
        """The PTX; DeviceError for code for the CPU."""
        if self.lowered.plan.device == CPU:
            raise DeviceError("there is no PTX: this was compiled for the CPU", hint="asm has the assembly")
        return self.asm

    @property
    def cost(self) -> Cost:
        """Floating-point operations and bytes, for the sizes that were lowered with (named ones count as 1)."""
        graph = _autodiff().expand_grads(self.lowered.graph)
        return cost(graph, sizes_of(self.lowered.plan))


def _autodiff() -> Any:
    """The transform, which calls do not need where the cache has their code."""
    with imports.importing():
        from jitgraph.passes import autodiff
    return autodiff


def sizes_of(plan: CallPlan) -> dict[str, int]:
    """A value for each named size of a plan: that of the call recorded, or 1."""
    names = {name for value in plan.graph.inputs for size in value.shape for name in dims.names(size)}
    return {name: plan.sizes.get(name, 1) for name in names}


def lower(function: TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
    """Record a call without running it; arguments are tensors, arrays or ``TensorSpec``."""
    values = function.bind(args, kwargs)
    arguments = function.describe(values)
    specs = [isinstance(leaf, TensorSpec) for leaf in arguments.leaves]
    keys = tuple(
        key._replace(shape=tuple(Dim.name(size) if isinstance(size, str) else size for size in key.shape))
        if spec
        else key
        for key, spec in zip(arguments.keys, specs, strict=True)
    )
    symbolic_keys, sizes, _ = named_keys(arguments._replace(keys=keys), Family(), function.options.dynamic_shapes)
    names = {size.as_name for key in symbolic_keys for size in key.shape if isinstance(size, Dim)}
    declared = frozenset(name for name in names if name is not None)
    plan, plan_keys = function.recording.portable(arguments, symbolic_keys, values, sizes, declared)
    return Lowered(function, values, arguments, plan_keys, plan)


def fitted(arguments: Arguments, keys: Sequence[LeafKey]) -> tuple[Any, ...]:
    """The arguments with NumPy arrays where ``keys`` has tensors as tensors, and the other way round."""
    leaves: list[Any] = []
    for leaf, key in zip(arguments.leaves, keys, strict=True):
        if key.kind == "tensor" and isinstance(leaf, np.ndarray):
            leaves.append(wrap(EagerValue(leaf, access="borrowed")))
        elif key.kind == "array" and isinstance(leaf, Tensor):
            leaves.append(leaf.detach().numpy())
        else:
            leaves.append(leaf)
    return tuple(arguments.structure.unflatten(leaves))


def memory(lowered: Lowered) -> Iterator[str]:
    """Lines that say what memory a call needs."""
    sizes = sizes_of(lowered.plan)
    with_plan, without = backend.arena_bytes(lowered.runnable, sizes)
    yield f"temporaries: {with_plan} bytes with the plan, {without} without"
    if lowered.plan.device == CPU:
        yield f"scratch memory of a thread: {backend.workspace_bytes(lowered.runnable, sizes) - with_plan} bytes"
    yield f"outputs: {backend.output_bytes(lowered.graph, sizes)} bytes"
