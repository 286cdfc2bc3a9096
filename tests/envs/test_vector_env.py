"""84x84 play equals ale-py's own vector environment: observations, rewards, lives and ends."""

import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv

from accel_rl.envs.make import make_env
from tests.env_settings import env_of

TEN = (
    "breakout pong space_invaders seaquest qbert ms_pacman boxing freeway montezuma_revenge up_n_down".split()  # noqa: SIM905
)


def play_both(game: str, steps: int, stack: int, frame_skip: int = 4) -> int:
    vector = AtariVectorEnv(
        game,
        num_envs=1,
        noop_max=0,
        use_fire_reset=False,
        reward_clipping=False,
        stack_num=stack,
        frameskip=frame_skip,
    )
    env = make_env(env_of(game=game, protocol="mnih2015", noop_max=0, frame_skip=frame_skip), 0, False)
    rng = np.random.default_rng(1)
    frame = np.zeros((84, 84), np.uint8)
    observation, info = vector.reset()
    env.reset(frame)
    history = [np.zeros_like(frame)] * (stack - 1) + [frame.copy()]
    ended, ends = False, 0
    for t in range(steps):
        assert (observation[0, -1] == history[-1]).all(), t
        if stack > 1 and len(history) > 2 * stack:  # how a stack begins is a matter of taste
            assert (observation[0] == history[-stack:]).all(), t
        assert info["lives"][0] == env.lives(), t
        action = int(rng.integers(env.spec.n_actions))
        observation, reward, terminated, truncated, info = vector.step(np.array([action]))
        if ended:  # the vector environment resets within the step after the last
            env.reset(frame)
            history = [frame.copy()]
            expected = (0.0, False, False, False)
        else:
            expected = env.step(action, frame)
            history.append(frame.copy())
        ended = expected[3]
        assert (reward[0], terminated[0], truncated[0]) == expected[:3], t
        if ended:  # at game over it shows frames of the step before; here the last screen is shown
            ends += 1
            history = [observation[0, -1]]
    vector.close()
    return ends


@pytest.mark.parametrize("game", ["breakout", "space_invaders", "qbert"])
def test_equals_vector_env(game: str) -> None:
    assert play_both(game, 500, stack=1) >= 1


def test_equals_vector_env_stacked() -> None:
    play_both("pong", 300, stack=4)


def test_equals_vector_env_without_frame_skip() -> None:
    play_both("seaquest", 300, stack=1, frame_skip=1)


@pytest.mark.slow
@pytest.mark.parametrize("game", TEN)
def test_equals_vector_env_long(game: str) -> None:
    play_both(game, 2_000, stack=4)
