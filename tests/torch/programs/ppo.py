"""Proximal policy optimisation: advantages filled in from the last, a ratio that is clipped, entropies."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn
    from_distributions = torch.distributions.categorical

    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
            self.actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

        def get_action_and_value(self, x: Any, action: Any) -> Any:
            probs = from_distributions.Categorical(logits=self.actor(x))
            return probs.log_prob(action), probs.entropy(), self.critic(x)

    steps, envs = 8, 2
    rng = np.random.default_rng(0)
    agent = Agent()
    fill(torch, agent)
    evaluate = compile(agent.get_action_and_value)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    obs = torch.zeros((steps, envs, 4))
    actions = torch.zeros((steps, envs))
    logprobs, rewards, dones, values = (torch.zeros((steps, envs)) for _ in range(4))
    losses = []
    for update in range(7):
        for t in range(steps):
            obs[t] = torch.Tensor(rng.standard_normal((envs, 4)))
            actions[t] = torch.Tensor(rng.integers(0, 3, envs).tolist())
            with torch.no_grad():
                logprob, _, value = agent.get_action_and_value(obs[t], actions[t])
                values[t] = value.flatten()
            logprobs[t] = logprob
            rewards[t] = (obs[t, :, 0] > 0).float() * actions[t]
            dones[t] = float(t == 4)
        with torch.no_grad():
            next_value = agent.critic(obs[-1]).reshape(1, -1)
            advantages = torch.zeros_like(rewards)
            lastgaelam = 0
            for t in reversed(range(steps)):
                following = next_value if t == steps - 1 else values[t + 1]
                delta = rewards[t] + 0.99 * following * (1 - dones[t]) - values[t]
                advantages[t] = lastgaelam = delta + 0.99 * 0.95 * (1 - dones[t]) * lastgaelam
            returns = advantages + values
        b_obs, b_actions = obs.reshape((-1, 4)), actions.reshape(-1)
        b_logprobs, b_advantages, b_returns = logprobs.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
        for epoch in range(3):
            mb = torch.from_numpy(rng.permutation(steps * envs)[:8])
            newlogprob, entropy, newvalue = evaluate(b_obs[mb], b_actions.long()[mb])
            ratio = (newlogprob - b_logprobs[mb]).exp()
            mb_adv = b_advantages[mb]
            mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
            pg_loss = torch.max(-mb_adv * ratio, -mb_adv * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)).mean()
            v_loss = 0.5 * ((newvalue.view(-1) - b_returns[mb]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            if (update, epoch) < (6, 2):
                losses.append(loss.item())
        optimizer.param_groups[0]["lr"] = (1.0 - update / 7) * 2.5e-3
    return losses
