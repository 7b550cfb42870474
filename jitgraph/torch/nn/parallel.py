"""``torch.nn.parallel``: one process computes on one device, so that a module is itself its parallel form."""

from __future__ import annotations

from typing import Any, NoReturn

from jitgraph.torch.nn.layers import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """What the module gives for the whole batch."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel:
    """RuntimeError where it is made: it belongs to several processes."""

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise RuntimeError(
            "DistributedDataParallel needs a group of processes, and one process computes here: use the module itself, "
            "or DataParallel for state dicts whose keys begin with 'module.'"
        )
