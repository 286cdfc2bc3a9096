"""ReservedEnv, which begins the next episode in a reserve environment, plays the same episodes as a single
environment."""

import numpy as np
import pytest

from accel_rl.envs.make import make_env
from accel_rl.envs.reserved import ReservedEnv
from tests.env_settings import env_of

# In freeway, episodes with different numbers of no-ops begin with different frames.
CONFIG = env_of(game="freeway", noop_max=20, repeat_action_probability=0.25)


def make(seed: int = 1) -> ReservedEnv:
    return ReservedEnv(make_env(CONFIG, seed, True), make_env(CONFIG, seed, True))


def starts(env, refill: list[bool]) -> list[bytes]:
    """Play four steps of each episode, and return the episodes' first frames and last frames."""
    frame, found = np.zeros(env.spec.frame_shape, np.uint8), []
    for refilled in refill:
        if refilled:
            env.refill()
        env.reset(frame)
        found.append(frame.tobytes())
        for t in range(4):
            env.step(t % 3, frame)
        found.append(frame.tobytes())
    return found


@pytest.mark.parametrize("refill", [[True] * 5, [False] * 5, [True, False, False, True, True]])
def test_who_plays_an_episode_changes_nothing(refill: list[bool]) -> None:
    env = make()
    want = starts(make_env(CONFIG, 1, True), [False] * 5)
    assert starts(env, refill) == want and len(set(want)) == 10
    assert env.late_resets == refill.count(False)


def test_an_episode_by_its_number() -> None:
    frames = np.zeros((3, 104, 80), np.uint8)
    env, plain = make(), make_env(CONFIG, 1, True)
    plain.reset(frames[0]), plain.reset(frames[0])  # episode 1
    env.refill()
    env.reset(frames[1], episode=1)  # The reserve environment has begun a different episode than 1.
    make_env(CONFIG, 1, True).reset(frames[2], episode=1)
    assert (frames[1] == frames[0]).all() and (frames[2] == frames[0]).all()


@pytest.mark.parametrize("ready", [True, False])
def test_state_round_trip(ready: bool) -> None:
    env, other = make(), make(seed=9)
    starts(env, [True, True])
    if ready:
        env.refill()
    other.set_state(env.get_state())
    assert starts(other, [False, True, True]) == starts(env, [False, True, True])
    assert other.late_resets == env.late_resets == (0 if ready else 1)
    with pytest.raises(ValueError, match="reserved"):
        env.set_state(make_env(CONFIG, 1, True).get_state())


def test_a_reserve_that_cannot_be_restored_is_reset() -> None:
    """If the state of a reserve environment cannot be restored, the reserve is reset, so that the resumed run plays no
    episode of one step."""

    def drifting() -> ReservedEnv:
        config = env_of(id="tests.envs.test_gymnasium:drifting")
        return ReservedEnv(make_env(config, 1, True), make_env(config, 1, True))

    env, other, frame = drifting(), drifting(), np.zeros(2, np.float32)
    env.reset(frame)
    env.refill()
    with pytest.warns(RuntimeWarning, match="not deterministic"):
        other.set_state(env.get_state())
    other.refill()
    other.reset(frame)
    assert other.step(0, frame)[1:] == (False, False, False) and other.late_resets == env.late_resets
