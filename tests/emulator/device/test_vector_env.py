"""DeviceVectorEnv on the CPU (with the CPU build of its kernels) plays the same games as VectorEnv."""

import inspect
from typing import get_type_hints

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import DeviceVectorEnv, VectorEnv, palette
from accel_rl.emulator.counter import Counter, start_at
from accel_rl.emulator.device.device_vector_env import DeviceInfo
from accel_rl.emulator.env_core import make_env_core, step_env_cores
from accel_rl.emulator.games import games
from accel_rl.text.errors import ConfigError
from tests.marks import slow

CPU = {"device": "cpu"}


def play_alone(game: str, seed: int, actions: list[int], frames: int, fire: bool = False, **switches: int):
    """Play one environment by the emulator's C++ core, and yield (observation [4, 84, 84], reward, whether the episode
    ended)."""
    core = make_env_core(game, "84x84", palette.GRAY, 4, frames // 4, life_loss=False, **switches)
    codes, counter, episode = games()[game]["actions"], Counter(30, 4, cached=False), 0
    frame, stack = np.zeros((1, 84, 84), np.uint8), np.zeros((4, 84, 84), np.uint8)

    def begin() -> None:
        start_at(core, *counter.start(seed, episode), fire)
        core.begin(frame)
        stack[:] = 0
        stack[-1] = frame[0]

    begin()
    yield stack.copy(), 0.0, False, None
    reward, flags = np.zeros(1, np.float32), [np.zeros(1, bool) for _ in range(3)]
    for action in actions:
        step_arrays = type("Out", (), {})()
        step_arrays.frame, step_arrays.reward = frame, reward
        step_arrays.terminated, step_arrays.truncated, step_arrays.ended = flags
        step_env_cores([core], np.array([codes[action]], np.int32), None, step_arrays)
        stack[:-1] = stack[1:]
        stack[-1] = frame[0]
        final = stack.copy()
        if flags[2][0]:
            episode += 1
            begin()
        yield stack.copy(), float(np.clip(reward[0], -1, 1)), bool(flags[2][0]), final


@pytest.mark.parametrize(
    ("game", "switches"),
    [("breakout", {}), slow("pong", {"fire": True}), slow("space_invaders", {"mode": 9, "difficulty": 1})],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else x,
)
def test_observations_rewards_and_ends(game, switches):
    n, steps, frames = 3, 120, 200
    options = {"use_fire_reset" if name == "fire" else name: value for name, value in switches.items()}
    options = {"use_fire_reset": False, **options, **CPU}
    envs = DeviceVectorEnv(game, num_envs=n, max_num_frames_per_episode=frames, **options)
    assert envs.single_observation_space.shape == (4, 84, 84)
    actions = np.random.default_rng(0).integers(envs.single_action_space.n, size=(steps, n))
    alone = [play_alone(game, 5 + i, actions[:, i].tolist(), frames, **switches) for i in range(n)]
    obs, _ = envs.reset(seed=5)
    ends = 0
    for row in [None, *actions]:
        if row is not None:
            obs, reward, terminated, truncated, info = envs.step(torch.from_numpy(row))
        for i, one in enumerate(alone):
            expected, r, ended, final = next(one)
            assert (obs[i].numpy() == expected).all()
            if row is not None:
                assert reward[i] == r and bool(terminated[i] | truncated[i]) == ended == bool(info["_final_obs"][i])
            if ended:
                ends += 1
                assert (info["final_obs"][i].numpy() == final).all()
    assert ends >= 2 * n


@pytest.mark.parametrize("options", [{}, slow({"repeat_action_probability": 0.25}), {"episodic_life": True}])
def test_autoreset_modes_show_the_same_episodes(options: dict[str, float]) -> None:
    """Equal actions give equal episodes in all autoreset modes, which differ only in the step after an episode's
    end."""
    n, episodes = 3, 2
    rng = np.random.default_rng(3)
    actions = rng.integers(4, size=(n, episodes + 1, 60))
    played = {}
    for mode in AutoresetMode:
        envs = DeviceVectorEnv(
            "breakout", n, max_num_frames_per_episode=240, noop_max=2, autoreset_mode=mode, **options, **CPU
        )
        played[mode] = [[[]] for _ in range(n)]
        obs, _ = envs.reset(seed=7)
        at = np.zeros((n, 2), int)  # episode, step
        ended = np.zeros(n, bool)
        while at[:, 0].min() < episodes:
            chosen = actions[np.arange(n), np.minimum(at[:, 0], episodes), at[:, 1]]
            before = obs.clone()
            obs, reward, terminated, truncated, info = envs.step(torch.from_numpy(chosen))
            ends = (terminated | truncated).numpy()
            for i in range(n):
                # After an episode's end, a step resets the game (mode NEXT_STEP) or does nothing (mode DISABLED).
                if ended[i]:
                    assert not ends[i] and reward[i] == 0
                    assert mode == AutoresetMode.NEXT_STEP or torch.equal(obs[i], before[i])
                    continue
                last = info["final_obs"][i] if ends[i] and mode == AutoresetMode.SAME_STEP else obs[i]
                played[mode][i][-1].append((last.numpy().tobytes(), float(reward[i]), bool(ends[i])))
                at[i] = (at[i, 0] + 1, 0) if ends[i] else (at[i, 0], at[i, 1] + 1)
                if ends[i]:
                    played[mode][i].append([])
            assert (info == {}) == (mode != AutoresetMode.SAME_STEP)
            if mode == AutoresetMode.DISABLED and (ended & ~ends).any():
                obs, _ = envs.reset(options={"reset_mask": ended})
                ended[:] = False
            ended = (
                ends if mode == AutoresetMode.NEXT_STEP else ended | ends if mode == AutoresetMode.DISABLED else ended
            )
    first = [episode for env in played[AutoresetMode.SAME_STEP] for episode in env[:episodes]]
    for mode in AutoresetMode:
        assert [episode for env in played[mode] for episode in env[:episodes]] == first
    assert (max(len(episode) for episode in first) < 60) == ("episodic_life" in options)


def test_a_lost_life_ends_the_episode_as_in_vector_env() -> None:
    """DeviceVectorEnv and VectorEnv end an episode in the same step when a life is lost."""
    lengths = {}
    for cls, options in ((VectorEnv, {"autoreset_mode": "SameStep"}), (DeviceVectorEnv, CPU)):
        envs = cls("breakout", 8, noop_max=0, episodic_life=True, **options)
        envs.reset(seed=1)
        ends = [np.asarray(envs.step(np.zeros(8, int))[2]) for _ in range(60)]
        lengths[cls] = np.argmax(ends, axis=0).tolist()
    assert lengths[VectorEnv] == lengths[DeviceVectorEnv] and min(lengths[VectorEnv]) > 0


def test_a_reset_of_some_environments() -> None:
    envs = DeviceVectorEnv("breakout", 3, autoreset_mode="Disabled", **CPU)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    first, _ = envs.reset(seed=5)
    for _ in range(9):
        obs = envs.step([1, 2, 3])[0]
    some, _ = envs.reset(seed=5, options={"reset_mask": np.array([True, False, False])})
    assert torch.equal(some[0], first[0]) and torch.equal(some[1:], obs[1:])
    again, _ = envs.reset(options={"reset_mask": torch.tensor([True, False, True])})
    assert not torch.equal(again[0], first[0]) and torch.equal(again[1], obs[1])
    last, _ = envs.reset(seed=2**31 - 1, options={"reset_mask": np.array([False, False, True])})
    all_of_them, _ = envs.reset(seed=2**31 - 1, options={"reset_mask": np.ones(3, bool)})
    assert torch.equal(last[2], all_of_them[0])  # The seed is that of the first environment in reset_mask.
    with pytest.raises(ValueError, match="reset_mask"):
        envs.reset(options={"reset_mask": [True]})


def test_a_lost_life_shows_the_last_observation_of_a_game_that_continues() -> None:
    envs = DeviceVectorEnv("breakout", 2, life_loss_info=True, **CPU)
    envs.reset(seed=0)
    for _ in range(200):
        obs, _, terminated, _, info = envs.step([0, 1])
        if terminated.any():
            break
    assert terminated.any() and torch.equal(info["_final_obs"], terminated)
    assert torch.equal(info["final_obs"][terminated], obs[terminated])


def test_the_same_seed_gives_the_same_games():
    envs = DeviceVectorEnv("pong", num_envs=2, repeat_action_probability=0.25, **CPU)
    runs = []
    for seed in (3, 3, 4):
        first, _ = envs.reset(seed=seed)
        rest = [envs.step(np.array([k % 6, 3]))[0] for k in range(20)]
        runs.append(torch.stack([first, *rest]))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_observations_stay_when_the_next_step_is_played():
    envs = DeviceVectorEnv("breakout", num_envs=2, img_height=104, img_width=80, **CPU)
    envs.reset(seed=0)
    kept = [envs.step([1, 2])[:2] for _ in range(3)]
    copies = [(obs.clone(), reward.clone()) for obs, reward in kept]
    envs.step([1, 1])
    assert all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(kept, copies, strict=True))
    assert kept[0][0].shape == (2, 4, 104, 80)
    assert np.from_dlpack(kept[0][0]).shape == (2, 4, 104, 80)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"device": "cuda:9"}, ["cuda:9"]),
        ({"device": "gpu!"}, ["gpu!", "cuda"]),
        ({"img_height": 60}, ["img_height=60", "84"]),
        ({"num_envs": 0}, ["num_envs=0"]),
        ({"autoreset_mode": "NextSteps"}, ["NextSteps", "NextStep"]),
        ({"batch_size": 2}, ["batch_size=2", "must be 0 on a device"]),
        ({"copy": False}, ["copy=False", "must be True on a device; for others use VectorEnv"]),
        ({"obs_type": "ram"}, ["obs_type='ram'", "must be None"]),
        ({"rom": "pong.bin"}, ["rom='pong.bin'", "must be None"]),
        ({"stack_num": 33}, ["stack_num=33", "from 1 to 32"]),
        ({"devise": "cuda"}, ["devise: DeviceVectorEnv has no such option", "nearest: device"]),
        ({"noop_max": 1000}, ["noop_max=1000"]),
        ({"game": "pongg"}, ["pongg", "pong"]),
        ({"repeat_action_probability": 2.0}, ["2.0"]),
    ],
)
def test_what_is_refused(options, parts):
    with pytest.raises(ConfigError) as refused:
        DeviceVectorEnv(**{"game": "pong", "num_envs": 2, "device": "cpu", **options})
    assert all(part in str(refused.value) for part in parts), refused.value
    assert "\n" not in str(refused.value)


def test_options_are_those_of_vector_env_and_a_device():
    ours, theirs = (inspect.signature(cls).parameters for cls in (DeviceVectorEnv, VectorEnv))
    assert [*ours] == [*theirs, "device"]
    differs = {name: ours[name].default for name in theirs if ours[name].default != theirs[name].default}
    assert differs == {"autoreset_mode": AutoresetMode.SAME_STEP}
    DeviceVectorEnv("pong", 1, autoreset_mode="SameStep", batch_size=0, copy=True, **CPU)
    with pytest.raises(ConfigError, match=r"^device: use accel_rl\.emulator\.DeviceVectorEnv$"):
        VectorEnv("pong", 1, device="cuda")


def test_infos_have_the_declared_arrays():
    envs = DeviceVectorEnv("pong", 2, max_num_frames_per_episode=8, **CPU)
    assert envs.reset(seed=0)[1] == {}
    info = envs.step([0, 0])[-1]
    assert set(info) == set(get_type_hints(DeviceInfo))
    assert info["final_obs"].shape == (2, 4, 84, 84) and info["_final_obs"].dtype == torch.bool


def test_wrong_actions_and_order():
    envs = DeviceVectorEnv("pong", num_envs=2, **CPU)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step([0, 0])
    envs.reset(seed=0)
    for wrong in ([0], [0.5, 1.0], [[0, 1]]):
        with pytest.raises(ValueError, match="actions"):
            envs.step(wrong)
    with pytest.raises(ValueError, match="seed"):
        envs.reset(seed=-1)
