"""``torch.autograd.graph``: the nodes that a gradient passes, and hooks of nodes and of several gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

from jitgraph.eager import tape
from jitgraph.ir import context
from jitgraph.tensor import gradient_hooks
from jitgraph.torch import module_reasons
from jitgraph.torch.tensors import Tensor

# ----------------------------------------------------------------------
# Nodes: what PyTorch shows of the records of the tape.

_NAMES: Final = {
    "broadcast": "Expand", "concat": "Cat", "copy": "Clone", "divide": "Div", "index": "Index", "matmul": "Mm",
    "max": "Max", "multiply": "Mul", "negative": "Neg", "permute_dims": "Permute", "reduce_max": "Max",
    "reduce_mean": "Mean", "reduce_sum": "Sum", "reshape": "View", "subtract": "Sub",
}  # fmt: skip
"""PyTorch's names of nodes that are other ones than those of the ops."""


def name_of(record: tape.Record) -> str:
    """PyTorch's name of a record's node: of an op "MulBackward0", of a user's ``Function`` "NameBackward"."""
    if record.__class__ is tape.LeafRecord:
        return "AccumulateGrad"
    if record.name[:1].isupper():  # a class of the user's
        return f"{record.name}Backward"
    return f"{_NAMES.get(record.name) or re.sub('_', '', record.name.title())}Backward0"


class Node:
    """An op on the tape, as ``x.grad_fn`` gives it; two are equal if they are of the same op.

    The class has PyTorch's name of the node. Ops are jitgraph's, so that some nodes are others than PyTorch's.
    """

    _record: tape.Record

    def name(self) -> str:
        """The name, as "MulBackward0"."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input the node that made it, with the number of that node's output; None where no gradient flows."""
        return tuple(
            (None, 0) if value.record is None else (node(value.record), value.output)
            for value in self._record.inputs or ()
        )

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's own notes."""
        if "metadata" not in (self._record.notes or {}):
            self._record.note("metadata", {})
        return self._record.notes["metadata"]  # type: ignore[index, no-any-return]

    def register_hook(self, fn: Callable[[Any, Any], Any]) -> Any:
        """Call ``fn(grad_inputs, grad_outputs)`` when the node's gradient is known; what it gives replaces the inputs'.

        Returns a handle with ``remove()``.
        """

        def after(sent: Any, received: Any) -> Any:
            changed = fn(_tensors(sent), _tensors(received))
            return sent if changed is None else _values(changed)

        return self._entered(tape.AFTER, after)

    def register_prehook(self, fn: Callable[[Any], Any]) -> Any:
        """Call ``fn(grad_outputs)`` before the node's gradient; what it gives replaces them. Gives a handle."""

        def before(slots: dict[int, Any]) -> dict[int, Any]:
            changed = fn(_tensors([slots.get(number) for number in range(len(self._record.outputs))]))
            if changed is None:
                return slots
            return {number: ct for number, ct in enumerate(_values(changed)) if ct is not None}

        return self._entered(tape.BEFORE, before)

    def _entered(self, when: int, hook: Callable[..., Any]) -> Any:
        return gradient_hooks.entered(self._record, when, hook)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self._record):#x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other._record is self._record

    def __hash__(self) -> int:
        return id(self._record)


class AccumulateGrad(Node):
    """The node of a leaf, ``variable``, whose ``.grad`` gets the gradient."""

    @property
    def variable(self) -> Any:
        """The leaf."""
        return self._record.handle()  # type: ignore[attr-defined]

    def register_prehook(self, fn: Callable[[Any], Any]) -> Any:
        """Call ``fn((gradient,))`` before it is added to ``.grad``; what it gives replaces it. Gives a handle."""
        return self.variable.register_hook(lambda gradient: (fn((gradient,)) or (gradient,))[0])

    def register_hook(self, fn: Callable[[Any, Any], Any]) -> NoReturn:
        """RuntimeError: hooks of leaves are registered on the tensor."""
        raise RuntimeError(
            "the node of a leaf has no hook of its own: variable.register_hook(f) sees its gradient, and "
            "variable.register_post_accumulate_grad_hook(f) its .grad"
        )


@cache
def _class_of(name: str) -> type[Node]:
    return AccumulateGrad if name == "AccumulateGrad" else type(name, (Node,), {"__module__": __name__})


def node(record: tape.Record) -> Node:
    """What a record of the tape is to PyTorch's programs."""
    result: Node = object.__new__(_class_of(name_of(record)))
    result._record = record
    return result


def _tensors(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(None if value is None else Tensor._of(value) for value in values)


def _values(tensors: Any) -> list[Any]:
    listed = tensors if isinstance(tensors, tuple | list) else (tensors,)
    return [None if x is None else x.value for x in listed]


class GradientEdge(NamedTuple):
    """Where a gradient goes: an output of a node."""

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of a tensor goes; RuntimeError where it requires none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    value = tensor.value
    return GradientEdge(node(value.record), value.output)


# ----------------------------------------------------------------------
# Hooks of several gradients, and what is saved for gradients.


class _Handles:
    """The hooks of several tensors, which are removed at once."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Call the hook no more."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *failure: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call ``fn(gradients)`` once the gradients of all tensors are known; with ``mode="any"`` ``fn`` of the first one.

    A tensor that gets none in a backward has None among them, and ``fn`` is called at its end; in a trace all are
    expected to get one.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    known: dict[int, Any] = {}

    def finish() -> None:
        if known and mode == "all":
            found = [known.get(i) for i in range(len(tensors))]
            known.clear()
            fn(found)
        known.clear()

    def note(number: int, gradient: Any) -> None:
        if not known:
            if context.current().trace is None:
                tape.ENDINGS.append(finish)
            if mode == "any":
                fn(gradient)
        known[number] = gradient
        if len(known) == len(tensors):
            finish()

    def hook_of(number: int) -> Callable[[Any], None]:
        return lambda gradient: note(number, gradient)

    return _Handles([tensor.register_hook(hook_of(number)) for number, tensor in enumerate(tensors)])


def saved_tensors_hooks(pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> NoReturn:
    """RuntimeError: what a gradient needs is decided by the compiler, and is no list of tensors to pack."""
    raise RuntimeError(
        "saved_tensors_hooks is not there: ops keep their operands, and compiled functions choose what they keep; "
        "torch.utils.checkpoint saves memory by computing again, and a torch.autograd.Function packs what it saves"
    )


def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> AbstractContextManager[None]:
    """A block that changes no result: what gradients need remains on the device where it was computed."""
    return nullcontext()


def disable_saved_tensors_hooks(error_message: str) -> AbstractContextManager[None]:
    """A block that changes nothing, as there are no hooks of saved tensors."""
    return nullcontext()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """A block in which tensors may be written that a gradient needs: always so here, as it has the values of before."""
    yield


__getattr__ = module_reasons.refusal("torch.autograd.graph")
