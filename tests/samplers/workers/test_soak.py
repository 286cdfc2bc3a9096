"""If worker processes are killed or suspended, the sampler does not hang, leak memory, or stay slow."""

import random
import signal
import time
from dataclasses import dataclass

import numpy as np
import psutil
import pytest
import torch

from accel_rl.agents.agent import RandomAgent
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.data.spec import EnvSpec
from benchmarks.harness.sampling import Sampling, sampling_config

FRAMES = EnvSpec("frames", (104, 80), "uint8", n_actions=6, stack=4)
HANG_S = 4.0  # A worker that does not answer for HANG_S seconds counts as hung.
# The sampling rate must recover within BACK_S seconds, twice the time that an idle machine needs.
BACK_S = 15.0
RECOVERED = 0.7  # Fraction of the sampling rate before the kills that counts as recovered.
MEMORY_GROWTH = 0.02


def error_of(r: Rollout) -> str | None:
    """Return what is wrong with a rollout, such as missing steps that are not marked as invalid, or None."""
    valid, lost = r.valid, ~r.valid.any(0)
    if bool((valid[1:] & ~valid[:-1]).any()) or bool((valid[:-1] & ~valid[1:] & ~r.ended[:-1]).any()):
        # Only an environment whose episode has ended may skip the rest of the rollout.
        return "a part that is neither complete nor marked"
    if not bool(torch.isfinite(r.reward).all()) or bool((r.action[valid] < 0).any()):
        return "a reward or an action that is none"
    if bool(lost.any()) and bool((r.terminated | r.truncated | r.ended)[:, lost].any()):
        return "an end in a part that is marked as lost"
    return None


@dataclass(frozen=True)
class Resources:
    """Resources of this process and its worker processes. `memory` is the private memory of all processes plus the
    shared memory, in bytes."""

    processes: int
    descriptors: int
    memory: int

    @classmethod
    def now(cls) -> "Resources":
        me = psutil.Process()
        info, children = me.memory_full_info(), me.children(recursive=True)
        private = sum(child.memory_full_info().uss for child in children)
        return cls(len(children), me.num_fds(), info.uss + info.shared + private)


def collect_for(sampling: Sampling, seconds: float) -> float:
    """Collect and check rollouts for some seconds. Returns the valid env steps per second."""
    steps, begin = 0, time.monotonic()
    while (took := time.monotonic() - begin) < seconds:
        began = time.monotonic()
        rollout = sampling.sampler.collect(RandomAgent(sampling.spec.n_actions))
        assert error_of(rollout) is None and time.monotonic() - began <= HANG_S + BACK_S
        steps += rollout.env_steps
    return steps / took


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sampling_survives_kills_and_stops():
    """The test kills three worker processes, suspends a fourth, and repeats this once."""
    before = psutil.Process().children(recursive=True)
    sampling = Sampling(sampling_config("pong", 4, 2, decorrelation_steps=0, timeout_s=HANG_S))
    choice, held = random.Random(0), None
    try:
        rate = collect_for(sampling, 3.0)
        for kill in range(1, 9):
            victim = choice.choice(sampling.sampler.engine.pids())
            psutil.Process(victim).send_signal(signal.SIGSTOP if kill % 4 == 0 else signal.SIGKILL)
            begin = time.monotonic()
            while collect_for(sampling, 1.0) < RECOVERED * rate or sampling.sampler.engine.absent():
                assert time.monotonic() - begin < HANG_S + BACK_S
            # Resources are compared with those after the first kill, when all memory has been used.
            held = held or Resources.now()
        after = Resources.now()
    finally:
        sampling.close()
    assert (after.processes, after.descriptors) == (held.processes, held.descriptors)
    assert after.memory <= (1 + MEMORY_GROWTH) * held.memory
    assert psutil.Process().children(recursive=True) == before


def test_errors_of_rollouts_are_found() -> None:
    def rollout() -> Rollout:
        layout = rollout_layout(FRAMES, 3, 2)
        r = Rollout.over(RolloutArrays.of({k: np.zeros(s, d) for k, (d, s) in layout.items()}, 4))
        r.valid[:] = True
        return r

    assert error_of(rollout()) is None
    lost = rollout()
    lost.valid[:, 1] = False
    assert error_of(lost) is None
    lost.ended[2, 1] = True
    assert "an end in a part" in str(error_of(lost))
    torn = rollout()
    torn.valid[1:, 0] = False
    assert "neither complete nor marked" in str(error_of(torn))
    torn.ended[0, 0] = True  # An environment whose episode has ended may skip the rest of the rollout.
    assert error_of(torn) is None
    for name, value in (("reward", float("nan")), ("action", -1)):
        broken = rollout()
        getattr(broken, name)[1, 0] = value
        assert "that is none" in str(error_of(broken))
