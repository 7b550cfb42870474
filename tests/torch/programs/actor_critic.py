"""Actor and critic on a small control problem: log-probabilities, returns in reverse, stacked losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.affine1 = nn.Linear(4, 16)
            self.action_head = nn.Linear(16, 2)
            self.value_head = nn.Linear(16, 1)
            self.saved_actions: list[Any] = []
            self.rewards: list[float] = []

        def forward(self, x: Any) -> Any:
            x = F.relu(self.affine1(x))
            return F.softmax(self.action_head(x), dim=-1), self.value_head(x)

    rng = np.random.default_rng(0)
    model = Policy()
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    eps = np.finfo(np.float32).eps.item()
    losses = []
    for _episode in range(20):
        state = rng.standard_normal(4) * 0.1
        for _t in range(8):
            probs, state_value = net(torch.from_numpy(state).float())
            action = torch.tensor(int(rng.random() < 0.5))
            log_prob = torch.log(probs)[action]
            model.saved_actions.append((log_prob, state_value))
            push = 1.0 if action.item() == 1 else -1.0
            state = state + 0.1 * np.array([state[1], push, state[3], -push + state[2]])
            model.rewards.append(1.0 - abs(state[2]))
        total = 0.0
        policy_losses, value_losses, returns = [], [], []
        for r in model.rewards[::-1]:
            total = r + 0.99 * total
            returns.insert(0, total)
        returns_tensor = torch.tensor(returns)
        returns_tensor = (returns_tensor - returns_tensor.mean()) / (returns_tensor.std() + eps)
        for (log_prob, value), R in zip(model.saved_actions, returns_tensor, strict=True):
            advantage = R - value.item()
            policy_losses.append(-log_prob * advantage)
            value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        optimizer.step()
        del model.rewards[:]
        del model.saved_actions[:]
        losses.append(loss.item())
    return losses
