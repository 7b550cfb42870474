"""A residual network: additions in place, Nesterov momentum, weight decay, milestones."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class BasicBlock(nn.Module):
        expansion = 1

        def __init__(self, inputs: int, planes: int, stride: int = 1) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, planes, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.downsample = None
            if stride != 1 or inputs != planes:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
                )

        def forward(self, x: Any) -> Any:
            identity = x
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            return self.relu(out)

    class ResNet(nn.Module):
        def __init__(self, blocks: list[int]) -> None:
            super().__init__()
            self.inputs = 4
            self.conv1 = nn.Conv2d(1, 4, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(4)
            self.layer1 = self._make_layer(4, blocks[0], 1)
            self.layer2 = self._make_layer(8, blocks[1], 2)
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(8, 10)
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                elif isinstance(m, nn.BatchNorm2d):
                    nn.init.constant_(m.weight, 1)
                    nn.init.constant_(m.bias, 0)

        def _make_layer(self, planes: int, blocks: int, stride: int) -> Any:
            layers = []
            for s in [stride] + [1] * (blocks - 1):
                layers.append(BasicBlock(self.inputs, planes, s))
                self.inputs = planes * BasicBlock.expansion
            return nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            x = torch.relu_(self.bn1(self.conv1(x)))
            x = self.layer2(self.layer1(x))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    inputs, targets = (torch.from_numpy(part) for part in digits(32))
    model = ResNet([1, 2])
    fill(torch, model)
    net = compile(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[10, 15], gamma=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    model.eval()
    _, predicted = torch.max(model(inputs).data, 1)
    losses.append((predicted == targets).sum().item() / targets.size(0))
    losses.append(float(model.bn1.running_var.mean()))
    return losses
