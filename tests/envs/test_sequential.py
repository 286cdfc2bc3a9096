"""Batches of environments in one process."""

import numpy as np
import pytest

from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.make import EnvConfig, make_batch, make_env
from accel_rl.envs.sequential import SequentialEnv
from tests.env_settings import env_of

SHORT = env_of(game="boxing", max_episode_steps=9)
SEEDS = [11, 22, 33]


def make(reset: str = "immediate", decorrelation_steps: int = 0, config: EnvConfig = SHORT, seeds=SEEDS):
    batch = make_batch(config, seeds, True, reset, decorrelation_steps)
    return batch, Step.empty(batch.n, batch.spec)


def step(batch: SequentialEnv, out: Step, action: np.ndarray | None = None) -> Step:
    batch.send(np.zeros(batch.n, np.int64) if action is None else action)
    batch.recv(out)
    return out


def contents(out: Step) -> tuple:
    return tuple(getattr(out, k).tobytes() for k in ("frame", "age", "reward", "terminated", "truncated", "ended"))


def test_equals_single_environments() -> None:
    """A batch of environments gives the results of single environments, and the ages of their episodes."""
    config = env_of(game="breakout", max_episode_steps=30)
    batch, out = make(config=config)
    singles = [make_env(config, seed, True) for seed in SEEDS]
    frames = [np.zeros(batch.spec.frame_shape, np.uint8) for _ in SEEDS]
    batch.reset(out)
    for env, frame in zip(singles, frames, strict=True):
        env.reset(frame)
    ages = [0] * len(SEEDS)
    rng = np.random.default_rng(0)
    for _ in range(70):
        actions = rng.integers(4, size=len(SEEDS))
        out.final_frame[:] = 99
        step(batch, out, actions)
        assert out.valid.all()
        for i, env in enumerate(singles):
            expected = env.step(int(actions[i]), frames[i])
            assert (out.reward[i], out.terminated[i], out.truncated[i], out.ended[i]) == expected
            ages[i] += 1
            if expected[3]:
                assert (out.final_frame[i] == frames[i]).all()
                env.reset(frames[i])
                ages[i] = 0
            else:
                assert (out.final_frame[i] == 99).all()
            assert out.age[i] == min(ages[i], 3)
            assert (out.frame[i] == frames[i]).all()


def test_writes_in_place_into_a_slice() -> None:
    batch, _ = make()
    outer = Step.empty(5, batch.spec)
    outer.frame[:] = outer.age[:] = 77
    before = outer.frame
    batch.reset(outer[1:4])
    step(batch, outer[1:4])
    assert outer.frame is before
    assert (outer.frame[[0, 4]] == 77).all() and (outer.age[[0, 4]] == 77).all()
    assert (outer.age[1:4] == 1).all() and outer.valid.tolist() == [False, True, True, True, False]


def test_wait_skips_until_the_pause() -> None:
    batch, out = make("wait")
    batch.reset(out)
    for _ in range(9):
        step(batch, out)
    assert out.ended.all() and out.truncated.all() and out.valid.all() and (out.age == 3).all()
    assert (out.final_frame == out.frame).all()
    for _ in range(2):
        out.frame[:] = 5
        step(batch, out)
        assert not (out.valid.any() or out.ended.any() or out.truncated.any() or out.terminated.any())
        assert (out.reward == 0).all() and (out.age == 0).all() and (out.frame == 0).all()
    batch.reset_waiting(out)
    assert out.frame.any() and (out.age == 0).all()
    step(batch, out)
    assert out.valid.all() and (out.age == 1).all()


def test_an_action_below_zero_skips_one_step() -> None:
    batch, out = make()
    batch.reset(out)
    step(batch, out)
    step(batch, out, np.array([0, -1, 0]))
    assert out.valid.tolist() == [True, False, True] and out.age.tolist() == [2, 0, 2]
    assert not out.frame[1].any()
    for _ in range(7):
        step(batch, out)
    # Environment 1 has skipped one step, and ends its episode one step later.
    assert out.valid.all() and out.ended.tolist() == [True, False, True]


def test_wait_for_some_while_others_play() -> None:
    batch, out = make("wait", decorrelation_steps=8)
    batch.reset(out)
    for _ in range(8):
        step(batch, out)
    assert 0 < out.valid.sum() < 3 or out.ended.any()  # The episodes of some environments have ended.
    waiting = ~out.valid | out.ended
    step(batch, out)
    assert (out.valid == ~waiting).all()
    frame = out.frame.copy()
    batch.reset_waiting(out)
    playing = out.valid & ~out.ended
    assert (out.frame[playing] == frame[playing]).all()


def test_decorrelation() -> None:
    def starts(seeds: list[int]) -> list[bytes]:
        batch, out = make(decorrelation_steps=20, config=env_of(game="seaquest", noop_max=0), seeds=seeds)
        batch.reset(out)
        assert (out.age == 0).all() and not out.ended.any()
        return [frame.tobytes() for frame in out.frame]

    first = starts([1, 2, 3])
    assert first == starts([1, 2, 3]) and len(set(first)) == 3
    assert not set(first) & set(starts([4, 5]))


def test_decorrelation_resets_what_ends() -> None:
    batch, out = make(decorrelation_steps=50)  # episodes of 9 steps
    batch.reset(out)
    for _ in range(9):
        step(batch, out)
        if out.ended.any():
            break
    assert out.ended.any()


def episodes(reset: str, config: EnvConfig, steps: int = 120, pause: int = 7) -> list[list[list[tuple]]]:
    """Return the complete episodes of each environment, with actions that depend only on the environment, the episode
    and the step."""
    batch, out = make(reset, 10, config)
    batch.reset(out)
    played = [[[frame.tobytes()]] for frame in out.frame]
    for t in range(steps):
        step(batch, out, np.array([(5 * i + 3 * len(own) + len(own[-1]) // 3) % 4 for i, own in enumerate(played)]))
        for i in np.flatnonzero(out.valid):
            frame = out.final_frame[i] if out.ended[i] else out.frame[i]
            flags = (out.terminated[i], out.truncated[i], out.ended[i])
            played[i][-1].append((frame.tobytes(), float(out.reward[i]), *map(bool, flags)))
            if out.ended[i]:
                played[i].append([out.frame[i].tobytes()])
        if t % pause == pause - 1:
            waiting = ~out.valid | out.ended
            batch.reset_waiting(out)
            for i in np.flatnonzero(waiting) if reset == "wait" else ():
                played[i][-1] = [out.frame[i].tobytes()]
    return [own[:-1] for own in played]


# With a limit of 5 steps, some episodes end before the reserve environment is reset.
@pytest.mark.parametrize("limit", [25, 5])
def test_an_episode_is_the_same_in_every_mode(limit: int) -> None:
    config = env_of(game="breakout", max_episode_steps=limit, repeat_action_probability=0.25, noop_max=5)
    want = episodes("immediate", config)
    assert len({course[0] for own in want for course in own}) > 1  # starts differ
    for reset in ("wait", "swap", "cached"):  # A reset of breakout clears all state of its previous game.
        for own, expected in zip(episodes(reset, config), want, strict=True):
            n = min(len(own), len(expected))
            assert n >= 3 and own[:n] == expected[:n], reset


def test_late_resets_are_counted() -> None:
    batch, out = make("swap")  # episodes of 9 steps
    batch.reset(out)
    assert batch.late_resets == 0
    for _ in range(18):
        step(batch, out)
    # A late reset: an environment ended its second episode before its reserve environment was reset.
    assert out.ended.all() and batch.late_resets == 3
    batch.reset_waiting(out)
    for _ in range(9):
        step(batch, out)
    assert out.ended.all() and batch.late_resets == 3
    assert make()[0].late_resets == 0


@pytest.mark.parametrize("reset", ["immediate", "wait", "swap", "cached"])
def test_state_round_trip(reset: str) -> None:
    config = env_of(game="breakout", max_episode_steps=25, repeat_action_probability=0.25)
    batch, out = make(reset, 10, config)
    batch.reset(out)
    rng = np.random.default_rng(0)
    for _ in range(22):
        step(batch, out, rng.integers(4, size=3))
    states = batch.get_state()
    actions = rng.integers(4, size=(40, 3))

    def course(batch: SequentialEnv) -> list[tuple]:
        out = Step.empty(3, batch.spec)
        played = []
        for t, action in enumerate(actions):
            played.append(contents(step(batch, out, action)) + (out.valid.tobytes(),))
            if t % 10 == 9:
                batch.reset_waiting(out)
        batch.reset(out)  # decorrelation steps
        return [*played, contents(out)]

    expected = course(batch)
    other, _ = make(reset, 10, config, seeds=[7, 8, 9])
    other.set_state(states)
    assert course(other) == expected
    with pytest.raises(ValueError, match="2 states for 3"):
        batch.set_state(states[:2])
    with pytest.raises(ValueError):
        batch.set_state([states[0], states[1], states[2][:-3]])


def test_reset_starts_over_after_waiting() -> None:
    batch, out = make("wait")
    batch.reset(out)
    for _ in range(10):
        step(batch, out)
    batch.reset(out)
    assert step(batch, out).valid.all()
