"""On a real GPU, the kernels compute the same states, observations, rewards and ends of episodes as their CPU build."""

import pytest
import torch

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator.device.cuda import kernels_of
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.envs.atari_games import ATARI_57
from accel_rl.envs.make import make_spec
from accel_rl.samplers.device_games import make_device_game
from tests.env_settings import env_of

pytestmark = pytest.mark.gpu

ENVS, STEPS = 64, 40  # The numbers are small, because the CPU build of the kernels is slow.


TRANSLATED = ("breakout", "asterix", "montezuma_revenge", "robotank")  # 2K, F8, E0, FE


@pytest.mark.parametrize("game", TRANSLATED)
def test_a_kernel_of_a_game_plays_as_the_host_build(game, monkeypatch):
    monkeypatch.delenv("ACCEL_RL_TRANSLATE")
    test_a_gpu_plays_as_the_host_build(game, "84x84")
    trials = kernels_of(torch.device("cuda")).trials | kernels_of(torch.device("cuda", 0)).trials
    assert not trials[game].differs


@pytest.mark.parametrize("frame", ["84x84", "104x80"])
@pytest.mark.parametrize("game", ATARI_57)
def test_a_gpu_plays_as_the_host_build(game, frame):
    env = env_of(game=game, frame=frame, randomness="counter", repeat_action_probability=0.25)
    env = env if frame == "84x84" else env_of(game=game, randomness="counter", max_episode_steps=150)
    n_actions, generator = make_spec(env, training=True).n_actions, torch.Generator().manual_seed(0)
    actions = torch.randint(n_actions, (STEPS, ENVS), generator=generator)
    envs, outs = [], []
    for device in ("cpu", "cuda"):
        device_game = make_device_game(env, True, False, device)
        envs.append(DeviceEnvs(device_game, list(range(ENVS))))
        outs.append(DeviceStep.empty(ENVS, device_game))
        envs[-1].begin(outs[-1])
    for step in range(-1, STEPS):
        if step >= 0:
            for one, out in zip(envs, outs, strict=True):
                one.step(actions[step].to(one.game.device), out)
        for name, host, gpu in zip(DeviceStep._fields, *outs, strict=True):
            gpu = gpu.cpu()
            if name == "final_frame":
                host, gpu = host[outs[0].ended], gpu[outs[0].ended]
            assert torch.equal(host, gpu), (name, step)
    assert envs[0].get_state() == envs[1].get_state()


@pytest.mark.parametrize("translate", [False, True])
def test_a_step_can_be_captured(translate, monkeypatch):
    if translate:
        monkeypatch.delenv("ACCEL_RL_TRANSLATE")
    env = env_of(game="breakout", randomness="counter")
    device_game = make_device_game(env, True, False, "cuda")
    eager, captured = DeviceEnvs(device_game, [0, 1]), DeviceEnvs(device_game, [0, 1])
    outs = [DeviceStep.empty(2, device_game) for _ in range(2)]
    action = torch.ones(2, dtype=torch.int64, device="cuda")
    for one, out in zip((eager, captured), outs, strict=True):
        one.begin(out)
        one.step(action, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.step(action, outs[1])
    for _ in range(20):
        eager.step(action, outs[0])
        graph.replay()
        assert torch.equal(outs[0].frame, outs[1].frame)
    assert eager.get_state() == captured.get_state()
