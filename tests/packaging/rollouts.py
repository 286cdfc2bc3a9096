"""Print the SHA-256 of rollouts of Pong and Breakout by an untrained network and by random play.

python tests/packaging/rollouts.py        # of the accel_rl that is installed; fails where an extension is missing
"""

import hashlib
import importlib

import accel_rl

for extension in ("accel_rl.emulator._core", "accel_rl.kernels._native"):
    importlib.import_module(extension)
digest = hashlib.sha256()
for game in ("pong", "breakout"):
    for policy in ("random", None):
        with accel_rl.make_sampler(
            game=game, policy=policy, envs=8, horizon=16, workers=2, seed=1, torch_threads=1, device="cpu"
        ) as sampler:
            for _ in range(4):
                rollout = sampler.collect()
                for name in ("frames", "age", "action", "reward", "terminated", "truncated", "ended"):
                    digest.update(getattr(rollout, name).numpy())
print(digest.hexdigest(), accel_rl.__file__)
