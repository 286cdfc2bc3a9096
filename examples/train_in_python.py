"""Train PPO on Pong, print its metrics, evaluate the agent, and make a video."""

import sys

import accel_rl

env_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_250_000
run = accel_rl.train("ppo", game="pong", env_steps=env_steps, seed=1)

metrics = run.metrics
for steps, score in zip(metrics["env_steps"], metrics["score"], strict=True):
    print(f"{steps:>10,.0f} env steps: score {score:.1f}")

evaluation = run.evaluate(episodes=10)
print(f"evaluation: {evaluation.mean:.1f} +- {evaluation.std:.1f}")
print(run.watch(run.path / "episode.gif", steps=min(env_steps, 3_000)))
