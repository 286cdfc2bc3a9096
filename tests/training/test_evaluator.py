"""An evaluation that reuses the sampler of the previous evaluation has the same scores as one with a new sampler."""

import os
import signal
from contextlib import closing
from dataclasses import replace

import pytest
import torch

from accel_rl.envs.make import ResolvedEnv
from accel_rl.planning.plan import RankPlan
from accel_rl.samplers.workers.pool import WorkerPool
from accel_rl.settings.outputs import EvaluationConfig
from accel_rl.settings.resolved import Resolved, fill_in
from accel_rl.settings.train import default_config
from accel_rl.training.evaluator import Evaluator
from accel_rl.training.learner import Learner
from tests.env_settings import env_of
from tests.marks import slow
from tests.samplers.conftest import SMALL

PONG = env_of(game="pong", max_episode_steps=60, max_evaluation_steps=60, repeat_action_probability=0.25)


def config_of(env: ResolvedEnv, engine: str = "workers", algorithm: str = "a2c", **algo) -> Resolved:
    base = default_config(algorithm)
    config = replace(
        base,
        env=env,
        algo=replace(base.algo, **{"network": SMALL, **algo}),
        sampler=replace(base.sampler, engine=engine),
        evaluation=EvaluationConfig(parallel=4, episodes=6),
        torch_threads=1,
    )
    return fill_in(config)


def learner_of(config: Resolved) -> Learner:
    return Learner(config, config.spec, "cpu", 0)


def step(learner: Learner) -> None:
    """Change the parameters in place, as an update would."""
    with torch.no_grad():
        learner.flat.data.add_(torch.randn(len(learner.flat.data)), alpha=0.05)


def fresh(config: Resolved, agent, seed: int):
    with closing(Evaluator(config, RankPlan.resolve(config, device="cpu"))) as evaluator:
        return evaluator.evaluate(agent, steps=1_000, seed=seed)


@pytest.mark.parametrize("engine", [slow("workers"), "in-process"])
@pytest.mark.parametrize(
    ("env", "algorithm", "algo"),
    [
        slow(replace(PONG, backend="ale"), "a2c", {}),
        slow(replace(PONG, backend="emulator"), "a2c", {}),
        (replace(PONG, backend="emulator"), "dqn", {}),
        (env_of(id="CartPole-v1"), "a2c", {"lstm": 8}),
    ],
    ids=["ale", "emulator", "emulator-dqn", "cartpole-lstm"],
)
def test_a_used_sampler_plays_what_a_new_one_plays(engine, env, algorithm, algo):
    config = config_of(env, engine, algorithm, **algo)
    learner = learner_of(config)
    agent = learner.algo.agent.evaluating(False)
    found = []
    with closing(Evaluator(config, RankPlan.resolve(config, device="cpu"))) as evaluator:
        for seed in (3, 4):
            step(learner)
            found.append((evaluator.evaluate(agent, steps=1_000, seed=seed), fresh(config, agent, seed)))
        samplers = evaluator._sampler
        assert samplers is not None and samplers.B == 4
    for used, new in found:
        assert used == new and len(used.scores) == 6
    assert len({used.scores + used.lengths for used, _ in found}) > 1  # they do differ


@pytest.mark.slow
def test_an_evaluation_that_is_broken_off_leaves_nothing_for_the_next():
    config = config_of(replace(PONG, backend="emulator"))
    agent = learner_of(config).algo.agent.evaluating(False)
    with closing(Evaluator(config, RankPlan.resolve(config, device="cpu"))) as evaluator:
        asked = iter([False, True])
        assert evaluator.evaluate(agent, steps=1_000, seed=1, stop=lambda: next(asked)) is None
        assert evaluator.evaluate(agent, steps=1_000, seed=2) == fresh(config, agent, 2)


@pytest.mark.slow
def test_workers_stay_and_one_that_is_killed_between_evaluations_is_replaced():
    config = config_of(replace(PONG, backend="emulator"))
    agent = learner_of(config).algo.agent.evaluating(False)
    with closing(Evaluator(config, RankPlan.resolve(config, device="cpu"))) as evaluator:
        evaluator.evaluate(agent, steps=1_000, seed=1)
        pool = evaluator._sampler.engine
        assert isinstance(pool, WorkerPool)
        pids = pool.pids()
        assert evaluator.evaluate(agent, steps=1_000, seed=2) == fresh(config, agent, 2) and pool.pids() == pids
        os.kill(pids[0], signal.SIGKILL)
        assert evaluator.evaluate(agent, steps=1_000, seed=3) == fresh(config, agent, 3)
        assert len(pool.pids()) == len(pids) and pids[0] not in pool.pids()
    assert not pool.pids()


@pytest.mark.slow
def test_another_number_of_environments_takes_another_sampler():
    config = config_of(replace(PONG, backend="emulator"), "in-process")
    config = replace(config, evaluation=EvaluationConfig(parallel=4))
    agent = learner_of(config).algo.agent.evaluating(False)
    with closing(Evaluator(config, RankPlan.resolve(config, device="cpu"))) as evaluator:
        sizes = []
        for steps in (1_000, 2_000, 2_000):
            evaluator.evaluate(agent, steps=steps, seed=1)
            sizes.append(evaluator._sampler.B)
    assert sizes == [2, 4, 4]
