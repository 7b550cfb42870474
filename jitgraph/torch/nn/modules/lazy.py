"""``torch.nn.modules.lazy``: modules of the user's that learn the shapes of their parameters from their first call."""

from __future__ import annotations

from typing import Any

from jitgraph.torch.nn.uninitialized import UninitializedBuffer, UninitializedParameter


class LazyModuleMixin:
    """A module whose ``initialize_parameters(*args)`` materialises its ``UninitializedParameter`` at its first call.

    Its class is ``cls_to_become`` afterwards, where it defines one. RuntimeError where parameters remain without a
    shape.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(  # type: ignore[attr-defined]
            _initialize, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes by the arguments of a call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        kinds = UninitializedParameter | UninitializedBuffer
        return any(isinstance(value, kinds) for value in vars(self).values())


def _initialize(module: Any, args: Any, kwargs: Any) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {type(module).__name__} has not been fully initialized")
    module._initialize_hook.remove()
    del module._initialize_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
