"""What a function saves for its gradient, and whether that has a gradient by the operand, are as in PyTorch.

What PyTorch gave is in ``saved_by_functions.txt``; ``python -m tests.torch.test_saved_by_functions`` writes it where
PyTorch is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import jitgraph.torch as ours
from jitgraph.tensor.saved_by_functions import STEPS

RECORDED = Path(__file__).with_name("saved_by_functions.txt")
PyTorch = importlib.util.find_spec("torch") and importlib.import_module("torch")
MESSAGE = "modified by an inplace operation"

# Of x, y, z (3, 3), v, w (3,), the positive definite p, the images u (1, 2, 6, 6), the labels l and the indices k.
CALLS = """
torch.addcdiv(x, y, z)
torch.addcmul(x, y, z)
torch.addr(x, v, w)
torch.cholesky_solve(x, p)
torch.clamp(x, y, z)
torch.clamp(x, 0.3, 0.7)
torch.clamp_max(x, y)
torch.clamp_min(x, y)
x.clamp_min(y)
torch.copysign(x, y)
torch.cross(x, y)
torch.dist(x, y)
torch.float_power(x, y)
torch.gather(x, 1, k)
torch.index_add(x, 0, l, y)
torch.index_copy(x, 0, l, y)
torch.index_reduce(x, 0, l, y, "prod")
torch.kthvalue(x, 2)[0]
torch.ldexp(x, y)
torch.logaddexp2(x, y)
torch.logcumsumexp(x, 1)
torch.logit(x)
torch.max(x, 1)[0]
torch.median(x)
torch.median(x, 1)[0]
torch.min(x, 1)[0]
torch.mode(x, 1)[0]
torch.mvlgamma(x + 3, 2)
torch.nan_to_num(x)
torch.nanmean(x)
torch.nansum(x)
torch.renorm(x, 2, 0, 0.5)
torch.scatter(x, 1, k, y)
torch.scatter_add(x, 1, k, y)
torch.scatter_reduce(x, 1, k, y, "amax")
torch.sinc(x)
torch.sort(x)[0]
torch.take(x, l)
torch.topk(x, 2)[0]
torch.vdot(v, w)
torch.xlogy(x, y)
torch.special.entr(x)
torch.special.erfcx(x)
torch.special.log_ndtr(x)
torch.special.ndtri(x)
torch.special.xlog1py(x, y)
torch.linalg.cholesky(p)
torch.linalg.cross(x, y)
torch.linalg.inv_ex(p)[0]
torch.linalg.lu(p)[2]
torch.linalg.matrix_norm(x)
torch.linalg.solve(p, x)
torch.linalg.svdvals(p)
torch.linalg.vector_norm(x)
F.adaptive_avg_pool1d(x, 2)
F.adaptive_avg_pool2d(u, 2)
F.adaptive_avg_pool2d(u, 1)
F.adaptive_max_pool1d(x, 2)
F.adaptive_max_pool2d(u, 2)
F.avg_pool1d(x, 2)
F.avg_pool2d(u, 2)
F.celu(x - 0.5)
F.cross_entropy(x, l)
F.glu(u)
F.group_norm(u, 2)
F.hardshrink(x)
F.hardsigmoid(x)
F.hardswish(x)
F.hardtanh(x)
F.huber_loss(x, y)
F.instance_norm(u)
F.interpolate(u, 3, mode="area")
F.leaky_relu(x)
F.max_pool1d(x, 2)
F.max_pool2d(u, 2)
F.multi_margin_loss(x, l)
F.nll_loss(x, l)
F.pad(x, (1, 1), mode="reflect")
F.pad(x, (1, 1), mode="replicate")
F.pad(x, (1, 1))
F.pairwise_distance(x, y)
F.prelu(x - 0.5, v)
F.relu(x)
F.relu6(x)
F.rms_norm(x, (3,), v)
F.smooth_l1_loss(x, y)
F.soft_margin_loss(x, y.detach())
F.softplus(x)
F.softshrink(x)
F.threshold(x, 0.5, 0.1)
torch.nn.Hardtanh()(x)
torch.nn.HuberLoss()(x, y)
torch.nn.MaxPool2d(2)(u)
""".strip().splitlines()


def operands(torch: Any) -> dict[str, Any]:
    x = torch.tensor([[0.15, 0.62, 0.33], [0.81, 0.27, 0.94], [0.46, 0.73, 0.58]])
    u = torch.arange(72.0).reshape(1, 2, 6, 6).mul(0.7).sin()
    p = torch.tensor([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.2]])
    floats = {"x": x, "y": x.t() * 0.9 + 0.04, "z": 1.1 - x, "v": x[0] * 1, "w": x[1] * 1, "u": u, "p": p}
    integers = {"l": torch.tensor([2, 0, 1]), "k": torch.tensor([[0, 2, 1], [1, 0, 2], [2, 1, 0]])}
    return {name: t.detach().clone().requires_grad_() for name, t in floats.items()} | integers


def touched(torch: Any, t: Any) -> None:
    with torch.no_grad():
        t.add_(0)


def saved(torch: Any, call: str) -> str:
    """Of which tensors a write is refused, alone of the operands (``x``) and of the result (``r``)."""
    names = [name for name in "xyzvwpulk" if re.search(rf"\b{name}\b", call)]
    refused = ""
    for written in [*names, "r"]:
        scope = {name: t * 1 if t.requires_grad else t for name, t in operands(torch).items()}
        result = eval(call, {"torch": torch, "F": torch.nn.functional, **scope})
        if not (written == "r" and result._base is not None):
            touched(torch, result if written == "r" else scope[written])
        try:
            (result * 1).sum().backward()
        except RuntimeError as error:
            assert MESSAGE in str(error), call
            refused += written
    return refused or "-"


def second_gradient(torch: Any, call: str) -> str:
    """What the gradient of the first operand has for a gradient by that operand: none, zeros or others."""
    scope = operands(torch)
    operand = scope[re.findall(r"\b[xvpu]\b", call)[0]]
    result = eval(call, {"torch": torch, "F": torch.nn.functional, **scope})
    cotangent = torch.ones(result.shape, dtype=result.dtype, requires_grad=True)
    (gradient,) = torch.autograd.grad([result], [operand], [cotangent], create_graph=True)
    (second,) = torch.autograd.grad([gradient.sum()], [operand], allow_unused=True)
    return "none" if second is None else "others" if bool((second != 0).any()) else "zeros"


def outcome(torch: Any, call: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            second = second_gradient(torch, call)
        except RuntimeError:  # PyTorch has no second gradient of some
            second = "any"
        return f"{saved(torch, call)} {second}"


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[re.sub(r"\W+", "_", call).strip("_") for call in CALLS])
def test_what_a_function_saves_is_what_pytorch_saves(number: int) -> None:
    due = outcome(PyTorch, CALLS[number]) if PyTorch else RECORDED.read_text().splitlines()[number]
    mine = outcome(ours, CALLS[number])
    assert mine == due or (due.endswith(" any") and mine.partition(" ")[0] == due.partition(" ")[0])


def test_most_functions_of_the_table_are_called() -> None:
    called = {name for call in CALLS for name in re.findall(r"(?:torch|F|x|linalg|special)\.(\w+)\(", call)}
    missing = {name for name in STEPS if name.rpartition(".")[2] not in called}
    assert len(missing) < 0.3 * len(STEPS), missing


def test_a_step_keeps_no_operand_that_is_not_saved() -> None:
    x, y, z = ours.ones(3, requires_grad=True), ours.ones(3, requires_grad=True), ours.ones(3)
    record = ours.addcmul(x, y, z)._value.record
    assert record.name == "addcmul"
    assert len(record.inputs) == 2 and record.inputs[0] is z.value  # that of y's gradient, and the result


if __name__ == "__main__" and PyTorch:
    sys.exit(RECORDED.write_text("".join(f"{outcome(PyTorch, call)}\n" for call in CALLS)) == 0)
