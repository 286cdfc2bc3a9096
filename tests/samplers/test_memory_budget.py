"""The memory of worker processes and environments is at most the estimate of `memory_budget.bound`."""

import psutil
import pytest

from accel_rl.envs.make import ResolvedEnv, make_spec
from accel_rl.samplers.memory_budget import EMULATOR_BYTES, WORKER_BYTES, bound
from tests.env_settings import env_of
from tests.marks import slow
from tests.samplers.conftest import make_agent, make_sampler


def private_bytes(env: ResolvedEnv, B: int, reset: str) -> int:
    sampler, agent = make_sampler(env, B, 1, 1, reset=reset), make_agent(env)
    try:
        for _ in range(3):
            sampler.collect(agent)
        pages = 4096 * 18 * 2  # Each array begins on a new page of 4096 bytes.
        limit = bound(sampler.spec, sampler.T, reset)
        assert sampler.engine._memory.rollouts.nbytes <= B * limit.shared + pages
        return psutil.Process(sampler.engine.pids()[0]).memory_full_info().uss
    finally:
        sampler.close()


@pytest.mark.parametrize(
    ("game", "reset", "frame"),
    [
        slow("pong", "swap", "104x80"),
        ("breakout", "immediate", "84x84"),
        slow("seaquest", "cached", "104x80"),
        slow("air_raid", "immediate", "84x84"),  # the largest screens
        slow("pitfall2", "immediate", "104x80"),  # the largest cartridge
    ],
)
@pytest.mark.parametrize("backend", [slow("ale"), "auto"])
def test_an_environment_stays_within_its_bound(game: str, reset: str, frame: str, backend: str) -> None:
    env = env_of(game=game, frame=frame, noop_max=0, backend=backend)
    few, many = private_bytes(env, 1, reset), private_bytes(env, 5, reset)
    limit = bound(make_spec(env, True), 5, reset)
    assert few <= limit.worker + limit.emulator
    assert many - few <= limit.emulator * 4
    if backend == "ale":  # The bound is at most 1 / 0.3 of the memory that ale-py uses.
        assert 0.3 * limit.emulator * 4 < many - few


def test_swap_takes_two_emulators() -> None:
    spec = make_spec(env_of(game="pong"), True)
    one, two = bound(spec, 5), bound(spec, 5, "swap")
    assert (one.emulator, two.emulator) == (EMULATOR_BYTES, 2 * EMULATOR_BYTES) and one.shared == two.shared
    assert one.total(B=10, workers=2) == 10 * (EMULATOR_BYTES + one.shared) + 2 * WORKER_BYTES
    frame = 104 * 80
    assert 2 * (9 + 5) * frame < one.shared < 2 * (9 + 5) * frame + 1000
