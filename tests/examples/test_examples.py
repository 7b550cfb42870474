"""Each example runs, shortened; what its result must be then says that it has begun to learn."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "digits")

# the greatest value (for those in LEARNED_MORE the least) of what main(quick=True) returns
BOUNDS = {
    "cnn": 0.5,  # of the digits right; a guess gives 0.1
    "diffusion": 0.5,  # energy distance
    "dqn": 5.0,  # steps
    "gaussian_process": 0.12,  # error; the noise of a point is 0.2
    "gpt": 3.4,  # nats a character; 4.5 are a guess
    "kalman": 0.9,  # error after the filter over the error before it
    "language_model": 3.4,  # nats a character
    "neural_ode": 1.0,  # error of the angle; 1.1 has who says 0
    "pinn": 0.4,  # error; 0.55 has the net's first form
    "sentence_encoder": 1e-4,  # difference from the encoder that the weights came from
    "torchscript_to_c": 1e-6,  # difference between C and Python
    "vae": 36.0,  # nats; 44.4 are a guess
}
AT_LEAST = {"cnn", "dqn"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_learns(name: str) -> None:
    pytest.importorskip("sklearn")
    code = f"import {name}; result = {name}.main(quick=True); print('result', result)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'examples'); {code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = float(done.stdout.rpartition("result ")[2])
    assert result >= BOUNDS[name] if name in AT_LEAST else result <= BOUNDS[name], result


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < 150
