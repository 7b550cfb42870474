"""Parameters and buffers of modules that learn their shapes from a first call."""

# mypy: disable-error-code="override, misc"

from __future__ import annotations

from typing import Any, NoReturn

import jitgraph as jg
from jitgraph.torch.metadata import canonical
from jitgraph.torch.nn.parameter import Buffer, Parameter
from jitgraph.torch.scalar_types import get_default_dtype


class _Uninitialized:
    """What has no shape before ``materialize`` gives it one."""

    __slots__ = ()
    cls_to_become: type

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become the plain tensor of this shape, of zeros."""
        value = jg.zeros(
            tuple(shape), dtype=self.dtype if dtype is None else dtype, device=canonical(device) or self.device
        ).value
        learns = self._requires_grad
        self.__class__ = self.cls_to_become
        self._bind(value)
        self._requires_grad = learns

    @property
    def shape(self) -> NoReturn:
        """RuntimeError: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter without a shape: ``materialize(shape)`` makes it a ``Parameter``."""

    __slots__ = ()
    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        kind = get_default_dtype().dtype if dtype is None else dtype
        Parameter.__init__(self, jg.zeros((0,), dtype=kind, device=canonical(device)), requires_grad)


class UninitializedBuffer(_Uninitialized, Buffer):
    """A buffer without a shape: ``materialize(shape)`` makes it a tensor."""

    __slots__ = ()
    cls_to_become = Buffer

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> None:
        kind = get_default_dtype().dtype if dtype is None else dtype
        Buffer.__init__(self, jg.zeros((0,), dtype=kind, device=canonical(device)), persistent=persistent)
        self._requires_grad = requires_grad
