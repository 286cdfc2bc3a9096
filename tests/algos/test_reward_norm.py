"""Normalized rewards equal those that a slow loop over whole episodes computes."""

from dataclasses import fields, replace

import gymnasium
import numpy as np
import pytest
import torch

import accel_rl
from accel_rl.algos.algorithm import advance
from accel_rl.replays.sequences import SequenceBatch
from tests.algos.made_up import ingest
from tests.algos.options import ALGORITHMS, changed
from tests.algos.streams import SPEC, B, Stream, act
from tests.golden.runs import POLE, config
from tests.gpu.runs import GPU, play
from tests.integration.runs import resumed_equals
from tests.marks import slow

T, GAMMA, ROLLOUTS = 6, 0.9, 7


def episodes(stream, b, rollouts, clip):
    """Return a list of rewards for each episode of environment b, where a lost life also ends an episode."""
    found = [[]]
    for t in range(rollouts * stream.T):
        if stream.valid[t, b]:
            if stream.age[t, b] == 0 or (found[-1] and stream.terminated[before, b]):  # noqa: F821
                found.append([])
            r = float(stream.reward[t, b])
            found[-1].append(min(max(r, -clip), clip) if clip else r)
            before = t  # noqa: F841
    return found


def returns_so_far(rewards):
    """R_t = r_t + gamma r_{t-1} + gamma^2 r_{t-2} + ..., each computed from all its terms."""
    return [sum(GAMMA ** (t - k) * rewards[k] for k in range(t + 1)) for t in range(len(rewards))]


def norm_after(stream, rollouts, algorithm="a2c", **options):
    cls, c = ALGORITHMS[algorithm]
    algo = cls(replace(c, gamma=GAMMA, normalize_rewards=True, **options), SPEC, T=T, B=B)
    for k in range(rollouts):
        advance(algo, stream.rollout(k))
    return algo.reward_norm


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("clip", [0.0, 1.5])
def test_the_variance_is_that_of_all_returns_of_whole_episodes(waits, clip):
    stream, worst = Stream(T, ROLLOUTS, waits), 0.0
    stream.reward *= 1e3
    for n in range(1, ROLLOUTS + 1):
        norm = norm_after(stream, n, reward_clip=clip)
        R = [x for b in range(B) for e in episodes(stream, b, n, clip) for x in returns_so_far(e)]
        assert norm.count == len(R) == stream.valid[: n * T].sum()
        worst = max(worst, abs(float(norm.variance) / np.var(R) - 1), abs(float(norm.mean) - np.mean(R)) / np.std(R))
        x = torch.tensor([0.0, 1.0, -300.0, 1e6])
        expected = np.clip(x.numpy() / np.sqrt(np.var(R) + 1e-8), -10, 10)
        torch.testing.assert_close(norm(x), torch.tensor(expected, dtype=torch.float32))
    assert worst < 1e-12, worst


def test_a_reward_that_is_not_finite_counts_as_0():
    stream, clean = Stream(T, 2, waits=False), Stream(T, 2, waits=False)
    stream.reward[3, 2], clean.reward[3, 2] = float("inf"), 0
    stream.reward[8, 1], clean.reward[8, 1] = float("nan"), 0
    assert norm_after(stream, 2, reward_clip=0.0).variance == norm_after(clean, 2, reward_clip=0.0).variance > 0


class DividedBatch(SequenceBatch):
    """A batch with normalized rewards, for a network that reads the original rewards as inputs."""

    def last(self):
        return self.read


def losses(algorithm, norm, stream):
    """Return the losses of an algorithm on a stream. With norm=None, the algorithm normalizes the rewards. With a
    function `norm`, the test normalizes the rewards by this function.

    The algorithm normalizes by the statistics of the whole stream, because a replay's batch has rewards of several
    rollouts.
    """
    statistics = norm_after(stream, stream.rollouts).state_dict()
    torch.manual_seed(0)
    cls, values = ALGORITHMS[algorithm][0], {"gamma": GAMMA, "reward_clip": 0.0, "learning_rate": 1e-9}
    values |= {"period": T, "n_step": 1} if algorithm == "r2d2" else {"n_step": 1} if algorithm in Q_LEARNERS else {}
    algo = cls(replace(changed(algorithm, values), normalize_rewards=norm is None), SPEC, T=stream.T, B=B)
    algo.begin()
    is_sequence, found = algorithm == "r2d2", []
    if norm is None:
        algo.reward_norm.load_state_dict(statistics)
        algo.reward_norm.add = lambda *args: None
    for k in range(stream.rollouts):
        r = stream.rollout(k)
        if is_sequence:
            r.state = torch.randn(B, algo.agent.state_size, generator=torch.Generator().manual_seed(k))
            r.terminated |= r.truncated
            r.truncated[:] = False
        elif algorithm not in Q_LEARNERS:
            act(algo.agent, r, None)
        if norm is not None and not is_sequence:
            r.reward = norm(r.reward)
        ingest(algo, r)
        for batch in algo.batches():
            if norm is not None and is_sequence:
                last, parts = batch.last(), {f.name: getattr(batch, f.name) for f in fields(batch)}
                batch = DividedBatch(**parts | {"reward": norm(batch.reward)})
                batch.read = last
            found.append(float(algo.loss(batch).total.detach()))
    return found


Q_LEARNERS = ("dqn", "iqn", "rainbow", "r2d2")


def test_equal_returns_have_a_variance_of_0():
    stream = Stream(1, 40, waits=False)
    stream.reward[:], stream.terminated[:] = 12_345_678.9, True
    algo = ALGORITHMS["a2c"][0](changed("a2c", {"normalize_rewards": True, "reward_clip": 0.0}), SPEC, T=1, B=B)
    for k in range(40):
        advance(algo, stream.rollout(k))
        assert 0 <= algo.reward_norm.variance < 1e-3
        assert algo.reward_norm(torch.tensor(-1e6)) == -10 and algo.reward_norm(torch.tensor(0.0)) == 0


@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "pqn", "impala", *Q_LEARNERS])
def test_losses_are_those_of_rewards_that_were_divided_before(algorithm):
    stream = Stream(3 if algorithm == "impala" else T, 12, waits=False)
    found = losses(algorithm, None, stream)
    assert len(found) > 5 and len(set(found)) > 3
    assert found == losses(algorithm, norm_after(stream, stream.rollouts), stream)


POLES = config("ppo", POLE, horizon=16, env_steps=768, minibatch=64, epochs=2, normalize_rewards=True)
RUNS = {
    "ppo": POLES,
    "impala": config("impala", POLE, env_steps=960, window=15, batches=2, normalize_rewards=True),
    "dqn": config("dqn", POLE, horizon=4, env_steps=320, learning_rate=1e-3, normalize_rewards=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "impala", "dqn"])
def test_captured_updates_equal_python(simulated_gpu, tmp_path, name):
    run = RUNS[name]
    captured = play(run, GPU, tmp_path / "captured")
    python = play(replace(run, capture_updates=False), GPU, tmp_path / "python")
    other = play(replace(run, algo=replace(run.algo, normalize_rewards=False)), GPU, tmp_path / "other")
    assert "updates are not captured" not in captured.events
    assert torch.equal(captured.parameters[0], python.parameters[0])
    assert not torch.equal(captured.parameters[0], other.parameters[0])


Q = {"replay__size": 1_000, "replay__start": 64, "epsilon_steps": 100, "horizon": 4}


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        slow("ppo", {"horizon": 16, "minibatch": 64, "learning_rate_schedule": "constant"}),
        slow("impala", {"horizon": 4, "algo__window": 16, "batches": 2}),
        slow("dqn", Q),
        slow("dqn", {**Q, "schedule": "concurrent", "target_interval": 64}),
    ],
)
def test_a_resumed_run_has_the_statistics(algorithm, more, tmp_path):
    settings = [f"--{name.replace('__', '.').replace('_', '-')}={x}" for name, x in more.items()]
    assert resumed_equals(
        tmp_path, "train", algorithm, "--env", POLE, "--envs", 8, "--normalize-rewards", "--seed", 3,
        "--evaluation.interval", 0, "--checkpoint.interval", 256, "--log.interval", 128, "--torch-threads", 1,
        "--sampler.engine", "in-process", *settings,
    )  # fmt: skip


class Loud(gymnasium.RewardWrapper):
    """CartPole with rewards of 1,000 instead of 1: a value function needs many updates to reach the scale of such
    returns."""

    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))

    def reward(self, reward):
        return 1e3 * float(reward)


@pytest.mark.slow
def test_scores_are_not_normalized_and_large_rewards_are_learned(tmp_path):
    settings = {"env": "tests.algos.test_reward_norm:Loud", "envs": 8, "engine": "in-process", "horizon": 32}
    run = accel_rl.train(
        "ppo", normalize_rewards=True, env_steps=30_000, minibatch=64, seed=1, evaluation__interval=0,
        torch_threads=1, run_dir=tmp_path / "run", **settings,
    )  # fmt: skip
    assert run.evaluate(10).mean > 100_000


def test_gorila_refuses():
    with pytest.raises(accel_rl.ConfigError, match="normalize-rewards: not with --cluster gorila"):
        accel_rl.train("dqn", game="pong", cluster="gorila", normalize_rewards=True, env_steps=100)
