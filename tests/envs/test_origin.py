"""Continuing on the other backend: the rollouts equal those of a run that never changed its backend."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.atari_games import ATARI_57, INEXACT_RESTORE
from accel_rl.envs.environment import pack_state, unpack_state
from accel_rl.envs.make import ResolvedEnv, check_switch, make_batch, make_env, played_by
from accel_rl.envs.origin import has_origin
from accel_rl.envs.sequential import RESETS, SequentialEnv
from accel_rl.text.errors import ConfigError, RunError
from tests.env_settings import env_of
from tests.marks import slow

FIELDS = ("frame", "final_frame", "age", "reward", "terminated", "truncated", "ended", "valid")


def batch(config: ResolvedEnv, backend: str, reset: str, seed: int = 5) -> SequentialEnv:
    return make_batch(replace(config, backend=backend), [seed, seed + 1], True, reset, decorrelation_steps=20)


def play(env: SequentialEnv, out: Step, first: int, last: int) -> list[tuple]:
    """Everything that every step writes, under actions that follow from its number."""
    seen = []
    for t in range(first, last):
        env.send(np.random.default_rng(t).integers(env.spec.n_actions, size=2))
        env.recv(out)
        seen.append(tuple(getattr(out, k).copy() for k in FIELDS))
        if t % 40 == 39:
            env.reset_waiting(out)
            seen.append((out.frame.copy(), out.age.copy()))
    return seen


def assert_goes_on(config: ResolvedEnv, one: str, other: str, reset: str, changes: list[int], steps: int) -> None:
    """`one` plays all; beside it they play in turns, each going on from the state of the one before."""
    whole, parts = batch(config, one, reset), batch(config, one, reset)
    out, part_out = Step.empty(2, whole.spec), Step.empty(2, whole.spec)
    whole.reset(out)
    parts.reset(part_out)
    expected = play(whole, out, 0, steps)
    got: list[tuple] = []
    for i, (first, last) in enumerate(zip([0, *changes], [*changes, steps], strict=True)):
        if i:
            states, parts = parts.get_state(), batch(config, (one, other)[i % 2], reset, seed=77)
            parts.set_state(states)
        got += play(parts, part_out, first, last)
    for t, (a, b) in enumerate(zip(expected, got, strict=True)):
        for name, x, y in zip(FIELDS, a, b, strict=False):
            assert np.array_equal(x, y), f"{config.game}, {one} and {other}, {reset}, entry {t}: {name}"


TURNS = [("emulator", "ale"), ("ale", "emulator")]
# With two changes the first order goes both ways. It loads ale-py less often.
ORDERS = [TURNS[0], slow(*TURNS[1])]
QUICK = [("immediate", *TURNS[0]), ("immediate", *TURNS[1]), ("wait", *TURNS[0])]


@pytest.mark.parametrize(
    ("reset", "one", "other"),
    [pytest.param(r, *t, marks=() if (r, *t) in QUICK else pytest.mark.slow) for r in RESETS for t in TURNS],
)
def test_it_goes_on_in_every_mode_of_reset(reset: str, one: str, other: str) -> None:
    config = env_of(game="seaquest", max_episode_steps=45, repeat_action_probability=0.25)
    assert_goes_on(config, one, other, reset, [55, 100], 150)


@pytest.mark.parametrize(("one", "other"), ORDERS)
@pytest.mark.parametrize("game", [slow("pong"), "ice_hockey"])  # in ice_hockey the RAM that a reset finds matters
def test_it_goes_on_by_every_rule(game: str, one: str, other: str) -> None:
    config = env_of(game=game, protocol="machado2018", max_episode_steps=50)
    assert_goes_on(config, one, other, "immediate", [60, 90], 120)


@pytest.mark.parametrize(("one", "other"), ORDERS)
@pytest.mark.parametrize("protocol", ["cleanrl2022", slow("cleanba2023")])
def test_it_goes_on_with_presses_before_the_agent_acts(protocol: str, one: str, other: str) -> None:
    config = env_of(game="breakout", protocol=protocol, max_episode_steps=60)
    assert_goes_on(config, one, other, "immediate", [70, 100], 130)


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), TURNS)
def test_after_many_resets(one: str, other: str) -> None:
    """Each draws the start of the console's timer, from which this game has its randomness."""
    config = env_of(game="seaquest", max_episode_steps=3)
    assert_goes_on(config, one, other, "immediate", [57, 59, 117], 130)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("game", ATARI_57)
def test_every_game_goes_on(game: str) -> None:
    for one, other in TURNS:
        for reset in RESETS:
            if reset == "cached" and game in INEXACT_RESTORE:
                continue  # ale-py's own restore leads elsewhere
            assert_goes_on(env_of(game=game, max_episode_steps=80), one, other, reset, [150, 190], 270)
        assert_goes_on(env_of(game=game, protocol="machado2018"), one, other, "immediate", [300], 400)
        assert_goes_on(env_of(game=game, max_episode_steps=4), one, other, "immediate", [90], 130)


def test_states_without_an_origin() -> None:
    """Those of earlier versions: their own backend goes on from them, the other cannot."""
    config = env_of(game="pong")
    for one, other in TURNS:
        env, frame = make_env(replace(config, backend=one), 3, True), np.zeros((104, 80), np.uint8)
        env.reset(frame)
        env.step(2, frame)
        header, blob = unpack_state(env.get_state())
        own = header.pop("origin")["own"]
        old = pack_state(header, blob[:own])
        assert has_origin(env.get_state()) and not has_origin(old)
        again, same = make_env(replace(config, backend=one), 4, True), np.zeros_like(frame)
        again.set_state(old)
        for _ in range(5):
            assert env.step(3, frame) == again.step(3, same) and (frame == same).all()
        assert not has_origin(again.get_state())  # how often its console was reset is not known any more
        with pytest.raises(ValueError, match="earlier version"):
            make_env(replace(config, backend=other), 3, True).set_state(old)


def test_an_episode_that_leads_elsewhere_is_refused() -> None:
    ours, theirs = (make_env(env_of(game="pong", backend=b), 0, True) for b in ("emulator", "ale"))
    frame = np.zeros(ours.spec.frame_shape, np.uint8)
    ours.reset(frame)
    ours.step(2, frame)
    header, blob = unpack_state(ours.get_state())
    header["origin"]["ram"] ^= 1
    with pytest.raises(RunError, match="leads elsewhere when ale plays it again"):
        theirs.set_state(pack_state(header, blob))
    with pytest.raises(ValueError, match="game='pong', this environment has 'breakout'"):
        make_env(env_of(game="breakout", backend="ale"), 0, True).set_state(ours.get_state())


def test_what_cannot_go_on_is_said_in_a_line() -> None:
    pong, qbert = (env_of(game=game, backend="emulator", randomness="sequence") for game in ("pong", "qbert"))
    assert played_by(pong, "") == pong and played_by(pong, "ale") == replace(pong, backend="ale")
    assert played_by(replace(pong, backend="ale"), "auto") == pong
    with pytest.raises(ConfigError, match="backend='al' is unknown: must be one of auto, ale, emulator; nearest: ale"):
        played_by(pong, "al")
    with pytest.raises(ConfigError, match="backend='ale' is for Atari games"):
        played_by(env_of(id="CartPole-v1"), "ale")
    with pytest.raises(ConfigError, match="game 'pacman' is not emulated: use"):
        played_by(env_of(game="pacman", backend="ale"), "emulator")
    states = make_batch(qbert, [1], True).get_state()
    check_switch(replace(qbert, backend="ale"), "wait", states)
    with pytest.raises(ConfigError, match="qbert's episodes with reset='cached' are not the same on both backends"):
        check_switch(replace(qbert, backend="ale"), "cached", states)
    header, blob = unpack_state(states[0])
    inner, parts = unpack_state(blob)
    old = pack_state(header, pack_state({k: v for k, v in inner.items() if k != "origin"}, parts))
    with pytest.raises(ConfigError, match="of an earlier version"):
        check_switch(replace(qbert, backend="ale"), "wait", [*states, old])


def test_an_action_is_a_byte() -> None:
    env = make_env(env_of(game="pong", backend="emulator"), 0, True)
    frame = np.zeros(env.spec.frame_shape, np.uint8)
    env.reset(frame)
    sizes = []
    for _ in range(3):
        sizes.append(len(unpack_state(env.get_state())[1]))
        for _ in range(50):
            env.step(0, frame)
    assert np.diff(sizes).tolist() == [50, 50]
