"""ReplayBuffer, which a user's script fills step by step, returns the same transitions as a plain list of steps."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import accel_rl
from accel_rl import ConfigError, ReplayBuffer

GAMMA = 0.9


class PlainList:
    """The steps of each environment in lists, from which the expected transitions are computed."""

    def __init__(self, envs, n: int):
        self.is_next_step = envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
        self.n, self.steps = n, [[] for _ in range(envs.num_envs)]

    def add(self, obs, action, reward, terminated, truncated, next_obs, final_obs):
        for b, steps in enumerate(self.steps):
            only_resets = self.is_next_step and bool(steps) and steps[-1]["ended"]
            ended = bool(terminated[b] or truncated[b])
            after = final_obs[b] if ended and not self.is_next_step else next_obs[b]
            steps.append(
                None
                if only_resets
                else {"obs": obs[b].copy(), "action": int(action[b]), "reward": float(reward[b]), "next": after.copy(),
                      "terminated": bool(terminated[b]), "ended": ended}
            )  # fmt: skip
            if only_resets:
                steps[-1] = {"ended": False, "is_reset": True}

    def transition(self, t: int, b: int):
        first = self.steps[b][t]
        if "is_reset" in first:
            return None
        total, factor = 0.0, 1.0
        for step in self.steps[b][t : t + self.n]:
            total, factor, last = total + factor * step["reward"], factor * GAMMA, step
            if step["ended"]:
                break
        discount = 0.0 if last["terminated"] else factor
        return first["obs"], first["action"], total, discount, last["next"]


def play(envs, buffer: ReplayBuffer, plain: PlainList, steps: int, rng) -> None:
    obs, _ = envs.reset(seed=7)
    for t in range(steps):
        action = rng.integers(0, envs.single_action_space.n, envs.num_envs)
        next_obs, reward, terminated, truncated, info = envs.step(action)
        final_obs = info.get("final_obs")
        buffer.add(obs, action, reward, terminated, truncated, final_obs)
        plain.add(obs, action, reward, terminated, truncated, next_obs, final_obs)
        obs = next_obs.copy()
        if t % 7 == 0 and len(buffer):
            assert len(buffer.sample(3).a_tm1) == 3


def check(buffer: ReplayBuffer, plain: PlainList) -> tuple[int, int]:
    """Check every transition in the buffer. Returns the numbers of transitions and of transitions that end at a time
    limit."""
    size, ring = len(buffer), buffer.replay.ring
    low, high = ring.eligible
    cells = torch.arange(low * ring.B, high * ring.B)
    wanted = [plain.transition(c // ring.B, c % ring.B) for c in cells.tolist()]
    offered = ring.sampleable(cells)
    assert offered.tolist() == [w is not None for w in wanted] and size == int(offered.sum())
    batch = ring.batch(cells[offered])
    obs, action, reward, discount, next_obs = (np.stack(x) for x in zip(*(w for w in wanted if w), strict=True))
    np.testing.assert_array_equal(batch.obs_tm1.numpy(), obs)
    np.testing.assert_array_equal(batch.a_tm1.numpy(), action)
    np.testing.assert_allclose(batch.r_t.numpy(), reward, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.discount_t.numpy(), discount, rtol=1e-5)
    bootstraps = discount > 0  # With discount 0, the next observation has no effect.
    np.testing.assert_array_equal(batch.obs_t.numpy()[bootstraps], next_obs[bootstraps])
    return size, int(((discount > 0) & (discount > GAMMA**plain.n * 1.001)).sum())


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("n", [1, 3])
def test_atari_with_time_limits(mode, n):
    envs = accel_rl.VectorEnv("breakout", 3, autoreset_mode=mode, max_num_frames_per_episode=300)
    buffer = ReplayBuffer(
        envs.single_observation_space, 4, 900, 3, stack=4, n_step=n, gamma=GAMMA,
        autoreset=envs.metadata["autoreset_mode"],
    )  # fmt: skip
    plain = PlainList(envs, n)
    play(envs, buffer, plain, 500, np.random.default_rng(n))
    size, cuts = check(buffer, plain)
    assert size > 800 and (cuts if n > 1 else True)
    envs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("size", [2_000, 24])
def test_cart_pole(mode, size):
    envs = SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1", max_episode_steps=15) for _ in range(3)], autoreset_mode=mode
    )
    buffer = ReplayBuffer(envs.single_observation_space, 2, size, 3, n_step=3, gamma=GAMMA, autoreset=mode)
    plain = PlainList(envs, 3)
    play(envs, buffer, plain, 300, np.random.default_rng(0))
    count, cuts = check(buffer, plain)
    assert count > (600 if size > 100 else 8) and (size < 100 or cuts > 20)


def box(*shape: int, dtype="uint8"):
    return gymnasium.spaces.Box(0, 255, shape, np.dtype(dtype))


def test_priorities():
    buffer = ReplayBuffer(box(2, dtype="float32"), 3, 100, prioritized=True, alpha=1.0, seed=1)
    for k in range(30):
        obs = np.full((1, 2), k, np.float32)
        buffer.add(obs, np.array([k % 3]), np.array([1.0]), np.array([False]), np.array([False]))
    for _ in range(40):
        batch = buffer.sample(8)
        buffer.update(batch, torch.where(batch.obs_tm1[:, 0] == 5, 1.0, 0.0))
    seen = torch.cat([buffer.sample(32).obs_tm1[:, 0] for _ in range(20)])
    assert (seen == 5).float().mean() > 0.99
    with pytest.raises(ValueError, match="prioritized=True"):
        ReplayBuffer(box(2), 3, 100).update(batch, torch.zeros(8))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"autoreset": "same"}, "NextStep, SameStep or Disabled"),
        ({"n_actions": 0}, "n_actions=0: must be a whole number"),
        ({"n_envs": 2.0}, "n_envs=2.0"),
        ({"observation_space": gymnasium.spaces.Discrete(4)}, "Box of uint8 or floats"),
        ({"observation_space": box(3, dtype="int32")}, "Box of uint8 or floats"),
        ({"stack": 3}, "stack=3: the first axis of observations of shape .2, 5, 5. has 2"),
        ({"size": 9}, "size=9: too small for 2 environments.*at least 10"),
        ({"size": 10**15}, "GiB too much"),
        ({"alpha": 2.0}, "alpha=2.0: must be between 0 and 1"),
        ({"reward_clip": float("nan")}, "reward_clip=nan"),
        ({"device": "cuda:77"}, "cuda:77"),
    ],
)
def test_bad_arguments_are_one_line(change, words):
    good = {"observation_space": box(2, 5, 5), "n_actions": 4, "size": 100, "n_envs": 2, "stack": 2}
    with pytest.raises(ConfigError, match=words):
        ReplayBuffer(**{**good, **change})


def steps(**change):
    no = np.zeros(2, bool)
    obs = np.zeros((2, 2, 5, 5), np.uint8)
    return {"obs": obs, "action": np.array([0, 3]), "reward": np.zeros(2), "terminated": no, "truncated": no, **change}


@pytest.mark.parametrize(
    ("autoreset", "change", "words"),
    [
        ("NextStep", {"obs": np.zeros((2, 5, 5), np.uint8)}, r"obs: shape \[2, 5, 5\], must be \[2, 2, 5, 5\]"),
        ("NextStep", {"obs": np.zeros((2, 2, 5, 5))}, "obs: float64, must be uint8"),
        ("NextStep", {"obs": np.ones((2, 2, 5, 5), np.uint8)}, "must be zeros"),
        ("NextStep", {"action": np.array([0, 4])}, r"action: \[0, 4\] must be from 0 to 3"),
        ("NextStep", {"action": np.array([0.0, 1.0])}, "action: float64 of shape .2., must be integers .2."),
        ("NextStep", {"reward": np.zeros((2, 1))}, "reward: float64 of shape .2, 1., must be numbers .2."),
        ("NextStep", {"terminated": np.zeros(2)}, "terminated: float64 of shape .2., must be bool"),
        ("NextStep", {"final_obs": np.zeros((2, 2, 5, 5), np.uint8)}, "give autoreset='SameStep'"),
        ("SameStep", {"truncated": np.array([False, True])}, "final_obs: missing, the episode of environment 1 ended"),
        ("SameStep", {"truncated": np.array([False, True]), "final_obs": [None, None]}, r"final_obs.1.: shape \[\]"),
    ],
)  # fmt: skip
def test_bad_steps_are_one_line(autoreset, change, words):
    buffer = ReplayBuffer(box(2, 5, 5), 4, 100, 2, stack=2, autoreset=autoreset)
    with pytest.raises(ValueError, match=words):
        buffer.add(**steps(**change))
    assert len(buffer) == 0
    buffer.add(**steps())  # After the refused step, a valid step is accepted.


def test_an_episode_that_begins_without_an_end_is_refused():
    buffer = ReplayBuffer(box(2, 5, 5), 4, 100, 2, stack=2)
    obs = np.zeros((2, 2, 5, 5), np.uint8)
    obs[:, 1] = 9
    buffer.add(**steps(obs=obs))
    with pytest.raises(ValueError, match="an episode began without an end"):
        buffer.add(**steps(obs=obs))


def test_an_empty_buffer_yields_no_batch():
    with pytest.raises(ValueError, match="no whole transition"):
        ReplayBuffer(box(3), 2, 50).sample(4)
