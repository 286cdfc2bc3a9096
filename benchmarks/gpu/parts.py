"""The parts of the GPU benchmark in the order in which they run, with their times."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.gpu import acting, checks, emulation, operations, profiling, replays, steps, training
from benchmarks.gpu.bench import Bench, Result


@dataclass(frozen=True)
class Part:
    """One part of the benchmark. `seconds` is the part's time, including the start of a process, and `tiny` the time
    with --tiny."""

    does: str
    measure: Callable[[Bench], Result]
    seconds: float
    tiny: float = 1.0


def _policy_gradient(algorithm: str, does: str) -> Part:
    return Part(does, partial(training.policy_gradient, algorithm=algorithm), 120)


def _q_learning(algorithm: str, batch: str) -> Part:
    title = "Rainbow" if algorithm == "rainbow" else algorithm.upper()
    return Part(f"{title} with a batch of {batch}", partial(training.q_learning, algorithm=algorithm), 120)


PARTS: dict[str, Part] = {
    "tests": Part("the fast tests that need a GPU", partial(checks.measure, marks="gpu and not slow"), 60),
    "replay": Part("draws and appends, against the bandwidth of a copy", replays.measure, 60),
    "a2c": _policy_gradient("a2c", "A2C: whole training, sampling alone, learning alone"),
    "ppo": _policy_gradient("ppo", "PPO with 16 steps, 4 epochs and minibatches of 512: the same"),
    "dqn": _q_learning("dqn", "512"),
    "impala": _policy_gradient("impala", "IMPALA with its residual network: the same"),
    "emulation": Part("Atari on the GPU: emulation, inference, training", emulation.measure, 240),
    "steps": Part("an agent step of nine games, by number of environments and kernel", steps.measure, 300),
    "acting": Part("sampling with random play, A3C-Net and DQN-Net", acting.measure, 120),
    "profile": Part("the longest kernels, and the share of time the GPU is busy", profiling.measure, 120),
    "operations": Part("the number of operations of an update, by stage", operations.measure, 60),
    "c51": _q_learning("c51", "2,048"),
    "rainbow": _q_learning("rainbow", "512"),
    "slow-tests": Part("the slow tests that need a GPU", partial(checks.measure, marks="gpu and slow"), 300),
    "parr": Part("a train step with the replay on the device and on the host", replays.parr, 120),
    "daley": Part("the 14 variants of Daley & Amato 2021", training.daley, 240),
}
"""The most important parts come first: tests of correctness, then the algorithms that are trained most often."""
LONGEST = 540.0
"""Maximum time of a part in seconds."""


def limit_s(seconds: float) -> float:
    """Return the seconds after which a part that should take `seconds` is killed. A process needs up to a minute to
    start and to compile kernels."""
    return max(60.0, 1.5 * seconds)
