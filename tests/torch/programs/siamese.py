"""A siamese network: one body for two pictures, weights initialised by a function over the submodules."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class SiameseNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 8))
            self.fc = nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))
            self.sigmoid = nn.Sigmoid()
            self.body.apply(self.init_weights)
            self.fc.apply(self.init_weights)

        def init_weights(self, m: Any) -> None:
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                m.bias.data.fill_(0.01)

        def forward_once(self, x: Any) -> Any:
            output = self.body(x)
            return output.view(output.size()[0], -1)

        def forward(self, input1: Any, input2: Any) -> Any:
            output = torch.cat((self.forward_once(input1), self.forward_once(input2)), 1)
            return self.sigmoid(self.fc(output))

    pictures, labels = (torch.from_numpy(part) for part in digits(64, classes=3))
    first, second = pictures[0::2], pictures[1::2]
    same = (labels[0::2] == labels[1::2]).to(torch.float32)
    model = SiameseNetwork()
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    criterion = nn.BCELoss()
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        outputs = net(first, second).squeeze()
        loss = criterion(outputs, same)
        loss.backward()
        optimizer.step()
        pred = torch.where(outputs > 0.5, 1, 0)
        losses += [loss.item(), pred.eq(same.view_as(pred)).sum().item() / 32]
    return losses
