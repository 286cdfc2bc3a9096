"""Pictures with channels in any layout, and pictures that must not be flattened."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from accel_rl.algos.dqn import DQN
from accel_rl.algos.ppo import PPO
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.gymnasium import GymnasiumEnv
from accel_rl.envs.pictures import picture_layout
from accel_rl.models.networks import NETWORKS
from accel_rl.text.errors import ConfigError


class Shown(gymnasium.Env):
    """An environment whose observations are random samples of its observation space."""

    action_space = spaces.Discrete(3)

    def __init__(self, space: spaces.Space) -> None:
        self.observation_space = space
        self.shown = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self._look(), {}

    def step(self, action):
        return self._look(), 1.0, False, False, {}

    def _look(self):
        self.shown.append(self.observation_space.sample())
        return self.shown[-1]


def bytes_of(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


SPACES = {
    "rows": bytes_of(40, 30),
    "last_one": bytes_of(40, 30, 1),
    "first_one": bytes_of(1, 40, 30),
    "last_three": bytes_of(40, 30, 3),
    "first_three": bytes_of(3, 40, 30),
    "floats": spaces.Box(0, 1, (40, 30, 3), np.float32),
    "doubles": spaces.Box(-np.inf, np.inf, (3, 40, 30), np.float64),
    "large": spaces.Box(0, 1, (40, 40), np.float32),
    "bools": spaces.Box(0, 1, (10, 10, 4), np.bool_),
    "bool_rows": spaces.Box(0, 1, (7, 9), np.bool_),
    "whole": spaces.Box(0, 9, (40, 30, 3), np.int64),
    "inside": spaces.Dict({"image": bytes_of(7, 7, 3), "direction": spaces.Discrete(4)}),
    "two": spaces.Dict({"left": bytes_of(7, 7, 3), "right": bytes_of(7, 7, 3)}),
    "floats_inside": spaces.Dict({"at": spaces.Box(-9, 9, (3,), np.float64), "image": spaces.Box(0, 1, (9, 8, 2))}),
    "matrix": spaces.Box(0, 1, (5, 5), np.float32),
}


def __getattr__(name: str):
    """Return a function that makes an environment with the observation space SPACES[name], as a module attribute."""
    if name in SPACES:
        return lambda: Shown(SPACES[name])
    raise AttributeError(name)


@pytest.mark.parametrize(
    ("name", "frame_shape"),
    [("rows", (40, 30)), ("last_one", (40, 30)), ("first_one", (40, 30)), ("last_three", (3, 40, 30)),
     ("first_three", (3, 40, 30))],
)  # fmt: skip
def test_frames_hold_the_observed_pixels(name: str, frame_shape: tuple[int, ...]) -> None:
    env = GymnasiumEnv(f"{__name__}:{name}", seed=0)
    assert env.spec.is_image and env.spec.frame_shape == frame_shape
    assert env.spec.channels == 4 * (3 if len(frame_shape) == 3 else 1)
    frame = np.zeros(frame_shape, np.uint8)
    env.reset(frame)
    shown = env._env.shown[-1]
    wanted = shown.transpose(2, 0, 1) if name.startswith("last") else shown
    assert (frame == wanted.reshape(frame_shape)).all()


def test_the_smaller_outer_axis_is_the_channels() -> None:
    layout = picture_layout(bytes_of(4, 84, 84))
    assert layout is not None and layout.frame_shape == (4, 84, 84)
    layout = picture_layout(bytes_of(84, 84, 4))
    assert layout is not None and layout.frame_shape == (4, 84, 84)


@pytest.mark.parametrize(
    ("name", "frame_shape"),
    [("floats", (3, 40, 30)), ("doubles", (3, 40, 30)), ("large", (40, 40)), ("bools", (4, 10, 10)),
     ("bool_rows", (7, 9))],
)  # fmt: skip
def test_floats_are_kept_and_bools_are_bytes(name: str, frame_shape: tuple[int, ...]) -> None:
    env = GymnasiumEnv(f"{__name__}:{name}", seed=0)
    is_bool = SPACES[name].dtype == np.bool_
    assert env.spec.is_image and env.spec.frame_shape == frame_shape
    assert env.spec.frame_dtype == ("uint8" if is_bool else "float32")
    frame = np.zeros(frame_shape, env.spec.frame_dtype)
    env.reset(frame)
    shown = env._env.shown[-1]
    wanted = np.moveaxis(shown, -1, 0) if name in ("floats", "bools") else shown
    assert (frame == (255 * wanted.astype(np.uint8) if is_bool else wanted.astype(np.float32))).all() and frame.any()


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_divide_bytes_and_not_floats(network: str) -> None:
    import torch

    picture = torch.randint(256, (2, 3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    net = NETWORKS[network](3, 40, 40).eval()
    with torch.no_grad():
        torch.testing.assert_close(net(picture), net(picture / 255), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(net(picture), net(picture.float()))


@pytest.mark.parametrize("name", ["whole", "two"])
def test_a_picture_is_not_flattened(name: str) -> None:
    with pytest.raises(ConfigError, match=r"observes pictures.*must be uint8, bool or floats \[H, W\]"):
        GymnasiumEnv(f"{__name__}:{name}", seed=0)


@pytest.mark.parametrize("name", ["inside", "floats_inside"])
def test_a_dict_of_a_picture_and_others_has_both(name: str) -> None:
    """In a dict of a picture and other entries, a convolution reads the picture, and an MLP reads all other entries."""
    import torch

    env = GymnasiumEnv(f"{__name__}:{name}", seed=0)
    spec = env.spec
    assert (
        not spec.is_image and spec.picture is not None and spec.picture.is_image and spec.obs_shape == spec.frame_shape
    )
    frames = np.zeros((2, *spec.frame_shape), spec.frame_dtype)
    env.reset(frames[0])
    env.step(0, frames[1])
    shown = [env._env.shown[-2], env._env.shown[-1]]
    pictures = np.stack([np.moveaxis(x["image"], -1, 0) for x in shown])
    others = np.stack([x["at"] if "at" in x else np.eye(4)[x["direction"]] for x in shown]).astype(np.float32)
    for algorithm in (PPO, DQN):
        body = algorithm(algorithm.Config(network="minatar"), spec, T=4, B=2).agent.model.body
        net = body if algorithm is DQN else body[0]  # not the linear layer
        features = net(torch.from_numpy(frames))
        wanted = torch.cat([net.picture(torch.from_numpy(pictures)), net.vector(torch.from_numpy(others))], -1)
        assert torch.equal(features, wanted) and net.picture.conv_0.weight.shape[1] == pictures.shape[1]


def test_a_small_matrix_is_a_vector() -> None:
    assert GymnasiumEnv(f"{__name__}:matrix", seed=0).spec.frame_shape == (25,)


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_networks_take_stacks_of_channels(algorithm: type) -> None:
    spec = EnvSpec("colour", (3, 40, 30), "uint8", n_actions=3, stack=2)
    model = algorithm(algorithm.Config(), spec, T=4, B=2).agent.model
    obs = np.random.default_rng(0).integers(0, 255, (5, *spec.obs_shape)).astype(np.uint8)
    import torch

    assert spec.obs_shape == (2, 3, 40, 30)
    out = model(torch.from_numpy(obs))
    assert (out[0] if isinstance(out, tuple) else out).shape == (5, 3)
    first = next(m for m in model.modules() if isinstance(m, torch.nn.Conv2d))
    assert first.in_channels == 6


@pytest.mark.parametrize("network", NETWORKS)
def test_a_picture_that_is_too_small_is_refused(network: str) -> None:
    least = NETWORKS[network].least_size()
    NETWORKS[network](1, least, least)
    with pytest.raises(
        ConfigError, match=f"pictures of {least - 1}x{least} are too small .*: at least {least}x{least}"
    ):
        NETWORKS[network](1, least - 1, least)
