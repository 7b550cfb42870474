"""A perceptron on digits: a data loader, momentum, the accuracy under no_grad."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    from_data = torch.utils.data

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(64, 32)
            self.fc2 = nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            x = x.view(x.size(0), -1)
            x = F.relu(self.fc1(x))
            return F.log_softmax(self.fc2(x), dim=1)

    pictures, labels = digits(160)
    dataset = from_data.TensorDataset(torch.from_numpy(pictures), torch.from_numpy(labels))
    loader = from_data.DataLoader(dataset, batch_size=16, shuffle=False)
    device = torch.device("cpu")
    model = Net().to(device)
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _epoch in range(2):
        model.train()
        for _batch, (data, target) in enumerate(loader):
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            loss = F.nll_loss(net(data), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            pred = net(data).argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    losses.append(correct / len(loader.dataset))
    return losses
