"""Whole networks, whose state dicts load by key as those of published models do."""

from __future__ import annotations

from typing import Any

from tests.models.case import LayerCase, normal


def resnet18(lib: Any, width: int = 8) -> Any:
    """The shape of ResNet-18 (He et al. 2015) with torchvision's names, 8 channels wide instead of 64."""
    nn = lib.nn

    class BasicBlock(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            relu = nn.functional.relu
            y = self.bn2(self.conv2(relu(self.bn1(self.conv1(x)))))
            return relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            sizes = [width, width, 2 * width, 4 * width, 8 * width]
            for number in range(1, 5):
                inputs, outputs = sizes[number - 1], sizes[number]
                blocks = [BasicBlock(inputs, outputs, 1 if number == 1 else 2), BasicBlock(outputs, outputs, 1)]
                setattr(self, f"layer{number}", nn.Sequential(*blocks))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(sizes[-1], 10)

        def forward(self, x: Any) -> Any:
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(self.avgpool(x).reshape(x.shape[0], -1))

    return ResNet()


CASES = [
    LayerCase("ResNet-18, training", resnet18, (normal(2, 3, 40, 48),), tolerance=1e-8),
    LayerCase("ResNet-18, evaluating", resnet18, (normal(2, 3, 40, 48),), mode="eval"),
]
