"""A convolutional network learns the handwritten digits of scikit-learn."""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits
from tqdm import trange

import jitgraph as jg

F = jg.nn.functional


class Net(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = jg.nn.Sequential(
            *(jg.nn.Conv2d(1, 16, 3, padding=1), jg.nn.BatchNorm2d(16), jg.nn.ReLU()),
            *(jg.nn.Conv2d(16, 32, 3, padding=1), jg.nn.BatchNorm2d(32), jg.nn.ReLU(), jg.nn.MaxPool2d(2)),
        )
        self.head = jg.nn.Sequential(jg.nn.Flatten(), jg.nn.Dropout(0.2), jg.nn.Linear(32 * 4 * 4, 10))

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        return self.head(self.features(x))  # type: ignore[no-any-return]


def main(quick: bool = False) -> float:
    digits = load_digits()
    images, labels = (digits.images[:, None] / 16).astype(np.float32), digits.target
    test = np.arange(len(images)) % 5 == 0
    jg.random.seed(0)
    model, epochs = Net(), 1 if quick else 12
    batches = jg.data.DataLoader(
        jg.data.TensorDataset(images[~test], labels[~test]), 64, shuffle=True, drop_last=True, seed=0
    )
    optimizer = jg.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = jg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * len(batches))

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def predict(x: jg.Tensor) -> jg.Tensor:
        return jg.argmax(model(x), axis=1)

    progress = trange(epochs, unit="epoch")
    for _ in progress:
        for x, y in batches:
            loss = step(x, y)
            schedule.step()
        progress.set_postfix(loss=f"{loss.item():.3f}")
    model.eval()
    guesses = predict(images[test]).numpy()
    accuracy = float((guesses == labels[test]).mean())
    print("digit   right")
    for digit in range(10):
        chosen = labels[test] == digit
        print(f"{digit:5}   {100 * (guesses[chosen] == digit).mean():5.1f} %")
    print(f"  all   {100 * accuracy:5.1f} %")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
