"""A user's script: train, evaluate, resume, begin from a network."""

from pathlib import Path

import accel_rl
from accel_rl import PPO, Run

run = accel_rl.train("ppo", game="pong", env_steps=1e6, seed=1, evaluation__interval=100_000, wandb="offline")
score: float = run.evaluate(episodes=30).mean
other: Run = accel_rl.train(
    PPO.Config(learning_rate=1e-3, epochs=4), env="CartPole-v1", envs=8, init=run, run_dir=Path("runs/other")
)
again: Run = other.resume(env_steps=2e6, learning_rate=1e-4, device="cpu", evaluation__episodes=10, trust=True)
rows: int = len(again.metrics["score"])
