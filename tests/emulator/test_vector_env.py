"""VectorEnv against ale-py's own AtariVectorEnv; buffers, arrival, resets, wrong input."""

from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from ale_py.vector_env import AtariVectorEnv

from accel_rl.emulator import VectorEnv
from accel_rl.envs.games import ATARI_57
from accel_rl.errors import ConfigError

OURS = {"_final_obs", "final_info", "_final_info"}  # Gymnasium's; the peer has no masks


def assert_equal(theirs: tuple, ours: tuple, where: str) -> None:
    """Observations, rewards, ends and info of one call. The peer's final_obs has nothing of use where nothing ended."""
    for name, a, b in zip(("obs", "reward", "terminated", "truncated"), theirs[:-1], ours[:-1], strict=False):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{where}: {name}"
        np.testing.assert_array_equal(b, a, err_msg=f"{where}: {name}")
    a, b = theirs[-1], ours[-1]
    assert set(a) == set(b) - OURS, where
    for key in a:
        which = b["_final_obs"] if key == "final_obs" else slice(None)
        np.testing.assert_array_equal(b[key][which], a[key][which], err_msg=f"{where}: {key}")


def compare(game: str, steps: int, n: int = 3, seed: int = 3, **settings: Any) -> int:
    """The number of ends."""
    theirs = AtariVectorEnv(game, n, num_threads=1, **settings)
    ours = VectorEnv(game, n, num_threads=1, **settings)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.action_space == theirs.action_space
    rng = np.random.default_rng(seed)
    (a, info), (b, our_info) = theirs.reset(seed=seed), ours.reset(seed=seed)
    assert_equal((a, info), (b, our_info), f"{game}, reset")
    ends = 0
    for t in range(steps):
        actions = rng.integers(ours.single_action_space.n, size=n)
        result = theirs.step(actions)
        assert_equal(result, ours.step(actions), f"{game} {settings}, step {t}")
        ends += int(np.sum(result[2] | result[3]))
    theirs.close()
    ours.close()
    return ends


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("game", ["pong", "breakout", "seaquest", "freeway"])
def test_it_plays_as_the_peer(game: str, mode: str) -> None:
    compare(game, 150, autoreset_mode=mode, repeat_action_probability=0.25)


@pytest.mark.parametrize(
    "settings",
    [
        {"episodic_life": True},
        {"life_loss_info": True},
        {"episodic_life": True, "autoreset_mode": "SameStep"},
        {"life_loss_info": True, "autoreset_mode": "SameStep"},
        {"max_num_frames_per_episode": 101},
        {"max_num_frames_per_episode": 101, "autoreset_mode": "SameStep"},
        {"maxpool": False, "stack_num": 2},
        {"frameskip": 3, "full_action_space": True, "use_fire_reset": False},
        {"frameskip": 1, "maxpool": False, "stack_num": 1},
        {"noop_max": 0, "reward_clipping": False},
    ],
    ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()),
)
def test_settings_mean_what_they_mean_to_the_peer(settings: dict[str, Any]) -> None:
    ends = compare("breakout", 200, **settings)
    assert ends > 0 or not {"episodic_life", "life_loss_info", "max_num_frames_per_episode"} & set(settings)


def test_resets_go_on_with_the_seeds_streams() -> None:
    theirs, ours = AtariVectorEnv("assault", 3, num_threads=1), VectorEnv("assault", 3)
    for seed in (7, None, None, np.array([5, -1, 9]), 7):
        assert_equal(theirs.reset(seed=seed), ours.reset(seed=seed), f"seed {seed}")
    theirs.step(np.array([1, 2, 3]))
    ours.step(np.array([1, 2, 3]))
    options = {"reset_mask": np.array([False, True, False])}
    assert_equal(theirs.reset(options=options), ours.reset(options=options), "a part")


def test_threads_play_the_same() -> None:
    envs = [VectorEnv("breakout", 5, num_threads=k, thread_affinity_offset=o) for k, o in ((1, -1), (3, 0))]
    for env in envs:
        env.reset(seed=1)
    for t in range(60):
        one, three = (env.step(np.full(5, t % 4)) for env in envs)
        assert_equal(one, three, f"step {t}")


def test_arrival() -> None:
    """A batch smaller than the number of environments: every one is as it would be in a whole batch."""
    whole, parts = VectorEnv("pong", 6, noop_max=0), VectorEnv("pong", 6, noop_max=0, batch_size=2, num_threads=2)
    first, _ = whole.reset(seed=0)
    obs, info = parts.reset(seed=0)
    assert obs.shape == (2, 4, 84, 84)
    np.testing.assert_array_equal(obs, first[info["env_id"]])
    trace = [[whole.step(np.full(6, t % 6))[0][i] for i in range(6)] for t in range(30)]
    steps = np.zeros(6, int)
    for _ in range(60):
        which = info["env_id"]
        assert len(set(which)) == 2
        parts.send(steps[which] % 6)
        steps[which] += 1
        obs, _, _, _, info = parts.recv()
        for i, picture in zip(info["env_id"], obs, strict=True):
            if steps[i]:
                np.testing.assert_array_equal(picture, trace[steps[i] - 1][i])
    assert (steps > 0).all()


def test_disabled_waits_for_the_mask() -> None:
    env = VectorEnv("pong", 3, autoreset_mode="Disabled", max_num_frames_per_episode=40, noop_max=20)
    _, info = env.reset(seed=2)
    while True:
        obs, _, _, truncated, info = env.step(np.array([2, 3, 0]))
        if truncated.any():
            break
    assert not truncated.all()  # they began with different numbers of no-ops
    with pytest.raises(gymnasium.error.ResetNeeded, match="have ended"):
        env.step(np.array([2, 3, 0]))
    shown, later = env.reset(options={"reset_mask": truncated})
    assert (later["episode_frame_number"][truncated] < 20).all()
    np.testing.assert_array_equal(shown[~truncated], obs[~truncated])
    np.testing.assert_array_equal(later["episode_frame_number"][~truncated], info["episode_frame_number"][~truncated])
    env.step(np.array([2, 3, 0]))


def test_final_info_is_that_of_the_end() -> None:
    env = VectorEnv("pong", 2, autoreset_mode="SameStep", max_num_frames_per_episode=40, noop_max=20)
    env.reset(seed=2)
    seen = 0
    for _ in range(30):
        _, _, _, truncated, info = env.step(np.array([2, 3]))
        if truncated.any():
            np.testing.assert_array_equal(info["_final_info"], truncated)
            assert (info["final_info"]["episode_frame_number"][truncated] >= 40).all()
            assert (info["episode_frame_number"][truncated] < 40).all()
            seen += 1
    assert seen


def test_two_buffers_are_written_in_turn() -> None:
    torch = pytest.importorskip("torch")
    env, reference = VectorEnv("pong", 2, copy=False), VectorEnv("pong", 2)
    tensors = [torch.from_numpy(env.reset(seed=0)[0])]
    kept = [reference.reset(seed=0)[0]]
    for _ in range(20):
        tensors.append(torch.from_numpy(env.step(np.array([2, 3]))[0]))
        kept.append(reference.step(np.array([2, 3]))[0])
        for tensor, obs in zip(tensors[-2:], kept[-2:], strict=True):
            np.testing.assert_array_equal(tensor.numpy(), obs)
    assert len({t.data_ptr() for t in tensors}) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"game": "pongg"}, "nearest: pong"),
        ({"game": "kaboom"}, "AtariVectorEnv"),
        ({"img_height": 64}, "img_height=64: must be 84; for others use ale_py"),
        ({"grayscale": False}, "grayscale=False: must be True"),
        ({"continuous": True}, "continuous=True: must be False"),
        ({"frameskip": 0}, "frameskip=0: must be a whole number from 1"),
        ({"batch_size": 3}, "batch_size=3: must be a whole number from 0 to 2"),
        ({"autoreset_mode": "SameStepp"}, "nearest: SameStep"),
        ({"repeat_action_probability": 1.5}, "must be from 0 to 1"),
    ],
)
def test_what_it_has_not_is_said_in_a_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        VectorEnv(**({"game": "pong", "num_envs": 2} | settings))
    assert "\n" not in str(caught.value)


def test_calls_out_of_order_and_wrong_actions() -> None:
    env = VectorEnv("pong", 2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.send(np.zeros(2, int))
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.NoAsyncCallError):
        env.recv()
    for actions, message in ((np.zeros(3, int), "shape"), (np.zeros(2), "float"), (np.array([0, 6]), "must be 0 to 5")):
        with pytest.raises(ValueError, match=message):
            env.send(actions)
    env.send(np.zeros(2, int))
    with pytest.raises(gymnasium.error.AlreadyPendingCallError):
        env.send(np.zeros(2, int))
    env.reset(seed=0)  # what was sent is forgotten
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([1, 0])})
    env.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("game", ATARI_57)
def test_every_game_plays_as_the_peer(game: str) -> None:
    for mode in ("NextStep", "SameStep"):
        compare(game, 1000, n=2, autoreset_mode=mode, repeat_action_probability=0.25, episodic_life=True)
