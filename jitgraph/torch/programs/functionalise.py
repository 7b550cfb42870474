"""Graphs whose operators write into tensors, rewritten to ones that only compute values.

A name stands for a tensor. After ``aten::add_.Tensor(x, y)`` the name ``x`` stands for the new value, as every name of
the same tensor does, and what is a view of it, or of which it is a view, follows: views are known by the operators that
made them, each of which has an inverse that puts a part back into the whole. Views are computed again only where a
later node reads them. What a graph writes of its inputs it lists in ``written``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from jitgraph.errors import UnsupportedOp
from jitgraph.tensor import functions as fn
from jitgraph.torch import aten_ops, view_inverses
from jitgraph.torch.programs.document import names_in
from jitgraph.torch.programs.program import Graph, Meta, ProgramNode, Ref, Region

# ----------------------------------------------------------------------
# Operators that give views, and how a part is put back into the whole that it was taken from.

_INVERSES: Final[Mapping[str, view_inverses.PutBack]] = {
    **dict.fromkeys(
        ("alias", "detach", "view", "view_as", "unsqueeze", "squeeze", "lift_fresh"), view_inverses.reshaped
    ),
    **dict.fromkeys(("t", "numpy_T", "mT"), lambda whole, part: fn.permute_dims(part, tuple(range(whole.ndim))[::-1])),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), view_inverses.transposed),
    "mT": lambda whole, part: fn.matrix_transpose(part),
    "permute": view_inverses.permuted,
    "movedim": lambda whole, part, source, destination: fn.moveaxis(part, destination, source),
    "select": view_inverses.selected,
    "slice": view_inverses.sliced,
    "narrow": view_inverses.narrowed,
    "diagonal": view_inverses.on_diagonal,
    "view_as_real": view_inverses.of_real_pairs,
    "view_as_complex": view_inverses.of_complex_numbers,
}
_PARTS: Final = ("split", "split_with_sizes", "chunk", "unbind", "tensor_split")  # which give several views
_REPEATED: Final = ("expand", "expand_as", "broadcast_to", "unfold", "as_strided")  # whose elements share memory
_RESHAPES: Final = ("reshape", "reshape_as", "flatten", "ravel", "contiguous", "unflatten")  # of what is contiguous
_CASTS: Final = ("to", "type_as")  # the tensor itself where it has the dtype


_OF_STORAGES: Final = ("as_strided", "as_strided_copy", "as_strided_scatter")


WRITE: Final = "write"
VIEW: Final = "view again"
PUT_BACK: Final = "put back"
"""What the nodes call that the rewrite adds: WRITE stands before the target of an operator."""


class Step(NamedTuple):
    """One step from a tensor to a view of it; ``number`` says which of several results."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    number: int | None = None


def name_of(target: str) -> str:
    """The name of ATen's operator without namespace and overload; empty for what is none."""
    return target.removeprefix("aten::").partition(".")[0] if target.startswith("aten::") else ""


def operator_of(target: str) -> Any:
    """The function of ATen's operator, ``aten::name.overload``; None where there is none."""
    name, _, overload = target.partition(".")
    return aten_ops.lookup(name, overload)


def functional_target(target: str) -> str:
    """The operator of which an in-place one writes the result: "aten::add.Tensor" for "aten::add_.Tensor"."""
    name, _, overload = target.partition(".")
    return f"aten::{aten_ops.in_place(name)}.{overload}"


# ----------------------------------------------------------------------
# Functions that nodes of the result call, each with what it needs of the graph as its first argument.


def write(target: str) -> Callable[..., Any]:
    """The in-place operator as a function: what it computes, in the dtype and shape of the tensor that it writes to."""
    operator = operator_of(target)

    def written(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = operator(self, *args, **kwargs)
        if value.dtype != self.dtype:
            value = fn.astype(value, self.dtype)
        return value if value.ndim == self.ndim else fn.broadcast_to(value, self.shape)

    return written


def view(steps: Sequence[Step]) -> Callable[..., Any]:
    """The view of a tensor that the steps make; their arguments that are values follow the tensor."""
    return lambda whole, *values: _forward(whole, steps, iter(values))[-1]


def put_back(steps: Sequence[Step]) -> Callable[..., Any]:
    """The tensor with the view that the steps make replaced by a part."""

    def replaced(whole: Any, part: Any, *values: Any) -> Any:
        wholes = _forward(whole, steps[:-1], iter(values))
        remaining = iter(values)
        settings = [_filled(step, remaining) for step in steps]
        for number in reversed(range(len(steps))):
            part = _inverse(steps[number], wholes[number], part, *settings[number])
        return part

    return replaced


def _filled(step: Step, values: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def fill(item: Any) -> Any:
        if isinstance(item, Ref):
            return next(values)
        return [fill(each) for each in item] if isinstance(item, list) else item

    return tuple(fill(item) for item in step.args), {name: fill(item) for name, item in step.kwargs.items()}


def _forward(whole: Any, steps: Sequence[Step], values: Any) -> list[Any]:
    tensors = [whole]
    for step in steps:
        args, kwargs = _filled(step, values)
        result = operator_of(step.target)(tensors[-1], *args, **kwargs)
        tensors.append(result if step.number is None else result[step.number])
    return tensors


def _inverse(step: Step, whole: Any, part: Any, args: Any, kwargs: Any) -> Any:
    name = name_of(step.target)
    if step.number is None:
        if name in _RESHAPES or name in _CASTS:
            return fn.reshape(part, whole.shape)
        return _INVERSES[name](whole, part, *args, **kwargs)
    dim = kwargs.get("dim", args[-1] if len(args) == (1 if name == "unbind" else 2) else 0)
    if name == "unbind":
        return fn.select_scatter(whole, part, dim, step.number)
    parts = operator_of(step.target)(whole, *args, **kwargs)
    return fn.concat([part if number == step.number else each for number, each in enumerate(parts)], dim)


# ----------------------------------------------------------------------
# The rewrite.


class _Tensors:
    """Which names stand for one tensor, and which of them are views of which."""

    def __init__(self, graph: Graph) -> None:
        self.metas = graph.metas
        self.roots: dict[str, str] = {}
        self.steps: dict[str, tuple[Step, ...]] = {}
        self.unsure: dict[str, str] = {}  # names that may be copies or views, by the operator that made them

    def root(self, name: str) -> str:
        return self.roots.get(name, name)

    def chain(self, name: str) -> tuple[Step, ...]:
        return self.steps.get(name, ())

    def family(self, name: str) -> list[str]:
        """All names of the tensor and its views."""
        root = self.root(name)
        return [root, *(other for other, base in self.roots.items() if base == root)]

    def add(self, node: ProgramNode) -> None:
        """Take note of what a node gives, where that is a view."""
        name = name_of(node.target)
        if not node.args or not isinstance(node.args[0], Ref):
            return
        source = node.args[0].name
        if isinstance(node.outputs, tuple):
            if name in _PARTS:
                for number, output in enumerate(node.outputs):
                    if output is not None:
                        self._view(output, source, Step(node.target, node.args[1:], node.kwargs, number))
            return
        if name in _INVERSES:
            self._view(node.outputs, source, Step(node.target, node.args[1:], node.kwargs))
        elif name in _REPEATED or name in _RESHAPES or name in _CASTS:
            if self._is_view(name, source, node.outputs):
                self._view(node.outputs, source, Step(node.target, node.args[1:], node.kwargs))
        elif name == "dropout" and len(node.args) > 2 and node.args[2] is False:
            self._view(node.outputs, source, Step("aten::alias.default", (), {}))

    def _is_view(self, name: str, source: str, output: str) -> bool:
        if name in _REPEATED:
            return True
        before: Meta | None = self.metas.get(source)
        after: Meta | None = self.metas.get(output)
        if before is None or after is None:
            self.unsure[output] = name
            return False
        return before.contiguous if name in _RESHAPES else before.dtype == after.dtype

    def _view(self, output: str, source: str, step: Step) -> None:
        self.roots[output] = self.root(source)
        self.steps[output] = (*self.chain(source), step)
        if source in self.unsure:
            self.unsure[output] = self.unsure[source]

    def same(self, output: str, name: str) -> None:
        """``output`` is another name of the tensor."""
        self.roots[output], self.steps[output] = self.root(name), self.chain(name)


def functional(graph: Graph) -> Graph:
    """The graph without operators that write; the same graph where there are none. UnsupportedOp for what cannot be."""
    graph = replace(graph, nodes=tuple(_with_functional_regions(node) for node in graph.nodes))
    _require_whole_storages(graph)
    if not any(_writes(node) for node in graph.nodes):
        return graph
    last_reads = _last_reads(graph)
    tensors = _Tensors(graph)
    nodes: list[ProgramNode] = []
    written: set[str] = set(graph.written)
    for number, node in enumerate(graph.nodes):
        if not _writes(node):
            tensors.add(node)
            nodes.append(node)
            continue
        target = node.args[0] if node.args else node.kwargs.get("self")
        if not isinstance(target, Ref) or not isinstance(node.outputs, str):
            raise UnsupportedOp(f"{node.target} writes to a list of tensors, which is not supported")
        name = target.name
        _require_known(tensors, name, node)
        if name_of(node.target) == "requires_grad_":
            raise UnsupportedOp(f"{node.target} is not supported in an exported program")
        nodes.append(replace(node, target=f"{WRITE} {node.target}", outputs=name))
        tensors.same(node.outputs, name)
        root, chain = tensors.root(name), tensors.chain(name)
        if root in graph.inputs:
            written.add(root)
        if chain:
            nodes.append(_made(PUT_BACK, chain, node, root, Ref(root), Ref(name)))
        elif name != root:
            nodes.append(_made(VIEW, (), node, root, Ref(name)))
        for other in tensors.family(name):
            if last_reads.get(other, -1) <= number:
                continue
            if other in (root, name):
                continue
            own = tensors.chain(other)
            same = own == chain
            nodes.append(_made(VIEW, () if same else own, node, other, Ref(name if same else root)))
    return replace(graph, nodes=tuple(nodes), written=tuple(sorted(written)))


def _require_whole_storages(graph: Graph) -> None:
    """UnsupportedOp for what reads the storage of a tensor that is not all of it in row-major order."""
    if not any(name_of(node.target) in _OF_STORAGES for node in graph.nodes):
        return
    tensors = _Tensors(graph)
    for node in graph.nodes:
        if name_of(node.target) in _OF_STORAGES and isinstance(node.args[0], Ref):
            meta = graph.metas.get(node.args[0].name)
            if meta is None or not meta.contiguous or tensors.chain(node.args[0].name):
                raise UnsupportedOp(
                    f"{node.target} of a view, or of a tensor whose elements are not in row-major order"
                )
        tensors.add(node)


def _made(target: str, steps: tuple[Step, ...], node: ProgramNode, output: str, *tensors: Ref) -> ProgramNode:
    return ProgramNode(target, (steps, *tensors, *_values(steps)), {}, output, node.location)


def _require_known(tensors: _Tensors, name: str, node: ProgramNode) -> None:
    chain = tensors.chain(name)
    if any(name_of(step.target) in _REPEATED for step in chain):
        raise UnsupportedOp(f"{node.target} writes to a view in which elements share memory")
    for other in tensors.family(name):
        if other in tensors.unsure:
            raise UnsupportedOp(
                f"{node.target} writes to what {tensors.unsure[other]} gave, which may be a view or a copy",
                hint="program.run_decompositions({}) makes a program without such writes",
            )


def _values(steps: Iterable[Step]) -> Iterable[Ref]:
    for step in steps:
        for name in names_in((step.args, step.kwargs)):
            yield Ref(name)


def _writes(node: ProgramNode) -> bool:
    base = aten_ops.in_place(name_of(node.target))
    return bool(base) and operator_of(node.target) is None


def _last_reads(graph: Graph) -> dict[str, int]:
    reads: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        for name in names_in((node.args, node.kwargs)):
            reads[name] = number
    for name in names_in(graph.outputs):
        reads[name] = len(graph.nodes)
    return reads


def _with_functional_regions(node: ProgramNode) -> ProgramNode:
    if not any(isinstance(item, Region) for item in node.args):
        return node
    args = tuple(Region(functional(item.graph)) if isinstance(item, Region) else item for item in node.args)
    for item in args:
        if isinstance(item, Region) and item.graph.written:
            raise UnsupportedOp(f"a branch or body of {node.target} writes to a tensor from outside of it")
    return replace(node, args=args)
