"""States of VectorEnv: the steps after a restored state equal those after the saved state."""

from typing import Any

import numpy as np
import pytest
from gymnasium import error

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import VectorEnv
from tests.marks import slow

N, STEPS = 4, 60


def make(game: str = "breakout", n: int = N, **options: Any) -> VectorEnv:
    return VectorEnv(game, n, repeat_action_probability=0.25, max_num_frames_per_episode=160, **options)


def played(env: VectorEnv, actions: np.ndarray) -> list[np.ndarray]:
    """Return the results of all steps with the given actions, including final observations."""
    found = []
    for row in actions:
        obs, reward, terminated, truncated, info = env.step(row)
        found += [obs, reward, terminated, truncated, *(info[k] for k in ("lives", "frame_number"))]
        if "final_obs" in info:
            found.append(info["final_obs"][info["_final_obs"]])
    return found


def assert_same(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    assert len(a) == len(b)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        np.testing.assert_array_equal(x, y, err_msg=str(i))


@pytest.mark.parametrize("game", ["breakout", slow("seaquest"), slow("pitfall")])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_restored_state_goes_on_as_before(game, mode):
    env, draw = make(game, autoreset_mode=mode), np.random.default_rng(0)
    env.reset(seed=1)
    n_actions = int(env.single_action_space.n)
    played(env, draw.integers(n_actions, size=(STEPS, N)))
    states, actions = env.clone_state(), draw.integers(n_actions, size=(STEPS, N))
    first = played(env, actions)
    assert sum(int(x.sum()) for x in first if x.dtype == bool) > 0, "no episode has ended"
    obs, info = env.restore_state(states)
    assert_same(played(env, actions), first)

    other = make(game, autoreset_mode=mode)
    again, again_info = other.restore_state(states)
    np.testing.assert_array_equal(again, obs)
    np.testing.assert_array_equal(again_info["lives"], info["lives"])
    assert other.clone_state() == states
    assert_same(played(other, actions), first)


def test_an_environment_takes_the_state_of_another():
    env, draw = make(), np.random.default_rng(1)
    env.reset(seed=5)
    played(env, draw.integers(4, size=(20, N)))
    before = env.clone_state()
    (state,) = env.clone_state([2])
    assert state == before[2]
    obs, _ = env.restore_state([state, state], [0, 3])
    np.testing.assert_array_equal(obs[[0, 3]], obs[[2, 2]])
    assert env.clone_state() == [state, before[1], state, state]
    same = np.repeat(draw.integers(4, size=(STEPS, 1)), N, 1)
    for row in same:
        obs, reward, *_ = env.step(row)
        np.testing.assert_array_equal(obs[[0, 3]], obs[[2, 2]])
        assert reward[0] == reward[2] == reward[3]


def test_an_ended_episode_waits_for_its_reset():
    env = make(autoreset_mode="Disabled")
    env.reset(seed=0)
    over = np.zeros(N, bool)
    while not over.any():
        *_, terminated, truncated, _ = env.step(np.zeros(N, int))
        over = terminated | truncated
    states = env.clone_state()
    env.reset(seed=1)
    env.restore_state(states)
    with pytest.raises(error.ResetNeeded):
        env.step(np.zeros(N, int))


def test_what_does_not_fit_is_refused():
    env = make()
    with pytest.raises(error.ResetNeeded):
        env.clone_state()
    env.reset(seed=0)
    states = env.clone_state()
    for broken, words in (
        (states[0][:100], "cut off"),
        (b"x" * len(states[0]), "no state of a VectorEnv"),
        (states[0][:-10], "bytes"),
    ):
        with pytest.raises(ValueError, match=words):
            env.restore_state([broken], [0])
    with pytest.raises(ValueError, match="another ROM"):
        make("pong", 1).restore_state(states[:1])
    with pytest.raises(ValueError, match="stack_num"):
        make(n=1, stack_num=2).restore_state(states[:1])
    for indices in ([4], [-1], [[0]], ["a"]):
        with pytest.raises(ValueError, match="indices"):
            env.clone_state(indices)
    with pytest.raises(ValueError, match="4 states for 2"):
        env.restore_state(states, [0, 1])
    with pytest.raises(error.ResetNeeded, match="some environments"):
        make().restore_state(states[:1], [0])
    with pytest.raises(ValueError, match="batch_size"):
        VectorEnv("breakout", N, batch_size=2).restore_state(states)
    env.send(np.zeros(N, int))
    with pytest.raises(error.AlreadyPendingCallError):
        env.clone_state()
