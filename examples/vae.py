"""A variational autoencoder of the handwritten digits of scikit-learn, and digits that it makes up."""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits
from tqdm import trange

import jitgraph as jg

F = jg.nn.functional
LATENT = 8


class VAE(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = jg.nn.Sequential(jg.nn.Linear(64, 128), jg.nn.GELU(), jg.nn.Linear(128, 2 * LATENT))
        self.decoder = jg.nn.Sequential(jg.nn.Linear(LATENT, 128), jg.nn.GELU(), jg.nn.Linear(128, 64))

    def bound(self, x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        """The two parts of the negative evidence lower bound, in nats an image (Kingma and Welling, 2014)."""
        mean, log_variance = jg.chunk(self.encoder(x), 2, axis=1)
        z = mean + jg.exp(log_variance / 2) * jg.random.normal(mean.shape)
        picture = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum") / x.shape[0]
        code = jg.sum(mean**2 + jg.exp(log_variance) - 1 - log_variance) / (2 * x.shape[0])
        return picture, code


def main(quick: bool = False) -> float:
    images = (load_digits().data / 16).astype(np.float32)
    jg.random.seed(0)
    model = VAE()
    optimizer = jg.optim.Adam(model.parameters(), lr=2e-3)
    batches = jg.data.DataLoader(jg.data.TensorDataset(images), 128, shuffle=True, drop_last=True, seed=0)

    @jg.trace
    def step(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        picture, code = model.bound(x)
        optimizer.zero_grad()
        (picture + code).backward()
        optimizer.step()
        return picture, code

    progress = trange(2 if quick else 150, unit="epoch")
    for _ in progress:
        parts = np.mean([[part.item() for part in step(x)] for (x,) in batches], axis=0)
        progress.set_postfix(picture=f"{parts[0]:.2f}", code=f"{parts[1]:.2f}")
    print(f"bound {parts.sum():.2f} nats an image: {parts[0]:.2f} for the picture, {parts[1]:.2f} for the code")
    with jg.no_grad():
        made = jg.sigmoid(model.decoder(jg.random.normal((4, LATENT)))).reshape(4, 8, 8).numpy()
    for rows in made.transpose(1, 0, 2):
        print("   ".join("".join(" .:*#"[min(int(5 * value), 4)] * 2 for value in row) for row in rows))
    return float(parts.sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
