"""Measures how much each family of kernels, and inference that is captured, speed up training and acting. The command
is `python -m benchmarks.kernels --json OUT`.

For each workload, a trainer or sampler with all families of kernels, and one without each family, are measured in
turns. A family is kept in accel_rl if some workload is at least 1.2 times as fast with it.

| family | without it |
|---|---|
| conv_u8 | the first convolution by torch, on gathered stacks |
| conv_f32_winograd | the other convolutions by torch |
| linear_small_batch | fully connected layers of few rows by torch |
| layer_norm | layer norms by torch, so that the inference of networks with layer norms is not captured |
| gather_stacks | stacks of frames by torch's indexing |
| captured_inference | the agent is called at every step |

Captured inference needs the convolutions and linear_small_batch, and is disabled without one of them.
"""

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import torch.nn.functional as F

from accel_rl.agents.agent import Agent
from accel_rl.agents.epsilon_greedy import MaxValueAgent
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.data.spec import EnvSpec
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.q_network import QNetwork
from accel_rl.settings.resolved import resolve
from benchmarks.harness import program
from benchmarks.harness.program import Benchmark, Build, Case
from benchmarks.harness.sampling import Sampling, sampling_config
from benchmarks.harness.table import table
from benchmarks.harness.training import Training
from benchmarks.harness.turns import Measure
from benchmarks.train import config_of

ACTING = ("acting", "pqn_acting")
WORKLOADS = ("a2c", "ppo", "dqn", "acting-8", "acting-32", "pqn_acting-16")
WORTH = 1.2
WITH_ALL = "with everything"


def no(*_: object) -> None:
    """Replaces a kernel's check of its arguments. The result None means that the kernel does not support the arguments,
    so that torch's operation is called instead."""


FAMILIES: dict[str, dict[str, Any]] = {
    "conv_u8": {"accel_rl.kernels.conv_u8.supports": no},
    "conv_f32_winograd": {"accel_rl.kernels.conv_f32_winograd.supports": no},
    "linear_small_batch": {"accel_rl.kernels.linear.linear_small_batch": no},
    "layer_norm": {"accel_rl.models.layers.layer_norm": F.layer_norm},
    "gather_stacks": {"accel_rl.kernels.frames.FrameStacks.has_whole_frames": property(lambda self: False)},
    "captured_inference": {"accel_rl.speed.capturable.refusal": lambda agent: "switched off"},
}


@dataclass(frozen=True)
class Options(program.Options):
    game: str = "breakout"
    """Atari game."""
    workloads: tuple[str, ...] = WORKLOADS
    """Workloads that are measured: training (a2c, ppo, dqn), and acting by a policy network (acting-N) or PQN's network
    (pqn_acting-N) with N environments per core."""
    families: tuple[str, ...] = tuple(FAMILIES)
    """Families of kernels that are measured."""

    TINY: ClassVar[dict[str, Any]] = {"workloads": ("a2c", "acting-8"), "families": ("conv_u8",)}

    def check(self) -> None:
        super().check()
        self.one_of("workloads", WORKLOADS)
        self.one_of("families", tuple(FAMILIES))
        resolve(config_of("a2c", self.game))


def without(changes: dict[str, Any]) -> ExitStack:
    """Return a context manager that disables a family of kernels."""
    stack = ExitStack()
    for name, value in changes.items():
        stack.enter_context(patch(name, value))
    return stack


def worker(o: Options, workload: str, folder: Path, stack: ExitStack) -> Measure:
    """Build and warm up a workload. Return a function that measures env steps/s."""
    kind, _, envs = workload.partition("-")
    if kind not in ACTING:
        training = Training(config_of(workload, o.game), folder)
        stack.callback(training.close)
        training.training(o.seconds / 2)
        return training.training
    sampling = Sampling(sampling_config(o.game, int(envs), frame="84x84"))
    stack.callback(sampling.close)
    agent = acting_agent(kind, sampling.spec)
    sampling.collect(agent, 3)
    return partial(sampling.free, agent)


def acting_agent(kind: str, spec: EnvSpec) -> Agent:
    if kind == "acting":
        return CategoricalPolicyAgent(ActorCritic(spec, "nature"))
    return MaxValueAgent(QNetwork(spec, "a3c", layer_norm="after"), epsilon=0.1)


def case(o: Options, workload: str, stack: ExitStack) -> Case:
    """Build one variant of a workload with all families of kernels, and one variant without each family."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    variants: dict[str, Measure] = {}
    for side, changes in {WITH_ALL: {}, **{f: FAMILIES[f] for f in o.families}}.items():
        with without(changes):
            measure = worker(o, workload, folder / side.replace(" ", "-"), stack)
        variants[side if side == WITH_ALL else f"without {side}"] = partial(turn, measure, changes)
    return Case({"workload": workload}, variants)


def turn(measure: Measure, changes: dict[str, Any], seconds: float) -> float:
    """Measure a workload with a family of kernels disabled."""
    with without(changes):
        return measure(seconds)


def cases(o: Options) -> list[Build]:
    return [partial(case, o, workload) for workload in o.workloads]


def lines(o: Options, result: dict[str, Any]) -> list[str]:
    """Return a table of speed-ups by family of kernels and workload, with a column for whether a family makes some
    workload at least 1.2 times as fast."""
    results = result["results"]
    rows = []
    for family in o.families:
        ratios = [r["ratios"][f"without {family}"]["of_medians"] for r in results]
        rows.append([family, *ratios, max(ratios), max(ratios) >= WORTH])
    return ["", *table(["family", *(r["workload"] for r in results), "best", f"at least {WORTH}"], rows)]


main = Benchmark("kernels", __doc__, Options, cases, lines=lines).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
