"""`unread` finds the settings that an algorithm's class never reads, by the source code of the class."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from accel_rl.algos.algorithm import Loss
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.settings.reads import unread
from accel_rl.settings.registry import ALGORITHMS, find_algorithm

OF_THE_LOSS = {"double", "huber", "munchausen", "munchausen_temperature", "munchausen_policy"}


@dataclass(frozen=True)
class _Config(DQNConfig):
    temperature: float = 1.0
    margin: float = 1.0


class _Unread(DQN):
    """An algorithm that reads neither its own settings `temperature` and `margin`, nor the settings of DQN's loss."""

    Config = _Config

    def loss(self, batch: Any) -> Loss:
        return Loss(self.agent.model.q(batch.obs_tm1).mean())


class _BySuper(_Unread):
    def loss(self, batch: Any) -> Loss:
        loss = super().loss(batch)
        return Loss(loss.total * self.scale())

    def scale(self) -> float:
        value: float = self.config.temperature
        return value


def _helper(config: Any) -> Any:
    return [config.margin for _ in range(1)]


class _ByHelper(_Unread):
    @property
    def bonus(self) -> Any:
        return _helper(self.config)

    def loss(self, batch: Any) -> Loss:
        return Loss(super(DQN, self).loss(batch).total + self.bonus[0])


class _ByName(_Unread):
    def loss(self, batch: Any) -> Loss:
        return Loss(batch.r_t.mean() * getattr(self.config, "tempera" + "ture"))


class _WithoutEpsilon(_Unread):
    def build_agent(self, spec: Any) -> Any:
        return self.config.margin

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        return {"learning_rate": 1e-3}


class _Own(ReplayAlgorithm):
    Config = ReplayAlgorithmConfig

    def build_agent(self, spec: Any) -> Any:
        raise NotImplementedError

    def loss(self, batch: Any) -> Loss:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        (_Unread, OF_THE_LOSS | {"temperature", "margin"}),
        (_BySuper, OF_THE_LOSS | {"margin"}),
        (_ByHelper, OF_THE_LOSS | {"temperature"}),
        (_ByName, set()),
        (_Own, set()),
    ],
)
def test_what_no_method_reads_is_found(algorithm: Any, names: set[str]) -> None:
    assert unread(algorithm) == names


def test_a_method_that_nothing_calls_does_not_count() -> None:
    """`DQN._epsilon` and `DQN.build_model` read settings, but the class _WithoutEpsilon never calls these methods."""
    names = {f.name for f in dataclasses.fields(DQNConfig) if "epsilon" in f.name}
    assert unread(_WithoutEpsilon) >= names | {"network", "dueling", "hidden", "learning_rate_schedule"}
    assert not unread(_WithoutEpsilon) & {"margin", "noisy", "gamma", "n_step", "target_interval", "clip_grad_norm"}


UNREAD = {"c51": {"huber"}, "rainbow": {"huber"}, "r2d2": OF_THE_LOSS - {"double", "huber"}}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_package_reads_its_settings(name: str) -> None:
    assert unread(find_algorithm(name)) == UNREAD.get(name, set())
