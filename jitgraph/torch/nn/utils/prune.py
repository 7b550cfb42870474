"""``torch.nn.utils.prune``: parameters of which some elements are zero and stay so.

A pruned parameter ``weight`` is ``weight_orig``, which is learned, times the buffer ``weight_mask``, computed before
each call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from jitgraph import torch


def _count(amount: float, size: int) -> int:
    """How many of ``size`` an amount means: an int is a number of them, a float a share."""
    if isinstance(amount, Integral):
        if amount < 0:
            raise ValueError(f"amount={amount} should be a non-negative integer or a float in the range [0, 1]")
        if amount > size:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
        return int(amount)
    if not isinstance(amount, float):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if not 0.0 <= amount <= 1.0:
        raise ValueError(f"amount={amount} should be a non-negative integer or a float in the range [0, 1]")
    return round(amount * size)


class BasePruningMethod(ABC):
    """A way of choosing elements. Subclasses define ``compute_mask`` and PRUNING_TYPE: "unstructured", "structured" or
    "global"."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """A mask of the shape of ``t``: 1 where an element stays, of those that ``default_mask`` leaves."""

    def apply_mask(self, module: Any) -> Any:
        """The pruned parameter."""
        name = self._tensor_name
        return vars(module)[f"{name}_mask"].to(vars(module)[f"{name}_orig"].dtype) * vars(module)[f"{name}_orig"]

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """``t`` with zeros where this method chooses, by the scores or by ``t`` itself."""
        mask = torch.ones_like(t) if default_mask is None else default_mask
        scores = t if importance_scores is None else importance_scores
        _require_shape(scores, t)
        return t * self.compute_mask(scores, default_mask=mask).to(t.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune ``module.name`` by this method from now on, beside what was pruned before; gives the method."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        earlier = _method_of(module, name)
        if earlier is None:
            original = getattr(module, name)
            if importance_scores is not None:
                _require_shape(importance_scores, original)
            scores, mask = original if importance_scores is None else importance_scores, torch.ones_like(original)
            delattr(module, name)
            module.register_parameter(f"{name}_orig", original)
        else:
            original = vars(module)[f"{name}_orig"]
            mask = vars(module)[f"{name}_mask"]
            scores = getattr(module, name) if importance_scores is None else importance_scores
            handle, previous = vars(module)["_pruning"].pop(name)
            handle.remove()
            container = previous if isinstance(previous, PruningContainer) else PruningContainer(previous)
            container.add_pruning_method(method)
        with torch.no_grad():
            mask = method._mask_of_part(scores.detach(), mask)
        if earlier is not None:
            method = container
        module.register_buffer(f"{name}_mask", mask)
        vars(module).setdefault("_pruning", {})[name] = module.register_forward_pre_hook(method), method
        setattr(module, name, method.apply_mask(module))
        return method

    def _mask_of_part(self, scores: Any, mask: Any) -> Any:
        """The mask with what this method chooses among the elements, or the channels, that ``mask`` leaves."""
        if self.PRUNING_TYPE == "structured":
            channels = mask.transpose(0, self.dim).reshape(mask.shape[self.dim], -1).sum(1) != 0  # type: ignore[attr-defined]
            slices: list[Any] = [slice(None)] * mask.ndim
            slices[self.dim] = channels  # type: ignore[attr-defined]
            index: Any = tuple(slices)
        else:
            index = mask == 1
        result = mask.clone()
        result[index] = self.compute_mask(scores[index], default_mask=mask[index]).to(mask.dtype)
        return result

    def remove(self, module: Any) -> None:
        """Make the pruned parameter a plain one, of its present value."""
        name = self._tensor_name
        with torch.no_grad():
            original, value = vars(module)[f"{name}_orig"], self.apply_mask(module)
            original.data = value
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        vars(module).pop(name, None)
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several methods, one after another, of one parameter."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Prune by this method, too; TypeError for what is no method, ValueError for one of another parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._methods and method._tensor_name != self._tensor_name:
            raise ValueError(f"Can only add pruning methods acting on the parameter named '{self._tensor_name}'")
        self._methods = (*self._methods, method)

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last method, among what ``default_mask`` leaves."""
        return self._methods[-1]._mask_of_part(t, default_mask)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, number: int) -> BasePruningMethod:
        return self._methods[number]


class Identity(BasePruningMethod):
    """Prunes nothing, and gives the parameter its mask."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask as it is."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements by chance: ``amount``, a number or a share."""

    def __init__(self, amount: float) -> None:
        self.amount = amount
        _count(amount, 10**18)

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask without the elements that chance chooses."""
        return _without(default_mask, torch.rand_like(t.float()), _count(self.amount, t.numel()))


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of the least absolute values: ``amount``, a number or a share."""

    def __init__(self, amount: float) -> None:
        self.amount = amount
        _count(amount, 10**18)

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask without the least elements."""
        return _without(default_mask, t.abs(), _count(self.amount, t.numel()))


class RandomStructured(BasePruningMethod):
    """Prunes whole slices along ``dim`` by chance: ``amount``, a number or a share of them."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount, self.dim = amount, dim
        _count(amount, 10**18)

    def _scores(self, t: Any) -> Any:
        return torch.rand(t.shape[self.dim])

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask without the slices of the least scores."""
        if t.ndim <= 1:
            raise ValueError(f"Structured pruning can only be applied to multidimensional tensors, not {t.shape}")
        size = t.shape[self.dim]
        scores = self._scores(t)
        stays = _without(torch.ones_like(scores), scores, _count(self.amount, size))
        shape = [1] * t.ndim
        shape[self.dim] = size
        return default_mask * stays.reshape(shape).to(default_mask.dtype)


class LnStructured(RandomStructured):
    """Prunes whole slices along ``dim`` of the least norms of order ``n``: ``amount``, a number or a share of them."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Any) -> Any:
        axes = [axis for axis in range(t.ndim) if axis != self.dim % t.ndim]
        return torch.norm(t, p=self.n, dim=axes)


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def _mask_of_part(self, scores: Any, mask: Any) -> Any:
        return self.compute_mask(scores, mask)

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Where both masks are 1."""
        return default_mask * self.mask.to(default_mask.dtype)


def _without(mask: Any, scores: Any, count: int) -> Any:
    """A mask without ``count`` elements of the least scores."""
    result = mask.clone()
    if count:
        result.view(-1)[torch.topk(scores.reshape(-1), count, largest=False).indices] = 0
    return result


def _require_shape(scores: Any, t: Any) -> None:
    if scores.shape != t.shape:
        raise AssertionError("importance_scores should have the same shape as parameter")


def _method_of(module: Any, name: str) -> Any:
    return vars(module).get("_pruning", {}).get(name, (None, None))[1]


def identity(module: Any, name: str) -> Any:
    """Give ``module.name`` a mask of ones; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune elements of ``module.name`` by chance; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Prune the least elements of ``module.name``; returns the module."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune slices of ``module.name`` along ``dim`` by chance; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prune slices of ``module.name`` along ``dim`` of the least norms of order ``n``; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune ``module.name`` where a mask is 0; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune pairs of modules and names as if they were one tensor, by an unstructured method and its arguments."""
    pairs = list(parameters)
    if not pairs:
        raise TypeError("global_unstructured(): parameters is not an Iterable of pairs")
    given = importance_scores or {}
    scores, masks = [], []
    for module, name in pairs:
        value = getattr(module, name)
        scores.append(given.get((module, name), value).detach().reshape(-1))
        masks.append(vars(module).get(f"{name}_mask", torch.ones_like(value)).reshape(-1))
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for global pruning, not {method.PRUNING_TYPE}')
    with torch.no_grad():
        mask = method._mask_of_part(torch.cat(scores), torch.cat(masks))
    for (module, name), part in zip(pairs, torch.split(mask, [x.numel() for x in scores]), strict=True):
        custom_from_mask(module, name, part.reshape(getattr(module, name).shape))


def remove(module: Any, name: str) -> Any:
    """Make a pruned ``module.name`` a plain parameter, of its present value; returns the module."""
    method = _method_of(module, name)
    if method is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    handle, _ = vars(module)["_pruning"].pop(name)
    handle.remove()
    method.remove(module)
    return module


def is_pruned(module: Any) -> bool:
    """Whether a parameter of the module or of one below it is pruned."""
    return any(vars(part).get("_pruning") for part in module.modules())
