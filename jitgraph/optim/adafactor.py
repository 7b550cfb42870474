"""Adafactor (Shazeer and Stern 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph import dtypes
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import counted, rounded, shrink, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.dtype_queries import finfo
from jitgraph.tensor.functions.creation import zeros, zeros_like
from jitgraph.tensor.functions.elementwise import maximum, minimum, rsqrt, sqrt
from jitgraph.tensor.functions.reductions import mean, sum


class Adafactor(Optimizer):
    """Adam's second moment as rows times columns, with steps relative to a parameter's size; PyTorch's variant.

    Rows and columns are those of the last two axes; a vector has its second moment whole. ``eps`` are a floor of the
    second moment (None: the machine epsilon of the parameter's dtype) and one of a parameter's size. ``foreach``
    changes nothing here.
    """

    PAIRS = {"eps": ("eps1", "eps2")}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if beta2_decay > 0 or d < 1 or (eps[0] or 0.0) < 0 or eps[1] < 0:
            actual = f"beta2_decay={beta2_decay}, d={d}, eps={eps}"
            raise JitgraphError(
                f"Adafactor takes a beta2_decay of at most 0, d of at least 1 and no negative eps: {actual}"
            )
        defaults = {
            "lr": float(lr),
            "beta2_decay": float(beta2_decay),
            "eps1": None if eps[0] is None else float(eps[0]),
            "eps2": float(eps[1]),
            "d": float(d),
            "weight_decay": float(weight_decay),
            **without_effect(
                "Adafactor", maximize=maximize, foreach=foreach, lacks=("capturable", "differentiable", "fused")
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero means of squares over rows and columns, or of each element, and the count of steps."""
        if dtypes.is_complex(parameter.dtype):
            raise DTypeError("Adafactor takes no complex parameters", hint="SGD or Adam does")
        count = zero_count(parameter)
        if parameter.ndim < 2:
            return {"variance": zeros_like(parameter.detach()), "step": count}
        *lead, rows, columns = parameter.shape
        factory_kwargs: Any = {"dtype": parameter.dtype, "device": parameter.device}
        return {
            "row_var": zeros((*lead, rows, 1), **factory_kwargs),
            "col_var": zeros((*lead, 1, columns), **factory_kwargs),
            "step": count,
        }

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, count = setting["lr"], counted(state)
        floor = float(finfo(parameter.dtype).eps) if setting["eps1"] is None else setting["eps1"]
        share = rounded(count ** setting["beta2_decay"], parameter)
        elements = math.prod(parameter.shape)
        size = sqrt(sum(parameter * parameter) / elements).astype(dtypes.float64)
        rate = maximum(size, setting["eps2"]) * minimum(1.0 / sqrt(count), lr)
        shrink(parameter, lr, setting)
        square = grad * grad
        if "variance" in state:
            estimate = state["variance"]
            estimate += share * (square - estimate)
        else:
            rows, columns = state["row_var"], state["col_var"]
            rows += share * (mean(square, axis=-1, keepdims=True) - rows)
            columns += share * (mean(square, axis=-2, keepdims=True) - columns)
            estimate = rows * columns / maximum(mean(rows, axis=-2, keepdims=True), floor)
        move = rsqrt(maximum(estimate, floor * floor)) * grad
        spread = sqrt(sum(move * move) / elements).astype(dtypes.float64) / setting["d"]
        parameter -= rounded(rate / maximum(spread, 1.0), parameter) * move
