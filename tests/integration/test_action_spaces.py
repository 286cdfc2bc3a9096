"""Training with vector actions: Box, MultiDiscrete and MultiBinary action spaces."""

import pytest
import torch

import accel_rl
from accel_rl import ConfigError
from tests.integration.runs import resumed_equals
from tests.marks import slow

SMALL = {
    "engine": "in-process", "envs": 8, "evaluation__interval": 0, "decorrelation_steps": 3, "torch_threads": 1,
    "learning_rate_schedule": "constant", "seed": 2,
}  # fmt: skip
LEARNS = {"horizon": 64, "minibatch": 64, "learning_rate": 2e-3, "entropy_coefficient": 0.0, "gamma": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "least"), [("numbers", 0.93), ("choices", 0.95), ("bits", 0.95)]
)  # fmt: skip
def test_ppo_finds_the_best_actions(env, least, tmp_path):
    trained = accel_rl.train(
        "ppo", env=f"tests.action_spaces:{env}", env_steps=16_000, run_dir=tmp_path / "run", **SMALL, **LEARNS
    )
    assert trained.evaluate(20, greedy=True).mean / 8 > least
    agent = trained.load_agent(greedy=True)
    obs = torch.tensor([[0.9, -1.0, 0.3], [-0.9, 1.0, 0.3]])
    action = agent.act(obs)
    if env == "numbers":
        assert action.dtype == torch.float32 and ((action[:, 1] >= 0) & (action[:, 1] <= 1)).all()
        torch.testing.assert_close(action, torch.tensor([[0.9, 1.0], [-0.9, 0.0]]), atol=0.2, rtol=0)
    elif env == "choices":
        assert action.tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("a2c", {}), slow("a2c", {"lstm": 8}), ("impala", {"batches": 4}), slow("ppo", {"lstm": 8, "minibatch": 20}),
        slow("a2c", {"ranks": 2, "update": "async"}), slow("ppo", {"engine": "workers", "workers": 2}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("env", ["numbers", "choices"])
def test_every_policy_gradient(algorithm, more, env, tmp_path):
    trained = accel_rl.train(
        algorithm, env=f"tests.action_spaces:{env}", env_steps=640, horizon=5, run_dir=tmp_path, **{**SMALL, **more}
    )
    assert trained.result.env_steps >= 640


ARGS = (
    "train", "ppo", "--env", "tests.action_spaces:numbers", "--envs", 8, "--horizon", 16, "--minibatch", 64,
    "--evaluation.interval", 0, "--checkpoint.interval", 256, "--log.interval", 128, "--seed", 3,
    "--learning-rate-schedule", "constant", "--clip-schedule", "constant",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--ranks", 2),
        ("--ranks", 2, "--normalize", "--normalize-rewards"),
        ("--sampler.engine", "in-process", "--reset", "wait"),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(more, tmp_path):
    assert resumed_equals(tmp_path, *ARGS, *more)


def test_random_play_and_a_function(tmp_path):
    shared = {"env": "tests.action_spaces:numbers", "envs": 4, "horizon": 5, "engine": "in-process"}
    with accel_rl.make_sampler(**shared) as sampler:
        action = sampler.collect().action
        assert action.shape == (5, 4, 2) and ((action[..., 1] > 0) & (action[..., 1] < 1)).all()
    with accel_rl.make_sampler(policy=lambda obs: obs[:, :2], **shared) as sampler:
        rollout = sampler.collect()
        assert torch.equal(rollout.action.flatten(0, 1), rollout.observations(0, 5)[:, :2])
    with (
        accel_rl.make_sampler(policy=lambda obs: obs[:, 0], **shared) as sampler,
        pytest.raises(accel_rl.RunError, match=r"shape .2.; numbers of shape .2, 2. are needed"),
    ):
        sampler.collect()


@pytest.mark.parametrize("algorithm", ["dqn", "pqn", "iqn", "r2d2"])
def test_value_learners_refuse_them(algorithm, tmp_path):
    with pytest.raises(ConfigError, match="need a policy gradient: a2c, ppo or impala"):
        accel_rl.train(algorithm, env="tests.action_spaces:numbers", env_steps=64, run_dir=tmp_path / "run")


def test_other_spaces_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="must be Discrete, MultiDiscrete, MultiBinary or Box of floats"):
        accel_rl.train("ppo", env="tests.action_spaces:integers", env_steps=64, run_dir=tmp_path / "run")
