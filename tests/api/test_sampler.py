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


def test_a_function_is_no_agent():
    with pytest.raises(ConfigError, match=r"is no accel_rl\.agents\.agent\.Agent, it has no model, needs_obs"):
        accel_rl.make_sampler(env="CartPole-v1", policy=lambda obs: 0)


def test_a_runs_agent_plays(tmp_path):
    """A high learning rate makes its policy prefer one action so much that it nearly always plays it."""
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
