"""DeviceVectorEnv (here its host build) plays the games of VectorEnv on the CPU."""

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


def play_alone(game: str, seed: int, actions: list[int], frames: int, **switches: int):
    """One environment by the emulator's core: yields (observation of 4 frames, reward, ended)."""
    core = make_env_core(game, "84x84", palette.GRAY, 4, frames // 4, life_loss=False, **switches)
    codes, counter, episode = games()[game]["actions"], Counter(30, 4, cached=False), 0
    frame, stack = np.zeros((1, 84, 84), np.uint8), np.zeros((4, 84, 84), np.uint8)

    def begin() -> None:
        start_at(core, *counter.start(seed, episode))
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
    [("breakout", {}), slow("pong", {}), slow("space_invaders", {"mode": 9, "difficulty": 1})],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else x,
)
def test_observations_rewards_and_ends(game, switches):
    n, steps, frames = 3, 120, 200
    envs = DeviceVectorEnv(game, num_envs=n, max_num_frames_per_episode=frames, **switches, **CPU)
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
        ({"use_fire_reset": True}, ["use_fire_reset=True", "False"]),
        ({"autoreset_mode": "NextStep"}, ["NextStep", "SameStep"]),
        ({"batch_size": 2}, ["batch_size=2", "must be 0 on a device"]),
        ({"episodic_life": True}, ["episodic_life=True", "must be False on a device; for others use VectorEnv"]),
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
    assert differs == {"autoreset_mode": AutoresetMode.SAME_STEP, "use_fire_reset": False}
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
