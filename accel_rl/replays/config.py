"""Settings of the experience replay."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from accel_rl.data.spec import EnvSpec
from accel_rl.machine import hardware
from accel_rl.replays.prioritized import Prioritized
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import FrameRing, NStep, bytes_per_transition
from accel_rl.replays.uniform import Uniform
from accel_rl.text.bounds import NonNegativeCount, PositiveCount, Share
from accel_rl.text.errors import ConfigError

PRIORITIZED = "--replay.prioritized"


@dataclass(frozen=True)
class ReplayConfig:
    """The experience replay of a Q-learning algorithm, which stores each frame once, organised by simulator (Stooke &
    Abbeel 2018, section 5.3)."""

    size: PositiveCount = 1_000_000
    """Capacity of the replay in transitions, over all environments (Mnih et al. 2015: 1 M)."""
    start: NonNegativeCount = 50_000
    """Number of env steps with uniform-random actions before the first update (Mnih et al. 2015: 50,000)."""
    device: str = "auto"
    """Device whose memory stores the replay: auto (the learner's device), cpu, cuda or cuda:N (Parr 2017)."""
    replacement: bool = True
    """Draw uniform batches with replacement, so that a batch may contain a transition twice."""
    prioritized: bool = False
    """Draw transitions in proportion to their last TD error (Schaul et al. 2016), instead of uniformly."""
    alpha: Share = 0.5
    """Exponent of the priorities (Hessel et al. 2018: 0.5)."""
    beta: Share = 0.4
    """Exponent of the importance weights at the start of the run (Hessel et al. 2018: 0.4)."""
    beta_final: Share = 1.0
    """Exponent of the importance weights at the end of the run; the exponent is annealed linearly (Hessel et al. 2018:
    1)."""

    def inactive(self) -> dict[str, str]:
        """The settings without effect, each with what it needs."""
        if self.prioritized:
            return {"replacement": "uniform draws (--no-replay.prioritized)"}
        return dict.fromkeys(("alpha", "beta", "beta_final"), PRIORITIZED)

    def check(self) -> None:
        if self.start > self.size:
            raise ConfigError(f"--replay.start {self.start}: must be at most --replay.size {self.size}")

    def too_small(self, minimum: int, why: str) -> None:
        raise ConfigError(f"--replay.size {self.size}: too small for {why}; at least {minimum}")

    def where(self, learner: str) -> str:
        """The device that stores the replay. Raises ConfigError if this machine does not have the device."""
        return learner if self.device == "auto" else hardware.available_device(self.device, "--replay.device")

    def bytes_each(self, spec: EnvSpec) -> float:
        sums = 4 * (1 + 2 / 31) if self.prioritized else 0.0
        return bytes_per_transition(spec) + sums

    def check_memory(self, spec: EnvSpec, learner: str) -> None:
        """Raise ConfigError, with the missing memory, if the replay does not fit into the free memory."""
        device = self.where(learner)
        need, free = self.size * self.bytes_each(spec), 0.95 * hardware.free_memory(device)
        if need > free:
            most = int(free / self.bytes_each(spec))
            unit = 10 ** max(0, len(str(most)) - 2)
            raise ConfigError(
                f"--replay.size {self.size}: needs {need / 2**30:.2f} GiB on {device}, where {free / 2**30:.2f} GiB "
                f"are free, {(need - free) / 2**30:.2f} GiB too much; give --replay.size {most // unit * unit}"
            )

    def build(
        self,
        spec: EnvSpec,
        B: int,
        returns: NStep,
        learner: str,
        seed: int,
        build_ring: Callable[..., Any] = FrameRing,
    ) -> Replay:
        """Create the replay. Raises ConfigError if there is not enough memory."""
        self.check_memory(spec, learner)
        try:
            ring = build_ring(spec, B, self.size, returns, self.where(learner))
        except (OSError, MemoryError, torch.cuda.OutOfMemoryError) as e:
            raise ConfigError(f"--replay.size {self.size}: its memory could not be allocated ({e})") from e
        return self.over(ring, learner, seed, owner=True)

    def over(self, ring: FrameRing, learner: str, seed: int, owner: bool = False) -> Replay:
        if self.prioritized:
            return Replay(ring, Prioritized(ring, seed, self.alpha, self.beta, self.beta_final), learner, owner)
        return Replay(ring, Uniform(ring, seed, self.replacement), learner, owner)
