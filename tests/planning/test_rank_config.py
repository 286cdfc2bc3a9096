"""The settings of one rank, such as its part of the run's environments."""

from dataclasses import replace

import pytest

from accel_rl.gorila.setup import member_config
from accel_rl.planning.rank_config import rank_config
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.settings.train import default_config
from accel_rl.training.learner import build_algorithm


def config(algorithm, envs, **distributed):
    c = default_config(algorithm)
    algo = replace(c.algo, epsilon_spread=7.0)
    if algorithm == "dqn":
        algo = replace(algo, replay=replace(algo.replay, size=2_000, start=100))
    return resolve(
        replace(
            c,
            env=replace(c.env, id="CartPole-v1"),
            algo=algo,
            sampler=replace(c.sampler, envs=envs, horizon=8, engine="in-process"),
            distributed=replace(c.distributed, **distributed),
            device="cpu",
        )
    )


def exponents(c):
    agent = build_algorithm(c, c.spec, "cpu").agent
    agent.epsilon = 0.5
    return (-agent.epsilon_tensor.log2()).tolist()


LADDER = [float(i) for i in range(1, 9)]


@pytest.mark.parametrize("algorithm", ["dqn", "pqn"])
@pytest.mark.parametrize(
    ("envs", "distributed"), [(8, {"ranks": 2}), (8, {"ranks": 8}), (4, {"ranks": 2, "update": "async"})]
)
def test_the_ladder_of_epsilon_is_that_of_all_ranks(algorithm, envs, distributed):
    """The environments of all ranks together have the epsilons that Horgan et al. 2018 give to actors."""
    c = config(algorithm, envs, **distributed)
    of_ranks = [x for rank in range(distributed["ranks"]) for x in exponents(rank_config(c, rank))]
    assert of_ranks == pytest.approx(LADDER) == exponents(config(algorithm, 8))


def test_the_ladder_of_epsilon_is_that_of_all_bundles():
    c = config("dqn", 1)
    c = replace(c, gorila=replace(c.gorila, bundles=8))
    of_bundles = [x for i in range(8) for x in exponents(rank_config(member_config(c, i, 0, 1), 0))]
    assert of_bundles == pytest.approx(LADDER)


def test_what_a_rank_derives_is_no_setting_of_the_run():
    c = config("dqn", 8, ranks=2)
    of_rank = rank_config(c, 1)
    assert Resolved.from_dict(of_rank.to_dict()) == of_rank and of_rank.sampler.first_env == 4
    assert {"first_env", "run_envs"}.isdisjoint(c.to_dict()["sampler"])
