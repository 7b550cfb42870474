"""Deep Q-learning: gathered values, a masked target, a soft update of the target network by its state."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class DQN(nn.Module):
        def __init__(self, observations: int, actions: int) -> None:
            super().__init__()
            self.layer1 = nn.Linear(observations, 16)
            self.layer2 = nn.Linear(16, 16)
            self.layer3 = nn.Linear(16, actions)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.layer1(x))
            x = F.relu(self.layer2(x))
            return self.layer3(x)

    rng = np.random.default_rng(0)
    policy, target = DQN(4, 3), DQN(4, 3)
    fill(torch, policy)
    target.load_state_dict(policy.state_dict())
    net, target_net = compile(policy), compile(target)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True)
    losses = []
    for _ in range(20):
        states = [torch.tensor(rng.standard_normal(4), dtype=torch.float32).unsqueeze(0) for _ in range(8)]
        nexts = [None if i % 4 == 3 else s + 0.1 for i, s in enumerate(states)]
        mask = torch.tensor(tuple(s is not None for s in nexts), dtype=torch.bool)
        non_final = torch.cat([s for s in nexts if s is not None])
        state_batch = torch.cat(states)
        action_batch = torch.tensor([[int(a)] for a in rng.integers(0, 3, 8)], dtype=torch.long)
        reward_batch = torch.cat([torch.tensor([float(r)]) for r in rng.random(8)])
        state_action_values = net(state_batch).gather(1, action_batch)
        next_values = torch.zeros(8)
        with torch.no_grad():
            next_values[mask] = target_net(non_final).max(1).values
        expected = (next_values * 0.9) + reward_batch
        loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy.parameters(), 0.05)
        optimizer.step()
        target_state, policy_state = target.state_dict(), policy.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * 0.05 + target_state[key] * 0.95
        target.load_state_dict(target_state)
        losses.append(loss.item())
    return losses
