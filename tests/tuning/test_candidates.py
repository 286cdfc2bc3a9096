"""Candidates of the placement, and predictions of their speed."""

from dataclasses import replace

import pytest

from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.runners.plan import RankPlan
from accel_rl.system import hardware
from accel_rl.system.machine import of_cores
from accel_rl.tuning.candidates import (
    PLACEMENT,
    Parts,
    Timing,
    best_of_each_kind,
    candidates,
    options_text,
    predict,
    with_changes,
)

FOUR_CORES = of_cores(range(4), memory=2**36)
GPU = of_cores(range(5), memory=2**36, gpus=1, gpu_memory=2**36)


def pong(algorithm: str = "ppo") -> TrainConfig:
    config = default_config(algorithm)
    return replace(config, env=replace(config.env, game="pong"))


def planned(machine=FOUR_CORES, **changes) -> RankPlan:
    with hardware.described(machine):
        return RankPlan.resolve(resolve(with_changes(pong(), {k.replace("__", "."): v for k, v in changes.items()})))


def test_time_of_other_thread_counts():
    """3 seconds serial and 8 parallel."""
    timing = Timing({1: 11.0, 2: 7.0})
    assert (timing.with_threads(1), timing.with_threads(2), timing.with_threads(4)) == (11.0, 7.0, 5.0)
    assert Timing({1: 2.0, 2: 3.0}).with_threads(8) == 2.0 and Timing({2: 3.0}).with_threads(8) == 3.0


def test_predicted_seconds_of_a_step():
    """Emulation takes 8 ms of a core; a call takes 16 ms on one thread and 8 ms on two or four; updates take 5 ms."""
    call = Timing({1: 16e-3, 2: 8e-3, 4: 8e-3})
    parts = Parts(8e-3, dict.fromkeys((4, 8, 16), call), Timing({1: 10e-3, 4: 5e-3}))
    threads_of_groups = planned()
    assert threads_of_groups.sampler.threaded_inference and threads_of_groups.sampler.act_threads == 2
    # Two groups of 8 infer in parallel: 8 ms for 16 observations.
    p = predict(threads_of_groups, parts)
    assert p.sampling == pytest.approx(8e-3 / 4 + 8e-3 / 16) and p.rate == pytest.approx(1 / (p.sampling + 5e-3))
    assert p.limit == "updates"
    one_group = predict(planned(sampler__groups=1, torch_threads=1), parts)
    assert one_group.sampling == pytest.approx(8e-3 / 4 + 16e-3 / 16) and one_group.updates == 10e-3
    in_process = predict(planned(sampler__engine="in-process", sampler__groups=1), parts)
    assert in_process.sampling == pytest.approx(8e-3 + 8e-3 / 16)


def test_a_gpu_infers_while_the_workers_step():
    parts = Parts(8e-3, dict.fromkeys((8, 16), Timing({1: 16e-3})))
    assert predict(planned(GPU, sampler__workers=4), parts).sampling == pytest.approx(max(8e-3 / 4, 16e-3 / 8))
    assert predict(planned(GPU, sampler__workers=4, sampler__groups=1), parts).sampling == pytest.approx(2e-3 + 1e-3)


def test_workers_that_share_a_core_take_twice_as_long():
    parts = Parts(8e-3)
    assert predict(planned(GPU, sampler__workers=8), parts).sampling == pytest.approx(8e-3 * 2 / 8)


def test_candidates_change_only_the_placement_and_keep_what_is_given():
    with hardware.described(FOUR_CORES):
        config = with_changes(pong(), {"sampler.workers": 2})
        found = list(candidates(config, {"sampler.workers": 2}, on_gpu=False))
    names = {name for changes, _ in found for name in changes}
    assert names == {*PLACEMENT} - {"sampler.workers", "sampler.inference_per_worker"}
    assert all(p.sampler.grouping.B == 16 and p.sampler.T == 128 for _, p in found)
    with hardware.described(GPU):
        engines = {p.sampler.engine for _, p in candidates(pong(), {}, on_gpu=True)}
    assert engines == {"workers", "in-process", "device"}


def test_one_candidate_of_each_kind_the_fastest_first():
    parts = Parts(8e-3, {}, Timing({1: 5e-3, 4: 9e-3}))
    with hardware.described(FOUR_CORES):
        found = [(c, p, predict(p, parts)) for c, p in candidates(pong(), {}, on_gpu=False)]
    best = best_of_each_kind(found)
    assert best[0][2].rate == max(p.rate for _, _, p in found)
    assert all(plan.placement.torch_threads == 1 for _, plan, _ in best)
    kinds = {(p.sampler.engine, p.sampler.grouping.groups, p.sampler.threaded_inference) for _, p, _ in best}
    assert len(kinds) >= 5


def test_text_of_changes():
    assert options_text({}) == "the defaults"
    changes = {"sampler.workers": 2, "sampler.inference_per_worker": True}
    assert options_text(changes) == "--workers 2 --inference-per-worker"
