"""A `Trainer` gives the same parameters, optimizer state and scores as the plain loop in training/loop.py, bit for
bit."""

from dataclasses import replace

import pytest
import torch

from accel_rl.planning.plan import RankPlan
from accel_rl.processes.process import tune_torch
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.loop import train
from tests.golden.runs import RUNS
from tests.marks import slow
from tests.samplers.conftest import SMALL

NAMES = [
    "a2c, pong", "a2c, LSTM and GAE, time limits", "ppo, time limits", "ppo, normalized rewards", "ppo, KL",
    "ppo, pong", "impala, pong", "dqn, pong", "dqn, double, dueling, three steps, time limits", "c51, pong",
    "rainbow, time limits", "r2d2, time limits",
]  # fmt: skip
SLOW = ("a2c, LSTM and GAE, time limits", "ppo, KL", "c51, pong", "ppo, pong", "dqn, pong", "r2d2, time limits")
"""Runs that are slow tests, because other runs of the same or similar algorithms are fast tests."""


@pytest.mark.parametrize("name", [slow(n) if n in SLOW else n for n in NAMES])
def test_a_trainer_equals_the_loop_bit_for_bit(name, tmp_path):
    other, _, extra = name.partition(", ")
    is_norm, is_kl = extra == "normalized rewards", extra == "KL"
    config = replace(RUNS[f"{other}, time limits" if is_norm or is_kl else name], env_steps=400)
    if is_kl:
        config = replace(config, algo=replace(config.algo, learning_rate_schedule="kl", schedule_kl=1e-4))
    config = replace(config, algo=replace(config.algo, network=SMALL, normalize_rewards=is_norm))
    resolved = resolve(config)
    plan = RankPlan.resolve(resolved)
    threads = torch.get_num_threads()
    tune_torch(1)
    try:
        loop = train(config, groups=plan.sampler.grouping.groups)
        trainer = build_trainer(resolved, plan, RunFolder.create(tmp_path / "run", resolved))
        result = trainer.run()
    finally:
        torch.set_num_threads(threads)
    assert loop.updates > 3 and (loop.env_steps, loop.updates) == (result.env_steps, trainer.learner.updates)
    for (name, ours), theirs in zip(
        loop.algo.agent.model.state_dict().items(), trainer.learner.algo.agent.model.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs), name
    assert loop.scores == tuple(score for score, *_ in trainer.sampler.episodes.recent)
