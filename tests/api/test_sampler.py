import pytest
import torch

import accel_rl
from accel_rl import ConfigError


def test_rollouts_of_random_play():
    with accel_rl.make_sampler(game="pong", envs=4, horizon=5, workers=1, seed=3) as sampler:
        assert (sampler.T, sampler.B) == (5, 4)
        rollout = sampler.collect()
        assert rollout.action.shape == rollout.reward.shape == (5, 4)
        assert repr(rollout) == "Rollout(T=5, B=4, frames torch.uint8 [9, 4, 104, 80])"
        assert rollout.observations(0).shape == (4, *sampler.spec.obs_shape)
        assert int(rollout.action.max()) < sampler.spec.n_actions


def test_the_seed_decides():
    def actions():
        with accel_rl.make_sampler(env="CartPole-v1", envs=4, horizon=8, engine="in-process", seed=3) as sampler:
            return torch.cat([sampler.collect().action.clone() for _ in range(3)])

    assert torch.equal(actions(), actions())


def test_a_runs_agent_plays(tmp_path):
    """The run's high learning rate makes its policy nearly deterministic, so that most sampled actions are greedy."""
    run = accel_rl.train(
        "ppo", env="CartPole-v1", envs=4, horizon=8, minibatch=16, engine="in-process", env_steps=128,
        learning_rate=0.3, evaluation__interval=0, decorrelation_steps=0, run_dir=tmp_path / "run",
    )  # fmt: skip
    actions = {}
    for name, policy in (("random", "random"), ("run", run), ("folder", str(run.path))):
        with accel_rl.make_sampler(
            policy=policy, env="CartPole-v1", envs=4, horizon=25, engine="in-process"
        ) as sampler:
            for rollout, _ in zip(sampler, range(2), strict=False):
                preferred = run.load_agent(greedy=True).act(rollout.observations(0, 25))
                actions[name] = rollout.action.clone()
                share = (preferred == rollout.action.flatten()).float().mean()
                assert share < 0.7 if name == "random" else share > 0.9
    assert torch.equal(actions["run"], actions["folder"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"game": "pong", "ranks": 2}, "one rank"),
        ({}, "environment is missing"),
        ({"game": "pong", "policy": "nowhere"}, "no run"),
    ],
)
def test_bad_input_is_one_line(values, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=words):
        accel_rl.make_sampler(**values)


@pytest.mark.parametrize("engine", ["in-process", "workers"])
def test_a_function_plays(engine):
    """The sampler's policy is a function of the observations, which returns actions, and an array that is recorded."""

    def left_or_right(obs):
        return (obs[:, 2] > 0).long(), {"angle": obs[:, 2]}

    with accel_rl.make_sampler(
        policy=left_or_right, env="CartPole-v1", envs=4, horizon=25, engine=engine, workers=1
    ) as sampler:
        sampler.collect()
        rollout = sampler.collect()
        angles = rollout.observations(0, 25)[:, 2].view(25, 4)
        assert torch.equal(rollout.recorded["angle"], angles)
        assert torch.equal(rollout.action, (angles > 0).long()) and 0 < rollout.action.sum() < 100


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda obs: 0, "actions of torch.int64 with shape ..; integers of shape .2. are needed"),
        (lambda obs: obs[:, 0], "actions of torch.float32"),
        (lambda obs: [2, 0], "returned .2, 0.; actions are 0 to 1"),
    ],
)
def test_a_functions_wrong_result_is_one_line(result, words):
    with (
        accel_rl.make_sampler(policy=result, env="CartPole-v1", envs=4, horizon=5, engine="in-process") as sampler,
        pytest.raises(accel_rl.RunError, match=words),
    ):
        sampler.collect()


def test_something_that_is_no_policy_is_refused():
    with pytest.raises(ConfigError, match=r"policy=3: must be .* it has no model"):
        accel_rl.make_sampler(policy=3, env="CartPole-v1")
