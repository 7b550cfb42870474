"""Train a classifier of handwritten digits, save it, and run the file with the standalone loader.

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn; every fifth is kept for testing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import jitgraph as jg
from jitgraph.codegen.kernels.schedule import Launch

EPOCHS, BATCH = 30, 64


class Classifier(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = jg.nn.Linear(64, 128)
        self.norm = jg.nn.LayerNorm(128)
        self.output = jg.nn.Linear(128, 10)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        return self.output(jg.nn.functional.gelu(self.norm(self.hidden(x))))


STANDALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import loader
model = loader.load(sys.argv[1] + "/digits.jg")
images = np.load(sys.argv[1] + "/images.npy")
np.savez(sys.argv[1] + "/logits.npz", **{str(n): model(images[:n]) for n in (1, 7, len(images))})
heavy = [m for m in sys.modules if m.split(".")[0] in ("jitgraph", "llvmlite", "networkx")]
assert not heavy, heavy
"""


def main() -> None:
    digits = load_digits()
    images, labels = (digits.data / 16.0).astype(np.float32), digits.target.astype(np.int64)
    test = np.arange(len(images)) % 5 == 0

    jg.random.seed(0)
    batches = jg.data.DataLoader(
        jg.data.TensorDataset(images[~test], labels[~test]), BATCH, shuffle=True, drop_last=True, seed=0
    )
    x, y = next(iter(batches))
    model, step = training()
    report(jg.trace(step).lower(x, y))
    compiled = jg.trace(step)
    progress = tqdm(range(EPOCHS), unit="epoch")
    for _ in progress:
        losses = [compiled(x, y) for x, y in batches]
        progress.set_postfix(loss=f"{np.mean([loss.item() for loss in losses]):.4f}")

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def predict(x: jg.Tensor) -> jg.Tensor:
        return model(x)

    logits = predict(images[test]).detach().numpy()
    accuracy = float((logits.argmax(1) == labels[test]).mean())
    print(f"accuracy {100 * accuracy:.2f} %")
    assert accuracy >= 0.97, "the classifier has not learned"
    run_alone(predict, images)

    eager = seconds_per_call(training()[1], x, y, calls=20)
    native = seconds_per_call(jg.trace(training()[1]), x, y, calls=300)
    print(
        f"time a step: eager {1e6 * eager:.0f} us, compiled {1e6 * native:.0f} us; {eager / native:.0f} times as fast"
    )


def training() -> tuple[Classifier, Callable[[jg.Tensor, jg.Tensor], jg.Tensor]]:
    """A new model, and the step that trains it."""
    model = Classifier()
    optimizer = jg.optim.Adam(model.parameters(), lr=2e-3)

    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = jg.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def report(lowered: Any) -> None:
    """What the compiler makes of a training step."""
    stages, plan = lowered.stages, lowered.memory_plan
    kernels = sum(isinstance(step, Launch) for step in stages.schedule.steps)
    milliseconds = sum(stages.milliseconds.values())
    apart = sum(node.op.kind not in ("movement", "creation") for node in stages.optimized.nodes)  # views cost nothing
    print(f"kernels of a training step: {apart} before fusion, {kernels} after")
    print(f"arena {plan.arena_bytes} bytes with the memory plan, {plan.unplanned} without")
    print(f"compile time {milliseconds:.0f} ms ({', '.join(f'{k} {v:.0f}' for k, v in stages.milliseconds.items())})")


def seconds_per_call(function: Callable[..., Any], *args: Any, calls: int) -> float:
    """The median, after one call that is not counted."""
    function(*args)
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def run_alone(predict: Callable[..., Any], images: np.ndarray) -> None:
    """Save ``predict``, run the file in a process that has the loader alone, and compare bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "digits.jg")
        jg.save(predict, path, example_inputs=(images,))
        subprocess.run([sys.executable, "-m", "jitgraph", "loader", folder], stdout=subprocess.DEVNULL, check=True)
        np.save(Path(folder, "images.npy"), images)
        subprocess.run([sys.executable, "-I", "-c", STANDALONE, folder], check=True)
        alone = np.load(Path(folder, "logits.npz"))
        for count in (1, 7, len(images)):
            here = predict(images[:count]).detach().numpy()
            assert here.tobytes() == alone[str(count)].tobytes(), f"logits differ for {count} images"
        print(
            f"file {path.stat().st_size / 1e3:.0f} kB; the loader's logits for 1, 7 and {len(images)} images: identical"
        )


if __name__ == "__main__":
    main()
