"""Effect of each kernel, and of each other optimization, on the speed of whole training and acting.

    python -m benchmarks.kernels --json OUT

For each workload, a trainer (or a sampler) with everything on and one without each family are measured in turns. A
family is kept only if a workload of users is at least 1.2 times as fast with it.

| family | without it |
|---|---|
| conv_u8 | the first convolution by torch, on gathered stacks |
| conv_f32_winograd | the other convolutions by torch |
| linear_small_batch | fully connected layers of few rows by torch |
| gather_stacks | stacks of frames by torch's indexing |
| captured_inference | the agent is called at every step |

Captured inference needs the convolutions and linear_small_batch: without one of them it is disabled.
"""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.system.errors import ConfigError, nearest
from benchmarks.interleave import Bar, interleave, medians, ratio
from benchmarks.ours import Ours as OurSampler
from benchmarks.ours import Setting
from benchmarks.program import program
from benchmarks.train import Ours as OurTraining

WORKLOADS = ("a2c", "ppo", "dqn", "acting-8", "acting-32")
WORTH = 1.2

_NO: Callable[..., Any] = lambda *_, **__: None  # noqa: E731

FAMILIES: dict[str, dict[str, Any]] = {
    "conv_u8": {"accel_rl.kernels.conv_u8.supports": _NO},
    "conv_f32_winograd": {"accel_rl.kernels.conv_f32_winograd.supports": _NO},
    "linear_small_batch": {"accel_rl.kernels.linear.linear_small_batch": _NO},
    "gather_stacks": {"accel_rl.kernels.frames.FrameStacks.has_whole_frames": property(lambda self: False)},
    "captured_inference": {"accel_rl.speed.capturable.refusal": lambda agent: "switched off"},
}


@dataclass(frozen=True)
class Options:
    game: str = "breakout"
    """Atari game."""
    workloads: tuple[str, ...] = WORKLOADS
    """Training (a2c, ppo, dqn) and acting with that many environments a core."""
    families: tuple[str, ...] = tuple(FAMILIES)
    """Families to measure."""
    seconds: float = 2.0
    """Minimum length of one measurement."""
    repeats: int = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    json: str = ""
    """Also write everything to this file."""


def check(o: Options) -> None:
    for flag, names, allowed in (("workloads", o.workloads, WORKLOADS), ("families", o.families, tuple(FAMILIES))):
        for name in names:
            if name not in allowed:
                raise ConfigError(f"--{flag} {name}: must be of {', '.join(allowed)}{nearest(name, allowed)}")
    if o.repeats < 1 or not o.seconds > 0:
        raise ConfigError(f"--repeats {o.repeats} --seconds {o.seconds}: at least 1, and above 0")


@contextlib.contextmanager
def without(changes: dict[str, Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for where, value in changes.items():
            stack.enter_context(patch(where, value))
        yield


def worker(o: Options, workload: str, folder: Path, stack: contextlib.ExitStack) -> Callable[[], float]:
    """Return a function that measures training or acting, warmed up, in env steps/s."""
    if not workload.startswith("acting"):
        training = OurTraining(workload, o.game, folder)
        stack.callback(training.close)
        training.train(o.seconds / 2)
        return lambda: training.train(o.seconds)
    sampler = OurSampler(Setting(o.game, int(workload.partition("-")[2]), frame="84x84"))
    stack.callback(sampler.close)
    agent = CategoricalPolicyAgent(ActorCritic(sampler.spec, "nature"))
    for _ in range(3):
        sampler.warm_up(agent)
    return lambda: sampler.measure(o.seconds, agent)


def measure(o: Options, workload: str, bar: Bar) -> dict[str, Any]:
    sides = {"all": {}, **{f"without {f}": FAMILIES[f] for f in o.families}}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        parts: dict[str, Callable[[], float]] = {}
        for i, (side, changes) in enumerate(sides.items()):
            with without(changes):
                rate = worker(o, workload, Path(folder) / str(i), stack)

            def turn(rate: Callable[[], float] = rate, changes: dict[str, Any] = changes) -> float:
                with without(changes):
                    return rate()

            parts[side] = turn
        found = interleave(parts, o.repeats, bar, f"{workload} {o.game}: ")
    return {
        "workload": workload,
        "measurements": found,
        "median": medians(found),
        "ratios": {f: ratio(found["all"], found[f"without {f}"]) for f in o.families},
    }


def run(o: Options) -> dict[str, Any]:
    with contextlib.closing(Bar(o.repeats * len(o.workloads) * (1 + len(o.families)))) as bar:
        results = [measure(o, workload, bar) for workload in o.workloads]
    best = {f: max(r["ratios"][f]["of_medians"] for r in results) for f in o.families}
    return {"results": results, "best": best}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    names = [r["workload"] for r in result["results"]]
    lines = [f"| family | {' | '.join(names)} | best | at least {WORTH} |", "|---" * (len(names) + 3) + "|"]
    for f in o.families:
        cells = [f"{r['ratios'][f]['of_medians']:.2f}" for r in result["results"]]
        best = result["best"][f]
        lines.append(f"| {f} | {' | '.join(cells)} | {best:.2f} | {'yes' if best >= WORTH else 'no'} |")
    rates = ", ".join(f"{r['workload']} {r['median']['all']:,.0f}" for r in result["results"])
    return [*lines, f"with everything, env steps/s: {rates}"]


def main(argv: list[str]) -> int:
    return program("kernels", __doc__, Options, argv, check, run, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
