"""A U-Net that finds bright squares: skips by concatenation, a loss of overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class DoubleConv(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.double_conv = nn.Sequential(
                nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
                nn.Conv2d(outputs, outputs, kernel_size=3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            )

        def forward(self, x: Any) -> Any:
            return self.double_conv(x)

    class Up(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(inputs, inputs // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(inputs, outputs)

        def forward(self, x1: Any, x2: Any) -> Any:
            x1 = self.up(x1)
            dy, dx = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
            x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            return self.conv(torch.cat([x2, x1], dim=1))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inc = DoubleConv(1, 4)
            self.down = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
            self.up = Up(8, 4)
            self.outc = nn.Conv2d(4, 1, kernel_size=1)

        def forward(self, x: Any) -> Any:
            x1 = self.inc(x)
            return self.outc(self.up(self.down(x1), x1))

    def dice_coeff(input: Any, target: Any, epsilon: float = 1e-6) -> Any:
        inter = 2 * (input * target).sum(dim=(-1, -2))
        sets_sum = input.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
        sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
        return ((inter + epsilon) / (sets_sum + epsilon)).mean()

    rng = np.random.default_rng(0)
    masks = torch.zeros(6, 1, 9, 9)
    for i in range(6):
        masks[i, 0, i % 4 : i % 4 + 4, 2:6] = 1.0
    images = masks + 0.3 * torch.from_numpy(rng.standard_normal((6, 1, 9, 9)).astype(np.float32))
    model = UNet()
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=2)
    criterion = nn.BCEWithLogitsLoss()
    losses = []
    for _ in range(20):
        masks_pred = net(images)
        loss = criterion(masks_pred.squeeze(1), masks.squeeze(1))
        loss += 1 - dice_coeff(torch.sigmoid(masks_pred.squeeze(1)), masks.squeeze(1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        score = dice_coeff((torch.sigmoid(masks_pred.detach()) > 0.5).float(), masks)
        scheduler.step(score)
        losses += [loss.item(), optimizer.param_groups[0]["lr"]]
    return losses
