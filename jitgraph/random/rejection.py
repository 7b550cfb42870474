"""Numbers drawn by rejection: candidates for all elements until each has one that is accepted."""

from __future__ import annotations

from typing import Any

from jitgraph.ir.op import Op
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tracing.control.flow import while_loop


def accepted(candidate: Op, parameter: Tensor, samples: Tensor, key: Tensor, step: Tensor) -> Tensor:
    """``samples`` with its negative elements replaced by the first ``candidate(parameter, key)`` that is not negative.

    Each turn takes the words behind those of the one before: ``step`` is added to the key.
    """

    def again(state: Any) -> Any:
        key, samples = state
        return key + step, where(samples < 0, wrap(candidate(parameter.value, key.value)), samples)

    return while_loop(lambda state: any_of(state[1] < 0), again, (key, samples))[1]  # type: ignore[no-any-return]
