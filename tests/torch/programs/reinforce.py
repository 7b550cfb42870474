"""The policy gradient of a distribution: log-probabilities of recorded actions, returns in a deque."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    from_distributions = torch.distributions

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.affine1 = nn.Linear(4, 12)
            self.dropout = nn.Dropout(p=0.0)
            self.affine2 = nn.Linear(12, 2)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.dropout(self.affine1(x)))
            return F.softmax(self.affine2(x), dim=1)

    rng = np.random.default_rng(0)
    policy = Policy()
    fill(torch, policy)
    net = compile(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        saved_log_probs, rewards = [], []
        for _t in range(6):
            state = torch.from_numpy(rng.standard_normal(4)).float().unsqueeze(0)
            m = from_distributions.Categorical(net(state))
            action = torch.tensor([int(rng.integers(0, 2))])
            saved_log_probs.append(m.log_prob(action))
            rewards.append(float((state[0, 0] > 0) == (action[0] == 1)))
        total = 0.0
        returns: Any = deque()
        for r in rewards[::-1]:
            total = r + 0.99 * total
            returns.appendleft(total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-7)
        policy_loss = [-log_prob * value for log_prob, value in zip(saved_log_probs, returns, strict=True)]
        optimizer.zero_grad()
        loss = torch.cat(policy_loss).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
