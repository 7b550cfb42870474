"""Sines continued by cells of an LSTM in double precision, trained by L-BFGS."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class Sequence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm1 = nn.LSTMCell(1, 8)
            self.lstm2 = nn.LSTMCell(8, 8)
            self.linear = nn.Linear(8, 1)

        def forward(self, input: Any, future: int = 0) -> Any:
            outputs = []
            h_t = torch.zeros(input.size(0), 8, dtype=torch.double)
            c_t = torch.zeros(input.size(0), 8, dtype=torch.double)
            h_t2 = torch.zeros(input.size(0), 8, dtype=torch.double)
            c_t2 = torch.zeros(input.size(0), 8, dtype=torch.double)
            for input_t in input.split(1, dim=1):
                h_t, c_t = self.lstm1(input_t, (h_t, c_t))
                h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
                output = self.linear(h_t2)
                outputs += [output]
            for _ in range(future):
                h_t, c_t = self.lstm1(output, (h_t, c_t))
                h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
                output = self.linear(h_t2)
                outputs += [output]
            return torch.cat(outputs, dim=1)

    x = np.arange(12) + np.random.default_rng(2).integers(-20, 20, 5).reshape(5, 1)
    data = np.sin(x / 5.0).astype("float64")
    input, target = torch.from_numpy(data[2:, :-1]), torch.from_numpy(data[2:, 1:])
    test_input, test_target = torch.from_numpy(data[:2, :-1]), torch.from_numpy(data[:2, 1:])
    seq = Sequence()
    seq.double()
    fill(torch, seq)
    net = compile(seq)
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.4, max_iter=5)
    losses = []
    for _ in range(4):

        def closure() -> Any:
            optimizer.zero_grad()
            loss = criterion(net(input), target)
            losses.append(loss.item())
            loss.backward()
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        future = 3
        pred = seq(test_input, future=future)
        losses.append(criterion(pred[:, :-future], test_target).item())
        losses.append(pred.detach().numpy()[0, -1].item())
    return losses
