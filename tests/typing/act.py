"""A user's script: environments and a trained agent."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import accel_rl
from accel_rl.emulator.device.device_vector_env import DeviceVectorEnv
from accel_rl.emulator.single_env import SingleEnv
from accel_rl.emulator.vector_env import VectorEnv

env = VectorEnv("pong", num_envs=4, autoreset_mode="SameStep")
obs, info = env.reset(seed=1)
assert_type(obs, NDArray[np.uint8])
agent = accel_rl.Run.load("runs/pong").load_agent(greedy=True)
action: np.ndarray = agent.act(obs)
obs, reward, terminated, truncated, info = env.step(action)
assert_type(truncated, NDArray[np.bool_])
env.send(action, info["env_id"])
assert_type(env.recv()[0], NDArray[np.uint8])
assert_type(reward, NDArray[np.int32])
assert_type(terminated, NDArray[np.bool_])
if "final_info" in info:
    assert_type(info["final_info"]["lives"], NDArray[np.int32])
assert_type(env.options.frameskip, int)
env.close()
assert_type(SingleEnv("pong").step(0)[-1]["lives"], int)
assert_type(DeviceVectorEnv("pong", 64, device="cpu", stack_num=1).reset()[0], Tensor)
with accel_rl.make_sampler(game="pong", envs=32, horizon=20, policy=None) as sampler:
    rewards: np.ndarray = sampler.collect().reward.numpy()
    assert_type(sampler.spec.n_actions, int)
    assert_type(sampler.finished[0].score, float)
