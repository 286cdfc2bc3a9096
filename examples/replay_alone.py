"""A plain DQN in one file, which uses only the vector environment and the replay of accel_rl."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

import accel_rl

STEPS = int(sys.argv[1]) // 8 if len(sys.argv) > 1 else 50_000
envs = accel_rl.VectorEnv("pong", num_envs=8, noop_max=30)
actions = len(envs.get_action_meanings())
buffer = accel_rl.ReplayBuffer(
    envs.single_observation_space, actions, size=100_000, n_envs=8, stack=4, n_step=3, prioritized=True
)


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
    )  # fmt: skip


def values(q: nn.Module, obs: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = q(obs.float() / 255)
    return out


online, target = network(), network()
optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
obs, _ = envs.reset(seed=1)
score, scores = torch.zeros(8), [0.0]
for step in range(STEPS):
    epsilon = max(0.02, 1 - step / (STEPS / 5))
    with torch.no_grad():
        greedy = values(online, torch.from_numpy(obs)).argmax(-1)
    action = torch.where(torch.rand(8) < epsilon, torch.randint(actions, (8,)), greedy).numpy()
    next_obs, reward, terminated, truncated, info = envs.step(action)
    buffer.add(obs, action, reward, terminated, truncated)
    obs = next_obs
    score += torch.from_numpy(reward)
    for b in (terminated | truncated).nonzero()[0]:
        scores.append(float(score[b]))
        score[b] = 0
    if step % 250 == 0:
        target.load_state_dict(online.state_dict())
        print(f"{8 * step:,} env steps, score {sum(scores[-10:]) / len(scores[-10:]):.1f}, epsilon {epsilon:.2f}")
    if step < 100 or step % 4:
        continue
    batch = buffer.sample(32)
    with torch.no_grad():
        best = values(online, batch.obs_t).argmax(-1, keepdim=True)  # Double Q-learning
        wanted = batch.r_t + batch.discount_t * values(target, batch.obs_t).gather(1, best).squeeze(1)
    chosen = values(online, batch.obs_tm1).gather(1, batch.a_tm1[:, None]).squeeze(1)
    loss = (batch.weight * F.smooth_l1_loss(chosen, wanted, reduction="none")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    buffer.update(batch, (wanted - chosen).detach())
envs.close()
