"""Collects rollouts of random play, without training, and prints rewards and scores of 32 Pong games."""

import sys
import time

import accel_rl

rollouts = int(sys.argv[1]) // 640 if len(sys.argv) > 1 else 200
with accel_rl.make_sampler(game="pong", envs=32, horizon=20) as sampler:
    began, steps, reward = time.perf_counter(), 0, 0.0
    for rollout, _ in zip(sampler, range(max(rollouts, 1)), strict=False):
        steps += rollout.action.numel()  # [T, B]
        reward += float(rollout.reward.sum())
        for episode in sampler.finished:
            print(f"an episode of {episode.length} steps ended with {episode.score:g}")
    rate = steps / (time.perf_counter() - began)
    print(f"{steps:,} env steps, {rate:,.0f} a second, reward {reward / steps:.4f} a step")
