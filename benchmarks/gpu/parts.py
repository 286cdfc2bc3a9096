"""The parts of the benchmark, in their order, each with its time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.gpu import acting, checks, emulation, profiling, replays, training
from benchmarks.gpu.bench import Bench, Result


@dataclass(frozen=True)
class Part:
    """seconds: time of the part, its start included. tiny: with `--tiny`."""

    does: str
    measure: Callable[[Bench], Result]
    seconds: float
    tiny: float = 1.0


PARTS: dict[str, Part] = {
    "tests": Part("pytest -m gpu", checks.measure, 300),
    "acting": Part("sampling with random play, A3C-Net and DQN-Net", acting.measure, 120),
    "emulation": Part("Atari on the GPU: emulation, inference, training", emulation.measure, 240),
    "a2c": Part(
        "A2C: whole training, sampling alone, learning alone", partial(training.policy_gradient, algorithm="a2c"), 120
    ),
    "ppo": Part("PPO: the same", partial(training.policy_gradient, algorithm="ppo"), 120),
    "dqn": Part("DQN with a batch of 512", partial(training.q_learning, algorithm="dqn"), 120),
    "c51": Part("C51 with a batch of 2,048", partial(training.q_learning, algorithm="c51"), 120),
    "rainbow": Part("Rainbow with a batch of 512", partial(training.q_learning, algorithm="rainbow"), 120),
    "daley": Part("the 14 variants of Daley & Amato 2021", training.daley, 240),
    "replay": Part("draws and appends, against the bandwidth of a copy", replays.measure, 90),
    "parr": Part("a train step with the replay on the device and on the host", replays.parr, 120),
    "profile": Part("the longest kernels, and the share of time the GPU is busy", profiling.measure, 120),
}
LONGEST = 540.0
"""Seconds after which a part is ended."""
