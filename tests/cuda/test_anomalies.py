"""Anomalies on a simulated GPU are named as on the CPU."""

from collections.abc import Iterator

import numpy as np
import pytest

import jitgraph as jg
from tests.cuda.places import Machine, machine


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    with machine(hides=True, must_end_clean=False) as actual:
        yield actual


def score(x: jg.Tensor) -> jg.Tensor:
    return (jg.nn.functional.softmax(x, dim=0) * jg.sqrt(x)).sum()


def scanned(x: jg.Tensor) -> jg.Tensor:
    def body(carry: jg.Tensor, _: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        return jg.sqrt(carry), carry

    return jg.scan(body, x, x)[0].sum()


def test_forward(here: Machine) -> None:
    x = jg.asarray([1.0, 3.0], device="cuda")
    with jg.detect_anomaly(), pytest.raises(jg.AnomalyError, match=r"log gave nan at index \(0,\)"):
        jg.log(x - 2.0)


@pytest.mark.parametrize("function", [score, scanned])
def test_gradients(here: Machine, function: object) -> None:
    assert callable(function)
    named = r"div gave inf at index \(1,\), in the backward of sqrt at .*test_anomalies\.py:\d+"
    for ran in (function, jg.trace(lambda x: function(x))):
        x = jg.asarray([1.0, 0.0], device="cuda").requires_grad_()
        y = ran(x)
        with jg.detect_anomaly(), pytest.raises(jg.AnomalyError, match=named):
            y.backward()


@pytest.mark.parametrize("function", [score, scanned])
def test_sound_gradients_are_the_same_in_the_block(here: Machine, function: object) -> None:
    assert callable(function)
    (x, z) = (jg.asarray([1.0, 0.5], device="cuda").requires_grad_() for _ in range(2))
    function(x).backward()
    with jg.detect_anomaly():
        function(z).backward()
    assert x.grad is not None
    assert z.grad is not None
    np.testing.assert_allclose(z.grad.cpu().numpy(), x.grad.cpu().numpy(), rtol=1e-6)
