"""An Atari environment of ale-py: starts and ends of episodes, sticky actions, saved states."""

import numpy as np
import pytest

from accel_rl.envs.ale import AtariEnv
from accel_rl.envs.protocols import resolve
from tests.marks import slow


def make(game: str = "breakout", seed: int = 1, training: bool = True, protocol: str = "stooke2018", **overrides):
    return AtariEnv(game, resolve(protocol, overrides), seed, training)


def play(env: AtariEnv, actions: np.ndarray) -> list[tuple]:
    frame = np.zeros(env.spec.frame_shape, np.uint8)
    played = []
    for action in actions.tolist():
        played.append((*env.step(action, frame), env.lives(), frame.tobytes()))
        if played[-1][3]:
            env.reset(frame)
            played.append(("reset", env.lives(), frame.tobytes()))
    return played


def start(env: AtariEnv) -> np.ndarray:
    frame = np.zeros(env.spec.frame_shape, np.uint8)
    env.reset(frame)
    return frame


def test_spec() -> None:
    spec = make().spec
    assert (spec.name, spec.frame_shape, spec.n_actions, spec.stack) == ("breakout", (104, 80), 4, 4)
    assert spec.action_meanings == ("NOOP", "FIRE", "RIGHT", "LEFT")
    assert spec.protocol["name"] == "stooke2018" and spec.protocol["ale_py"] == "0.12.1"
    machado = make(protocol="machado2018").spec
    assert (machado.frame_shape, machado.n_actions) == ((84, 84), 18)
    assert machado.protocol["repeat_action_probability"] == 0.25


def test_loading_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    start(make("pong"))
    assert capfd.readouterr() == ("", "")


def test_lost_life_ends_the_return_in_training_alone() -> None:
    training, evaluation = make(), make(training=False)
    start(training), start(evaluation)
    fire_and_stay = np.tile([1, 0, 0], 100)
    flags = [step[1:4] for step in play(training, fire_and_stay) if step[0] != "reset"]
    lost = [f for f in flags if f == (True, False, False)]
    over = [f for f in flags if f == (True, False, True)]
    # Breakout has five lives. The loss of the last life ends the game.
    assert len(lost) == 4 * len(over) + len(lost) % 4 and len(over) >= 1
    flags = [step[1:4] for step in play(evaluation, fire_and_stay) if step[0] != "reset"]
    assert (True, False, False) not in flags and (True, False, True) in flags


def test_time_limit_truncates() -> None:
    env = make("boxing", max_episode_steps=7, max_evaluation_steps=5)
    start(env)
    steps = [s for s in play(env, np.zeros(20, int)) if s[0] != "reset"]
    assert [s[1:4] for s in steps] == ([(False, False, False)] * 6 + [(False, True, True)]) * 2 + [(False,) * 3] * 6
    env = make("boxing", training=False, max_episode_steps=7, max_evaluation_steps=5)
    start(env)
    assert [s[3] for s in play(env, np.zeros(5, int))[:5]] == [False] * 4 + [True]


def test_game_over_at_the_time_limit_is_no_truncation() -> None:
    env = make(training=False)
    start(env)
    fire_and_stay = np.tile([1, 0, 0], 100)
    steps = play(env, fire_and_stay)
    end = next(i for i, s in enumerate(steps) if s[3])
    env = make(training=False, max_evaluation_steps=end + 1)
    start(env)
    assert play(env, fire_and_stay[: end + 1])[end][1:4] == (True, False, True)


def test_noops() -> None:
    """The first frame of an episode with n initial no-ops equals the frame after n no-op frames of an episode without
    initial no-ops."""
    plain = make("freeway", noop_max=0, frame_skip=1)
    frame = start(plain)
    by_frame = {frame.tobytes(): 0}
    for n in range(1, 31):
        plain.step(0, frame)
        by_frame.setdefault(frame.tobytes(), n)
    env = make("freeway", seed=3)
    starts = [start(env).tobytes() for _ in range(20)]
    assert set(starts) <= set(by_frame)
    assert len({by_frame[s] for s in starts}) > 5


def test_seed_decides_noops_and_sticky_actions() -> None:
    actions = np.random.default_rng(0).integers(4, size=60)

    def course(seed: int) -> list[tuple]:
        env = make(seed=seed, repeat_action_probability=0.25)
        start(env)
        return play(env, actions)

    assert course(1) == course(1)
    assert course(1) != course(2)


def test_sticky_actions() -> None:
    """With a repeat probability of 1, the no-op before the first action is repeated for ever. With a repeat probability
    of 0, every action is played."""
    actions = np.tile([1, 2], 40)  # up and down

    def course(p: float) -> list[tuple]:
        env = make("freeway", noop_max=0, repeat_action_probability=p)
        start(env)
        return play(env, actions)

    env = make("freeway", noop_max=0)
    start(env)
    always = course(1.0)
    assert always == play(env, 0 * actions)
    assert len({str(c) for c in (course(0.0), course(0.25), always)}) == 3


@pytest.mark.parametrize(
    ("game", "overrides"),
    [
        ("breakout", {}),  # loses lives
        slow("seaquest", {"repeat_action_probability": 0.25}),
        ("pong", {"repeat_action_probability": 0.75, "frame": "84x84"}),
        slow("boxing", {"max_episode_steps": 40}),  # truncates
        slow("up_n_down", {"frame": "104x80-mean"}),  # runs code from RAM
        ("space_invaders", {"mode": 1, "difficulty": 1}),
        slow("freeway", {"frame_skip": 2}),
    ],
)
def test_state_round_trip(game: str, overrides: dict) -> None:
    env = make(game, **overrides)
    assert env.exact_restore
    start(env)
    rng = np.random.default_rng(7)
    other = make(game, seed=99, **overrides)
    for _ in range(2):  # from points in mid-episode
        play(env, rng.integers(env.spec.n_actions, size=int(rng.integers(5, 60))))
        state = env.get_state()
        actions = rng.integers(env.spec.n_actions, size=40)
        expected = play(env, actions)
        assert env.set_state(state) is None and play(env, actions) == expected  # the same instance
        other.set_state(state)
        assert play(other, actions) == expected  # another, wherever it was


def test_inexact_restore_is_known() -> None:
    assert not make("qbert").exact_restore


def test_state_of_another_or_corrupt_is_refused() -> None:
    env = make()
    start(env)
    state = env.get_state()
    with pytest.raises(ValueError, match="magic"):
        env.set_state(b"")
    with pytest.raises(ValueError, match="magic"):
        env.set_state(b"x" + state)
    with pytest.raises(ValueError, match="pong"):
        make("pong").set_state(state)
    for i in np.random.default_rng(0).integers(len(state), size=50):
        corrupt = bytearray(state)
        corrupt[i] ^= 0x10
        with pytest.raises(ValueError):
            env.set_state(bytes(corrupt))
    for cut in (1, 10, len(state) // 2):
        with pytest.raises(ValueError):
            env.set_state(state[:-cut])


def test_screen_rgb() -> None:
    env = make()
    start(env)
    assert env.screen_rgb().shape == (210, 160, 3) and env.screen_rgb().any()
