"""Simulators with random frames, which compute transitions from a plain list of steps."""

from dataclasses import dataclass

import numpy as np
import torch

from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec


def spec(stack: int = 4, n_actions: int = 6) -> EnvSpec:
    if stack == 1:
        return EnvSpec("vectors", (3,), "float32", n_actions, 1)
    if stack == 2:
        return EnvSpec("float pictures", (2, 3, 2), "float32", n_actions, stack)
    return EnvSpec("pictures", (3, 2), "uint8", n_actions, stack)


@dataclass
class Step:
    """One step of a simulator, with the complete observations (stacks of frames) before and after the step."""

    obs: np.ndarray
    action: int
    reward: float
    terminated: bool
    truncated: bool
    ended: bool
    valid: bool
    next_obs: np.ndarray
    cut: bool = False  # whether the next observation was lost with its worker process


class Simulators:
    """B simulators of random episodes, with lost lives, time limits, waits for a reset, and worker processes that are
    lost."""

    def __init__(self, B: int, T: int, seed: int, stack: int = 4, waits: bool = False, dies: float = 0.0, length=12):
        self.spec, self.B, self.T, self.waits, self.dies, self.length = spec(stack), B, T, waits, dies, length
        self.rng = np.random.default_rng(seed)
        self.episode: list[list[np.ndarray]] = [[self.frame()] for _ in range(B)]
        self.over = [False] * B
        self.steps: list[list[Step]] = [[] for _ in range(B)]
        S = stack
        self._tail = np.zeros((S, B, *self.spec.frame_shape), self.spec.frame_dtype)
        self._tail[-1] = [e[0] for e in self.episode]

    def frame(self) -> np.ndarray:
        if self.spec.frame_dtype == "float32":
            return self.rng.normal(size=self.spec.frame_shape).astype(np.float32)
        return self.rng.integers(1, 256, self.spec.frame_shape, dtype=np.uint8)

    def stack(self, frames: list[np.ndarray]) -> np.ndarray:
        S = self.spec.stack
        if S == 1:
            return frames[-1]
        return np.stack([np.zeros_like(frames[0])] * max(0, S - len(frames)) + frames[-S:])

    def rollout(self) -> Rollout:
        """Return a rollout of T steps as a sampler does. Array entries that a sampler leaves undefined are random."""
        rng, B, T, S, old = self.rng, self.B, self.T, self.spec.stack, self.spec.oldest
        frames = np.stack([[self.frame() for _ in range(B)] for _ in range(S - 1 + T + 1)])
        frames[:S] = self._tail
        final = np.stack([[self.frame() for _ in range(B)] for _ in range(T)])
        age = rng.integers(0, old + 1, (T + 1, B)).astype(np.uint8)
        flags = {k: np.zeros((T, B), bool) for k in ("terminated", "truncated", "ended", "valid")}
        action, reward = rng.integers(0, 6, (T, B)), np.full((T, B), np.nan, np.float32)
        for b in range(B):
            if self.over[b]:  # reset in the pause
                self.episode[b], self.over[b] = [self.frame()], False
            if rng.random() < self.dies and self.steps[b]:  # The environment's worker process was replaced.
                self.steps[b][-1].cut = True
                self.episode[b] = [self.frame()]
            # If a worker process is lost, its part of the rollout is invalid. A new episode follows.
            if rng.random() < self.dies:
                frames[S - 1, b], age[0, b] = self.episode[b][-1], min(len(self.episode[b]) - 1, old)
                self.over[b] = True
            for t in range(T):
                if self.over[b]:
                    obs = self.stack(self.episode[b])
                    self.steps[b].append(Step(obs, 0, 0.0, False, False, False, False, obs))
                    continue
                frames[S - 1 + t, b], age[t, b] = self.episode[b][-1], min(len(self.episode[b]) - 1, old)
                self._step(t, b, frames, final, age, action, reward, flags)
            if not self.over[b]:
                frames[S - 1 + T, b], age[T, b] = self.episode[b][-1], min(len(self.episode[b]) - 1, old)
        self._tail = frames[-S:].copy()
        for b in range(B):
            if self.over[b]:
                self.episode[b], self.over[b] = [self.frame()], False
                self._tail[-1, b] = self.episode[b][0]
        arrays = {"frames": frames, "final_frames": final, "age": age, "action": action, "reward": reward, **flags}
        return Rollout(**{k: torch.from_numpy(v) for k, v in arrays.items()}, stack=S)

    def _step(self, t, b, frames, final, age, action, reward, flags) -> None:
        rng = self.rng
        obs, end, r = self.stack(self.episode[b]), rng.random() < 1 / self.length, float(np.float32(3 * rng.normal()))
        over = bool(end and rng.random() < 0.5)
        life = not end and rng.random() < 0.1
        self.episode[b].append(self.frame())
        terminated, truncated = over or bool(life), bool(end and not over)
        step = Step(obs, int(action[t, b]), r, terminated, truncated, bool(end), True, self.stack(self.episode[b]))
        self.steps[b].append(step)
        reward[t, b] = r
        for name in flags:
            flags[name][t, b] = getattr(step, name)
        if end:
            final[t, b] = self.episode[b][-1]
            if self.waits:
                self.over[b] = True
            else:
                self.episode[b] = [self.frame()]

    def transition(self, t: int, b: int, n: int, gamma: float, clip: float):
        """Return (obs, action, n-step return, discount, next obs) of environment b at step t, or None if steps are
        missing."""
        r_t, discount = 0.0, 1.0
        for k in range(n):
            if t + k >= len(self.steps[b]) or not self.steps[b][t + k].valid:
                return None
            step = self.steps[b][t + k]
            r_t += discount * (max(-clip, min(clip, step.reward)) if clip else step.reward)
            discount *= gamma * (not step.terminated)
            if step.cut and not step.ended:
                return None
            if step.terminated or step.ended:
                break
        return self.steps[b][t].obs, self.steps[b][t].action, r_t, discount, step.next_obs
