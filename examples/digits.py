"""Train a classifier of handwritten digits, save it, and run the file with the standalone loader.

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn; every fifth is kept for testing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import jitgraph as jg
from jitgraph.runtime import loader

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
    model = Classifier()
    optimizer = jg.optim.Adam(model.parameters(), lr=2e-3)
    batches = jg.data.DataLoader(
        jg.data.TensorDataset(images[~test], labels[~test]), BATCH, shuffle=True, drop_last=True, seed=0
    )

    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = jg.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = next(iter(batches))
    eager = seconds_per_call(step, x, y, calls=20)
    compiled_step = jg.trace(step)
    lowered = compiled_step.lower(x, y)
    print(jg.explain(step, x, y))

    started = time.perf_counter()
    compiled_step(x, y)
    print(f"first call (trace, compile, run)  {1e3 * (time.perf_counter() - started):.0f} ms")

    progress = tqdm(range(EPOCHS), unit="epoch")
    for _ in progress:
        losses = [compiled_step(x, y) for x, y in batches]
        progress.set_postfix(loss=f"{np.mean([loss.item() for loss in losses]):.4f}")
    compiled = seconds_per_call(compiled_step, x, y, calls=200)
    print(
        f"time a step: eager {1e6 * eager:.0f} us, compiled {1e6 * compiled:.0f} us; {eager / compiled:.1f} times as fast"
    )

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def predict(x: jg.Tensor) -> jg.Tensor:
        return model(x)

    logits = predict(images[test]).detach().numpy()
    accuracy = float((logits.argmax(1) == labels[test]).mean())
    print(f"accuracy {100 * accuracy:.2f} %")
    assert accuracy >= 0.97, "the classifier has not learned"
    run_alone(predict, images)


def seconds_per_call(function: object, *args: object, calls: int) -> float:
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        function(*args)  # type: ignore[operator]
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def run_alone(predict: object, images: np.ndarray) -> None:
    """Save ``predict``, run the file in a process that has the loader alone, and compare bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "digits.jg")
        jg.save(predict, path, example_inputs=(images,))
        shutil.copy(loader.__file__, folder)
        np.save(Path(folder, "images.npy"), images)
        subprocess.run([sys.executable, "-I", "-c", STANDALONE, folder], check=True)
        alone = np.load(Path(folder, "logits.npz"))
        for count in (1, 7, len(images)):
            here = predict(images[:count]).detach().numpy()  # type: ignore[operator]
            assert here.tobytes() == alone[str(count)].tobytes(), f"logits differ for {count} images"
        print(
            f"file {path.stat().st_size / 1e3:.0f} kB; the loader's logits for 1, 7 and {len(images)} images: identical"
        )


if __name__ == "__main__":
    main()
