"""A trained network can be evaluated on any machine, whatever its run's settings of cores and GPUs are."""

from dataclasses import replace

import pytest

from accel_rl.api.keywords import settings
from accel_rl.machine import hardware
from accel_rl.machine.machine import of_cores
from accel_rl.planning.plan import RankPlan
from accel_rl.settings import acting
from accel_rl.settings.acting import acting_config
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError


def config(**values) -> TrainConfig:
    return settings("ppo", None, {"game": "pong", "envs": 8, "horizon": 16, **values})


@pytest.fixture
def said(monkeypatch):
    """Collect notes."""
    lines = []
    monkeypatch.setattr(acting, "say_once", lines.append)
    return lines


@pytest.mark.parametrize(
    "values",
    [
        {"sampler__cores": (14, 15)},
        {"sampler__workers": 64},
        {"sampler__groups": 8, "envs": 24},
        {"wandb": "online"},
        {"log__tensorboard": True},
        {"ranks": 4, "update": "async"},
        {"cluster": "ray", "ranks": 4},
        {"torch_threads": 99},
        {"precision": "bfloat16"},
    ],
    ids=str,
)
def test_settings_of_another_machine_are_left_out(said, values):
    recorded = config(**values)
    found = acting_config(recorded)
    assert found == replace(acting_config(config()), sampler=replace(found.sampler, envs=recorded.sampler.envs))
    assert RankPlan.acting(found).device == found.device and not said


@pytest.mark.parametrize("values", [{"device": "cuda:7"}, {"gpus": "8,9", "ranks": 2}], ids=str)
def test_a_device_that_is_missing_is_replaced_with_a_note(said, values):
    found = acting_config(config(**values))
    assert found.device == (hardware.gpu_name() if hardware.gpu_count() else "cpu")
    name = "cuda:7" if "device" in values else "8"
    (line,) = said
    assert line.startswith("the run's device") and name in line and line.endswith(f"acting on {found.device}")


def test_the_device_is_a_choice(said):
    assert acting_config(config(device="cuda:7"), device="cpu").device == "cpu" and not said
    with pytest.raises(ConfigError, match="--device cuda:7: not available"):
        RankPlan.acting(acting_config(config(device="cpu"), device="cuda:7"))


def test_a_backend_that_is_not_built_is_replaced(said, monkeypatch):
    recorded = config(env__backend="emulator", env__randomness="counter", sampler__engine="device")
    assert acting_config(recorded).env.backend == "emulator"
    monkeypatch.setattr(acting, "emulator_is_built", lambda: False)
    found = acting_config(recorded)
    assert (found.env.backend, found.env.randomness, found.sampler.engine) == ("ale", "sequence", "workers")
    assert said == ["without the emulator, random numbers of resets are a sequence: episodes are not those of the run"]


def test_the_backend_is_a_choice():
    assert acting_config(config(env__backend="emulator"), backend="ale").env.backend == "ale"
    with pytest.raises(ConfigError, match="backend='atari' is unknown"):
        acting_config(config(), backend="atari")


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("cores", [1, 2, 7, 16])
def test_evaluations_use_every_core_and_give_no_advice_on_training(cores, gpus):
    with hardware.described(of_cores(range(cores), memory=64 * 2**30, gpus=gpus, gpu_memory=80 * 2**30)) as said:
        plan = RankPlan.acting(acting_config(config(device="cuda" if gpus else "cpu")))
        assert plan.placement.workers == max(1, cores - bool(gpus)) and not said
        assert plan.evaluation(2 * plan.placement.workers, 16).grouping.workers == plan.placement.workers
