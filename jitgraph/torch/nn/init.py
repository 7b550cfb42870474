"""``torch.nn.init``: initial values, written into a tensor."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from jitgraph.nn.init import _calculate_fan_in_and_fan_out as _calculate_fan_in_and_fan_out
from jitgraph.nn.init import calculate_gain as calculate_gain
from jitgraph.nn.init import constant_ as constant_
from jitgraph.nn.init import dirac_ as dirac_
from jitgraph.nn.init import eye_ as eye_
from jitgraph.nn.init import kaiming_normal_ as kaiming_normal_
from jitgraph.nn.init import kaiming_uniform_ as kaiming_uniform_
from jitgraph.nn.init import normal_ as normal_
from jitgraph.nn.init import ones_ as ones_
from jitgraph.nn.init import orthogonal_ as orthogonal_
from jitgraph.nn.init import sparse_ as sparse_
from jitgraph.nn.init import trunc_normal_ as trunc_normal_
from jitgraph.nn.init import uniform_ as uniform_
from jitgraph.nn.init import xavier_normal_ as xavier_normal_
from jitgraph.nn.init import xavier_uniform_ as xavier_uniform_
from jitgraph.nn.init import zeros_ as zeros_


def _older(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function by its name of old, without the ``_`` behind it, which warns."""
    name = function.__name__.removesuffix("_")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


constant = _older(constant_)
dirac = _older(dirac_)
eye = _older(eye_)
kaiming_normal = _older(kaiming_normal_)
kaiming_uniform = _older(kaiming_uniform_)
normal = _older(normal_)
orthogonal = _older(orthogonal_)
sparse = _older(sparse_)
uniform = _older(uniform_)
xavier_normal = _older(xavier_normal_)
xavier_uniform = _older(xavier_uniform_)
