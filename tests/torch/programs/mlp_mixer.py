"""A mixer: permuted axes, mixed precision of the update, accumulated gradients, an exponential average."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class PreNormResidual(nn.Module):
        def __init__(self, dim: int, fn: Any) -> None:
            super().__init__()
            self.fn = fn
            self.norm = nn.LayerNorm(dim)

        def forward(self, x: Any) -> Any:
            return self.fn(self.norm(x)) + x

    class Mixer(nn.Module):
        def __init__(self, patches: int = 4, dim: int = 16) -> None:
            super().__init__()
            self.unfold = nn.Unfold(kernel_size=4, stride=4)
            self.embed = nn.Linear(16, dim)
            tokens = nn.Sequential(nn.Conv1d(patches, 8, 1), nn.GELU(), nn.Conv1d(8, patches, 1))
            channels = nn.Sequential(nn.Linear(dim, 32), nn.Mish(), nn.Linear(32, dim))
            self.mix = nn.Sequential(PreNormResidual(dim, tokens), PreNormResidual(dim, channels))
            self.head = nn.Linear(dim, 10)

        def forward(self, x: Any) -> Any:
            x = self.embed(self.unfold(x).permute(0, 2, 1))
            return self.head(self.mix(x).mean(dim=1))

    images, labels = (torch.from_numpy(part) for part in digits(32))
    model = Mixer()
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        for x, y in zip(torch.chunk(images, 2), torch.chunk(labels, 2), strict=True):
            loss = nn.functional.cross_entropy(net(x), y) / 2
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        averaged.update_parameters(model)
    with torch.no_grad():
        losses.append(nn.functional.cross_entropy(averaged(images), labels).item())
    return losses
