"""Resolved settings have a value for each setting, and a setting cannot be changed back to "not set"."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from accel_rl.envs.make import EnvConfig
from accel_rl.settings.modes import CLUSTERS
from accel_rl.settings.resolved import CHECKS, Resolved, fill_in, resolve
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.text.errors import ConfigError


def pong(algorithm: str = "ppo", **sampler: object) -> TrainConfig:
    base = default_config(algorithm)
    return replace(base, env=EnvConfig(game="pong"), sampler=replace(base.sampler, **sampler))


def test_what_follows_from_other_settings_is_filled_in() -> None:
    config = resolve(pong("dqn", horizon=None))
    assert (config.env.backend, config.env.randomness) == ("emulator", "sequence")
    assert config.sampler.horizon == pong("dqn", horizon=None).T and config.algo.reward_clip == 1.0
    assert resolve(pong(engine="device")).env.randomness == "counter"
    given = replace(pong(), evaluation=replace(pong().evaluation, starts="saved", starts_file="pong.json"))
    assert fill_in(given).evaluation.starts_file == str(Path("pong.json").absolute())


def test_resolved_settings_stay_resolved() -> None:
    config = resolve(pong())
    assert resolve(config) == config == Resolved.from_dict(json.loads(json.dumps(config.to_dict())))
    assert isinstance(replace(config, seed=2), Resolved)
    for change in (lambda: replace(config, env=EnvConfig(game="pong")), lambda: replace(config.env, backend="auto")):
        with pytest.raises(AssertionError, match="not resolved"):
            change()


def test_values_are_checked_before_they_are_combined() -> None:
    with pytest.raises(ConfigError, match=r"^--sampler.envs 0: must be at least 1$"):
        resolve(replace(pong(envs=0), schedule="concurrent"))


def test_the_spec_is_that_of_the_runs_resets() -> None:
    assert "reset" not in resolve(pong()).spec.protocol
    assert resolve(pong(reset="cached")).spec.protocol["reset"] == "cached"


@pytest.mark.parametrize("name", [*(name for _, name in CHECKS), *(mode.check for mode in CLUSTERS.values())])
def test_each_mode_has_a_check(name: str) -> None:
    module, _, function = name.partition(":")
    assert callable(getattr(import_module(module), function))
