"""``torch.Tensor``: jitgraph's tensor with PyTorch's attributes, methods and aliasing.

The methods stand in ``functions/`` and ``methods/``, whose stubs list them; each loads when it is first used. What a
tensor shares with others are its views, of class ``View``.
"""

# mypy: disable-error-code="override, misc, unused-ignore, assignment"

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import COMPUTED, NATIVE_CLASSES, ValueHandle, of_its_own, stopped
from jitgraph.eager.tape import EagerValue, LeafRecord
from jitgraph.ir import context
from jitgraph.runtime import imports, stubs
from jitgraph.runtime.buffer import is_referenced
from jitgraph.tensor import indexing, lifting
from jitgraph.tensor.functions import method
from jitgraph.tensor.tensor import wrap
from jitgraph.torch import promotion, view_inverses
from jitgraph.torch.layouts import (
    ElementCount,
    StorageLayout,
    advanced,
    axis_of,
    contiguous_strides,
    indexed_layout,
    is_basic,
    is_contiguous,
    is_within,
    same_layout,
)
from jitgraph.torch.metadata import Size, canonical, device
from jitgraph.torch.operators import attach_operators
from jitgraph.torch.scalar_types import dtype as dtype_class
from jitgraph.torch.scalar_types import get_default_dtype, scalar_type
from jitgraph.torch.storages import LazyLayout, SharedStorage, ViewState, storage_of
from jitgraph.torch.view_steps import UNGRADED, DataStep, Detach, IndexStep, ViewStep, data_step, of_copy, stepped
from jitgraph.torch.writing import RETAINING, in_history_of, is_without_history, write_data

if TYPE_CHECKING:
    from jitgraph.eager import versions as _versions
else:
    _versions = imports.late(__name__, "jitgraph.eager.versions")


class Tensor(jg.Tensor):
    """A tensor with PyTorch's names: ``Tensor(2, 3)`` of unspecified values (zeros), ``Tensor([1, 2])`` of floats."""

    __slots__ = ()
    __hash__ = object.__hash__
    _api = "torch"

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        return object.__new__(cls)

    def __init__(self, *data: Any, device: Any = None) -> None:
        kind = get_default_dtype().dtype
        if len(data) == 1 and not isinstance(data[0], int):
            sizes = data[0] if isinstance(data[0], Size) else None
        else:
            sizes = data if data else (0,)
        if sizes is not None:
            made = jg.zeros(tuple(sizes), dtype=kind, device=canonical(device))
        elif isinstance(data[0], Tensor):
            imports.module("jitgraph.torch.sharing").begin(self, data[0], Detach())
            return
        elif isinstance(data[0], jg.Tensor):
            made = wrap(of_its_own(data[0].value))
        else:
            made = jg.asarray(data[0], dtype=kind, device=canonical(device))
        self._bind(made.value)

    def __getattr__(self, name: str) -> Any:
        from jitgraph.torch.absent import missing  # here, as only errors need it

        raise missing("Tensor", name)

    # --- description -------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the axes."""
        return Size(jg.Tensor.shape.fget(self))  # type: ignore[attr-defined]

    @property
    def size(self) -> Any:
        """``x.size()``: the sizes of the axes, ``x.size(dim)``: one; as an int, for jitgraph, how many elements."""
        return ElementCount.of(self.shape, context.current().trace is None)

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    ndimension = dim

    def numel(self) -> Any:
        """The number of elements."""
        return self.shape.numel()

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """How many elements of the storage lie between neighbours along each axis, or along one."""
        strides = strides_of(self)
        return strides if dim is None else strides[axis_of(dim, self.ndim)]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in row-major order, as those of all tensors do that are no views."""
        return is_contiguous(tuple(self.shape), strides_of(self))

    def storage_offset(self) -> int:
        """How many elements of the storage precede the first one."""
        return offset_of(self)  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """The type of an element."""
        return scalar_type(self._static.type.dtype)

    @property
    def device(self) -> device:  # type: ignore[override]
        """Where the tensor lies."""
        return device(self._static.device)

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.numel() * self.itemsize

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self._static.type.dtype.itemsize)

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor lies on a GPU."""
        return self.device.type == "cuda"

    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_meta = is_nested = False
    is_mps = is_xpu = is_ipu = is_xla = is_maia = is_mtia = is_vulkan = False

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor lies on the CPU."""
        return self.device.type == "cpu"

    @property
    def layout(self) -> Any:
        """Always ``torch.strided``."""
        return imports.module("jitgraph.torch.constants").strided

    def is_floating_point(self) -> bool:
        """Whether elements are real floats."""
        return bool(self.dtype.is_floating_point)

    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return bool(self.dtype.is_complex)

    def is_signed(self) -> bool:
        """Whether elements may be negative."""
        return bool(self.dtype.is_signed)

    @property
    def _base(self) -> Tensor | None:
        """The tensor of which this one is a view, or None."""
        return None

    # --- gradients ---------------------------------------------------------------------------------------------

    @jg.Tensor.grad.setter  # type: ignore[attr-defined, untyped-decorator]
    def grad(self, gradient: Any) -> None:
        jg.Tensor.grad.fset(self, adopted(gradient))  # type: ignore[attr-defined]

    @property
    def grad_fn(self) -> Any:
        """The node of the op that made this tensor (``torch.autograd.graph.Node``), or None for a leaf."""
        record = jg.Tensor.grad_fn.fget(self)  # type: ignore[attr-defined]
        return None if record is None else imports.module("jitgraph.torch.autograd.graph").node(record)

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The same elements without history; ``x.data = y`` lets x have those of y, in place of its own."""
        return view_of(self, DataStep(), same_layout)

    @data.setter
    def data(self, value: Any) -> None:
        imports.module("jitgraph.torch.sharing").set_data(self, value)

    @property
    def _version(self) -> int:
        """How often the tensor was written in place, or one that shares its elements, but for writes to ``.data``."""
        return int(self._indexed)  # which no tensor of PyTorch's needs for what jitgraph's own ones say by it

    def _rebind(self, value: Any, counted: bool = True) -> None:
        """As of every handle; a computed tensor keeps its history where no gradient is recorded.

        ``counted``: the tensor then has another version.
        """
        current = context.current()
        if current.trace is not None:
            writes = current.trace.gradients.writes
            before = writes.present(self)
            self._give(value, current)
            if before is not None:
                writes.note(before, self.value, counted=counted)
            return
        if is_without_history(self, self._value, value, current):
            self._replace(value, counted)
            return
        old = self._value
        kept = not current.grad_enabled and not self._requires_grad and old.requires_grad
        self._give(value, current)
        if kept or is_referenced(old) or _versions.is_followed(self):
            _versions.overwritten(self, old, counted=counted)
        if counted:
            self._indexed += 1  # type: ignore[assignment]

    def _replace(self, value: Any, counted: bool = True) -> None:
        """As ``_rebind``, where ``is_without_history`` says that no gradient has to do with it."""
        old = self._value
        self._value = value
        self._weak = False
        if is_referenced(old) or _versions.is_followed(self):
            _versions.overwritten(self, old, counted=counted)
        if counted:
            self._indexed += 1  # type: ignore[assignment]

    def _give(self, value: Any, current: context.Context) -> None:
        if not current.grad_enabled and not self._requires_grad:
            old = self.value
            if old.requires_grad and (old.type.shape, old.type.dtype) == (value.type.shape, value.type.dtype):
                value = imports.module("jitgraph.torch.history").with_history_of(old, value)
                with context.using(grad_enabled=True):
                    super()._rebind(value)
                return
        super()._rebind(value)
        if id(self) in RETAINING:
            imports.module("jitgraph.torch.history").retain(self)

    def _resize_to(self, value: Any) -> None:
        """Take a value of any shape and dtype; views of this tensor and its base have no part in it."""
        imports.module("jitgraph.torch.sharing").replace(self, value)

    def detach(self) -> Tensor:
        """The same elements without history: writes to one are seen in the other."""
        return detached(self)  # type: ignore[no-any-return]

    def detach_(self) -> Tensor:
        """This tensor without history; gives the tensor."""
        if isinstance(self, View):
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._requires_grad = False
        with context.using(grad_enabled=False):
            jg.Tensor._rebind(self, self.value)
        return self

    @property
    def retains_grad(self) -> bool:
        """Whether the gradient of this tensor, which is no leaf, is kept in ``.grad``."""
        return id(self) in RETAINING

    def retain_grad(self) -> None:
        """Keep the gradient of a tensor that is no leaf in ``.grad`` at the next backward."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.is_leaf:
            imports.module("jitgraph.torch.history").retain(self)

    # --- numbers and arrays --------------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Any:
        """The elements as an array; RuntimeError where a gradient is required, unless ``force``.

        Unlike PyTorch's it is read-only: values here are never written in place by NumPy.
        """
        if force:
            return self.detach().cpu().numpy()
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return jg.Tensor.numpy(wrap(self.value))

    def item(self) -> Any:
        """The one element as a Python number; RuntimeError for more or fewer."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return super().item()

    def __bool__(self) -> bool:
        if self.numel() > 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        if not self.numel():
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        return super().__bool__()

    def __contains__(self, element: Any) -> bool:
        return bool(jg.any(jg.equal(self, element)))

    # --- devices and dtypes --------------------------------------------------------------------------------------

    def to(self, *targets: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False,
           memory_format: Any = None) -> Tensor:  # type: ignore[override]  # fmt: skip
        """This tensor in another dtype, on another device, or as another tensor is; itself where nothing changes."""
        for target in targets:
            if isinstance(target, jg.Tensor):
                device, dtype = target.device, target.dtype
            elif isinstance(target, bool):
                pass  # non_blocking
            elif isinstance(target, dtype_class):
                dtype = target
            elif target is not None:
                device = target
        kind = self._static.type.dtype if dtype is None else dtypes.canonical(dtype)
        where = canonical(device)
        result: Any = self
        if kind != self._static.type.dtype:
            result = promotion.converted(self, kind)
        if where is not None and where != self._static.device:
            result = result._on(where)
        if result is self and copy:
            result = wrap(of_its_own(self.value))
        return adopted(result)  # type: ignore[no-any-return]

    def cpu(self, memory_format: Any = None) -> Tensor:
        """This tensor on the CPU."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """This tensor on a GPU, the current one unless given."""
        return self.to(device="cuda" if device is None else device)

    def _on(self, where: str) -> Tensor:
        return Tensor._of(wrap(self.value)._on(where).value)

    # --- axes and elements ---------------------------------------------------------------------------------------

    @property
    def T(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """A view with the axes in reverse order."""
        return self.permute(*reversed(range(self.ndim)))  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """A view with the last two axes swapped."""
        if self.ndim < 2:
            raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D.")
        return self.transpose(-2, -1)  # type: ignore[no-any-return]

    @property
    def H(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """The transpose of a matrix, conjugated."""
        if self.ndim not in (0, 2):
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
        return self.adjoint() if self.ndim else self.conj()  # type: ignore[no-any-return]

    @property
    def mH(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """A view with the last two axes swapped, conjugated."""
        return self.adjoint()  # type: ignore[no-any-return]

    @property
    def real(self) -> Tensor:
        """A view of the real parts, the tensor itself where it is real."""
        return self.view_as_real()[..., 0] if self.is_complex() else self  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        self.real.copy_(value)

    @property
    def imag(self) -> Tensor:
        """A view of the imaginary parts; RuntimeError where the tensor is real."""
        if not self.is_complex():
            raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
        return self.view_as_real()[..., 1]  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag.copy_(value)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def _row(self, i: Any, row: Any) -> Tensor:
        return imports.module("jitgraph.torch.sharing").row_of(self, i, row)  # type: ignore[no-any-return]

    def __getitem__(self, index: Any) -> Tensor:
        if index.__class__ is int or is_basic(index):
            return indexed(self, index)  # type: ignore[no-any-return]
        result = wrap(indexing.get(self.value, advanced(index)))
        result.__class__ = Tensor
        return result  # type: ignore[return-value]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, jg.Tensor) and value._static.type.dtype != self._static.type.dtype:
            value = wrap(lifting.cast(value.value, self._static.type.dtype))
        elif not isinstance(value, jg.Tensor):
            value = jg.asarray(value, dtype=self._static.type.dtype)
        shape = tuple(value.shape)
        while shape and shape[0] == 1 and len(shape) > self.ndim:
            shape = shape[1:]
        if shape != tuple(value.shape):
            value = jg.reshape(value, shape)
        with _WRITING if context.current().trace is None else nullcontext():
            old, basic = self.value, is_basic(index)
            new = indexing.put(old, index if basic else advanced(index), value)
            if new is value._value:
                new = of_its_own(new)
            if old.requires_grad and basic and indexing.is_whole(old.shape, index):
                new = in_history_of(self, new, overwrites=True)
            self._rebind(new)

    # --- text ----------------------------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        if context.current().trace is not None:
            return super().__repr__()
        return imports.module("jitgraph.torch.printing").text_of(self)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return repr(self) if context.current().trace is None else super().__str__()

    def __format__(self, spec: str) -> str:
        if not self.ndim and context.current().trace is None:
            return format(self.item(), spec)
        return super().__format__(spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user support the deepcopy protocol at the moment"
            )
        return super().__deepcopy__(memo)


def adopted(result: Any) -> Any:
    """A result of jitgraph's in PyTorch's classes: tensors, also those in tuples, lists and dicts."""
    kind = result.__class__
    if kind is jg.Tensor:
        result.__class__ = Tensor
    elif kind is tuple or kind is list:
        return kind(map(adopted, result))
    elif kind is dict:
        return {key: adopted(value) for key, value in result.items()}
    elif isinstance(result, tuple) and hasattr(kind, "_fields"):
        return kind(*map(adopted, result))
    return result


# ----------------------------------------------------------------------
# Views: tensors that share their elements with another one, their base.
#
# A view is a handle with a base and steps. Reading it applies the steps to the base's present value; writing to it puts
# the new elements back, step by step, and rebinds the base. So programs that write in place mean the same eagerly, in
# traces and in scripts, where a value itself never changes. Chains of views have one base, a tensor that is no view.


_WRITING: Final = RLock()
"""Held while a write to a part reads the whole and rebinds it: threads may write to other parts of one tensor."""


class View(Tensor):
    """A tensor whose elements are those of ``base``, as ``steps`` choose them."""

    __slots__ = ()

    _state: ViewState
    _owner_class: ClassVar[type[Tensor]] = Tensor
    """The class of this tensor when it has elements of its own."""

    def _settled(self) -> ViewState:
        """The state, of the tensor that has the elements now."""
        state = self._state
        while (moved := state.storage.moved) is not None:
            self.storage_layout  # noqa: B018 - found out while what it is of is known
            base, steps, storage = moved
            state = self._state = ViewState(base, storage, (*steps, *state.steps), state.layout)
        return state

    @property
    def base(self) -> Tensor:
        return self._settled().base  # no view

    @property
    def steps(self) -> tuple[ViewStep, ...]:
        """What makes this view of the base."""
        return self._settled().steps

    @property
    def storage_layout(self) -> StorageLayout:
        """As of ``layout_of``."""
        return self._state.known_layout()

    _root = _base = base

    @property
    def _value(self) -> Any:  # type: ignore[override]
        trace = context.current().trace
        if trace is not None and trace.outermost.is_argument_or_gradient(self):
            with context.using(trace=None, emitter=EAGER):
                return self._read()
        return self._read()

    @_value.setter
    def _value(self, value: Any) -> None:
        self._write(value)

    @property
    def value(self) -> Any:
        trace = context.current().trace
        if trace is not None:
            if trace.outermost.is_argument_or_gradient(self):
                return trace.read(self)
            trace.outermost.use_view(self)
        value = self._read()
        if self._requires_grad and not value.requires_grad:
            state = self._settled()
            base = state.base.value
            if isinstance(value, COMPUTED):
                value = self._noted(value.recorded(LeafRecord(self)), base, state.steps)
            else:
                value = value.trace.new_leaf(self, value)
            state.cache = base, value
        return value

    @property
    def _static(self) -> Any:
        return self.value

    def _read(self) -> Any:
        state = self._state
        base, cache = state.base.value, state.cache
        if cache is not None and cache[0] is base:
            return cache[1]
        if state.storage.moved is not None:
            state = self._settled()
            base = state.base.value
        current = context.current()
        if current.grad_enabled:
            value = state.derived(base)
        else:  # whether it is on the tape is a matter of the base
            with context.using(grad_enabled=True):
                value = state.derived(base)
        if current.trace is None:
            value = self._noted(value, base, state.steps)
        elif getattr(value, "trace", None) is not None:
            value.trace.gradients.writes.derived(value, base)
        state.cache = base, value
        return value

    def _noted(self, value: Any, base: Any, steps: tuple[ViewStep, ...]) -> Any:
        """The value as one of which is known that it is a part of the base's."""
        return _versions.derived(value, base, lambda base: stepped(base, steps), data_step(steps))

    @property
    def _version(self) -> int:
        """How often the base was written, or what this is of its ``.data``."""
        state = self._settled()
        data = data_step(state.steps)
        return state.base._version if data is None else data.writes

    def _rebind(self, value: Any, equal: bool = False) -> None:
        current = context.current()
        if current.trace is not None and current.trace.outermost.is_argument_or_gradient(self):
            super()._rebind(value)
            return
        if current.grad_enabled and self._requires_grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        with _WRITING if current.trace is None else nullcontext():
            self._write(stopped(value) if not current.grad_enabled and value.requires_grad else value, equal)

    def _write(self, value: Any, equal: bool = False) -> None:
        """Put ``value`` into the base; ``equal`` says that all its elements are the same."""
        state = self._settled()
        base, steps = state.base, state.steps
        before = [wrap(base.value)] if steps else []
        for step in steps[:-1]:
            before.append(step.apply(before[-1]))
        new: Any = wrap(value)
        detached: tuple[Detach, Any] | None = None
        for step, x in zip(reversed(steps), reversed(before), strict=True):
            if step.put is None or (step.repeats and not equal):
                raise RuntimeError(
                    f"unsupported operation: elements of the written-to tensor repeat, as it is made by {step.name}(); "
                    "clone() the tensor before the write"
                )
            if detached is None and isinstance(step, Detach):
                detached = step, new.value
            new = step.put(x, new)
        result = of_its_own(new.value) if new.value is value else new.value
        if detached is not None:
            write_data(base, result, data_step(steps), *detached)
        else:
            if base._requires_grad and context.current().grad_enabled:
                raise RuntimeError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                )
            base._rebind(result)
        if steps and context.current().trace is None:  # the op that made the value has later writes to it for its own
            _versions.became_part(value, base._value, lambda base: stepped(base, steps), data_step(steps))

    def __copy__(self) -> Tensor:
        return Tensor._of(self.value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A view of the base's copy, so that what shares elements does so among the copies; a parameter has its own."""
        state = self._settled()
        if self._is_parameter or not self.is_leaf or not state.base.is_leaf:
            copied = self._alone().__deepcopy__(memo)
        else:
            copied = new_view()
            copied._become(deepcopy(state.base, memo), of_copy(state.steps), self.storage_layout)
            copied._requires_grad = self._requires_grad
        memo[id(self)] = copied
        return copied

    def _alone(self) -> Tensor:
        """A tensor with the same elements that is no view."""
        kind = self._owner_class
        alone = kind._of(self.value if not self.is_leaf else stopped(self._read()), self._requires_grad)
        alone._grad = self._grad
        attributes: dict[str, Any] = vars(self)
        if attributes:
            vars(alone).update(attributes)
        return alone

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by ``backward()``, or None."""
        return Tensor.grad.fget(self if self.steps else self.base)  # type: ignore[attr-defined, no-any-return]

    @grad.setter
    def grad(self, gradient: Any) -> None:
        Tensor.grad.fset(self if self.steps else self.base, gradient)  # type: ignore[attr-defined]

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for gradients with respect to this view, a leaf; in a trace it then shares its elements no more."""
        trace = context.current().trace
        if not requires_grad:
            if not self._requires_grad and self.requires_grad:
                raise RuntimeError("you can only change requires_grad flags of leaf variables.")
            self._requires_grad = False
            self._state.cache = None
            return self
        if trace is None or trace.outermost.is_argument(self) or self.requires_grad:
            return super().requires_grad_(requires_grad)
        leaf = Tensor._of(self.value)
        leaf.requires_grad_()
        self._become(leaf, (), (0, contiguous_strides(self.shape)))
        self._requires_grad = self._indexed = True
        return self

    def _become(
        self,
        base: Tensor,
        steps: tuple[ViewStep, ...],
        layout: LazyLayout,
        parent: tuple[View, ViewState] | None = None,
    ) -> None:
        """Be the view of ``base`` by steps, with this layout in its storage."""
        storage: Any = base._indexed
        if storage.__class__ is not SharedStorage:
            storage = storage_of(base)
        self._state = ViewState(base, storage, steps, layout, parent)
        self._grad = None
        self._requires_grad = self._indexed = self._weak = False

    def _recipe(self) -> Any:
        """What makes such a view of another tensor."""
        return imports.module("jitgraph.torch.sharing").Recipe(self)

    @property
    def _is_from_outside(self) -> bool:
        return self._indexed is False  # else it was made in a trace

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._alone().__reduce_ex__(protocol)


Tensor._state = vars(ValueHandle)["_value"]  # type: ignore[attr-defined]  # the slot that has the value of no view


def new_view(kind: type[View] = View) -> Any:
    """A view that is yet of nothing."""
    view = object.__new__(kind)
    view._hooks = None
    return view


def view_of(x: Tensor, step: ViewStep, layout: LazyLayout) -> View:
    """The view of a tensor by a step, with this layout in its storage; detached where no gradient is recorded.

    The layout may be a function of the shape and layout of ``x``.
    """
    view: View = object.__new__(View)
    view._hooks = None
    current = context.current()
    parent = None
    base, steps = x, (step,)
    if isinstance(x, View):
        trace = current.trace
        if trace is None or not trace.outermost.is_argument_or_gradient(x):  # of which each call brings another
            if trace is not None:
                trace.outermost.use_view(x)
            state = x._settled()
            base, steps, parent = state.base, (*state.steps, step), (x, state)
    if not current.grad_enabled and not isinstance(step, Detach) and x.requires_grad:
        steps = (*steps, UNGRADED)
    view._become(base, steps, layout, parent)
    if current.trace is not None:
        view._indexed = True
        imports.module("jitgraph.torch.sharing").note_in_trace(view, base, current.trace)
    return view


def detached(x: Tensor) -> View:
    """``x.detach()``: the same elements without history."""
    return view_of(x, Detach(), same_layout)


def reshaped(x: Tensor, shape: tuple[Any, ...], strides: tuple[Any, ...] | None = None) -> View:
    """The view in another shape, of as many elements in the same order; without strides those of row-major order."""
    step = ViewStep("view", lambda t: jg.reshape(t, shape), view_inverses.reshaped)
    return view_of(x, step, lambda _, of: (of[0], contiguous_strides(shape) if strides is None else strides))


def indexed(x: Tensor, index: Any) -> View:
    """The view by a basic index; IndexError where it does not fit."""
    items = index if isinstance(index, tuple) else (index,)
    view = view_of(x, IndexStep(index), lambda shape, of: indexed_layout(shape, of, items))
    if context.current().trace is not None:
        view.storage_layout  # noqa: B018 - where an index is out of range, here
    elif not (_is_constant(x) and is_within(items, x._value.shape)):
        view._read()  # likewise, and on the tape at this line of the user's
    return view


def _is_constant(x: Tensor) -> bool:
    """Whether a tensor outside of traces is known to be no view, and to be on no tape."""
    if x.__class__ is not Tensor or x._requires_grad:
        return False
    value = x._value
    return value.__class__ is EagerValue and value.record is None


NATIVE_CLASSES["torch", False] = Tensor


def layout_of(x: Tensor) -> StorageLayout:
    """How many elements of the storage precede the first one, and how many lie between neighbours, by axis."""
    return x.storage_layout if isinstance(x, View) else (0, contiguous_strides(x.shape))


def strides_of(x: Tensor) -> tuple[Any, ...]:
    """The strides of a tensor in elements; of what is no view those of row-major order."""
    return layout_of(x)[1]


def offset_of(x: Tensor) -> Any:
    """How many elements of the storage precede the first one of a tensor."""
    return x.storage_layout[0] if isinstance(x, View) else 0


attach_operators(Tensor)
method.attach(imports.module("jitgraph.torch.functions").methods(), Tensor, "jitgraph.torch.functions")
method.attach(stubs.of("jitgraph.torch.methods").marked("method"), Tensor, "jitgraph.torch.methods")
