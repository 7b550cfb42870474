"""A convolutional network on digits: pooling, Adadelta, a schedule of the learning rate."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F, optim = torch.nn, torch.nn.functional, torch.optim

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 4, 3, 1)
            self.conv2 = nn.Conv2d(4, 8, 3, padding="same")
            self.dropout = nn.Dropout(0.0)
            self.fc1 = nn.Linear(72, 16)
            self.fc2 = nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.conv1(x))
            x = F.relu_(self.conv2(x))
            x = F.max_pool2d(x, 2)
            x = torch.flatten(x, 1)
            x = self.dropout(F.relu(self.fc1(x)))
            return F.log_softmax(self.fc2(x), dim=1)

    pictures, labels = (torch.tensor(part) for part in digits(80))
    model = Net()
    fill(torch, model)
    net = compile(model)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for _epoch in range(4):
        for data, target in zip(pictures.split(16), labels.split(16), strict=True):
            optimizer.zero_grad()
            output = net(data)
            loss = F.nll_loss(output, target, reduction="mean")
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        losses.append(scheduler.get_last_lr()[0])
    return losses
