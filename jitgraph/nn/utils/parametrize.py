"""Parameters computed from others whenever a module is called.

A parametrised module is of a class of its own, on which the name is a property; what is learned stands in
``module.parametrizations.<name>.original``, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from jitgraph.autograd import no_grad
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.containers import ModuleDict, ModuleList
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor, lifting


class ParametrizationList(ModuleList):
    """The functions that make one parameter of ``original``, or of ``original0``, ``original1`` ..., in their order."""

    def __init__(self, modules: list[Module], original: Parameter) -> None:
        super().__init__(modules)
        first = modules[0]
        inverse = getattr(first, "right_inverse", None)
        with no_grad():
            start = inverse(original) if inverse is not None else original
        self._parts = len(start) if isinstance(start, tuple) else 0
        for name, value in zip(self._names(), start if self._parts else (start,), strict=True):
            setattr(self, name, Parameter(value))

    def _names(self) -> list[str]:
        return [f"original{i}" for i in range(self._parts)] if self._parts else ["original"]

    def assign(self, value: Any) -> None:
        """Set the original so that the parameter becomes ``value``, by the ``right_inverse`` of each function."""
        inverted = value
        with no_grad():
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is None:
                    raise JitgraphError(
                        f"{type(module).__name__} has no right_inverse, so its parameter takes no value\n"
                        "  hint: define right_inverse(value), or set parametrizations.<name>.original"
                    )
                inverted = inverse(inverted)
            parts = inverted if isinstance(inverted, tuple) else (inverted,)
            for name, part in zip(self._names(), parts, strict=True):
                original: Tensor = getattr(self, name)
                part_value = lifting.value_of(part)
                if part_value.shape != original.value.type.shape:
                    raise ShapeError(f"a parameter with original {original.value.type} takes no {part_value.type}")
                original._rebind(lifting.cast(part_value, original.dtype))

    def forward(self) -> Any:
        """The parameter."""
        parameter: Any = tuple(getattr(self, name) for name in self._names())
        for module in self:
            parameter = module(*parameter) if isinstance(parameter, tuple) else module(parameter)
        return parameter


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let ``module.tensor_name`` be ``parametrization(original)`` from now on; returns the module.

    ``parametrization.right_inverse`` gives the original of the present value, or several as a tuple, where it is
    defined. A further parametrization of the same name takes what the others give.
    """
    present = vars(module).get("parametrizations")
    if isinstance(present, ModuleDict) and tensor_name in present:
        existing: Any = present[tensor_name]
        existing.append(parametrization)
        return module
    original = vars(module).get(tensor_name)
    if not isinstance(original, Parameter):
        raise JitgraphError(f"{type(module).__name__} has no parameter {tensor_name!r} to parametrise")
    delattr(module, tensor_name)
    holder = ParametrizationList([parametrization], original)
    if not isinstance(present, ModuleDict):
        present = ModuleDict()
        module.add_module("parametrizations", present)
    present[tensor_name] = holder
    module.__class__ = _with_property(type(module), tensor_name)
    return module


def _with_property(kind: type[Module], name: str) -> type[Module]:
    def get(self: Any) -> Any:
        return vars(self)["parametrizations"][name]()

    def put(self: Any, value: Any) -> None:
        vars(self)["parametrizations"][name].assign(value)

    plain = getattr(kind, "_parametrized_from", kind)
    members = {
        name: property(get, put),
        "_parametrized_from": plain,
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    return type(f"Parametrized{plain.__name__}", (kind,), members)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrization, or one of this name."""
    present = vars(module).get("parametrizations")
    return isinstance(present, ModuleDict) and (tensor_name is None or tensor_name in present)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make ``module.tensor_name`` a parameter again: of its present value, or of the original; returns the module."""
    if not is_parametrized(module, tensor_name):
        raise JitgraphError(f"{type(module).__name__}.{tensor_name} has no parametrization")
    present: Any = vars(module)["parametrizations"]
    with no_grad():
        value = getattr(module, tensor_name) if leave_parametrized else present[tensor_name].original
    del present[tensor_name]
    kind: Any = type(module)
    plain = kind._parametrized_from
    for name in present:
        plain = _with_property(plain, name)
    module.__class__ = plain
    if not len(present):
        delattr(module, "parametrizations")
    setattr(module, tensor_name, Parameter(value))
    return module
