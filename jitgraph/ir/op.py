"""Op: one operation with all of its meaning, the call that applies it through the current emitter, and the op
table's hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from jitgraph.errors import GraphError
from jitgraph.ir import context
from jitgraph.ir.types import Type
from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.ir.control import Structure
    from jitgraph.ir.dims import DimLike
    from jitgraph.ir.graph import Graph

# ----------------------------------------------------------------------
# Op: one operation with all of its meaning, and the call that applies it through the current emitter.

Effect: TypeAlias = Literal["none", "check", "ordered"]
Kind: TypeAlias = Literal[
    "elementwise",
    "reduce",
    "movement",
    "contraction",
    "indexing",
    "creation",
    "control",
    "gradient",
    "effect",
    "composite",
    "other",
]
Trait: TypeAlias = Literal[
    "commutative",
    "idempotent",  # f(f(x)) is f(x)
    "planewise",  # of complex numbers: the same of the real and of the imaginary parts, real operands as they are
    "view",  # elements of the operand in another order or number, no arithmetic
    "alias",  # a view that, alone, is its operand's buffer
    "kinked",  # linear on both sides of a point, which depends on the operand: its second gradient is zeros
    "nondifferentiable",  # no gradient flows through: it counts as zero
    "storage",  # its scalar body gets operands as they are stored
    "chooses",  # the second operand where the first is true, else the third
    "no_arithmetic",  # an elementwise op that counts as no work
    "cheap",  # computing it again costs no more than reading its result, which its kind does not say
    "approximated",  # an elementwise op whose bits are those of jitgraph's math functions, not NumPy's
    "fused_op",  # of no graph: what eager calls do by several ops (``eager/fused_ops.py``)
    "pointwise",  # a composite of elementwise ops on operands of one shape
    "bounds_checked",  # it reads or writes at indices (the second operand) along ``axis``, which have to be in range
    "gradient_by_python",  # a composite whose gradient has ops that Python evaluates, which no eager kernel can
    "one_kernel",  # its region becomes one kernel and is not inlined
    "ruled_by_region",  # a composite whose vjp takes its ``regions`` beside the attributes
    "called_by_name",  # a function that whoever runs a file has in a table, under the attribute ``name``
    "recomputed",  # a composite whose region runs once more where it is differentiated
    "autocast_low",  # under autocast it runs in the low precision
    "autocast_wide",  # under autocast it runs in float32
    "implicit",  # recorded where eager code may do without it: constants, conversions
]
OpenShape: TypeAlias = "tuple[int | str, ...]"
Fusion: TypeAlias = Literal["free", "pointwise", "rows", "contraction", "alone"]  # free: copied into what reads it
AtIndex: TypeAlias = Literal[
    "full", "iota", "constant", "random_bits", "gather", "dynamic_slice", "dynamic_update_slice"
]
Nest: TypeAlias = Literal[
    "dot",
    "conv",
    "scatter",
    "cumulative",
    "sort",
    "check",
    "attention",
    "attention_gradient",
    "dft",
    "dft_of_real",
    "dft_to_real",
    "search",
    "slide",
    "first_positions",
    "ranked_positions",
]
MatrixNest: TypeAlias = Literal[
    "cholesky", "elimination", "solve", "inverse", "determinant", "substitution", "order", "qr", "eigh", "svd"
]
ScheduleStep: TypeAlias = Literal["token", "stack_new", "stack_push", "stack_pop", "print", "host"]
Batching: TypeAlias = Literal[  # the rules of passes/batching.py
    "alike",
    "shifted",
    "leading",
    "reshape",
    "broadcast",
    "slice",
    "pad",
    "dot",
    "conv",
    "gather",
    "scatter",
    "dynamic_slice",
    "dynamic_update_slice",
    "barrier",
    "check",
]
Lowering: TypeAlias = AtIndex | Nest | ScheduleStep  # a value at an index, kernels of their own, steps of the schedule


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of inputs for the generated tests: arrays (or TensorTypes to be filled), and attributes.

    ``differentiable`` is False where central differences do not apply at this point (a kink, an edge value).
    """

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    regions: tuple[Graph, ...] = ()
    differentiable: bool = True


@dataclass(frozen=True, slots=True)
class Reduction:
    """How a reduction over axes is computed: start from ``init(dtype)`` and ``combine`` scalars pairwise.

    ``combine`` takes the scalar ops first: ``combine(s, left, right)``, each a scalar, or a tuple of scalars
    for a tuple accumulator (argmax: value and index), with ``init`` as identity. ``rounds`` tells that for floats it is
    associative up to rounding alone, so that their order is part of the meaning (``ops/order.py``); else any order
    gives the same bits. ``empty(dtype)`` is the reduction of nothing where that is not ``init``.
    """

    init: Callable[[Any], Any]
    combine: Callable[..., Any]
    rounds: bool = False
    empty: Callable[[Any], Any] | None = None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Op:
    """One operation. Its columns:

    name: the word in graph text. kind: the family, which decides how codegen walks it.
    infer: ``infer(*types, **attrs)`` gives the output type, or a tuple of them; raises ShapeError or DTypeError.
        Ops with regions get them as the keyword ``regions``.
    evaluate: NumPy evaluation ``evaluate(*arrays, **attrs)``, one array or a tuple; attributes have concrete sizes.
        None for control flow and composites, which the interpreter runs by their regions, but for composites that a
        lowering rounds in another way than what they consist of: the bits of that lowering.
    ufunc: the NumPy ufunc that, without warnings, is its evaluation for all dtypes but 16-bit floats.
    vjp: ``vjp(ct, out, *inputs, **attrs)`` written over Op calls: a cotangent, or None, for each input. For several
        outputs ``ct`` and ``out`` are tuples (a missing ct is None). None: the op has no gradient.
    jvp: ``jvp(tangents, out, *inputs, **attrs)``; where None, the vjp of the vjp serves.
    batch: the name of its batching rule (``passes/batching.py``), or the rule of an op outside the table, where the
        kind does not say it; an op without one is batched by its decomposition, or applied to one sample after another.
    scalar: for elementwise ops, ``scalar(s, *scalars, **attrs)`` in scalar ops (``ir/scalar.py``).
    reduction: for reduce ops, and for cumulative ones and scatters that combine.
    index_map: for movement ops, ``index_map(index, *types, **attrs)`` gives for an output index (a tuple of DimLike
        over loop axes) the input's index; see ``ops/movement.py`` for ops that read several inputs or pad.
    fusion: its part in a group of nodes that become one kernel (``passes/fuse.py``), where the kind does not say it.
    lowering: which lowering of codegen makes it, where the kind does not say it; "host": compiled code calls back and
        has ``evaluate`` run by Python.
    generated: for ops that Python evaluates, what code that cannot call Python has in their place: over Op calls
        ``generated(*operands, **attrs)``, and ``is_generated(*types)`` says of which operands.
    composed: the same for all other operands, over ops that have a kernel there (``alone``).
    alone: for the same, the kernel of ``codegen/lower/matrices`` that such code has in their place, of any size.
    flops: ``flops(out, *types, **attrs)``, its floating-point operations, where they are not one for each element.
    open_shapes: ``open_shapes(*shapes, **attrs)``, the operands' shapes with a name for each extent that one kernel
        leaves open where it serves eager calls; None: every extent.
    parts: where a value is complex and the op is not planewise, ``parts(*operands, **attrs)`` over Op calls: operands
        that are complex are pairs of their real and imaginary parts, and it gives the parts of all outputs in order
        (``passes/decompose_complex.py``).
    control: for control flow, ``control(*regions, **attrs)`` gives what it does with them (``ir/control.py``).
    decompose: for composites, the function over Op calls that defines it: ``decompose(*values, **attrs)``.
    is_whole: for composites with a lowering, ``is_whole(*types, **attrs)``: whether that takes such operands.
    effect: "check" survives dead code elimination, "ordered" threads a token as well.
    traits: what passes ask for; see ``Trait``. formerly: its names in older files.
    onnx: the ONNX operator's name. samples: ``samples(dtype)`` gives Samples for the generated tests.
    """

    name: str
    kind: Kind
    infer: Callable[..., Type | tuple[Type, ...]]
    evaluate: Callable[..., Any] | None = None
    ufunc: Any = None
    vjp: Callable[..., tuple[Any, ...]] | None = None
    jvp: Callable[..., Any] | None = None
    batch: Batching | Callable[..., Any] | None = None
    scalar: Callable[..., Any] | None = None
    reduction: Reduction | None = None
    index_map: Callable[..., Any] | None = None
    fusion: Fusion | None = None
    lowering: Lowering | None = None
    generated: Callable[..., Any] | None = None
    is_generated: Callable[..., bool] | None = None
    composed: Callable[..., Any] | None = None
    alone: MatrixNest | None = None
    flops: Callable[..., DimLike] | None = None
    open_shapes: Callable[..., tuple[OpenShape, ...]] | None = None
    parts: Callable[..., Any] | None = None
    control: Callable[..., Structure] | None = None
    decompose: Callable[..., Any] | None = None
    is_whole: Callable[..., bool] | None = None
    effect: Effect = "none"
    traits: frozenset[Trait] = frozenset()
    formerly: tuple[str, ...] = ()
    onnx: str | None = None
    samples: Callable[..., Sequence[Sample]] | None = None
    doc: str = ""

    def __call__(self, *inputs: Any, regions: Sequence[Graph] = (), **attrs: Any) -> Any:
        """Apply the op through the current emitter: one value, or a tuple where the op has several outputs."""
        outputs = context.emitter().emit(self, inputs, attrs, regions)
        return outputs[0] if len(outputs) == 1 else outputs

    def output_types(
        self, types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Graph]
    ) -> tuple[Type, ...]:
        """The types of the outputs for these operand types."""
        inferred = self.infer(*types, **attrs, regions=tuple(regions)) if regions else self.infer(*types, **attrs)
        return inferred if isinstance(inferred, tuple) else (inferred,)

    def __repr__(self) -> str:
        return f"Op({self.name})"


# ----------------------------------------------------------------------
# The op table as the parser finds it: ops are defined on a higher layer, which says how each is found.

Find = Callable[[str], "Op | None"]
Every = Callable[[], "Mapping[str, Op]"]
Has = Callable[[str], bool]

_registered: Final[list[tuple[Find, Every, Has]]] = []


def register(find: Find, every: Every, has_name: Has) -> None:
    """Make ops known. Called once, by ``jitgraph.ops``: ``find`` gives an op by its name, ``every`` the whole table.

    ``has_name`` says whether there is an op of a name, and loads none.
    """
    _registered.append((find, every, has_name))


def named(name: str) -> Op | None:
    """The op of this name, or None; only its own family is loaded."""
    return next((op for find, *_ in _registered if (op := find(name)) is not None), None)


def is_name(name: str) -> bool:
    """Whether an op has this name; no family is loaded."""
    return any(has_name(name) for *_, has_name in _registered)


def has(op: Op) -> bool:
    """Whether an op is of the table; only its own family is loaded."""
    return named(op.name) is op


@cache
def all_ops() -> Mapping[str, Op]:
    """Every op by its name and by those that it has in older files; GraphError for a name that two ops share."""
    table: dict[str, Op] = {}
    for _, every, _ in _registered:
        for name, op in every().items():
            for known in (name, *op.formerly):
                if table.setdefault(known, op) is not op:
                    raise GraphError(f"two ops are, or were, named {known!r}")
    return table
